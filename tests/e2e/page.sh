#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The page for people shows a workload that runs, an initiator that is killed and a disk that fails; it fits a phone, and
# has a dark scheme; nothing that a peer says about itself becomes more than text, and nothing comes from elsewhere.
# Method: curl, for what is served; then a page in headless Chromium that stays open while rblkd has all of that
# (browser.sh).
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/browser.sh"
command -v curl > /dev/null || no_tool curl
work=
trap '[ -z "$work" ] || kill -KILL $work 2> /dev/null || true; browser_stop; target_stop; rm -rf "$scratch" || true' EXIT

# page_target HTTP: "disk" fails each write, "worn" each flush.
long=the-volume-of-a-data-base-with-a-name-as-long-as-some-have-it
page_target() {
	cat > "$scratch/rblkd.conf" <<-END
		[volume disk]
		path = $scratch/disk
		cache = buffered
		fault = fail=write:1
		[volume worn]
		path = $scratch/worn
		cache = buffered
		fault = fail=flush:1
	END
	target_start --config "$scratch/rblkd.conf" --http "$1" --session-time 1ms --memory ram=16M --memory "$long=1M"
	url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' "$scratch/target.log")
	[ -n "$url" ] || fail "no address in the log"
}
truncate -s 4M "$scratch/disk" "$scratch/worn"
head -c 1000448 /dev/urandom > "$scratch/file"
page_target 0
get() { curl -sS --max-time 60 "$url$1"; }
code() { curl -s -o /dev/null -w '%{http_code}' --max-time 60 "$@"; }

# -- what is served ----------------------------------------------------------------------------------

expect 0 curl -sS -D "$scratch/head" --max-time 60 "$url/"
mv "$scratch/out" "$scratch/page"
tr -d '\r' < "$scratch/head" > "$scratch/out"
out_has 'HTTP/1.1 200'
out_has 'Content-Type: text/html; charset=utf-8'
out_has 'X-Content-Type-Options: nosniff'
out_has 'Referrer-Policy: no-referrer'
out_has 'Cross-Origin-Resource-Policy: same-origin'
policy=$(sed -n 's/^Content-Security-Policy: //p' "$scratch/out")
# Its only script and its only style are allowed by their hashes, and nothing else is.
hash() {
	perl -0777 -ne "print \$1 if m{<$1>(.*?)</$1>}s" "$scratch/page" | openssl dgst -sha256 -binary | base64
}
[ "$policy" = "default-src 'none'; script-src 'sha256-$(hash script)'; style-src 'sha256-$(hash style)'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'" ] ||
	fail "the policy: $policy"
[ "$(grep -c '<script' "$scratch/page")$(grep -c '<style' "$scratch/page")" = 11 ] || fail "one script and one style"
if grep -nE 'https?://|//[a-z]|src=|href=|@import|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(' "$scratch/page" >&2; then
	fail "the page names something elsewhere, or makes markup of text"
fi
expect 0 curl -sS --max-time 60 "$url/status.json"
json_is '.state == "serving" and [.volumes[].volume] == ["disk", "ram", "'$long'", "worn"] and .sessions == [] and (.bucket_ends_ns | length) > 10 and
	(.volumes[0].latency | keys) == ["other", "read", "write"]'
# What the page does not show is not told.
json_is '(has("pid") | not) and (.volumes | all(has("path") | not))'
expect 0 curl -sS --max-time 60 "$url/events.json"
json_is '.last == 1 and (.events | length) == 1 and .events[0].event == "ready"'
expect 0 curl -sS --max-time 60 "$url/events.json?after=1"
json_is '.last == 1 and .events == []'
for wrong in -1 x 1x '' 99999999999999999999 '1%00' "$(head -c 3000 /dev/zero | tr '\0' 1)"; do
	[ "$(code "$url/events.json?after=$wrong")" = 400 ] || fail "after=$wrong is taken"
done
[ "$(code -H 'Host: rebound.example' "$url/status.json")" = 403 ] || fail "a foreign name"
[ "$(code "$url/page.html")" = 404 ] || fail "another path"

browser_find > /dev/null || no_tool "chromium-headless-shell and no chromium: what the page shows was not looked at"

# -- a workload that runs ----------------------------------------------------------------------------

browser_start
browser_call Page.navigate "{\"url\":\"$url/\"}"
shows "the state" 'document.querySelector("#state.good")?.textContent === "serving"'
shows "the volumes" '[...document.querySelectorAll("#volumes tbody tr")].map(row => row.cells[0].textContent).join() === "disk,ram,'$long',worn"'
shows "the start" '[...document.querySelectorAll("#events li")].some(li => li.textContent.includes("ready: serving 4 volumes"))'
# row TABLE NAME: an expression for the row that begins with NAME. cell TABLE NAME HEADING: for its cell of that column.
row() { printf '[...document.querySelectorAll("#%s tbody tr")].find(row => row.cells[0].textContent === "%s")' "$1" "$2"; }
cell() { printf '%s?.cells[[...document.querySelectorAll("#%s th")].findIndex(th => th.textContent === "%s")]' "$(row "$1" "$2")" "$1" "$3"; }
if [ -n "${RBLK_FIO_ENGINE:-}" ]; then
	fio --name=try --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri="$target/ram" --rblk_name=runner --thread --rw=randrw --bs=4k \
		--iodepth=4 --size=8m --time_based --runtime=1h --rate_iops=200 > "$scratch/fio" 2>&1 &
	work=$!
else
	echo "no fio engine: the workload is one copy after the other"
	while "$RBLK" copy --name runner "$scratch/file" "$target/ram"; do :; done > "$scratch/fio" 2>&1 &
	work=$!
fi
# A row's numbers, what is written over the curves, and the curves.
shows "the workload's volume" "parseFloat($(cell volumes ram IOPS).textContent) > 0 && /[1-9]/.test($(cell volumes ram Written/s).textContent)"
shows "the initiator" "$(cell sessions runner Volumes).textContent === 'ram' && $(cell sessions runner Address).textContent.startsWith('127.0.0.1')"
shows "writes a second" 'parseFloat(document.getElementById("writes").textContent) > 0'
shows "latencies" '/^[0-9.]+ (µs|ms|s)$/.test(document.getElementById("p99").textContent)'
for curve in "iops .two" "latency .two"; do
	shows "the curve $curve" "document.querySelector('#$curve').getAttribute('points').split(' ').filter(point => parseFloat(point.split(',')[1]) < 90).length > 1"
done
shows "its name" '[...document.querySelectorAll("#events li")].some(li => li.textContent.includes("session_named") && li.textContent.includes("initiator runner"))'

# -- an initiator that is killed ---------------------------------------------------------------------

# shellcheck disable=SC2046
kill -KILL $work $(pgrep -P $work)
wait $work 2> /dev/null || true
work=
shows "no initiator" "$(row sessions runner) === undefined"
shows "the end of its session" '[...document.querySelectorAll("#events li")].some(li => li.textContent.includes("session_ended") && li.textContent.includes("runner"))'
shows "that nothing is done" 'document.getElementById("reads").textContent === "0" && document.getElementById("writes").textContent === "0"'

# -- a disk that fails -------------------------------------------------------------------------------

shows "no errors yet" "$(cell volumes disk Errors).textContent === '0'"
expect 1 "$RBLK" copy --name unlucky "$scratch/file" "$target/disk"
shows "the errors" "/^[0-9]+ io/.test($(cell volumes disk Errors).textContent) && $(cell volumes disk Errors).className === 'bad'"
shows "the failure" '[...document.querySelectorAll("#events li")].some(li => li.textContent.includes("io_failed") && li.textContent.includes("volume disk: ") && li.querySelector(".bad"))'
# Somebody has it open, so that the failure stays.
mkfifo "$scratch/fifo"
"$RBLK" copy --name holder - "$target/worn" < "$scratch/fifo" > /dev/null 2>&1 &
work=$!
exec 7> "$scratch/fifo"
shows "who holds it" "$(cell sessions holder Volumes).textContent === 'worn'"
shows "a few commands as a whole number" "/^[0-9]$/.test($(cell sessions holder Commands).textContent)"
expect 1 "$RBLK" copy --name unlucky "$scratch/file" "$target/worn"
shows "a flush that has failed" "$(cell volumes worn State).textContent === 'a flush has failed'"
shows "what that means" '[...document.querySelectorAll("#events li")].some(li => li.textContent.includes("writes_lost"))'
kill -KILL $work
wait $work 2> /dev/null || true
work=
exec 7>&-

# -- what a peer says about itself -------------------------------------------------------------------

said="<img src=x onerror=\"document.title='owned'\"><b>b</b>"
"$PEER" "${target#rblk+tcp://}" hostile "$said" || fail "the peer was not taken"
shows "its words as text" "[...document.querySelectorAll('#events li')].some(li => li.textContent.includes($(jq -cn --arg said "$said" '$said')))"
shows "no markup of it" 'document.title === "rblkd" && !document.images.length && !document.querySelector("#events b") && document.scripts.length === 1'
# Were there a mistake in the page, the policy would stop it.
evaluate 'try { document.getElementById("about").innerHTML = "<b>x</b>"; "taken" } catch (error) { error.name }'
[ "$value" = TypeError ] || fail "markup is made of text: $value"

# -- a phone, and the dark scheme --------------------------------------------------------------------

for width in 320 360 1280; do
	browser_call Emulation.setDeviceMetricsOverride "{\"width\":$width,\"height\":740,\"deviceScaleFactor\":2,\"mobile\":true}"
	shows "at $width pixels" "innerWidth === $width && document.documentElement.scrollWidth === $width && document.getElementById('volumes').getBoundingClientRect().height > 50"
	# Whatever has a long name, the most important numbers need no scrolling.
	for column in State IOPS p99; do
		shows "$column at $width pixels" "[...document.querySelectorAll('#volumes th')].find(cell => cell.textContent === '$column').getBoundingClientRect().right <= $width"
	done
done
# Text is readable: WCAG's contrast of 4.5 at least, everywhere.
contrast='(() => {
	const light = color => {
		const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const back = light(getComputedStyle(document.body).backgroundColor);
	return Math.min(...[...document.querySelectorAll("body *:not(script)")].filter(e => e.textContent.trim()).map(e => {
		const front = light(getComputedStyle(e).color);
		return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
	})) >= 4.5;
})()'
for scheme in light dark; do
	browser_call Emulation.setEmulatedMedia "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$scheme\"}]}"
	shows "the $scheme scheme" "getComputedStyle(document.body).backgroundColor === '$([ $scheme = dark ] && echo 'rgb(20, 23, 27)' || echo 'rgb(255, 255, 255)')'"
	holds "$contrast" || fail "$scheme: text is hard to read: $value"
done
# The page has made no mistake so far, and asked for nothing that its policy forbids.
jq -s '[.[] | select(.method == "Runtime.exceptionThrown" or (.method == "Log.entryAdded" and .params.entry.level == "error"))] |
	map(select(.params.entry.text // "" | contains("TrustedHTML") | not))' "$scratch/browser" > "$scratch/out"
json_is '. == []'

# -- a daemon that goes, and comes back --------------------------------------------------------------

port=${url##*:}
target_stop
shows "that it is gone" 'document.querySelector("#state.bad")?.textContent === "does not answer"'
page_target "$port"
shows "that it is back" 'document.querySelector("#state.good")?.textContent === "serving"'
shows "what the next one has to say" 'document.querySelector("#events li").textContent.includes("ready: serving")'

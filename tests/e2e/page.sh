#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The page for people: its headline is what is wrong; what is in trouble comes first; a workload that runs, an initiator that is
# killed, a disk that fails and a daemon that stops are seen; curves are there on opening; it is for a desk and a phone, light and
# dark, keyboards and screen readers; nothing that a peer says about itself becomes more than text, and nothing comes from elsewhere.
# Method: curl, for what is served; then a page in headless Chromium that stays open while rblkd has all of that
# (browser.sh). $SHOTS, a folder, gets pictures of each.
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
		[initiator vault]
		secret = $scratch/vault.target
		write = ram
		[initiator *]
		address = 0.0.0.0/0
		write = *
	END
	target_start --config "$scratch/rblkd.conf" --http "$1" --session-time 1h --control-socket "$scratch/control" --memory ram=16M --memory "$long=1M"
	url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' "$scratch/target.log")
	[ -n "$url" ] || fail "no address in the log"
}
truncate -s 4M "$scratch/disk" "$scratch/worn"
head -c 1000448 /dev/urandom > "$scratch/file"
"$RBLK" key new "$scratch/vault.key" > /dev/null
cp "$scratch/vault.key" "$scratch/vault.target"
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
json_is '.state == "serving" and .host == "'"$(hostname)"'" and [.volumes[].volume] == ["disk", "ram", "'$long'", "worn"] and .sessions == [] and
	.health == "ok" and .problems == [] and (.volumes | all(has("p99_ns") and has("reads_per_s")))'
# What the page does not show is not told.
json_is '(has("pid") | not) and (.volumes | all(has("path") | not))'
# Samples are taken while nobody looks; whose curves are asked for is any words.
sampled() { curl -sS --max-time 60 "$url/status.json${1:-}" > "$scratch/out" && jq -e '.history.times_s | length > 1' "$scratch/out" > /dev/null; }
wait_for "samples" sampled
json_is '(.history.times_s | length) == (.history.p99_ns | length) and (.volumes | all(.reads_per_s == 0 and .p99_ns == null))'
sampled '?volume=ram' || fail "the curves of a volume"
for words in 'volume=nosuch' 'initiator=%00' 'proven=' "volume=$(head -c 3000 /dev/zero | tr '\0' x)" 'initiator=%22%3C'; do
	expect 0 curl -sS --max-time 60 "$url/status.json?$words"
	json_is '.history == null and .health == "ok"'
done
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

# -- how it looks ------------------------------------------------------------------------------------

# Text is readable: WCAG's contrast of 4.5 at least, everywhere.
contrast='(() => {
	const light = color => {
		const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const behind = e => { for (; e; e = e.parentElement) { const color = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(color)) return color; } };
	return [...document.querySelectorAll("body *:not(script):not(svg):not(path)")].filter(e => e.textContent.trim()).filter(e => {
		const style = getComputedStyle(e), front = light(e instanceof SVGElement ? style.fill : style.color), back = light(behind(e));
		return style.opacity !== "1" || (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05) < 4.5;
	}).map(e => e.outerHTML.slice(0, 80)).join("; ");
})()'
# Words are in one line each.
broken='(() => {
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange(), found = [];
	while (walker.nextNode()) {
		const node = walker.currentNode;
		if (node.parentElement.closest("script, svg")) continue;
		for (const word of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
			range.setStart(node, word.index);
			range.setEnd(node, word.index + word[0].length);
			if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.push(word[0]);
		}
	}
	return found.join(" ");
})()'
# For who hears it, and who has only a keyboard.
structure='(() => {
	const wrong = [], all = selector => [...document.querySelectorAll(selector)];
	if (all("h1").length !== 1 || all("h2").map(h => h.textContent.split(" ")[0]).join() !== "Volumes,Initiators,Five,Events") wrong.push("headings");
	for (const table of all("table")) {
		if (![...table.tHead.rows[0].cells].every(th => th.tagName === "TH" && th.scope === "col" && th.textContent)) wrong.push(table.id + ": headings of columns");
		if (![...table.tBodies[0].rows].every(tr => tr.cells[0].tagName === "TH" && tr.cells[0].scope === "row")) wrong.push(table.id + ": headings of rows");
		if (!table.parentElement.getAttribute("aria-labelledby") || table.parentElement.tabIndex) wrong.push(table.id + ": a name, and scrolling by keys");
	}
	for (const slider of all("[role=slider]")) if (slider.tabIndex || !slider.getAttribute("aria-label") || !slider.getAttribute("aria-valuetext")) wrong.push("a slider");
	for (const e of all("button, input")) if (!(e.textContent || e.labels && e.labels[0].textContent).trim()) wrong.push("a button without words");
	for (const e of all(".bad, .warn")) if (!/[✖▲]|error|warning|\d/.test(e.textContent)) wrong.push("only a colour: " + e.textContent);
	return wrong.join("; ");
})()'
[ -z "${SHOTS:-}" ] || mkdir -p "$SHOTS"
# scene NAME: on a desk and on a phone, in both schemes.
scene() {
	local width scheme
	for width in 360 1280; do
		for scheme in light dark; do
			browser_call Emulation.setDeviceMetricsOverride "{\"width\":$width,\"height\":740,\"deviceScaleFactor\":1,\"mobile\":$([ $width = 360 ] && echo true || echo false)}"
			browser_call Emulation.setEmulatedMedia "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$scheme\"}]}"
			shows "$1: the $scheme scheme, and nothing beyond $width pixels" "getComputedStyle(document.body).backgroundColor === '$([ $scheme = dark ] && echo 'rgb(20, 23, 27)' || echo 'rgb(255, 255, 255)')' && innerWidth === $width && document.documentElement.scrollWidth <= document.documentElement.clientWidth"
			evaluate "['contrast: ' + $contrast, 'broken: ' + $broken, 'structure: ' + $structure].filter(text => !text.endsWith(': ')).join('\n')"
			[ -z "$value" ] || fail "$1: $width pixels, $scheme: $value"
			# A picture takes seconds on a slow machine.
			case $1$width$scheme in failing* | *360dark | *1280light) [ -z "${SHOTS:-}" ] || browser_shot "$SHOTS/$1-$width-$scheme.png" ;; esac
		done
	done
	# Whatever has a long name, the most important numbers need no scrolling, on any phone.
	browser_call Emulation.setDeviceMetricsOverride '{"width":320,"height":740,"deviceScaleFactor":1,"mobile":true}'
	shows "at 320 pixels" "innerWidth === 320 && document.documentElement.scrollWidth === 320 && ['State', 'IOPS', 'p99'].every(column =>
		[...document.querySelectorAll('#volumes thead th')].find(cell => cell.textContent === column).getBoundingClientRect().right <= 320)"
	browser_call Emulation.setDeviceMetricsOverride '{"width":1280,"height":740,"deviceScaleFactor":1,"mobile":false}'
}
# row TABLE NAME: an expression for the row that begins with NAME. cell TABLE NAME HEADING: for its cell of that column.
row() { printf '[...document.querySelectorAll("#%s tbody tr")].find(row => row.cells[0].textContent === "%s")' "$1" "$2"; }
cell() { printf '%s?.cells[[...document.querySelectorAll("#%s thead th")].findIndex(th => th.textContent === "%s")]' "$(row "$1" "$2")" "$1" "$3"; }
# secured NAME: an expression for what an auditor asks of an initiator's connections.
secured() { printf '["Transport", "TLS", "Proven", "Digest"].map(heading => %s?.cells[[...document.querySelectorAll("#initiators thead th")].findIndex(th => th.textContent === heading)].textContent).join(" ")' "$(row initiators "$1")"; }
# The names of the rows, in their order.
order() { printf '[...document.querySelectorAll("#%s tbody tr")].map(row => row.cells[0].textContent).join()' "$1"; }
# event WORDS...: an expression: there is an event with all of these.
event() {
	local word all=
	for word; do all="$all && li.textContent.includes($(jq -cn --arg word "$word" '$word'))"; done
	printf '[...document.querySelectorAll("#events li")].some(li => true%s)' "$all"
}
# info BOOLEAN: whether info is shown.
info() { evaluate "(box => { if (box.checked !== $1) box.click(); })(document.getElementById('info'))"; }
# headline LEVEL PATTERN: what it begins with is the host's name, what follows is what rblkctl and /healthz say.
host=$(hostname)
headline() {
	shows "the headline: $2" "document.querySelector('#state.$1') && /^$2/.test(document.getElementById('state').textContent) && document.querySelector('h1').textContent.startsWith('$host: ')"
}

# -- a workload that runs ----------------------------------------------------------------------------

browser_start
browser_call Page.enable
browser_call Page.navigate "{\"url\":\"$url/\"}"
headline good 'ok$'
shows "the title" "document.title === '$host: ok'"
shows "the volumes" "$(order volumes) === 'disk,ram,$long,worn'"
shows "no info" "document.querySelector('#events li').textContent === 'no errors and no warnings'"
info true
shows "the start, with its zone" "$(event 'ready: serving 4 volumes' ' UTC')"
if [ -n "${RBLK_FIO_ENGINE:-}" ]; then
	fio --name=try --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri="$target/ram" --rblk_name=runner --thread --rw=randrw --bs=4k \
		--iodepth=4 --size=8m --time_based --runtime=1h --rate_iops=200 > "$scratch/fio" 2>&1 &
	work=$!
else
	echo "no fio engine: the workload is one copy after the other"
	while "$RBLK" copy --name runner "$scratch/file" "$target/ram"; do :; done > "$scratch/fio" 2>&1 &
	work=$!
fi
# Another one, of which each connection is secured; together: whether each is.
mkfifo "$scratch/vault"
"$RBLK" copy --name vault --key "$scratch/vault.key" --tls always --digest - "$target/ram" < "$scratch/vault" > "$scratch/vault.out" 2>&1 &
vault=$!
exec 6> "$scratch/vault"
# A row's numbers, what is written over the curves, and the curves.
shows "the workload's volume" "parseFloat($(cell volumes ram IOPS).textContent) > 0 && /[1-9]/.test($(cell volumes ram 'MB/s written').textContent)"
shows "the initiator" "parseFloat($(cell initiators runner IOPS).textContent) > 0 && /^[0-9.]+ (µs|ms|s)$/.test($(cell initiators runner p99).textContent) &&
	/[1-9]/.test($(cell initiators runner MB/s).textContent) && $(secured runner) === 'TCP no no no' &&
	/^[0-9]+ s$/.test($(cell initiators runner Age).textContent) && $(cell initiators runner Volumes).textContent === 'ram' && $(cell initiators runner Address).textContent === '127.0.0.1'"
shows "one that is secured" "$(secured vault) === 'TCP yes yes yes' && /^[0-9]+ s$/.test($(cell initiators vault Age).textContent)"
shows "paths that differ" '[transport(2, 2), transport(1, 3), transport(0, 0), part(1, 3), part(0, 0)].join() === "RDMA,1 RDMA, 2 TCP,-,1 of 3,-"'
for n in 1 2 3; do
	figure="#curves figure:nth-of-type($n)"
	shows "the curve $n" "document.querySelector('$figure path.two').getAttribute('d').split(/[ML]/).length > 2 && /[1-9]/.test(document.querySelector('$figure .two b').textContent)"
	# Axes: three values with their unit where they have one, and times of the clock.
	shows "its axes" "(labels => labels.length === 3 && labels[0].startsWith('0') || labels[0] === '0 µs')([...document.querySelectorAll('$figure text[text-anchor=end]')].map(text => text.textContent)) &&
		[...document.querySelectorAll('$figure text[text-anchor=middle]')].every(text => /^[0-9][0-9]:[0-9][0-9]$/.test(text.textContent)) && document.querySelectorAll('$figure text[text-anchor=middle]').length >= 5"
done
shows "units" '/MB\/s$/.test(document.querySelector("#curves figure:nth-of-type(2) text:last-of-type, #curves figure:nth-of-type(2) text").textContent)'
shows "its name" "$(event session_named 'initiator runner')"
shows "the zone of all curves" "document.querySelector('#curves h2').textContent.startsWith('Five minutes (UTC) of the whole target')"
scene serving
# On a desk no column of a short name's row is out of sight.
shows "all columns" "innerWidth >= 1000 && [...document.querySelectorAll('.wide')].every(wide => wide.scrollWidth <= wide.clientWidth)"
exec 6>&-
wait $vault || fail "the secured copy: $(cat "$scratch/vault.out")"
shows "it has gone" "$(row initiators vault) === undefined"

# A cursor reads values, by keys and by a pointer.
key() {
	browser_call Input.dispatchKeyEvent "{\"type\":\"keyDown\",\"key\":\"$1\",\"code\":\"$1\",\"windowsVirtualKeyCode\":$2${3:-}}"
	browser_call Input.dispatchKeyEvent "{\"type\":\"keyUp\",\"key\":\"$1\",\"code\":\"$1\",\"windowsVirtualKeyCode\":$2}"
}
evaluate 'document.querySelector("#curves svg").focus()'
key ArrowLeft 37
shows "values at a time" '/at [0-9:]{8} UTC$/.test(document.querySelector("figcaption").textContent) && /^[0-9:]{8} UTC: reads .*, writes /.test(document.activeElement.getAttribute("aria-valuetext")) &&
	document.querySelectorAll("path.at").length === 3'
key Escape 27
shows "the last values" 'document.querySelectorAll("path.at").length === 0 && /last [0-9:]{8} UTC$/.test(document.querySelector("figcaption").textContent)'
evaluate '(box => [box.right - 40, box.top + 30].join(" "))(document.querySelector("#curves svg").getBoundingClientRect())'
browser_call Input.dispatchMouseEvent "{\"type\":\"mouseMoved\",\"x\":${value% *},\"y\":${value#* }}"
shows "values under a pointer" 'document.querySelectorAll("path.at").length === 3'
browser_call Input.dispatchMouseEvent '{"type":"mouseMoved","x":5,"y":5}'
shows "no pointer" 'document.querySelectorAll("path.at").length === 0'

# A volume's own curves, and an initiator's, by keys; a reload forgets neither that nor the samples.
evaluate "$(cell volumes worn Volume).firstChild.focus()"
key Enter 13 ',"text":"\r"'
shows "an idle volume's curves" "document.getElementById('whose').textContent === 'volume worn' && samples?.reads_per_s.every(v => !v) && $(row volumes worn).classList.contains('chosen')"
shows "who is at a row stays there" 'document.activeElement.textContent === "worn" && document.activeElement.getAttribute("aria-pressed") === "true"'
evaluate "$(cell initiators runner Initiator).firstChild.click()"
shows "an initiator's curves" "document.getElementById('whose').textContent === 'initiator runner' && samples?.reads_per_s.some(v => v > 0)"
evaluate 'samples.times_s[0]'
first=$value
browser_call Page.reload
shows "the same curves, at once" "document.getElementById('whose')?.textContent === 'initiator runner' && typeof samples === 'object' && samples?.times_s[0] <= $first"
evaluate 'document.getElementById("all").click()'
shows "the target's curves" "document.getElementById('whose').textContent === 'the whole target' && document.getElementById('all').hidden"
info true

# -- an initiator that is killed ---------------------------------------------------------------------

# shellcheck disable=SC2046
kill -KILL $work $(pgrep -P $work)
wait $work 2> /dev/null || true
work=
shows "that it is waited for" "/^▲ waits for its client, (60|5[0-9]) min left$/.test($(cell initiators runner State).textContent)"
headline warn '▲ 1 problem: initiator runner: its connections are lost, its session waits for it '
shows "that nothing is done" "$(cell volumes ram IOPS).textContent === '0' && $(cell volumes ram p99).textContent === '-'"
scene killed
expect 0 "$RBLKCTL" kick runner --socket "$scratch/control"
shows "no initiator" "$(row initiators runner) === undefined"
shows "the end of its session" "$(event session_ended runner)"
headline good 'ok$'

# -- a disk that fails -------------------------------------------------------------------------------

info false
shows "no errors yet" "$(cell volumes disk Errors).textContent === '0' && $(cell volumes disk State).textContent === 'ok'"
for _ in 1 2; do expect 1 "$RBLK" copy --name unlucky "$scratch/file" "$target/disk"; done
shows "the errors" "/^[0-9]+ io/.test($(cell volumes disk Errors).textContent) && $(cell volumes disk Errors).className === 'bad' && $(cell volumes disk State).textContent === '✖ failing'"
# Like ones are one row.
shows "the failures" "[...document.querySelectorAll('#events li')].filter(li => li.textContent.includes('io_failed') && li.textContent.includes('volume disk: ')).length === 1 &&
	[...document.querySelectorAll('#events li')].some(li => /^✖ error [0-9]+ (since [0-9:]{8} UTC, last|at) [0-9:]{8} UTCio_failedvolume disk: .*WRITE/.test(li.textContent))"
headline bad '✖ 1 problem: volume disk: [0-9]+ commands failed since [0-9:]{8} UTC \([0-9]+ writes\), the last at [0-9:]{8} UTC: '
# Somebody has it open, so that the failure stays.
mkfifo "$scratch/fifo"
"$RBLK" copy --name holder - "$target/worn" < "$scratch/fifo" > /dev/null 2>&1 &
work=$!
exec 7> "$scratch/fifo"
shows "who holds it" "$(cell initiators holder Volumes).textContent === 'worn'"
expect 1 "$RBLK" copy --name unlucky "$scratch/file" "$target/worn"
shows "a flush that has failed" "/^✖ a flush has failed, failing/.test($(cell volumes worn State).textContent)"
shows "what that means" "$(event error writes_lost)"
shows "what is in trouble first" "$(order volumes) === 'disk,worn,ram,$long'"
headline bad '✖ 3 problems$'
curl -s --max-time 60 "$url/healthz" > "$scratch/out" || true
shows "all of them" "document.title === '$host: 3 problems' && [...document.querySelectorAll('#problems li')].every(li => li.textContent.startsWith('✖ error: ')) &&
	'3 problems: ' + [...document.querySelectorAll('#problems li')].map(li => li.textContent.replace('✖ error: ', '')).join('; ') === $(jq -cRs 'rtrimstr("\n")' "$scratch/out")"
scene failing

# -- what a peer says about itself -------------------------------------------------------------------

said="<img src=x onerror=\"document.title='owned'\"><b>b</b>"
"$PEER" "${target#rblk+tcp://}" hostile "$said" || fail "the peer was not taken"
info true
shows "its words as text" "$(event "$said")"
shows "no markup of it" "document.title === '$host: 3 problems' && !document.images.length && !document.querySelector('#events b') && document.scripts.length === 1"
# Were there a mistake in the page, the policy would stop it.
evaluate 'try { document.getElementById("about").innerHTML = "<b>x</b>"; "taken" } catch (error) { error.name }'
[ "$value" = TypeError ] || fail "markup is made of text: $value"
# The page has made no mistake so far, and asked for nothing that its policy forbids.
jq -s '[.[] | select(.method == "Runtime.exceptionThrown" or (.method == "Log.entryAdded" and .params.entry.level == "error"))] |
	map(select(.params.entry.text // "" | contains("TrustedHTML") | not))' "$scratch/browser" > "$scratch/out"
json_is '. == []'

# -- a daemon that goes, and comes back --------------------------------------------------------------

kill -KILL $work
wait $work 2> /dev/null || true
work=
exec 7>&-
port=${url##*:}
target_stop
headline bad '✖ does not answer$'
shows "since when" "document.title === '$host: does not answer' && /^last answer [0-9:]{8} UTC;/.test(document.getElementById('last').textContent) && !document.getElementById('last').hidden"
# Grey, all of it.
shows "old figures" '[...document.querySelectorAll("main td, main button, #problems li, path.one")].every(e => getComputedStyle(e).color === getComputedStyle(document.getElementById("about")).color)'
scene stopped
page_target "$port"
# The holder's session had not closed the volume.
headline bad '✖ 1 problem: volume worn: a flush failed at [0-9:]+ UTC, FLUSH is refused until a session has opened and closed it'
shows "figures again" '!document.body.classList.contains("stale") && document.getElementById("last").hidden'
shows "what the next one has to say" "$(event 'ready: serving') && document.querySelectorAll('#events li').length === 1"
expect 0 "$RBLK" info "$target/worn"
headline good 'ok$'

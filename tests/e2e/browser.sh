# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# A headless Chromium with one page, directed through two pipes by the DevTools protocol: messages of JSON that end in a
# zero byte. Sourced by tests that have cmd.sh; after browser_start, $value is what the last evaluation gave, and
# $scratch/browser has everything that the page complained about.

# The name of the program, if there is one: Debian's chromium-headless-shell, or chromium.
browser_find() { command -v chromium-headless-shell || command -v chromium; }

browser_pid=
browser_session=
browser_number=0

browser_start() {
	mkfifo "$scratch/to" "$scratch/from"
	exec 8<> "$scratch/to" 9<> "$scratch/from"
	# Without a sandbox: tests may run as root, and this browser sees no page but ours.
	# In a session of its own: Debian's program is a script, whose child would outlive it. Each pipe has only the end that
	# the browser uses, so that it ends by itself when the test is killed.
	HOME=$scratch setsid "$(browser_find)" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
		--user-data-dir="$scratch/profile" --remote-debugging-pipe about:blank 3< "$scratch/to" 4> "$scratch/from" 8<&- 9>&- > "$scratch/browser.log" 2>&1 &
	browser_pid=$!
	: > "$scratch/browser"
	browser_call Target.createTarget '{"url":"about:blank"}'
	browser_call Target.attachToTarget "{\"targetId\":$(jq .result.targetId <<< "$browser_answer"),\"flatten\":true}"
	browser_session=$(jq -r .result.sessionId <<< "$browser_answer")
	browser_call Runtime.enable
	browser_call Log.enable
}

browser_stop() {
	[ -n "$browser_pid" ] || return 0
	kill -KILL -- "-$browser_pid" 2> /dev/null || true
	wait "$browser_pid" 2> /dev/null || true
	browser_pid=
}

# browser_call METHOD [PARAMS]: the answer in $browser_answer. What comes before it are events of the page.
browser_call() {
	local params=${2:-} session= about=
	[ -n "$params" ] || params='{}'
	[ -z "$browser_session" ] || session=",\"sessionId\":\"$browser_session\""
	browser_number=$((browser_number + 1))
	printf '{"id":%s,"method":"%s","params":%s%s}\0' "$browser_number" "$1" "$params" "$session" >&8
	while IFS= read -r -d '' -t 300 -u 9 browser_answer; do
		about=$(jq -r '"\(.id // 0) \(has("error"))"' <<< "$browser_answer")
		[ "${about% *}" != "$browser_number" ] || break
		printf '%s\n' "$browser_answer" >> "$scratch/browser"
		browser_answer=
	done
	[ -n "$browser_answer" ] || fail "the browser does not answer $1: $(tail -n 5 "$scratch/browser.log")"
	[ "${about#* }" = false ] || fail "$1: $browser_answer"
}

# evaluate EXPRESSION: of JavaScript, in the page; a failure of it is $value, too.
evaluate() {
	browser_call Runtime.evaluate "$(jq -cn --arg text "$1" '{expression: $text, returnByValue: true}')"
	value=$(jq -r '.result | if .exceptionDetails then .exceptionDetails.exception.description else .result.value end' <<< "$browser_answer")
}
holds() { evaluate "$1" && [ "$value" = true ]; }

# shows WHAT EXPRESSION: waits until it is true in the page.
shows() {
	wait_for "the page: $1" holds "$2"
}

# browser_shot FILE: a picture of the whole page, for people: no test compares it.
browser_shot() {
	browser_call Page.captureScreenshot '{"format":"png","captureBeyondViewport":true}'
	jq -r .result.data <<< "$browser_answer" | base64 -d > "$1"
}

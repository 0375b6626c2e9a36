#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a person wants to know is an event: in memory, for rblkctl events, and in the journal with its fields.
# Method: a session, a killed initiator, a volume that is not there, a disk that fails, a flood of failures with a follower
# that stands still, and a drain; a socket in the journal's place (journal.c), which then does not read.
. "$(dirname "$0")/cmd.sh"
socket=$scratch/control
"$JOURNAL" "$scratch/journal" "$scratch/entries" &
journal=$!
follow=
trap 'kill -KILL $journal $follow 2> /dev/null || true; wait $journal $follow 2> /dev/null || true; target_stop; rm -rf "$scratch"' EXIT
has_socket() { [ -S "$scratch/journal" ]; }
wait_for "the journal" has_socket
# events FILTER: what rblkctl events --json has makes this jq filter of the array true.
events() { "$RBLKCTL" events --socket "$socket" --json | jq -e ".events | $1" > "$scratch/json"; }
is() { events "$1" || fail "not true of the events: $1: $("$RBLKCTL" events --socket "$socket")"; }
# entry TEXT...: one entry of the journal has all of these lines.
entry() {
	awk -v RS= -v ORS='\n\n' '1' "$scratch/entries" > "$scratch/all"
	for text; do awk -v RS= -v ORS='\n\n' -v text="$text" 'index("\n" $0 "\n", "\n" text "\n")' "$scratch/all" > "$scratch/some"; mv "$scratch/some" "$scratch/all"; done
	[ -s "$scratch/all" ]
}

truncate -s 4M "$scratch/disk"
head -c 100000 /dev/urandom > "$scratch/file"
target_start --control-socket "$socket" --journal "$scratch/journal" --session-time 1ms --cache buffered --memory ram=1M \
	--fault fail=write:1 "$scratch/disk"
# The line of the log comes a moment before.
begun() { events 'length == 1'; }
wait_for "the first event" begun
is '.[0].event == "ready" and .[0].number == 1 and .[0].level == "info" and (.[0].message | startswith("ready: serving 2 volumes"))'
is '.[0].time | fromdateiso8601? // (.[:19] + "Z" | fromdateiso8601) | . > (now - 3600) and . <= now + 1'
expect 1 "$RBLK" copy --name writer "$scratch/file" "$target/disk"
is 'any(.event == "session_named" and .initiator == "writer" and (.address | startswith("127.0.0.1")))'
is 'any(.event == "io_failed" and .volume == "disk" and .errno == 5 and .error == "EIO" and .level == "error")'
ended() { events 'any(.event == "session_ended" and .initiator == "writer")'; }
wait_for "the session's end" ended
# A sentence for people; the log has what developers ask for.
is 'any(.event == "session_ended" and .initiator == "writer" and (.message | test("^writer logged out: wrote 0 B, read [0-9]+ B in [0-9]+ s \\(session [0-9]+, 127\\.0\\.0\\.1:[0-9]+\\)$")))'
expect 1 "$RBLK" info --name stranger "$target/none"
strange() { events 'any(.event == "session_ended" and (.message | test("^stranger logged out, and has opened no volume \\(session [0-9]+, 127")))'; }
wait_for "who has opened nothing" strange
said() { grep -qE 'writer: logged out: [0-9]+ commands, [0-9.]+ [KMG]?i?B read, 0 B written, .* messages a command \(in .*\), [0-9.]+(us|ms|s) queued, [0-9.]+(us|ms|s) stored$' "$scratch/target.log"; }
wait_for "the log's line, with units" said
# The same in the journal, in words and as JSON.
io() { entry RBLK_EVENT=io_failed RBLK_VOLUME=disk ERRNO=5 PRIORITY=3 SYSLOG_IDENTIFIER=rblkd; }
wait_for "the journal's entry" io
sed -n '/^RBLK_JSON=/{s///p;q}' "$scratch/all" > "$scratch/out"
json_is '.event == "io_failed" and .volume == "disk" and .errno == 5'
grep -qE '^MESSAGE_ID=[0-9a-f]{32}$' "$scratch/all" || fail "no MESSAGE_ID"
named() { entry RBLK_EVENT=session_named RBLK_INITIATOR=writer PRIORITY=6; }
wait_for "the journal's entry of the session" named
[ "$(sed -n 's/^MESSAGE_ID=//p' "$scratch/entries" | sort -u | wc -l)" = "$(sed -n 's/^RBLK_EVENT=//p' "$scratch/entries" | sort -u | wc -l)" ] ||
	fail "an ID for each kind"
grep -q '^WRONG' "$scratch/entries" && fail "an entry that is not fields"

# -- following, and text --------------------------------------------------------------------------

"$RBLKCTL" events --socket "$socket" --follow --json > "$scratch/followed" 2> "$scratch/follow.err" &
follow=$!
followed() { jq -e -s "any($1)" "$scratch/followed" > /dev/null 2>&1; }
wait_for "the old events" followed '.event == "ready"'
copy_start --name victim - "$target/ram"
wait_for "the session, followed" followed '.event == "session_named" and .initiator == "victim"'
kill -KILL $copy
wait $copy 2> /dev/null || true
exec 7>&-
wait_for "the killed initiator" followed '.event == "session_ended" and .initiator == "victim"'
expect 0 "$RBLKCTL" events --socket "$socket"
out_has 'io_failed'
out_has 'initiator victim'
expect 0 "$RBLKCTL" events --socket "$socket" --each
[ "$(wc -l < "$scratch/out")" = "$(events length; cat "$scratch/json")" ] || fail "a line for each"
# Only some of them.
chosen() { expect 0 "$RBLKCTL" events --socket "$socket" --json "$@"; }
chosen --level error
json_is '(.events | length) > 0 and all(.events[]; .level == "error")'
chosen --level warning --volume disk
json_is '(.events | length) > 0 and all(.events[]; .volume == "disk" and .level != "info")'
chosen --initiator victim
json_is '(.events | length) >= 2 and all(.events[]; .initiator == "victim")'
chosen --since 1h
json_is 'any(.events[]; .event == "ready")'
chosen --initiator nobody
json_is '.events == []'
expect 2 "$RBLKCTL" events --socket "$socket" --level loud
err_has '--level: "loud" is not one of error warning info debug'

# -- a flood, and who follows slowly ---------------------------------------------------------------

# A follower that stands still holds up nobody, and misses nothing that is still kept. More failures than are kept in a
# second, of each copy alone, because a slow machine begins one in a second: the next one counts them, and other kinds
# still have room.
kill -STOP $follow
head -c 4M /dev/urandom > "$scratch/large"
copies=()
flooded() {
	for _ in 1 2 3 4 5; do "$RBLK" copy --name flood --chunk 4K --depth 64 "$scratch/large" "$target/disk" > /dev/null 2>&1 & copies+=($!); done
	for copy in "${copies[@]}"; do wait "$copy" || true; done
	copies=()
	events 'any(.event == "io_failed" and .suppressed > 0)'
}
wait_for "an event that counts others" flooded
unused() { "$RBLKCTL" sessions --socket "$socket" --json | jq -e '.sessions == []' > "$scratch/json"; }
wait_for "the end of the copies' sessions" unused
is '[.[] | select(.event == "io_failed") | .time[:19]] | group_by(.) | all(length <= 20)'
is '[.[].number] | . == sort and length == (unique | length) and length <= 1000'
is 'any(.event == "session_named" and .initiator == "flood")'
# Like ones are a line, which counts them; those that were not kept, by themselves: they may have been of another volume.
failures=$(events '[.[] | select(.event == "io_failed")] | length' && cat "$scratch/json")
lost=$(events '[.[] | select(.event == "io_failed") | .suppressed // 0] | add' && cat "$scratch/json")
expect 0 "$RBLKCTL" events --socket "$socket" --level error
[ "$(wc -l < "$scratch/out")" = 1 ] || fail "one line"
grep -qE "io_failed .* \(and $((failures - 1)) like it since 20[0-9T:.-]+Z\) \($lost more of its kind were not kept\)$" "$scratch/out" || fail "$failures failures"
last=$(events '.[-1].number' && cat "$scratch/json")
kill -CONT $follow
wait_for "what it has not followed yet" followed ".number == $last"
jq -e -s '[.[].number] | . == [range(1; length + 1)]' "$scratch/followed" > "$scratch/out" || fail "it has missed some, or got them twice"
# Where there is no daemon, that is said.
expect 1 "$RBLKCTL" events --socket "$scratch/none"
"$RBLKCTL" drain --socket "$socket"
wait $target_pid || fail "rblkd: status $?"
target_pid=
wait $follow && fail "following ends with the daemon, and fails"
grep -q 'the daemon has closed the connection' "$scratch/follow.err" || fail "why it ended"
draining() { entry RBLK_EVENT=draining; }
wait_for "the end, in the journal" draining

# -- a journal that does not read, and none ----------------------------------------------------------

# I/O goes on, and later the journal has every event of this daemon, once and in order.
kill -STOP $journal
skip=$(stat -c %s "$scratch/entries")
cat > "$scratch/rblkd.conf" <<-END
	[volume closed]
	store = memory
	size = 1M
	[initiator other]
	address = 192.0.2.1
	read = closed
END
target_start --config "$scratch/rblkd.conf" --control-socket "$socket" --journal "$scratch/journal" --session-time 1ms \
	--cache buffered --fault fail=write:1 "$scratch/disk"
for i in $(seq 5); do expect 1 "$RBLK" copy --name "n$i" "$scratch/large" "$target/disk"; done
expect 1 "$RBLK" info --name stranger "$target/closed"
is 'any(.event == "refused" and .volume == "closed" and .initiator == "stranger" and .error == "EACCES" and .level == "warning")'
is 'length > 10'
last=$(events '.[-1].number' && cat "$scratch/json")
kill -CONT $journal
sent() {
	tail -c +$((skip + 1)) "$scratch/entries" | sed -n 's/^RBLK_JSON=//p' > "$scratch/sent"
	jq -e -s "length >= $last and [.[].number] == [range(1; length + 1)]" "$scratch/sent" > /dev/null
}
wait_for "all in the journal" sent
refused() { entry RBLK_EVENT=refused RBLK_VOLUME=closed RBLK_INITIATOR=stranger ERRNO=13 PRIORITY=4; }
wait_for "the refusal in the journal" refused
target_stop
for path in "$scratch/nowhere" none; do
	target_start --control-socket "$socket" --journal "$path" --memory ram=1M
	wait_for "an event without a journal" begun
	target_stop
done
# A daemon that ends before it has read a request has closed the connection, too.
target_start --control-socket "$socket" --memory ram=1M
kill -STOP $target_pid
"$RBLKCTL" events --socket "$socket" 2> "$scratch/reset" &
asks=$!
unread() { grep -q '^State:.S' /proc/$asks/status && [[ $(readlink /proc/$asks/fd/*) == *socket:* ]]; }
wait_for "a request that is not read" unread
target_stop -KILL
wait $asks && fail "an answer of nobody"
grep -q 'the daemon has closed the connection' "$scratch/reset" || fail "why: $(cat "$scratch/reset")"
# An address of IPv4 is one, also where the target listens on all.
target_listen=rblk+tcp://:0 target_start --control-socket "$socket" --memory ram=1M
expect 0 "$RBLK" copy --name v4 "$scratch/file" "rblk+tcp://127.0.0.1:${target##*:}/ram"
log_has ' [127.0.0.1:'
is 'any(.event == "session_named" and .initiator == "v4" and (.address | test("^127\\.0\\.0\\.1:[0-9]+$")))'
target_stop
expect 2 timeout 60 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state" --control-socket none --memory ram=1M \
	--journal "/$(head -c 200 /dev/zero | tr '\0' a)"
err_has '--journal: longer than'

# -- systemd's own journal --------------------------------------------------------------------------

# A journald of this test's, with its files in the scratch folder; it reads nothing of this machine.
if [ ! -x /lib/systemd/systemd-journald ] || [ ! -s /etc/machine-id ] || ! unshare -m true 2> /dev/null; then
	echo "SKIPPED: systemd-journald, which needs root and a machine-id: only journal.c was in its place"
	exit 0
fi
mkdir -p "$scratch"/run/systemd/{journal,journald.conf.d} "$scratch/run/log/journal"
printf '[Journal]\n%s\n' Storage=volatile Audit=no ReadKMsg=no ForwardToSyslog=no ForwardToWall=no ForwardToConsole=no \
	ForwardToKMsg=no > "$scratch/run/systemd/journald.conf.d/test.conf"
# shellcheck disable=SC2016
unshare -m sh -c 'mount --bind "$0/run" /run && exec /lib/systemd/systemd-journald' "$scratch" 2> "$scratch/journald.log" &
kill -KILL $journal
journal=$!
has_real() { [ -S "$scratch/run/systemd/journal/socket" ]; }
wait_for "systemd-journald" has_real
target_start --control-socket "$socket" --journal "$scratch/run/systemd/journal/socket" --cache buffered --fault fail=write:1 "$scratch/disk"
expect 1 "$RBLK" copy --name unlucky "$scratch/file" "$target/disk"
found() { journalctl -q -D "$scratch"/run/log/journal/* -o json "$@" > "$scratch/out" 2> "$scratch/err" && [ -s "$scratch/out" ]; }
wait_for "the failure" found RBLK_EVENT=io_failed RBLK_VOLUME=disk ERRNO=5 PRIORITY=3
head -n 1 "$scratch/out" > "$scratch/entry"
mv "$scratch/entry" "$scratch/out"
json_is '.SYSLOG_IDENTIFIER == "rblkd" and ._COMM == "rblkd" and (.MESSAGE | contains("disk")) and (.RBLK_JSON | fromjson | .event == "io_failed" and .volume == "disk")'
# As the manual says: one field with several values is any of them.
wait_for "who it was" found RBLK_EVENT=session_named RBLK_EVENT=refused RBLK_INITIATOR=unlucky
target_stop
# With its log there, too, each event is one entry.
printf '#!/bin/sh\nexec unshare -m sh -c '"'"'mount --bind "$0/run" /run && exec systemd-cat --level-prefix=yes "$@"'"'"' "%s" "%s" "$@"\n' \
	"$scratch" "$RBLKD" > "$scratch/rblkd"
chmod +x "$scratch/rblkd"
"$scratch/rblkd" --listen rblk+tcp://127.0.0.1:0 --state-dir none --reservations-dir none --control-socket "$scratch/twice" \
	--memory once=1M &
target_pid=$! target_was=$!
twice() { "$RBLKCTL" status --socket "$scratch/twice" > "$scratch/out" 2>&1; }
wait_for "the daemon whose log is the journal" twice
target_stop
wait_for "the drain" found RBLK_EVENT=draining "_PID=$target_was"
found "_PID=$target_was"
[ "$(jq -r .MESSAGE "$scratch/out" | grep -c '^ready: ')" = 1 ] || fail "an event twice, or not at all"

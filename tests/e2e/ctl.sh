#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rblkctl tells what the daemon is and has done, exactly, and directs it; and its manual has its verbs and
# options. Method: commands whose operations and bytes are known; a failing volume; a load for the live
# table, on a pipe and on terminals of several widths; a second daemon; wrong command lines.
. "$(dirname "$0")/cmd.sh"
socket=$scratch/control
ctl() { local verb=$1; shift; "$RBLKCTL" "$verb" --socket "$socket" "$@"; }
# asked FILTER VERB OPTION...: this jq filter is true for what the verb prints as JSON.
asked() {
	local filter=$1 verb=$2
	shift 2
	expect 0 "$RBLKCTL" "$verb" --socket "$socket" --json "$@"
	json_is "$filter"
}

# comes FILTER: this becomes true for what volumes prints; an answer may be a tenth of a second old.
comes() { wait_for "$1" eval "ctl volumes --json | jq -e '$1' > '$scratch/json'"; }

# -- without a daemon ------------------------------------------------------------------------------

expect 1 "$RBLKCTL" status --socket "$socket"
err_has "rblkctl: $socket: No such file or directory: no rblkd listens there"
expect 1 "$RBLKCTL" status --socket "$socket" --json
json_is '.errors | length == 1'
expect 2 "$RBLKCTL"
expect 2 "$RBLKCTL" frobnicate
err_has 'unknown verb "frobnicate"'
expect 2 "$RBLKCTL" status --frobnicate
err_has 'unknown option --frobnicate; see rblkctl status --help'
expect 2 "$RBLKCTL" volume
err_has 'unknown verb "volume"; did you mean "volumes"?'
expect 2 "$RBLKCTL" foo
err_has 'unknown verb "foo"; see rblkctl --help'
expect 2 "$RBLKCTL" top --intervall=2
err_has 'top: unknown option --intervall=2; did you mean "--interval"?'
expect 2 "$RBLKCTL" status more
err_has 'usage: rblkctl status [OPTION]...'
expect 2 "$RBLKCTL" top --interval soon
err_has '--interval: "soon" is not a time'
expect 2 "$RBLKCTL" top --interval 1ms
err_has '--interval: "1ms" is not a time from 100ms to 1h'
expect 2 "$RBLKCTL" top --sort size
err_has '--sort: "size" is not one of iops bytes'
expect 2 "$RBLKCTL" top --count
err_has '--count: COUNT is missing'

# -- the manual ------------------------------------------------------------------------------------

manual=$(dirname "$0")/../../target/man/rblkctl.1.scd
options_of() { awk -v want="# $1" '/^# / { on = $0 == want } on && /^\*-/' "$manual" | grep -oE -- '--[a-z-]+' | sort; }
expect 0 "$RBLKCTL" --help
verbs=$(sed -nE 's/^  ([a-z-]+) .*/\1/p' "$scratch/out")
for verb in $verbs; do
	grep -q "^\*rblkctl $verb\*" "$manual" || fail "the manual's synopsis lacks $verb"
	case $verb in help | version) continue ;; esac
	expect 0 "$RBLKCTL" "$verb" --help
	sed -nE 's/^  -[a-zA-Z], (--[a-z-]+).*/\1/p' "$scratch/out" | sort > "$scratch/has"
	[ -s "$scratch/has" ] || fail "$verb --help shows no options"
	# The second of two options of one name could never be given.
	twice=$(uniq -d "$scratch/has"; sed -nE 's/^  (-[a-zA-Z]),.*/\1/p' "$scratch/out" | sort | uniq -d)
	[ -z "$twice" ] || fail "$verb has two options " $twice
	printf '%s\n' "$(options_of DESCRIPTION)" "$(options_of "${verb^^}")" | sed '/^$/d' | sort > "$scratch/told"
	diff "$scratch/has" "$scratch/told" >&2 || fail "$verb: --help has (<) and the manual has (>)"
done
for verb in $(sed -nE 's/^\*rblkctl ([a-z-]+)\*.*/\1/p' "$manual"); do
	grep -qw -- "$verb" <<< "$verbs" || fail "the manual has $verb, the program has not"
done

# -- what is counted -------------------------------------------------------------------------------

truncate -s 4M "$scratch/disk"
head -c 1000448 /dev/urandom > "$scratch/file"
target_start --control-socket "$socket" --reactors 2 --session-time 1ms --cache buffered --memory-lock=no \
	--memory ram=1G "$scratch/disk"
asked '.state == "serving" and .volumes == 2 and .sessions == 0 and .log_level == "info" and .reactors_silent == 0 and
	(.reactors | length) == 2 and .errors == [] and (.addresses | length) == 1' status
[ "$(jq -r '.addresses[0]' "$scratch/out")" = "$target" ] || fail "the address"
asked '[.volumes[].volume] == ["disk", "ram"] and .volumes[0].bytes == 4194304 and .volumes[0].opens == 0' volumes
expect 0 "$RBLK" copy "$scratch/file" "$target/disk"
# The copy has read it back by CHECKSUM, and flushed.
comes '.volumes[0] | .written_bytes == 1000448 and .read_bytes == 0 and .operations.write > 0 and .operations.flush >= 1 and
	.operations.checksum >= 1 and .errors == {}'
asked '.volumes[1].operations | add == 0' volumes
expect 0 "$RBLK" copy --size 1000448 "$target/disk" "$scratch/back"
cmp "$scratch/file" "$scratch/back" || fail "data"
comes '.volumes[0] | .written_bytes == 1000448 and .read_bytes == 1000448'
expect 1 "$RBLK" info "$target/none"
# A connection's end is counted when the target has seen it, and a session without connections is kept for a moment.
quiet() { "$RBLKCTL" status --socket "$socket" --json | jq -e '.sessions == 0 and .logins.accepted >= 3 and
	.connection_ends.disconnected >= 3' > "$scratch/json"; }
wait_for "the end of sessions" quiet
asked '.connection_ends.violation == 0' status
expect 0 "$RBLKCTL" status --socket "$socket"
grep -qE ': serving for [0-9]+ s$' "$scratch/out" || fail "how long it has served"
out_has "volumes: 2; sessions: 0; connections: 0; log level: info"
expect 0 "$RBLKCTL" volumes --socket "$socket"
out_has '977 KiB  977 KiB       0        0     0us  ok'

# A list without entries is a sentence.
says() { local text=$1; shift; expect 0 "$RBLKCTL" "$@" --socket "$socket"; [ "$(tail -n +"${from:-1}" "$scratch/out")" = "$text" ] || fail "$*"; }
says 'no sessions' sessions
says 'no registrations' reservations
says 'no events' events --volume nobody
from=2 says 'no session has a volume open' top --count 1 --interval 100ms
from=2 says "no row has the filter's text" top --count 1 --interval 100ms --filter nobody

# A session that stays, and has a name that could be dangerous on a terminal.
copy_start --name watched - "$target/ram"
watched() { ctl sessions --json 2> /dev/null | jq -e '[.sessions[] | select(.initiator == "watched")] |
	length == 1 and .[0].volumes == ["ram"] and .[0].connections >= 1 and .[0].proven == false and
	.[0].encrypted_connections == 0 and .[0].rdma_connections == 0 and
	(.[0] | (.paths | length) == .connections and all(.paths[]; (.peer | startswith("127.")) and .age_ns >= 0 and
		([.rdma, .encrypted, .digest, .proven] | any | not)))' > "$scratch/json"; }
wait_for "the session" watched
expect 0 "$RBLKCTL" sessions --socket "$socket"
grep -qE '^ +[0-9]+ +watched +no +127\.[^ ]+ +[0-9]+ +TCP ' "$scratch/out" || fail 'the row of the session'
comes '.volumes[1].opens == 1'
[ "$("$RBLKCTL" sessions --socket "$socket" | wc -l)" = 2 ] || fail "a session is shown once"

# -- the live table --------------------------------------------------------------------------------

(while head -c 65536 /dev/zero >&7; do read -rt 0.02 <> <(:) || true; done) 2> /dev/null &
load=$!
moves() { ctl top --json --interval 500ms --count 1 | jq -e '[.rows[] | select(.initiator == "watched" and .volume == "ram" and
	.writes_per_s > 0 and .written_bytes_per_s > 0 and .bytes_share > 0.9)] | length == 1' > "$scratch/json"; }
wait_for "a row with writes" moves
expect 0 "$RBLKCTL" top --socket "$socket" --interval 200ms --count 2
[ "$(grep -c '^   VOLUME' "$scratch/out")" = 2 ] || fail "two tables"
out_has watched
expect 0 "$RBLKCTL" top --socket "$socket" --interval 200ms --count 1 --filter nobody
[ "$(grep -c watched "$scratch/out")" = 0 ] || fail "the filter"
# A second session of that name is in the same row.
mkfifo "$scratch/fifo2"
"$RBLK" copy --name watched - "$target/ram" < "$scratch/fifo2" > /dev/null 2>&1 &
second=$!
exec 6> "$scratch/fifo2"
twice() { ctl sessions --json | jq -e '[.sessions[] | select(.initiator == "watched" and .volumes == ["ram"])] | length == 2' > "$scratch/json"; }
wait_for "two sessions" twice
ctl top --json --interval 200ms --count 1 > "$scratch/out"
json_is '[.rows[] | select(.initiator == "watched" and .volume == "ram")] | length == 1'
exec 6>&-
wait $second || fail "the second copy"
top_on_terminals VOLUME "'$RBLKCTL' top --socket '$socket'" IOPS P99 INITIATOR DISK% LIMITED
kill $load || fail "the load has ended"
exec 7>&-
wait $copy || fail "the copy"
wait $load 2> /dev/null || true

# It outlives the daemon: says that there is no answer, and goes on with the next one.
"$RBLKCTL" top --socket "$socket" --interval 200ms > "$scratch/top" 2>&1 &
top=$!
top_says() { [ "$(tail -n +"$1" "$scratch/top" | grep -c "$2")" -gt 0 ]; }
wait_for "the first table" top_says 1 ' IOPS, .* reactors busy'
target_stop
wait_for "top without a daemon" top_says 1 'no answer, asking again: .*no rblkd listens there'
gone=$(wc -l < "$scratch/top")
target_start --control-socket "$socket" --memory ram=1M
wait_for "top with the next daemon" top_says "$gone" ' IOPS, .* reactors busy'
kill $top
wait $top || true
target_stop
expect 1 "$RBLKCTL" top --socket "$socket" --count 1

# -- errors ----------------------------------------------------------------------------------------

target_stop
target_start --control-socket "$socket" --fault fail=write:1 --cache buffered "$scratch/disk"
expect 1 "$RBLK" copy "$scratch/file" "$target/disk"
comes '.volumes[0] | .errors.io >= 1 and .written_bytes == 0'
# Who has it open is marked in the live table, under what is wrong.
copy_start --name holder - "$target/disk"
held() { ctl sessions --json | jq -e 'any(.sessions[]; .initiator == "holder" and .volumes == ["disk"])' > "$scratch/json"; }
wait_for "who holds it" held
expect 0 "$RBLKCTL" top --socket "$socket" --interval 200ms --count 1
grep -qE '^1 problem: volume disk: [0-9]+ commands? failed' "$scratch/out" || fail "what is wrong"
grep -qE '^!  disk +holder ' "$scratch/out" || fail "the mark"
exec 7>&-
wait $copy || true

# -- directing -------------------------------------------------------------------------------------

asked '.log_level == "info"' log-level
expect 0 "$RBLKCTL" log-level --socket "$socket" error
asked '.log_level == "error"' log-level
expect 3 "$RBLKCTL" status --socket "$socket"
out_has 'volume disk: 1 command failed (1 write), the last at '

expect 1 "$RBLKCTL" log-level --socket "$socket" loud
err_has 'log-level: level: "loud" is not one of error, warning, info, debug'
expect 0 "$RBLKCTL" log-level --socket "$socket" debug
log_has 'control: log level error, as user'

# A second daemon serves without the socket, and gets it when the first one has ended.
"$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state2" --control-socket "$socket" --memory other=1M \
	2> "$scratch/second.log" &
second=$!
second_says() { grep -qF -- "$1" "$scratch/second.log"; }
wait_for "the second daemon" second_says 'ready: '
second_says "control_socket: $socket: another rblkd has it: rblkctl does not reach this daemon" || fail "no such line"
asked '.volumes[0].volume == "disk"' volumes
expect 0 "$RBLKCTL" drain --socket "$socket"
[ "$(cat "$scratch/out")" = "draining: 0 sessions are told that the target is shutting down, up to 30s for commands in flight
stopped: all volumes are closed" ] || fail "what a drain says: $(cat "$scratch/out")"
wait $target_pid || fail "rblkd: status $?"
target_pid=
wait_for "the socket" second_says 'can be used now'
asked '.volumes[0].volume == "other"' volumes
# What a killed daemon leaves is replaced at once, and an orderly end leaves no socket.
kill -KILL $second
wait $second 2> /dev/null || true
[ -S "$socket" ] || fail "no socket is left"
expect 1 "$RBLKCTL" status --socket "$socket"
err_has 'no rblkd listens there'
target_start --control-socket "$socket" --memory ram=1M
asked '.volumes == 1' status
[ "$(stat -c %a "$socket")" = "$(getent group rblk > /dev/null && echo 660 || echo 600)" ] || fail "the mode"
# Without descriptors a client waits, and is answered when there are some again.
descriptors=$(ulimit -Sn) free=0
while [ -e "/proc/$target_pid/fd/$free" ]; do free=$((free + 1)); done
prlimit --pid "$target_pid" --nofile=$free:
"$RBLKCTL" status --socket "$socket" > "$scratch/waited" &
waiting=$!
wait_for "a client that waits" grep -qF "control_socket: $socket: a client waits: Too many open files" "$scratch/target.log"
prlimit --pid "$target_pid" --nofile="$descriptors":
wait $waiting || fail "a client that waited: status $?"
grep -q 'serving for' "$scratch/waited" || fail "$(cat "$scratch/waited")"
# With fewer than it has open it still ends when it is told to.
prlimit --pid "$target_pid" --nofile=2:
read -rt 2 <> <(:) || true # as long as its waits take, so that it has begun one since
target_stop
[ ! -e "$socket" ] || fail "the socket is left"
# No file of another kind is replaced.
echo precious > "$socket"
target_start --control-socket "$socket" --memory ram=1M
log_has "control_socket: $socket: exists, and is not a socket of rblkd"
[ "$(cat "$socket")" = precious ] || fail "a file was replaced"
target_stop
target_start --control-socket none --memory ram=1M
target_stop

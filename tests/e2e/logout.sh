#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A program that ends takes its session with it; one that is killed leaves a session that waits for its client. Method: each
# program runs against a daemon that keeps lost sessions for ten minutes; rblkctl, the log and the metrics say what is left, a
# volume is removed, and a flush has failed before.
. "$(dirname "$0")/cmd.sh"
socket=$scratch/control
ctl() { local verb=$1; shift; "$RBLKCTL" "$verb" --socket "$socket" "$@"; }
truncate -s 8M "$scratch/disk"
head -c 1M /dev/urandom > "$scratch/data"
printf '[volume ram]\nstore = memory\nsize = 8M\n' > "$scratch/rblkd.conf"
target_start --control-socket "$socket" --reactors 2 --session-time 600s --cache buffered --memory-lock=no --config "$scratch/rblkd.conf" \
	--fault fail=flush:EIO --fault-socket "$scratch/faults" "$scratch/disk"

# gone WHAT: soon no session is left, and the last one has logged out.
no_sessions() { ctl sessions --json | jq -e '.sessions == []' > "$scratch/json"; }
gone() {
	wait_for "$1: the end of its session" no_sessions
	[ "$(ctl volumes --json | jq '[.volumes[].opens] | add')" = 0 ] || fail "$1: a volume is open"
}
logged_out() { [ "$(log_count ': logged out: ')" -ge "$1" ]; }
ends=0
for run in "info $target/ram" "list $target" "ping --count 5 $target/ram" "copy $scratch/data $target/ram" \
	"copy --size 1M $target/ram $scratch/back" "info $target/none"; do
	read -ra words <<< "$run"
	timeout 600 "$RBLK" "${words[@]}" > "$scratch/out" 2> "$scratch/err" || [ "$run" = "info $target/none" ] || fail "$run"
	gone "$run"
	ends=$((ends + 1))
	wait_for "$run: the log" logged_out $ends
done
if [ -n "${RBLK_FIO_ENGINE:-}" ]; then
	expect 0 fio --name=job --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri="$target/ram" --rw=randrw --bs=4k --size=1M --rblk_queues=4 --numjobs=2 --thread
	gone fio
fi
[ "$(log_count 'has lost its client')" = 0 ] || fail "somebody is missed"

# A failed flush is for those who had the volume open, and not for who comes after them.
expect 1 "$RBLK" copy "$scratch/data" "$target/disk"
gone "the copy that has failed"
expect 0 "$RBLK" fault "$scratch/faults" plan disk delay=close:1us
expect 0 "$RBLK" copy "$scratch/data" "$target/disk"
gone "the copy after it"

# Killed: it is missed by name, and its volume is not removed.
copy_start --name db1 - "$target/ram"
open() { ctl sessions --json | jq -e 'any(.sessions[]; .initiator == "db1" and .volumes == ["ram"] and .waits_ns == null)' > "$scratch/json"; }
wait_for "the victim" open
kill -KILL $copy
wait $copy 2> /dev/null || true
exec 7>&-
waits() { ctl sessions --json | jq -e '.sessions | length == 1 and .[0].connections == 0 and .[0].waits_ns > 0 and .[0].waits_ns <= 600e9' > "$scratch/json"; }
wait_for "the session that waits" waits
expect 0 "$RBLKCTL" sessions --socket "$socket"
grep -qE ' db1 .* waiting for its client, ([0-9]+ s|[0-9] min) left ' "$scratch/out" || fail "the row of the session that waits"
expect 1 "$RBLKCTL" remove volume ram --socket "$socket"
err_has 'db1 has it open, and waits for its client, '
expect 0 "$RBLKCTL" events --socket "$socket" --json
json_is 'any(.events[]; .event == "connection_lost" and .level == "warning" and .initiator == "db1" and
	(.message | contains("has lost its client, with 1 volume open: waits 10 min for it")))'
expect 0 "$RBLKCTL" kick db1 --socket "$socket"
gone "the session that is kicked"
log_has 'db1: ended: kicked by rblkctl: '

# A volume is removed as soon as its program has ended.
expect 0 "$RBLK" info "$target/ram"
expect 0 "$RBLKCTL" remove volume ram --socket "$socket"
target_stop

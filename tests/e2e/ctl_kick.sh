#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rblkctl kick ends the sessions that it names, says which, and disturbs no other; the initiator comes back and loses
# nothing. Method: two programs write slowly to volumes; one is kicked, by name and by number.
. "$(dirname "$0")/cmd.sh"
socket=$scratch/control
ctl() { local verb=$1; shift; "$RBLKCTL" "$verb" --socket "$socket" "$@"; }

target_start --control-socket "$socket" --reactors 2 --session-time 1ms --memory-lock=no --memory one=8M --memory two=8M
head -c 1M /dev/urandom > "$scratch/data"

# writer NAME VOLUME FD: a copy that gets its data by this descriptor.
writer() {
	mkfifo "$scratch/$1"
	"$RBLK" copy --name "$1" - "$target/$2" < "$scratch/$1" > "$scratch/$1.log" 2>&1 &
	eval "exec $3> '$scratch/$1'"
}
# number_of NAME: of its only session, or nothing.
number_of() { ctl sessions --json | jq -r "[.sessions[] | select(.initiator == \"$1\") | .session] | if length == 1 then .[0] else empty end"; }
has_session() { [ -n "$(number_of "$1")" ]; }
# comes_back NAME: it has another session than $before.
comes_back() { local now; now=$(number_of "$1"); [ -n "$now" ] && [ "$now" != "$before" ]; }

writer victim one 5
victim=$!
writer bystander two 6
bystander=$!
head -c 256K "$scratch/data" >&5
head -c 256K "$scratch/data" >&6
wait_for "the victim" has_session victim
wait_for "the bystander" has_session bystander
stays=$(number_of bystander)

# By name, and by number.
before=$(number_of victim)
expect 0 "$RBLKCTL" kick --socket "$socket" victim
out_has "session $before of victim [127.0.0.1"
wait_for "the log" grep -q "control: session $before \[127.0.0.1.* victim kicked, as user $(id -u) (process" "$scratch/target.log"
dd if="$scratch/data" bs=256K skip=1 count=1 status=none >&5
wait_for "the victim's next session" comes_back victim
before=$(number_of victim)
expect 0 "$RBLKCTL" kick --socket "$socket" --json "$before"
json_is ".sessions | length == 1 and .[0].session == $before and .[0].initiator == \"victim\""
tail -c +524289 "$scratch/data" >&5
exec 5>&-
tail -c +262145 "$scratch/data" >&6
[ "$(number_of bystander)" = "$stays" ] || fail "another session has ended, too"
exec 6>&-
wait $victim || fail "the victim: $(cat "$scratch/victim.log")"
wait $bystander || fail "the bystander: $(cat "$scratch/bystander.log")"
for volume in one two; do
	expect 0 "$RBLK" copy --size 1M "$target/$volume" "$scratch/back"
	cmp "$scratch/data" "$scratch/back" || fail "the data of $volume"
done

expect 1 "$RBLKCTL" kick --socket "$socket" nobody
err_has 'kick: initiator "nobody" has no session here'
expect 1 "$RBLKCTL" kick --socket "$socket" 4000000
err_has 'kick: there is no session 4000000'
expect 2 "$RBLKCTL" kick --socket "$socket"
err_has 'usage: rblkctl kick [OPTION]... INITIATOR|SESSION'
target_stop

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The example of an event loop does what it says, and ends with a message and a status when it cannot. Method:
# it runs against a target that serves, refuses, stops, is killed and is not there. Expects the program in
# EXAMPLE.
. "$(dirname "$0")/cmd.sh"

head -c 1M /dev/urandom > "$scratch/disk"
cp "$scratch/disk" "$scratch/before"
target_start --memory memory=1M "$scratch/disk"

expect 0 "$EXAMPLE" "$target/disk"
out_has 'disk: 1048576 bytes in blocks of 512'
out_has 'the first block is as it was'
cmp "$scratch/disk" "$scratch/before" || fail "the disk has changed"
# Without FLUSH.
expect 0 "$EXAMPLE" "$target/memory"
out_has 'the first block is as it was'

expect 2 "$EXAMPLE"
expect 1 "$EXAMPLE" "$target/none"
err_has 'volume "none": no such volume'
expect 1 "$EXAMPLE" "http://127.0.0.1/disk"
err_has 'http://127.0.0.1/disk: '
expect 1 "$EXAMPLE" "$target/Not_A_Name!"
grep -q . "$scratch/err" || fail "no message"
target_stop

# A command fails, and the session goes on.
target_start --fault fail=write:1 "$scratch/disk"
expect 1 "$EXAMPLE" "$target/disk"
err_has 'event_loop: write: '
target_stop

# The target is killed during a step, or just before one begins.
target_start --fault delay=60s "$scratch/disk"
"$EXAMPLE" "$target/disk" > "$scratch/out" 2> "$scratch/err" &
example=$!
opened() { kill -USR1 "$target_pid"; grep -q 'open: disk' "$scratch/target.log"; }
wait_for "the volume is open" opened
target_stop -KILL
status=0
wait $example || status=$?
[ $status = 1 ] || fail "the target is killed: status $status"
err_has 'no connection for 5s'

expect 1 "$EXAMPLE" "$target/disk"
err_has 'Connection refused'

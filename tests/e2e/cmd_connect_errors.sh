#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Every verb names the host or volume that it cannot reach or open, with the reason.
. "$(dirname "$0")/cmd.sh"

truncate -s 1M "$scratch/disk"
target_start "$scratch/disk"
address=${target#rblk+tcp://}

expect 1 "$RBLK" info "$target/none"
err_has "$address: volume \"none\": no such volume"

# What is wrong is said by the names of options and files that were given.
expect 1 "$RBLK" info --name 'd b' "$target/disk"
err_has '--name: "d b" is not a name: 1 to 63 letters'
expect 1 "$RBLK" info --tls always "$target/disk"
err_has '--tls: always needs --key'
target_stop
target_start --control-socket "$scratch/control" "$scratch/disk"
address=${target#rblk+tcp://}
expect 1 "$RBLK" fault "$scratch/control" cut disk
err_has "$scratch/control: no daemon accepts faults there"

# The target is killed in the middle: the copy loses its session and does not hang.
mkfifo "$scratch/pipe"
"$RBLK" copy --name victim --give-up 500ms "$scratch/pipe" "$target/disk" > "$scratch/out" 2> "$scratch/err" &
copy=$!
exec 8> "$scratch/pipe"
# More bytes than a pipe holds: when all are written, the copy has both ends open and is reading.
timeout 600 head -c 256K /dev/zero >&8 || fail "the copy does not begin"
kill -0 $copy 2>/dev/null || fail "ended before the target did"
target_stop -KILL
head -c 65536 /dev/zero >&8 2>/dev/null || true # the copy may have ended
exec 8>&-
status=0
wait $copy || status=$?
[ $status = 1 ] || fail "target gone: status $status"
grep -qE "^rblk: .*${address}" "$scratch/err" || fail "the lost target's address"
err_has 'were copied, not verified'

# The target no longer runs.
expect 1 "$RBLK" list --timeout 5s "$target"
err_has "$address"
err_has 'refused'

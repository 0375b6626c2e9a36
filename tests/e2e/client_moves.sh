#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A client sees only a pause when its machine sleeps longer than the target keeps its connections, when its link
# goes down and up, and when it comes back with another address, so that silence alone ends its connections.
# Method: a client in its own network namespace, with a copy that goes on only after each of these.
. "$(dirname "$0")/cmd.sh"

two_machines 10.77.0

truncate -s 4M "$scratch/disk"
head -c 4M /dev/urandom > "$scratch/data"
target_listen=rblk+tcp://10.77.0.1:0
target_start --open --keepalive 1s --cache buffered "$scratch/disk" 7>&-
mkfifo "$scratch/fifo"
"${there[@]}" "$RBLK" copy --chunk 64k --depth 2 - "$target/disk" < "$scratch/fifo" > "$scratch/out" 2> "$scratch/err" &
copy=$!
exec 7> "$scratch/fifo"
# part N: the copy has read it, except for what the pipe holds.
part() { timeout 300 dd if="$scratch/data" bs=1M skip="$1" count=1 status=none >&7 || fail "part $1: the copy does not go on"; }
lost() { [ "$(grep -c 'keep-alive timeout' "$scratch/target.log")" -ge "$1" ]; }
connected() { [ -n "$(ss -Htn state established dst "$1")" ]; }

part 0
wait_for "connected 10.77.0.2" connected 10.77.0.2
# A machine that sleeps sends nothing; a process that is only stopped still has a kernel that answers for it.
kill -STOP $copy
"${there[@]}" ip link set rblk1 down
wait_for "lost 1" lost 1
"${there[@]}" ip link set rblk1 up
kill -CONT $copy
part 1
"${there[@]}" ip link set rblk1 down
wait_for "lost 2" lost 2
"${there[@]}" ip link set rblk1 up
part 2
wait_for "connected 10.77.0.2" connected 10.77.0.2
"${there[@]}" ip addr del 10.77.0.2/24 dev rblk1 && "${there[@]}" ip addr add 10.77.0.3/24 dev rblk1
part 3
wait_for "connected 10.77.0.3" connected 10.77.0.3
exec 7>&-
wait $copy || fail "copy: status $?"
cmp "$scratch/data" "$scratch/disk" || fail "data"

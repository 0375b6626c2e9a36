#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A copy whose target goes away says at once that it waits, for how long and for what, says that the target is back, and
# goes on; an error begins on a line of its own, behind no progress line. Method: a copy from a pipe that the test holds, so
# that it is in the middle when the target ends.
. "$(dirname "$0")/cmd.sh"

truncate -s 8M "$scratch/disk"
mkfifo "$scratch/fifo"
port=
# restart: the target again, on the port that it had.
restart() { target_listen=rblk+tcp://127.0.0.1:$port target_start "$scratch/disk" 7>&-; }
err_says() { grep -qE -- "$1" "$scratch/err"; }

# -- it comes back ------------------------------------------------------------------------------------

target_start "$scratch/disk"
port=${target##*:}
"$RBLK" copy "$scratch/fifo" "$target/disk" > "$scratch/out" 2> "$scratch/err" &
copy=$!
exec 7> "$scratch/fifo"
head -c 3000000 /dev/urandom >&7
log_has 'initiator'
target_stop
wait_for "what it waits for" err_says "^rblk: 127\.0\.0\.1:$port: .*[a-z]; waits for the target, for 1min at most$"
[ -d /proc/$copy ] || fail "it has ended"
restart
wait_for "that it is back" err_says "^rblk: 127\.0\.0\.1:$port: the target is back$"
exec 7>&-
wait $copy || fail "the copy"
out_has 'verified: crc32c'
[ "$(wc -l < "$scratch/err")" = 2 ] || fail "more than these lines"

# -- it does not, on a terminal --------------------------------------------------------------------------

command -v script > /dev/null || no_tool script
env TERM=xterm script -qec "stty cols 100; '$RBLK' copy --give-up 3s '$scratch/fifo' '$target/disk'" /dev/null > "$scratch/screen" &
copy=$!
exec 7> "$scratch/fifo"
head -c 3000000 /dev/urandom >&7
drawn() { grep -qa 'copying .*MiB' "$scratch/screen"; }
wait_for "the progress line" drawn
target_stop
wait_for "its end" grep -qa 'were copied, not verified' "$scratch/screen"
exec 7>&-
wait $copy && fail "the copy without a target"
# What the terminal shows in the end: what is erased is not there.
tr '\r' '\n' < "$scratch/screen" | grep -av $'^\e\[Kcopying' | sed $'s/\e\[K//g' > "$scratch/out"
grep -qE "^rblk: 127\.0\.0\.1:$port: .*; waits for the target, for 3s at most$" "$scratch/out" || fail "the wait"
grep -qE '^rblk: no connection for 3s: ' "$scratch/out" || fail "the error has no line of its own"
grep -qa 'copying.*rblk:' "$scratch/out" && fail "a message in the progress line"
tr '\r' '\n' < "$scratch/screen" > "$scratch/lines"
grep -qa 'copying .*nothing for [0-9]' "$scratch/lines" || fail "the progress line does not say that nothing moves"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A target that is being stopped is said to be, in words. Method: the target is told to stop while a copy
# is under way and its disk slow, so that it drains for as long as this test looks.
. "$(dirname "$0")/cmd.sh"

truncate -s 64M "$scratch/disk"
target_start --fault delay=300ms --drain-time 60s "$scratch/disk"
mkfifo "$scratch/pipe"
"$RBLK" copy --chunk 4k --depth 1 "$scratch/pipe" "$target/disk" > "$scratch/out" 2> "$scratch/err" &
copy=$!
exec 8> "$scratch/pipe"
# More than a pipe holds: then the copy is reading.
timeout 600 head -c 80K /dev/zero >&8 || fail "the copy does not begin"
kill -TERM "$target_pid"
tries=0
until grep -q 'stopping:' "$scratch/target.log"; do
	tries=$((tries + 1))
	[ $tries -lt 1200 ] || fail "not stopping in a minute"
	read -rt 0.05 <> <(:) || true
done
timeout 600 head -c 4M /dev/zero >&8 2> /dev/null || true # the copy may have ended
exec 8>&-
status=0
wait $copy || status=$?
[ $status = 1 ] || fail "the target stops: status $status"
err_has ': the target is shutting down'
if grep -q 'transport endpoint' "$scratch/err"; then fail "the errno's own words"; fi
wait "$target_pid" || true
target_pid=

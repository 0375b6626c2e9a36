#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# copy refuses impossible requests, fails with the place and the reason, and stops on a signal.
. "$(dirname "$0")/cmd.sh"

truncate -s 1M "$scratch/disk"
truncate -s 2M "$scratch/large"
head -c 64K /dev/urandom > "$scratch/data"
target_start "$scratch/disk"

expect 1 "$RBLK" copy "$scratch/large" "$target/disk"
err_has "$scratch/large: 2 MiB do not fit into $target/disk, 1 MiB (2097152 > 1048576 bytes)"
"$RBLK" copy - "$target/disk" < <(cat "$scratch/large") > "$scratch/out" 2> "$scratch/err" &&
	fail "a pipe that is too long"
err_has "standard input: is longer than $target/disk, 1 MiB"
expect 1 "$RBLK" copy --size 4m "$scratch/large" "$target/disk"
err_has "$scratch/large: has 2 MiB, fewer than the 4 MiB of --size"
expect 1 "$RBLK" copy "$scratch/none" "$target/disk"
err_has "$scratch/none: No such file or directory"
expect 1 "$RBLK" copy "$scratch" "$target/disk"
err_has "$scratch: is a directory"
expect 1 "$RBLK" copy "$target/disk" "$scratch/none/file"
err_has "$scratch/none/file: No such file or directory"
expect 1 "$RBLK" copy "$target/disk" /dev/full
err_has "/dev/full: write at offset 0: No space left on device"
expect 2 "$RBLK" copy "$scratch/large" "$scratch/other"
err_has "is a volume"
expect 2 "$RBLK" copy "$scratch/large"
err_has "usage: rblk copy"

# What is refused leaves the destination as it was: all checks come first. Nothing is left of a file that it made.
head -c 4096 /dev/urandom > "$scratch/precious"
cp "$scratch/precious" "$scratch/kept"
expect 1 "$RBLK" copy --size 4m "$target/disk" "$scratch/precious"
err_has "$target/disk: has 1 MiB, fewer than the 4 MiB of --size"
cmp -s "$scratch/precious" "$scratch/kept" || fail "a copy that was refused has changed its destination"
expect 1 "$RBLK" copy --size 4m "$target/disk" "$scratch/new"
[ ! -e "$scratch/new" ] || fail "a copy that was refused has left a file"
"$RBLK" copy --quiet "$target/disk" "$scratch/precious" || fail "copy to a file that exists"
cmp -s "$scratch/precious" "$scratch/disk" || fail "a file that existed has other data"

# A device that is mounted, or that another program has to itself, is not overwritten: here a target serves it.
target_stop
truncate -s 1M "$scratch/device"
if loop=$(losetup --find --show "$scratch/device" 2> "$scratch/err"); then
	target_start "$scratch/disk" "held=$loop"
	expect 1 "$RBLK" copy "$target/disk" "$loop"
	losetup --detach "$loop" # when nobody has it open any more
	err_has "$loop: Device or resource busy: it is mounted, or another program or device has it"
	cmp -s -n 1M "$scratch/device" /dev/zero || fail "a device in use was overwritten"
	target_stop
else
	echo "SKIPPED: a device in use: $(cat "$scratch/err")"
fi
target_start "$scratch/disk"

# A store that fails.
target_stop
target_start --fault fail=write:1 "$scratch/disk"
expect 1 "$RBLK" copy "$scratch/data" "$target/disk"
err_has "$target/disk: write at offset 0: Input/output error"
err_has "rblk: stopped: 0 B of 64 KiB were copied, not verified"
target_stop
target_start --fault fail=zeroes:1 "$scratch/disk"
expect 1 "$RBLK" copy --size 64k "$scratch/large" "$target/disk"
err_has "$target/disk: write at offset 0: Input/output error"
target_stop
target_start --read-only "$scratch/disk"
expect 1 "$RBLK" copy "$scratch/data" "$target/disk"
err_has "$target/disk: the volume is read only"

# An interrupt: the copy waits for the pipe until the signal has been sent. It has begun when the pipe, which holds half of
# the data, has taken all of it.
target_stop
target_start "$scratch/disk"
mkfifo "$scratch/pipe"
"$RBLK" copy "$scratch/pipe" "$target/disk" > "$scratch/out" 2> "$scratch/err" &
copy=$!
exec 8> "$scratch/pipe"
head -c 131072 /dev/urandom >&8
kill -INT $copy
status=0
wait $copy || status=$?
exec 8>&-
[ $status = 1 ] || fail "interrupted: status $status"
err_has 'rblk: interrupted: '
err_has 'were copied, not verified'

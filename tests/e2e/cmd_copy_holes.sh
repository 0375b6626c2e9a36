#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A hole costs a copy almost nothing, in any direction, and is still verified. Method: sparse files of 20 GiB with a
# little data in awkward places. The test compares the target's file, its size on disk, and the number of commands
# that the target counted.
. "$(dirname "$0")/cmd.sh"

# Data at the beginning, across the border of a chunk, with short holes between, and at the very
# end.
sparse_file() {
	truncate -s "$2" "$1"
	dd if=/dev/urandom of="$1" bs=4k count=3 conv=notrunc status=none
	dd if=/dev/urandom of="$1" bs=4k seek=$((256 * 7 - 1)) count=2 conv=notrunc status=none
	dd if=/dev/urandom of="$1" bs=4k seek=$((256 * 9)) count=1 conv=notrunc status=none
	dd if=/dev/urandom of="$1" bs=4k seek=$((256 * 9 + 2)) count=1 conv=notrunc status=none
	dd if=/dev/urandom of="$1" bs=4k seek=$(($2 / 4096 - 1)) count=1 conv=notrunc status=none
}
size=$((20 << 30))
sparse_file "$scratch/file" $size
[ "$(stat -c %b "$scratch/file")" -lt 2048 ] || { echo "SKIPPED: no holes on this file system"; exit 0; }
truncate -s $size "$scratch/disk" "$scratch/other"
# Not zero where the file has holes, so that the holes must be written, too.
dd if=/dev/urandom of="$scratch/disk" bs=1M seek=100 count=2 conv=notrunc status=none

# same FILE FILE: equal length, and equal bytes where either has data; the rest of both are holes, which
# need no comparison.
same() {
	[ "$(stat -c %s "$1")" = "$(stat -c %s "$2")" ] || fail "$1 and $2: lengths"
	local at
	for at in 0 $((256 * 7 - 1)) $((256 * 9)) $((25600)) $((size / 4096 - 1)); do
		cmp -n 3145728 -i $((at * 4096)) "$1" "$2" > "$scratch/out" || fail "$1 and $2 at block $at"
	done
	[ "$(stat -c %b "$2")" -lt 2048 ] || fail "$2: takes $(stat -c %b "$2") sectors"
}
# commands: stop the target; sets $count to the commands of all sessions.
commands() {
	target_stop
	count=$(sed -nE 's/.* (ended|logged out): ([0-9]+) commands.*/\2/p' "$scratch/target.log" | awk '{ sum += $1 } END { print sum + 0 }')
	[ "$count" -gt 0 ] || fail "nothing was counted"
}

# A file into a volume: about 20 commands to zero it and a few to write. To verify it, either the same few and
# EXTENTS, or 20 GiB in pieces of 64 MiB.
target_start "$scratch/disk" "$scratch/other"
expect 0 "$RBLK" copy --json "$scratch/file" "$target/disk"
json_is ".verified and .copied_bytes == $size and .checked_bytes == $size and .zeroed_bytes > $size - 16777216"
crc=$(jq -r .crc32c "$scratch/out")
expect 0 "$RBLK" info --json "$target/disk"
extents=$(jq .can_extents "$scratch/out")
commands
most=500
if [ "$extents" = true ]; then most=100; fi
[ "$count" -lt $most ] || fail "a file into a volume: $count commands"
same "$scratch/file" "$scratch/disk"

if [ "$extents" = true ]; then
	# Into another volume, and back into a file.
	target_start "$scratch/disk" "$scratch/other"
	expect 0 "$RBLK" copy --json "$target/disk" "$target/other"
	json_is ".verified and .crc32c == \"$crc\" and .zeroed_bytes > $size - 16777216"
	commands
	[ "$count" -lt 200 ] || fail "a volume into a volume: $count commands"
	same "$scratch/file" "$scratch/other"
	target_start "$scratch/disk" "$scratch/other"
	expect 0 "$RBLK" copy --json "$target/other" "$scratch/back"
	json_is ".verified and .crc32c == \"$crc\" and .zeroed_bytes > $size - 16777216"
	commands
	[ "$count" -lt 100 ] || fail "a volume into a file: $count commands"
	same "$scratch/file" "$scratch/back"
else
	echo "SKIPPED: the target cannot tell where a volume has data"
fi

# A folder that the daemon may not write changes nothing; where the file system cannot zero, the log says so.
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$scratch"
	install -d -m 755 "$scratch/theirs"
	truncate -s 1M "$scratch/theirs/file.img"
	chown 4711 "$scratch/theirs/file.img"
	printf '#!/bin/sh\nexec setpriv --reuid 4711 --clear-groups "%s" "$@"\n' "$RBLKD" > "$scratch/rblkd"
	chmod 755 "$scratch/rblkd"
	target_stop
	RBLKD=$scratch/rblkd target_start "$scratch/theirs/file.img"
	expect 0 "$RBLK" info --json "$target/file"
	theirs=$(jq .can_write_zeroes "$scratch/out")
	target_stop
	target_start "$scratch/disk"
	expect 0 "$RBLK" info --json "$target/disk"
	json_is ".can_write_zeroes == $theirs"
fi
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
	target_stop
	memory=$(mktemp /dev/shm/rblk-XXXXXX)
	truncate -s 1M "$memory"
	target_start --cache buffered "m=$memory"
	rm "$memory"
	expect 0 "$RBLK" info --json "$target/m"
	json_is '.can_discard'
	[ "$(jq .can_write_zeroes "$scratch/out")" = true ] ||
		log_has "volume m: $memory: WRITE_ZEROES is not offered: its file system refuses it: Operation not supported"
fi
target_stop

# Zeroes are written to a pipe, and to memory, which has no holes. What a volume has after the file stays,
# wherever in a block or a hole the file ends.
target_start --memory ram=24M "$scratch/disk"
expect 0 "$RBLK" copy --size 24m "$target/disk" -
cmp -n 25165824 "$scratch/file" "$scratch/out" || fail "a pipe"
head -c 24M /dev/urandom > "$scratch/noise"
for length in 25165824 9437185 9440255 16777217 512 1; do
	expect 0 "$RBLK" copy "$scratch/noise" "$target/ram"
	sparse_file "$scratch/short" 25165824
	truncate -s $length "$scratch/short"
	expect 0 "$RBLK" copy --json "$scratch/short" "$target/ram"
	json_is ".copied_bytes == $length and .verified and .checked_bytes == $(((length + 511) / 512 * 512))"
	expect 0 "$RBLK" copy --json "$target/ram" "$scratch/back"
	cmp -n $length "$scratch/short" "$scratch/back" || fail "$length bytes"
	cmp -i $length "$scratch/noise" "$scratch/back" || fail "the volume's data after $length bytes"
done

# The copy detects damage in a hole, and names the chunk. The disk is slow; the copy is stopped while it writes the
# data after the hole, and the test writes into the hole. If the copy has written the last of the data by then, it was
# too late: try again with a slower disk.
target_stop
truncate -s 12M "$scratch/small"
truncate -s 8M "$scratch/hole"
dd if=/dev/urandom of="$scratch/hole" bs=1M seek=6 count=2 conv=notrunc status=none
for delay in 200ms 1s 5s; do
	dd if=/dev/urandom of="$scratch/small" bs=1M count=12 conv=notrunc status=none
	target_start --cache buffered --fault delay=write:$delay "$scratch/small"
	"$RBLK" copy --depth 1 --chunk 256k "$scratch/hole" "$target/small" > "$scratch/out" 2> "$scratch/err" &
	copy=$!
	# The copy has ended: that is too late, too.
	until cmp -sn $((6 << 20)) "$scratch/small" "$scratch/hole"; do
		kill -0 $copy 2> /dev/null || break
	done
	kill -STOP $copy 2> /dev/null || true
	printf 'damaged' | dd of="$scratch/small" bs=1 seek=$((3 * 1048576 + 300000)) conv=notrunc status=none
	late=
	if cmp -sn 262144 -i 8126464 "$scratch/small" "$scratch/hole"; then late=1; fi
	kill -CONT $copy 2> /dev/null || true
	status=0
	wait $copy || status=$?
	target_stop
	[ -n "$late" ] || break
done
[ $status = 3 ] || fail "a damaged hole: status $status, not 3"
# Within the chunk: if the target reports extents, the message names only the part that has become
# data.
read -r first last < <(sed -nE 's/.*small: bytes ([0-9]+) to ([0-9]+) differ from what was copied.*/\1 \2/p' "$scratch/err")
[ "$first" -ge 3407872 ] && [ "$first" -le 3445728 ] && [ "$last" -ge 3445728 ] && [ "$last" -le 3670015 ] ||
	fail "the damage is at 3445728, not at $first to $last"

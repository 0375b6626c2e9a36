#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# copy copies the same bytes, in every direction, for any length. Method: random data, compared with
# cmp in the target's file; the printed CRC against that of another copy.
. "$(dirname "$0")/cmd.sh"

truncate -s 8M "$scratch/disk"
truncate -s 8M "$scratch/coarse"
target_start --memory ram=8M "$scratch/disk" "$scratch/coarse"
head -c 5000001 /dev/urandom > "$scratch/odd"

# The file ends inside a block: what the volume has after that stays.
head -c 8M /dev/urandom > "$scratch/before"
expect 0 "$RBLK" copy "$scratch/before" "$target/disk"
out_has 'copied: 8 MiB'
grep -qE '^verified: crc32c [0-9a-f]{8} over 8388608 bytes$' "$scratch/out" || fail "verified"
expect 0 "$RBLK" copy "$scratch/odd" "$target/disk"
out_has 'over 5000192 bytes'
cmp -n 5000001 "$scratch/odd" "$scratch/disk" || fail "the file in the volume"
cmp -i 5000001 "$scratch/before" "$scratch/disk" || fail "the volume's data after the file"

# Back, into a file that was longer; through a pipe; a part; in small pieces.
head -c 9M /dev/zero > "$scratch/back"
expect 0 "$RBLK" copy "$target/disk" "$scratch/back"
cmp "$scratch/disk" "$scratch/back" || fail "back"
crc=$(grep -oE 'crc32c [0-9a-f]{8}' "$scratch/out")
expect 0 "$RBLK" copy --chunk 4k --depth 3 "$target/disk" -
cmp "$scratch/disk" "$scratch/out" || fail "standard output"
err_has "$crc"
expect 0 "$RBLK" copy --size 1000 "$target/disk" "$scratch/back"
cmp -n 1000 "$scratch/disk" "$scratch/back" || fail "a part"
[ "$(stat -c %s "$scratch/back")" = 1000 ] || fail "a part's length"
"$RBLK" copy - "$target/coarse" < <(cat "$scratch/odd") > "$scratch/out" || fail "standard input"
cmp -n 5000001 "$scratch/odd" "$scratch/coarse" || fail "standard input's data"

# Volume to volume, and zeroes that are not sent.
expect 0 "$RBLK" copy "$target/disk" "$target/ram"
expect 0 "$RBLK" copy "$target/ram" "$scratch/back"
cmp "$scratch/disk" "$scratch/back" || fail "volume to volume"
dd if=/dev/zero of="$scratch/odd" bs=1M seek=1 count=2 conv=notrunc status=none
expect 0 "$RBLK" copy --sparse --json "$scratch/odd" "$target/disk"
json_is '.zeroed_bytes == 2097152 and .copied_bytes == 5000001 and .verified and .differences == []'
cmp -n 5000001 "$scratch/odd" "$scratch/disk" || fail "sparse"
expect 0 "$RBLK" copy --sparse "$target/disk" "$scratch/hole"
cmp "$scratch/disk" "$scratch/hole" || fail "holes"
[ "$(stat -c %b "$scratch/hole")" -le $((8 * 2048 - 2 * 2048)) ] || fail "no holes"

# An empty file can be copied.
: > "$scratch/empty"
expect 0 "$RBLK" copy "$scratch/empty" "$target/disk"
out_has 'verified: crc32c 00000000 over 0 bytes'

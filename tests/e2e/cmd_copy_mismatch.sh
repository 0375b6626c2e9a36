#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# copy's verification finds a difference and says where. Method: the volume's file is changed after
# the copy wrote it, so that the target's checksum differs.
. "$(dirname "$0")/cmd.sh"

truncate -s 8M "$scratch/disk"
head -c 8M /dev/urandom > "$scratch/source"

# The change must come before the copy verifies: the copy's source is a pipe whose writer changes
# the volume's file before it closes the pipe. With this cache mode both see the same bytes.
target_start --cache buffered "$scratch/disk"
feed() {
	cat "$scratch/source"
	# The chunk that is damaged next has been written when this much of the file equals the
	# source.
	until cmp -sn 4194304 "$scratch/source" "$scratch/disk"; do :; done
	printf 'damaged' | dd of="$scratch/disk" bs=1 seek=2097160 conv=notrunc status=none
}
status=0
feed | timeout 600 "$RBLK" copy - "$target/disk" > "$scratch/out" 2> "$scratch/err" || status=$?
[ $status = 3 ] || fail "status $status, not 3"
err_has "$target/disk: bytes 2097152 to 3145727 differ from what was copied"
err_has "$target/disk: verification failed"
! grep -q '^verified' "$scratch/out" || fail "verified all the same"

status=0
feed | timeout 600 "$RBLK" copy --json - "$target/disk" > "$scratch/out" 2> "$scratch/err" || status=$?
[ $status = 3 ] || fail "status $status, not 3"
json_is '.verified == false and .differences == [{"offset_bytes": 2097152, "length_bytes": 1048576}]'

# Without verification, copy does not claim it.
expect 0 "$RBLK" copy --no-verify "$scratch/source" "$target/disk"
! grep -q verified "$scratch/out" || fail "--no-verify"

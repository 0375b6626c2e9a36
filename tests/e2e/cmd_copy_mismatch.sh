#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# copy's verification finds a difference and says where. Method: the target's store tears writes (it
# says that all was written, but was not), so that the target's checksum cannot agree.
. "$(dirname "$0")/cmd.sh"

truncate -s 8M "$scratch/disk"
head -c 8M /dev/urandom > "$scratch/source"

# Behind the back of a copy that has not verified yet: the source is a pipe that changes the file
# of the volume before it ends. The cache mode makes both see the same bytes.
target_start --cache buffered "$scratch/disk"
feed() {
	cat "$scratch/source"
	# All but the last chunks have been written when this much of the file is as the source is.
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

# What was not asked for is not claimed.
expect 0 "$RBLK" copy --no-verify "$scratch/source" "$target/disk"
! grep -q verified "$scratch/out" || fail "--no-verify"

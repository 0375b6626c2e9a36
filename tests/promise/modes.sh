#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the journal's writer keeps its own promises where nothing fails, on a file, on files of a folder, and
# on a volume through librblk; two lives of one journal, and two writers beside each other; and what a person does
# to the disk afterwards is found. PROMISE is the program.
. "$(dirname "$0")/../e2e/cmd.sh"

dd if=/dev/zero of="$scratch/disk" bs=1M count=4 status=none
expect 0 "$PROMISE" run --writes 2000 "$scratch/file" "$scratch/disk"
expect 0 "$PROMISE" run --writes 500 --seed 2 "$scratch/file" "$scratch/disk"
expect 0 "$PROMISE" check --strict "$scratch/file" "$scratch/disk"
out_has "2 lives"

mkdir "$scratch/folder"
expect 0 "$PROMISE" run --writes 2000 --fua 0 --file-size 65536 "$scratch/files" "$scratch/folder"
expect 0 "$PROMISE" check --strict --file-size 65536 "$scratch/files" "$scratch/folder"
rm "$scratch/folder/promise-1-3"
expect 1 "$PROMISE" check --file-size 65536 "$scratch/files" "$scratch/folder"
out_has "BROKEN: block 48 "

rm "$scratch/disk"
truncate -s 4M "$scratch/disk"
target_start "disk=$scratch/disk"
expect 0 "$PROMISE" run --writes 2000 --queues 3 --unit 512 --max-blocks 300 "$scratch/one" "$target/disk"
expect 0 "$PROMISE" run --writes 2000 --writer 2 --first 512 "$scratch/two" "$target/disk"
expect 0 "$PROMISE" check --strict "$scratch/one" "$scratch/two" "$target/disk"
target_stop
expect 0 "$PROMISE" check --strict "$scratch/one" "$scratch/two" "$scratch/disk"
dd if="$scratch/disk" of="$scratch/disk" bs=4k skip=513 seek=512 count=1 conv=notrunc status=none
expect 1 "$PROMISE" check "$scratch/one" "$scratch/two" "$scratch/disk"
out_has "BROKEN: block 512 holds block 513"
expect 2 "$PROMISE" check "$scratch/nothing" "$scratch/disk"
expect 2 "$PROMISE" run --depth 0 "$scratch/nothing" "$scratch/disk"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# fio's engine moves data correctly, with deep queues and mixed sizes, as a process and as a thread,
# and counts what it did. Method: fio's own verification, and data that is damaged to see it fail.
. "$(dirname "$0")/cmd.sh"

engine=(--ioengine="external:$RBLK_FIO_ENGINE")
job=(--name=verify --rw=randwrite --bsrange=4k-256k --iodepth=32 --verify=crc32c --verify_state_save=0 --size=32m
	--output-format=json)
truncate -s 32M "$scratch/disk"
target_start "$scratch/disk"

for mode in 0 1; do
	expect 0 fio "${engine[@]}" --rblk_uri="$target/disk" --rblk_stats="$scratch/stats" \
		--thread=$mode "${job[@]}"
	json_is '.jobs[0] | .error == 0 and .write.io_bytes == 33554432 and .read.io_bytes == 33554432'
	ios=$(jq '.jobs[0] | .read.total_ios + .write.total_ios' "$scratch/out")
	cp "$scratch/stats" "$scratch/out"
	json_is ".jobs == 1 and .ios == $ios"
	json_is '.messages == .sends + .replies + .immediates + .writes + .reads'
	json_is '.latency_us_total >= .stored_us_total and .stored_us_total > 0'
done

# A run's counters are the sums over its jobs, for threads and for processes.
for mode in 0 1; do
	expect 0 fio "${engine[@]}" --rblk_uri="$target/disk" --rblk_stats="$scratch/stats" \
		--thread=$mode --name=many --numjobs=3 --group_reporting --rw=randrw --bs=4k \
		--iodepth=8 --size=4m --output-format=json
	json_is '.jobs | length == 1 and .[0].error == 0'
	cp "$scratch/stats" "$scratch/out"
	json_is '.jobs == 3 and .ios == 3072'
done

# Flushes and trims.
for mode in 0 1; do
	expect 0 fio "${engine[@]}" --rblk_uri="$target/disk" --thread=$mode --name=sync \
		--rw=randwrite --bs=64k --iodepth=8 --size=4m --fsync=4 --rblk_fua=1 \
		--output-format=json
	json_is '.jobs[0] | .error == 0 and .sync.total_ios > 0'
	expect 0 fio "${engine[@]}" --rblk_uri="$target/disk" --thread=$mode --name=trim \
		--rw=trimwrite --bs=64k --iodepth=8 --size=4m --output-format=json
	json_is '.jobs[0] | .error == 0 and .trim.total_ios == 64 and .write.total_ios == 64'
done

# Verification finds damage: the test has changed the target's file.
expect 0 fio "${engine[@]}" --rblk_uri="$target/disk" --do_verify=0 "${job[@]}"
target_stop
printf 'damaged' | dd of="$scratch/disk" bs=1 seek=9999000 conv=notrunc status=none
target_start "$scratch/disk"
expect 1 fio "${engine[@]}" --rblk_uri="$target/disk" --verify_only=1 "${job[@]}"
err_has 'verify'

# Two paths, one of which does not exist; and a target that is killed and started again while a job waits for
# it.
target_listen=${target%/}
expect 0 fio "${engine[@]}" --name=paths --rw=randwrite --bs=4k --iodepth=8 --size=1m --verify=crc32c --verify_state_save=0 \
	--rblk_queues=4 --rblk_policy=least --rblk_uri="rblk+tcp://127.0.0.1:1,${target#rblk+tcp://}/disk"
changed() {
	stat -c %y "$scratch/disk"
}
before=$(changed)
fio "${engine[@]}" --name=waits --rw=randwrite --bs=4k --iodepth=8 --size=4m --verify=crc32c --verify_state_save=0 --rate_iops=500 \
	--rblk_give_up=5min --rblk_fail_fast=300 --rblk_uri="$target/disk" \
	> "$scratch/out" 2> "$scratch/err" < /dev/null &
fio=$!
# Before the first write it may still be opening the volume, and ends when it cannot.
until [ "$(changed)" != "$before" ]; do
	kill -0 $fio 2> /dev/null || fail "fio ended before the target did"
done
target_stop -KILL
target_start "$scratch/disk"
wait $fio || fail "the job that waits for its target"
grep -q 'session .*: initiator' "$scratch/target.log" || fail "the job did not come back"

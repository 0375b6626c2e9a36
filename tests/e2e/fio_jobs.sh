#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Each workload of fio-jobs runs on a volume as common.fio says, and says why where it cannot: on a volume that cannot flush,
# and without its variables. Method: the command line of common.fio's comment, with the engine and the target of the test.
. "$(dirname "$0")/cmd.sh"
jobs=$(cd "$(dirname "$0")/../../fio-jobs" && pwd)

line=$(sed -nE 's/^# +rblk: +(fio .*) JOBFILE$/\1/p' "$jobs/common.fio")
[ -n "$line" ] || fail "common.fio has no command line"
line=${line/external:...\/librblk_fio.so/external:$RBLK_FIO_ENGINE}
truncate -s 8M "$scratch/disk"
target_start --memory ram=8M "$scratch/disk"
export RBLK_FIO_RUNTIME=1 RBLK_FIO_SIZE=4m
cd "$scratch" # fio leaves files in its current directory

# run STATUS VOLUME JOB
run() {
	local words
	read -ra words <<< "${line/rblk:\/\/HOST\/VOLUME/$target/$2}"
	expect "$1" "${words[@]}" --output-format=json --output="$scratch/result" "$jobs/$3.fio"
}
for job in "$jobs"/*.fio; do
	job=$(basename "$job" .fio)
	[ "$job" != common ] || continue
	run 0 disk "$job"
	sed -n '/^{/,$p' "$scratch/result" > "$scratch/out" # fio's remarks come first
	json_is 'all(.jobs[]; .error == 0 and .read.total_ios + .write.total_ios > 0)'
	echo "ok: $job"
done
# Of verify.fio the flush is the end, of mixed.fio a part.
for job in verify mixed; do
	run 1 ram $job
	err_has 'rblk: ram: the volume cannot flush'
done
[ "$(grep -c '^rblk: ' "$scratch/err")" = 1 ] || fail "not once"
# Nor can it write with FUA.
expect 1 fio --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri="$target/ram" --name=fua --rw=write --bs=4k --size=64k --rblk_fua=1
err_has 'volume "ram": not supported by this target or volume: rblk_fua'

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# The workloads of the benchmarks, as JOBFILE:NAME, and fio's arguments for one. The six have their
# own sections in fio-jobs; those of a sweep are points of sweep.fio. Sourced by run, native, compare
# and, in the guest, measure.sh.

WORKLOADS=(latency:read-4k-qd1 latency:write-4k-qd1 iops:read-4k-qd32 iops:write-4k-qd32
	bandwidth:read-128k-qd8 bandwidth:write-128k-qd8)

# workloads_sweep: adds depths from 1 to 128 at 4 KiB, and sizes from 512 bytes to 1 MiB at depth 8.
workloads_sweep() {
	local rw depth size
	for depth in 1 2 4 8 16 32 64 128; do
		for rw in read write; do WORKLOADS+=("sweep:sweep-$rw-4k-qd$depth"); done
	done
	for size in 512 1k 16k 64k 128k 256k 1m; do # 4k at depth 8 is there already
		for rw in read write; do WORKLOADS+=("sweep:sweep-$rw-$size-qd8"); done
	done
}

# workload_job WORKLOAD: sets WORKLOAD, its name without the file, and JOB to fio's arguments; exports
# what the job file reads. Expects bench, the folder of this file.
workload_job() {
	local file=$bench/../../fio-jobs/${1%%:*}.fio _
	WORKLOAD=${1#*:}
	JOB=("--section=$WORKLOAD" "$file")
	[ "${1%%:*}" = sweep ] || return 0
	JOB=(--section=sweep "$bench/sweep.fio")
	export RBLK_BENCH_RW RBLK_BENCH_BS RBLK_BENCH_DEPTH
	IFS=- read -r _ RBLK_BENCH_RW RBLK_BENCH_BS RBLK_BENCH_DEPTH <<< "$WORKLOAD"
	RBLK_BENCH_RW=rand$RBLK_BENCH_RW RBLK_BENCH_DEPTH=${RBLK_BENCH_DEPTH#qd}
}

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# One who reads beside writers that saturate a disk, for the systems of systems.sh: rblkd serves two disks, the second one with
# `limit = auto` for the system rblk_auto. The job has disk(). Sourced by priority.sh and priority-counted.sh, after systems.sh.

serve_rblk() {
	local plain
	disk 3
	plain=$DISK
	disk 4
	printf '[volume disk]\npath = %s\n[volume auto]\npath = %s\nlimit = auto\n' "$plain" "$DISK" > /tmp/rblkd.conf
	lab_rblkd_start --open --listen "rblk://$BENCH_TARGET:4430" --control-socket none --config /tmp/rblkd.conf
}
connect_rblk_auto() {
	lab_kmod_load
	LAB_ADDR=$BENCH_TARGET lab_attach auto
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}
disconnect_rblk_auto() { disconnect_rblk_kmod; }

beside_fio=("--size=${BENCH_MB}m" --direct=1 --group_reporting --eta=never --output-format=json --time_based)
# beside_read WORDS ARGUMENT...: reads of 4k at depth 1; /tmp/reads.json has what they took.
beside_read() {
	fio --name=reader "${beside_fio[@]}" --rw=randread --bs=4k --iodepth=1 --output=/tmp/reader.json "${@:2}" > /tmp/reader.log 2>&1 ||
		lab_fail "$system, $1: $(cat /tmp/reader.log)"
	sed -n '/^{/,$p' /tmp/reader.json > /tmp/reads.json
}
# Four writers of 128k at depth 16, until beside_writers_stop; then /tmp/writers.json has what they wrote.
beside_writers_start() {
	fio --name=writer "${FIO[@]}" "${beside_fio[@]}" --rw=randwrite --bs=128k --iodepth=16 --numjobs=4 --runtime=3600 \
		--output=/tmp/writers.json > /tmp/writers.log 2>&1 &
	writers=$!
}
beside_writers_stop() {
	kill -INT $writers
	wait $writers
}

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Question: what does a reader wait for beside writers that saturate a disk, however busy this machine is? Method: priority.sh's in
# one guest whose clock counts instructions (2 ns each), with tests/bench/paced for the disk: a reader of 4k at depth 1 alone, and
# beside four writers of 128k at depth 16, and so with priority; the disk ends writes one by one, and then eight at a time. A line
# of milliseconds for each. A write takes 2 ms at the disk, its transfer half of one, of the only processor. rblk_auto is the
# module with `limit = auto`. Not one of ctest's, for it asserts nothing:
#   cp -r tests/bench/paced build/paced && make -C "$(tests/lab/kernel --headers 6.1)" M="$PWD/build/paced" CONFIG_DEBUG_INFO_BTF_MODULES= modules
#   RBLK_BENCH_PACED=$PWD/build/paced/paced.ko tests/lab/boot-nocrc 6.1 -e -m 3G tests/lab/jobs/priority-counted.sh [SYSTEM...]
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
. "$LAB/../bench/systems.sh"
[ "$LAB_ACCEL" = count ] || lab_fail "the clock does not count instructions: boot -e"
[ $# -gt 0 ] || set -- nvme_rdma rblk_kmod rblk_auto
insmod "$RBLK_BENCH_PACED" || lab_fail "paced.ko: does not load"

# In place of systems.sh's.
disk() { DISK=/dev/paced$1; }
serve_rblk() {
	printf '[volume disk]\npath = /dev/paced2\n[volume auto]\npath = /dev/paced3\nlimit = auto\n' > /tmp/rblkd.conf
	lab_rblkd_start --open --listen "rblk://$BENCH_TARGET:4430" --control-socket none --config /tmp/rblkd.conf
}
connect_rblk_auto() {
	lab_kmod_load
	LAB_ADDR=$BENCH_TARGET lab_attach auto
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}
disconnect_rblk_auto() { disconnect_rblk_kmod; }
lab_link_up
systems_serve "$@"

common=("--size=${BENCH_MB}m" --direct=1 --group_reporting --eta=never --output-format=json)
# reader WORDS [ARGUMENT...]
reader() {
	fio --name=reader "${FIO[@]}" "${common[@]}" --rw=randread --bs=4k --iodepth=1 --time_based --runtime=1 --ramp_time=200ms \
		--output=/tmp/reader.json "${@:2}" > /tmp/reader.log 2>&1 || lab_fail "$system, $1: $(cat /tmp/reader.log)"
	sed -n '/^{/,$p' /tmp/reader.json | jq -r --arg how "$system, $1" 'def ms: . / 10000 | round / 100;
		.jobs[0].read.clat_ns | "\($how): median \(.percentile."50.000000" | ms), p90 \(.percentile."90.000000" | ms), p99 \(.percentile."99.000000" | ms)"'
}
for system in "$@"; do
	"connect_$system"
	reader alone
	fio --name=writer "${FIO[@]}" "${common[@]}" --rw=randwrite --bs=128k --iodepth=16 --numjobs=4 --time_based --runtime=3600 \
		--output=/tmp/writers.json > /tmp/writers.log 2>&1 &
	writers=$!
	for burst in 1 8; do
		echo $burst > /sys/module/paced/parameters/burst
		sleep 1 # of the guest's: they fill the disk's queue
		reader "beside writes that end by $burst"
		reader "and with priority" --prioclass=1 --prio=0
	done
	kill -INT $writers
	wait $writers
	echo 1 > /sys/module/paced/parameters/burst
	"disconnect_$system"
done

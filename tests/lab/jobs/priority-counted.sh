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
. "$LAB/beside.sh"
[ "$LAB_ACCEL" = count ] || lab_fail "the clock does not count instructions: boot -e"
[ $# -gt 0 ] || set -- nvme_rdma rblk_kmod rblk_auto
insmod "$RBLK_BENCH_PACED" || lab_fail "paced.ko: does not load"

# In place of systems.sh's.
disk() { DISK=/dev/paced$1; }
lab_link_up
systems_serve "$@"

# reader WORDS [ARGUMENT...]
reader() {
	beside_read "$1" "${FIO[@]}" --runtime=1 --ramp_time=200ms "${@:2}"
	jq -r --arg how "$system, $1" 'def ms: . / 10000 | round / 100;
		.jobs[0].read.clat_ns | "\($how): median \(.percentile."50.000000" | ms), p90 \(.percentile."90.000000" | ms), p99 \(.percentile."99.000000" | ms)"' /tmp/reads.json
}
for system in "$@"; do
	"connect_$system"
	reader alone
	beside_writers_start
	for burst in 1 8; do
		echo $burst > /sys/module/paced/parameters/burst
		sleep 1 # of the guest's: they fill the disk's queue
		reader "beside writes that end by $burst"
		reader "and with priority" --prioclass=1 --prio=0
	done
	beside_writers_stop
	echo 1 > /sys/module/paced/parameters/burst
	"disconnect_$system"
done

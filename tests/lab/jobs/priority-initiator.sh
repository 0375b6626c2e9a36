# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Question: how much slower is one who reads beside writers that saturate the disk, without and with `limit = auto`, without and
# with priority? Method: two hosts; a reader of 4k at depth 1 through the module, for SECONDS each (20), alone and beside
# four writers of 128k at depth 16; the p50 and p99 of each, and of the quiet one's. Not one of ctest's, for it measures time:
#   boot-pair -m 1G -1 "-d 2G" 6.1 priority-initiator.sh priority-target.sh
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
seconds=${1:-20}

# reader WORDS [ARGUMENT...]: prints what the reader's reads take, in microseconds.
reader() {
	local words=$1
	shift
	fio --name=reader --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randread --bs=4k --iodepth=1 --time_based \
		--runtime="$seconds" --ramp_time=2 --output-format=json --output=/tmp/reader.json "$@" || lab_fail "reader, $words"
	lab_say "$words: $(jq -r '.jobs[0].read.clat_ns.percentile |
		"p50 \(."50.000000" / 1000) us, p99 \(."99.000000" / 1000) us"' /tmp/reader.json)"
}
beside_writers() {
	fio --name=writer --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randwrite --bs=128k --iodepth=16 --numjobs=4 \
		--time_based --runtime=3600 --eta=never --output=/tmp/writers.txt &
	local writers=$!
	reader "$1, beside writers"
	reader "$1, beside writers, with priority" --prioclass=1 --prio=0
	kill -INT $writers
	wait $writers
}

lab_link_up
lab_kmod_load
lab_meet ready
LAB_ADDR=$LAB_PEER
lab_attach disk
reader "quiet"
beside_writers "without a limit"
lab_meet plain 600
lab_meet auto
beside_writers "limit = auto"
lab_meet end 600
lab_detach

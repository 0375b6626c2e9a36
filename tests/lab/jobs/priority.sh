# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Question: how much slower is one who reads beside writers that saturate the disk? Method: two hosts; each system in turn, in
# rounds, has a part of one disk, which QEMU lets write 16 MiB a second; a reader of 4k at depth 1, for SECONDS each, alone, beside
# four writers of 128k at depth 16, and so with priority (ioprio's realtime class). A line for each system with its p99, in
# milliseconds, and the ratios to its quiet p99, round by round. rblk_auto is the module with `limit = auto`, and rblk_neighbour the
# same where the reader has a session of its own. Not one of ctest's, for it measures time:
#   kernel --rnbd 6.1
#   boot-nocrc 6.1 --pair -t 3600 -m 2G -c 1 -1 "-N 1G,throttling.bps-write=16777216" priority.sh priority.sh [ROUNDS [SECONDS [SYSTEM...]]]
# Defaults: 3 10 nvme_rdma iser rnbd rblk_kmod rblk_auto rblk_neighbour. With bps-total a read waits for its turn at the disk, too.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
. "$LAB/../bench/systems.sh"
. "$LAB/../bench/systems_scsi.sh"
rounds=${1:-3} seconds=${2:-10}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- nvme_rdma iser rnbd rblk_kmod rblk_auto rblk_neighbour

# In place of systems.sh's: a part of the one disk; and a daemon with two of them.
disk() {
	DISK=/dev/ram$1
	[ ! -e "$DISK" ] || return 0
	modprobe dm_mod && dmsetup create --noudevsync "part$1" --table "0 $((BENCH_MB * 2048)) linear /dev/nvme0n1 $(($1 * BENCH_MB * 2048))" &&
		dmsetup mknodes && ln -s "/dev/mapper/part$1" "$DISK" || lab_fail "$DISK: no part of the disk"
}
serve_rblk() {
	disk 3
	disk 4
	printf '[volume disk]\npath = /dev/ram3\n[volume auto]\npath = /dev/ram4\nlimit = auto\n' > /tmp/rblkd.conf
	lab_rblkd_start --open --listen "rblk://$BENCH_TARGET:4430" --control-socket none --config /tmp/rblkd.conf
}
connect_rblk_auto() {
	lab_kmod_load
	LAB_ADDR=$BENCH_TARGET lab_attach auto
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}
disconnect_rblk_auto() { disconnect_rblk_kmod; }
connect_rblk_neighbour() {
	connect_rblk_auto
	LAB_ADDR=$BENCH_TARGET lab_attach auto own_session
	READER=(--ioengine=io_uring "--filename=$LAB_DEV")
}
disconnect_rblk_neighbour() {
	lab_detach
	LAB_DEV=${FIO[-1]#--filename=}
	disconnect_rblk_kmod
}

lab_link_up
cp /sys/class/infiniband/rxe0/ports/1/gids/0 "/pair/gid-$LAB_HOST"
lab_meet linked
if [ "$LAB_HOST" = 1 ]; then
	modprobe nvme && lab_wait 20 [ -b /dev/nvme0n1 ] || lab_fail "no disk"
	systems_serve "$@"
	lab_meet serving
	lab_meet end 100000
	exit
fi
lab_meet serving

common=("--size=${BENCH_MB}m" --direct=1 --group_reporting --eta=never --output-format=json)
# reader WORDS [ARGUMENT...]: notes what the reader's reads take.
reader() {
	fio --name=reader "${READER[@]}" "${common[@]}" --rw=randread --bs=4k --iodepth=1 --time_based --runtime="$seconds" --ramp_time=2 \
		--output=/tmp/reader.json "${@:2}" > /tmp/reader.log 2>&1 || lab_fail "$system, $1: $(cat /tmp/reader.log)"
	sed -n '/^{/,$p' /tmp/reader.json | jq -c --arg system "$system" --arg how "$1" '.jobs[0].read | {$system, $how, count: .total_ios,
		p50: (.clat_ns.percentile."50.000000" / 1e6), p99: (.clat_ns.percentile."99.000000" / 1e6)}' | tee -a /out/reads
}
systems=("$@")
for round in $(seq "$rounds"); do
	backwards=()
	for system in "${systems[@]}"; do
		backwards=("$system" "${backwards[@]}")
		lab_say "round $round: $system"
		READER=()
		"connect_$system"
		[ ${#READER[@]} -gt 0 ] || READER=("${FIO[@]}")
		reader quiet
		fio --name=writer "${FIO[@]}" "${common[@]}" --rw=randwrite --bs=128k --iodepth=16 --numjobs=4 --time_based --runtime=3600 \
			--output=/tmp/writers.json > /tmp/writers.log 2>&1 &
		writers=$!
		sleep 3 # they begin
		reader beside
		reader priority --prioclass=1 --prio=0
		kill -INT $writers
		wait $writers
		sed -n '/^{/,$p' /tmp/writers.json | jq -c --arg system "$system" '.jobs[0].write | {$system, how: "writers", rate: (.bw_bytes / 1e6)}' |
			tee -a /out/reads
		"disconnect_$system"
	done
	systems=("${backwards[@]}") # what drifts does not favour one place
done
lab_meet end
jq -rs --argjson rounds "$rounds" '
	def median: sort | .[length / 2 | floor];
	def hundredths: . * 100 | round / 100;
	def row($how; $quiet): map(select(.how == $how) | .p99) as $all | [range($rounds) | $all[.] / $quiet[.]] as $ratios
		| "\($how) \($all | median * 10 | round / 10), \($ratios | median | hundredths) of quiet (\($ratios | min | hundredths) to \($ratios | max | hundredths))";
	group_by(.system)[] | map(select(.how == "quiet") | .p99) as $quiet
	| "\(.[0].system): p99 ms: quiet \($quiet | median * 10 | round / 10), \(row("beside"; $quiet)), \(row("priority"; $quiet)); writers \(map(select(.how == "writers").rate) | median * 10 | round / 10) MB/s"' /out/reads

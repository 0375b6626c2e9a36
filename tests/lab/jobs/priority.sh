# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Question: how much slower is one who reads beside writers that saturate the disk? Method: two hosts; each system in turn, in
# rounds, has a part of one disk, which QEMU lets write 16 MiB a second; a reader of 4k at depth 1, for SECONDS each, alone, beside
# four writers of 128k at depth 16, and so with priority (ioprio's realtime class); and perftest's 4k over the bare link there and
# back, alone and beside those writers, which no reader can be quicker than. A line for each system with both p99, in
# milliseconds, and the ratios to the quiet p99, round by round. rblk_auto is the module with `limit = auto`. Not one
# of ctest's, for it measures time:
#   kernel --rnbd 6.1
#   boot-nocrc 6.1 --pair -t 3600 -m 2G -c 1 -1 "-N 1G,throttling.bps-write=16777216" priority.sh priority.sh [ROUNDS [SECONDS [SYSTEM...]]]
# Defaults: 3 10 nvme_rdma iser rnbd rblk_kmod rblk_auto. With bps-total a read waits for its turn at the disk, too.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
. "$LAB/../bench/systems.sh"
. "$LAB/../bench/systems_scsi.sh"
. "$LAB/beside.sh"
rounds=${1:-3} seconds=${2:-10}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- nvme_rdma iser rnbd rblk_kmod rblk_auto
LINK=(timeout 20 ib_send_lat -d rxe0 -e -s 4096 -n 1500)

# In place of systems.sh's: a part of the one disk.
disk() {
	DISK=/dev/ram$1
	[ ! -e "$DISK" ] || return 0
	modprobe dm_mod && dmsetup create --noudevsync "part$1" --table "0 $((BENCH_MB * 2048)) linear /dev/nvme0n1 $(($1 * BENCH_MB * 2048))" &&
		dmsetup mknodes && ln -s "/dev/mapper/part$1" "$DISK" || lab_fail "$DISK: no part of the disk"
}

lab_link_up
cp /sys/class/infiniband/rxe0/ports/1/gids/0 "/pair/gid-$LAB_HOST"
lab_meet linked
if [ "$LAB_HOST" = 1 ]; then
	modprobe nvme && lab_wait 20 [ -b /dev/nvme0n1 ] || lab_fail "no disk"
	export RBLK_LAB_NICE=-5
	systems_serve "$@"
	while :; do "${LINK[@]}" > /tmp/link.log 2>&1; done &
	lab_meet serving
	lab_meet end 100000
	exit
fi
lab_meet serving

# reader WORDS [ARGUMENT...]: notes what the reader's reads take.
reader() {
	beside_read "$1" "${FIO[@]}" --runtime="$seconds" --ramp_time=2 "${@:2}"
	jq -c --arg system "$system" --arg how "$1" '.jobs[0].read | {$system, $how, count: .total_ios,
		p50: (.clat_ns.percentile."50.000000" / 1e6), p99: (.clat_ns.percentile."99.000000" / 1e6)}' /tmp/reads.json | tee -a /out/reads
}
link_once() { "${LINK[@]}" "$BENCH_TARGET" > /tmp/link.log 2>&1; }
# link WORDS: notes the p99 of the bare link, there and back; perftest says half of it, in microseconds.
link() {
	lab_wait 60 link_once || lab_fail "ib_send_lat: $(cat /tmp/link.log)"
	jq -nc --arg system "$system" --arg how "$1" --argjson half "$(awk '$1 == 4096 { print $8 }' /tmp/link.log)" \
		'{$system, $how, p99: ($half * 2 / 1000)}' | tee -a /out/reads
}
systems=("$@")
for round in $(seq "$rounds"); do
	backwards=()
	for system in "${systems[@]}"; do
		backwards=("$system" "${backwards[@]}")
		lab_say "round $round: $system"
		"connect_$system"
		reader quiet
		link "link quiet"
		beside_writers_start
		sleep 3 # they begin
		reader beside
		reader priority --prioclass=1 --prio=0
		link "link beside"
		beside_writers_stop
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
	def row($how; $quiet): map(select(.how == $quiet) | .p99) as $quiet | map(select(.how == $how) | .p99) as $all
		| [range($rounds) | $all[.] / $quiet[.]] as $ratios
		| "\($how) \($all | median * 10 | round / 10), \($ratios | median | hundredths) of quiet (\($ratios | min | hundredths) to \($ratios | max | hundredths))";
	def quiet($how): map(select(.how == $how) | .p99) | median * 10 | round / 10;
	group_by(.system)[]
	| "\(.[0].system): p99 ms: quiet \(quiet("quiet")), \(row("beside"; "quiet")), \(row("priority"; "quiet")); link quiet \(quiet("link quiet")), \(row("link beside"; "link quiet")); writers \(map(select(.how == "writers").rate) | median * 10 | round / 10) MB/s"' /out/reads

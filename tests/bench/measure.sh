# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The job of the guest for tests/bench/run and compare: the raw link, then rounds, in each of which every
# system is measured in turn. Raw results go to /out, some files for each point; report reads them.
#   measure.sh SYSTEM...       in the environment: RBLK_FIO_RUNTIME, and
#       RBLK_BENCH_LINK fast|stock, RBLK_BENCH_ROUNDS, RBLK_BENCH_WORKLOADS (JOBFILE:NAME, separated by
#       spaces), RBLK_BENCH_COMPANIES (of quiet, crowded, counted), RBLK_BENCH_VERBS (empty: not the link)
# SYSTEM@SIDE is a system of the build in the folder RBLK_BENCH_BUILD_SIDE.
. "$LAB/guest.sh"
bench=$(dirname "${BASH_SOURCE[0]}")
. "$LAB/jobs/kmod.sh"
. "$bench/systems.sh"
. "$bench/systems_scsi.sh"
. "$bench/workloads.sh"
. "$bench/meter.sh"
export RBLK_FIO_SIZE=${BENCH_MB}m

# verbs NAME COMMAND...: runs one of perftest's programs as client and server over the link.
verbs() {
	local name=$1 server
	shift
	"$@" -d rxe0 -F > /out/verbs.server 2>&1 &
	server=$!
	lab_wait 20 verbs_listening || lab_fail "verbs $name: does not listen"
	timeout 60 "$@" -d rxe0 -F "$LAB_ADDR" > "/out/verbs.$name" 2>&1 || {
		cat "/out/verbs.$name"
		lab_fail "verbs $name: exit status $?"
	}
	wait $server
}
verbs_listening() { ss -ltn | grep -q :18515; }

raw_link() {
	verbs read_lat_4k ib_read_lat -s 4096 -n 2000
	verbs write_lat_4k ib_write_lat -s 4096 -n 2000
	verbs send_lat_64 ib_send_lat -s 64 -n 2000
	verbs read_bw_4k ib_read_bw -s 4096 -n 5000
	verbs write_bw_4k ib_write_bw -s 4096 -n 5000
	verbs send_bw_64 ib_send_bw -s 64 -n 5000
	verbs read_bw_128k ib_read_bw -s 131072 -n 300
	verbs write_bw_128k ib_write_bw -s 131072 -n 300
}

if [ "$RBLK_BENCH_LINK" = fast ]; then
	insmod "$RBLK_BENCH_FASTCRC" || lab_fail "fastcrc.ko: does not load"
fi

# use_build SIDE: the programs and the module of that build from now on.
use_build() {
	local folder=RBLK_BENCH_BUILD_$1
	LAB_BUILD=${!folder}
	RBLKD=$LAB_BUILD/target/rblkd
	RBLK=$LAB_BUILD/initiator/cmd/rblk
	RBLK_FIO_ENGINE=$LAB_BUILD/initiator/fio/librblk_fio.so
	LAB_KO=$LAB_BUILD/kmod-lab/$(basename "$LAB_KERNEL")/kmod/rblk.ko
}

# point SYSTEM COMPANY ROUND: measure the workload that JOB and WORKLOAD name. A program that spins has the
# same priority as all others, and a system that crosses the link leaves its packets there.
point() {
	local base=${1%@*} company=$2 result=/out/$1.$WORKLOAD.$2.$3 count='' spinner='' packets RBLK_FIO_RUNTIME=$RBLK_FIO_RUNTIME
	! declare -F "begin_$base" > /dev/null || "begin_$base"
	METER_GROUPS=()
	[ "${base#rblk}" = "$base" ] || METER_GROUPS=("target=$LAB_RBLKD")
	[ "$company" != counted ] || count=1
	if [ "$company" = crowded ]; then
		bash -c 'while :; do :; done' &
		spinner=$!
		METER_GROUPS+=("company=$spinner")
	fi
	packets=$(cat $PACKETS)
	case $base in rblk | rblk_memory) set -- "--rblk_stats=$result.stats" ;; *) set -- ;; esac
	# Counting takes a moment to begin.
	RBLK_FIO_RUNTIME=$((RBLK_FIO_RUNTIME + (count ? 2 : 0)))
	meter_run "$result.meter" "$RBLK_FIO_RUNTIME" "$count" fio "${FIO[@]}" "$@" --eta=never --output-format=json \
		--output="$result.fio" "${JOB[@]}" 2> "$result.log" ||
		lab_fail "$base $WORKLOAD: fio: $(cat "$result.log" "$result.fio")"
	[ -z "$spinner" ] || { kill "$spinner"; wait "$spinner"; }
	[ "$base" = local ] || [ $(($(cat $PACKETS) - packets)) -gt 100 ] ||
		lab_fail "$base $WORKLOAD: its I/O did not cross the link"
	! declare -F "end_$base" > /dev/null || "end_$base" "$result"
}
PACKETS=/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts

lab_link_up
backing_up
if [ -n "$RBLK_BENCH_VERBS" ]; then
	lab_say "verbs"
	raw_link
fi
read -ra workloads <<< "$RBLK_BENCH_WORKLOADS"
systems=("$@")
for round in $(seq "$RBLK_BENCH_ROUNDS"); do
	for system in "${systems[@]}"; do
		lab_say "round $round: $system"
		[ "${system#*@}" = "$system" ] || use_build "${system#*@}"
		"up_${system%@*}"
		for workload in "${workloads[@]}"; do
			workload_job "$workload"
			for company in $RBLK_BENCH_COMPANIES; do
				# Counts need no repeats.
				[ "$company" = counted ] && [ "$round" -gt 1 ] || point "$system" "$company" "$round"
			done
		done
		"down_${system%@*}"
	done
	# Backwards the next time, so that what drifts does not favour one place.
	backwards=()
	for system in "${systems[@]}"; do backwards=("$system" "${backwards[@]}"); done
	systems=("${backwards[@]}")
done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The job of both hosts for tests/bench/run and compare: host 1 serves every system, host 2 measures them: the bare link, then
# rounds, in each of which every system is measured in turn. Raw results go to host 2's /out; report reads them.
#   measure.sh SYSTEM...       in the environment: RBLK_FIO_RUNTIME, and
#       RBLK_BENCH_LINK fast|stock, RBLK_BENCH_ROUNDS, RBLK_BENCH_WORKLOADS (JOBFILE:NAME, separated by
#       spaces), RBLK_BENCH_COMPANIES (of quiet, crowded); RBLK_BENCH_LOSS: each network card loses so many percent of what it sends
# SYSTEM@SIDE is a system of the build in the folder RBLK_BENCH_BUILD_SIDE.
. "$LAB/guest.sh"
bench=$(dirname "${BASH_SOURCE[0]}")
. "$LAB/lossy.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
. "$bench/systems.sh"
. "$bench/systems_scsi.sh"
. "$bench/workloads.sh"
export RBLK_FIO_SIZE=${BENCH_MB}m

# verbs NAME COMMAND...: one of perftest's programs, its server here on host 1, its client on host 2.
verbs() {
	local name=$1
	shift
	if [ "$LAB_HOST" = 1 ]; then
		"$@" -d rxe0 -F > /out/verbs.server 2>&1 &
		lab_wait 20 verbs_listening || lab_fail "verbs $name: does not listen"
		lab_meet "$name"
		wait $!
	else
		lab_meet "$name"
		timeout 60 "$@" -d rxe0 -F "$BENCH_TARGET" > "/out/verbs.$name" 2>&1 ||
			lab_fail "verbs $name: exit status $?: $(cat "/out/verbs.$name")"
	fi
}
verbs_listening() { ss -ltn | grep -q :18515; }
bare_link() {
	lab_say "verbs"
	verbs read_lat_4k ib_read_lat -s 4096 -n 1000
	verbs write_lat_4k ib_write_lat -s 4096 -n 1000
	verbs send_lat_64 ib_send_lat -s 64 -n 1000
	verbs read_bw_4k ib_read_bw -s 4096 -n 5000
	verbs write_bw_4k ib_write_bw -s 4096 -n 5000
	verbs read_bw_128k ib_read_bw -s 131072 -n 300
	verbs write_bw_128k ib_write_bw -s 131072 -n 300
}

# point SYSTEM COMPANY ROUND: measure the workload that JOB and WORKLOAD name. A program that spins has the same priority
# as all others. What was read has come over the wire, and what was written has gone over it.
point() {
	local result=/out/$1.$WORKLOAD.$2.$3 spinner='' stats='' received sent
	if [ "$2" = crowded ]; then
		bash -c 'while :; do :; done' &
		spinner=$!
	fi
	case $1 in rblk | rblk_memory | rblk@* | rblk_memory@*) stats=--rblk_stats=$result.stats ;; esac
	received=$(wire rx) sent=$(wire tx)
	fio "${FIO[@]}" $stats --eta=never --output-format=json --output="$result.fio" "${JOB[@]}" 2> "$result.log" ||
		lab_fail "$1 $WORKLOAD: fio: $(cat "$result.log" "$result.fio")"
	[ -z "$spinner" ] || { kill "$spinner" && wait "$spinner"; }
	# fio prints remarks before its JSON.
	sed -n '/^{/,$p' "$result.fio" | jq -e --argjson received $(($(wire rx) - received)) --argjson sent $(($(wire tx) - sent)) \
		'.jobs[0] | .read.io_bytes + .write.io_bytes > 0 and .read.io_bytes <= $received and .write.io_bytes <= $sent' > /dev/null ||
		lab_fail "$1 $WORKLOAD: its data did not cross the wire"
}
wire() { cat "/sys/class/net/eth0/statistics/$1_bytes"; }

if [ "$RBLK_BENCH_LINK" = fast ]; then
	insmod "$RBLK_BENCH_FASTCRC" || lab_fail "fastcrc.ko: does not load"
fi
lab_link_up
cp /sys/class/infiniband/rxe0/ports/1/gids/0 "/pair/gid-$LAB_HOST"
lab_meet linked
[[ $* == *@* ]] || bare_link
[ -z "${RBLK_BENCH_LOSS:-}" ] || lab_lossy_begin loss "$RBLK_BENCH_LOSS%"
if [ "$LAB_HOST" = 1 ]; then
	export RBLK_LAB_NICE=-5
	systems_serve "$@"
	lab_meet serving
	lab_meet measured 100000
	exit
fi
lab_meet serving
read -ra workloads <<< "$RBLK_BENCH_WORKLOADS"
systems=("$@")
for round in $(seq "$RBLK_BENCH_ROUNDS"); do
	backwards=()
	for system in "${systems[@]}"; do
		backwards=("$system" "${backwards[@]}")
		lab_say "round $round: $system"
		SIDE=
		[ "${system%@*}" = "$system" ] || SIDE=${system#*@}
		[ -z "$SIDE" ] || use_build "$SIDE"
		"connect_${system%@*}"
		for workload in "${workloads[@]}"; do
			workload_job "$workload"
			for company in $RBLK_BENCH_COMPANIES; do point "$system" "$company" "$round"; done
		done
		"disconnect_${system%@*}"
	done
	# Backwards the next time, so that what drifts does not favour one place.
	systems=("${backwards[@]}")
done
lab_meet measured

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# What run, native and compare have in common: the options about rounds, and the way from raw results
# to table and page. Sourced after setup.sh; expects bench.
. "$bench/workloads.sh"

ROUNDS_OPTIONS=hr:n:b:w:scf
# shellcheck disable=SC2016
ROUNDS_HELP='  -n ROUNDS     every system is measured in turn, so often (default 5); below 3, no spread is known
  -r SECONDS    of each measurement (default 3)
  -b PERCENT    a ratio whose spread is larger is unsteady, and is not printed (default 10)
  -w NAMES      only these workloads: read-4k-qd1,write-4k-qd1,read-4k-qd32,... or of the sweep
  -s            also a sweep: depths from 1 to 128 at 4 KiB, sizes from 512 bytes to 1 MiB
  -c            each point again in company: a program of equal priority spins
  -f            measure although other programs use this machine'
rounds=5 runtime=3 bound=10 sweep='' names='' companies=(quiet) force=''

# rounds_option LETTER VALUE: takes one of ROUNDS_OPTIONS, or fails.
rounds_option() {
	case $1 in
	r) runtime=$2 ;;
	n) rounds=$2 ;;
	b) bound=$2 ;;
	w) names=$2 ;;
	s) sweep=1 ;;
	c) companies+=(crowded) ;;
	f) force=1 ;;
	*) return 1 ;;
	esac
}

# rounds_workloads: sets workloads and companies from the options.
rounds_workloads() {
	local workload name
	[ -z "$sweep" ] || workloads_sweep
	workloads=("${WORKLOADS[@]}")
	if [ -n "$names" ]; then
		[ -n "$sweep" ] || workloads_sweep
		workloads=()
		for name in ${names//,/ }; do
			for workload in "${WORKLOADS[@]}"; do
				[ "${workload#*:}" != "$name" ] || workloads+=("$workload")
			done
			[[ " ${workloads[*]} " == *":$name "* ]] || setup_fail "-w: no workload is called $name"
		done
	fi
}

# rounds_times: sets busy, the seconds that this machine's processors have worked since it was started, and own, those
# of this script's programs that have ended.
rounds_times() {
	busy=$(awk -v hz="$(getconf CLK_TCK)" '/^cpu / { print ($2 + $3 + $4 + $7 + $8 + $9) / hz; exit }' /proc/stat)
	times > "$out/times" # a subshell would have none
	own=$(awk 'END { gsub("m", " "); gsub("s", ""); print $1 * 60 + $2 + $3 * 60 + $4 }' "$out/times")
}
# rounds_others SECONDS: sets others, the percentage of all processors that other programs have had since rounds_times was
# called, so long ago.
rounds_others() {
	local begun_busy=$busy begun_own=$own
	rounds_times
	others=$(awk -v busy="$busy" -v own="$own" -v begun_busy="$begun_busy" -v begun_own="$begun_own" -v processors="$(nproc)" \
		-v seconds="$1" 'BEGIN { share = (busy - begun_busy - own + begun_own) / processors / seconds * 100
			printf "%d", (share > 0 ? share : 0) }')
}
# rounds_begin: refuses to measure on a busy machine, without -f.
rounds_begin() {
	local others
	rounds_times
	sleep 3
	rounds_others 3
	[ "$others" -le 5 ] || [ -n "$force" ] ||
		setup_fail "other programs use $others % of this machine's processors: wait, or measure all the same with -f"
	begun=$SECONDS
}

# rounds_conditions FILE SYSTEM... : what report needs to know, from the environment of its caller. MORE
# is JSON with base, peers and what else is to be said about the machine.
rounds_conditions() {
	local file=$1 others
	shift
	rounds_others $((SECONDS - begun))
	jq -n --arg workloads "${workloads[*]#*:}" --arg systems "$*" --argjson rounds "$rounds" \
		--argjson seconds "$runtime" --argjson bound "$bound" --arg date "$(date -u +%F)" \
		--argjson others "$others" --argjson cpus "$(nproc)" \
		--arg cpu "$(sed -n '/^model name.*: /{s///p;q}' /proc/cpuinfo)" \
		--arg revision "$(git -C "$root" describe --always --dirty 2> /dev/null || true)" --argjson more "$MORE" '
		{workloads: ($workloads | split(" ")), systems: ($systems | split(" ")), $rounds, $seconds,
		 bound: ($bound / 100), $date, $others, $cpus, $cpu, $revision} + $more' > "$file"
}

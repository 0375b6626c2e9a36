# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# What run, native and compare have in common: the options about rounds, and the way from raw results
# to table and page. Sourced after setup.sh; expects bench.
. "$bench/workloads.sh"

ROUNDS_OPTIONS=r:n:b:w:scC
# shellcheck disable=SC2016
ROUNDS_HELP='  -n ROUNDS     every system is measured in turn, so often (default 5); below 3, no spread is known
  -r SECONDS    of each measurement (default 3)
  -b PERCENT    a ratio whose spread is larger is unsteady, and is not printed (default 10)
  -w NAMES      only these workloads: read-4k-qd1,write-4k-qd1,read-4k-qd32,... or of the sweep
  -s            also a sweep: depths from 1 to 128 at 4 KiB, sizes from 512 bytes to 1 MiB
  -c            each point again in company: a program of equal priority spins
  -C            do not count system calls (that is one more measurement of each point)'
rounds=5 runtime=3 bound=10 sweep='' names='' companies=(quiet counted)

# rounds_option LETTER VALUE: takes one of ROUNDS_OPTIONS, or fails.
rounds_option() {
	case $1 in
	r) runtime=$2 ;;
	n) rounds=$2 ;;
	b) bound=$2 ;;
	w) names=$2 ;;
	s) sweep=1 ;;
	c) companies+=(crowded) ;;
	C) companies=("${companies[@]/counted/}") ;;
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
	read -ra companies <<< "${companies[*]}"
}

# rounds_conditions FILE SYSTEM... : what report needs to know, from the environment of its caller. MORE
# is JSON with base, peers and what else is to be said about the machine.
rounds_conditions() {
	local file=$1
	shift
	jq -n --arg workloads "${workloads[*]#*:}" --arg systems "$*" --argjson rounds "$rounds" \
		--argjson seconds "$runtime" --argjson bound "$bound" --arg date "$(date -u +%F)" \
		--argjson load "$(jq -Rcn '[inputs]' "$out/load")" --argjson cpus "$(nproc)" \
		--arg cpu "$(sed -n '/^model name.*: /{s///p;q}' /proc/cpuinfo)" \
		--arg revision "$(git -C "$root" describe --always --dirty 2> /dev/null || true)" --argjson more "$MORE" '
		{workloads: ($workloads | split(" ")), systems: ($systems | split(" ")), $rounds, $seconds,
		 bound: ($bound / 100), $date, $load, $cpus, $cpu, $revision} + $more' > "$file"
}

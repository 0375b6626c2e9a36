# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# Boots the lab with measure.sh, for run and compare. Sourced after rounds.sh; expects out, and in boot
# the command that boots.

# guest_measure LINK SYSTEM...: raw results in out; sets GUEST to JSON about the machine.
guest_measure() {
	local link=$1 options=() limit
	shift
	if [ "$link" = fast ]; then
		. "$bench/fastcrc.sh"
		rm -rf "$root/build/bench/fastcrc"
		fastcrc_build "$root/build/bench/fastcrc"
		options=(-a cryptomgr.notests=1)
	fi
	export RBLK_BENCH_LINK=$link RBLK_FIO_RUNTIME=$runtime RBLK_BENCH_ROUNDS=$rounds
	export RBLK_BENCH_WORKLOADS=${workloads[*]} RBLK_BENCH_COMPANIES=${companies[*]} RBLK_BENCH_VERBS=${RBLK_BENCH_VERBS:-}
	# Several times what it takes: a second of ramp, two around it.
	limit=$((1200 + 3 * $# * rounds * (10 + ${#workloads[@]} * ${#companies[@]} * (runtime + 3))))
	# The other load of the machine is part of the result.
	cut -d' ' -f1-3 /proc/loadavg > "$out/load"
	"${boot[@]}" -t "$limit" -m 4G "${options[@]}" -o "$out" "$bench/measure.sh" "$@"
	cut -d' ' -f1-3 /proc/loadavg >> "$out/load"
	GUEST=$(jq -n --arg link "$link" --arg accelerator "$(sed -n 's/.*LAB_ACCEL=//p' "$out/job")" \
		--arg machine "Linux $(sed -n '0,/.*Linux version \([^ ]*\).*/s//\1/p' "$out/dmesg"), $guest_cpus processors" \
		'{$link, $accelerator, $machine}')
}
guest_cpus=2 # boot's default

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# Boots two guests with measure.sh, for run and compare. Sourced after rounds.sh; expects out, and in boot
# the command that boots them; kernel may say which.

# guest_measure LINK SYSTEM...: host 2's raw results in out/2; sets GUEST to JSON about the machine.
guest_measure() {
	local link=$1 options=() limit cpus=$((($(nproc) + 1) / 2))
	shift
	if [ "$link" = fast ]; then
		. "$bench/fastcrc.sh"
		rm -rf "$root/build/bench/fastcrc"
		fastcrc_build "$root/build/bench/fastcrc" "${kernel:-6.1}"
		options=(-a cryptomgr.notests=1)
	fi
	export RBLK_BENCH_LINK=$link RBLK_FIO_RUNTIME=$runtime RBLK_BENCH_ROUNDS=$rounds
	export RBLK_BENCH_WORKLOADS=${workloads[*]} RBLK_BENCH_COMPANIES=${companies[*]}
	# Several times what it takes: a second of ramp, two around it.
	limit=$((1200 + 3 * $# * rounds * (10 + ${#workloads[@]} * ${#companies[@]} * (runtime + 3))))
	"${boot[@]}" -t "$limit" -c "$cpus" -m 2G "${options[@]}" -o "$out" "$bench/measure.sh" "$bench/measure.sh" "$@"
	GUEST=$(jq -n --arg link "$link" --arg accelerator "$(sed -n 's/.*LAB_ACCEL=//p' "$out/2/job")" \
		--arg machine "Linux $(sed -n '0,/.*Linux version \([^ ]*\).*/s//\1/p' "$out/2/dmesg"), two hosts, processors of each: $cpus" \
		'{$link, $accelerator, $machine}')
}

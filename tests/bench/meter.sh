# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What a run of fio costs: processor time, context switches and packets, in a window within the run in which I/O flows all
# the time. The figures are rates; point divides them by fio's IOPS. Sourced by native_systems.sh.

METER_TICK=$(getconf CLK_TCK)

# meter_snapshot before|after NAME=PID...: lines "figure time value", with time and processor time in
# seconds. "all" is all processors' time that was not idle; NAME is what a program's threads used (an
# interrupt's work counts for the thread that it interrupts). What belongs to the machine is read last
# before the window and first after it, so that reading the rest is no part of it.
meter_snapshot() {
	local moment=$1 group
	shift
	[ "$moment" = before ] || meter_machine
	for group in "$@"; do meter_threads "${group%%=*}" "${group#*=}"; done
	[ "$moment" = after ] || meter_machine
}

meter_machine() {
	local now=${EPOCHREALTIME/,/.} lines line words cpus=0 idle=0 busy
	mapfile -t lines < /proc/stat
	for line in "${lines[@]}"; do
		case $line in
		cpu[0-9]*)
			read -ra words <<< "$line"
			cpus=$((cpus + 1)) idle=$((idle + words[4] + words[5]))
			;;
		ctxt*) echo "switches $now ${line#* }" ;;
		intr*) line=${line#* } && echo "interrupts $now ${line%% *}" ;;
		esac
	done
	busy=$((${now/./} * cpus - idle * 1000000 / METER_TICK))
	echo "all $now $((busy / 1000000)).$(printf %06d $((busy % 1000000)))"
	[ -z "${RBLK_BENCH_ALONE:-}" ] || echo "packets $now $(alone_segments)"
}

meter_threads() {
	local task lines line used=0 switches=0 own now
	for task in "/proc/$2/task"/*; do
		# Threads end at any time.
		{ read -r own _ < "$task/schedstat" && mapfile -t lines < "$task/status"; } 2> /dev/null || continue
		used=$((used + own))
		for line in "${lines[@]}"; do
			case $line in *ctxt_switches*) switches=$((switches + ${line##*:})) ;; esac
		done
	done
	[ $used -gt 0 ] || return 0
	now=${EPOCHREALTIME/,/.}
	echo "$1 $now $((used / 1000000000)).$(printf %09d $((used % 1000000000)))"
	echo "$1_switches $now $switches"
}

meter_has_threads() { local tasks=("/proc/$1/task"/*) && [ ${#tasks[@]} -ge "$2" ]; }

# Before the programs that it measures, where that is allowed: at depth 32 they leave no time.
meter_hurry() { renice -n -20 -p "$BASHPID" > /dev/null 2>&1 || true; }

# meter_run FILE SECONDS COMMAND...: run fio, whose job takes a second of ramp and SECONDS, and
# leave the rates per second of the window in FILE, as JSON; its exit status is fio's. METER_GROUPS
# has the other programs, as NAME=PID. What a function meter_probe prints in the window is left beside
# FILE, as .probe.
meter_run() {
	local file=$1 seconds=$2 pid status=0 start left
	shift 2
	rm -f "$file"
	"$@" &
	pid=$!
	# fio's own two threads, and the job's, which begins with the second of ramp.
	until meter_has_threads $pid 3 || ! kill -0 $pid 2> /dev/null; do sleep 0.05; done
	start=${EPOCHREALTIME/[.,]/}
	sleep 0.7
	(
		meter_hurry
		meter_snapshot before "initiator=$pid" "${METER_GROUPS[@]}"
	) > "$file.before"
	! declare -F meter_probe > /dev/null || meter_probe > "${file%.meter}.probe"
	# A second before the job's end; on a busy machine all of this may take longer.
	left=$((start + seconds * 1000000 - ${EPOCHREALTIME/[.,]/}))
	[ $left -le 0 ] || sleep "$((left / 1000000)).$(printf %06d $((left % 1000000)))"
	if kill -0 $pid 2> /dev/null; then
		(
			meter_hurry
			meter_snapshot after "initiator=$pid" "${METER_GROUPS[@]}"
		) > "$file.after"
		# If fio ended meanwhile, this was no window.
		! kill -0 $pid 2> /dev/null || jq -Rn --rawfile after "$file.after" --rawfile before "$file.before" '
			def figures: [splits("\n") | select(. != "") | split(" ")
				| {key: .[0], value: {at: (.[1] | tonumber), value: (.[2] | tonumber)}}] | from_entries;
			($before | figures) as $b | ($after | figures) | with_entries(select($b[.key])
				| .value = (.value.value - $b[.key].value) / (.value.at - $b[.key].at))' > "$file"
	fi
	rm -f "$file.before" "$file.after"
	wait $pid || status=$?
	return $status
}

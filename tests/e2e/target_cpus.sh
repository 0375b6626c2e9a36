#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: with `cpus` each reactor runs on its CPU of the list and nowhere else, and all other threads of rblkd run where
# they did, those that a reactor starts included; a CPU that is not there is said at the start. Method: the kernel's list
# for each thread of a running rblkd.
. "$(dirname "$0")/cmd.sh"

# cpus_of TASK: where it may run, as the kernel writes lists.
cpus_of() {
	sed -n 's/^Cpus_allowed_list:\t*//p' "/proc/$1/status"
}

# task NAME: the daemon's thread with this name, in $task.
task() {
	local comm
	task=
	for comm in /proc/"$target_pid"/task/*/comm; do
		[ "$(cat "$comm" 2> /dev/null)" != "$1" ] || task=$(basename "$(dirname "$comm")")
	done
	[ -n "$task" ]
}

# runs_on NAME LIST: the thread with this name may run on these CPUs.
runs_on() {
	local list
	wait_for "thread $1" task "$1"
	list=$(cpus_of "$task")
	[ "$list" = "$2" ] || fail "thread $1 runs on $list, not on $2"
}

# allowed: each CPU that this test may run on, one a line.
allowed() {
	local range
	for range in $(cpus_of $$ | tr , ' '); do
		seq "${range%-*}" "${range#*-}"
	done
}

everywhere=$(cpus_of $$)
mapfile -t cpus < <(allowed)
first=${cpus[0]} last=${cpus[-1]}

# Two reactors on one CPU; the worker of a store, which a reactor starts, and the control thread are free.
truncate -s 1M "$scratch/disk.img"
target_start --cpus "$last" --reactors 2 "$scratch/disk.img"
runs_on reactor-0 "$last"
runs_on reactor-1 "$last"
[ "$(cpus_of "$target_pid")" = "$everywhere" ] || fail "the control thread runs on $(cpus_of "$target_pid")"
expect 0 "$RBLK" copy "$target/disk" "$scratch/copy.img"
cmp "$scratch/disk.img" "$scratch/copy.img" || fail "the copy differs"
task store || fail "no reactor has started a thread"
bound=0
for status in /proc/"$target_pid"/task/*/status; do
	list=$(cpus_of "${status:6:-7}")
	case $(cat "${status%status}comm") in
	reactor-*) bound=$((bound + 1)) ;;
	*) [ "$list" = "$everywhere" ] || fail "thread $(cat "${status%status}comm") runs on $list" ;;
	esac
done
[ "$bound" = 2 ] || fail "$bound reactors"
target_stop

# As many reactors as CPUs, in the order of the list.
if [ "$first" != "$last" ]; then
	target_start --cpus "$last,$first" --memory m=1M
	runs_on reactor-0 "$last"
	runs_on reactor-1 "$first"
	task reactor-2 && fail "more reactors than CPUs"
	target_stop
else
	echo "SKIPPED: two CPUs, there is one"
fi

expect 1 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state" --control-socket none --cpus 1023 --memory m=1M
grep -q 'cpus: reactor 0 cannot run on CPU 1023: Invalid argument' "$scratch/err" || fail "the words"

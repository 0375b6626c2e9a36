# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the block layer saw of /dev/rblkN: each request that was begun has ended once. Sourced by jobs,
# after kmod.sh. The counts are by device, sector and length, so that requests of the same range may
# be under way together.

LAB_ONCE=/sys/kernel/tracing/instances/once

# lab_once_begin: from here on every request is counted. The events are enabled once: that patches the running
# kernel, which QEMU before 8.1 does not always survive (see lab_emulator_fault).
lab_once_begin() {
	if [ ! -e $LAB_ONCE ]; then
		mkdir -p $LAB_ONCE && echo 32768 > $LAB_ONCE/buffer_size_kb && echo global > $LAB_ONCE/trace_clock &&
			echo 0 > $LAB_ONCE/tracing_on || lab_fail "tracing: no instance"
		for event in issue requeue complete; do
			echo 1 > $LAB_ONCE/events/block/block_rq_$event/enable || lab_fail "tracing: block_rq_$event"
		done
	fi
	: > $LAB_ONCE/trace
	echo 1 > $LAB_ONCE/tracing_on
}

# lab_once_end: no request is under way any more. Fails if one has ended twice, or never.
lab_once_end() {
	local lost
	echo 0 > $LAB_ONCE/tracing_on
	lost=$(awk '/^(overrun|dropped events):/ { n += $NF } END { print n + 0 }' $LAB_ONCE/per_cpu/cpu*/stats)
	[ "$lost" = 0 ] || lab_fail "tracing: $lost events are lost"
	# 259 is the major number of rblk's disks; a request without sectors is a flush.
	awk '
		match($0, /block_rq_(issue|requeue|complete): 259,[0-9]+/) {
			split(substr($0, RSTART, RLENGTH), event, ": ")
			if (!match($0, /\) [0-9]+ \+ [0-9]+/)) next
			range = substr($0, RSTART + 2, RLENGTH - 2)
			if (range ~ / 0$/) next
			key = event[2] " " range
			if (event[1] == "block_rq_issue") { under[key]++; begun++ }
			# One that found no free tag is requeued and was not begun.
			else if (event[1] == "block_rq_complete" || under[key] > 0) under[key]--
			if (event[1] == "block_rq_complete") ended++
			if (under[key] < 0) { print "ended twice: " key; bad = 1 }
		}
		END {
			for (key in under) if (under[key] > 0) { print "never ended: " key; bad = 1 }
			print begun + 0 " begun, " ended + 0 " ended"
			exit bad || !ended
		}' $LAB_ONCE/trace > /tmp/once || { tail -n 20 /tmp/once; lab_fail "requests did not end once: the above"; }
	lab_say "$(tail -n 1 /tmp/once), each once"
	: > $LAB_ONCE/trace
}

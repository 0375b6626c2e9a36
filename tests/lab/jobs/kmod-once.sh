# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the block layer saw of /dev/rblkN: each request that was begun has ended once. Sourced by jobs,
# after kmod.sh. The counts are by device, sector and length, so that requests of the same range may
# be under way together. A write that is to have a flush before it (REQ_PREFLUSH, as a journal's commit block is) begins
# when that flush has succeeded; if it fails, the kernel (block/blk-flush.c) ends the write with the flush's error, and
# the driver never sees it. So these writes are known from block_getrq, which still tells them from others.

LAB_ONCE=/sys/kernel/tracing/instances/once

# lab_once_begin: from here on every request is counted, so none may be under way. The events are enabled once: that patches the running
# kernel, which QEMU before 8.1 does not always survive (see lab_emulator_fault).
lab_once_begin() {
	if [ ! -e $LAB_ONCE ]; then
		mkdir -p $LAB_ONCE && echo 32768 > $LAB_ONCE/buffer_size_kb && echo global > $LAB_ONCE/trace_clock &&
			echo 0 > $LAB_ONCE/tracing_on || lab_fail "tracing: no instance"
		echo 'rwbs ~ "F*" && nr_sector > 0' > $LAB_ONCE/events/block/block_getrq/filter || lab_fail "tracing: block_getrq has no filter"
		for event in getrq rq_issue rq_requeue rq_complete; do
			echo 1 > $LAB_ONCE/events/block/block_$event/enable || lab_fail "tracing: block_$event"
		done
	fi
	: > $LAB_ONCE/trace
	echo 1 > $LAB_ONCE/tracing_on
	! grep -Hv '^ *0 *0$' /sys/block/{rblk,ublkb}*/inflight 2> /dev/null || lab_fail "counting begins while requests are under way"
}

# lab_once_end: no request is under way any more. Fails if one has ended twice, or never. LAB_ONCE_UNBEGUN is how many
# writes ended without having begun, because the flush before them failed.
lab_once_end() {
	local lost begun ended
	echo 0 > $LAB_ONCE/tracing_on
	lost=$(awk '/^(overrun|dropped events):/ { n += $NF } END { print n + 0 }' $LAB_ONCE/per_cpu/cpu*/stats)
	[ "$lost" = 0 ] || lab_fail "tracing: $lost events are lost"
	# 259 is the major number of rblk's disks and ublk's; a request without sectors is a flush.
	awk '
		match($0, /block_(getrq|rq_issue|rq_requeue|rq_complete): 259,[0-9]+/) {
			split(substr($0, RSTART, RLENGTH), event, ": ")
			if (!match($0, / [0-9]+ \+ [0-9]+ /)) next
			range = substr($0, RSTART + 1, RLENGTH - 2)
			if (range ~ / 0$/) next
			key = event[2] " " range
			if (event[1] == "block_getrq") { behind_flush[key]++; next }
			if (event[1] == "block_rq_issue") {
				if (behind_flush[key] > 0) behind_flush[key]--
				under[key]++; begun++
				next
			}
			# One that found no free tag is requeued and was not begun.
			if (event[1] == "block_rq_requeue") { if (under[key] > 0) under[key]--; next }
			if (under[key] <= 0 && behind_flush[key] > 0 && /\[-[0-9]+\]$/) { behind_flush[key]--; unbegun++; next }
			ended++
			if (--under[key] < 0) { print "ended twice: " key; bad = 1 }
		}
		END {
			for (key in under) if (under[key] > 0) { print "never ended: " key; bad = 1 }
			for (key in behind_flush) if (behind_flush[key] > 0) { print "never begun: " key; bad = 1 }
			print begun + 0, ended + 0, unbegun + 0
			exit bad || !ended
		}' $LAB_ONCE/trace > /tmp/once || { tail -n 20 /tmp/once; lab_broken "requests did not end once: the above"; }
	read -r begun ended LAB_ONCE_UNBEGUN < <(tail -n 1 /tmp/once)
	lab_say "$begun begun, $ended ended, each once; $LAB_ONCE_UNBEGUN ended because the flush before them failed"
	: > $LAB_ONCE/trace
}

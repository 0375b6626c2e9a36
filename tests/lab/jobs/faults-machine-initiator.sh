# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the target's machine may be killed at any time: sessions come back when it does, and the disks hold what was
# promised. Whoever has acknowledged writes that were not flushed is told so by its next flush (F7), because a disk's
# cache might have lost them; these disks lose nothing, so the first two must hold all that was acknowledged. Method: on
# host 2, writers of the promise journal through librblk, on an attached disk, and on ext4 and xfs there; host 1 is
# killed under them and started again; the disks are read through the new daemon, which has seen none of the writes.
#   faults-machine-initiator.sh [TIMES]    default: 3; faults-machine runs it
. "$LAB/guest.sh"
. "$LAB/promise.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"
times=${1:-3}
uri=rblk://$LAB_PEER/library
may_fail=1
writers=(1 2 3 4)
kinds=('' library raw ext4 xfs)
places=('' "$uri" /dev/rblk0 /tmp/ext4 /tmp/xfs)

writer_start() {
	local own=()
	[ "$1" != 2 ] || own=(--acknowledge /sys/block/rblk0/rblk/acknowledge)
	promise_start "$1" --blocks 2048 --max-blocks 8 --give-up 600000 "${own[@]}" "${places[$1]}"
}
compare() {
	promise_fs_mend
	{
		for writer in 1 2; do promise_check "${places[writer]}" $writer; done
		# What only the page cache has is lost with a file system that stops.
		for writer in 3 4; do strict='' promise_check "${places[writer]}" $writer; done
	} > /out/last
}
incarnation=1
serving() { [ -e "/pair/serving-$incarnation" ]; }
fault_machine() {
	lab_order kill-1
	incarnation=$((incarnation + 1))
	lab_order start-1
	lab_wait 120 serving || lab_fail "$fault: host 1 does not come back"
}

lab_link_up
LAB_ADDR=$LAB_PEER
lab_kmod_load
fault=start
lab_wait 120 serving || lab_fail "host 1 does not serve"
promise_fs_make queues=2 give_up_ms=600000
promise_rounds "$times" machine
grep -q '^H' /out/journal? || lab_fail "nobody was told of a machine that was killed"
promise_fs_end
lab_kmod_unload
cat /out/last
lab_say "$count faults"
touch /pair/ended

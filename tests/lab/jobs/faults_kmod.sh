# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever strikes the target or the connections of attached disks, no writer sees an error, and the disks hold
# everything that was acknowledged: a raw one, and files with fsync on ext4 and xfs. Method: a writer of the promise
# journal on each; the file systems are mounted anew before they are compared, so that the disk says what it
# holds, and in the end once more from the target's own disks; promise.sh has the rest.
#   faults_kmod.sh [ROUNDS [FAULT...]]    default: 1 of all six
# cut: kill_connection, of one queue and of all; the others are promise.sh's. Wants three disks, the last of 320M (xfs).
. "$LAB/guest.sh"
. "$LAB/promise.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod_once.sh"
rounds=${1:-1}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- kill restart pause cut disk slow
writers=(1 2 3)
devices=('' /dev/rblk0 /dev/rblk1 /dev/rblk2)
places=('' /dev/mapper/raw /tmp/ext4 /tmp/xfs)
kinds=('' raw ext4 xfs)

writer_start() {
	local where=${places[$1]}
	[ "$1" != 1 ] || where=${devices[1]}
	promise_start "$1" --blocks 2048 --max-blocks 8 "$where"
}
attribute() { cat "/sys/block/${devices[$1]#/dev/}/rblk/$2"; }
losses() { attribute "$1" losses; }
lab_facts() {
	grep -H . /sys/block/rblk*/rblk/* /sys/block/rblk*/inflight 2> /dev/null
	lab_stacks
}
target_start() {
	lab_rblkd_start --keepalive 1s raw=/dev/mapper/raw ext4=/dev/mapper/ext4 xfs=/dev/mapper/xfs
}
# The page cache knows what was written to it; the disk is to be asked.
mount_both() {
	local i
	for i in 2 3; do mount -t "${kinds[i]}" "$1${kinds[i]}" "${places[i]}" || lab_fail "$fault: ${kinds[i]} is not mounted"; done
}
umount_both() {
	local i
	for i in 2 3; do umount "${places[i]}" || lab_fail "$fault: ${kinds[i]} is not unmounted"; done
}
compare() {
	umount_both
	lab_once_end
	lab_once_begin
	mount_both /dev/rblk/
	for writer in "${writers[@]}"; do promise_check "${places[writer]}" "$writer"; done > /out/last
}
fault_cut() {
	local i
	for i in 0 all 1; do
		echo $i | tee /sys/block/rblk[012]/rblk/kill_connection > /dev/null || lab_fail "$fault: kill_connection"
		progress 20
	done
}

lab_link_up
disks_make raw=/dev/vda ext4=/dev/vdb xfs=/dev/vdc
mkdir -p /tmp/ext4 /tmp/xfs /dev/rblk
fault=start
target_start
lab_kmod_load
for i in 1 2 3; do
	lab_attach "${kinds[i]}" queues=2 command_ms=10000 give_up_ms=600000
	[ "$LAB_DEV" = "${devices[i]}" ] || lab_fail "attached as $LAB_DEV"
	ln -s "$LAB_DEV" "/dev/rblk/${kinds[i]}"
done
mkfs.ext4 -q -F /dev/rblk/ext4 && mkfs.xfs -q -f /dev/rblk/xfs || lab_fail "no file system"
mount_both /dev/rblk/
lab_once_begin
promise_rounds "$rounds" "$@"

# What no cache and no module stands before.
fault=end
umount_both
lab_once_end
for LAB_DEV in "${devices[@]:1}"; do lab_detach; done
lab_rblkd_stop
fsck.ext4 -fn /dev/mapper/ext4 > /out/fsck 2>&1 && xfs_repair -n /dev/mapper/xfs >> /out/fsck 2>&1 ||
	{ cat /out/fsck; lab_broken "a file system is damaged"; }
mount_both /dev/mapper/
for writer in "${writers[@]}"; do promise_check "${places[writer]}" "$writer"; done
umount_both
lab_kmod_unload
lab_say "$count faults"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever strikes the target or the connections of attached disks, no writer sees an error, and the disks hold
# everything that was acknowledged: a raw one, and files with fsync on ext4 and xfs. Method: a writer of the promise
# journal on each; the file systems are mounted anew before they are compared, so that the disk says what it
# holds, and in the end once more from the target's own disks; promise.sh has the rest.
#   faults-kmod.sh [ROUNDS [FAULT...]]    default: 1 of all
# With RBLK_LAB_WAY=ublk the disks are ublk's, and server and upgrade are faults, too: servers are killed, and taken over. With
# nvme-tcp or nvme-rdma they are the kernel's NVMe host's, of one path each: path, device and link are no faults that it survives.
# cut: kill_connection, of one queue and of all; the others are promise.sh's. The raw disk has one path, the others two.
# Wants three disks, the last of 320M (xfs).
. "$LAB/guest.sh"
. "$LAB/promise.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"
. "$LAB/ublk.sh"
. "$LAB/nvme.sh"
rounds=${1:-1}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- kill restart pause cut disk slow silence path loss reorder late device link memory cgroup
writers=(1 2 3)
wires=(1 2)
wired=(1 2 3)
kinds=('' raw ext4 xfs)
places=('' /dev/rblk/raw /tmp/ext4 /tmp/xfs)
address=('' 10.8.1.2 10.8.1.2,10.8.2.2 10.8.1.2,10.8.2.2)

writer_start() { promise_start "$1" --blocks 2048 --max-blocks 8 "${places[$1]}"; }
losses() { lab_losses "$LAB_DISK$(($1 - 1))"; }
target_start() {
	lab_rblkd_start --keepalive ${alive}s --fault-socket /tmp/faults --listen "$LAB_SCHEME://10.8.1.2" \
		--listen "$LAB_SCHEME://10.8.2.2" raw=/dev/mapper/raw ext4=/dev/mapper/ext4 xfs=/dev/mapper/xfs
}
compare() {
	promise_fs_remount
	for writer in "${writers[@]}"; do promise_check "${places[writer]}" "$writer"; done > /out/last
}
fault_cut() {
	local i
	if [ "$LAB_DISK" != /dev/rblk ]; then
		for i in raw ext4 xfs; do "$RBLK" fault /tmp/faults cut $i > /dev/null || lab_fail "$fault: $i"; done
		return
	fi
	for i in 0 all 1; do
		echo $i | tee /sys/kernel/debug/rblk/rblk[012]/kill_connection > /dev/null || lab_fail "$fault: kill_connection"
		progress 20
	done
}

# Soft-RoCE of 6.12 warns where an old acknowledgement arrives late (tests/lab/rxe/old-acknowledgement.patch).
[[ $(uname -r) = 6.1.* ]] || echo 'WARNING: .* at drivers/infiniband/sw/rxe/rxe_comp.c' > /out/excuses
lab_link_up
for wire in "${wires[@]}"; do lab_wire_up "$wire"; done
disks_make raw=/dev/vda ext4=/dev/vdb xfs=/dev/vdc
fault=start
target_start
lab_kmod_load
promise_fs_make
promise_rounds "$rounds" "$@"

# What no cache and no module stands before.
fault=end
promise_fs_end
lab_rblkd_stop
for disk in "${disks[@]%%=*}"; do lab_let_go "/dev/mapper/$disk"; done
fs_each fs_whole /dev/mapper
fs_each fs_mount /dev/mapper
places[1]=/dev/mapper/raw
for writer in "${writers[@]}"; do promise_check "${places[writer]}" "$writer"; done
fs_each fs_umount
lab_kmod_unload
lab_say "$count faults"

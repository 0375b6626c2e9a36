# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What tests/demo shows: rblkd serves a disk, fio writes through RDMA, reads back and compares, the
# disk itself is asked whether it has what was written, and then it is measured; in the lab, it
# becomes a disk of the kernel at the end.
#   demo.sh DISK        a block device, or a file, whose content is lost
. "$LAB/guest.sh"
disk=$1
export RBLK_FIO_SIZE=256m RBLK_FIO_RUNTIME=3

[ -n "${LAB_HERE:-}" ] || lab_link_up
lab_rblkd_start "$disk"
volume=$(basename "$disk")
rblk=("--ioengine=external:$RBLK_FIO_ENGINE" "--rblk_uri=$LAB_URI/$volume")
FIO_STATS=1
"$RBLK" info "$LAB_URI/$volume" || lab_fail "rblk info: exit status $?"

lab_say "writing $RBLK_FIO_SIZE at random, 4 to 256 KiB, 32 outstanding; reading back; comparing CRC32C"
lab_fio "$LAB_OUT/verify" verify "${rblk[@]}"
lab_say "asking the disk itself"
FIO_STATS='' lab_fio "$LAB_OUT/disk" verify --ioengine=io_uring "--filename=$disk" --verify_only=1
for workload in latency:read-4k-qd1 latency:write-4k-qd1 iops:read-4k-qd32 iops:write-4k-qd32 \
	bandwidth:read-128k-qd8 bandwidth:write-128k-qd8; do
	lab_say "measuring ${workload#*:}"
	lab_fio "$LAB_OUT/${workload#*:}" "${workload%%:*}" "${rblk[@]}" "--section=${workload#*:}"
done
if [ -n "${LAB_HERE:-}" ]; then
	lab_rblkd_stop
else
	. "$LAB/jobs/demo_kmod.sh"
	RBLK_FIO_SIZE=64m demo_kmod "$disk"
fi

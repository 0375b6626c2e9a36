# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What tests/demo shows in the lab: rblkd serves a disk, fio writes, verifies and measures it over
# RDMA, and in the end it becomes a disk of the kernel with a file system.
#   demo.sh DISK        a block device whose content is lost
. "$LAB/guest.sh"
. "$LAB/jobs/demo-volume.sh"
. "$LAB/jobs/demo-kmod.sh"
disk=$1
export RBLK_FIO_SIZE=256m RBLK_FIO_RUNTIME=3

lab_link_up
lab_rblkd_start "$disk"
demo_volume "$disk"
RBLK_FIO_SIZE=64m demo_kmod "$disk"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of pauses.sh: the machine that is killed. rblkd on one disk, nvmet on the other; how much I/O each has done is
# in /pair/done-INCARNATION-librblk and -nvme; /pair/serving-INCARNATION-librblk and -nvme are there when they serve.
. "$LAB/guest.sh"
. "$LAB/nvmet.sh"
lab_link_up
tell() {
	awk '{ print $1 + $5 }' "/sys/block/$2/stat" > "/pair/new"
	mv /pair/new "/pair/done-$LAB_INCARNATION-$1"
}
both() { tell librblk vda; tell nvme vdb; }
over() { [ -e /pair/ended ] || [ -e /pair/failed-2 ]; }
lab_rblkd_start --open disk=/dev/vda
touch "/pair/serving-$LAB_INCARNATION-librblk"
lab_nvmet_make pauses /dev/vdb "$LAB_ADDR"
lab_nvmet_listen pauses 1
touch "/pair/serving-$LAB_INCARNATION-nvme"
until over; do both; sleep 0.5; done
lab_rblkd_stop

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what a login over RDMA may meet: too little memory that can be locked, devices that differ or go; and the command's
# verbs for disks, rblktab, udev's links and systemd's units. Method: the jobs that show each, one after the other.
. "$LAB/guest.sh"
lab_job limits
lab_job kmod-rdma
lab_job attach-command
lab_job attach-udev

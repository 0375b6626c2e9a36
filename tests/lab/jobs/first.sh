# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the lab, the fabric on Soft-RoCE, a file system on /dev/rblk0 and the cost of an I/O in messages, in the time that
# tests/run has. Method: the jobs that show each, with smaller sizes, one after the other.
. "$LAB/guest.sh"
export RBLK_LAB_SMALL=1
lab_job smoke "$LAB/guest.sh" $((320 << 20))
lab_job fabric-verbs 300 30
lab_job kmod-filesystem
lab_job kmod-counts

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of the two-host serving test: rblkd on a real disk, until host 2 has done its work.
. "$LAB/guest.sh"
lab_link_up
lab_rblkd_start /dev/vda
lab_meet serving
lab_meet done 120
lab_rblkd_stop

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of faults-machine-initiator.sh: the machine that is killed. rblkd on four disks that outlive it.
. "$LAB/guest.sh"
lab_link_up
lab_rblkd_start --open --keepalive 1s library=/dev/vda raw=/dev/vdb ext4=/dev/vdc xfs=/dev/vdd
touch "/pair/serving-$LAB_INCARNATION"
# Until the writers have ended, or have failed.
over() { [ -e /pair/ended ] || [ -e /pair/failed-2 ]; }
until over; do sleep 0.5; done
lab_rblkd_stop

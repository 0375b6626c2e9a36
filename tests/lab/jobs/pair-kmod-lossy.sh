# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: packets that are lost, late or out of order cost time and nothing else: no connection, no data.
# Method: two hosts whose network cards do that to what they send (netem); fio writes through the module
# and reads back with checksums; host 1 checks the disk itself. The packets must have been lost. All I/O goes
# through slots: Soft-RoCE of 6.1 does a registration again with what it sends again, finds the key in use
# ("mr->lkey not free") and never completes what follows.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/lossy.sh"

WORKLOAD="--rw=randwrite --bsrange=4k-64k --blockalign=4k --size=4m --randseed=7 --verify=crc32c"

lab_link_up
lab_kmod_load
echo 65536 > /sys/module/rblk/parameters/slot_bytes
lab_meet ready
LAB_ADDR=$LAB_PEER
lab_attach disk queues=2 command_ms=300000
lab_meet attached
lab_lossy_begin
echo "$WORKLOAD" > /pair/workload
fio --name=disk --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --iodepth=8 $WORKLOAD --do_verify=1 \
	--verify_fatal=1 --end_fsync=1 --output=/tmp/lossy.txt || { cat /tmp/lossy.txt; lab_fail "fio"; }
[ "$(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")" = live ] && [ "$(cat "/sys/block/${LAB_DEV#/dev/}/rblk/losses")" = 0 ] ||
	lab_fail "the connection was lost: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/reason")"
lab_detach
lab_lossy_end
lab_meet written
lab_kmod_unload

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: packets that are lost, late or out of order cost time, but no connection and no data. If the RDMA device
# cannot handle them, the connection is lost, and I/O ends within the give-up time: nothing hangs, each request ends
# once, the device can be detached and attached again. Method: two hosts whose network cards do that to what they send
# (netem); fio writes through the module and reads back with checksums; host 1 checks the disk itself. The packets
# must have been lost.
#   kmod-lossy-initiator.sh stock|breaking|mended
# Unpatched Soft-RoCE does registrations twice, and that of 6.12 ends READs too early (tests/lab/rxe/ says where).
# With `stock`, writes go in capsules and reads through slots, which need neither. With `breaking`, I/O follows that
# needs both, and the connection may be lost. `mended` is for boot-rxe's driver, which must handle all of it.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"
. "$LAB/lossy.sh"

attribute() { cat "/sys/block/${LAB_DEV#/dev/}/rblk/$1"; }

# verify ARGUMENT...: fio writes, reads back and compares; the connection must hold.
verify() {
	fio --name=disk --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --iodepth=8 --do_verify=1 --verify_fatal=1 \
		--end_fsync=1 --eta=never --output=/tmp/lossy.txt "$@" &
	lab_watch $! || { cat /tmp/lossy.txt; lab_fail "fio: $(attribute reason)"; }
	[ "$(attribute state)" = live ] && [ "$(attribute losses)" = 0 ] ||
		lab_fail "the connection was lost: $(attribute reason)"
}

# attach_lossy WORD...: requests are not merged, so that their sizes are fio's.
attach_lossy() {
	lab_attach disk queues=2 connect_ms=120000 "$@"
	echo 2 > "/sys/block/${LAB_DEV#/dev/}/queue/nomerges"
}

# break_it: large I/O until it ends or the connection is lost; then no request is left.
break_it() {
	attach_lossy command_ms=5000 give_up_ms=2000
	fio --name=large --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randrw --bsrange=64k-256k --blockalign=4k \
		--iodepth=8 --offset=32m --size=16m --time_based --runtime=15 --eta=never --output=/tmp/large.txt 2> /dev/null &
	# A missing answer ends the connection in 5 to 10 s; requests that wait then fail 2 s later.
	lab_watch $! || [ "$(attribute losses)" = 1 ] || { cat /tmp/large.txt; lab_fail "fio, on a connection that holds"; }
	lab_say "losses: $(attribute losses) $(attribute reason)"
	lab_detach force
}

lab_link_up
lab_kmod_load
[ "$1" = mended ] || echo 65536 > /sys/module/rblk/parameters/slot_bytes
lab_meet ready
LAB_ADDR=$LAB_PEER
attach_lossy command_ms=300000
lab_meet attached
lab_lossy_begin
if [ "$1" = mended ]; then
	WORKLOAD="--rw=randwrite --bsrange=4k-256k --blockalign=4k --size=4m --randseed=7 --verify=crc32c"
else
	WORKLOAD="--rw=randwrite --bsrange=4k-16k --blockalign=4k --size=2m --randseed=7 --verify=crc32c"
fi
echo "$WORKLOAD" > /pair/workload
verify $WORKLOAD
if [ "$1" = mended ]; then
	[ "$(lab_counter registrations)" -gt 10 ] || lab_fail "no large I/O"
else
	fio --name=read --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --iodepth=8 --rw=randread --bsrange=4k-64k \
		--blockalign=4k --size=2m --eta=never --output=/tmp/lossy.txt &
	lab_watch $! && [ "$(attribute losses)" = 0 ] || { cat /tmp/lossy.txt; lab_fail "fio read: $(attribute reason)"; }
	[ "$(lab_counter registrations)" = 0 ] || lab_fail "large I/O"
fi
lab_detach

if [ "$1" = breaking ]; then
	lab_say "I/O that breaks unpatched Soft-RoCE"
	echo 4096 > /sys/module/rblk/parameters/slot_bytes
	lab_once_begin
	for _ in 1 2; do break_it; done
	lab_once_end
	lab_say "attached again"
	echo 65536 > /sys/module/rblk/parameters/slot_bytes
	attach_lossy command_ms=300000
	verify --rw=randwrite --bsrange=4k-16k --blockalign=4k --offset=48m --size=1m --verify=crc32c
	lab_detach
fi
lab_lossy_end
lab_meet written
lab_kmod_unload

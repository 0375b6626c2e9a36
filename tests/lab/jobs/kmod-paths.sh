# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: of two paths, one may fail and come back at any time: I/O goes on over the other one, without an error, each
# request ends once, and the data is right. Method: fio with verification writes to a volume at two addresses, each
# on a wire with RDMA devices of its own, while connections are cut, every packet of one wire is lost, and a link is down.
# RBLK_LAB_WAY: by ublk.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"
. "$LAB/ublk.sh"

ONE=10.8.1.2 TWO=10.8.2.2
[ -n "$LAB_SLOW" ] && SIZE=2M || SIZE=8M
DISK=/sys/block/${LAB_DISK#/dev/}0

of_disk() { lab_attached ".[0].$1"; }
wait_for() { lab_wait 60 "$@" || { lab_attached '.[0]'; lab_stacks; lab_fail "never: $*"; }; }
done_on_disk() { awk '{ print $1 + $5 }' $DISK/stat; }
flowed() { [ "$(done_on_disk)" -gt $((before + 100)) ]; }
flows() { before=$(done_on_disk); wait_for flowed; }
live() { of_disk 'paths | map(select(.path_state == "up").host | sub(":4430"; "")) | sort | join(" ")'; }
both_used() { [ "$(live)" = "$ONE $TWO" ]; }
# The module's queue 0 moves to the path that is left, so that some queue is live on it.
left_is() { [ "$(live)" = "$1" ]; }
# A server does not count what it sends again because it was late, nor librblk the loss of one queue of several.
sent_again() { [ "$LAB_DISK" != /dev/rblk ] || [ "$(of_disk retries)" -gt "$retries" ]; }
# cut_connection QUEUE|all: the daemon's faults know no queues.
cut_connection() {
	lab_say "connection $1 is cut"
	case $LAB_DISK-$1 in
	/dev/rblk-*) lab_kill "$1" $DISK ;;
	*-all) "$RBLK" fault /tmp/faults cut disk ;;
	*) return ;;
	esac
	wait_for both_used
	flows
}

# without WIRE ADDRESS-LEFT: what was lost is sent again over the other path while this one is away; it is used again when
# it is back.
without() {
	lab_say "without wire $1"
	flows
	retries=$(of_disk retries)
	lab_wire_lose "$1"
	wait_for left_is "$2"
	wait_for sent_again
	flows
	lab_wire_restore "$1"
	wait_for both_used
	flows
}

lab_link_up
lab_wire_up 1
lab_wire_up 2
truncate -s 64M /tmp/disk.img
lab_rblkd_start --listen "$LAB_SCHEME://$ONE" --listen "$LAB_SCHEME://$TWO" --fault-socket /tmp/faults disk=/tmp/disk.img
lab_kmod_load
lab_once_begin
LAB_ADDR=$ONE,$TWO lab_attach disk queues=2 command_ms=5000 give_up_ms=600000
wait_for both_used
fio --name=paths --filename="$LAB_DEV" --direct=1 --eta=never --ioengine=io_uring --rw=randwrite --bsrange=4k-64k --iodepth=8 \
	--size=$SIZE --numjobs=2 --offset_increment=$SIZE --cpus_allowed=0-1 --cpus_allowed_policy=split --verify=crc32c \
	--verify_backlog=64 --verify_fatal=1 --time_based --runtime=3600 --output=/tmp/paths.txt &
load=$!
flows
for queue in 0 1 all; do cut_connection $queue; done
without 2 $ONE
without 1 $TWO
# The same with links that go down, where the driver bears it (tests/lab/rxe/datagram-error.patch).
if [ "$LAB_LINK" = siw ] || [ -n "${RBLK_LAB_RXE:-}" ]; then
	lab_wire_lose() { lab_wire_link "$1" down; }
	lab_wire_restore() { lab_wire_link "$1" up; }
	without 2 $ONE
	without 1 $TWO
fi
kill $load
lab_watch $load
grep -q 'err= 0' /tmp/paths.txt && ! grep -qE 'verify:|error=' /tmp/paths.txt ||
	{ cat /tmp/paths.txt; lab_broken "an error, or other bytes than were written"; }
cmp -n $((2 * $(numfmt --from=iec $SIZE))) "$LAB_DEV" /tmp/disk.img || lab_broken "the target's file holds other bytes"
lab_say "$(of_disk losses) losses, $(of_disk retries) sent again"
lab_detach
lab_once_end
lab_kmod_unload
lab_rblkd_stop
lab_say done

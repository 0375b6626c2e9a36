# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: of two paths, one may fail and come back at any time: I/O goes on over the other one, without an error, each
# request ends once, and the data is right. Method: fio with verification writes to a volume at two addresses, each
# on a wire with RDMA devices of its own, while connections are cut, every packet of one wire is lost, and a link is down.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"

ONE=10.8.1.2 TWO=10.8.2.2
[ -n "$LAB_SLOW" ] && SIZE=2M || SIZE=8M
DISK=/sys/block/rblk0

attribute() { cat "$DISK/rblk/$1"; }
wait_for() { lab_wait 60 "$@" || { grep -H . $DISK/{rblk/{state,reason,connections},rblk_counters/*}; lab_stacks; lab_fail "never: $*"; }; }
done_on_disk() { awk '{ print $1 + $5 }' $DISK/stat; }
flowed() { [ "$(done_on_disk)" -gt $((before + 100)) ]; }
flows() { before=$(done_on_disk); wait_for flowed; }
live() { grep ' live ' $DISK/rblk/connections; }
both_used() { [ "$(live | sed 's/.* live //; s/ .*//' | sort)" = "$ONE:4430
$TWO:4430" ]; }
# Queue 0 moves to the path that is left, so that some queue is live on it.
left_is() { live | grep -q " $1:" && ! live | grep -qv " $1:"; }
sent_again() { [ "$(attribute retries)" -gt "$retries" ]; }

# without WIRE ADDRESS-LEFT: what was lost is sent again over the other path while this one is away; it is used again when
# it is back.
without() {
	lab_say "without wire $1"
	flows
	retries=$(attribute retries)
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
lab_rblkd_start disk=/tmp/disk.img
lab_kmod_load
lab_once_begin
LAB_ADDR=$ONE,$TWO lab_attach disk queues=2 command_ms=5000 give_up_ms=600000
[ "$(attribute portals)" = "$ONE:4430
$TWO:4430" ] || lab_fail "portals: $(attribute portals)"
wait_for both_used
fio --name=paths --filename="$LAB_DEV" --direct=1 --eta=never --ioengine=io_uring --rw=randwrite --bsrange=4k-64k --iodepth=8 \
	--size=$SIZE --numjobs=2 --offset_increment=$SIZE --cpus_allowed=0-1 --cpus_allowed_policy=split --verify=crc32c \
	--verify_backlog=64 --verify_fatal=1 --time_based --runtime=3600 --output=/tmp/paths.txt &
load=$!
flows
for queue in 0 1 all; do
	lab_say "connection $queue is cut"
	lab_kill $queue $DISK
	wait_for both_used
	flows
done
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
grep -H . $DISK/{rblk/{losses,retries},rblk_counters/*}
lab_detach
lab_once_end
lab_kmod_unload
lab_rblkd_stop
lab_say done

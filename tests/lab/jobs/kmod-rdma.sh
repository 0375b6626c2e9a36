# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what the module does with RDMA devices. Sessions spread over a device's completion vectors; a
# receive is posted again before the commands that it answered have ended (C3); the removal of a device
# does not wait for an attach over another. Method: a kprobe and the function tracer; a second Soft-RoCE
# device, over which an attach waits for a target that says nothing.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

TRACING=/sys/kernel/tracing
lab_link_up
truncate -s 16M /tmp/one.img /tmp/two.img
lab_rblkd_start one=/tmp/one.img two=/tmp/two.img
lab_kmod_load

lab_say "completion vectors"
# The fourth argument, in the registers of an emulated x86.
echo 'p:rblk_cq __ib_alloc_cq vector=%cx:s32' > $TRACING/kprobe_events || lab_fail "no kprobe"
echo 1 > $TRACING/events/kprobes/rblk_cq/enable
for volume in one two; do lab_attach $volume queues=1 own_session; done
echo 0 > $TRACING/events/kprobes/rblk_cq/enable
vectors=$(grep -o 'vector=[0-9]*' $TRACING/trace | sort -u | wc -l)
grep -o 'vector=[0-9]*' $TRACING/trace
[ "$vectors" = 2 ] || lab_fail "two sessions share a vector"
echo > $TRACING/kprobe_events

lab_say "C3"
: > $TRACING/trace
echo rxe_post_recv > $TRACING/set_ftrace_filter && echo function > $TRACING/current_tracer || lab_fail "no function tracer"
echo 1 > $TRACING/events/rblk/rblk_complete/enable
dd if="$LAB_DEV" of=/dev/null bs=4k count=64 iflag=direct status=none || lab_fail "no I/O"
echo 0 > $TRACING/events/rblk/rblk_complete/enable
cat $TRACING/trace > /tmp/order
echo nop > $TRACING/current_tracer # which empties the buffer
# One read at a time, one reply each: at each completion as many receives have been posted as replies came.
awk '/rxe_post_recv/ { posted++ } / rblk_complete: / { ended++; if (posted < ended) late++ }
	END { print ended + 0 " ended, " posted + 0 " posted, " late + 0 " late"; exit ended < 64 || late }' \
	/tmp/order || { head -n 40 /tmp/order; lab_fail "a command ended before its receive was posted"; }
echo > $TRACING/set_ftrace_filter
lab_detach
LAB_DEV=/dev/rblk0
lab_detach

lab_say "one device goes while an attach over another waits"
ip link add lab1 type dummy && ip link set lab1 mtu 9000 up && ip addr add 10.9.1.1/24 dev lab1 &&
	rdma link add rxe1 type rxe netdev lab1 || lab_fail "no second device"
lab_wait 20 grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state || lab_fail "rxe1 does not become active"
lab_rblkd_stop
LAB_ADDR=10.9.1.1
lab_target_start silent-open
(exec 7<> /dev/rblk-control && echo "attach address=$LAB_ADDR volume=disk queues=1 command_ms=600000" >&7) 2> /dev/null &
ATTACH=$!
lab_wait 20 grep -q rblk_disk_attach "/proc/$ATTACH/stack" || lab_fail "the attach does not wait"
rdma link delete rxe0 &
DELETE=$!
deleted() { [ ! -e /sys/class/infiniband/rxe0 ]; }
# A program that has it open holds it up, too: none does.
lab_wait 10 deleted || lab_fail "the removal of rxe0 waits: $(cat /proc/$DELETE/stack)
	open: $(ls -l /proc/[0-9]*/fd/* 2> /dev/null | grep uverbs)"
wait $DELETE || lab_fail "rdma link delete: exit status $?"
grep -q rblk_disk_attach "/proc/$ATTACH/stack" || lab_fail "the attach over rxe1 has ended"

lab_say "the device of an attach goes"
kill -9 "$LAB_TARGET" # it has the device open
wait "$LAB_TARGET" 2> /dev/null
rdma link delete rxe1 || lab_fail "rdma link delete rxe1"
attach_gone() { [ ! -e "/proc/$ATTACH" ] || grep -q '^State:.Z' "/proc/$ATTACH/status"; }
lab_wait 10 attach_gone || lab_fail "the attach hangs: $(cat /proc/$ATTACH/stack)"
wait "$ATTACH" && lab_fail "attached without a device"

lab_kmod_unload
lab_say done

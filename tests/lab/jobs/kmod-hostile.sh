# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever a target says, the module refuses it, asks again, makes it safe for the block layer or
# fails the connection in words; it never warns, never hangs. Method: a scripted target, one behaviour
# after the other.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

# refused BEHAVIOUR TEXT [WORD...]: an attach to such a target fails, and says TEXT; of A|B, one.
refused() {
	local answer behaviour=$1 text=$2
	shift 2
	lab_target_start "$behaviour"
	answer=$(lab_control "attach address=$LAB_ADDR volume=disk queues=2 credits=8 $*") &&
		lab_fail "$behaviour: was attached"
	case $answer in *"${text%%|*}"* | *"${text##*|}"*) ;; *) lab_fail "$behaviour: answered \"$answer\", not \"$text\"" ;; esac
	lab_target_stop
}

# But for the one that each RDMA device has for itself.
no_queue_pairs() {
	local list
	list=$(rdma resource show qp)
	[[ $list == *GSI* && $list != *"type RC"* ]]
}

attribute() { cat "/sys/block/${LAB_DEV#/dev/}/$1"; }
is() { [ "$(attribute "$1")" = "$2" ] || lab_fail "$1: $(attribute "$1"), not $2"; }
failed() { [ "$(attribute rblk/state)" = failed ]; }

write_blocks() {
	$WRITE_ON dd if=/dev/zero of="$LAB_DEV" bs="${WRITE_SIZE:-4k}" count="$1" oflag=direct status=none
}
# How many commands of an opcode a target that has been stopped had seen.
seen() { awk -v name="$1" '$1 == name { print int($2) }' /tmp/target.log; }
read_blocks() { dd if="$LAB_DEV" of=/dev/null bs=64k count="$1" iflag=direct status=none; }

# lost BEHAVIOUR TEXT [WORD...]: a write to such a target fails the connection, with TEXT as the reason. One that is
# lost ends the session here, so that the target need not behave better the next time.
lost() {
	local behaviour=$1 text=$2
	shift 2
	lab_target_start "$behaviour"
	lab_attach disk queues=1 credits=8 give_up_ms=0 "$@"
	# The answer itself may be as good as any.
	if write_blocks 1 2> /dev/null; then
		case $behaviour in twice | invalidate | *event*) ;; *) lab_fail "$behaviour: a write was successful" ;; esac
	fi
	lab_wait 20 failed || lab_fail "$behaviour: state $(attribute rblk/state)"
	case $(attribute rblk/reason) in
	*"$text"*) ;;
	*) lab_fail "$behaviour: reason $(attribute rblk/reason), not $text" ;;
	esac
	lab_detach
	lab_target_stop
}

# fewer BEHAVIOUR TEXT: the second queue of two is not taken, for TEXT; the first does the work of both.
fewer() {
	lab_target_start "$1"
	lab_attach disk queues=2 credits=8
	is rblk/state live
	case $(attribute rblk/connections) in "0 live "*"1 live "*) lab_fail "$1: both queues are up" ;; esac
	said() { case $(attribute rblk/reason) in *"$TEXT"*) ;; *) return 1 ;; esac; }
	TEXT=$2
	lab_wait 20 said || lab_fail "$1: reason $(attribute rblk/reason), not $2"
	for cpu in 0 1; do
		taskset -c $cpu dd if="$LAB_DEV" of=/dev/null bs=4k count=64 iflag=direct status=none || lab_fail "$1: no I/O"
	done
	[ "$(attribute rblk/losses)" = 0 ] || lab_fail "$1: $(attribute rblk/losses) losses"
	lab_detach
	lab_target_stop
}

lab_link_up
lab_kmod_load

# A login that is refused: the target's reason, whichever queue it meets.
refused reject-version 'queue 0: login refused: protocol 2, this target speaks 7'
refused reject-denied 'queue 0: login refused: the target does not allow this address or initiator'
refused reject-queues 'queue 0: login refused: more queues than the target allows (1)'
refused reject-unknown 'queue 0: login refused: unknown reason (99)'
refused reject-nonsense 'queue 0: nobody listens there'
refused reject-silent 'queue 0: nobody listens there'
fewer reject-second 'queue 1: login refused: the target ran out of memory, queue pairs or sessions'
refused accept-version 'queue 0: another protocol version'
lab_wait 20 no_queue_pairs || { rdma resource show qp; lab_fail "queue pairs of refused logins are left"; }
fewer other-instance 'queue 1: the target is not that of the other queues'
refused other-epoch 'accepted another login than was sent'
refused more-credits 'accepted another login than was sent'
refused unasked-feature 'accepted another login than was sent'
for volume in huge-blocks no-blocks endless no-transfer no-handle other-name; do
	refused $volume 'broke the protocol'
done
refused small-transfer "the target's longest command is less than a page"
# A connection that breaks before there is a disk fails the attach, with its own reason; while the kernel
# reads the partitions, too.
refused close-identify 'connection ended by the target'
# "ended by the target", or "was lost" where the session is connected again when the attach ends.
refused close-read 'connection ended by the target|connection was lost' give_up_ms=86400000
[ ! -e /sys/block/rblk0 ] || lab_fail "close-read: a disk is left"

# Who attaches may be killed while no answer comes.
lab_target_start silent-open
(exec 7<> /dev/rblk-control && echo "attach address=$LAB_ADDR volume=disk queues=1 command_ms=600000" >&7) 2> /dev/null &
ATTACH=$!
lab_wait 20 grep -q rblk_disk_attach "/proc/$ATTACH/stack" || lab_fail "the attach does not wait"
kill -9 $ATTACH
attach_gone() { [ ! -e "/proc/$ATTACH" ] || grep -q '^State:.Z' "/proc/$ATTACH/status"; }
lab_wait 20 attach_gone || lab_fail "an attach that was killed hangs: $(cat /proc/$ATTACH/stack)"
wait $ATTACH 2> /dev/null
lab_target_stop

# Hints become what block layers can calculate with. The largest transfer is the module's own, 1 MiB: it
# goes in one command.
lab_target_start odd-hints
lab_attach disk queues=2 credits=8
is queue/logical_block_size 512
is queue/physical_block_size $((1 << 20))
is queue/optimal_io_size $((16 << 20))
is queue/max_hw_sectors_kb 1024
# Later kernels make it no less than the physical block.
case $(attribute queue/discard_granularity) in
512 | $((1 << 20))) ;;
*) lab_fail "queue/discard_granularity: $(attribute queue/discard_granularity)" ;;
esac
blkdiscard -f "$LAB_DEV" || lab_fail "blkdiscard"
write_blocks 16 && read_blocks 4 || lab_fail "no I/O"
before=$(lab_counter commands)
dd if="$LAB_DEV" of=/dev/null bs=1M count=1 iflag=direct status=none || lab_fail "no I/O"
[ $(($(lab_counter commands) - before)) = 1 ] || lab_fail "1 MiB: $(($(lab_counter commands) - before)) commands"
lab_detach
lab_target_stop

lab_target_start least
lab_attach disk queues=1 credits=8
is queue/physical_block_size 512
is queue/optimal_io_size 0
is queue/max_hw_sectors_kb 4
is queue/discard_granularity 512
is queue/discard_max_bytes 512
blkdiscard -f -l 4096 "$LAB_DEV" || lab_fail "blkdiscard"
write_blocks 16 && read_blocks 4 || lab_fail "no I/O"
lab_detach
lab_target_stop

# The target checks each message against what it has granted, and ends if it does not fit.
lab_target_start short-messages
lab_attach disk queues=1 credits=8
fio --name=batches --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randrw --bsrange=512-4k \
	--iodepth=8 --iodepth_batch=8 --size=512k --output=/tmp/fio.txt || { cat /tmp/fio.txt; lab_fail "fio"; }
lab_detach
lab_target_stop

# Nor is more than 64 KiB of data in one message, where a message may be longer: four writes of 16 KiB
# fill it, and one of 3 KiB would fit into the message beside them.
echo 16384 > /sys/module/rblk/parameters/slot_bytes
lab_target_start long-messages
lab_attach disk queues=1 credits=8
fio --name=capsules --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randwrite --bssplit=16k/60:3k/40 \
	--blockalign=512 --iodepth=8 --iodepth_batch=8 --iodepth_batch_complete_min=8 --size=1m --io_size=4m --output=/tmp/fio.txt ||
	{ cat /tmp/fio.txt /tmp/target.log; lab_fail "fio"; }
lab_detach
lab_target_stop
echo 4096 > /sys/module/rblk/parameters/slot_bytes

lab_target_start busy
lab_attach disk queues=1 credits=8
dd if=/dev/zero of="$LAB_DEV" bs=16k count=4 oflag=direct conv=fsync status=none || lab_fail "BUSY was not asked again"
read_blocks 1 || lab_fail "BUSY was not asked again"
is rblk/state live
lab_detach
lab_target_stop

# What a target that shuts down has not begun is held, not failed: it goes again until the connection ends.
lab_target_start draining
lab_attach disk queues=1 credits=8
write_blocks 4 || lab_fail "a write that was answered DRAINING failed"
is rblk/state live
lab_detach
lab_target_stop
[ "$(seen WRITE)" = 16 ] || lab_fail "$(cat /tmp/target.log), not each write four times"

# But no longer than what waits for a lost connection.
lab_target_start always-draining
lab_attach disk queues=1 credits=8 give_up_ms=500
write_blocks 1 2> /tmp/dd && lab_fail "a write that was never done was successful"
grep -q 'Link has been severed' /tmp/dd || lab_fail "$(cat /tmp/dd)"
is rblk/state live
lab_detach
lab_target_stop

# A target without memory is asked again as a busy one is, and it is no reason to lose the connection.
lab_target_start no-resources
lab_attach disk queues=1 credits=8 give_up_ms=500
write_blocks 1 2> /dev/null && lab_fail "NO_RESOURCES: a write was successful"
is rblk/state live
lab_detach
lab_target_stop

# Not for ever, and ever more seldom (C6); and it is no reason to lose the connection.
lab_target_start always-busy
lab_attach disk queues=1 credits=8 give_up_ms=5000
write_blocks 1 2> /dev/null && lab_fail "a write that was never done was successful"
read_blocks 1 || lab_fail "no I/O"
is rblk/state live
lab_detach
lab_target_stop
[ "$(seen WRITE)" -lt 40 ] || lab_fail "asked again $(seen WRITE) times in 5 s"

lab_target_start events
lab_attach disk queues=1 credits=8
write_blocks 32 || lab_fail "no I/O"
is rblk/state live
lab_detach
lab_target_stop
[ "$(seen KEEPALIVE)" -ge 1 ] || lab_fail "no event was confirmed: $(cat /tmp/target.log)"

lost twice 'a command that is not outstanding'
lost other-tag 'a command that is not outstanding'
lost other-life "another command's sequence number"
lost raw 'malformed reply'
lost immediate 'remote access error'
lost too-long 'receive: local' # devices differ in which error it is
lost not-plain 'a reply that is not a plain SEND'
lost two-events 'an event before the last one was confirmed'
# Of two queues the other goes on, and this one comes back.
lab_target_start event-elsewhere
lab_attach disk queues=2 credits=8 give_up_ms=86400000
for i in 1 2 3; do
	WRITE_ON='taskset -c 1' write_blocks 1 || lab_fail "event-elsewhere: a write failed"
done
is rblk/state live
said() { dmesg | grep -q 'lost a connection: .*queue 1: an event on another queue than the first'; }
lab_wait 20 said || lab_fail "event-elsewhere: $(attribute rblk/reason) $(dmesg | tail -n 5)"
lab_detach
lab_target_stop
WRITE_SIZE=64k lost invalidate 'an invalidation that no answer names'
lost closing 'connection'
# Answered, says the answer to ABORT; and no answer to that either.
lost silent 'a command was not answered in' command_ms=1000
lost mute 'no answer to a command in 1 s, nor to its ABORT in 1 s' command_ms=1000

# RESERVE may last, as long as its target lives; without keep-alive times, too, that is asked.
lab_target_start lasting
lab_attach disk queues=1 credits=8 command_ms=500
timeout -s KILL 4 "$LAB_BUILD/tests/lab/pr" "$LAB_DEV" register 0 7 && lab_fail "lasting: RESERVE was answered"
is rblk/state live
is rblk/losses 0
lab_detach
lab_target_stop
[ "$(seen KEEPALIVE)" -ge 2 ] || lab_fail "lasting: nobody asked whether the target lives: $(cat /tmp/target.log)"
lab_target_start dead
lab_attach disk queues=1 credits=8 command_ms=500 give_up_ms=0
timeout 60 "$LAB_BUILD/tests/lab/pr" "$LAB_DEV" register 0 7 && lab_fail "dead: RESERVE was answered"
lab_wait 20 failed || lab_fail "dead: state $(attribute rblk/state)"
case $(attribute rblk/reason) in *'no answer to KEEPALIVE in 500 ms'*) ;; *) lab_fail "dead: $(attribute rblk/reason)" ;; esac
lab_detach
lab_target_stop

lab_kmod_unload
lab_say done

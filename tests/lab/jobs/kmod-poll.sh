# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: polled I/O is right, may stand beside other I/O, is not lost when its submitter is stopped, and ends
# like other I/O when the connection is lost while somebody polls; what io_uring finds in one poll is ended together. Method:
# fio with verification through poll queues and through the others, and the kernel counts calls of what ends a batch; fio is
# stopped for longer than a command may take; the target is killed under polled load; options that cannot be are refused.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

attribute() { cat "/sys/block/${LAB_DEV#/dev/}/$1"; }
refused() {
	local answer
	answer=$(lab_control "$1") && lab_fail "\"$1\" was accepted"
	case $answer in *"$2"*) ;; *) lab_fail "\"$1\": answered \"$answer\", not \"$2\"" ;; esac
}

# fio's threads poll while the target's and the link's want the same processors: little I/O.
[ -n "$LAB_SLOW" ] && IO="--bsrange=4k-8k --size=256k" || IO="--bsrange=4k-64k --size=2M"
verify() {
	fio --name=verify --filename="$LAB_DEV" --direct=1 --rw=randrw $IO --verify=crc32c \
		--verify_fatal=1 --do_verify=1 --output=/tmp/fio.txt "$@" || { cat /tmp/fio.txt; lab_fail "fio $*"; }
}

lab_link_up
lab_rblkd_start "disk=/dev/vda"
lab_kmod_load
refused "attach address=$LAB_ADDR volume=disk queues=9 poll_queues=8" 'must be at most 16 together'
refused "attach address=$LAB_ADDR volume=disk poll_queues=16" 'poll_queues=16: must be from 0 to 15'

lab_attach disk queues=1
[ "$(attribute queue/io_poll)" = 0 ] || lab_fail "io_poll without poll queues"
lab_detach

# Held I/O outlives the time of a command: what the block layer asks about then has no queue to be polled.
lab_attach disk queues=1 poll_queues=2 credits=16 give_up_ms=9000 command_ms=3000
[ "$(attribute queue/io_poll)" = 1 ] || lab_fail "no io_poll"
[ "$(attribute rblk/queues)" = 3 ] || lab_fail "queues: $(attribute rblk/queues)"
lab_say "polled"
TRACING=/sys/kernel/tracing
echo 'p:lab_batches rblk:rblk_io_complete_batch' > $TRACING/kprobe_events || lab_fail "no probe"
echo 1 > $TRACING/events/kprobes/lab_batches/enable
batches() { awk '$1 == "lab_batches" { print $2 }' $TRACING/kprobe_profile; }
verify --ioengine=io_uring --iodepth=4
[ "$(batches)" = 0 ] || lab_fail "$(batches) batches of I/O that is not polled"
verify --ioengine=io_uring --hipri --iodepth=4
lab_say "batches that io_uring has ended: $(batches)"
[ "$(batches)" -gt 0 ] || lab_fail "requests that io_uring polls for are not ended in batches"
echo 0 > $TRACING/events/kprobes/lab_batches/enable
: > $TRACING/kprobe_events
verify --ioengine=pvsync2 --hipri
lab_say "polled and not"
verify --ioengine=io_uring --hipri --iodepth=4 --offset=64M &
polled=$!
verify --ioengine=io_uring --iodepth=4
wait $polled || lab_fail "the polled one of two"

fio --name=load --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --hipri --rw=randrw --bs=4k --iodepth=4 \
	--time_based --runtime=60 --output=/tmp/load.txt 2> /dev/null &
load=$!
before=$(awk '{ print $1 }' "/sys/block/${LAB_DEV#/dev/}/stat")
io_flows() { [ "$(awk '{ print $1 }' "/sys/block/${LAB_DEV#/dev/}/stat")" -gt $((before + 20)) ]; }
lab_wait 60 io_flows || lab_fail "fio: no I/O"

lab_say "stopped"
kill -STOP $load
sleep 8 # command_ms and what the block layer adds to it; the time is what is tested
[ "$(attribute rblk/state)" = live ] || lab_fail "stopped: $(attribute rblk/reason)"
kill -CONT $load
before=$(awk '{ print $1 }' "/sys/block/${LAB_DEV#/dev/}/stat")
lab_wait 60 io_flows || lab_fail "fio: no I/O after it was stopped"

lab_say "target killed"
kill -9 "$LAB_RBLKD"
failed() { [ "$(attribute rblk/state)" = failed ]; }
lab_wait 60 failed || lab_fail "state: $(attribute rblk/state)"
ended() { [ ! -e "/proc/$load" ] || grep -q '^State:.Z' "/proc/$load/status"; }
lab_wait 60 ended || lab_fail "fio hangs: $(cat /proc/$load/stack)"
wait $load && lab_fail "fio saw no error"
lab_detach
lab_kmod_unload
lab_say done

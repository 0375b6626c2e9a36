# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a connection that does not come back never hangs a process, never completes I/O twice, leaves nothing
# behind. (One that comes back is kmod_reconnect's.) Method: fio runs on the device while the target is killed with SIGKILL, the link goes down or is taken
# away, or the device is detached by force; I/O must end with an error by the give-up time, the state must
# be visible, the device must go, and the kernel log must stay silent (boot checks that). The block layer's
# tracepoints say whether each request ended once. I/O waits until the give-up time, also where the target shuts
# down in good order, but for what is to fail fast, such as multipath's. The module itself does not go while its
# device is in use.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"

load_start() {
	fio --name=load --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randrw $LAB_LOAD --numjobs=2 \
		--time_based --runtime=60 --output=/tmp/load.txt 2> /dev/null &
	LOAD=$!
	lab_wait 60 io_flows || lab_fail "fio: no I/O"
}

reads() { awk '{ print $1 }' "/sys/block/${LAB_DEV#/dev/}/stat"; }
io_flows() { [ "$(reads)" -gt "${SEEN:-60}" ]; }
state_is() { [ "$(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")" = "$1" ]; }
load_ended() { [ ! -e "/proc/$LOAD" ] || grep -q '^State:.Z' "/proc/$LOAD/status"; }

# load_fails: the load ends by itself, with an error.
load_fails() {
	lab_wait 60 load_ended || lab_fail "fio hangs: $(cat /proc/$LOAD/stack)"
	wait "$LOAD" && lab_fail "fio saw no error"
	return 0
}

lab_link_up
lab_kmod_load
lab_once_begin

lab_say "target killed"
lab_rblkd_start "disk=/dev/vda"
lab_attach disk queues=2 give_up_ms=2000
load_start
kill -9 "$LAB_RBLKD"
lab_wait 60 state_is failed || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
load_fails
lab_say "reason: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/reason")"
dd if="$LAB_DEV" of=/dev/null bs=4k count=1 iflag=direct 2> /tmp/dd && lab_fail "read from a lost device"
grep -q 'Link has been severed' /tmp/dd || lab_fail "a lost device: $(cat /tmp/dd)"
lab_detach
wait "$LAB_RBLKD" 2> /dev/null
lab_once_end

lab_say "target shut down"
lab_once_begin
lab_rblkd_start "disk=/dev/vda"
lab_attach disk queues=2 give_up_ms=600000 fail_fast_ms=1000
load_start
lab_rblkd_stop
lab_wait 60 state_is recovering || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
held() { [ "$(awk '{ print $1 + $2 }' "/sys/block/${LAB_DEV#/dev/}/inflight")" -gt 0 ]; }
lab_wait 10 held || lab_fail "nothing is held"
load_ended && lab_fail "I/O failed before the give-up time"

lab_say "I/O that fails fast, beside I/O that waits"
modprobe dm_multipath && modprobe dm_round_robin || lab_fail "dm_multipath: does not load"
dmsetup create --noudevsync fast --table "0 8192 multipath 0 0 1 1 round-robin 0 1 0 $LAB_DEV" || lab_fail "dmsetup"
dmsetup mknodes
timeout 60 dd if=/dev/mapper/fast of=/dev/null bs=4k count=1 iflag=direct status=none 2> /dev/null
[ $? != 124 ] || lab_fail "a request that is to fail fast waits"
dmsetup status fast | grep -q ' F ' || lab_fail "the path has not failed: $(dmsetup status fast)"
load_ended && lab_fail "I/O failed before the give-up time"
dmsetup remove --noudevsync fast || lab_fail "dmsetup remove"
lab_detach force
load_fails
lab_once_end

lab_say "not unloaded under load"
lab_once_begin
lab_rblkd_start "disk=/dev/vda"
lab_attach disk queues=2 give_up_ms=60000
load_start
rmmod rblk 2> /tmp/rmmod && lab_fail "unloaded under load"
grep -q 'in use' /tmp/rmmod || lab_fail "rmmod: $(cat /tmp/rmmod)"
SEEN=$(($(reads) + 60))
lab_wait 60 io_flows || lab_fail "no I/O after an attempt to unload"
unset SEEN

lab_say "detached by force under load"
lab_detach force
load_fails
lab_once_end

lab_say "link down under load"
lab_once_begin
lab_attach disk queues=2 command_ms=10000 give_up_ms=1000
load_start
ip link set lab0 down
lab_wait 90 state_is failed || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
load_fails
lab_say "reason: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/reason")"
lab_detach
lab_once_end
answer=$(lab_control "attach address=$LAB_ADDR volume=disk connect_ms=2000") && lab_fail "attached without a link"
case $answer in "$LAB_ADDR:4430: "*) ;; *) lab_fail "attach without a link: $answer" ;; esac
# Soft-RoCE's own queue pair does not survive a message that finds no link: nothing connects through it any
# more, rping no more than we (tests/lab/rxe/datagram-error.patch). So it is made anew.
lab_rblkd_stop
rdma link delete rxe0 || lab_fail "rxe0: is not deleted"
ip link set lab0 up
rdma link add rxe0 type rxe netdev lab0 && lab_wait 10 lab_port_active || lab_fail "the link does not come up again"
lab_rblkd_start "disk=/dev/vda"
lab_attach disk queues=2
dd if="$LAB_DEV" of=/dev/null bs=64k count=16 iflag=direct status=none || lab_fail "no I/O after the link is back"
lab_detach

lab_say "RDMA device removed under load"
lab_once_begin
lab_attach disk queues=2 give_up_ms=1000
load_start
# Ends only when the last program that has the device open is gone, here rblkd.
rdma link delete rxe0 &
DELETE=$!
lab_wait 60 state_is failed || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
load_fails
lab_detach
lab_once_end
kill -9 "$LAB_RBLKD"
wait "$LAB_RBLKD" 2> /dev/null
wait "$DELETE" || lab_fail "rdma link delete: exit status $?"

recovering() {
	rdma link add rxe0 type rxe netdev lab0 && lab_wait 10 lab_port_active
	lab_rblkd_start "disk=/dev/vda"
	lab_attach disk give_up_ms=60000
	kill -9 "$LAB_RBLKD"
	lab_wait 60 state_is recovering || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
}

lab_say "RDMA device removed that lost connections have left memory on"
recovering
timeout 60 rdma link delete rxe0 || lab_fail "rxe0 is not deleted"
state_is recovering || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
lab_detach

lab_say "unloaded with a lost device"
recovering
lab_kmod_unload
lab_say done

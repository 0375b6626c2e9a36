# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a lost connection never hangs a process, never completes I/O twice, leaves nothing behind.
# Method: fio runs on the device while the target is killed with SIGKILL, the link is taken away, or
# the device is detached by force; I/O must end with an error by the give-up time, the state must be
# visible, the device must go, and the kernel log must stay silent (boot checks that).
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

load_start() {
	fio --name=load --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randrw $LAB_LOAD --numjobs=2 \
		--time_based --runtime=60 --output=/tmp/load.txt 2> /dev/null &
	LOAD=$!
	lab_wait 60 io_flows || lab_fail "fio: no I/O"
}

io_flows() { [ "$(awk '{ print $1 }' "/sys/block/${LAB_DEV#/dev/}/stat")" -gt 60 ]; }
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

lab_say "target killed"
lab_rblkd_start "disk=/dev/vda"
lab_attach disk queues=2 give_up_ms=2000
load_start
kill -9 "$LAB_RBLKD"
lab_wait 60 state_is failed || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
load_fails
lab_say "reason: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/reason")"
lab_detach
wait "$LAB_RBLKD" 2> /dev/null

lab_say "detached by force under load"
lab_rblkd_start "disk=/dev/vda"
lab_attach disk queues=2 give_up_ms=60000
load_start
lab_detach force
load_fails

lab_say "RDMA device removed under load"
lab_attach disk queues=2 give_up_ms=1000
load_start
# Ends only when the last program that has the device open is gone, here rblkd.
rdma link delete rxe0 &
DELETE=$!
lab_wait 60 state_is failed || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
load_fails
lab_detach
kill -9 "$LAB_RBLKD"
wait "$LAB_RBLKD" 2> /dev/null
wait "$DELETE" || lab_fail "rdma link delete: exit status $?"

lab_say "unloaded with a lost device"
rdma link add rxe0 type rxe netdev lab0 && lab_wait 10 lab_port_active
lab_rblkd_start "disk=/dev/vda"
lab_attach disk give_up_ms=60000
kill -9 "$LAB_RBLKD"
lab_wait 60 state_is lost || lab_fail "state: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state")"
lab_kmod_unload
lab_say done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Lab-side helpers for jobs that use rblk.ko. Sourced after guest.sh.

# The module, built for the kernel that is booted.
LAB_KO=$LAB_BUILD/kmod-lab/$(basename "$LAB_KERNEL")/kmod/rblk.ko

# On a slow kernel Soft-RoCE sends a large message again before it has arrived: less and smaller I/O, on which the same
# code runs.
if [ -n "$LAB_SLOW" ]; then
	LAB_LOAD="--bsrange=4k-16k --iodepth=4" LAB_VERIFY_SIZE=4M LAB_TREE=/usr/include/linux/netfilter
else
	LAB_LOAD="--bsrange=4k-256k --iodepth=16" LAB_VERIFY_SIZE=48M LAB_TREE=/usr/include/linux
fi

# Only the debug kernel has it. Here it scans when it is told to, and what it had found before the module
# was loaded is nothing to us.
LAB_LEAKS=/sys/kernel/debug/kmemleak

lab_leaks_forget() {
	[ -e $LAB_LEAKS ] || return 0
	echo scan=off > $LAB_LEAKS
	echo clear > $LAB_LEAKS
}

# lab_leaks_none: nothing is left that nothing points to. kmemleak passes over what is younger than 5 s, and
# over what has changed since it looked last: hence the second scan.
lab_leaks_none() {
	[ -e $LAB_LEAKS ] || return 0
	sleep 6 # the age
	for i in 1 2; do echo scan > $LAB_LEAKS; done
	cat $LAB_LEAKS > /tmp/leaks
	[ ! -s /tmp/leaks ] || { cat /tmp/leaks; lab_fail "memory is lost: the above"; }
}

# What insmod does not load by itself; newer kernels have CRC32C built in.
lab_kmod_needs() {
	modprobe -a rdma_cm ib_core || lab_fail "rdma_cm: does not load"
	modprobe -q libcrc32c || [ "$(uname -r | cut -d. -f1-2)" != 6.1 ] || lab_fail "libcrc32c: does not load"
}
lab_kmod_load() {
	[ -e "$LAB_KO" ] || lab_fail "$LAB_KO: not built"
	lab_kmod_needs
	lab_leaks_forget
	insmod "$LAB_KO" || lab_fail "rblk.ko: does not load"
}

lab_kmod_unload() {
	rmmod rblk || lab_fail "rblk.ko: does not unload"
	lab_leaks_none
}

# lab_rblkd_replace ARGUMENT...: a new daemon in the place of the old one, which ends in good order and by kill -9
# in turn. LAB_REPLACED counts them.
LAB_REPLACED=0
lab_rblkd_replace() {
	if [ $((LAB_REPLACED % 2)) = 0 ]; then
		lab_rblkd_stop
	else
		kill -9 "$LAB_RBLKD"
		wait "$LAB_RBLKD" 2> /dev/null
	fi
	lab_rblkd_start "$@"
	LAB_REPLACED=$((LAB_REPLACED + 1))
}

# lab_control LINE: one line to the control device; its answer is printed, its status returned.
lab_control() {
	local status=0
	exec 7<> /dev/rblk-control || return 1
	echo "$1" >&7 2> /dev/null || status=1
	cat <&7
	exec 7>&-
	return $status
}

# lab_attach VOLUME [WORD...]: sets LAB_DEV.
lab_attach() {
	local volume=$1
	shift
	LAB_DEV=/dev/$(lab_control "attach address=$LAB_ADDR volume=$volume $*") ||
		lab_fail "attach $volume: ${LAB_DEV#/dev/}"
	lab_wait 10 [ -b "$LAB_DEV" ] || lab_fail "$LAB_DEV: does not appear"
}

lab_detach() {
	local answer
	answer=$(lab_control "detach device=$LAB_DEV $*") || lab_fail "detach $LAB_DEV: $answer"
	lab_wait 10 [ ! -e "$LAB_DEV" ] || lab_fail "$LAB_DEV: still there"
}

# lab_counter NAME: one of LAB_DEV's.
lab_counter() { cat "/sys/block/${LAB_DEV#/dev/}/rblk_counters/$1"; }

# lab_counters: all of them, a line each.
lab_counters() { (cd "/sys/block/${LAB_DEV#/dev/}/rblk_counters" && grep . ./* | sed 's,^\./,,; s/:/ /'); }

# lab_kill QUEUE|all [DISK]: cut the connection of a queue of DISK (default: LAB_DEV); false: it is refused.
lab_kill() { echo "$1" 2> /dev/null > "/sys/kernel/debug/rblk/$(basename "${2:-$LAB_DEV}")/kill_connection"; }

# lab_watch PID [SECONDS]: wait for a program of ours that does I/O on LAB_DEV, as long as it takes; its exit
# status. Fails when no request has ended for SECONDS (default 120) although it is still there.
lab_watch() {
	local pid=$1 limit=${2:-120} before='' now last=$SECONDS
	while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2> /dev/null; do
		now=$(awk '{ print $1, $5, $12, $16 }' "/sys/block/${LAB_DEV#/dev/}/stat")
		[ "$now" = "$before" ] || { before=$now last=$SECONDS; }
		[ $((SECONDS - last)) -lt "$limit" ] || {
			grep -H . "/sys/block/${LAB_DEV#/dev/}"/{inflight,rblk/state,rblk/reason,rblk_counters/*}
			lab_stacks
			lab_fail "$(cat "/proc/$pid/comm") makes no progress: the above"
		}
		sleep 0.5
	done
	wait "$pid"
}

# lab_stacks: where everything that waits in the kernel stands.
lab_stacks() {
	local task
	for task in /proc/[0-9]*/task/[0-9]*; do
		grep -q '^State:.D' "$task/status" 2> /dev/null || continue
		echo "$(cat "$task/comm"):"
		cat "$task/stack"
	done
}

# lab_target_start BEHAVIOUR: the scripted target in rblkd's place; see kmod_target.c.
lab_target_start() {
	lab_say "$1"
	"$LAB_BUILD/tests/lab/kmod_target" "$LAB_ADDR" "$1" > /tmp/target.log 2>&1 &
	LAB_TARGET=$!
	lab_wait 20 grep -q ready /tmp/target.log || lab_fail "$1: $(cat /tmp/target.log)"
}

lab_target_ended() { [ ! -e "/proc/$LAB_TARGET" ] || grep -q '^State:.Z' "/proc/$LAB_TARGET/status"; }

lab_target_stop() {
	kill "$LAB_TARGET"
	lab_wait 20 lab_target_ended || lab_fail "the target does not end"
	wait "$LAB_TARGET" || lab_fail "the target: exit status $?: $(cat /tmp/target.log)"
}

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Lab-side helpers for jobs that use rblk.ko. Sourced after guest.sh.

# The module, built for the kernel that is booted.
LAB_KO=$LAB_BUILD/kmod-lab/$(basename "$LAB_KERNEL")/kmod/rblk.ko

# With every check on, the emulated machine is some fifty times slower, and Soft-RoCE sends a large
# message again before it has arrived: less and smaller I/O, on which the same code runs.
case $(uname -r) in
*-rblk-debug) LAB_SLOW=1 LAB_LOAD="--bsrange=4k-16k --iodepth=4" LAB_VERIFY_SIZE=4M LAB_TREE=/usr/include/linux/netfilter ;;
*) LAB_SLOW='' LAB_LOAD="--bsrange=4k-256k --iodepth=16" LAB_VERIFY_SIZE=48M LAB_TREE=/usr/include/linux ;;
esac

lab_kmod_load() {
	[ -e "$LAB_KO" ] || lab_fail "$LAB_KO: not built"
	modprobe -a rdma_cm ib_core || lab_fail "rdma_cm: does not load"
	insmod "$LAB_KO" || lab_fail "rblk.ko: does not load"
}

lab_kmod_unload() {
	rmmod rblk || lab_fail "rblk.ko: does not unload"
	# Two scans: what is found by the first may be on its way. Reports go to the kernel log.
	[ ! -e /sys/kernel/debug/kmemleak ] || for i in 1 2; do echo scan > /sys/kernel/debug/kmemleak; done
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

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Lab-side helpers for jobs that use rblk.ko. Sourced after guest.sh.

# The module, built for the kernel that is booted.
LAB_KO=$LAB_BUILD/kmod-lab/$(basename "$LAB_KERNEL")/kmod/rblk.ko

lab_kmod_load() {
	[ -e "$LAB_KO" ] || lab_fail "$LAB_KO: not built"
	modprobe -a rdma_cm ib_core || lab_fail "rdma_cm: does not load"
	insmod "$LAB_KO" || lab_fail "rblk.ko: does not load"
}

lab_kmod_unload() { rmmod rblk || lab_fail "rblk.ko: does not unload"; }

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

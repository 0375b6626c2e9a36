# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what iWARP lacks (immediate data) or wants otherwise (memory that an RDMA READ lands in) is in nobody's
# way: user space and the kernel module read and write with verification, a disk that nobody uses stays, a
# target that is killed is noticed. Method: Soft-iWARP in place of Soft-RoCE. Needs the debug kernel: Debian's
# has no such driver.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

attribute() { cat "/sys/block/${LAB_DEV#/dev/}/rblk/$1"; }
verify() {
	fio --name=verify --direct=1 --rw=randrw $LAB_LOAD --size=2M --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --verify_state_save=0 --output=/tmp/fio.txt "$@" || { cat /tmp/fio.txt; lab_fail "fio $*"; }
}

lab_link_up siw
lab_rblkd_start --keepalive 2s disk=/dev/vda
lab_say "user space"
verify --ioengine=external:"$RBLK_FIO_ENGINE" --rblk_uri="$LAB_URI/disk"
lab_say "kernel module"
lab_kmod_load
lab_attach disk queues=2 command_ms=10000 give_up_ms=1000
verify --ioengine=io_uring --filename="$LAB_DEV"
sleep 12 # the time is what is tested
[ "$(attribute state)" = live ] || lab_fail "$(attribute reason)"
kill -9 "$LAB_RBLKD"
failed() { [ "$(attribute state)" = failed ]; }
lab_wait 60 failed || lab_fail "the target is killed: $(attribute state)"
lab_detach
lab_kmod_unload
lab_say done

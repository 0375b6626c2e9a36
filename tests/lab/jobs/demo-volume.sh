# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# The part of tests/demo that every way to a volume shares. Sourced; expects guest.sh, and rblkd to
# serve DISK at LAB_URI.

# demo_volume DISK: fio writes the volume through rblk, reads it back and compares, then compares
# the disk itself, and then measures the volume. Results are in LAB_OUT, for show_results of
# tests/demo.
demo_volume() {
	local disk=$1 volume workload rblk
	volume=$(basename "$disk")
	rblk=("--ioengine=external:$RBLK_FIO_ENGINE" "--rblk_uri=$LAB_URI/$volume")
	"$RBLK" info "$LAB_URI/$volume" || lab_fail "rblk info: exit status $?"

	lab_say "writing $RBLK_FIO_SIZE at random, 4 to 256 KiB, 32 outstanding; reading back; comparing CRC32C"
	FIO_STATS=1 lab_fio "$LAB_OUT/verify" verify "${rblk[@]}"
	lab_say "comparing the disk itself"
	FIO_STATS='' lab_fio "$LAB_OUT/disk" verify --ioengine=io_uring "--filename=$disk" --verify_only=1
	for workload in latency:read-4k-qd1 latency:write-4k-qd1 iops:read-4k-qd32 iops:write-4k-qd32 \
		bandwidth:read-128k-qd8 bandwidth:write-128k-qd8; do
		lab_say "measuring ${workload#*:}"
		FIO_STATS=1 lab_fio "$LAB_OUT/${workload#*:}" "${workload%%:*}" "${rblk[@]}" \
			"--section=${workload#*:}"
	done
}

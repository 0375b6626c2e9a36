# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The kernel's part of the demonstration: the volume is a disk, with a file system that stores a tree
# of real files and reads them back, while a verified workload runs; in the end the target's own disk,
# read directly, has all of it. Sourced by a job whose rblkd serves DISK, or a job itself:
#   demo-kmod.sh DISK      at least 512 MiB, whose content is lost
#
# Wants rblk.ko for the kernel that is booted (tests/lab/boot-kmod builds it) and RBLK_FIO_SIZE.

# demo_sums FOLDER: one checksum over the names and contents of all files below it.
demo_sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

# demo_did RESULT FILTER: fio did all that was asked for ($size bytes), not less without an error.
demo_did() {
	"$LAB/../bench/point" "$LAB_OUT/$1" |
		jq -e --argjson size "$(numfmt --from=iec "${RBLK_FIO_SIZE^^}")" "$2" > /dev/null ||
		lab_fail "$1: fio did not write or read all of $RBLK_FIO_SIZE: $(cat "$LAB_OUT/$1.log")"
}

# demo_kmod DISK: does all of it, and stops rblkd, because until then only rblkd may use the disk.
demo_kmod() {
	local disk=$1 tree=/usr/include/linux mnt=/run/demo device sums
	# The file system has the first half of this, the verified workload the rest.
	local half=$((256 << 20))
	lab_kmod_load
	device=$("$RBLK" attach "$LAB_URI/$(basename "$disk")") || lab_fail "rblk attach: exit status $?"
	"$RBLK" list --attached || lab_fail "rblk list --attached: exit status $?"

	lab_say "a file system on $device: $(find "$tree" -type f | wc -l) files of $tree copied in"
	mkfs.ext4 -q "$device" $((half >> 10))k || lab_fail "$device: mkfs.ext4"
	mkdir -p $mnt
	mount "$device" $mnt && cp -r "$tree" $mnt/tree && umount $mnt || lab_fail "$device: cannot be written"
	# Neither the files' pages nor the disk's: what is read now comes from the target.
	echo 3 > /proc/sys/vm/drop_caches
	mount "$device" $mnt || lab_fail "$device: cannot be mounted again"
	sums=$(demo_sums "$tree")
	[ "$(demo_sums $mnt/tree)" = "$sums" ] || lab_fail "the files read back are not those that were copied"

	lab_say "writing $RBLK_FIO_SIZE behind it at random, reading back, comparing CRC32C"
	# What fio does not want is to write where something is mounted; it is mounted, but not there.
	FIO_STATS='' lab_fio "$LAB_OUT/kmod-verify" verify --ioengine=io_uring "--filename=$device" --offset=$half \
		--allow_mounted_write=1
	demo_did kmod-verify '.written == $size and .read == $size'
	umount $mnt || lab_fail "$mnt: umount"
	fsck.ext4 -fn "$device" > /tmp/fsck 2>&1 || lab_fail "fsck: $(cat /tmp/fsck)"
	"$RBLK" detach "$device" || lab_fail "rblk detach: exit status $?"
	lab_kmod_unload
	lab_rblkd_stop

	lab_say "comparing the disk itself"
	echo 3 > /proc/sys/vm/drop_caches
	fsck.ext4 -fn "$disk" > /tmp/fsck 2>&1 || lab_fail "fsck of the target's disk: $(cat /tmp/fsck)"
	# The kernel closes what io_uring had open a moment after the daemon has gone.
	lab_wait 10 mount -o ro "$disk" $mnt || lab_fail "$disk: cannot be mounted"
	[ "$(demo_sums $mnt/tree)" = "$sums" ] || lab_fail "$disk: has other files than were copied"
	umount $mnt
	FIO_STATS='' lab_fio "$LAB_OUT/kmod-disk" verify --ioengine=io_uring "--filename=$disk" --offset=$half \
		--verify_only=1
	demo_did kmod-disk '.read == $size'
}

. "$LAB/jobs/kmod.sh"
if [ "$(basename "$0")" = demo-kmod.sh ]; then
	. "$LAB/guest.sh"
	export RBLK_FIO_SIZE=${RBLK_FIO_SIZE:-64m}
	lab_link_up
	lab_rblkd_start "$1"
	demo_kmod "$1"
fi

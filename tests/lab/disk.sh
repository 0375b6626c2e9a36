# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# A disk that a job has attached, DISK, of a volume of rblkd on /dev/vda, under load: its I/O goes on or not, its bytes are right,
# commands reach the target. The job has target_start(), SIZE for the load, TREE for a file system, and done_on(), which counts what
# has been done, for a disk that is not of nvme-tcp or nvme-rdma. Sourced after guest.sh.
RBLKCTL=$LAB_BUILD/target/ctl/rblkctl

target_kill() {
	kill -9 "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
	lab_let_go /dev/vda
}
operations() { "$RBLKCTL" volumes --json | jq ".volumes[0].operations.$1"; }
flushes() { awk '{ print $16 }' /sys/block/vda/stat; }
# Native multipath counts at the path.
done_on() { cat /sys/block/nvme*c*n*/stat | awk '{ n += $1 + $5 } END { print n }'; }
flowed() { [ "$(done_on)" -gt $((before + 50)) ]; }
flows() { before=$(done_on); lab_wait 120 flowed || lab_fail "I/O does not go on"; }
same_bytes() { cmp -n 1048576 "$DISK" /dev/vda || lab_broken "the target's disk holds other bytes"; }

# It reads back what it has written.
FIO=(fio --name=load --direct=1 --ioengine=io_uring --rw=randwrite --bsrange=4k-256k --iodepth=16 --size=$SIZE --verify=crc32c
	--verify_fatal=1 --eta=never --output=/tmp/fio.txt)
# load_begin [ARGUMENT...]: of fio, in place of those here.
load_begin() {
	"${FIO[@]}" --filename="$DISK" --verify_backlog=32 --time_based --runtime=3600 "$@" &
	load=$!
}
# It has seen no error and no other bytes than it has written.
load_end() {
	kill "$load"
	wait "$load"
	grep -q 'err= 0' /tmp/fio.txt && ! grep -qE 'verify:|error=' /tmp/fio.txt || { cat /tmp/fio.txt; lab_broken "an error, or other bytes than were written"; }
}

discards_and_zeroes() {
	local discards zeroes
	discards=$(operations discard) zeroes=$(operations write_zeroes)
	blkdiscard -o 1M -l 1M "$DISK" && blkdiscard -z -o 0 -l 32k "$DISK" || lab_fail "blkdiscard"
	[ "$(operations discard)" -gt "$discards" ] || lab_fail "discards do not reach the target"
	[ "$(operations write_zeroes)" -gt "$zeroes" ] || lab_fail "zeroes do not reach the target"
	cmp -n 32768 /dev/zero /dev/vda || lab_broken "the target's disk holds other bytes than zeroes"
}

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }
# file_system [COMMAND]: which is run while it is mounted.
file_system() {
	mkfs.ext4 -q -F "$DISK" && mkdir -p /tmp/mnt && mount "$DISK" /tmp/mnt || lab_fail "no file system"
	cp -r $TREE /tmp/mnt/tree || lab_fail "cp"
	"${@:-true}"
	fstrim /tmp/mnt || lab_fail "fstrim"
	umount /tmp/mnt || lab_fail "umount"
	echo 3 > /proc/sys/vm/drop_caches
	mount -o ro "$DISK" /tmp/mnt || lab_fail "mount again"
	[ "$(sums $TREE)" = "$(sums /tmp/mnt/tree)" ] || lab_broken "the files differ"
	umount /tmp/mnt || lab_fail "umount"
	fsck.ext4 -fn "$DISK" > /tmp/out 2>&1 || lab_broken "fsck: not clean"
}

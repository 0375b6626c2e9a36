# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a remote volume is used like any disk. Method: attach, ext4 and xfs, a tree of real files
# verified after the caches have been dropped, fio with verification on the device, fsck, detach;
# and the target's own disk, read directly, holds the same bytes. The counters show that each way of the data
# was gone, that commands share messages, and that no key outlives its command. A new daemon is found.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

lab_link_up
lab_rblkd_start "disk=/dev/vda"
lab_kmod_load
lab_attach disk
lab_say "attached: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/state"), $(blockdev --getsize64 "$LAB_DEV") bytes"

for fs in ext4 xfs; do
	[ -z "$LAB_SLOW" ] || [ $fs = ext4 ] || continue
	lab_say "$fs"
	case $fs in
	ext4) mkfs.ext4 -q -F "$LAB_DEV" ;;
	xfs) mkfs.xfs -q -f "$LAB_DEV" ;;
	esac || lab_fail "mkfs.$fs"
	mkdir -p /tmp/mnt
	mount -t $fs "$LAB_DEV" /tmp/mnt || lab_fail "mount $fs"
	cp -r $LAB_TREE /tmp/mnt/tree || lab_fail "cp to $fs"
	umount /tmp/mnt || lab_fail "umount $fs"
	echo 3 > /proc/sys/vm/drop_caches
	mount -t $fs "$LAB_DEV" /tmp/mnt || lab_fail "mount $fs again"
	[ "$(sums $LAB_TREE)" = "$(sums /tmp/mnt/tree)" ] || lab_broken "$fs: the files differ"
	fstrim -v /tmp/mnt || lab_fail "fstrim on $fs"
	umount /tmp/mnt || lab_fail "umount $fs"
	case $fs in
	ext4) fsck.ext4 -fn "$LAB_DEV" > /tmp/fsck 2>&1 ;;
	xfs) xfs_repair -n "$LAB_DEV" > /tmp/fsck 2>&1 ;;
	esac || { cat /tmp/fsck; lab_broken "fsck.$fs: not clean"; }
done

lab_say "fio with verification"
fio --name=verify --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randrw $LAB_LOAD \
	--size=$LAB_VERIFY_SIZE --verify=crc32c --verify_fatal=1 --do_verify=1 --output=/out/fio.txt ||
	{ cat /out/fio.txt; lab_fail "fio"; }

sync
blockdev --flushbufs "$LAB_DEV"
[ -n "$LAB_SLOW" ] && bytes=$((16 << 20)) || bytes=$(blockdev --getsize64 "$LAB_DEV")
cmp -n "$bytes" "$LAB_DEV" /dev/vda || lab_broken "the target's disk holds other bytes"

lab_say "what it took"
keys_ended() { [ "$(lab_counter registrations)" = $(($(lab_counter invalidations) + $(lab_counter remote_invalidations))) ]; }
lab_wait 20 keys_ended || { lab_counters; lab_fail "keys that have not ended"; }

# more COUNTER COMMAND...: by how many it is more after the command.
more() {
	local counter=$1 before
	before=$(lab_counter "$1")
	shift
	"$@" || lab_fail "$*"
	echo $(($(lab_counter "$counter") - before))
}
small_reads() { dd if="$LAB_DEV" of=/dev/null bs=4k count=64 iflag=direct status=none; }
large_reads() { dd if="$LAB_DEV" of=/dev/null bs=64k count=64 iflag=direct status=none; }
deep_reads() {
	fio --name=deep --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randread --bs=4k --iodepth=16 \
		--iodepth_batch_submit=16 --iodepth_batch_complete_min=16 --size=1M --output=/tmp/fio.txt
}
# A read that is alone is answered by an immediate, of a slot, which needs no key of its own. iWARP has none.
immediates=$(more immediates small_reads)
case $LAB_LINK in
siw) [ "$immediates" = 0 ] ;;
*) [ "$immediates" -ge 64 ] ;;
esac || lab_fail "immediates: $immediates of 64 small reads"
[ "$(more registrations small_reads)" = 0 ] || lab_fail "small reads take keys of their own"
[ "$(more registrations large_reads)" -ge 64 ] || lab_fail "large reads take no keys"
[ "$(more remote_invalidations large_reads)" -ge 32 ] || lab_fail "the target ends no keys"
before=$(lab_counter messages)
commands=$(more commands deep_reads)
messages=$(($(lab_counter messages) - before))
lab_say "$commands commands in $messages messages"
[ $((messages * 2)) -lt "$commands" ] || lab_fail "commands do not share messages"
lab_wait 20 keys_ended || lab_fail "keys that have not ended"
lab_counters

lab_say "a new daemon"
# It refuses what it takes for an old session's login, and the module must learn why, over iWARP, too.
attribute() { cat "/sys/block/${LAB_DEV#/dev/}/rblk/$1"; }
back() { [ "$(attribute losses)" -gt 0 ] && [ "$(attribute state)" = live ]; }
lab_rblkd_replace "disk=/dev/vda"
lab_wait 30 back || lab_fail "the disk does not come back: $(attribute reason)"
cmp -n 1048576 "$LAB_DEV" /dev/vda || lab_broken "the target's disk holds other bytes"
lab_detach
lab_kmod_unload
lab_rblkd_stop
lab_say done

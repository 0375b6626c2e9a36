# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: nothing shows under a long and mixed load that short tests miss. Method: stress-ng writes,
# reads, renames, truncates and syncs files on a remote volume for a while; then the file system must
# be clean. With PERIOD (0: not), the daemon is restarted every PERIOD seconds meanwhile, in good order and by kill -9 in
# turn; nothing may notice. FS is ext4 or xfs. With `every`, everything that stress-ng knows to do to a file system
# is done for SECONDS, one after the other. Not one of ctest's: run it by hand, with the time that there is.
#   boot-kmod 6.1 -t 900 -d 2G kmod-stress.sh [SECONDS [PERIOD [FS [every]]]]
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

seconds=${1:-600} period=${2:-0} fs=${3:-ext4} every=${4:-}

# restart_daemon: every $period seconds, until stress-ng ($stress) has ended.
restart_daemon() {
	while sleep "$period" && kill -0 "$stress" 2> /dev/null; do lab_rblkd_replace "disk=/dev/vda"; done
	lab_say "the daemon was replaced $LAB_REPLACED times; losses: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/losses")"
	[ "$LAB_REPLACED" -gt 0 ] || lab_fail "stress-ng ended before the first restart"
}

lab_link_up
lab_rblkd_start "disk=/dev/vda"
lab_kmod_load
lab_attach disk
case $fs in
ext4) force=-F options=errors=remount-ro check=(fsck.ext4 -fn) ;;
xfs) force=-f options=defaults check=(xfs_repair -n) ;;
*) lab_fail "$fs: not a file system that this job knows" ;;
esac
"mkfs.$fs" -q $force "$LAB_DEV" || lab_fail "mkfs.$fs"
mkdir -p /tmp/mnt
mount -t "$fs" -o "$options" "$LAB_DEV" /tmp/mnt || lab_fail "mount"
# stress-ng verifies what it has written, where a stressor can.
case $every in
every) what=(--class filesystem --sequential 1 --exclude procfs) ;; # whose files are not on the disk
*) what=(--hdd 2 --hdd-bytes 64M --iomix 1 --iomix-bytes 64M --sync-file 1 --sync-file-bytes 64M --rename 1 --dentry 1
	--fallocate 1 --fallocate-bytes 32M) ;;
esac
stress-ng --temp-path /tmp/mnt --verify --timeout "$seconds" --metrics-brief "${what[@]}" > /out/stress.txt 2>&1 &
stress=$!
[ "$period" = 0 ] || restart_daemon
wait "$stress"
status=$?
# 3, 4: a stressor was left out for want of something that has nothing to do with the disk, such as a module.
case $every:$status in
*:0) ;;
every:[34]) grep -q 'successful run completed' /out/stress.txt || lab_fail "stress-ng: $(tail -n 30 /out/stress.txt)" ;;
*) lab_fail "stress-ng: exit status $status: $(tail -n 30 /out/stress.txt)" ;;
esac
tail -n 12 /out/stress.txt
umount /tmp/mnt || lab_fail "umount"
"${check[@]}" "$LAB_DEV" || lab_broken "$fs: not clean"
lab_counters
lab_detach
lab_kmod_unload
lab_rblkd_stop
lab_say done

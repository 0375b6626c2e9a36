# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: nothing shows under a long and mixed load that short tests miss. Method: stress-ng writes,
# reads, renames, truncates and syncs files on a remote volume for a while; then the file system must
# be clean. With PERIOD, the daemon is restarted every PERIOD seconds meanwhile, in good order and by kill -9 in
# turn; nothing may notice. Not one of ctest's: run it by hand, with the time that there is.
#   boot-kmod 6.1 -t 900 -d 2G kmod_stress.sh [SECONDS [PERIOD]]
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

seconds=${1:-600} period=${2:-}

# restart_daemon: every $period seconds, until stress-ng ($stress) has ended.
restart_daemon() {
	local restarts=0
	while sleep "$period" && kill -0 "$stress" 2> /dev/null; do
		if [ $((restarts % 2)) = 0 ]; then
			lab_rblkd_stop
		else
			kill -9 "$LAB_RBLKD"
			wait "$LAB_RBLKD" 2> /dev/null
		fi
		lab_rblkd_start "disk=/dev/vda"
		restarts=$((restarts + 1))
	done
	lab_say "the daemon was restarted $restarts times; losses: $(cat "/sys/block/${LAB_DEV#/dev/}/rblk/losses")"
	[ $restarts -gt 0 ] || lab_fail "stress-ng ended before the first restart"
}

lab_link_up
lab_rblkd_start "disk=/dev/vda"
lab_kmod_load
lab_attach disk
mkfs.ext4 -q -F "$LAB_DEV" || lab_fail "mkfs.ext4"
mkdir -p /tmp/mnt
mount -o errors=remount-ro "$LAB_DEV" /tmp/mnt || lab_fail "mount"
# stress-ng verifies what it has written, where a stressor can.
stress-ng --temp-path /tmp/mnt --verify --timeout "$seconds" --metrics-brief \
	--hdd 2 --hdd-bytes 64M --iomix 1 --iomix-bytes 64M --sync-file 1 --sync-file-bytes 64M --rename 1 --dentry 1 \
	--fallocate 1 --fallocate-bytes 32M > /out/stress.txt 2>&1 &
stress=$!
[ -z "$period" ] || restart_daemon
wait "$stress" || { status=$?; tail -n 30 /out/stress.txt; lab_fail "stress-ng: exit status $status"; }
tail -n 12 /out/stress.txt
umount /tmp/mnt || lab_fail "umount"
fsck.ext4 -fn "$LAB_DEV" || lab_fail "fsck: not clean"
cat "/sys/block/${LAB_DEV#/dev/}/rblk/counters"
lab_detach
lab_kmod_unload
lab_rblkd_stop
lab_say done

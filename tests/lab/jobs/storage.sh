# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the commands of rblk-storage(7) do what the page says: a discard of the initiator gives space back to the thin pool
# or file system below, and a snapshot is served read-only while the volume goes on. Method: the page's own text on a disk
# of the guest, with target and initiator installed as for users; what is below is asked how much it holds.
#   storage.sh lvm|btrfs|zfs       zfs: by boot-zfs
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/../e2e/tutorial_blocks.sh"
page=$LAB/../../target/man/rblk-storage.7.scd kind=$1

tutorial_check "$page" "lvm|btrfs|zfs" || lab_fail "$page: the above"
for room in target initiator; do
	(cd "$LAB_BUILD" && cmake --install $room > /tmp/install 2>&1) || lab_fail "install: $(tail -n 5 /tmp/install)"
done
if [ "$kind" = zfs ]; then
	# Its udev rules, too. /lib is a link.
	tar -C "$LAB_KERNEL/zfs/root" -c . | tar -C / -x --keep-directory-symlink || lab_fail "zfs: its programs"
	modprobe -d "$LAB_KERNEL/zfs" zfs || lab_fail "zfs: does not load"
fi
ldconfig
systemd-sysusers /usr/local/lib/sysusers.d/rblkd.conf || lab_fail "systemd-sysusers"
/lib/systemd/systemd-udevd --daemon || lab_fail "udevd: does not start"
mkdir -p /etc/modprobe.d /etc/rblk /mnt /run/rblkd /var/lib/rblkd
echo "install rblk /sbin/modprobe -a rdma_cm ib_core libcrc32c; /sbin/insmod $LAB_KO" > /etc/modprobe.d/rblk-lab.conf
install -m 755 "$LAB/../install/systemctl" /usr/local/bin/systemctl
export STAND_IN_UNITS=/usr/local/lib/systemd/system
lab_link_up
echo "$LAB_ADDR storage1" >> /etc/hosts
lab_facts() { cat /log; }

tutorial_blocks "$page" "$kind" /tmp/blocks
[ "$(ls /tmp/blocks | grep -c '^[0-9]*$')" -ge 5 ] || lab_fail "$page: its examples were not found"
ran=0
# run NUMBER...: examples of the page, on this guest's disk.
run() {
	local block
	for block; do
		[ "$block" = $((ran += 1)) ] || lab_fail "example $block is the page's number $ran"
		block=/tmp/blocks/0$block
		lab_say "$(tr '\n' ';' < "$block")"
		sed -i 's,/dev/sdb,/dev/vda,g' "$block"
		bash -e "$block" > /tmp/out 2>&1 || lab_fail "exit status $?: $(cat /tmp/out)"
		udevadm settle
		[ ! -e "$block.says" ] || while IFS= read -r words; do
			grep -qF -- "$words" /tmp/out || lab_fail "does not say $words: $(cat /tmp/out)"
		done < "$block.says"
	done
}
# held: KiB that the storage below has for the volume.
case $kind in
lvm) held() { lvs --noheadings --nosuffix --units k --options lv_size,data_percent storage/pool | awk '{ printf "%d", $1 * $2 / 100 }'; } ;;
btrfs) held() { sync -f /srv/btrfs && du -k /srv/btrfs/volumes/data.img | cut -f1; } ;;
zfs) held() { zpool sync tank && zfs list -H -p -o referenced tank/data | awk '{ printf "%d", $1 / 1024 }'; } ;;
esac
returned() { [ "$(held)" -le $((full - 24 * 1024)) ]; }

[ $kind != lvm ] || modprobe dm_thin_pool || lab_fail "dm_thin_pool: does not load"
run 1 2
rblk attach rblk://storage1/data > /tmp/device || lab_fail "attach"
run 3 4

lab_say "what is discarded comes back"
head -c 32M /dev/urandom > /mnt/again
sync
full=$(held)
rm /mnt/again
sync
fstrim /mnt || lab_fail "fstrim"
lab_wait 20 returned || lab_fail "below there are still $(held) KiB of $full"

run 5
[ $kind != lvm ] || run 6
ls /tmp/blocks | grep -c '^[0-9]*$' | grep -qx $ran || lab_fail "examples are left"

lab_say "the snapshot is the volume as it was"
echo later > /mnt/later
sync
rblk attach rblk://storage1/monday > /tmp/device || lab_fail "attach monday"
[ "$(blockdev --getro "$(cat /tmp/device)")" = 1 ] || lab_fail "the snapshot may be written"
mkdir -p /tmp/monday
mount -o ro "$(cat /tmp/device)" /tmp/monday || lab_fail "the snapshot cannot be mounted"
diff -r /usr/lib/modules-load.d /tmp/monday/modules-load.d || lab_broken "the snapshot has other data"
[ ! -e /tmp/monday/later ] || lab_broken "the snapshot has what was written after it"
[ "$(cat /mnt/later)" = later ] || lab_broken "the volume has lost data"
umount /tmp/monday /mnt
rblk detach --all || lab_fail "detach"
systemctl stop rblkd || lab_fail "rblkd does not stop"
lab_say done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The target of `machine-root`: serves the other host's root file system, is restarted meanwhile, and looks at the end at
# what that host has left on the disk. The other host is known by its name, which its initial RAM file system must tell.
. "$LAB/guest.sh"
serve() { lab_rblkd_start --control-socket /tmp/control --config /tmp/rblkd.conf; }
unconnected() { "$LAB_BUILD/target/ctl/rblkctl" status --socket /tmp/control --json | jq -e '.connections == 0'; }

lab_link_up
printf '[volume root]\npath = /dev/vda\n[initiator machine]\naddress = 10.9.0.2\nwrite = root\n' > /tmp/rblkd.conf
serve
lab_meet running 120
lab_rblkd_stop
serve
lab_meet restarted 300
lab_meet ended 300

lab_say "the shutdown, which needs the root to its end"
lab_wait 60 unconnected || lab_fail "the other host does not end"
lab_rblkd_stop
lab_let_go /dev/vda
mkdir /tmp/root
# A root that was unmounted, or is mounted read-only, has no journal to replay.
e2fsck -fn /dev/vda > /tmp/fsck 2>&1 || lab_broken "the root file system: $(cat /tmp/fsck)"
modprobe ext4 && mount -o ro /dev/vda /tmp/root || lab_fail "the root file system cannot be mounted"
! dmesg | grep 'EXT4-fs (vda).*recovery' || lab_broken "the machine left its root file system mounted"
[ "$(ls /pair/written | grep -c '^data')" -ge 6 ] || lab_fail "the machine has written nothing"
for file in /pair/written/*; do
	cmp "$file" "/tmp/root/root/${file##*/}" || lab_broken "${file##*/} on the disk"
done
umount /tmp/root

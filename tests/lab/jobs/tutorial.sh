# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the commands of rblk-tutorial(7) that need the kernel module do what the page says. Method: the page's own text,
# in its order, with the initiator installed as it is for users, udevd, and a target here that is called storage1.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/../e2e/tutorial_blocks.sh"
page=$LAB/../../initiator/man/rblk-tutorial.7.scd

(cd "$LAB_BUILD" && cmake --install initiator > /tmp/install 2>&1) || lab_fail "install: $(tail -n 5 /tmp/install)"
ldconfig
/lib/systemd/systemd-udevd --daemon || lab_fail "udevd: does not start"
mkdir -p /etc/modprobe.d /etc/rblk /srv
echo "install rblk /sbin/modprobe -a rdma_cm ib_core libcrc32c; /sbin/insmod $LAB_KO" > /etc/modprobe.d/rblk-lab.conf
lab_link_up
echo "$LAB_ADDR storage1" >> /etc/hosts
lab_rblkd_start data=/dev/vda

tutorial_blocks "$page" kmod /tmp/blocks
[ "$(ls /tmp/blocks | grep -c '^[0-9]*$')" -ge 6 ] || lab_fail "$page: its examples were not found"
for block in /tmp/blocks/[0-9][0-9]; do
	lab_say "$(tr '\n' ';' < "$block")"
	bash -e "$block" > /tmp/out 2>&1 || lab_fail "exit status $?: $(cat /tmp/out)"
	[ ! -e "$block.says" ] || while IFS= read -r words; do
		grep -qF -- "$words" /tmp/out || lab_fail "does not say $words: $(cat /tmp/out)"
	done < "$block.says"
done
umount /srv/data && rblk detach --all || lab_fail "detach"

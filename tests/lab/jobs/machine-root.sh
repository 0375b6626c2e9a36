# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What `machine-root` runs in a machine whose root file system is a volume of the other host.
. "$LAB/guest.sh"
mkdir -p /pair
mount -t 9p -o trans=virtio,version=9p2000.L pair /pair || lab_fail "/pair"

lab_say "the root is a volume"
[ "$(readlink -f "$(findmnt -no SOURCE /)")" = /dev/rblk0 ] || lab_fail "the root: $(findmnt /)"
[ ! -e /dev/vda ] || lab_fail "this machine has another disk"
rblk list --attached --json > /out/attached
jq -e '.attached | length == 1 and (.[0] | .name == "root" and .uri == "rblk://10.9.0.1/root" and .state == "live" and
	.give_up_ns == 86400000000000)' /out/attached > /dev/null || lab_fail "attached: $(cat /out/attached)"
# Neither systemd nor the administrator's --all has anything to do with it.
[ ! -e /run/systemd/generator/remote-fs.target.wants/rblk@root.service ] || lab_fail "it has a unit"
[ -z "$(rblk attach --all)" ] || lab_fail "attach --all has attached it again"

lab_say "a restart of its target is a pause"
cat "$(command -v touch)" > /dev/null
lab_meet running
for i in 1 2 3 4 5 6; do
	head -c 256k /dev/urandom | tee "/root/data$i" | sha256sum > "/root/sum$i"
	sync
done
lab_meet restarted 300
for i in 1 2 3 4 5 6; do
	dd if="/root/data$i" bs=64k iflag=direct status=none | sha256sum | cmp - "/root/sum$i" || lab_broken "data$i"
done
! dmesg | grep -E 'I/O error|EXT4-fs error' || lab_broken "an error where a pause should be"
mkdir /pair/written && cp /root/data? /root/sum? /pair/written/
lab_meet ended

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: systemd itself runs rblkd as the unit says: as user rblk with CAP_IPC_LOCK and no other capability, with the disks of
# group disk, RDMA and nothing else of /dev; what a daemon that root ran, by the drop-in of an upgrade, has left (state,
# reservations, configuration) is the user's from then on; save and reload work; an image that is root's is refused with the
# reason; NVMe passthrough takes what rblkd.conf(5) adds to the unit, and without it the block layer serves.
# Method: the unit, its user and its folders are installed as for users; systemd is the first process of a PID namespace of
# the guest, with a target of ours in place of Debian's services.
#   for boot -d 64M -N 64M
. "$LAB/guest.sh"
(cd "$LAB_BUILD" && cmake --install target > /tmp/install 2>&1 && cmake --install initiator >> /tmp/install 2>&1) ||
	lab_fail "install: $(tail -n 5 /tmp/install)"
ldconfig
systemd-sysusers /usr/local/lib/sysusers.d/rblkd.conf || lab_fail "systemd-sysusers"
systemd-tmpfiles --create /usr/local/lib/tmpfiles.d/rblkd.conf || lab_fail "systemd-tmpfiles"
# What udev does: disks are group disk's, and what passes NVMe commands through is root's.
modprobe nvme || lab_fail "nvme: does not load"
lab_wait 20 [ -b /dev/nvme0n1 ] && lab_wait 20 [ -c /dev/ng0n1 ] || lab_fail "no NVMe disk"
chgrp disk /dev/vda /dev/nvme0n1 && chmod 660 /dev/vda /dev/nvme0n1 || lab_fail "no disks"
chmod 600 /dev/ng0n1

# -- systemd -----------------------------------------------------------------------------------------

printf '[Unit]\nDefaultDependencies=no\n' > /etc/systemd/system/lab.target
drop=/etc/systemd/system/rblkd.service.d
mkdir -p $drop
# Of this machine's own services none is to start here. The log of the daemon has no journal to go to.
printf '[Unit]\nDefaultDependencies=no\n[Service]\nStandardError=append:/out/rblkd.log\n' > $drop/lab.conf
ln -sf /dev/null /etc/systemd/system/network-online.target
LAB_RBLKD_LOG=/out/rblkd.log
: > $LAB_RBLKD_LOG
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup || lab_fail "no cgroups"
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' > /etc/machine-id
# In a control group of its own, which is the root of its control groups. The kernel mounts none over another one.
mkdir /sys/fs/cgroup/lab || lab_fail "no control group"
# shellcheck disable=SC2016
unshare --fork --pid --mount --uts --propagation slave sh -c 'mount -t proc proc /proc && mount -t tmpfs -o mode=755 tmpfs /run &&
	echo 0 > /sys/fs/cgroup/lab/cgroup.procs && exec unshare --cgroup sh -c "umount /sys/fs/cgroup &&
	mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec env container=lab /lib/systemd/systemd --unit=lab.target --log-target=console"' > /out/systemd 2>&1 < /dev/null &
unshare=$!
started() { first=$(pgrep -P $unshare) && [ "$(cat "/proc/$first/comm")" = systemd ]; }
lab_wait 10 started || lab_fail "systemd does not start: $(cat /out/systemd)"
inside() { nsenter -t "$first" -p -m -C "$@"; }
control() { inside systemctl --no-pager "$@"; }
lab_facts() { control status rblkd 2>&1 | tail -n 30; tail -n 20 /out/systemd; }
running() { [ "$(control show -P ActiveState lab.target)" = active ]; }
lab_wait 30 running || lab_fail "systemd is not ready"
ctl() { inside "${RBLKD%/rblkd}/ctl/rblkctl" "$@" > /tmp/out 2>&1; }
# said WORDS: the daemon, since the last restart. restart WHAT: with the units as they are now; a thread writes the log, in order.
said() { grep -qF -- "$1" $LAB_RBLKD_LOG; }
restart() {
	control stop rblkd && : > $LAB_RBLKD_LOG && control daemon-reload && control start rblkd || lab_fail "$1: rblkd does not start"
	lab_wait 10 said ready: || lab_fail "$1: rblkd has no log"
}
# daemon FIELD: of the daemon's /proc/PID/status, in which users and groups have no names.
daemon() { awk -v field="$1:" '$1 == field { $1 = ""; print substr($0, 2) }' "/proc/$(pgrep -x rblkd)/status"; }
owner() { inside stat -c "$1" "$2"; }

# opens DEVICE: a root that is in the unit's control group may read it.
opens() {
	# shellcheck disable=SC2016
	inside sh -c 'echo $$ > "/sys/fs/cgroup$1/cgroup.procs" && : < "$2"' sh "$(control show -P ControlGroup rblkd)" "$1" 2> /tmp/out
}

# -- before RDMA -------------------------------------------------------------------------------------

lab_say "an RDMA device that comes after the service"
[ ! -e /dev/infiniband ] || lab_fail "there are RDMA devices already"
printf '[target]\nlisten = rblk+tcp://127.0.0.1:0\n[volume spare]\nstore = memory\nsize = 1M\n' > /etc/rblk/rblkd.conf
restart "without RDMA"
lab_link_up
# As udev leaves them: everyone's.
chmod 666 /dev/infiniband/* || lab_fail "no RDMA devices"
for device in /dev/infiniband/rdma_cm /dev/infiniband/uverbs0; do
	opens $device || lab_fail "$device is not allowed: $(cat /tmp/out)"
done

# -- as root, as it was ------------------------------------------------------------------------------

lab_say "a daemon that root runs"
truncate -s 16M /srv/root.img
chmod 600 /srv/root.img
printf '# ours\n[target]\nlisten = rblk://%s\n[volume disk]\npath = /dev/vda\n' "$LAB_ADDR" > /etc/rblk/rblkd.conf
echo '# ours' > /etc/rblk/rblktab
# The very file that the packages write.
sed -n "/<< 'END'/,/^END/p" "$LAB/../../target/install/rblkd.keep-root" | sed '1d;$d' > $drop/00-user.conf
grep -qx User=root $drop/00-user.conf || lab_fail "no drop-in in rblkd.keep-root"
restart "as root"
[ "$(daemon Uid)" = "0 0 0 0" ] || lab_fail "as root: $(daemon Uid)"
# CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_IPC_LOCK are numbers 0, 1 and 14.
[ "$(daemon CapEff)" = 0000000000004003 ] || lab_fail "as root: $(daemon CapEff)"
inside touch /run/rblkd/left /var/lib/rblkd/left || lab_fail "no folders"
for path in /run/rblkd /var/lib/rblkd; do
	[ "$(owner %U $path)" = root ] || lab_fail "as root: $path is $(owner %U $path)'s"
done
control stop rblkd || lab_fail "as root: rblkd does not stop"

# -- as its own user ---------------------------------------------------------------------------------

lab_say "the next one runs as its own user"
rm $drop/00-user.conf
# As an administrator leaves it who has written it anew.
chown root:root /etc/rblk/rblkd.conf && chmod 600 /etc/rblk/rblkd.conf
restart "as user rblk"
user=$(id -u rblk) group=$(id -g rblk)
[ "$(daemon Uid)" = "$user $user $user $user" ] && [ "$user" != 0 ] || lab_fail "user: $(daemon Uid)"
[ "$(daemon Gid)" = "$group $group $group $group" ] || lab_fail "group: $(daemon Gid)"
[ "$(daemon Groups | xargs -n 1 | sort)" = "$(printf '%s\n' "$group" "$(getent group disk | cut -d: -f3)" | sort)" ] ||
	lab_fail "groups: $(daemon Groups)"
for set in CapEff CapPrm CapInh CapBnd CapAmb; do
	[ "$(daemon $set)" = 0000000000004000 ] || lab_fail "$set: $(daemon $set)"
done
[ "$(daemon NoNewPrivs)" = 1 ] || lab_fail "new privileges"
[ "$(daemon Seccomp)" = 2 ] || lab_fail "no filter of system calls"
for path in /run/rblkd /run/rblkd/left /var/lib/rblkd /var/lib/rblkd/left; do
	[ "$(owner %U $path)" = rblk ] || lab_fail "$path is $(owner %U $path)'s"
done
head -c 1M /dev/urandom > /tmp/data
"$RBLK" copy /tmp/data "rblk://$LAB_ADDR/disk" > /tmp/out 2>&1 || lab_fail "copy: $(cat /tmp/out)"
cmp -n 1048576 /tmp/data /dev/vda || lab_broken "the disk has other data"
[ "$(owner '%U:%G %a' /run/rblkd/control)" = "rblk:rblk 660" ] || lab_fail "the control socket: $(owner '%U:%G %a' /run/rblkd/control)"

# -- the devices -------------------------------------------------------------------------------------

for device in /dev/vda /dev/nvme0n1 /dev/null /dev/infiniband/rdma_cm /dev/infiniband/uverbs0; do
	opens $device || lab_fail "$device is not allowed: $(cat /tmp/out)"
done
for device in /dev/kmsg /dev/ng0n1; do
	: < $device || lab_fail "$device: not even without the unit"
	! opens $device || lab_fail "$device is allowed"
	grep -q 'Operation not permitted' /tmp/out || lab_fail "$device: not by the control group: $(cat /tmp/out)"
done

# -- the configuration -------------------------------------------------------------------------------

lab_say "add, save and reload"
ctl add volume spare store=memory size=1M || lab_fail "add: $(cat /tmp/out)"
ctl save || lab_fail "save: $(cat /tmp/out)"
grep -q '^# ours$' /etc/rblk/rblkd.conf && grep -q '^\[volume spare\]$' /etc/rblk/rblkd.conf || lab_fail "saved: $(cat /etc/rblk/rblkd.conf)"
control reload rblkd || lab_fail "reload"
printf '[volume image]\npath = /srv/root.img\ncache = buffered\n' >> /etc/rblk/rblkd.conf
! control reload rblkd || lab_fail "an image of root's is served"
ctl reload && lab_fail "an image of root's is served"
grep -q '/srv/root.img: Permission denied; rblkd runs as user rblk: chown rblk /srv/root.img' /tmp/out || lab_fail "why not: $(cat /tmp/out)"
chown rblk /srv/root.img
control reload rblkd || lab_fail "an image of its own is not served"

# Beside the configuration, what is not the daemon's: in its namespace not even root replaces it.
for command in 'rm -f' 'mv -f /etc/rblk/rblkd.conf' 'truncate -s 0'; do
	! nsenter -t "$(pgrep -x rblkd)" -m $command /etc/rblk/rblktab 2> /tmp/out || lab_fail "$command: the service may change rblktab"
done
grep -qx '# ours' /etc/rblk/rblktab && grep -qx '# ours' /etc/rblk/rblkd.conf || lab_fail "rblktab or rblkd.conf is not as it was"
# Nor is it in an administrator's way.
echo '# more' >> /etc/rblk/rblktab && mv /etc/rblk/rblktab /etc/rblk/rblktab.old || lab_fail "rblktab is not root's any more"

# -- NVMe passthrough --------------------------------------------------------------------------------

lab_say "passthrough"
printf '[volume fast]\nstore = nvme\npath = /dev/nvme0n1\n' >> /etc/rblk/rblkd.conf
restart "by the block layer"
said 'volume fast: /dev/ng0n1: Permission denied; rblkd runs as user rblk: a rule of udev' && said 'no passthrough: /dev/nvme0n1 is served' ||
	lab_fail "the generic device: no warning"
chgrp rblk /dev/ng0n1 && chmod 660 /dev/ng0n1
restart "with the group only"
said 'volume fast: /dev/ng0n1: Operation not permitted; rblkd runs as user rblk: DeviceAllow=' || lab_fail "DeviceAllow: no warning"
# What the manual has, for 6.1.
awk '/^# NVME/ { section = 1 } /^```/ { inside = !inside; next } section && inside && /^(\[Service\]|DeviceAllow=|AmbientCap|CapabilityB)/' \
	"$LAB/../../target/man/rblkd.conf.5.scd" > $drop/nvme.conf
[ "$(wc -l < $drop/nvme.conf)" = 4 ] || lab_fail "rblkd.conf(5): $(cat $drop/nvme.conf)"
restart "with what the manual adds"
! said 'no passthrough' || lab_fail "no passthrough"
# CAP_SYS_ADMIN is number 21.
[ "$(daemon CapEff)" = 0000000000204000 ] || lab_fail "with passthrough: $(daemon CapEff)"
before=$(cat /sys/block/nvme0n1/stat)
"$RBLK" copy /tmp/data "rblk://$LAB_ADDR/fast" > /tmp/out 2>&1 || lab_fail "copy: $(cat /tmp/out)"
[ "$(cat /sys/block/nvme0n1/stat)" = "$before" ] || lab_fail "it went through the block layer"

# -- the end -----------------------------------------------------------------------------------------

control stop rblkd || lab_fail "stop"
[ "$(control show -P Result rblkd)" = success ] || lab_fail "it ended with $(control show -P Result rblkd)"
cmp -n 1048576 /tmp/data /dev/nvme0n1 || lab_broken "the NVMe disk has other data"
kill -KILL "$first"
wait $unshare
lab_say "done"

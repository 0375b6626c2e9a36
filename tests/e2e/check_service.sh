#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: "rblkd --check" by root calls valid what the service can start, and nothing else. Method: in a mount namespace with a user
# rblk, the unit as built, and tests/install/systemctl in systemd's place, root checks the service's configuration with one mistake
# after the other. 77: not root.
#   check_service.sh UNIT
. "$(dirname "$0")/cmd.sh"
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${RBLK_CHECK:-}" ]; then
	[ "$(id -u)" = 0 ] && unshare -mn true 2> /dev/null || { echo "SKIPPED: no namespaces (needs root)"; exit 77; }
	RBLK_CHECK=1 unshare -mn --propagation private "$0" "$@"
	exit
fi
ip link set lo up
mkdir "$scratch/etc" "$scratch/units" "$scratch/bin"
cp -a /etc/. "$scratch/etc/"
rm -rf "$scratch/etc/rblk"
mkdir "$scratch/etc/rblk"
mount --bind "$scratch/etc" /etc
systemd-sysusers "$here/../../target/install/rblkd.sysusers" || fail "no user rblk"
for folder in /srv /mnt /var/lib /home /root; do
	mount -t tmpfs tmpfs $folder
done
chmod 711 /root
install -d -o root -g rblk -m 770 /srv/rblk
install -d -o rblk -g rblk -m 700 /var/lib/rblkd
cp "$1" "$scratch/units/rblkd.service"
ln -s "$here/../install/systemctl" "$scratch/bin/systemctl"
export PATH=$scratch/bin:$PATH STAND_IN_UNITS=$scratch/units STAND_IN_CALLS=$scratch/calls STAND_IN_LOG=$scratch/log
conf=/etc/rblk/rblkd.conf
volume() { printf '[target]\nlisten = %s\n[volume a]\npath = %s\n%s\n' "${3:-rblk+tcp://:4430}" "$1" "${2:-}" > $conf; }
# wrong TEXT; right
wrong() {
	expect 1 "$RBLKD" --check --config $conf
	err_has "$1"
}
right() {
	expect 0 "$RBLKD" --check --config $conf
	out_has "the configuration is valid for the service's user rblk: 1 volume, 1 address"
}

# An image in the folder for them is given to the service when it starts; elsewhere it has to be its own.
truncate -s 1M /srv/rblk/a.img /srv/a.img
chmod 600 /srv/rblk/a.img /srv/a.img $conf 2> /dev/null || true
volume /srv/rblk/a.img
right
volume /srv/a.img
wrong 'volume a: /srv/a.img: Permission denied; rblkd runs as user rblk: chown rblk /srv/a.img'
chown rblk /srv/a.img
# Root's own, as at a first start: the service gets it.
chown root:root $conf
chmod 600 $conf
right

# Folders that the unit hides, although the file is the service's.
for folder in /home /root /tmp /var/tmp; do
	truncate -s 1M $folder/rblk-check.img
	chown rblk $folder/rblk-check.img
	chmod 666 $folder/rblk-check.img
	volume $folder/rblk-check.img
	case $folder in
	*tmp) wrong "volume a: $folder/rblk-check.img: No such file or directory; user rblk's service has a $folder of its own (PrivateTmp= in its unit)" ;;
	*) wrong "volume a: $folder/rblk-check.img: Permission denied; rblkd runs as user rblk: it may not enter $folder (ProtectHome= in its unit)" ;;
	esac
	rm $folder/rblk-check.img
done
# An administrator has changed the unit.
truncate -s 1M /home/rblk-check.img
chown rblk /home/rblk-check.img
volume /home/rblk-check.img
sed -i 's/^ProtectHome=.*/ProtectHome=no/' "$scratch/units/rblkd.service"
right
# The system is read-only.
truncate -s 1M /etc/rblk-check.img
chown rblk /etc/rblk-check.img
volume /etc/rblk-check.img
wrong 'volume a: /etc/rblk-check.img: Read-only file system'
volume /etc/rblk-check.img 'read_only = yes'
right

# Other units of an administrator: what is read-only, and what is not; which devices there are.
unit() { sed -i "/^\($1\)=/d" "$scratch/units/rblkd.service" && printf '%s\n' "${@:2}" >> "$scratch/units/rblkd.service"; }
volume /home/rblk-check.img
unit ProtectHome ProtectHome=read-only
wrong 'volume a: /home/rblk-check.img: Read-only file system'
volume /home/rblk-check.img 'read_only = yes'
right
unit ProtectHome ProtectHome=no
volume /srv/a.img
right
unit ProtectSystem ProtectSystem=strict
wrong 'volume a: /srv/a.img: Read-only file system'
volume /srv/a.img 'read_only = yes'
right
# What is the service's stays so: its state.
truncate -s 1M /var/lib/rblkd/a.img
chown rblk /var/lib/rblkd/a.img
volume /var/lib/rblkd/a.img
right
volume /srv/a.img
unit ReadWritePaths 'ReadWritePaths=-/none /srv'
right
unit 'ProtectSystem\|ReadWritePaths' ProtectSystem=full
mknod /srv/disk b 240 77
chown rblk /srv/disk
# There is no such disk; but the service would come as far as to see that.
volume /srv/disk
wrong 'volume a: /srv/disk: No such device or address'
refused='volume a: /srv/disk: Operation not permitted; rblkd runs as user rblk: DeviceAllow= in its unit does not have this device'
unit DeviceAllow 'DeviceAllow=/dev/null rw' 'DeviceAllow=char-* rw'
wrong "$refused"
unit DeviceAllow 'DeviceAllow=/dev/null rw' 'DeviceAllow=/srv/disk r'
wrong "$refused"
volume /srv/disk 'read_only = yes'
wrong 'volume a: /srv/disk: No such device or address'
volume /srv/disk
unit DeviceAllow 'DeviceAllow=/dev/null rw' 'DeviceAllow=/srv/disk rw'
wrong 'volume a: /srv/disk: No such device or address'
unit DeviceAllow 'DeviceAllow=block-no-such-driver rw'
wrong "$refused"
unit DeviceAllow
wrong "$refused"
unit DevicePolicy DevicePolicy=auto
wrong 'volume a: /srv/disk: No such device or address'
unit PrivateDevices PrivateDevices=yes
wrong "$refused"
unit PrivateDevices

# A key of root's, an address that is not this machine's, RDMA where there is none.
"$RBLK" key new /etc/rblk/db1.key > "$scratch/out" 2>&1 || fail "rblk key"
chown root:root /etc/rblk/db1.key
volume /srv/a.img "$(printf '[initiator db1]\nsecret = /etc/rblk/db1.key\nwrite = a')"
expect 2 "$RBLKD" --check --config $conf
err_has '/etc/rblk/db1.key: Permission denied; rblkd runs as user rblk: chown rblk /etc/rblk/db1.key'
chown rblk /etc/rblk/db1.key
right
volume /srv/a.img '' rblk+tcp://192.0.2.77:4430
wrong 'rblk+tcp://192.0.2.77:4430: '
if [ -z "$(ls /sys/class/infiniband 2> /dev/null)" ]; then
	volume /srv/a.img '' rblk://:4430
	wrong 'rblk://:4430: '
fi

# Ports that are the system's.
printf '[target]\nlisten = rblk+tcp://:4430\nhttp = 80\ndiscovery = lo\ndiscovery_port = 53\n[volume a]\npath = /srv/a.img\n' > $conf
wrong 'http: 80: Permission denied'
err_has 'discovery: UDP port 53: Permission denied'

# What a start warns of: rules without a volume, and a file system without zeroes.
volume /srv/a.img "$(printf '[initiator db1]\naddress = 192.0.2.1\nwrite = a, aa')"
right
err_has 'initiator db1: there is no volume aa'
truncate -s 1M /mnt/a.img
chown rblk /mnt/a.img
volume /mnt/a.img 'cache = buffered'
right
err_has 'WRITE_ZEROES is not offered'

# A new image of root's there is refused to rblkctl add, with what makes it the service's; other files are root's to give.
printf '[target]\nopen = yes\n[volume a]\npath = /srv/a.img\n' > "$scratch/open.conf"
chmod 711 "$scratch"
chown rblk "$scratch/state" "$scratch/identities" 2> /dev/null || true
printf '#!/bin/bash\nexec setpriv --reuid rblk --regid rblk --clear-groups "%s" "$@"\n' "$RBLKD" > "$scratch/as-rblk"
chmod 755 "$scratch/as-rblk"
install -d -o rblk "$scratch/run"
chown root "$conf" /srv/rblk/a.img
RBLKD=$scratch/as-rblk target_start --control-socket "$scratch/run/control" --config "$scratch/open.conf"
expect 1 "$RBLKCTL" add volume b path=/srv/rblk/a.img --socket "$scratch/run/control"
err_has '/srv/rblk/a.img: Permission denied; rblkd runs as user rblk: chown rblk /srv/rblk/a.img; systemctl reload rblkd gives it what is in /srv/rblk'
chown root /srv/rblk
chmod 700 /srv/rblk
expect 1 "$RBLKCTL" add volume b path=/srv/rblk/a.img --socket "$scratch/run/control"
err_has '/srv/rblk/a.img: Permission denied; rblkd runs as user rblk: it may not enter /srv/rblk; systemctl reload rblkd gives it what is in /srv/rblk'
chmod 770 /srv/rblk
truncate -s 1M /srv/b.img
chmod 600 /srv/b.img
expect 1 "$RBLKCTL" add volume b path=/srv/b.img --socket "$scratch/run/control"
err_has 'chown rblk /srv/b.img'
grep -q systemctl "$scratch/err" && fail "a reload does not help"
target_stop

# Another file is checked as who asks; and the service may run meanwhile.
cp $conf "$scratch/other.conf"
expect 0 "$RBLKD" --check --config "$scratch/other.conf"
out_has 'the configuration is valid: 1 volume, 1 address'
target_listen=rblk+tcp://127.0.0.1:4430 target_start a=/mnt/a.img
volume /mnt/a.img '' rblk+tcp://127.0.0.1:4430
right
target_stop

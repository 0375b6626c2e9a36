# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What `machine` runs in a machine that has the packages, at each of two boots. First: rblkd serves a disk, rblktab attaches
# it, a file system on it is mounted; what other programs see of it; an upgrade under load, which is a pause. Second, after
# a restart: the data is there without a hand. -u: the module is not there, so the disk is one of ublk's; the program that serves it
# is upgraded, too.
. "$LAB/guest.sh"
state=/var/lib/lab DISK=/dev/rblk0
[ "${1:-}" != -u ] || DISK=/dev/ublkb0
lab_facts() { systemctl --no-pager status rblkd rblk@data srv-data.mount 2>&1 | tail -n 60; }
fact() { grep -qE -- "$2" <<< "$1" || lab_fail "not so: $2: $1"; }
active() { [ "$(systemctl is-active "$@" | sort -u)" = active ] || lab_fail "$*: $(systemctl is-active "$@" | xargs)"; }

setup() {
	lab_say "as the packages leave it"
	[ $DISK != /dev/rblk0 ] || fact "$(dkms status)" "^rblk/.*, $(uname -r), .*: installed"
	[ "$(systemctl is-enabled rblkd)" = enabled ] || lab_fail "rblkd is not enabled"
	[ "$(systemctl is-active rblkd)" = inactive ] || lab_fail "rblkd runs without a configuration"

	lab_say "the target"
	printf '[target]\nlisten = rblk://10.9.0.1:4430\n[volume data]\npath = /dev/vdb\n' > /etc/rblk/rblkd.conf
	rblkd --check --config /etc/rblk/rblkd.conf || lab_fail "rblkd --check"
	systemctl start rblkd || lab_fail "rblkd does not start"
	[ "$(ps -o user=,ni= -p "$(systemctl show -P MainPID rblkd)" | xargs)" = "rblk -5" ] || lab_fail "rblkd does not run as user rblk, with priority"

	lab_say "the disk"
	echo "data rblk://storage1/data" >> /etc/rblk/rblktab
	echo "/dev/rblk/by-name/data /srv/data ext4 _netdev,nofail 0 2" >> /etc/fstab
	mkdir -p /srv/data
	# Target and initiator are one machine here.
	mkdir -p /etc/systemd/system/rblk@.service.d
	printf '[Unit]\nAfter=rblkd.service\n' > /etc/systemd/system/rblk@.service.d/lab.conf
	systemctl daemon-reload
	systemctl start rblk@data || lab_fail "rblk@data does not start"
	udevadm settle
	mkfs.ext4 -q -L appliance /dev/rblk/by-name/data || lab_fail "mkfs.ext4"
	udevadm settle
	systemctl start srv-data.mount || lab_fail "srv-data.mount does not start"
	cp -a /etc /srv/data/ || lab_fail "/srv/data cannot be written"
	(cd /srv/data && find . -type f -exec sha256sum {} +) > $state/sums
	[ "$(wc -l < $state/sums)" -gt 100 ] || lab_fail "too few files"
}

others() {
	lab_say "what other programs see"
	fact "$(blkid $DISK)" 'LABEL="appliance".*TYPE="ext4"'
	lsblk -J -o NAME,TYPE,FSTYPE,LABEL,SERIAL,MOUNTPOINT $DISK > /out/lsblk
	jq -e --arg serial "$(rblk list --attached --json | jq -r '.attached[0].serial')" '.blockdevices[0] | .type == "disk" and .fstype == "ext4" and
		.label == "appliance" and .mountpoint == "/srv/data" and .serial == $serial' /out/lsblk > /dev/null ||
		lab_fail "lsblk: $(cat /out/lsblk)"
	systemctl start udisks2 || lab_fail "udisks2 does not start"
	udisksctl info -b $DISK > /out/udisks || lab_fail "udisks2 does not know it: $(cat /out/udisks)"
	fact "$(cat /out/udisks)" 'IdLabel: +appliance'
	fact "$(cat /out/udisks)" 'MountPoints: +/srv/data'
	fact "$(cat /out/udisks)" '/dev/rblk/by-name/data'
	# A disk of one path, or whose paths rblk itself joins, is none of multipathd's.
	active multipathd
	multipathd show paths format '%d' > /out/multipath || lab_fail "multipathd does not answer"
	! grep ${DISK#/dev/} /out/multipath || lab_fail "multipathd has taken the disk"
}

# load: writes a file and reads it back from the disk, past the page cache, until told to end.
load() {
	local count=0
	while [ ! -e $state/stop ]; do
		dd if=$state/pattern of=/srv/data/load bs=64k oflag=direct conv=notrunc status=none || return
		dd if=/srv/data/load bs=64k iflag=direct status=none | cmp - $state/pattern || return
		count=$((count + 1))
		echo $count > $state/loads
	done
}
loads() { cat $state/loads 2> /dev/null || echo 0; }
loaded() { [ "$(loads)" -gt "$1" ]; }

two_ready() { [ "$(journalctl -q -o cat --output-fields=RBLK_JSON _SYSTEMD_UNIT=rblkd.service RBLK_EVENT=ready | grep -c '"event":"ready"')" -ge 2 ]; }

# The packages leave it alone. Its unit is the same as before, not that of whoever has called this.
take_over() {
	local before
	before=$(pgrep -x rblk-ublk)
	rblk attach --take-over --all > /out/take-over 2>&1 || lab_broken "take over: $(cat /out/take-over)"
	[ "$(pgrep -x rblk-ublk)" != "$before" ] || lab_fail "it was not taken over"
	for process in $(pgrep -x rblk-ublk) $(pgrep -x rblk-ublk-keep); do fact "$(cat "/proc/$process/cgroup")" '/rblk@data.service$'; done
}

upgrade() {
	lab_say "an upgrade under load"
	local first before load
	first=$(systemctl show -P MainPID rblkd)
	head -c 1M /dev/urandom > $state/pattern
	load > $state/load 2>&1 &
	load=$!
	lab_wait 20 loaded 2 || lab_fail "no load: $(cat $state/load)"
	DEBIAN_FRONTEND=noninteractive apt-get install -y /packages/*.deb > /out/upgrade 2>&1 ||
		lab_fail "apt-get: $(tail -n 20 /out/upgrade)"
	[ "$(dpkg-query -W -f '${Version}' rblkd | sed 's/.*-//')" = 9 ] || lab_fail "not upgraded: $(cat /out/upgrade)"
	[ "$(systemctl show -P MainPID rblkd)" != "$first" ] || lab_fail "rblkd was not restarted"
	active rblkd
	# Both have told the journal, from within the unit's walls.
	lab_wait 20 two_ready || lab_fail "events in the journal: $(journalctl -q -o cat RBLK_EVENT=ready)"
	[ $DISK = /dev/rblk0 ] || take_over
	before=$(loads)
	lab_wait 60 loaded $((before + 1)) || lab_broken "the load does not go on: $(cat $state/load)"
	touch $state/stop
	wait $load || lab_broken "the load met an error: $(cat $state/load)"
	! dmesg | grep -E 'I/O error|EXT4-fs error' || lab_broken "an error where a pause should be"
	fact "$(rblk list --attached)" ' live$'
	rm /srv/data/load
}

data_is_there() {
	lab_say "after the restart"
	active rblkd rblk@data srv-data.mount
	[ "$(findmnt -no SOURCE /srv/data)" = $DISK ] || lab_fail "mounted: $(findmnt /srv/data)"
	(cd /srv/data && sha256sum --quiet -c $state/sums) || lab_broken "the data is not what was written"
	# The shutdown had its order: file system, volume, target.
	journalctl -b -1 -o cat -u srv-data.mount -u rblk@data -u rblkd --no-pager > /out/shutdown
	awk '/Unmounted srv-data.mount/ { unmounted = NR } /Stopped rblk@data.service/ { detached = NR } /Stopped rblkd.service/ { stopped = NR }
		END { exit !(unmounted && unmounted < detached && detached < stopped) }' /out/shutdown ||
		lab_fail "not in its order: $(tail -n 30 /out/shutdown)"
	grep -q 'rblk@data.service: Deactivated successfully' /out/shutdown || lab_fail "detached by force: $(tail -n 30 /out/shutdown)"
	! grep -E 'rblk@data.service: (Killing|State .* timed out)' /out/shutdown || lab_fail "its server was killed"
	! dmesg | grep "EXT4-fs (${DISK#/dev/}).*recovery" || lab_fail "the file system had not been unmounted"
}

if [ ! -d $state ]; then
	mkdir $state
	setup
	others
	upgrade
else
	data_is_there
fi
lab_say "done"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: an attached volume is part of the system: links by name, target, serial number and file
# system, serial and wwid for lsblk; units that systemd accepts, ordered as fstab needs it. Method:
# the installed files of the build, udevd from this machine, systemd-analyze and the generator. With the argument ublk the disks are
# those of ublk.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
[ "${1:-}" = ublk ] && DISK=ublkb0 WAY=,ublk || DISK=rblk0 WAY=

points_to() { [ "$(readlink -f "$1")" = "$2" ] || lab_fail "$1: $(readlink -f "$1" || echo missing), not $2"; }
attach() { rblk attach "$@" > /tmp/device || lab_fail "rblk attach $*"; }

(cd "$LAB_BUILD" && cmake --install initiator > /tmp/install 2>&1) || lab_fail "install: $(tail -n 5 /tmp/install)"
ldconfig
/lib/systemd/systemd-udevd --daemon || lab_fail "udevd: does not start"
lab_link_up
lab_rblkd_start disk=/dev/vda
[ -n "$WAY" ] || lab_kmod_load
mkdir -p /etc/rblk
printf 'data-1 %s/disk queues=1%s\n' "$LAB_URI" "$WAY" > /etc/rblk/rblktab

lab_say "links"
attach data-1
points_to /dev/rblk/by-name/data-1 /dev/$DISK
udevadm settle --timeout=30
serial=$("$RBLK" list --attached --json | jq -r '.attached[0].serial') wwid=uuid.$serial
[ -n "$WAY" ] || [ "$(cat /sys/block/rblk0/rblk/serial) $(cat /sys/block/rblk0/rblk/wwid)" = "$serial $wwid" ] || lab_fail "list is not as sysfs"
[ ${#serial} = 32 ] || lab_fail "serial: $serial"
points_to "/dev/rblk/by-target/$LAB_ADDR:4430/disk" /dev/$DISK
points_to "/dev/rblk/by-id/$serial" /dev/$DISK
points_to "/dev/disk/by-id/rblk-$serial" /dev/$DISK
[ "$(lsblk -dno SERIAL /dev/$DISK)" = "$serial" ] || lab_fail "lsblk: SERIAL $(lsblk -dno SERIAL /dev/$DISK)"
[ "$(lsblk -dno WWN /dev/$DISK)" = "$wwid" ] || lab_fail "lsblk: WWN $(lsblk -dno WWN /dev/$DISK)"
udevadm info --query=property /dev/$DISK > /tmp/properties
# A volume has a UUID, which must not be reported as an EUI64 or NAA number.
[ "$("$RBLK" list --attached --json | jq -r '.attached[0].wwid')" = "$wwid" ] || lab_fail "the list has another wwid"
[ "$("$RBLK" info --json "$LAB_URI/disk" | jq -r .uuid | tr -d -)" = "$serial" ] || lab_fail "the serial is not the volume's UUID"
grep -iE '^ID_.*=(0x|eui\.|naa\.)' /tmp/properties && lab_fail "the above is no identifier of this disk"
grep -qx "ID_SERIAL=$serial" /tmp/properties || lab_fail "properties: $(cat /tmp/properties)"

lab_say "a file system, partitions"
mkfs.ext4 -q -U 6c1f2b8e-2f47-4c6e-8a52-0a2a3a4a5a6a /dev/$DISK || lab_fail "mkfs.ext4"
linked() { [ "$(readlink -f "$1")" = "$2" ]; }
lab_wait 20 linked /dev/disk/by-uuid/6c1f2b8e-2f47-4c6e-8a52-0a2a3a4a5a6a /dev/$DISK || lab_fail "no link by UUID"
# A partition table of one entry: 16384 blocks from 2048 on.
{ head -c 446 /dev/zero; printf '\0\0\0\0\203\0\0\0\0\010\0\0\0\100\0\0'; head -c 48 /dev/zero; printf '\125\252'; } > /tmp/mbr
wipefs -qa /dev/$DISK && dd if=/tmp/mbr of=/dev/$DISK conv=fsync status=none || lab_fail "no partition table"
lab_wait 20 blockdev --rereadpt /dev/$DISK || lab_fail "the partition table is not read"
lab_wait 20 linked /dev/rblk/by-name/data-1-part1 /dev/${DISK}p1 || lab_fail "no link to the partition"
points_to "/dev/rblk/by-id/$serial-part1" /dev/${DISK}p1
# No udevadm settle here: udev may still have the device open.
blockdev --flushbufs /dev/$DISK
rblk detach data-1 || lab_fail "detach while udev has it open"
lab_wait 20 [ ! -e /dev/rblk/by-name/data-1 ] || lab_fail "the link is left"
attach "$LAB_URI/disk"
udevadm settle --timeout=30
[ ! -e /dev/rblk/by-name/data-1 ] || lab_fail "a name that was not given"
points_to "/dev/rblk/by-target/$LAB_ADDR:4430/disk-part1" /dev/${DISK}p1
rblk detach --all || lab_fail "detach --all"

if [ -z "$WAY" ]; then
	lab_say "a name ends with its disk, also when the module is unloaded"
	attach data-1
	points_to /dev/rblk/by-name/data-1 /dev/rblk0
	lab_wait 20 rmmod rblk || lab_fail "rmmod fails, also after udev has closed the device"
	lab_wait 20 [ ! -e /dev/rblk/by-name/data-1 ] || lab_fail "the link is left"
	lab_kmod_load
	lab_attach disk
	udevadm settle --timeout=30
	points_to "/dev/rblk/by-target/$LAB_ADDR:4430/disk" "$LAB_DEV"
	[ ! -e /dev/rblk/by-name/data-1 ] || lab_fail "another attachment has the name of the one before"
	rblk detach --all || lab_fail "detach --all"
fi

lab_say "units"
printf '# a comment\n\nlater %s/disk noauto\nroot %s/disk queues=2,initramfs\nodd/name x\n last.one\t%s/disk\tqueues=2' \
	"$LAB_URI" "$LAB_URI" "$LAB_URI" >> /etc/rblk/rblktab
units=/usr/local/lib/systemd/system
mkdir -p /tmp/normal
/usr/local/lib/systemd/system-generators/rblk-generator /tmp/normal /tmp/normal /tmp/normal || lab_fail "generator"
wanted=$(ls /tmp/normal/remote-fs.target.wants | tr '\n' ' ')
[ "$wanted" = "rblk@data-1.service rblk@last.one.service " ] || lab_fail "generator: wants $wanted"
[ "$(readlink /tmp/normal/remote-fs.target.wants/rblk@last.one.service)" = $units/rblk@.service ] || lab_fail "generator: link"
cat > /tmp/srv.mount <<-END
	[Mount]
	What=/dev/rblk/by-name/data-1
	Where=/srv
	Options=_netdev
END
systemd-analyze verify --man=no $units/rblk@data-1.service /tmp/srv.mount > /tmp/verify 2>&1 || lab_fail "systemd-analyze: $(cat /tmp/verify)"
grep -E 'rblk|srv' /tmp/verify && lab_fail "systemd-analyze: the above"
grep -q '^Before=remote-fs-pre.target' $units/rblk@.service || lab_fail "the unit is not before remote-fs-pre.target"

lab_say "the unit's own commands"
unit_command() { sed -n "s/^$1=//p" $units/rblk@.service | sed "s/%i/$2/"; }
$(unit_command ExecStart last.one) || lab_fail "ExecStart"
points_to /dev/rblk/by-name/last.one /dev/$DISK
$(unit_command ExecStop last.one) || lab_fail "ExecStop"
lab_wait 20 [ ! -e /sys/block/$DISK ] || lab_fail "$DISK: still there"
udevadm control --exit
[ -n "$WAY" ] || lab_kmod_unload
lab_rblkd_stop
lab_say done

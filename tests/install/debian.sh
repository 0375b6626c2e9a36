#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The packages in a fresh Debian: installed, upgraded while a volume is written (a pause, no error), upgraded from a version
# that root ran (and root goes on to, until the administrator moves it), removed, purged, and then nothing is left.
# Method: mmdebstrap makes the Debian in a folder, apt installs into it; the maintainer scripts and Debian's helpers run for
# real, with tests/install/systemctl in place of a running systemd.
#   debian.sh FOLDER VERSION [TAR]     TAR: keeps the fresh Debian, and brings it the next time
set -euo pipefail
packages=$1 version=$2 tar=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "SKIPPED: needs root"; exit 77; }
scratch=$(mktemp -d)
system=$scratch/system
leave() {
	[ ! -e "$system/run/rblkd.service.pid" ] || kill "$(cat "$system/run/rblkd.service.pid")" 2> /dev/null || true
	umount -l "$system/dev" "$system/proc" 2> /dev/null || true
	rm -rf --one-file-system "$scratch"
}
trap leave EXIT
trap 'exit 130' INT TERM
fail() {
	echo "FAILED: $*" >&2
	tail -n 40 "$scratch/out" "$system/log" "$system/calls" >&2 2> /dev/null || true
	exit 1
}
inside() {
	chroot "$system" env -i PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}
apt() { inside apt-get -qq -y --no-install-recommends "$@" > "$scratch/out" 2>&1 < /dev/null || fail "apt-get $*"; }
# state: every path, but those that dpkg, apt and Debian's other tools keep for themselves.
state() {
	(cd "$system" && find . -xdev ! -path './proc/*' ! -path './dev/*' ! -path './var/lib/dpkg/*' \
		! -path './var/lib/apt/*' ! -path './var/cache/*' ! -path './var/log/*' ! -path './tmp/*' \
		! -path './packages*' ! -path './calls' ! -path './log' | sort)
}
# runs_as USER: the daemon.
runs_as() {
	local owner
	owner=$(stat -c %u "/proc/$(cat "$system/run/rblkd.service.pid")")
	[ "$owner" = "$(inside id -u "$1")" ] || fail "rblkd runs as user $owner, not as $1"
}
said() { grep -qE -- "$1" "$system/calls" || fail "systemctl was not called: $1"; }

# What rblk's packages depend on comes with the system, so that what they leave is theirs.
mkdir "$system"
[ -n "$tar" ] || tar=$scratch/system.tar
if [ ! -e "$tar" ]; then
	code=$(. /etc/os-release && echo "$VERSION_CODENAME")
	"$here/../../.ci/apt-private" "$scratch/apt" deb "$code,$code-updates,$code-security" --sources > "$scratch/list"
	depends=$(for file in "$packages"/*.deb; do dpkg-deb -f "$file" Depends | tr ',' '\n'; done |
		sed 's/ *|.*//; s/(.*//; s/ //g' | grep -vx -e librblk0 -e rblkd | sort -u | paste -sd,)
	mmdebstrap --mode=root --variant=minbase --aptopt='APT::Install-Recommends "false"' --include="$depends,linux-headers-amd64" \
		"$code" "$tar" "$scratch/list" > "$scratch/out" 2>&1 || fail "mmdebstrap"
fi
tar -xf "$tar" -C "$system"
mount --bind /proc "$system/proc"
mount --bind /dev "$system/dev"
mkdir -p "$system/packages/0" "$system/packages/1" "$system/packages/2" "$system/run/systemd/system"
mv "$system/usr/bin/systemctl" "$system/usr/bin/systemctl.real"
install -m 755 "$here/systemctl" "$system/usr/bin/"
cp "$packages"/*.deb "$system/packages/1/"
"$here/next-version" "$version" "$system/packages/2" "$packages"/*.deb
"$here/former-version" "$version" "$system/packages/0" "$packages"/rblkd_*.deb
kernel=$(basename "$(ls -d "$system"/lib/modules/*-amd64 | tail -n 1)")
inside depmod "$kernel"
state > "$scratch/before"

echo "installation"
# First as rblk-tutorial(7) has it, then all.
. "$here/../e2e/tutorial_blocks.sh"
tutorial_blocks "$here/../../initiator/man/rblk-tutorial.7.scd" package "$scratch/blocks"
inside sh -ec "cd /packages/1; $(cat "$scratch/blocks/01")" > "$scratch/out" 2>&1 < /dev/null || fail "the tutorial's installation"
inside rblkd --version > /dev/null || fail "the tutorial's installation has no rblkd"
apt install $(cd "$system" && printf '/%s ' packages/1/*.deb)
inside getent passwd rblk > /dev/null || fail "no user rblk"
inside getent group rblk > /dev/null || fail "no group rblk"
[ -L "$system/etc/systemd/system/multi-user.target.wants/rblkd.service" ] || fail "rblkd.service is not enabled"
said ' start rblkd.service$'
[ ! -e "$system/run/rblkd.service.pid" ] || fail "rblkd was started without a configuration"
for program in "rblk --version" "rblkd --version" "nbdkit rblk --version"; do
	inside $program > "$scratch/out" 2>&1 || fail "$program"
done
inside fio --enghelp=/usr/lib/"$(gcc -print-multiarch)"/rblk/librblk_fio.so > "$scratch/out" 2>&1 || true
grep -q rblk_uri "$scratch/out" || fail "fio does not load the engine"
inside dkms status > "$scratch/out" 2>&1 || fail "dkms status"
grep -q "^rblk/$version" "$scratch/out" || fail "DKMS does not know the module"
# In a chroot DKMS does not choose a kernel by itself.
inside dkms install -m rblk -v "$version" -k "$kernel" > "$scratch/out" 2>&1 ||
	{ cat "$system/var/lib/dkms/rblk/$version/build/make.log" >&2; fail "dkms install"; }
[ "$(inside modinfo -k "$kernel" -F version rblk)" = "$version" ] || fail "the module's version"

[ "$(stat -c %a "$system/srv/rblk")" = 770 ] || fail "no folder for images"
echo "a service with a volume"
truncate -s 16M "$system/srv/disk.img"
inside chown rblk /srv/disk.img
printf '[target]\nlisten = rblk+tcp://127.0.0.1:0\n[volume disk]\npath = /srv/disk.img\ncache = buffered\n' \
	> "$system/etc/rblk/rblkd.conf"
inside deb-systemd-invoke start rblkd.service || fail "start"
runs_as rblk
port=$(sed -n 's/.*ready: .*:\([0-9]*\)$/\1/p' "$system/log")
# The next daemon must be found where the last one was.
sed -i "s/:0$/:$port/" "$system/etc/rblk/rblkd.conf"
first=$(cat "$system/run/rblkd.service.pid")
echo "# the administrator's" >> "$system/etc/rblk/rblktab"

echo "upgrade, while a volume is written"
head -c 8M /dev/urandom > "$scratch/data"
mkfifo "$system/tmp/fifo"
inside rblk copy --chunk 64k - "rblk+tcp://127.0.0.1:$port/disk" < "$system/tmp/fifo" > "$scratch/copy" 2>&1 &
copy=$!
exec 7> "$system/tmp/fifo"
head -c 4M "$scratch/data" >&7
: > "$system/calls"
apt install $(cd "$system" && printf '/%s ' packages/2/*.deb) 7>&-
said ' restart rblkd.service$'
! grep -q stop "$system/calls" || fail "an upgrade stops the service, and starts it only later"
second=$(cat "$system/run/rblkd.service.pid")
[ "$first" != "$second" ] || fail "rblkd was not restarted"
tail -c +$((4 * 1024 * 1024 + 1)) "$scratch/data" >&7
exec 7>&-
wait "$copy" || { cp "$scratch/copy" "$scratch/out"; fail "the copy ended with an error"; }
cmp -n 8388608 "$scratch/data" "$system/srv/disk.img" || fail "the disk has other data"
[ "$(inside dpkg-query -W -f '${Version}' rblkd)" = "$version-9" ] || fail "not upgraded"
grep -q "the administrator's" "$system/etc/rblk/rblktab" || fail "a configuration file was overwritten"

runs_as rblk
user=$system/etc/systemd/system/rblkd.service.d/00-user.conf
[ ! -e "$user" ] || fail "a service that user rblk has run is root's now"

echo "upgrade from a version that root ran"
inside chown root:root /srv/disk.img /etc/rblk/rblkd.conf
chmod 600 "$system/srv/disk.img" "$system/etc/rblk/rblkd.conf"
apt install --allow-downgrades $(cd "$system" && printf '/%s ' packages/0/rblkd_*.deb)
runs_as root
inside rblk list "rblk+tcp://127.0.0.1:$port" > "$scratch/out" 2>&1 && grep -q disk "$scratch/out" || fail "root does not serve it"
apt install $(cd "$system" && printf '/%s ' packages/2/rblkd_*.deb)
[ "$(grep -c '^rblkd: the service goes on to run as root' "$scratch/out")" = 1 ] || fail "the upgrade does not say who runs it"
runs_as root
inside rblk list "rblk+tcp://127.0.0.1:$port" > "$scratch/out" 2>&1 && grep -q disk "$scratch/out" || fail "it is not served after the upgrade"
# The administrator does what the file says.
sed -n 's/^#   //p' "$user" | sed '/^chown/d' > "$scratch/move"
[ "$(wc -l < "$scratch/move")" = 3 ] || fail "00-user.conf: $(cat "$user")"
! inside sh -ec "$(head -n 1 "$scratch/move")" > "$scratch/out" 2>&1 || fail "--check as rblk sees nothing wrong"
grep -qF '/srv/disk.img: Permission denied; rblkd runs as user rblk: chown rblk /srv/disk.img' "$scratch/out" || fail "the reason"
inside chown rblk /srv/disk.img
inside sh -ec "$(cat "$scratch/move")" > "$scratch/out" 2>&1 || fail "moving it to user rblk"
runs_as rblk
apt install --reinstall $(cd "$system" && printf '/%s ' packages/2/rblkd_*.deb)
runs_as rblk
[ ! -e "$user" ] || fail "a service that was moved is root's again"

echo "a service that was disabled stays so"
inside systemctl disable rblkd.service 2> /dev/null
apt install --reinstall $(cd "$system" && printf '/%s ' packages/2/rblkd_*.deb)
[ ! -e "$system/etc/systemd/system/multi-user.target.wants/rblkd.service" ] || fail "it was enabled again"

echo "removal"
names=$(for file in "$packages"/*.deb; do basename "$file" | cut -d_ -f1; done)
apt remove $names
! kill -0 "$(cat "$system/run/rblkd.service.pid")" 2> /dev/null || fail "rblkd still runs"
[ -e "$system/etc/rblk/rblkd.conf" ] && [ -e "$system/etc/rblk/rblktab" ] || fail "removal takes the configuration"
[ ! -e "$system/usr/sbin/rblkd" ] || fail "/usr/sbin/rblkd is left"

echo "purge"
mkdir -p "$system/var/lib/rblkd" && touch "$system/var/lib/rblkd/reservations"
mkdir -p "$(dirname "$user")" && touch "$user"
inside dpkg --purge $names > "$scratch/out" 2>&1 || fail "dpkg --purge"
rm -f "$system/srv/disk.img" "$system/run/rblkd.service.pid"
# What adding a user leaves; the user stays, because files may still belong to it.
state | grep -vxE '\./etc/(passwd|group|shadow|gshadow)-|\./etc/\.pwd\.lock' > "$scratch/after"
grep -vxE '\./etc/(passwd|group|shadow|gshadow)-|\./etc/\.pwd\.lock' "$scratch/before" |
	diff - "$scratch/after" >&2 || fail "left behind (>)"
echo "ok: nothing is left but the user rblk"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# An upgrade keeps root where root ran the service, by a drop-in and in one line, and does nothing anywhere else; systemd
# takes the drop-in with the unit as root's. Method: the scripts that run before the files come, dpkg's and rpm's, in a
# mount namespace whose /etc and units are the test's; systemd-analyze.
#   user.sh UNIT        UNIT: rblkd.service of the build
set -euo pipefail
unit=$(realpath -e "$1")
here=$(cd "$(dirname "$0")" && pwd)
units=/usr/lib/systemd/system
[ -d $units ] || { echo "SKIPPED: no systemd"; exit 77; }
if [ -z "${RBLK_USER:-}" ]; then
	unshare -m true 2> /dev/null || { echo "SKIPPED: no namespaces (needs root)"; exit 77; }
	RBLK_USER=1 exec unshare -m --propagation private "$0" "$@"
fi
scratch=$(mktemp -d)
trap 'umount -l /etc $units; rm -rf --one-file-system "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$scratch/out" >&2 2> /dev/null || true; exit 1; }

mkdir "$scratch/etc" "$scratch/units"
cp -a /etc/. "$scratch/etc/"
cp -a $units/. "$scratch/units/"
mount --bind "$scratch/etc" /etc
mount --bind "$scratch/units" $units
folder=/etc/systemd/system/rblkd.service.d dropin=/etc/systemd/system/rblkd.service.d/00-user.conf
# As CMake fills them in.
for script in preinst pre; do
	sed -e "/@RBLKD_KEEP_ROOT@/{r $here/../../target/install/rblkd.keep-root
		d}" "$here/../../target/install/rblkd.$script" > "$scratch/$script"
done

# fresh: as before the first installation. former: with a unit that root runs, and a configuration.
fresh() {
	rm -rf /etc/rblk $folder /etc/systemd/system/rblkd.service $units/rblkd.service
}
former() {
	fresh
	mkdir -p /etc/rblk
	echo '[target]' > /etc/rblk/rblkd.conf
	sed -E '/^(User|Group|SupplementaryGroups|AmbientCapabilities|DevicePolicy|DeviceAllow|ExecStartPre)=/d' "$unit" > $units/rblkd.service
}
# keeps, leaves SCRIPT ARGUMENT...: the script writes the drop-in and says so in one line; or it does and says nothing.
run() { sh "$scratch/$1" "${@:2}" > "$scratch/out" 2>&1 || fail "$*: status $?"; }
keeps() {
	run "$@"
	[ "$(cat "$scratch/out")" = "rblkd: the service goes on to run as root; $dropin says how to move it to user rblk" ] ||
		fail "$*: what it says"
	grep -qx User=root $dropin || fail "$*: no drop-in"
}
leaves() {
	local before
	before=$(find $folder -exec stat -c '%n %Y %s' {} + 2> /dev/null || true)
	run "$@"
	[ ! -s "$scratch/out" ] || fail "$*: says something"
	[ "$(find $folder -exec stat -c '%n %Y %s' {} + 2> /dev/null || true)" = "$before" ] || fail "$*: $folder is not as it was"
}
upgrades=("preinst upgrade 0.1.0-1" "pre 2")

for upgrade in "${upgrades[@]}"; do
	former
	keeps $upgrade
	# The next upgrade, while the unit is still that one, or is the new one.
	leaves $upgrade
	cp "$unit" $units/rblkd.service
	leaves $upgrade
	rm $dropin # the administrator has moved it
	leaves $upgrade
	# Nothing was served.
	former
	rm /etc/rblk/rblkd.conf
	leaves $upgrade
	# The administrator has chosen a user, in a drop-in or in a unit in place of ours.
	former
	mkdir -p $folder
	printf '[Service]\nUser = storage\n' > $folder/override.conf
	leaves $upgrade
	former
	sed 's/^\[Service\]/&\nUser=storage/' $units/rblkd.service > /etc/systemd/system/rblkd.service
	leaves $upgrade
done
for install in "preinst install" "preinst install 0.1.0-1" "preinst abort-upgrade 0.1.0-2" "pre 1"; do
	fresh
	leaves $install
	former
	leaves $install
done

# systemd's own view of the new unit, without the drop-in and with it, and with an administrator's that adds to it.
command -v systemd-analyze > /dev/null || { echo "SKIPPED: no systemd-analyze"; exit 77; }
sees() {
	systemd-analyze security --offline=true --no-pager rblkd.service > "$scratch/out" 2>&1 || fail "systemd-analyze"
	grep -q "$1" "$scratch/out" || fail "systemd does not see: $1"
}
former
cp "$unit" $units/rblkd.service
sees '✓ User=/DynamicUser=.*static non-root'
sees '✓ CapabilityBoundingSet=~CAP_SYS_ADMIN'
former
mkdir -p $folder
printf '[Service]\nCapabilityBoundingSet=CAP_SYS_ADMIN\n' > $folder/override.conf
keeps preinst upgrade 0.1.0-1
cp "$unit" $units/rblkd.service
sees '✗ User=/DynamicUser=.*root'
sees '✗ CapabilityBoundingSet=~CAP_(CHOWN'
sees '✗ CapabilityBoundingSet=~CAP_SYS_ADMIN'
sees '✗ CapabilityBoundingSet=~CAP_IPC_LOCK'
sees '✓ CapabilityBoundingSet=~CAP_SYS_PTRACE'
if systemd-analyze verify --man=no rblkd.service 2>&1 | grep -F 00-user.conf; then fail "00-user.conf: the above"; fi
echo "ok"

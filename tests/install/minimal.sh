#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# README's five minutes on a system that has nothing: a fresh minimal Debian, the packages of packages-try, and README's own lines,
# as they are. Method: mmdebstrap makes the Debian in a folder, with this network; the sources are copied into it.
#   minimal.sh SOURCES [TAR]     TAR: keeps the fresh Debian, and brings it the next time
set -euo pipefail
sources=$(realpath "$1") tar=${2:-}
[ "$(id -u)" = 0 ] || { echo "SKIPPED: needs root"; exit 77; }
scratch=$(mktemp -d)
system=$scratch/system
leave() {
	umount -l "$system/dev" "$system/proc" 2> /dev/null || true
	rm -rf --one-file-system "$scratch"
}
trap leave EXIT
trap 'exit 130' INT TERM
fail() { echo "FAILED: $*" >&2; tail -n 40 "$scratch/out" >&2; exit 1; }
: > "$scratch/out"

mkdir "$system"
[ -n "$tar" ] || tar=$scratch/system.tar
if [ ! -e "$tar" ]; then
	code=$(. /etc/os-release && echo "$VERSION_CODENAME")
	"$sources/.ci/apt-private" "$scratch/apt" deb "$code,$code-updates,$code-security" --sources > "$scratch/list"
	mmdebstrap --mode=root --variant=minbase "$code" "$tar" "$scratch/list" > "$scratch/out" 2>&1 || fail "mmdebstrap"
fi
tar -xf "$tar" -C "$system"
mount --bind /proc "$system/proc"
mount --bind /dev "$system/dev"
for file in hosts resolv.conf; do cp -L "/etc/$file" "$system/etc/$file" 2> /dev/null || true; done
mkdir "$system/rblk"
(cd "$sources" && git ls-files -z | tar -c --null -T - --ignore-failed-read) | tar -x -C "$system/rblk"
inside() { chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@" < /dev/null; }
# A system that was just installed knows no packages.
inside apt-get -qq update > "$scratch/out" 2>&1 || fail "apt-get update"

# The lines of the first block of README's "Five minutes"; the first of them as root, which all are here.
awk '/^## / { on = /[Ff]ive minutes/ } on && /^    / { sub(/^    /, ""); print; next }' "$sources/README.md" > "$scratch/lines"
grep -q 'tests/packages-try' "$scratch/lines" && grep -q 'rblk ping' "$scratch/lines" || fail "README has no five minutes: $(cat "$scratch/lines")"
# It asks nobody.
sed 's/^apt-get install /&-y /' "$scratch/lines" > "$system/rblk/lines"
echo "--- README's lines"
cat "$scratch/lines"
inside bash -emc 'cd /rblk; . ./lines; wait' > "$scratch/out" 2>&1 || fail "README's lines, status $?"
grep -q 'verified: crc32c' "$scratch/out" && grep -q 'stopped' "$scratch/out" || fail "README's copy"
grep -E 'verified|stopped|send-' "$scratch/out"

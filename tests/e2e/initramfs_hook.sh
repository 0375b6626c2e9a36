#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The table that the hook of initramfs-tools makes has each volume with the option initramfs, whatever else is said of it, in
# a form that "rblk attach --all" attaches; and the machine's name. Method: the hook, with files of the test and without
# initramfs-tools. tests/lab/machine-root boots by it.
#   initramfs_hook.sh HOOK
. "$(dirname "$0")/cmd.sh"
trap 'rm -rf "$scratch"' EXIT

cat > "$scratch/functions" << 'END'
copy_exec() { :; }
cp() { :; }
manual_add_modules() { :; }
copy_modules_dir() { :; }
modprobe() { :; }
hostname() { echo of-the-kernel; }
END
sed "s|/usr/share/initramfs-tools/hook-functions|$scratch/functions|; s|/etc/hostname|$scratch/hostname|
	s|^tab=.*|tab=$scratch/rblktab|" "$1" > "$scratch/hook"
export DESTDIR=$scratch/image version=6.1
# table: what the hook makes of the files.
table() {
	rm -rf "$DESTDIR"
	mkdir -p "$DESTDIR$scratch"
	expect 0 sh "$scratch/hook"
	cat "$DESTDIR$scratch/rblktab" 2> /dev/null || true
}
is() { [ "$(table)" = "$1" ] || fail "the table is \"$(table)\", not \"$1\""; }

printf 'host7\n' > "$scratch/hostname"
printf '# root rblk://h/no initramfs\nother rblk://h/other\ndata rblk://h/data noauto\ndata2 rblk://h/data #initramfs\n' > "$scratch/rblktab"
is ''
printf 'root rblk://h/root initramfs,give-up=24h # the root\n' >> "$scratch/rblktab"
is 'root rblk://h/root give-up=24h,name=host7'
printf 'root\trblk://h/root\tname=other,initramfs' > "$scratch/rblktab"
is 'root rblk://h/root name=other'
# initramfs means noauto, too: both words may be there, and more than once.
for options in noauto,initramfs initramfs,noauto initramfs,initramfs noauto,noauto,initramfs; do
	printf 'root rblk://h/root %s\r\n' "$options" > "$scratch/rblktab"
	is 'root rblk://h/root name=host7'
done
printf 'root rblk://h/root initramfs,key=a#b\n' > "$scratch/rblktab"
is 'root rblk://h/root key=a#b,name=host7'
# The name's file: with comments, empty, none.
printf 'root rblk://h/root initramfs\n' > "$scratch/rblktab"
printf '# of this machine\n\n  host7 \n' > "$scratch/hostname"
is 'root rblk://h/root name=host7'
: > "$scratch/hostname"
is 'root rblk://h/root name=of-the-kernel'
rm "$scratch/hostname"
is 'root rblk://h/root name=of-the-kernel'

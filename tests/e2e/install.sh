#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The installed files are exactly those of the list, each in the package that the list names, and need nothing else:
# the units' programs are there, the installed examples and workloads are valid, and DKMS's source has every file that
# it includes. Method: installations into folders of the test, of everything and of each package's component.
#   install.sh BUILD PREFIX LIB VERSION PART...
. "$(dirname "$0")/cmd.sh"
here=$(cd "$(dirname "$0")" && pwd)
build=$1 prefix=$2 lib=$3 version=$4
shift 4
parts=" all $* "

DESTDIR=$scratch/root expect 0 cmake --install "$build"
root=$scratch/root$prefix
dkms=$(cd "$scratch/root" && find . -name "rblk-$version" -type d)
[ "$dkms" = "./usr/src/rblk-$version" ] || [ "$dkms" = ".$prefix/src/rblk-$version" ] || fail "DKMS's source: $dkms"
dkms=$scratch/root/$dkms

while read -r part package path; do
	case $part in '#'* | '') continue ;; esac
	case $parts in *" $part "*) ;; *) continue ;; esac
	path=${path/#LIB/$lib}
	printf '%s\n' "$package $prefix/${path/VERSION/$version}"
done < "$here/install.list" | sort > "$scratch/wanted"
# files ROOT: what is installed there, without DKMS's source.
files() { (cd "$1" && find . ! -type d ! -path "*/src/rblk-$version/*" | sed 's/^\.//' | sort); }
files "$scratch/root" > "$scratch/found"
cut -d' ' -f2 "$scratch/wanted" | sort | diff - "$scratch/found" >&2 || fail "wanted (<) and installed (>)"

# A file without a package would be in none.
mkdir "$scratch/none"
DESTDIR=$scratch/none expect 0 cmake --install "$build" --component Unspecified
[ -z "$(files "$scratch/none")" ] || fail "their install() lacks a COMPONENT, that is, a package:" $(files "$scratch/none")
for package in $(cut -d' ' -f1 "$scratch/wanted" | sort -u); do
	mkdir "$scratch/$package"
	DESTDIR=$scratch/$package expect 0 cmake --install "$build" --component "$package"
	files "$scratch/$package" | sed "s/^/$package /"
done | sort > "$scratch/packed"
diff "$scratch/wanted" "$scratch/packed" >&2 || fail "packages: wanted (<) and installed (>)"

# The programs run, and the units name their paths.
expect 0 "$root/sbin/rblkd" --version
expect 0 env LD_LIBRARY_PATH="$root/$lib" "$root/bin/rblk" --version
for program in $(sed -nE 's/^Exec[A-Za-z]+=([^ ]*rblk[^ ]*) .*/\1/p' "$root"/lib/systemd/system/rblk*.service | sort -u); do
	[ -x "$scratch/root$program" ] || fail "a unit's $program"
done
# The example configuration starts here, also without RDMA, once its file is there, and what it serves lasts. fio accepts the
# workloads.
sed "s|/srv/rblk/|$scratch/|" "$root/share/doc/rblk/examples/rblkd.conf" > "$scratch/rblkd.conf"
$(sed -n 's/^# \(truncate .*\)/\1/p' "$scratch/rblkd.conf")
expect 0 "$root/sbin/rblkd" --check --config "$scratch/rblkd.conf"
RBLKD=$root/sbin/rblkd target_start --config "$scratch/rblkd.conf"
expect 0 env LD_LIBRARY_PATH="$(dirname "$(find "$root" -name librblk.so.0)")" "$root/bin/rblk" info --json "$target/data"
json_is '.can_flush'
target_stop
if command -v fio > /dev/null; then
	for job in "$root"/share/rblk/fio-jobs/*.fio; do
		[ "$(basename "$job")" != common.fio ] || continue
		(cd "$scratch" && RBLK_FIO_RUNTIME=1 RBLK_FIO_SIZE=4m expect 0 fio --parse-only --ioengine=null "$job")
	done
fi

# The example compiles with what is installed.
expect 0 "${CC:-cc}" -Wall -Werror -fsyntax-only -I"$root/include" "$root/share/doc/rblk/examples/event_loop.c"

# DKMS's source has the files that it includes between quotes, and the files that DKMS needs.
grep -qx "PACKAGE_VERSION=\"$version\"" "$dkms/dkms.conf" || fail "dkms.conf"
for file in kmod/Kbuild kmod/Makefile kmod/main.c LICENSES; do
	[ -e "$dkms/$file" ] || fail "DKMS's source lacks $file"
done
missing=$(cd "$dkms" && grep -rhoE '^#include "[^"]+"' . | sed 's/.*"\(.*\)"/\1/' | sort -u | while read -r header; do
	[ -e "$header" ] || [ -e "kmod/$header" ] || echo "$header"
done)
[ -z "$missing" ] || fail "DKMS's source lacks $missing"

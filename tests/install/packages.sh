#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The Debian packages have the files of e2e/install.list, each in its package, what dpkg and Debian's rules need
# besides, and no path of the machine that built them. Method: dpkg-deb and lintian.
#   packages.sh FOLDER LIB VERSION
set -euo pipefail
folder=$1 version=$3
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

cd "$folder"
names=$(for file in *.deb; do echo "${file%%_*}"; done | sort | paste -sd' ')
[ "$names" = "librblk-dev librblk0 nbdkit-plugin-rblk rblk-dkms rblk-doc rblk-fio-engine rblk-tools rblkd rblkd-rbd" ] ||
	fail "packages: $names"
package() { echo "$1"_*.deb; }
field() { dpkg-deb -f "$(package "$1")" "$2"; }

# Their files: those of the list, compressed where Debian wants it, and a changelog and the licence.
for name in $names; do
	dpkg-deb -x "$(package "$name")" "$scratch/$name"
	dpkg-deb -e "$(package "$name")" "$scratch/$name.control"
	while read -r part wanted path; do
		case $part in '#'* | '') continue ;; esac
		[ "$wanted" = "$name" ] || continue
		path=${path/#LIB/lib\/$(gcc -print-multiarch)}
		path=${path/VERSION/$version}
		case $path in share/man/*) path=$path.gz ;; esac
		echo "/usr/$path"
	done < "$here/../e2e/install.list" > "$scratch/$name.wanted"
	printf '/usr/share/doc/%s/%s\n' "$name" changelog.Debian.gz "$name" copyright >> "$scratch/$name.wanted"
	[ "$name" != rblk-tools ] || echo /etc/rblk/rblktab >> "$scratch/$name.wanted"
	(cd "$scratch/$name" && find . ! -type d ! -path "./usr/src/rblk-$version/*" | sed 's/^\.//' | sort) |
		diff <(sort "$scratch/$name.wanted") - >&2 || fail "$name: wanted (<) and packed (>)"
	zcat "$scratch/$name/usr/share/doc/$name/changelog.Debian.gz" | dpkg-parsechangelog -l - -S Version > "$scratch/changelog"
	[ "$(cat "$scratch/changelog")" = "$(field "$name" Version)" ] || fail "$name: the changelog's version"
	! grep -rlF "$(cd "$here/../.." && pwd)" "$scratch/$name" || fail "$name: a path of the machine that built it"
done
[ -e "$scratch/rblk-dkms/usr/src/rblk-$version/dkms.conf" ] || fail "rblk-dkms: no source"

# What they need: the libraries by dpkg-shlibdeps, ours by name, and an engine exactly the fio that it was built for.
depends() { grep -qE "(^|, )$2(,|$)" <<< "$(field "$1" Depends)" || fail "$1 does not depend on $2: $(field "$1" Depends)"; }
for name in rblkd rblk-tools librblk0; do depends "$name" 'libc6 \([^)]*\)'; done
depends rblkd 'liburing2 \([^)]*\)'
for name in rblk-tools nbdkit-plugin-rblk rblk-fio-engine; do depends "$name" "librblk0 \(>= $version\)"; done
depends librblk-dev "librblk0 \(= $version-[0-9]+\)"
depends rblk-fio-engine "fio \(= $(dpkg-query -W -f '${Version}' fio | sed 's/[.+]/\\&/g')\)"
depends rblk-dkms 'dkms \([^)]*\)'

# What dpkg reads: each public symbol with its version, the configuration files, the scripts.
nm -D --defined-only "$scratch/librblk0/usr/lib/"*/librblk.so.0 | sed -n 's/.* T \(rblk_[a-z_]*\)@@.*/\1/p' |
	sort > "$scratch/exported"
sed -n 's/^ \(rblk_[a-z_]*\)@RBLK_[0-9.]* [0-9.]*$/\1/p' "$scratch/librblk0.control/symbols" | sort |
	diff "$scratch/exported" - >&2 || fail "librblk0: exported (<) and named in symbols (>)"
[ "$(wc -l < "$scratch/exported")" -gt 20 ] || fail "librblk0: exports too little"
[ "$(cat "$scratch/rblk-tools.control/conffiles")" = /etc/rblk/rblktab ] || fail "rblk-tools: conffiles"
for script in rblkd.control/{preinst,postinst,prerm,postrm} rblk-tools.control/{postinst,prerm,postrm} \
	rblk-dkms.control/{postinst,prerm}; do
	sh -n "$scratch/$script" || fail "$script"
	! grep -nE '@[A-Z_]+@' "$scratch/$script" || fail "$script: not filled in"
done

# Debian's own opinion: no error. Warnings are shown.
lintian --allow-root --profile debian --fail-on error ./*.deb || fail "lintian"

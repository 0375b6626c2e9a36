#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The packages for rpm have the files of e2e/install.list, each in its package; rpm installs, verifies and erases them
# in a folder, and nothing is left. Method: Debian's rpm, without the scripts and without dependencies (its database
# knows nothing of dpkg's packages); the scripts are read by sh; and rpmlint.
#   rpm.sh FOLDER VERSION
set -euo pipefail
folder=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
rpm_there() { rpm --root "$scratch/root" --dbpath /rpmdb "$@"; }

cd "$folder"
names=$(for file in *.rpm; do rpm -qp --qf '%{NAME}\n' "$file"; done | sort | paste -sd' ')
[ "$names" = "librblk-devel librblk0 nbdkit-plugin-rblk rblk-dkms rblk-doc rblk-tools rblkd rblkd-rbd" ] || fail "packages: $names"

for name in $names; do
	while read -r part wanted path; do
		case $part in '#'* | '') continue ;; esac
		[ "$wanted" = "${name/%-devel/-dev}" ] || continue
		path=${path/#LIB/lib64}
		path=${path/VERSION/$version}
		case $path in share/man/*) path=$path.gz ;; esac
		echo "/usr/$path"
	done < "$here/../e2e/install.list" > "$scratch/wanted"
	printf '/usr/share/licenses/%s/%s\n' "$name" GPL-2.0-only.txt "$name" BSD-2-Clause.txt >> "$scratch/wanted"
	[ "$name" != rblk-tools ] || echo /etc/rblk/rblktab >> "$scratch/wanted"
	rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$name"-"$version"-*.rpm |
		awk -v own="^/usr/src/rblk-$version/" '$1 !~ /^d/ && $2 !~ own { print $2 }' | sort |
		diff <(sort "$scratch/wanted") - >&2 || fail "$name: wanted (<) and packed (>)"
	rpm -qp --qf '%{PREIN}\n%|POSTIN?{%{POSTIN}\n}|%|PREUN?{%{PREUN}\n}|%|POSTUN?{%{POSTUN}\n}|' "$name"-"$version"-*.rpm |
		sed '/^(none)$/d' > "$scratch/script"
	sh -n "$scratch/script" || fail "$name: its scripts"
	! grep -nE '@[A-Z_]+@' "$scratch/script" || fail "$name: its scripts are not filled in"
done
rpm -qp --scripts rblkd-"$version"-*.rpm > "$scratch/script"
grep -q 'systemctl try-restart rblkd' "$scratch/script" || fail "an upgrade does not restart rblkd"
grep -q '^User=root$' <<< "$(rpm -qp --qf '%{PREIN}' rblkd-"$version"-*.rpm)" || fail "an upgrade does not keep root where root ran it"
[ "$(rpm -qp --configfiles rblk-tools-*.rpm)" = /etc/rblk/rblktab ] || fail "rblk-tools: its configuration"
grep -q '^librblk.so.0(RBLK_0.1)(64bit)' <<< "$(rpm -qp --requires rblk-tools-*.rpm)" || fail "rblk-tools needs no librblk"
grep -q '^librblk.so.0(RBLK_0.1)(64bit)' <<< "$(rpm -qp --provides librblk0-*.rpm)" || fail "librblk0 provides no librblk"

mkdir "$scratch/root"
rpm_there --initdb
rpm_there -i --nodeps --noscripts ./*.rpm || fail "rpm -i"
[ "$(rpm_there -qa --qf '%{NAME}\n' | sort | paste -sd' ')" = "$names" ] || fail "installed: $(rpm_there -qa)"
rpm_there -Va --nodeps --noscripts || fail "rpm -V finds other files than were packed"
"$scratch/root/usr/sbin/rblkd" --version > /dev/null || fail "rblkd --version"
LD_LIBRARY_PATH=$scratch/root/usr/lib64 "$scratch/root/usr/bin/rblk" --version > /dev/null || fail "rblk --version"
echo changed >> "$scratch/root/etc/rblk/rblktab"
# shellcheck disable=SC2086 # names
rpm_there -e --nodeps --noscripts $names || fail "rpm -e"
[ "$(cd "$scratch/root" && find . -path ./rpmdb -prune -o ! -type d -print)" = ./etc/rblk/rblktab.rpmsave ] ||
	fail "left behind: $(cd "$scratch/root" && find . -path ./rpmdb -prune -o ! -type d -print)"

if command -v rpmlint > /dev/null; then
	rpmlint -c "$here/../../proto/install/rpmlint.toml" ./*.rpm > "$scratch/lint" || { cat "$scratch/lint"; fail "rpmlint"; }
	grep -q ' 0 errors' "$scratch/lint" || { cat "$scratch/lint"; fail "rpmlint"; }
else
	echo "rpmlint: not installed, not asked"
fi

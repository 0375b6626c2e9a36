#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The preset `try` is README's five minutes: few packages, no tests, and a build that is packed as it is. Method: build it in
# a folder of its own, let its rblkd and rblk do what README does, make the packages, and look whether anything was compiled.
#   try.sh SOURCES FOLDER
set -euo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }
sources=$1 folder=$2 pid=
trap '[ -z "$pid" ] || kill "$pid"' EXIT
mkdir -p "$folder"
rm -rf "$folder/packages"

[ "$(wc -l < "$sources/tests/packages-try")" -le 15 ] || fail "more packages than one reads"
grep -qF "\$(cat tests/packages-try)" "$sources/README.md" || fail "README installs other packages"
grep -qF 'cmake --preset try && cmake --build build/try' "$sources/README.md" || fail "README builds something else"

(cd "$sources" && cmake --preset try -B "$folder") > "$folder/log" || fail "$(cat "$folder/log")"
cmake --build "$folder" > "$folder/log" || fail "$(tail -n 20 "$folder/log")"
[ ! -e "$folder/tests" ] || fail "it has tests"

truncate -s 16M "$folder/disk.img"
"$folder/target/rblkd" --listen rblk+tcp://127.0.0.1:0 --control-socket none --journal none --state-dir "$folder/state" \
	--reservations-dir "$folder/reservations" "$folder/disk.img" 2> "$folder/rblkd.log" &
pid=$!
until target=$(grep -oP 'ready: .* on \K\S+' "$folder/rblkd.log"); do
	kill -0 "$pid" 2> /dev/null || fail "$(cat "$folder/rblkd.log")"
	read -rt 0.05 <> <(:) || true
done
"$folder/initiator/cmd/rblk" copy /bin/true "$target/disk" || fail "copy"
kill "$pid"
wait "$pid" || fail "rblkd: status $?"
pid=

# Without "file", CPack only says so, and makes packages that depend on nothing.
mkdir -p "$folder/bin"
for program in $(compgen -c | grep -vxF file | sort -u); do
	path=$(type -P "$program") && ln -sf "$path" "$folder/bin/$program"
done
PATH=$folder/bin cmake --build "$folder" --target packages > "$folder/log" 2>&1 && fail "packages without dependencies"
grep -qF 'packages: file: not found: apt-get install file' "$folder/log" || fail "$(tail -n 20 "$folder/log")"
cmake --build "$folder" --target packages > "$folder/log" || fail "$(tail -n 20 "$folder/log")"
if grep 'Building C object' "$folder/log"; then fail "compiled anew"; fi
for package in librblk0 librblk-dev rblk-tools rblkd rblk-dkms rblk-doc; do
	ls "$folder/packages/${package}"_*.deb > /dev/null || fail "no package $package"
done
dpkg-deb --fsys-tarfile "$folder"/packages/rblkd_*.deb | tar -xO ./usr/lib/systemd/system/rblkd.service > "$folder/unit"
grep -q '^ExecStart=/usr/sbin/rblkd ' "$folder/unit" || fail "the unit starts another program"

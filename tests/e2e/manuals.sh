#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Every example of the manuals works as it is written, or manuals.list says why no test runs it. Method: the examples are
# taken out of the pages and run in namespaces of their own (manual_system.sh), where all hosts that the pages name are this
# one, and served is what they name. There is no RDMA, so rblk:// is read as rblk+tcp://; and the programs that fio and
# nbdkit load are the build's.
#   manuals.sh UNITS... -- PAGES...      UNITS: the unit files of the build
# Expects RBLK_FIO_ENGINE, RBLK_NBDKIT (empty: not built), SOURCE and PC as header.sh, CC.
. "$(dirname "$0")/cmd.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/manual_system.sh"
if [ -z "${RBLK_MANUALS:-}" ]; then
	unshare -mn true 2> /dev/null || { echo "SKIPPED: no namespaces (needs root)"; exit 77; }
	RBLK_MANUALS=1 unshare -mn --propagation private "$0" "$@"
	exit
fi
units=()
while [ "$1" != -- ]; do units+=("$1"); shift; done
shift

# -- the examples and the list -------------------------------------------------------------------------

# Each in a file of its own, $scratch/blocks/PAGE.NN.
mkdir "$scratch/blocks"
for page in "$@"; do
	awk -v file="$scratch/blocks/$(basename "$page" .scd)" '
	/^```/ { inside = !inside; count += inside; next }
	inside { print > sprintf("%s.%02d", file, count) }
	END { exit inside }' "$page" || fail "$page: an example does not end"
done
[ "$(ls "$scratch/blocks" | wc -l)" -gt 60 ] || fail "the examples were not found"
sed '/^#/d' "$here/manuals.list" > "$scratch/list"
: > "$scratch/used"
# how BLOCK: the list's word for it.
how() {
	local page
	page=$(basename "$1")
	page=${page%.*}
	awk -F ' [|] ' -v page="$page" -v first="$(sed -n 1p "$1")" -v used="$scratch/used" '
	index($0, page " | ") == 1 {
		rest = substr($0, length(page) + 4)
		if (index(rest, "* | ") == 1) word = substr(rest, 5)
		else if (index(rest, first " | ") == 1) word = substr(rest, length(first) + 4)
		else next
		print >> used
		print word
		exit
	}' "$scratch/list"
}

# -- the system ----------------------------------------------------------------------------------------

manual_system "${units[@]}"
for address in 10.0.0.1 10.0.0.2 192.0.2.1; do ip address add $address/32 dev lo; done
# A folder of disks, beside what programs need of /dev.
mount -t tmpfs tmpfs /mnt
mkdir /mnt/vg0 /mnt/shm
for file in null zero full urandom random; do
	: > /mnt/$file
	mount --bind /dev/$file /mnt/$file
done
ln -s /proc/self/fd /mnt/fd
mount --move /mnt /dev
mount -t tmpfs tmpfs /mnt
truncate -s 64M /dev/vg0/logs /dev/vg0/root
truncate -s 256M /srv/rblk/data.img /srv/rblk/disk.img /srv/rblk/disk0.img
chown rblk /dev/vg0/*
touch /mnt/data.img
"$RBLK" key new /etc/rblk/db1.key > /dev/null
cat > /etc/rblk/rblkd.conf << END
[target]
listen = rblk+tcp://:4430
open = yes
[volume data]
path = /srv/rblk/data.img
[volume disk]
path = /srv/rblk/disk.img
[volume disk0]
path = /srv/rblk/disk0.img
[initiator backup]
address = local
read = data
END
: > "$scratch/target.log"
cd "$scratch"
head -c 1000100 /dev/urandom > disk.img # of no whole number of blocks
systemctl start rblkd

# -- the ways ------------------------------------------------------------------------------------------

# here_is BLOCK: the example, where this machine has its things elsewhere.
here_is() {
	sed -E "s|\brblk://|rblk+tcp://|g; s|/usr/lib/[^ ]*/librblk_fio.so|$RBLK_FIO_ENGINE|; s|^(nbdkit .*)\brblk rblk|\1$RBLK_NBDKIT rblk|" "$1"
}
by_shell() {
	here_is "$1" > "$scratch/example"
	case $(sed -n 1p "$1") in
	fio*) [ -n "$RBLK_FIO_ENGINE" ] || return 0 ;;
	nbdkit*) [ -n "$RBLK_NBDKIT" ] || return 0 ;;
	esac
	expect 0 bash -e "$scratch/example"
}
# Lines of several hosts, or of one with two terminals: all but the last serve until they are ended.
by_hosts() {
	local line last pid
	systemctl stop rblkd
	here_is "$1" | sed 's/^[a-z0-9]*#  *//' > "$scratch/example"
	last=$(tail -n 1 "$scratch/example")
	[[ $last == *ping* ]] || last="rblk list rblk+tcp://127.0.0.1"
	{ grep -vxF -- "$last" "$scratch/example" || true; } > "$scratch/serving"
	line=$(cat "$scratch/serving")
	bash -c "exec $line" > "$scratch/served" 2>&1 &
	pid=$!
	answers() { kill -0 $pid || fail "$line: $(cat "$scratch/served")"; bash -c "$last" > "$scratch/out" 2> "$scratch/err" < /dev/null; }
	wait_for "$last" answers
	kill $pid
	wait $pid || true
	systemctl start rblkd
}
by_config() {
	here_is "$1" > "$scratch/rblkd.conf"
	expect 0 rblkd --check --config "$scratch/rblkd.conf"
}
# Without rblk.ko it gets as far as the module; a wrong line is said before.
by_tab() {
	cp "$1" "$scratch/rblktab"
	echo 'bad rblk://storage1/bad no-such-option' >> "$scratch/rblktab"
	expect 1 rblk attach --all --tab "$scratch/rblktab"
	[ "$(grep -c "rblktab:" "$scratch/err")" = 1 ] || fail "a line is wrong"
}
by_unit() {
	local added=$scratch/verify/rblkd.service.d
	command -v systemd-analyze > /dev/null || no_tool systemd-analyze
	rm -rf "$scratch/verify"
	mkdir -p "$added"
	sed "s|^\(Exec[A-Za-z]*=+\?-\?\)/[^ ]*/rblkd |\1$RBLKD |" "$scratch/units/rblkd.service" > "$scratch/verify/rblkd.service"
	{ grep -qx '\[Service\]' "$1" || echo '[Service]'; cat "$1"; } > "$added/example.conf"
	expect 0 systemd-analyze verify --man=no "$scratch/verify/rblkd.service"
	! grep -F example.conf "$scratch/err" || fail "the above"
	# Does this find a wrong one?
	sed -i 's/^\([A-Z][A-Za-z]*\)=/\1Wrong=/' "$added/example.conf"
	systemd-analyze verify --man=no "$scratch/verify/rblkd.service" > "$scratch/out" 2>&1 || true
	grep -qF example.conf "$scratch/out" || fail "a wrong unit is not found"
}
by_prometheus() {
	local promtool
	promtool=$("$here/../promtool" --present) || { [ "${RBLK_TOOLS:-}" != all ] || fail "there is no promtool"; return 0; }
	cp "$1" "$scratch/prometheus.yml"
	expect 0 "$promtool" check config "$scratch/prometheus.yml"
}
# The body of a function, of a program that has what the page's SYNOPSIS includes.
by_c() {
	{
		printf '#include <err.h>\n#include <string.h>\n#include <rblk.h>\nint main(void)\n{\n'
		here_is "$1"
		printf '\treturn 0;\n}\n'
	} > "$scratch/example.c"
	expect 0 "${CC:-cc}" -Wall -Wextra -Werror -I"$SOURCE/initiator" "$scratch/example.c" -o "$scratch/example" -L"$PC" -lrblk -Wl,-rpath,"$PC"
	expect 0 "$scratch/example"
}

# -- all of them ---------------------------------------------------------------------------------------

ran=0
for block in "$scratch"/blocks/*; do
	word=$(how "$block")
	name="$(basename "$block"): $(sed -n 1p "$block")"
	case $word in
	shell | hosts | config | tab | unit | prometheus | c)
		echo "--- $name"
		"by_$word" "$block"
		ran=$((ran + 1))
		;;
	tested:\ ?* | not:\ ?*) ;;
	*) fail "$name: an example that no test runs, and manuals.list does not have" ;;
	esac
done
[ $ran -ge 15 ] || fail "only $ran were run"
sort -u "$scratch/used" > "$scratch/had"
sort "$scratch/list" | comm -23 - "$scratch/had" > "$scratch/stale"
[ ! -s "$scratch/stale" ] || fail "manuals.list has examples that no page has: $(cat "$scratch/stale")"

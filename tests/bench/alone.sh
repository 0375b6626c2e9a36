# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A network of a benchmark's own: its packets are those of the programs that are measured, and of nothing
# else. Sourced by counts and native.

# alone_begin ARGUMENT...: the script goes on from its start in such a network, with its loopback only, if this user
# may have one; packets are not counted otherwise. Before anything else is started, and behind what needs the Internet.
alone_begin() {
	if [ -n "${RBLK_BENCH_ALONE:-}" ]; then
		ip link set lo up
	elif unshare --net true 2> /dev/null; then
		RBLK_BENCH_ALONE=1 exec unshare --net "$0" "$@"
	fi
}

# Segments that TCP has sent there, acknowledgements among them; nothing where they are not counted.
alone_segments() {
	local line words
	[ -n "${RBLK_BENCH_ALONE:-}" ] || return 0
	while read -r line; do
		read -ra words <<< "$line"
		# The second line of Tcp has the numbers, and its eleventh is OutSegs.
		case $line in Tcp:\ [0-9]*) echo "${words[11]}" ;; esac
	done < /proc/net/snmp
}

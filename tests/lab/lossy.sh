# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A network card that loses, delays and reorders what it sends. Sourced by jobs, after guest.sh.

# lab_lossy_begin [WORD...]: how packets fare (netem). Default: 1 % are lost, 2 % are late and arrive behind others.
lab_lossy_begin() {
	modprobe sch_netem || lab_fail "netem: does not load"
	[ $# -gt 0 ] || set -- delay 1ms reorder 98% loss 1%
	tc qdisc add dev eth0 root netem "$@" limit 10000 || lab_fail "tc: netem"
}

# lab_lossy_end: ends this; packets must have been lost.
lab_lossy_end() {
	local statistics dropped
	statistics=$(tc -s qdisc show dev eth0)
	dropped=$(echo "$statistics" | grep -o 'dropped [0-9]*' | head -n 1 | cut -d' ' -f2)
	tc qdisc del dev eth0 root
	[ "${dropped:-0}" -gt 0 ] || lab_fail "no packet was lost: $statistics"
	lab_say "$dropped packets lost"
}

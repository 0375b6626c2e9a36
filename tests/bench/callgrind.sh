# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# rblkd under callgrind, for the scripts that count its instructions. Sourced after setup.sh; expects build, the programs'
# folder. Sets cpu, and out, a folder that is removed when the script ends.
#
# The daemon and its client share the CPU, and the client has priority, so that the daemon finds work when it polls. With
# a CPU for each, a late client cost up to a thousand instructions of empty polls per I/O.
cpu=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/') # the first CPU that this process may use
out=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2> /dev/null || true; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# A repeated string instruction would count once for every byte. Counts are in $out/counts.
callgrind=(env GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=1000000000:glibc.cpu.x86_rep_movsb_threshold=1000000000
	valgrind --tool=callgrind "--callgrind-out-file=$out/counts")

callgrind_volume=(--null bench=256M)
# callgrind_start [COMMAND...] -- RBLKD-OPTION... : starts rblkd with this volume, under COMMAND (callgrind, or none). Sets
# server, its process, and uri, the volume's. The reactor must not sleep: valgrind runs one thread at a time, and none while
# it sleeps in its ring.
callgrind_start() {
	local tries=0 command=()
	while [ "$1" != -- ]; do command+=("$1") && shift; done
	shift
	: > "$out/server.log" # or the last daemon's log would be read as this one's
	taskset -c "$cpu" nice -n 5 "${command[@]}" "$build/target/rblkd" --listen rblk+tcp://127.0.0.1:0 \
		--polling always "${callgrind_volume[@]}" "$@" > "$out/server.log" 2>&1 &
	server=$!
	until grep -q 'ready: ' "$out/server.log"; do
		kill -0 "$server" 2> /dev/null || setup_fail "rblkd: $(tail -n 3 "$out/server.log")"
		tries=$((tries + 1))
		[ $tries -lt 600 ] || setup_fail "rblkd is not ready: $(tail -n 3 "$out/server.log")"
		read -rt 0.1 <> <(:) || true
	done
	uri=rblk+tcp://$(sed -n 's/.*ready: .*tcp:\/\///p' "$out/server.log")/bench
}
callgrind_stop() {
	kill "$server"
	wait "$server" || setup_fail "rblkd: exit status $?: $(tail -n 3 "$out/server.log")"
	server=
}

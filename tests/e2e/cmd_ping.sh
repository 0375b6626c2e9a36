#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# ping measures the plain command of a target in two ways, and the fabric alone to another ping in four; two that do not fit
# together say so. Neither of two pings trusts the other. Method: order relations that hold on any machine, not times; ping_peer
# breaks the rules.
. "$(dirname "$0")/cmd.sh"

measured() {
	json_is 'all(.kinds[]; 0 < .min_ns and .min_ns <= .p50_ns and .p50_ns <= .p99_ns
		and .p99_ns <= .max_ns and .min_ns <= .average_ns and .average_ns <= .max_ns)'
	json_is 'all(.kinds[]; .initiator_cpu_ns >= 0 and .target_cpu_ns > 0 and .target_cpu_ns < 2 * .elapsed_ns)'
}

target_start --memory ram=1M
expect 0 "$RBLK" ping --count 50 --json "$target"
json_is '[.kinds[].kind] == ["send-polled", "send-events"] and (.paths | length) == 1'
measured
expect 0 "$RBLK" ping --count 5 --kind send-events "$target"
[ "$(wc -l < "$scratch/out")" = 2 ] || fail "one kind"
expect 2 "$RBLK" ping --kind rdma-signalled "$target"
err_has "--kind: rdma-signalled is between two rblk ping: see --serve and --peer"
expect 1 "$RBLK" ping --peer --count 5 "$target"
err_has "refused: it is no rblk ping --serve"
target_stop

# A URI has no port of the system's choice: others are tried until one is free.
serving=
trap 'kill $serving 2>/dev/null || true; target_stop; rm -rf "$scratch"' EXIT
serve() { # TIMEOUT
	for _ in {1..50}; do
		peer=rblk+tcp://127.0.0.1:$((20000 + (RANDOM % 10000)))
		rm -f "$scratch/serve" # of the one before
		"$RBLK" ping --timeout "$1" --serve "$peer" > "$scratch/serve" 2> "$scratch/serve.err" &
		serving=$!
		served() { [ -s "$scratch/serve" ] || ! kill -0 $serving 2>/dev/null; }
		wait_for "rblk ping --serve" served
		! grep -qxF "serving $peer" "$scratch/serve" || return 0
		grep -q 'in use' "$scratch/serve.err" || fail "rblk ping --serve: $(cat "$scratch/serve.err")"
	done
	fail "no free port"
}

serve 1h
expect 0 "$RBLK" ping --peer --count 50 --json "$peer"
json_is '[.kinds[].kind] == ["send-polled", "send-events", "rdma-signalled", "rdma-unsignalled"] and .paths == []'
measured
expect 0 "$RBLK" ping -p --count 5 --kind rdma-signalled --size 4k --source 127.0.0.1 "$peer"
[ "$(wc -l < "$scratch/out")" = 2 ] || fail "one kind"
expect 1 "$RBLK" ping --count 5 "$peer"
expect 1 "$RBLK" ping --serve "$peer"
err_has "in use"
for wrong in --digest '--name x' '--key x' '--tls always' --serve; do
	# shellcheck disable=SC2086
	expect 2 "$RBLK" ping --peer $wrong "$peer"
done
expect 2 "$RBLK" ping --peer "$peer/volume"
expect 2 "$RBLK" ping --serve "$peer,localhost"
err_has "TARGET is one host without a volume"
expect 1 "$RBLK" ping --peer --source 127.0.0.1,127.0.0.2 "$peer"
err_has "--source"

# Ends that break the rules.
expect 0 "$PEER" break "${peer#*//}"
expect 0 "$RBLK" ping --peer --count 5 "$peer"
kill $serving
serve 300ms
expect 0 "$PEER" silent "${peer#*//}"
grep -q 'silent for too long' "$scratch/serve.err" || fail "the end of a silent peer is not told"
expect 0 "$RBLK" ping --peer --count 5 --kind send-events "$peer"
"$PEER" welcome > "$scratch/port" &
wait_for "a port" test -s "$scratch/port"
expect 1 "$RBLK" ping --peer "rblk+tcp://127.0.0.1:$(< "$scratch/port")"
err_has "it is no rblk ping --serve of this version"

# The other end is killed in the middle.
kill $serving
serve 1h
"$RBLK" ping --peer --count 10000000 --kind send-polled "$peer" > "$scratch/out" 2> "$scratch/err" &
measuring=$!
answering() { [ "$(cut -d' ' -f14 "/proc/$serving/stat")" -gt 5 ]; }
wait_for "processor time of the other end" answering
kill -9 $serving
if wait $measuring; then fail "a ping without an other end: status 0"; fi
err_has "the connection is lost"

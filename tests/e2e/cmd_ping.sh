#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# ping measures the plain command of a target in two ways, and the fabric alone to another ping in four; two that do not fit
# together say so. Method: order relations that hold on any machine, not times. ping_hostile has ends that break the rules.
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
serve() {
	for _ in {1..50}; do
		peer=rblk+tcp://127.0.0.1:$((20000 + (RANDOM % 10000)))
		"$RBLK" ping --serve "$peer" > "$scratch/serve" 2> "$scratch/serve.err" &
		serving=$!
		served() { [ -s "$scratch/serve" ] || ! kill -0 $serving 2>/dev/null; }
		wait_for "rblk ping --serve" served
		! grep -qxF "serving $peer" "$scratch/serve" || return 0
		grep -q 'in use' "$scratch/serve.err" || fail "rblk ping --serve: $(cat "$scratch/serve.err")"
	done
	fail "no free port"
}

serve
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

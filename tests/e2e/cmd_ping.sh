#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# ping measures all four kinds if the target allows them, and else the kinds that it can. Method:
# order relations that hold on any machine, not times.
. "$(dirname "$0")/cmd.sh"

target_start --allow-scratch --memory ram=1M
expect 0 "$RBLK" ping --count 50 --json "$target"
json_is '[.kinds[].kind] == ["send-polled", "send-events", "rdma-signalled", "rdma-unsignalled"]'
json_is 'all(.kinds[]; .error == null and 0 < .min_ns and .min_ns <= .p50_ns and .p50_ns <= .p99_ns
	and .p99_ns <= .max_ns and .min_ns <= .average_ns and .average_ns <= .max_ns)'
json_is 'all(.kinds[]; .initiator_cpu_ns >= 0 and .target_cpu_ns > 0 and .target_cpu_ns < 2 * .elapsed_ns)'
expect 0 "$RBLK" ping --count 5 --kind rdma-signalled --size 4k "$target"
[ "$(wc -l < "$scratch/out")" = 2 ] || fail "one kind"

target_stop
target_start --memory ram=1M
expect 0 "$RBLK" ping --count 5 "$target"
[ "$(grep -c 'not allowed by the target' "$scratch/out")" = 2 ] || fail "one-sided"
grep -qE '^send-polled +[0-9]' "$scratch/out" || fail "two-sided kinds are not measured"
expect 0 "$RBLK" ping --count 5 --json "$target"
json_is '[.kinds[].error == null] == [true, true, false, false]'

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# ping measures all four kinds where the target allows it, and those it can where not. Method: order
# relations that hold on any machine, not times.
. "$(dirname "$0")/cmd.sh"

target_start --allow-scratch --memory ram=1M
expect 0 "$RBLK" ping --count 50 --json "$target"
json_is '[.kinds[].kind] == ["send-polled", "send-events", "rdma-signalled", "rdma-unsignalled"]'
json_is 'all(.kinds[]; .measured and 0 < .min_us and .min_us <= .p50_us and .p50_us <= .p99_us
	and .p99_us <= .max_us and .min_us <= .average_us and .average_us <= .max_us)'
json_is 'all(.kinds[]; .initiator_cpu >= 0 and .target_cpu > 0 and .target_cpu < 2)'
expect 0 "$RBLK" ping --count 5 --kind rdma-signalled --size 4k "$target"
[ "$(wc -l < "$scratch/out")" = 2 ] || fail "one kind"

target_stop
target_start --memory ram=1M
expect 0 "$RBLK" ping --count 5 "$target"
[ "$(grep -c 'not allowed by the target' "$scratch/out")" = 2 ] || fail "one-sided"
grep -qE '^send-polled +[0-9]' "$scratch/out" || fail "two-sided all the same"
expect 0 "$RBLK" ping --count 5 --json "$target"
json_is '[.kinds[].measured] == [true, true, false, false]'

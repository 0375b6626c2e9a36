#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# doctor is consistent with itself and with this machine, whether or not it has RDMA, and connects.
. "$(dirname "$0")/cmd.sh"

target_start --memory ram=1M
devices=0
for device in /sys/class/infiniband/*; do [ -e "$device" ] && devices=$((devices + 1)); done

status=0
"$RBLK" doctor --json > "$scratch/out" 2> "$scratch/err" || status=$?
json_is ".rdma_devices | length == $devices"
json_is ".system.kernel == \"$(uname -r)\""
json_is '.rdma_works == ([.problems[] | select(.fatal)] == [])'
json_is ".rdma_works == ($status == 0)"
if [ $devices = 0 ]; then
	json_is '.rdma_works == false and (.problems[0].problem | contains("rblk+tcp://"))'
	expect 1 "$RBLK" doctor
	out_has 'device       none'
	out_has 'problem: no RDMA device'
	out_has 'RDMA cannot work on this machine.'
fi

# Over TCP none of that matters.
expect 0 "$RBLK" doctor "$target"
grep -qE '^connection +127\.0\.0\.1:[0-9]+ through tcp in [0-9.]+ ms: [0-9]+ credits, 1 volume,' \
	"$scratch/out" || fail "connection"
expect 0 "$RBLK" doctor --json "$target"
json_is '.connection | .connected and .volume_count == 1 and .credits >= 4'
target_stop
expect 1 "$RBLK" doctor "$target"
out_has 'connection   failed: '
expect 1 "$RBLK" doctor --json "$target"
json_is '.connection.connected == false and (.connection.error | contains("127.0.0.1"))'

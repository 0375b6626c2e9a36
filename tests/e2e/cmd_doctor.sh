#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# doctor is consistent with itself and with this machine, with or without RDMA, and connects.
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
	grep -qE '^modules +[(a-z]' "$scratch/out" || fail "modules, and nothing behind it"
	out_has 'problem: no RDMA device'
	out_has 'RDMA cannot work on this machine.'
fi

# Over TCP, missing RDMA does not matter.
expect 0 "$RBLK" doctor "$target"
grep -qE '^connection +127\.0\.0\.1:[0-9]+ through tcp in [0-9.]+ ms: not encrypted, not proven, [0-9]+ credits, 1 volume,' \
	"$scratch/out" || fail "connection"
[ "$(tail -n 1 "$scratch/out")" = "$target: works." ] || fail "the last line"
if grep -qE '^(problem|RDMA can)' "$scratch/out"; then fail "that is not what was asked"; fi
[ $devices != 0 ] || out_has 'for RDMA: no RDMA device'
expect 0 "$RBLK" doctor --json "$target"
json_is '.connection | .connected and .volume_count == 1 and .credits >= 4'
json_is '.connection.paths | length == 1 and .[0].path_state == "up" and .[0].connections == 1'

# Several hosts: each is looked at. The second is the first's, under another name.
host=${target#*://}
two=rblk+tcp://$host,localhost:${host##*:}
expect 0 "$RBLK" doctor "$two"
out_has "path         $host: up, 1 connection over TCP, not proven, no digest, for "
out_has "path         localhost:${host##*:}: up, 1 connection over TCP, not proven, no digest, for "
expect 0 "$RBLK" info --json "$two/ram"
json_is '[.paths[] | .path_state, .error] == ["up", null, "up", null]'
json_is "[.paths[].host] == [\"$host\", \"localhost:${host##*:}\"]"
json_is '[.paths[] | .rdma, .tls, .proven, .digest] == [false, false, false, false, false, false, false, false]'
expect 0 "$RBLK" info "$two/ram"
out_has "path                 $host: up, 1 connection over TCP, not proven, no digest, for "
grep -qE '^age +[0-9]+ s$' "$scratch/out" || fail "the age"
one=rblk+tcp://127.0.0.1:1,$host
expect 1 "$RBLK" doctor "$one"
out_has 'path         127.0.0.1:1: down: '
out_has "path         $host: up, 1 connection"
out_has "$one: works, but not all of its hosts can be reached."
expect 1 "$RBLK" doctor --json "$one"
json_is '.connection | .connected and .peer == .paths[1].peer and (.paths[0] | .path_state == "down" and
	.connections == 0 and .peer == null and ([.rdma, .tls, .proven, .digest] | unique == [null]) and (.error | contains("127.0.0.1:1")))'
expect 0 "$RBLK" ping --count 3 "$one"
out_has 'path 127.0.0.1:1: down: '
expect 0 "$RBLK" ping --count 3 --json "$one"
json_is '[.paths[].path_state] == ["down", "up"]'

target_stop
expect 1 "$RBLK" doctor "$target"
out_has 'connection   failed: '
[ "$(tail -n 1 "$scratch/out")" = "$target: cannot be used." ] || fail "the last line"
# With RDMA both are the answer.
expect 1 "$RBLK" doctor --timeout 1s rblk://127.0.0.1:1
[ $devices != 0 ] || out_has 'problem: no RDMA device'
[ $devices != 0 ] || out_has 'RDMA cannot work on this machine.'
out_has 'rblk://127.0.0.1:1: cannot be used.'
expect 1 "$RBLK" doctor --json "$target"
json_is '.connection.connected == false and (.connection.error | contains("127.0.0.1"))'

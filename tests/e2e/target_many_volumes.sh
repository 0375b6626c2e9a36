#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A target serves as many volumes as the limit allows; each is listed and can be opened. One more is
# refused at the start in one line. Method: a configuration file with 1024 of them.
. "$(dirname "$0")/cmd.sh"

for ((i = 0; i < 1024; i++)); do
	printf '[volume v%04d]\nstore = null\nsize = %dM\n' "$i" $((i + 1))
done > "$scratch/rblkd.conf"
target_start --reactors 1 --config "$scratch/rblkd.conf"
expect 0 "$RBLK" list --json "$target"
json_is '[.volumes[].volume] | length == 1024 and . == sort and .[0] == "v0000" and .[1023] == "v1023"'
json_is '.volumes[1023].bytes == 1024 * 1048576'
for name in v0000 v0511 v1023; do
	expect 0 "$RBLK" info "$target/$name"
	out_has "$name"
done
target_stop

printf '[volume onemore]\nstore = null\nsize = 1M\n' >> "$scratch/rblkd.conf"
expect 2 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --config "$scratch/rblkd.conf"
err_has 'volume onemore: '
[ "$(wc -l < "$scratch/err")" = 1 ] || fail "one line"

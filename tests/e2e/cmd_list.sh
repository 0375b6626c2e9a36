#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# list and info print what the target serves. Method: volumes of known size and kind, both outputs.
. "$(dirname "$0")/cmd.sh"

truncate -s 8M "$scratch/disk"
target_start --memory ram=3M --null big=2T "$scratch/disk"

expect 0 "$RBLK" list "$target"
[ "$(wc -l < "$scratch/out")" = 4 ] || fail "a heading and three volumes"
grep -qE '^NAME +SIZE +BLOCK +FLAGS +UUID$' "$scratch/out" || fail "heading"
grep -qE '^big +2 TiB +512 +' "$scratch/out" || fail "big"
grep -qE '^disk +8 MiB +512 +flush fua .*[0-9a-f]{8}-[0-9a-f]{4}-' "$scratch/out" || fail "disk"
grep -qE '^ram +3 MiB +512 +' "$scratch/out" || fail "ram"

expect 0 "$RBLK" list --json "$target"
json_is '[.volumes[].volume] == ["big", "disk", "ram"]'
json_is '.volumes[1] | .bytes == 8388608 and .block_bytes == 512 and .can_flush and .can_fua'
json_is '.volumes[2].can_flush == false'

expect 0 "$RBLK" info "$target/disk"
out_has '8 MiB (8388608 bytes)'
grep -qE '^access +read and write$' "$scratch/out" || fail "access"
grep -qE '^flush +yes$' "$scratch/out" || fail "flush"
grep -qE '^connection +127\.0\.0\.1:[0-9]+ through tcp$' "$scratch/out" || fail "connection"
# Whose rights these are.
expect 0 "$RBLK" info --json "$target/disk"
name=$(jq -r .initiator "$scratch/out")
expect 0 "$RBLK" info "$target/disk"
out_has "initiator            $name (this machine's name; --name asks as another)"
out_has "asked from           the target's own machine, which may do more than others"
expect 0 "$RBLK" info --name db7 "$target/disk"
grep -qxE 'initiator +db7' "$scratch/out" || fail "the name that was given"
expect 0 "$RBLK" info --json "$target/ram"
json_is '.volume == "ram" and .bytes == 3145728 and .credits >= 4 and .fabric_device == "tcp"'

target_stop
target_start --read-only "$scratch/disk"
expect 0 "$RBLK" info --json "$target/disk"
json_is '.read_only'
expect 0 "$RBLK" list "$target"
grep -qE ' ro ' "$scratch/out" || fail "ro"

# Volumes that are for others are not shown; that is no table.
target_stop
printf '[volume m]\nstore = memory\nsize = 1M\n[initiator db1]\naddress = 192.0.2.1\nwrite = m\n' > "$scratch/rblkd.conf"
target_start --config "$scratch/rblkd.conf"
expect 0 "$RBLK" list "$target"
[ "$(cat "$scratch/out")" = 'no volumes for this initiator' ] || fail "a list without entries"
expect 0 "$RBLK" list --json "$target"
json_is '.volumes == []'

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rblk reserve: two named hosts, every action, refusals and their messages, and the output of --json
# against the schema.
here=$(dirname "$0")
. "$here/cmd.sh"

schema=$here/../../initiator/cmd/rblk.schema.json
truncate -s 4M "$scratch/disk"
mkdir "$scratch/kept"
target_start --cache buffered --reservations-dir "$scratch/kept" "$scratch/disk"
disk=$target/disk

expect 0 "$RBLK" reserve "$disk"
out_has 'reservation none, 0 registrants, volatile'
expect 0 "$RBLK" reserve --name a --new-key 0xaa --persist "$disk" register
expect 0 "$RBLK" reserve "$disk"
out_has 'reservation none, 1 registrant, '
expect 0 "$RBLK" reserve --name b --new-key 11 "$disk" register
expect 0 "$RBLK" reserve --name a --own-key 0xaa --type write-exclusive "$disk" acquire
expect 0 "$RBLK" reserve "$disk" show
out_has 'reservation write-exclusive, 2 registrants, persistent'
grep -qE '^a +0xaa +yes$' "$scratch/out" || fail "the holder"
grep -qE '^b +0xb +no$' "$scratch/out" || fail "the other"

# Who may write data.
head -c 65536 /dev/urandom > "$scratch/data"
expect 1 "$RBLK" copy --name b "$scratch/data" "$disk"
expect 0 "$RBLK" copy --name a "$scratch/data" "$disk"

# Refused, and why.
expect 1 "$RBLK" reserve --name b --own-key 11 --type write-exclusive "$disk" acquire
err_has 'another one holds a reservation'
expect 1 "$RBLK" reserve --name b --own-key 12 "$disk" clear
err_has "the key is not this initiator's"
expect 1 "$RBLK" reserve --name a --own-key 0xaa --type exclusive-access "$disk" release
err_has 'the type is not the one in force'
for words in '"seize" is not an action|seize' '"x" is not a key|register --new-key x' \
	'"-1" is not a key|register --new-key -1' 'reserve: register needs --new-key, the key to register, or --own-key|register' \
	'reserve: acquire needs --type|acquire --own-key 1' '"all" is not a type: write-exclusive or exclusive-access|acquire --type all'; do
	# shellcheck disable=SC2086 # several words
	expect 2 "$RBLK" reserve "$disk" ${words#*|}
	err_has "${words%|*}"
done
expect 1 "$RBLK" reserve --name a --own-key 0xaa --abort "$disk" clear
err_has 'options that do not belong to this action'

# After a restart the reservation is the same.
target_stop
target_start --cache buffered --reservations-dir "$scratch/kept" "$scratch/disk"
disk=$target/disk
expect 0 "$RBLK" reserve --json --name b --own-key 11 --other-key 0xaa --type exclusive-access --abort "$disk" preempt
wrong=$(jq -r --slurpfile schema "$schema" --arg object reserve -f "$here/json_schema.jq" "$scratch/out") ||
	fail "jq failed"
[ -z "$wrong" ] || fail "$wrong"
json_is '.reservation_type == "exclusive-access" and .persists and .volume == "disk" and
	.registrants == [{"initiator": "b", "reservation_key": "0xb", "holder": true}]'
expect 1 "$RBLK" copy --name a "$scratch/data" "$disk"
expect 0 "$RBLK" reserve --name b --own-key 11 --type exclusive-access "$disk" release
expect 0 "$RBLK" reserve --name c --new-key 7 --ignore-key --volatile "$disk" register
expect 0 "$RBLK" reserve --name c --own-key 7 "$disk" clear
expect 0 "$RBLK" reserve --json "$disk"
json_is '.reservation_type == "none" and .registrants == [] and (.persists | not)'

# A volume counts I/O, not what is done with reservations.
target_stop
target_start --cache buffered --control-socket "$scratch/control" "$scratch/disk"
disk=$target/disk
expect 0 "$RBLK" reserve --name a --new-key 1 "$disk" register
expect 1 "$RBLK" reserve --name a --own-key 2 "$disk" clear
expect 0 "$RBLK" reserve "$disk" show
expect 0 "$RBLK" copy --name a "$scratch/data" "$disk"
counted() { "$RBLKCTL" volumes --json --socket "$scratch/control" > "$scratch/out" && jq -e '.volumes[0].operations.flush >= 1' "$scratch/out"; }
wait_for "the counts" counted > /dev/null
json_is '.volumes[0].errors == {}'

# The target's administrator sees a reservation, and clears it, after a word of warning; who was kept out writes again.
target_stop
target_start --cache buffered --control-socket "$scratch/control" --reservations-dir "$scratch/kept" --memory ram=1M "$scratch/disk"
disk=$target/disk
expect 0 "$RBLK" reserve --name a --new-key 0xaa --persist "$disk" register
expect 0 "$RBLK" reserve --name b --new-key 11 "$disk" register
expect 0 "$RBLK" reserve --name a --own-key 0xaa --type write-exclusive "$disk" acquire
expect 1 "$RBLK" copy --name c "$scratch/data" "$disk"
expect 0 "$RBLKCTL" reservations --socket "$scratch/control"
grep -qE '^disk +write-exclusive +yes +a +0xaa +yes$' "$scratch/out" || fail "the holder"
grep -qE '^disk +write-exclusive +yes +b +0xb +no$' "$scratch/out" || fail "the other"
expect 1 "$RBLKCTL" clear disk --socket "$scratch/control"
err_has 'make sure that nobody relies on it, and clear it with --force'
expect 1 "$RBLKCTL" clear ram --force --socket "$scratch/control"
err_has 'volume ram has no reservation'
expect 1 "$RBLKCTL" clear none --force --socket "$scratch/control"
err_has 'there is no volume "none"'
expect 0 "$RBLKCTL" clear disk --force --socket "$scratch/control"
log_has 'volume disk: its reservation and registrations are cleared by rblkctl'
expect 0 "$RBLK" copy --name c "$scratch/data" "$disk"
expect 0 "$RBLK" reserve "$disk"
out_has 'reservation none, 0 registrants, volatile'
# A restart does not find it again.
target_stop
target_start --cache buffered --control-socket "$scratch/control" --reservations-dir "$scratch/kept" "$scratch/disk"
expect 0 "$RBLKCTL" reservations --json --socket "$scratch/control"
json_is '.reservations == []'

# With a damaged file the daemon does not serve the volume, and says why.
target_stop
target_start --cache buffered --reservations-dir "$scratch/kept" "$scratch/disk"
disk=$target/disk
expect 0 "$RBLK" reserve --name a --new-key 1 --persist "$disk" register
target_stop
for file in "$scratch"/kept/reservations-*; do
	truncate -s -1 "$file"
done
expect 1 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state" --cache buffered \
	--reservations-dir "$scratch/kept" "$scratch/disk"
err_has 'its length is wrong: remove it to serve the volume without its reservations'

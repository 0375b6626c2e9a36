#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What rblkctl --json prints matches rblkctl.schema.json, whether the verb succeeds or fails; and the manual says the same.
# Method: the outputs of every verb of a daemon with sessions, errors, limits and what is missing are checked against the
# schema; the manual's list of keys is made from the schema again and compared.
. "$(dirname "$0")/cmd.sh"
here=$(dirname "$0")
schema=$here/../../target/ctl/rblkctl.schema.json
manual=$here/../../target/man/rblkctl.1.scd
socket=$scratch/control

# is OBJECT: each line of the last output is one, according to the schema.
is() {
	local wrong
	[ -s "$scratch/out" ] || fail "$1: nothing was printed"
	wrong=$(jq -r --slurpfile schema "$schema" --arg object "$1" -f "$here/json_schema.jq" "$scratch/out") ||
		fail "$1: not JSON"
	[ -z "$wrong" ] || fail "$1: $wrong"
}
# asked STATUS OBJECT VERB OPERAND...
asked() {
	local status=$1 object=$2 verb=$3
	shift 3
	expect "$status" "$RBLKCTL" "$verb" --json --socket "$socket" "$@"
	is "$object"
}

# -- the schema and the manual -----------------------------------------------------------------------

expect 0 jq '.["$defs"]' "$schema"
# Keys are always there, or say that they may be left out.
json_is 'all(.[] | select(.properties); .additionalProperties == false and (.title | length) > 0 and
	(.required | sort) == ([.properties | to_entries[] | select(.value.description | test("; left out if") | not) | .key] | sort))'
json_is '[.. | objects | .properties? // empty | keys[] | select(test("_(ms|us|kib|mb|seconds)$"))] == []'
# Only rates and shares may be fractions.
json_is '[.[].properties? // empty | to_entries[] | select(.value.type == "number" and (.key | test("_(per_s|share)$") | not))] == []'
jq -r -f "$here/ctl_json_manual.jq" "$schema" > "$scratch/keys"
awk '/^# /{ on = $0 == "# JSON" } on && /^\*[a-z0-9\\_]+\* \(/ { print; getline; print }' "$manual" > "$scratch/told"
diff "$scratch/keys" "$scratch/told" >&2 || fail "the schema has (<) and the manual has (>)"

# Does this check find what differs?
for bad in '{}' '{"errors": [1]}' '{"errors": [], "more": 1}' '[]'; do
	[ -n "$(jq -r --slurpfile schema "$schema" --arg object failure -f "$here/json_schema.jq" <<< "$bad")" ] ||
		fail "not noticed: $bad"
done

# -- what works ------------------------------------------------------------------------------------

truncate -s 4M "$scratch/disk"
cat > "$scratch/rblkd.conf" <<- END
	[target]
	open = yes
	[volume disk]
	path = $scratch/disk
	cache = buffered
	limit_iops = 100000
	[volume gone]
	path = $scratch/nothing
	lock_wait = 0
	[volume ram]
	store = memory
	size = 64M
END
target_start --config "$scratch/rblkd.conf" --control-socket "$socket"
head -c 1000448 /dev/urandom > "$scratch/file"
expect 0 "$RBLK" copy --name writer "$scratch/file" "$target/disk"
expect 1 "$RBLK" info "$target/none"
copy_start --name watched - "$target/ram"
head -c 65536 /dev/zero >&7
watched() { "$RBLKCTL" sessions --json --socket "$socket" | jq -e 'any(.sessions[]; .volumes == ["ram"])' > "$scratch/json"; }
wait_for "the session" watched

asked 3 status status
json_is '.sessions >= 1 and (.reactors | length) >= 1 and .missing_volumes[0].volume == "gone"'
asked 0 sessions sessions
json_is 'any(.sessions[]; .initiator == "watched")'
asked 0 volumes volumes
json_is '[.volumes[].volume] == ["disk", "ram"] and .missing[0].volume == "gone" and .volumes[1].path == null'
asked 0 top top --interval 200ms --count 2
json_is 'any(.rows[]; .volume == "ram")'
[ "$(wc -l < "$scratch/out")" = 2 ] || fail "two tables"
asked 0 events events
json_is 'any(.events[]; .event == "ready") and any(.events[]; .event == "volume_missing" and .volume == "gone") and
	any(.events[]; .event == "refused" or .event == "session_ended")'
asked 0 log_level log-level
asked 0 log_level log-level info
asked 0 change remove volume gone
asked 0 change add volume more store=memory size=1M
json_is '.added == 1 and .unsaved_changes and .reason == null'
asked 0 change set volume more read_only=yes
asked 0 change set target queues=4
json_is '.needs_restart == ["queues"]'
asked 0 change remove volume more
asked 0 change save
asked 0 change reload
asked 0 settings show
asked 0 settings show --all
asked 3 settings diff
json_is '[.settings[].key] == ["queues"]'
asked 0 change add volume more store=memory size=1M
asked 3 settings diff
json_is 'any(.settings[]; .section == "volume more" and .in_files == null)'
asked 0 change remove volume more
asked 0 reservations reservations
json_is '.reservations == []'
expect 0 "$RBLK" reserve --name a --new-key 0xaa "$target/disk" register
asked 0 reservations reservations disk
json_is '.reservations[0] | .volume == "disk" and .type == "none" and .registrants == [{initiator: "a", key: "0xaa", holder: false}]'
asked 0 reservations clear disk --force
asked 0 kick kick watched
json_is '.sessions[0].initiator == "watched"'
exec 7>&-
wait $copy || true
asked 0 move move disk --force
json_is '.given_away'

# -- what fails ------------------------------------------------------------------------------------

asked 1 failure kick nobody
asked 1 failure clear disk
asked 1 failure set volume none read_only=yes
asked 2 failure status more
asked 1 failure log-level loud
asked 0 drain drain
wait "$target_pid" || fail "the daemon's status"
target_pid=
asked 1 failure status

# Each event, as --follow prints it: the daemon ends.
target_start --control-socket "$socket" --memory ram=1M
"$RBLKCTL" events --follow --json --socket "$socket" > "$scratch/out" 2> "$scratch/err" &
follow=$!
wait_for "the first event" test -s "$scratch/out"
target_stop
wait $follow || true
is followed

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What --json prints matches rblk.schema.json, whether the verb succeeds or fails; and the manual says the
# same. Method: the outputs of every verb, successes and failures, are checked against the schema; so are
# rules for the schema's keys. The manual's list of keys is made from the schema again and compared.
. "$(dirname "$0")/cmd.sh"
here=$(dirname "$0")
schema=$here/../../initiator/cmd/rblk.schema.json
manual=$here/../../initiator/man/rblk.1.scd

# is OBJECT [FILE]: the last output is one, according to the schema.
is() {
	local wrong
	wrong=$(jq -r --slurpfile schema "$schema" --arg object "$1" -f "$here/json_schema.jq" "${2:-$scratch/out}") ||
		fail "$1: not JSON"
	[ -z "$wrong" ] || fail "$wrong"
}
# says_why: the verb failed; the errors are those of standard error.
says_why() {
	is failure
	sed 's/^rblk: //' "$scratch/err" > "$scratch/words"
	jq -r '.errors[]' "$scratch/out" | diff - "$scratch/words" >&2 || fail "errors"
	[ -s "$scratch/words" ] || fail "no errors on standard error"
}

# The schema: a key means the same everywhere, every key is always there, none is a fraction.
expect 0 jq '.["$defs"]' "$schema"
json_is 'all(to_entries[] | select(.key | startswith("key.") | not) | .value;
	.additionalProperties == false and (.required | sort) == (.properties | keys) and
	all(.properties | to_entries[]; .value == {"$ref": "#/$defs/key.\(.key)"}))'
json_is '. as $defs | ([to_entries[] | select(.key | startswith("key.") | not) | .value.properties | keys[]] | unique)
	== [$defs | keys[] | select(startswith("key.")) | ltrimstr("key.")]'
json_is '[to_entries[] | select(.key | test("_(ms|us|s|kib|mb|seconds)$"))] == []'
json_is '[.. | objects | select(.type == "number")] == []'

# The manual.
jq -r -f "$here/json_manual.jq" "$schema" > "$scratch/keys"
awk '/^# /{ on = $0 == "# JSON" } on && /^\*[a-z0-9\\_]+\* \(/ { print; getline; print }' "$manual" > "$scratch/told"
diff "$scratch/keys" "$scratch/told" >&2 || fail "the schema has (<) and the manual has (>)"

# Does this check find documents that differ?
echo '{"errors": []}' > "$scratch/out"
is failure
for bad in '{}' '{"errors": [1]}' '{"errors": [], "more": 1}' '[]'; do
	[ -n "$(jq -r --slurpfile schema "$schema" --arg object failure -f "$here/json_schema.jq" <<< "$bad")" ] ||
		fail "not noticed: $bad"
done
[ -n "$(jq -r --slurpfile schema "$schema" --arg object difference -f "$here/json_schema.jq" \
	<<< '{"offset_bytes": 1.5, "length_bytes": 1}')" ] || fail "a fraction is not noticed"

# What works.
truncate -s 4M "$scratch/disk"
target_start --memory ram=4M "$scratch/disk"
head -c 1000000 /dev/urandom > "$scratch/file"
expect 0 "$RBLK" list --json "$target"
is list
expect 0 "$RBLK" info -j --name host-7 "$target/disk"
is info
json_is '.initiator == "host-7"'
expect 0 "$RBLK" info -j "$target/disk"
is info
json_is '.initiator != "" and .age_ns >= 0 and [.paths[].age_ns] == [.age_ns]'
json_is '.volume == "disk" and .errors == [] and (.features | index("events")) and .tls == false and .proven == false'
expect 0 "$RBLK" copy --json "$scratch/file" "$target/disk"
is copy
json_is '.copied_bytes == 1000000 and .elapsed_ns > 0 and .verified'
expect 0 "$RBLK" copy --json "$scratch/file" "$target/ram"
is copy
json_is '.errors | length == 1 and (.[0] | contains("the store cannot flush"))'
expect 0 "$RBLK" copy --json --size 512 "$target/disk" -
cmp -n 512 "$scratch/file" "$scratch/out" || fail "data"
is copy "$scratch/err"
expect 0 "$RBLK" ping --json --count 3 "$target"
is ping
json_is 'all(.kinds[]; .min_ns > 0)'
"$RBLK" doctor --json "$target" > "$scratch/out" || true
is doctor
"$RBLK" doctor --json > "$scratch/out" || true
is doctor
json_is '.connection == null'
expect 0 "$FACTS" doctor
is doctor
json_is '(.rdma_devices | length) == 2 and (.problems | length) > 1 and .connection.error == "refused"'

root=$scratch/root
mkdir -p "$root/sys/block/rblk0/rblk" "$root/sys/block/rblk0/rblk_counters" "$root/sys/block/rblk0/queue"
expect 0 "$FACTS" attached "$root"
is list_attached
(
	cd "$root/sys/block/rblk0"
	echo recovering > rblk/state
	echo "the target closed the connection" > rblk/reason
	echo 10.0.0.1:4430 > rblk/target
	echo 7000 > rblk/give_up_ms
	echo > rblk/key
	echo 0 > rblk/digest
	echo data > rblk/name
	echo rblk://storage/disk > rblk/uri
	echo 12 > rblk_counters/commands
	echo 3 > rblk_counters/messages
	printf '10.0.0.1:4430\n10.0.0.2:4430\n' > rblk/portals
	printf '0 live 10.0.0.2:4430 7250\n1 ended 10.0.0.1:4430 0\n' > rblk/connections
)
expect 0 "$FACTS" attached "$root"
is list_attached
json_is '.attached[0] | .state == "recovering" and .give_up_ns == 7000000000 and .counters.commands == 12 and
	.key == null and .digest == false and .name == "data" and .uri == "rblk://storage/disk" and
	.age_ns == 7250000000 and [.paths[] | .host, .path_state, .connections, .age_ns] ==
	["10.0.0.1:4430", "down", 0, null, "10.0.0.2:4430", "up", 1, 7250000000] and (.paths[1] | .rdma and (.proven or .digest | not))'
echo db1.key > "$root/sys/block/rblk0/rblk/key"
echo 1 > "$root/sys/block/rblk0/rblk/digest"
expect 0 "$FACTS" attached "$root"
is list_attached
json_is '.attached[0] | .key == "db1.key" and .digest and [.paths[] | .rdma, .proven, .digest] == [null, null, null, true, true, true]'

# What fails.
target_stop
target_start --memory ram=4M
expect 1 "$RBLK" info --json "$target/none"
says_why
expect 1 "$RBLK" copy --json "$scratch/none" "$target/ram"
says_why
expect 1 "$RBLK" copy --json "$scratch" "$target/ram"
says_why
expect 2 "$RBLK" info --json
says_why
expect 2 "$RBLK" list --frobnicate "$target" -j
says_why
expect 2 "$RBLK" attach --json rblk://localhost
says_why
expect 1 "$RBLK" attach --json --tab "$scratch/none" name
says_why
target_stop
for verb in list ping; do
	expect 1 "$RBLK" $verb --json "$target"
	says_why
done
expect 1 "$RBLK" info --json "$target/ram"
says_why
# A name that is not UTF-8 does not invalidate the rest.
expect 1 "$RBLK" copy --json "$scratch/$(printf '\377')" "$target/ram"
is failure
expect 1 "$RBLK" list "$target"
[ ! -s "$scratch/out" ] || fail "JSON without --json"

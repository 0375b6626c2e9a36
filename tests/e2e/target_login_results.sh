#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Logins are told apart by their results, in the log, by rblkctl status and in the metrics: a restart under a session is no attack,
# and a wrong key, a name or a volume that the rules deny, and a lack of room are seen.
. "$(dirname "$0")/cmd.sh"
socket=$scratch/control
# is RESULT COUNT...: status and metrics have these, and 0 of all others.
is() {
	local wanted
	wanted=$(jq -n '$ARGS.positional | [range(0; length; 2) as $i | {key: .[$i], value: (.[$i + 1] | tonumber)}] | from_entries' --args "$@")
	counted() {
		"$RBLKCTL" status --socket "$socket" --json > "$scratch/out" &&
			jq -e --argjson wanted "$wanted" '.logins | del(.accepted) | map_values(select(. > 0)) == $wanted' "$scratch/out" > /dev/null
	}
	wait_for "the results $*" counted
	[ $# -gt 0 ] || return 0
	expect 0 "$RBLKCTL" status --socket "$socket"
	grep -q "^logins: [0-9]* accepted, .*$2 $1" "$scratch/out" || fail "status lacks $2 $1"
}
"$RBLK" key new "$scratch/right.key" > /dev/null
"$RBLK" key new "$scratch/wrong.key" > /dev/null
truncate -s 4M "$scratch/disk"
cat > "$scratch/rblkd.conf" <<-END
	[volume disk]
	path = $scratch/disk
	cache = buffered
	[volume closed]
	store = memory
	size = 1M
	[initiator db1]
	secret = $scratch/right.key
	write = disk
	[initiator other]
	address = 192.0.2.1
	read = closed
END
start() { target_start --control-socket "$socket" --config "$scratch/rblkd.conf" --memory-lock=no "$@"; }
start
port=${target##*:}
expect 0 "$RBLK" info --name db1 --key "$scratch/right.key" "$target/disk"
is
expect 1 "$RBLK" info --name db1 --key "$scratch/wrong.key" "$target/disk"
is denied 1
expect 1 "$RBLK" info --name db1 "$target/disk"
is denied 2
expect 1 "$RBLK" info --name db1 --key "$scratch/right.key" "$target/closed"
is denied 3

# A target is killed and started again under a session: the session returns.
mkfifo "$scratch/fifo"
"$RBLK" copy --name db1 --key "$scratch/right.key" - "$target/disk" < "$scratch/fifo" > "$scratch/copied" 2>&1 &
copy=$!
exec 7> "$scratch/fifo"
head -c 1M /dev/zero >&7
named() { "$RBLKCTL" sessions --socket "$socket" --json | jq -e 'any(.sessions[]; .initiator == "db1" and .volumes == ["disk"])' > "$scratch/json"; }
wait_for "the session" named
target_stop -KILL
target_listen=rblk+tcp://127.0.0.1:$port
start 7>&-
wait_for "the session again" named
is returned 1
log_has ': returned: the target does not know the session'
expect 0 "$RBLKCTL" events --socket "$socket" --json
json_is '[.events[] | select(.event == "refused")] == []'
exec 7>&-
wait $copy || fail "the copy: $(cat "$scratch/copied")"
target_stop

# No room.
start --reactors 1 --sessions 1
"$RBLK" copy --name db1 --key "$scratch/right.key" - "$target/disk" < "$scratch/fifo" > "$scratch/copied" 2>&1 &
copy=$!
exec 7> "$scratch/fifo"
wait_for "the session" named
expect 1 "$RBLK" info --name db1 --key "$scratch/right.key" "$target/disk"
is full 1
log_has ': full: all 1 sessions of reactor 0 are in use'
exec 7>&-
wait $copy || fail "the copy: $(cat "$scratch/copied")"
target_stop

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Access rules: who may see, read and write what, from where; and what both ends say to whoever may not. Method: an
# initiator here and one in another network namespace, under several names; rules that a reload changes while volumes
# are open.
. "$(dirname "$0")/cmd.sh"

two_machines 10.77.0

names() { jq -c '[.volumes[].volume]' "$scratch/out"; }
# lists JSON COMMAND...: the names that this command lists.
lists() {
	local want=$1
	shift
	expect 0 "$@" list --json "$target"
	[ "$(names)" = "$want" ] || fail "wanted the list $want"
}
# denied TEXT COMMAND...: it fails with this text.
denied() {
	local text=$1
	shift
	expect 1 "$@"
	err_has "$text"
}
advice="only the target's own machine may: its administrator has to add an [initiator] section to rblkd.conf, or --open"
rules="the target's access rules do not allow it to this initiator"
target_listen=rblk+tcp://10.77.0.1:0
head -c 64K /dev/urandom > "$scratch/data"

# Without rules: this machine by whichever of its addresses, and nobody else.
target_start --reactors 1 --memory a=1M --memory b=1M
log_has '2 of 2 volumes without access rules, for this machine only: others need an [initiator NAME] section'
lists '["a","b"]' "$RBLK"
expect 0 "$RBLK" copy "$scratch/data" "$target/a"
denied "login refused: $advice" "${there[@]}" "$RBLK" list "$target"
denied "login refused: $advice" "${there[@]}" "$RBLK" info "$target/a"
log_has "login from 10.77.0.2:"
log_has "denied: $advice"
# Many attempts are few lines: 100 at once, 10 a second, and how many were left out.
before=$(wc -l < "$scratch/target.log") began=$SECONDS
for _ in $(seq 200); do "${there[@]}" "$RBLK" list "$target" > /dev/null 2>&1 & done
wait $(jobs -p | grep -vx -e "$machine" -e "$target_pid") || true
few=$((100 + 11 * (SECONDS - began + 2)))
[ $(($(wc -l < "$scratch/target.log") - before)) -le $few ] || fail "more than $few lines for 200 attempts"
target_stop

# Open for everyone, which the start says.
target_start --open --memory a=1M
log_has 'open: 1 of 1 volume without access rules, and whoever reaches this target may read and write what has none'
expect 0 "${there[@]}" "$RBLK" copy "$scratch/data" "$target/a"
target_stop

# conf RULES: the configuration with these.
conf() {
	cat > "$scratch/rblkd.conf" <<-END
		[volume data]
		store = memory
		size = 1M
		[volume log]
		store = memory
		size = 1M
		[volume mine]
		store = memory
		size = 1M
	END
	printf '%s\n' "$@" >> "$scratch/rblkd.conf"
}
conf '[initiator db1]' 'address = 10.77.0.0/24' 'write = data' 'read = log' \
	'[initiator web*]' 'address = 10.77.0.2, fd09::1' 'read = da*' 'see = log'
target_start --config "$scratch/rblkd.conf"
log_has '1 of 3 volumes without access rules'
db=("${there[@]}" "$RBLK")
expect 0 "${db[@]}" copy --name db1 "$scratch/data" "$target/data"
expect 0 "${db[@]}" info --json --name db1 "$target/data"
json_is '.read_only == false'
# What it may only read it gets read-only.
expect 0 "${db[@]}" info --json --name db1 "$target/log"
json_is '.read_only == true'
denied "the volume is read only" "${db[@]}" copy --name db1 "$scratch/data" "$target/log"
expect 0 "${db[@]}" copy --name web7 "$target/data" "$scratch/back"
cmp -n 65536 "$scratch/data" "$scratch/back" || fail "data"
denied "the volume is read only" "${db[@]}" copy --name web7 "$scratch/data" "$target/data"
denied "volume \"log\": $rules" "${db[@]}" info --name web7 "$target/log"
# Other names; and whether a volume exists is not for whoever has no rule for it.
denied "volume \"data\": $rules" "${db[@]}" info --name db2 "$target/data"
log_has ' db2: OPEN of volume "data" denied: '"$rules"
denied "volume \"mine\": $advice" "${db[@]}" info --name db1 "$target/mine"
denied "volume \"nothing\": $advice" "${db[@]}" info --name db1 "$target/nothing"
# The list has what may be used or seen.
names_of() { expect 0 "${db[@]}" list --json --name "$1" "$target"; }
names_of db1
[ "$(names)" = '["data","log"]' ] || fail "db1's list"
names_of web7
[ "$(names)" = '["data","log"]' ] || fail "web7's list"
names_of db2
[ "$(names)" = '[]' ] || fail "db2's list"
# This machine: not what has rules, but the rest.
lists '["mine"]' "$RBLK"
denied "volume \"data\": $rules" "$RBLK" info "$target/data"

# A session that loses its right ends; its initiator is told, and others go on.
mkfifo "$scratch/fifo" "$scratch/fifo2"
"${db[@]}" copy --name db1 --give-up 2s - "$target/data" < "$scratch/fifo" > "$scratch/out1" 2> "$scratch/err1" &
loser=$!
"${db[@]}" copy --name db3 - "$target/data" < "$scratch/fifo2" > "$scratch/out2" 2> "$scratch/err2" &
exec 7> "$scratch/fifo" 8> "$scratch/fifo2"
if wait $!; then fail "db3 may not"; fi
exec 8>&-
head -c 256K /dev/zero >&7
opened() { kill -USR1 "$target_pid"; grep -q 'db1.*open: data' "$scratch/target.log"; }
wait_for "db1 has it open" opened
# A mistake changes nothing: no session ends.
conf '[initiator db1]' 'address = 10.77.0.0/24' 'raed = data'
reloaded 'reload failed, nothing changed: '
log_has 'unknown key "raed"; did you mean "read"?'
conf '[initiator db1]' 'address = 10.77.0.0/24' 'write = log' '[initiator db3]' 'address = 10.77.0.0/24' 'write = data'
reloaded 'reload: 0 volumes added, 0 removed, 0 changed'
wait_for "its end" grep -qF 'db1: ended: the access rules do not allow it any more: volume data' "$scratch/target.log"
head -c 256K /dev/zero >&7 || true
exec 7>&-
if wait $loser; then fail "db1 still writes"; fi
# By the answer to its WRITE, or to OPEN if the connection ended first.
grep -qE "volume \"data\": (WRITE: )?$rules" "$scratch/err1" || fail "what db1 was told: $(cat "$scratch/err1")"
expect 0 "${db[@]}" copy --name db3 "$scratch/data" "$target/data"

# From an address that no rule is for; and rules for volumes that do not exist are named.
conf '[initiator db1]' 'address = 10.77.0.9' 'write = data dta'
reloaded 'initiator db1: there is no volume dta'
denied "login refused: no access rule of the target is for this address" "${db[@]}" list --name db1 "$target"

# Open is for what has no rules.
conf '[initiator db1]' 'address = 10.77.0.9' 'write = data' '[target]' 'open = yes'
reloaded 'open: 2 of 3 volumes without access rules'
names_of db1
[ "$(names)" = '["log","mine"]' ] || fail "db1's list"
denied "volume \"data\": $rules" "${db[@]}" info --name db1 "$target/data"
if grep -q 'need a restart' "$scratch/target.log"; then fail "open does not need a restart"; fi
target_stop

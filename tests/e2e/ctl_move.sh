#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rblkctl move gives a volume to another target that waits for it: sessions that know both go on there, and back, without an
# error; one that knows this one alone keeps the volume here; and where nobody takes it, it is served here again. Method: two
# daemons with one file, of which one at a time can have it, and copies that write slowly.
. "$(dirname "$0")/cmd.sh"

declare -A gateway address
trap 'for pid in "${gateway[@]}"; do kill -KILL $pid 2> /dev/null || true; done; rm -rf "$scratch"' EXIT
# gateway_start N: it listens; it serves the volume if no other one does.
gateway_start() {
	: > "$scratch/log.$1"
	"$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state.$1" --reservations-dir "$scratch/identities.$1" \
		--control-socket "$scratch/control.$1" --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2> "$scratch/log.$1" &
	gateway[$1]=$!
	wait_for "gateway $1" grep -q 'ready: ' "$scratch/log.$1"
	address[$1]=$(grep -m 1 -o '127.0.0.1:[0-9]*' "$scratch/log.$1")
}
told() { wait_for "the log of $1: $2" grep -qF -- "$2" "$scratch/log.$1"; }
# moves STATUS N OPERAND...
moves() { expect "$1" "$RBLKCTL" move --socket "$scratch/control.$2" "${@:3}"; }
# is_at N: the only session with the volume open and connected.
is_at() { "$RBLKCTL" sessions --json --socket "$scratch/control.$1" | jq -e '[.sessions[] | select(.connections > 0 and .volumes == ["disk"])] | length == 1' > /dev/null; }

head -c 8M /dev/zero > "$scratch/disk"
head -c 2M /dev/urandom > "$scratch/data"
printf '%s\n' '[target]' 'require_all = no' '[volume disk]' "path = $scratch/disk" 'cache = buffered' 'lock_wait = 5ms' \
	'[volume brief]' 'store = memory' 'size = 1M' > "$scratch/rblkd.conf"
gateway_start 1
gateway_start 2
told 2 'volume disk: '
mkfifo "$scratch/pipe"

# writer URI: a copy that gets its data by descriptor 5; part N: 256 KiB of it.
writer() {
	"$RBLK" copy --name writer - "$1" < "$scratch/pipe" > "$scratch/writer.log" 2>&1 &
	writer=$!
	exec 5> "$scratch/pipe"
}
part() { dd if="$scratch/data" bs=256K skip="$1" count=1 status=none >&5 || fail "the copy: $(cat "$scratch/writer.log")"; }
# written PARTS: the copy has succeeded, and all of it is in the file.
written() {
	exec 5>&-
	wait $writer || fail "the copy: $(cat "$scratch/writer.log")"
	cmp -n $(($1 * 262144)) "$scratch/data" "$scratch/disk" || fail "the data"
}

# There and back.
writer "rblk+tcp://${address[1]};${address[2]}/disk"
part 0
wait_for "the writer" is_at 1
moves 0 1 disk
out_has '1 session has left for another target, 0 stay; not served here any more, unless no other target takes it'
part 1
wait_for "the writer at the other target" is_at 2
told 2 'volume disk: served again'
moves 0 2 disk --json
json_is '.left == 1 and .stay == 0 and .given_away and .errors == []'
part 2
wait_for "the writer, back" is_at 1
part 3
written 4
grep -q 'control: move of volume disk, as user' "$scratch/log.1" || fail "nobody says who has moved it"

# A session that knows one target alone stays, and the volume with it; another one that has left comes back.
writer "rblk+tcp://${address[1]}/disk"
part 0
wait_for "the writer" is_at 1
moves 1 1 disk
err_has 'has it open, and does not leave (its client may know no other target): it is given away only with --force'
for ((i = 1; i < 8; i++)); do part $i; done
written 8

# Nobody takes it: it is served here again, and whoever had left or comes meanwhile waits for that.
kill -TERM "${gateway[2]}"
wait "${gateway[2]}" || fail "the second gateway's end"
unset "gateway[2]"
writer "rblk+tcp://${address[1]};${address[2]}/disk"
part 0
wait_for "the writer" is_at 1
moves 0 1 disk
expect 0 "$RBLK" info "rblk+tcp://${address[1]}/disk"
told 1 'volume disk: served again'
for ((i = 1; i < 8; i++)); do part $i; done
written 8

moves 1 1 brief
err_has 'its data is in this process alone'
moves 1 1 nothing
err_has 'volume nothing is not served here'
moves 2 1

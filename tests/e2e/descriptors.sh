#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: programs that were started with closed standard descriptors write nothing into what they open; and a result
# that could not be written is an exit status and a line. Method: a volume and a copy that stay as they are under every
# set of closed descriptors; /dev/full for every verb that prints.
. "$(dirname "$0")/cmd.sh"
scratch_of_target=(--state-dir "$scratch/state" --control-socket "$scratch/control" --journal none)

# One line for the log at the start, and more at SIGUSR1; the control socket tells that it serves.
serving() { "$RBLKCTL" status --socket "$scratch/control" > "$scratch/out" 2>&1; }
for closed in '>&- 2>&-' '<&- >&- 2>&-' '2>&-'; do
	rm -f "$scratch/v.img"
	truncate -s 4M "$scratch/v.img"
	eval '"$RBLKD" --cache buffered --listen rblk+tcp://127.0.0.1:0 "${scratch_of_target[@]}" "$scratch/v.img" '"$closed" '&'
	target_pid=$!
	wait_for "rblkd serves ($closed)" serving
	kill -USR1 "$target_pid"
	kill "$target_pid"
	wait "$target_pid" || fail "rblkd $closed: status $?"
	target_pid=
	cmp -n 4M "$scratch/v.img" /dev/zero || fail "rblkd $closed: its volume has: $(head -c 80 "$scratch/v.img" | tr -d '\0')"
done

target_start --control-socket "$scratch/control" --memory m=4M
head -c 4M /dev/urandom > "$scratch/data"
expect 0 "$RBLK" copy "$scratch/data" "$target/m"
for closed in '>&-' '<&- >&-' '<&- >&- 2>&-'; do
	eval '"$RBLK" copy "$target/m" "$scratch/copy" '"$closed" || fail "rblk copy $closed: status $?"
	cmp "$scratch/data" "$scratch/copy" || fail "rblk copy $closed: the copy is another"
	rm "$scratch/copy"
done

# full COMMAND...: its output cannot be written.
full() {
	local status=0
	"$@" > /dev/full 2> "$scratch/err" < /dev/null || status=$?
	[ $status = 1 ] || fail "$* > /dev/full: status $status"
	err_has 'standard output: cannot be written'
	[ "$(grep -c 'cannot be written' "$scratch/err")" = 1 ] || fail "$*: it is said twice"
}
expect 0 "$RBLK" key new "$scratch/key"
for json in '' --json; do
	full "$RBLK" list $json "$target"
	full "$RBLK" info $json "$target/m"
	full "$RBLK" ping $json -c 2 "$target"
	full "$RBLK" reserve $json "$target/m"
	full "$RBLK" copy $json "$scratch/data" "$target/m"
	full "$RBLK" doctor $json "$target"
	for verb in status sessions volumes events; do
		full "$RBLKCTL" $verb $json --socket "$scratch/control"
	done
done
full "$RBLK" key show "$scratch/key"
for program in "$RBLK" "$RBLKCTL" "$RBLKD"; do
	full "$program" --help
	full "$program" --version
done
full "$RBLK" help list
full "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --memory m=1M

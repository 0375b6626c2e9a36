#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a writer that was killed and started again is not overtaken by what it had sent in its last life, although one
# reactor of the target is late and has not even read it (F5). Method: of three reactors with a connection each, one is
# stopped alone, the writer is killed, and another one goes on with its journal; the reactor goes on when that has ended, or
# still waits after a while.
#   overtaken.sh TIMES
. "$(dirname "$0")/../e2e/cmd.sh"
times=$1
writer='' stopper=''
finish() {
	exec 7>&-
	kill -KILL $writer $stopper 2> /dev/null || true
	target_stop -KILL
	rm -rf "$scratch"
}
trap finish EXIT

reactor() { grep -lx "reactor-$1" /proc/"$target_pid"/task/*/comm | cut -d/ -f5; }
writer_start() {
	"$PROMISE" run --seed "$RANDOM" --writer 1 --blocks 48 --max-blocks 4 --depth 12 --give-up 120000 "$@" \
		"$scratch/journal" "$uri" 2>> "$scratch/err" 7>&- &
	writer=$!
}
acknowledged() { [ "$(grep -c '^A' "$scratch/journal" 2> /dev/null)" -ge "$1" ]; }
is_stopped() { grep -q stopped "$scratch/stopped"; }
writer_ended() { ! kill -0 $writer 2> /dev/null; }

truncate -s 4M "$scratch/disk"
mkfifo "$scratch/fifo"
target_start --reactors 3 --keepalive 30s --cache buffered "disk=$scratch/disk"
uri=$target/disk
for ((i = 1; i <= times; i++)); do
	rm -f "$scratch/journal"
	writer_start --queues 3
	wait_for "writes" acknowledged 300
	: > "$scratch/stopped"
	exec 7<> "$scratch/fifo"
	"$STOP_THREAD" "$(reactor $((i % 3)))" < "$scratch/fifo" > "$scratch/stopped" 2>> "$scratch/err" 7>&- &
	stopper=$!
	wait_for "reactor $((i % 3)) stops" is_stopped
	kill -KILL $writer
	wait $writer 2> /dev/null || true
	writer_start --queues 1 --writes 600
	for ((tries = 0; tries < 40; tries++)); do
		writer_ended && break
		read -rt 0.05 <> <(:) || true
	done
	exec 7>&-
	wait $stopper || fail "time $i: $(cat "$scratch/err")"
	wait_for "the second life" writer_ended
	wait $writer || fail "time $i: the second life: $(cat "$scratch/err")"
	# Another writer's OPEN waits for what the late reactor has begun.
	"$PROMISE" run --seed 1 --writer 2 --first 512 --blocks 8 --writes 1 "$scratch/other" "$uri" 2>> "$scratch/err" ||
		fail "time $i: another writer: $(cat "$scratch/err")"
	rm "$scratch/other"
	"$PROMISE" check --strict "$scratch/journal" "$scratch/disk" > "$scratch/check" || fail "time $i: $(cat "$scratch/check")"
done
writer='' stopper=''

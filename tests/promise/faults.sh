#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever fault strikes, no writer sees an error, and the disk holds what it was promised; where no cache is
# lost, everything that was acknowledged. Method: two writers of a promise journal, each with a session and a
# range of its own; the fault, each time when both have got on; when both get on again, they end, and the disk is
# compared before anything else is written over what the fault has done.
#   faults.sh FAULT TIMES
# kill, restart, pause: rblkd is killed, ends at SIGTERM, stands still past the keep-alive time. cut, late: a
# connection is reset, or silent until another one has taken its place, and then delivers what it held. slow: a
# connection is reset while storage holds some writes for a second: they must not land on newer ones (F5). portal:
# one of two goes away and comes back. client: a writer is killed and goes on with its journal. power: rblkd is
# killed and a part of what was not flushed is gone. mount: the file system below rblkd shuts itself down, rblkd is killed,
# and the file system is mounted anew before it starts again. PROMISE, PROXY, RBLKD are the programs.
fault=$1 times=$2
if [ "$fault" = mount ] && [ -z "${RBLK_MOUNT:-}" ]; then
	if [ "$(id -u)" = 0 ] && losetup -f > /dev/null 2>&1; then
		RBLK_MOUNT=1 exec unshare -m "$0" "$@"
	fi
	echo "SKIPPED: no mount(8) of a file (root, a loop device)"
	exit 77
fi
. "$(dirname "$0")/../e2e/cmd.sh"
writers=(1 2)
writer_pids=()
proxy_pid=
finish() {
	# First the target: it may be stopped, and `wait` waits for all.
	target_stop -KILL
	kill -KILL "${writer_pids[@]}" $proxy_pid 2> /dev/null || true
	wait $proxy_pid 2> /dev/null || true
	[ "$fault" != mount ] || umount -l "$scratch/mnt" 2> /dev/null || true
	rm -rf --one-file-system "$scratch"
}
trap finish EXIT

# -- the writers ---------------------------------------------------------------------------------

writer_start() {
	"$PROMISE" run --seed "$RANDOM" --writer "$1" --first $((($1 - 1) * 1024)) --blocks $blocks --max-blocks 8 --queues "$1" --give-up 120000 \
		"$scratch/journal$1" "$uri" 2>> "$scratch/err" &
	writer_pids[$1]=$!
}
# lines WRITER PATTERN: how many its journal has.
lines() {
	local count
	count=$(grep -sc "$2" "$scratch/journal$1") || true
	echo "${count:-0}"
}
acknowledged() { lines "$1" '^A'; }
notes() { lines "$1" "^N [0-9]* $2"; }
got_on() {
	kill -0 "${writer_pids[$1]}" 2> /dev/null || fail "$fault: writer $1 has ended"
	[ "$(acknowledged "$1")" -ge "$2" ]
}
noticed() { [ "$(notes "$1" "$2")" -ge "$3" ]; }
# progress COUNT: so many more writes of each writer.
progress() {
	local writer from=()
	for writer in "${writers[@]}"; do from[writer]=$(($(acknowledged "$writer") + $1)); done
	for writer in "${writers[@]}"; do wait_for "$fault: writer $writer does not get on" got_on "$writer" "${from[writer]}"; done
}

# -- the faults ----------------------------------------------------------------------------------

target_again() {
	target_listen=$target
	target_start "${target_options[@]}"
}
fault_kill() { target_stop -KILL; target_again; }
fault_power() { fault_kill; }
# While rblkd is stopped, so that no writer sees an error. EXT4_IOC_SHUTDOWN, without the log.
shut_down() { perl -e 'open my $f, "<", $ARGV[0] or die; my $how = pack("L", 2); ioctl($f, 0x8004587d, $how) or die "$!"' "$disk"; }
fault_mount() {
	kill -STOP "$target_pid"
	shut_down
	target_stop -KILL
	wait_for "the file system is in use" umount "$scratch/mnt"
	mount -o loop "$scratch/image" "$scratch/mnt"
	target_again
}
fault_restart() { target_stop; target_again; }
fault_pause() {
	local writer seen=()
	for writer in "${writers[@]}"; do seen[writer]=$(notes "$writer" recovering); done
	kill -STOP "$target_pid"
	for writer in "${writers[@]}"; do
		wait_for "$fault: writer $writer does not notice" noticed "$writer" recovering $((seen[writer] + 1))
	done
	kill -CONT "$target_pid"
}
fault_cut() { kill -USR1 "$proxy_pid"; }
fault_slow() { fault_cut; }
fault_late() {
	local writer seen=()
	for writer in "${writers[@]}"; do seen[writer]=$(notes "$writer" recovered); done
	kill -USR2 "$proxy_pid"
	for writer in "${writers[@]}"; do
		wait_for "$fault: writer $writer does not recover" noticed "$writer" recovered $((seen[writer] + 1))
	done
	progress 100
	kill -USR2 "$proxy_pid"
}
fault_portal() { proxy_stop; progress 100; proxy_start "$proxy_port"; }
fault_client() {
	kill -KILL "${writer_pids[1]}"
	wait "${writer_pids[1]}" 2> /dev/null || true
	writer_start 1
}

proxy_start() {
	"$PROXY" "${target##*:}" "$@" > "$scratch/port" &
	proxy_pid=$!
	wait_for "$fault: the proxy does not listen" [ -s "$scratch/port" ]
	proxy_port=$(cat "$scratch/port")
}
proxy_stop() {
	kill -KILL "$proxy_pid"
	wait "$proxy_pid" 2> /dev/null || true
	: > "$scratch/port"
}

writers_stop() {
	local writer status
	for writer in "${writers[@]}"; do
		kill -TERM "${writer_pids[writer]}"
		status=0
		wait "${writer_pids[writer]}" || status=$?
		[ $status = 0 ] || fail "$fault: writer $writer: exit status $status"
	done
	writer_pids=()
}
compare() {
	local journals=("${writers[@]/#/$scratch/journal}")
	# Without a loss of power no write may have failed, and no flush.
	[ -z "$strict" ] || ! grep -h '^[EH]' "${journals[@]}" > "$scratch/out" || fail "$fault: errors"
	# shellcheck disable=SC2086
	expect 0 "$PROMISE" check $strict "${journals[@]}" "$disk"
}

# -- the test ------------------------------------------------------------------------------------

strict=--strict disk=$scratch/disk
if [ "$fault" = mount ]; then
	strict='' disk=$scratch/mnt/disk
	truncate -s 64M "$scratch/image"
	mkfs.ext4 -q -F "$scratch/image"
	mkdir "$scratch/mnt"
	mount -o loop "$scratch/image" "$scratch/mnt"
fi
target_options=(--keepalive 1s "disk=$disk")
# Few blocks, so that a write that storage ends late has newer ones to land on.
blocks=1024
[ "$fault" != slow ] || { blocks=32 target_options+=(--fault delay=write:1s:0.05); }
[ "$fault" != power ] || { strict='' target_options+=(--fault power=0.5); }
[ "$fault" != mount ] || target_options+=(--cache buffered)
truncate -s 12M "$disk"
target_start "${target_options[@]}"
uri=$target/disk
case $fault in
cut | late | slow) proxy_start; uri=rblk+tcp://127.0.0.1:$proxy_port/disk ;;
portal) proxy_start; uri=rblk+tcp://127.0.0.1:$proxy_port,${target#*://}/disk; writers=(2 3) ;;
esac
for ((i = 1; i <= times; i++)); do
	for writer in "${writers[@]}"; do writer_start "$writer"; done
	progress 200
	"fault_$fault"
	progress 20
	writers_stop
	compare
done
# What the target had not yet written to the disk, if it had anything.
target_stop
compare
cat "$scratch/out"
# Power that was lost without anybody's being told proves nothing.
[ -n "$strict" ] || grep -q '^H' "$scratch"/journal? || fail "$fault: no flush has failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# systemd accepts every installed unit, and with rblkd's unit a restart is a pause. Method: systemd-analyze,
# without a running systemd; the units name the programs where they were built, so that it finds those, too. Then
# the test runs the commands of rblkd's unit as systemd runs them, during a copy.
. "$(dirname "$0")/cmd.sh"

if ! command -v systemd-analyze > /dev/null; then
	echo "SKIPPED: no systemd-analyze (package systemd)"
	exit 77
fi
[ $# -gt 0 ] || fail "which units?"

# setting UNIT KEY: its value.
setting() { sed -n "s/^$2=//p" "$1"; }
# default OPTION: that of rblkd, in seconds.
default() { "$RBLKD" --help | tr -s ' \n' ' ' | grep -oP -- "--$1 TIME .*?\(default: \K[0-9]+(?=s\))" | sed -n 1p; }
seconds() { setting "$1" "$2" | grep -oP '^[0-9]+(?=s$)'; }

# systemd's time limits are long enough, so that it kills no process that would end, or start, by
# itself.
times_suffice() {
	[ "$(seconds "$1" TimeoutStopSec)" -ge $(($(default drain-time) + 10)) ] || fail "TimeoutStopSec"
	[ "$(seconds "$1" TimeoutStartSec)" -gt $(($(default lock-wait) + $(default listen-wait))) ] || fail "TimeoutStartSec"
	# systemd sends SIGTERM to the process that serves.
	[ -z "$(setting "$1" KillSignal)$(setting "$1" KillMode)$(setting "$1" ExecStop)" ] || fail "not stopped by SIGTERM alone"
	[ "$(setting "$1" Restart)" = on-failure ] || fail "Restart"
}

# service_start UNIT: runs the unit's commands, with the configuration of the test.
service_start() {
	local line
	# Without those for root (+), which are about the machine's own configuration.
	setting "$1" ExecStartPre | sed '/^+/d' | while read -r line; do ${line//\/etc\/rblk/$scratch} >&2; done
	line=$(setting "$1" ExecStart)
	: > "$scratch/target.log"
	${line//\/etc\/rblk/$scratch} 2> "$scratch/target.log" 7>&- &
	target_pid=$!
	service_says ready:
}
service_says() {
	local tries=0
	until grep -q "$1" "$scratch/target.log"; do
		kill -0 "$target_pid" 2> /dev/null || fail "rblkd: ended"
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || fail "rblkd: never said $1"
		read -rt 0.05 <> <(:) || true
	done
}
configure() {
	printf '[target]\nlisten = rblk+tcp://127.0.0.1:%s\nstate_dir = %s/state\n[volume disk]\npath = %s/disk\ncache = buffered\n' \
		"$1" "$scratch" "$scratch" > "$scratch/rblkd.conf"
}
# restart UNIT SIGNAL: a copy that is half done succeeds.
restart() {
	local copy status=0
	rm -f "$scratch/fifo" && mkfifo "$scratch/fifo"
	"$RBLK" copy --name copier --chunk 64k - "$target/disk" < "$scratch/fifo" > "$scratch/out" 2> "$scratch/err" &
	copy=$!
	exec 7> "$scratch/fifo"
	head -c 1M "$scratch/data" >&7
	service_says 'initiator copier'
	kill "-$2" "$target_pid"
	wait "$target_pid" 2> /dev/null || status=$?
	[ "$2" = KILL ] || [ $status = 0 ] || fail "rblkd: ended with status $status"
	service_start "$1"
	tail -c +1048577 "$scratch/data" >&7
	exec 7>&-
	wait $copy || fail "copy: status $?"
	service_says 'initiator copier'
	cmp "$scratch/data" "$scratch/disk" || fail "data"
}
restart_is_a_pause() {
	truncate -s 2M "$scratch/disk"
	configure 0
	service_start "$1"
	target=rblk+tcp://$(grep -oP 'ready: .*tcp://\K[0-9.:]+' "$scratch/target.log")
	configure "${target##*:}"
	for signal in TERM KILL; do
		head -c 2M /dev/urandom > "$scratch/data"
		restart "$1" $signal
	done
	target_stop
}
# It runs without root, as any user who owns the files; if it may not open one, it says who it is and what to do.
serves_as_nobody() {
	[ "$(id -u)" = 0 ] || return 0
	local line
	[ "$(setting "$1" User)" = rblk ] && [ "$(setting "$1" CapabilityBoundingSet)" = CAP_IPC_LOCK ] || fail "it runs as root"
	# That user may not be able to enter the build folder.
	chmod 755 "$scratch"
	cp "$RBLKD" "$scratch/program"
	rm -rf "$scratch/state"
	configure 0
	chmod 600 "$scratch/disk"
	line=$(setting "$1" ExecStart)
	line=${line//\/etc\/rblk/$scratch}
	line=${line/#$RBLKD/$scratch\/program}
	local as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
	mkdir "$scratch/state" && chown 65534 "$scratch/state"
	expect 1 "${as_nobody[@]}" $line --require-all
	err_has "$scratch/disk: Permission denied; rblkd runs as user nobody: chown nobody $scratch/disk"
	chown 65534 "$scratch/disk"
	: > "$scratch/target.log"
	"${as_nobody[@]}" $line 2> "$scratch/target.log" &
	target_pid=$!
	service_says ready:
	target=rblk+tcp://$(grep -oP 'ready: .*tcp://\K[0-9.:]+' "$scratch/target.log")
	expect 0 "$RBLK" copy "$scratch/data" "$target/disk"
	target_stop
}
# A target and an initiator on one machine: the disk goes before its target.
goes_first() { grep -qw rblkd.service <<< "$(setting "$1" After)" || fail "$1: not stopped before rblkd"; }
# systemd's own judgement, of 10: it was 2.9 when the daemon ran as root.
exposed_little() { expect 0 systemd-analyze security --offline=true --threshold=21 --no-pager "$1"; }
for unit in "$@"; do
	name=$(basename "$unit")
	name=${name/@./@volume.}
	sed -E "s|^(Exec[A-Za-z]+=)/[^ ]*/rblkd |\1$RBLKD |; s|^(Exec[A-Za-z]+=)/[^ ]*/rblk |\1$RBLK |; s|^(Exec[A-Za-z]+=)/[^ ]*/rblkctl |\1$RBLKCTL |" \
		"$unit" > "$scratch/$name"
	expect 0 systemd-analyze verify --man=no "$scratch/$name"
	# Warnings about our units count as failures, too: for example an unknown key.
	if grep -F "$name" "$scratch/out" "$scratch/err"; then fail "$name: the above"; fi
	# Does this check find a wrong unit?
	sed 's/^TimeoutStopSec=/TimeoutStopSecond=/' "$scratch/$name" > "$scratch/bad-$name"
	systemd-analyze verify --man=no "$scratch/bad-$name" > "$scratch/out" 2>&1 || true
	out_has "'TimeoutStopSecond'"
	[ "$name" = rblkd.service ] || goes_first "$scratch/$name"
	[ "$name" != rblkd.service ] || { times_suffice "$scratch/$name"; restart_is_a_pause "$scratch/$name"
		serves_as_nobody "$scratch/$name"; exposed_little "$scratch/$name"; }
done

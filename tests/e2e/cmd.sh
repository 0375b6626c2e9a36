# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# What the tests of the programs share: a target on an ephemeral port of 127.0.0.1, a scratch folder,
# and assertions on what a command printed and returned. It is sourced, and expects RBLK and RBLKD
# (the programs) in the environment.
set -euo pipefail
export RBLK_KEY= # not the machine's /etc/rblk/key

scratch=$(mktemp -d)
target_pid=
trap 'target_stop; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'fail "told to end; it was in line $(caller_lines)"' TERM

fail() {
	echo "FAILED: $*" >&2
	echo "--- output" >&2
	cat "$scratch/out" >&2 2>/dev/null || true
	echo "--- errors" >&2
	cat "$scratch/err" >&2 2>/dev/null || true
	echo "--- target" >&2
	cat "$scratch/target.log" >&2 2>/dev/null || true
	exit 1
}

# caller_lines: where the script is, the innermost line first.
caller_lines() {
	local frame=1
	while caller $frame; do frame=$((frame + 1)); done | tr '\n' ','
}

# no_tool WHAT: ends a test that cannot do all that it should without this program. tests/run has all programs, so there
# the test fails; others are told what was skipped.
no_tool() {
	[ "${RBLK_TOOLS:-}" != all ] || fail "there is no $1"
	echo "SKIPPED: there is no $1"
	exit 77
}

# wait_for WHAT COMMAND...: until the command succeeds; five minutes are time enough on any machine, and an end that
# says what was waited for.
wait_for() {
	local what=$1 end=$((SECONDS + 300))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || fail "$what: not in five minutes"
		read -rt 0.05 <> <(:) || true
	done
}

# log_has TEXT: the daemon's log has this text. A thread writes the log, so a line may come after the answer to
# what it is about.
log_has() {
	wait_for "the log: $1" grep -qF -- "$1" "$scratch/target.log"
}

# reloaded TEXT: sends SIGHUP, then waits until the log has one more such line than before.
reloaded() {
	local before
	before=$(log_count "$1")
	kill -HUP "$target_pid"
	log_grew() { [ "$(log_count "$1")" -gt "$before" ]; }
	wait_for "the log: $1" log_grew "$1"
}
log_count() { grep -cF -- "$1" "$scratch/target.log" || true; }

# target_start ARGUMENT...: starts rblkd with these; sets $target to its URI when it is ready. It
# listens on $target_listen if that is set. Its pool is small, unless the test says otherwise: to make one of the usual size is
# most of what a start costs.
target_start() {
	local tries=0 ready
	: > "$scratch/target.log"
	"$RBLKD" --listen "${target_listen:-rblk+tcp://127.0.0.1:0}" --state-dir "$scratch/state" \
		--reservations-dir "$scratch/identities" --control-socket none --journal none --pool-size 8M "$@" 2> "$scratch/target.log" &
	target_pid=$!
	until ready=$(grep -o 'ready: .*' "$scratch/target.log"); do
		kill -0 "$target_pid" 2>/dev/null || fail "rblkd $*: ended"
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || fail "rblkd $*: not ready in a minute"
		read -rt 0.05 <> <(:) || true
	done
	target=rblk+tcp://${ready##*tcp://}
}

target_stop() {
	[ -n "$target_pid" ] || return 0
	kill "${1:--TERM}" "$target_pid" 2>/dev/null || true
	wait "$target_pid" 2>/dev/null || true
	target_pid=
}

# copy_start ARGUMENT...: a copy with these, whose data is what the test writes to descriptor 7; sets $copy.
copy_start() {
	[ -p "$scratch/fifo" ] || mkfifo "$scratch/fifo"
	"$RBLK" copy "$@" < "$scratch/fifo" > /dev/null 2>&1 &
	copy=$!
	exec 7> "$scratch/fifo"
}

# two_machines NET [WHY]: the test runs again, in a network namespace of its own, beside another one, which is another machine: "${there[@]}"
# runs commands on that. They are at both ends of a wire: NET.1 and NET.2; with an empty NET the test makes it. Without root it is skipped.
two_machines() {
	if [ -z "${RBLK_TWO_MACHINES:-}" ]; then
		if unshare -n ip link add rblk0 type veth peer name rblk1 2> /dev/null; then
			RBLK_TWO_MACHINES=1 exec unshare -n "$0"
		fi
		echo "SKIPPED: no network namespace with a pair of devices (needs root)${2:+; $2}"
		exit 0
	fi
	ip link set lo up
	unshare -n sleep 3600 &
	machine=$!
	trap 'target_stop; kill $machine; rm -rf "$scratch"' EXIT
	there=(nsenter -t $machine -n)
	wait_for "the other machine" own_namespace
	[ -n "$1" ] || return 0
	ip link add rblk0 type veth peer name rblk1 netns $machine
	ip addr add "$1.1/24" dev rblk0 && ip link set rblk0 up
	"${there[@]}" ip addr add "$1.2/24" dev rblk1 && "${there[@]}" ip link set rblk1 up
}
own_namespace() { [ "$(readlink /proc/$machine/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }

# expect STATUS COMMAND...: run it, output in $scratch/out, errors in $scratch/err.
expect() {
	local want=$1 got=0
	shift
	timeout 600 "$@" > "$scratch/out" 2> "$scratch/err" < /dev/null || got=$?
	[ "$got" = "$want" ] || fail "$*: status $got, not $want"
}

# out_has TEXT, err_has TEXT: the last command printed this text.
out_has() {
	grep -qF -- "$1" "$scratch/out" || fail "the output lacks: $1"
}
err_has() {
	grep -qF -- "$1" "$scratch/err" || fail "the errors lack: $1"
}
# json_is FILTER: this jq filter is true for the last output.
json_is() {
	jq -e "$1" "$scratch/out" > /dev/null || fail "not true of the output: $1"
}

# top_on_terminals HEADING COMMAND [COLUMN]...: a live table, every 200 ms, on terminals of several widths (where there is
# script(1)): no line is longer than the terminal is wide, the most important columns stay, at 80 characters these, s sorts by the next key, and q
# ends it.
top_on_terminals() {
	local heading=$1 command=$2 width column
	shift 2
	command -v script > /dev/null || { echo "SKIPPED: no script(1)"; return 0; }
	for width in 40 80 120; do
		: > "$scratch/screen"
		{
			wait_for "the first table" screen_has 'sorted by iops'
			printf s
			wait_for "the next table" screen_has 'sorted by bytes'
			printf q
		} | script -qec "stty cols $width rows 24; exec $command --interval 200ms" /dev/null > "$scratch/screen" ||
			fail "top on a terminal: status $?"
		sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' "$scratch/screen" | tr -d '\r' > "$scratch/out"
		out_has "$heading"
		out_has IOPS
		out_has 'sorted by bytes'
		for column; do
			[ $width -lt 80 ] || out_has "$column"
		done
		[ "$(wc -L < "$scratch/out")" -le $width ] || fail "a line is longer than $width"
	done
}
screen_has() { grep -q "$1" "$scratch/screen"; }

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: `limit = auto` is taken from the configuration and changed while the volume is in use; a disk that becomes slow has few
# commands at once, and many again when that is over; reports, metrics and the table say so. Method: a store with injected
# delays, under copies that always have more; unit.target_pace has the law itself.
. "$(dirname "$0")/cmd.sh"
command -v curl > /dev/null || no_tool curl
cd "$scratch"
socket=$scratch/control
ctl() { expect 0 "$RBLKCTL" "$1" --socket "$socket" "${@:2}"; }
# disk FILTER: is that so, of what rblkctl says of the volume?
disk() {
	"$RBLKCTL" volumes --socket "$socket" --json | jq -e ".volumes[] | select(.volume == \"disk\") | $1" > json
}
cat > rblkd.conf <<-END
	[volume disk]
	path = $scratch/disk.img
	cache = buffered
	fault = delay=1us
	limit = auto
END
truncate -s 16M disk.img
head -c 16M /dev/urandom > data
target_start --config rblkd.conf --control-socket "$socket" --http 0 --reactors 1 --session-time 1ms --memory-lock=no \
	--fault-socket "$scratch/faults"
url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' target.log)
disk '.window == null' || fail "a window without a client"

(while :; do "$RBLK" copy --no-verify --chunk 4k --name load data "$target/disk" || exit; done) > copy.log 2>&1 &
load=$!
many() { disk '.window.commands >= 8'; }
few() { disk '.window.commands <= 2'; } # a read and a write
# Until the next look at the quiet disk, at most five seconds later, which finds that this is what it takes.
slow_is_few() {
	expect 0 "$RBLK" fault "$scratch/faults" plan disk delay=1us
	wait_for "a window" many
	expect 0 "$RBLK" fault "$scratch/faults" plan disk delay=20ms
	for ((i = 0; i < 40; i++)); do
		if few; then return 0; fi
		read -rt 0.05 <> <(:) || true
	done
	return 1
}
wait_for "a short queue" slow_is_few
wait_for "that the disk is known to be slow" disk '.window.commands >= 8 and .window.quiet_ns > 10000000'
expect 0 "$RBLK" fault "$scratch/faults" plan disk delay=1us
wait_for "that it is known to be quick" disk '.window.commands >= 8 and .window.quiet_ns < 10000000'
listed() { "$RBLKCTL" volumes --socket "$socket" > out && grep -q ' at once, in ' out; } # between two copies there is none
wait_for "the table" listed
metrics_have() { curl -sS --max-time 60 "$url/metrics" > metrics && grep -q "^$1" metrics; }
wait_for "the metric" metrics_have 'rblk_volume_window_commands{volume="disk"} [1-9]'
wait_for "the metric of times" metrics_have 'rblk_volume_window_seconds{volume="disk",store="quiet"} [0-9]'

expect 1 "$RBLKCTL" set --socket "$socket" volume disk limit=10
err_has 'limit: "10" is not one of none, auto'
ctl set volume disk limit=
out_has 'in force'
wait_for "no window" disk '.opens == 1 and .window == null'
curl -sS --max-time 60 "$url/metrics" > metrics
if grep -q '^rblk_volume_window_seconds{' metrics; then fail "times without a window"; fi
ctl set volume disk limit=auto
wait_for "the window again" disk '.window.commands >= 2'
kill $load || fail "the load has ended: $(cat copy.log)"
wait $load 2> /dev/null || true
target_stop

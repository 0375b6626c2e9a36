#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# No write of a lost gateway lands, however late its machine delivers it. Method: gateway A is in a network namespace of its own, whose
# link to the cluster is cut before a job writes, so that A has 16 writes under way, one to each object of an image, and the job is killed. Gateway B finds A silent, when it is started or when a
# session opens the volume there, and newer data is written through it. Then the link comes back, and A's kernel sends what it still has. The control: the same with the calls
# that shut A out taken from B must find A's older data, or this experiment shows nothing.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

engine=(--ioengine="external:$RBLK_FIO_ENGINE")
objects=16
within=
unshare -n sleep 3600 &
space=$!
first=
trap '[ -z "$first" ] || kill -KILL $first 2> /dev/null || true; target_stop; kill $space; ceph_stop; rm -rf "$scratch"' EXIT
apart() { [ "$(readlink /proc/$space/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
wait_for "a namespace" apart
at_a() { nsenter -t $space -n "$@"; }
ip link add to-a type veth peer name to-ceph netns $space
ip addr add 10.93.0.1/24 dev to-a
ip link set to-a up
at_a ip addr add 10.93.0.2/24 dev to-ceph
at_a ip link set to-ceph up
at_a ip link set lo up
ceph_start 1 10.93.0.1

# write_at URI BYTE [OPTION...]: 4 KiB of it in each object, all at once; in the background, it is fio's only process: one that is left
# would go on at A.
write_at() {
	exec $within fio "${engine[@]}" --rblk_uri="$1" --name=write --thread --rw=write:4092k --bs=4k --iodepth=$objects --size=$((objects * 4))m \
		--buffer_pattern="$2" "${@:3}"
}
# found BYTE: how many objects begin with it.
found() {
	rm -f "$scratch/image"
	rbd export --no-progress "$image" "$scratch/image"
	local count=0 i
	for ((i = 0; i < objects; i++)); do
		[ "$(od -An -tx1 -j $((i * 4194304)) -N 1 "$scratch/image" | tr -d ' ')" != "$1" ] || count=$((count + 1))
	done
	echo $count
}

# experiment GATEWAYS [LIBRARY]: how many objects have the older data in the end ($stale); B runs with that loaded before it.
experiment() {
	local image=$1${2:+-unfenced} first_target writer
	rbd create --size $((objects * 4))M --image-feature layering "$image"
	volume_is "path = rbd/$image" 'lock_wait = 1min' "gateways = $1"
	: > "$scratch/a.log"
	nsenter -t $space -n "$RBLKD" --listen rblk+tcp://127.0.0.1:4431 --state-dir "$scratch/a.state" --reservations-dir "$scratch/a.identities" \
		--control-socket none --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2> "$scratch/a.log" &
	first=$!
	wait_for "gateway A" grep -q 'ready: ' "$scratch/a.log"
	first_target=rblk+tcp://127.0.0.1:4431/data
	within="nsenter -t $space -n" write_at $first_target 0xaa --time_based --runtime=600 > "$scratch/a.out" 2>&1 < /dev/null &
	writer=$!
	written() { [ "$(found aa)" = $objects ]; }
	wait_for "a first write through A" written
	# All of them begin behind the cut: the writer stands still until A has done those of before.
	outstanding() { kill -USR1 $first; grep -o '[0-9]* commands\? outstanding' "$scratch/a.log" | tail -n 1; }
	done_at_a() { [[ $(outstanding) == "0 "* ]]; }
	begun() { [[ $(outstanding) == "$objects "* ]]; }
	kill -STOP $writer
	wait_for "the end of writes at A" done_at_a
	ip link set to-a down
	kill -CONT $writer
	# They are with A, and so with its kernel: librbd sends at once.
	wait_for "$objects writes at A" begun
	sent() { [ "$(at_a ss -tnH state established '( dport >= 6800 )' | awk '$2 >= 4096 {n++} END {print n + 0}')" -gt 0 ]; }
	wait_for "the writes in A's socket" sent
	kill -KILL $writer
	LD_PRELOAD=${2:-} rbd_start
	(write_at "$target/data" 0xbb --number_ios=$objects --output-format=json) > "$scratch/out" 2> "$scratch/err" < /dev/null || fail "a write through B"
	log_has 'is silent: shut out of the cluster'
	[ "$(found bb)" = $objects ] || fail "B's data is not there"
	ip link set to-a up
	# Until A's kernel has nothing left to send once the cluster has taken it, or has refused it.
	delivered() { [ "$(at_a ss -tnH '( dport >= 6800 )' | awk '{n += $3} END {print n + 0}')" = 0 ]; }
	wait_for "A's data at the cluster" delivered
	wait $writer || true
	target_stop
	stale=$(found aa)
	kill -KILL $first
	wait $first 2> /dev/null || true
	first=
	echo "$image: $stale of $objects objects have the older data"
}

for gateways in one several; do
	experiment $gateways "$WITHOUT_FENCE"
	[ "$stale" -gt 0 ] || fail "the control: without the fence nothing stale was written"
	experiment $gateways
	[ "$stale" = 0 ] || fail "$stale of $objects objects have the older data"
done

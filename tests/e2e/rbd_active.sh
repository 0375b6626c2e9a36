#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two gateways serve an image at once. Jobs at both see a pause, and no error, when one is killed, is stopped and continued, or
# both are started anew one after the other, when the image grows, and when one sends its sessions away; what they read is what they wrote. A session that leaves
# a living gateway finds nothing of its own under way there when it goes on at the other one. Method: two daemons, two jobs of
# fio that know both, and faults in turn; then a write that the first gateway holds for seconds, while its session is sent
# away. The control: with a second gateway that asks nobody that write must land behind newer data.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

engine="external:$RBLK_FIO_ENGINE"
ceph_start
# Without the lock of images, which one gateway at a time would have, and the other one wait for.
rbd create --size 64M --image-feature layering data

declare -A gateway
trap 'for pid in "${gateway[@]}"; do kill -KILL $pid 2> /dev/null || true; done; ceph_stop; rm -rf "$scratch"' EXIT
# gateway_start [ADDRESS:]PORT [ENVIRONMENT]...: it listens, and serves the volume.
gateway_start() {
	local address=$1
	[[ $1 == *:* ]] || address=127.0.0.1:$1
	: > "$scratch/log.$1"
	env "${@:2}" "$RBLKD" --listen rblk+tcp://"$address" --state-dir "$scratch/state.$1" --reservations-dir "$scratch/identities.$1" \
		--control-socket "$scratch/control.$1" --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2>> "$scratch/log.$1" &
	gateway[$1]=$!
	wait_for "gateway $1" grep -q 'ready: serving 1 volume' "$scratch/log.$1"
}
shut_out() { ceph osd blocklist ls 2> /dev/null | wc -l; }

volume_is 'path = rbd/data' 'gateways = several'
gateway_start 4431
gateway_start 4432
for port in 4431 4432; do
	"$RBLK" info --json rblk+tcp://127.0.0.1:$port/data | jq -c .uuid
done | sort -u > "$scratch/uuids"
[ "$(wc -l < "$scratch/uuids")" = 1 ] || fail "two gateways serve two volumes: $(cat "$scratch/uuids")"

# job PORT SEPARATOR OTHER OFFSET: writes and verifies its part of the image, round by round, until there is the file `end`.
job() {
	local n=0
	while [ ! -e "$scratch/end" ]; do
		fio --ioengine="$engine" --rblk_uri="rblk+tcp://127.0.0.1:$1${2}127.0.0.1:$3/data" --name="at-$1" --rw=randwrite --bs=4k --iodepth=8 \
			--offset="$4" --size=4m --io_size=4m --verify=crc32c --rate_iops=1000,500 --rblk_give_up=5min --rblk_fail_fast=300 \
			--aux-path="$scratch" --output-format=json --output="$scratch/round.$1" < /dev/null 2> "$scratch/err.$1" || return 1
		jq -e '.jobs[0].error == 0 and .jobs[0].read.io_bytes > 0' "$scratch/round.$1" > /dev/null || return 1
		jq '.jobs[0].write.clat_ns.max / 1e6 | floor' "$scratch/round.$1" >> "$scratch/pauses.$1"
		n=$((n + 1))
		echo $n > "$scratch/new.$1"
		mv "$scratch/new.$1" "$scratch/rounds.$1"
	done
}
# after FAULT: both jobs have ended a round that was begun after it; their longest pause is printed.
after() {
	local port before
	for port in 4431 4432; do
		before=$(cat "$scratch/rounds.$port")
		goes_on() { kill -0 ${job[$port]} 2> /dev/null || fail "$1: a job has ended: $(cat "$scratch/err.$port" "$scratch/round.$port")"; [ "$(cat "$scratch/rounds.$port")" -ge $((before + 2)) ]; }
		wait_for "the job at $port after: $1" goes_on "$1"
	done
	echo "$1: longest pauses $(sort -n "$scratch/pauses.4431" | tail -n 1) and $(sort -n "$scratch/pauses.4432" | tail -n 1) ms"
	: > "$scratch/pauses.4431"
	: > "$scratch/pauses.4432"
}
declare -A job
echo 0 | tee "$scratch/rounds.4431" > "$scratch/rounds.4432"
job 4431 ';' 4432 0 &
job[4431]=$!
job 4432 , 4431 32m &
job[4432]=$!
after "none"
before=$(shut_out)

# Started anew, one after the other: nobody is shut out. Neither is anyone while the image grows.
for port in 4431 4432; do
	kill -TERM "${gateway[$port]}"
	gateway_ended $port 0
	gateway_start $port
done
after "started anew"
rbd resize --no-progress --size 80M data
after "resized"

# Sent away: a session goes on at the other one, which asks this one to end what it has of it. The volume is still served here.
moved() { "$RBLKCTL" move --socket "$scratch/control.4431" data > "$scratch/out"; grep -q 'its initiator has gone to another gateway' "$scratch/log.4431"; }
wait_for "a session that is sent away" moved
out_has 'for another target, 0 stay'
after "sent away"
[ "$(shut_out)" = "$before" ] || fail "shut out in spite of good ends"

# Killed; and started again, which fences its predecessor if no other one has.
kill -KILL "${gateway[4431]}"
gateway_ended 4431 137
after "killed"
told 4432 'is silent: shut out of the cluster' || fail "the first gateway was not shut out"
gateway_start 4431
after "started again"

# Stopped, and continued when its sessions are at the other one: it comes back as another client, and answers no command with an error.
kill -STOP "${gateway[4432]}"
after "stopped"
: > "$scratch/log.4432"
kill -CONT "${gateway[4432]}"
wait_for "the image at the second gateway again" told 4432 'volume data: served again'
told 4432 'this process was shut out of the cluster' || fail "nobody says why"
kill -0 "${gateway[4432]}" || fail "the second gateway has ended"
after "continued"
: > "$scratch/end"
wait ${job[4431]} && wait ${job[4432]} || fail "a job"
unset job
for port in 4431 4432; do
	kill -TERM "${gateway[$port]}"
	gateway_ended $port 0
done

# moves IMAGE TIME [ENVIRONMENT]...: a write of a session is held for that time by the first gateway, whose address then leads nowhere. The
# session goes on at the second one, which has that environment, and writes something newer there; $stale: the older data comes last.
moves() {
	local image=$1 writer
	rbd create --size 4M --image-feature layering "$image"
	ip addr add 10.93.1.1/32 dev lo
	target_lines=('keepalive = 1s' 'drain_time = 2min')
	volume_is "path = rbd/$image" 'gateways = several' "fault = delay=write:$2"
	gateway_start 10.93.1.1:4431
	volume_is "path = rbd/$image" 'gateways = several'
	gateway_start 4432 "${@:3}"
	fio --ioengine="$engine" --rblk_uri=rblk+tcp://10.93.1.1:4431,127.0.0.1:4432/data --rblk_queues=1 --name=moves --rw=write --bs=4k \
		--size=4k --io_size=8k --refill_buffers --rblk_give_up=5min --output="$scratch/fio.out" < /dev/null > "$scratch/err" 2>&1 &
	writer=$!
	holds() { kill -USR1 "${gateway[10.93.1.1:4431]}"; [[ $(tail -n 1 "$scratch/log.10.93.1.1:4431") == *" 1 command outstanding"*", open: data" ]]; }
	# An OPEN may be outstanding, too, but not for a second.
	held() { holds && sleep 1 && wait_for "the same" holds; }
	wait_for "the write at the first gateway" held
	ip addr del 10.93.1.1/32 dev lo
	wait $writer || fail "the job that moves: $(cat "$scratch/err" "$scratch/fio.out")"
	told 4432 ': initiator ' || fail "it did not move"
	rm -f "$scratch/newer" "$scratch/last"
	rbd export --no-progress "$image" "$scratch/newer"
	# The first gateway ends when its write has.
	kill -TERM "${gateway[10.93.1.1:4431]}"
	gateway_ended 10.93.1.1:4431 0
	rbd export --no-progress "$image" "$scratch/last"
	kill -TERM "${gateway[4432]}"
	gateway_ended 4432 0
	stale=yes
	! cmp -s "$scratch/newer" "$scratch/last" || stale=no
	echo "$image: stale: $stale"
}
moves control 60s LD_PRELOAD="$WITHOUT_FENCE" RBD_UNASKED=1
[ $stale = yes ] || fail "the control: without asking, nothing stale was written"
moves fenced 15s
[ $stale = no ] || fail "an older write of the session landed behind a newer one"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A gateway that was shut out of the cluster, or has lost its lock by hand, heals itself: its process goes on, its sessions open
# the image again and see a pause and no error, and what they read is what they wrote; a volume of another kind, of the same process,
# keeps its session. While it may not heal it says why, and tries again. Method: one daemon with an image and a file, a job at each;
# its client is put on the blocklist by hand, by its address, with and without the right to shut out its predecessor; then its lock is
# broken. Also what becomes of a notify and an unlock that fail, and of a crowd of dead gateways.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

engine="external:$RBLK_FIO_ENGINE"
control=$scratch/control
ceph_start
# One with the lock of images, which the former client has when it is shut out.
rbd create --size 64M one
rbd create --size 64M --image-feature layering several
truncate -s 64M "$scratch/file"

# daemon_start GATEWAYS [ENVIRONMENT]...
daemon_start() {
	object=rblk.$(rbd info --format json "$1" | jq -r .id)
	volume_is "path = rbd/$1" "gateways = $1" '[volume local]' 'store = uring' "path = $scratch/file" 'cache = buffered'
	: > "$scratch/target.log"
	env "${@:2}" "$RBLKD" --listen rblk+tcp://127.0.0.1:4431 --state-dir "$scratch/state" --reservations-dir "$scratch/identities" \
		--control-socket "$control" --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2> "$scratch/target.log" &
	target_pid=$!
	wait_for "the daemon" grep -q 'ready: serving 2 volumes' "$scratch/target.log"
	target=rblk+tcp://127.0.0.1:4431
}
ctl() { "$RBLKCTL" "$1" --socket "$control" --json "${@:2}"; }
# lock FIELD: what the image's only lock says.
lock() { rados -p rbd lock info "$object" rblk | jq -r ".lockers | if length == 1 then .[0].$1 else empty end"; }
healed() { [ "$(log_count 'volume data: served again')" = "$1" ]; }

# job VOLUME: writes and verifies it, round by round, until there is the file `end`.
job() {
	local n=0
	while [ ! -e "$scratch/end" ]; do
		fio --ioengine="$engine" --rblk_uri="$target/$1" --name="$1" --rw=randwrite --bs=4k --iodepth=8 --size=2m --io_size=2m \
			--verify=crc32c --rate_iops=2000,1000 --rblk_give_up=5min --rblk_fail_fast=300 --aux-path="$scratch" --output-format=json \
			--output="$scratch/round.$1" < /dev/null 2> "$scratch/err.$1" || return 1
		jq -e '.jobs[0].error == 0 and .jobs[0].read.io_bytes > 0' "$scratch/round.$1" > /dev/null || return 1
		jq '.jobs[0].write.clat_ns.max / 1e6 | floor' "$scratch/round.$1" >> "$scratch/pauses"
		n=$((n + 1))
		echo $n > "$scratch/rounds.new"
		mv "$scratch/rounds.new" "$scratch/rounds"
	done
}
# after FAULT: the job has ended a round that was begun after it.
after() {
	local before
	before=$(cat "$scratch/rounds")
	goes_on() {
		kill -0 $job 2> /dev/null || fail "$1: the job has ended: $(cat "$scratch/err.data" "$scratch/round.data")"
		[ "$(cat "$scratch/rounds")" -ge $((before + 2)) ]
	}
	wait_for "the job after: $1" goes_on "$1"
	kill -0 "$target_pid" || fail "$1: the daemon has ended"
	echo "$1: longest pause $(sort -n "$scratch/pauses" | tail -n 1) ms"
	: > "$scratch/pauses"
}
# The session of the file's job: one all along, with one connection to each queue. fio asked for the size before, in a session of
# its own, with three commands.
local_session() { ctl sessions | jq -c '.sessions[] | select(.volumes == ["local"] and .commands > 8) | [.session, .peer, .connections, .ending]'; }

for gateways in one several; do
	rm -f "$scratch/end"
	daemon_start $gateways
	pid=$target_pid
	fio --ioengine="$engine" --rblk_uri="$target/local" --name=local --rw=randrw --bs=4k --iodepth=4 --size=32m --rate_iops=200,200 \
		--time_based --runtime=1h --output="$scratch/fio.local" < /dev/null > "$scratch/err.local" 2>&1 &
	local_job=$!
	seen() { session=$(local_session); [ -n "$session" ]; }
	wait_for "the file's session" seen
	echo 0 > "$scratch/rounds"
	job data &
	job=$!
	after "none"

	# By hand.
	first=$(lock addr)
	ceph osd blocklist add "$first" 2> /dev/null
	wait_for "the image served again" healed 1
	after "blocklisted, gateways = $gateways"
	log_has 'this process was shut out of the cluster'
	log_has 'is a former client of this process: shut out of the cluster for 30 days'
	second=$(lock addr)
	[ -n "$second" ] && [ "$second" != "$first" ] || fail "the lock: $second after $first"

	# Without the right to shut the former client out it stays as it is, and says why.
	ceph auth caps client.rblkd mon 'allow r' osd 'profile rbd pool=rbd' 2> /dev/null
	ceph osd blocklist add "$second" 2> /dev/null
	refused() { ctl volumes | jq -e '.missing[] | select(.volume == "data" and (.reason | contains("cannot be shut out of the cluster")))' > /dev/null; }
	wait_for "the reason" refused
	log_has "(rblkd's user needs mon 'profile rbd')"
	ceph auth caps client.rblkd mon 'profile rbd' osd 'profile rbd pool=rbd' 2> /dev/null
	wait_for "the image served again, with the right" healed 2
	after "blocklisted without rights"

	# A session that comes finds that others would not ask this gateway any more. One that is alone asks nobody.
	if [ $gateways = several ]; then
		third=$(lock addr)
		rados -p rbd lock break "$object" rblk "$(lock name)" --lock-cookie "$(lock cookie)"
		wait_for "the image served again, behind a broken lock" healed 3
		log_has 'its lock was broken by hand'
		log_has 'has lost its lock: shut out of the cluster for 30 days'
		grep -qF "$third" <<< "$(ceph osd blocklist ls 2> /dev/null)" || fail "the client without a lock is not shut out: $third"
		after "lock broken"
	fi

	[ "$target_pid" = $pid ] && kill -0 $pid || fail "another process"
	[ "$(local_session)" = "$session" ] || fail "the file's session: $(local_session), was $session"
	kill -0 $local_job || fail "the file's job: $(cat "$scratch/err.local")"
	kill -INT $local_job
	wait $local_job || true # told to end
	grep -q 'err= 0' "$scratch/fio.local" || fail "the file's job: $(cat "$scratch/err.local" "$scratch/fio.local")"
	: > "$scratch/end"
	wait $job || fail "a job"
	target_stop
	log_has 'stopped'
	[ "$(rados -p rbd lock info "$object" rblk | jq '.lockers | length')" = 0 ] || fail "a lock stays"
done

# An unlock that fails is tried again.
daemon_start one LD_PRELOAD="$FAILING" RBD_FAIL_UNLOCK=3
target_stop
log_has 'rbd: rbd/one: the lock of this gateway stays: Input/output error; trying again'
log_has 'stopped'
[ "$(rados -p rbd lock info "$object" rblk | jq '.lockers | length')" = 0 ] || fail "a lock stays"

object=rblk.$(rbd info --format json several | jq -r .id)
# Many that have died: who comes then looks for them. One that cannot be asked for whether it lives keeps sessions waiting.
for ((i = 0; i < 9; i++)); do
	rados -p rbd lock get "$object" rblk --lock-type shared --lock-tag 'rblk gateways 1' --lock-cookie "dead.$i@nowhere" \
		--lock-description rblkd
done
daemon_start several LD_PRELOAD="$FAILING" RBD_FAIL_UNLOCK=1000
[ "$(log_count 'is silent: shut out of the cluster')" = 9 ] || fail "not all of the dead are shut out"
[ -n "$(lock addr)" ] || fail "the dead have locks"
target_stop
log_has 'rbd: rbd/several: the lock of this gateway stays: Input/output error: the next one to serve the image shuts it out'
daemon_start several LD_PRELOAD="$FAILING" RBD_FAIL_NOTIFY=2
expect 0 fio --ioengine="$engine" --rblk_uri="$target/data" --name=asks --rw=write --bs=4k --size=64k --output-format=json
log_has 'rbd: rbd/several: sessions cannot open it for writing: its other gateways cannot be asked: Input/output error'
log_has 'is silent: shut out of the cluster'
target_stop

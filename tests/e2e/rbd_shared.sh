#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What several gateways of an image share: COMPARE_AND_WRITE is one step among all of them, and what is reserved at one is so at
# all; no write of a preempted initiator lands after PREEMPT was answered, whichever gateway has it. Method: two daemons, and a
# counter in the image that jobs at both count up, each step by a comparison that succeeds; registrants at both, gateways that are
# stopped, killed and slow; an NVMe host with a path to each. The controls: with a gateway that asks nobody, those writes must come late.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

ceph_start
rbd create --size 16M --image-feature layering data
declare -A gateway
trap 'for pid in "${gateway[@]}"; do kill -KILL $pid 2> /dev/null || true; done; ceph_stop; rm -rf "$scratch"' EXIT
# gateway_start PORT [ENVIRONMENT]...: it listens, and serves the volume.
gateway_start() {
	: > "$scratch/log.$1"
	env "${@:2}" "$RBLKD" --listen rblk+tcp://127.0.0.1:"$1" --listen nvme+tcp://127.0.0.1:$(($1 - 10)) --state-dir "$scratch/state.$1" --reservations-dir "$scratch/identities.$1" \
		--control-socket "$scratch/control.$1" --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2> "$scratch/log.$1" &
	gateway[$1]=$!
	wait_for "gateway $1" grep -q 'ready: serving 1 volume' "$scratch/log.$1"
}
at() { echo "rblk+tcp://127.0.0.1:$1/data"; }

volume_is 'path = rbd/data' 'gateways = several'
gateway_start 4431
gateway_start 4432

# -- COMPARE_AND_WRITE ---------------------------------------------------------------------------

expect 0 "$COMPARE" "$(at 4431)"
counters=()
for port in 4431 4432 4431 4432; do
	"$COMPARE" "$(at $port)" 200 > "$scratch/conflicts.${#counters[@]}" 2>&1 < /dev/null &
	counters+=($!)
done
for pid in "${counters[@]}"; do
	wait $pid || fail "counting up: $(cat "$scratch"/conflicts.*)"
done
rbd export --no-progress data "$scratch/image"
[ "$(od -An -t u8 -j $((4194304 + 5 * 512)) -N 8 "$scratch/image" | tr -d ' ')" = 800 ] || fail "steps were lost between two gateways"
[ "$(cat "$scratch"/conflicts.* | awk '{n += $1} END {print (n > 0)}')" = 1 ] || fail "they never met: nothing was shown"

# -- reservations --------------------------------------------------------------------------------

# reserve PORT ACTION OPTION...: at that gateway.
reserve() { "$RBLK" reserve --json "${@:3}" "$(at "$1")" "$2" > "$scratch/out" 2> "$scratch/err" < /dev/null; }
# holds PORT TYPE NAME...: this is reported there, and those are registered.
holds() {
	local names=
	reserve "$1" show || fail "a report of gateway $1: $(cat "$scratch/err")"
	[ $# = 2 ] || names=$(printf '"%s",' "${@:3}")
	json_is ".reservation_type == \"$2\" and ([.registrants[].initiator] | sort) == [${names%,}] and .persists == (.registrants != [])"
}
head -c 64K /dev/urandom > "$scratch/data"

# What is done at one is in force at the other before it is answered.
reserve 4431 register --name a --new-key 1 || fail "register: $(cat "$scratch/err")"
reserve 4432 register --name b --new-key 2 || fail "register: $(cat "$scratch/err")"
holds 4431 none a b
reserve 4431 acquire --name a --own-key 1 --type write-exclusive || fail "acquire: $(cat "$scratch/err")"
expect 1 "$RBLK" copy --name b "$scratch/data" "$(at 4432)"
expect 0 "$RBLK" copy --name a "$scratch/data" "$(at 4432)"
holds 4432 write-exclusive a b
! reserve 4432 acquire --name b --own-key 2 --type write-exclusive || fail "two holders"

# Each gateway changes it while the other one does: nothing is lost.
registering=()
for n in $(seq 6); do
	"$RBLK" reserve --name "c$n" --new-key $((n + 10)) "$(at $((4431 + n % 2)))" register > "$scratch/register.$n" 2>&1 < /dev/null &
	registering+=($!)
done
for pid in "${registering[@]}"; do
	wait $pid || fail "registering: $(cat "$scratch"/register.*)"
done
holds 4431 write-exclusive a b c1 c2 c3 c4 c5 c6

# They outlive all gateways, also those that are killed.
kill -TERM "${gateway[4431]}"
gateway_ended 4431 0
kill -KILL "${gateway[4432]}"
gateway_ended 4432 137
gateway_start 4431
gateway_start 4432
holds 4432 write-exclusive a b c1 c2 c3 c4 c5 c6
expect 1 "$RBLK" copy --name b "$scratch/data" "$(at 4431)"
reserve 4432 clear --name a --own-key 1 || fail "clear: $(cat "$scratch/err")"
holds 4431 none

# A gateway that is stopped with a victim's session is shut out before PREEMPT is answered.
for name in a b; do
	reserve 4431 register --name $name --new-key 1 || fail "register: $(cat "$scratch/err")"
done
kill -STOP "${gateway[4432]}"
reserve 4431 preempt --name a --own-key 1 --other-key 1 --type write-exclusive || fail "preempt: $(cat "$scratch/err")"
told 4431 'is silent: shut out of the cluster' || fail "a silent gateway may go on"
kill -CONT "${gateway[4432]}"
wait_for "the silent gateway as another client" told 4432 'data: served again'
holds 4432 none a
reserve 4432 clear --name a --own-key 1 || fail "clear: $(cat "$scratch/err")"
for port in 4431 4432; do
	kill -TERM "${gateway[$port]}"
	gateway_ended $port 0
done

# One that is killed before it has told others of a change is started again: what it reports then is in force at all.
gateway_start 4431 LD_PRELOAD="$FAILING" RBD_DIE_TELLING="$scratch/dies"
gateway_start 4432
reserve 4431 register --name a --new-key 1 || fail "register: $(cat "$scratch/err")"
reserve 4432 register --name b --new-key 2 || fail "register: $(cat "$scratch/err")"
reserve 4431 acquire --name a --own-key 1 --type write-exclusive-registrants || fail "acquire: $(cat "$scratch/err")"
: > "$scratch/dies"
"$RBLK" reserve --name a --own-key 1 --other-key 2 --type write-exclusive-registrants "$(at 4431)" preempt > "$scratch/preempt" 2>&1 < /dev/null &
preempting=$!
gateway_ended 4431 137
kill $preempting 2> /dev/null || true
wait $preempting || true # it had no answer
rm "$scratch/dies"
gateway_start 4431
holds 4431 write-exclusive-registrants a
holds 4432 write-exclusive-registrants a
expect 1 "$RBLK" copy --name b "$scratch/data" "$(at 4432)"
reserve 4432 clear --name a --own-key 1 || fail "clear: $(cat "$scratch/err")"
for port in 4431 4432; do
	kill -TERM "${gateway[$port]}"
	gateway_ended $port 0
done

# preempts IMAGE TIME [ENVIRONMENT]...: a write of a victim is held for that time by the second gateway; it is preempted at the first
# one, which has that environment. $late: its write lands after that was answered.
preempts() {
	local image=$1 writer
	rbd create --size 4M --image-feature layering "$image"
	volume_is "path = rbd/$image" 'gateways = several'
	gateway_start 4431 "${@:3}"
	volume_is "path = rbd/$image" 'gateways = several' "fault = delay=write:$2"
	gateway_start 4432
	for name in a b; do
		reserve 4431 register --name $name --new-key 1 || fail "register: $(cat "$scratch/err")"
	done
	reserve 4431 acquire --name a --own-key 1 --type write-exclusive-registrants || fail "acquire: $(cat "$scratch/err")"
	# As many as nothing else is that it sends.
	fio --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri="$(at 4432)" --rblk_name=b --rblk_queues=1 --name=victim --rw=write --bs=4k \
		--iodepth=4 --size=16k --output="$scratch/fio.out" > "$scratch/fio.err" 2>&1 < /dev/null &
	writer=$!
	holds_writes() { kill -USR1 "${gateway[4432]}"; [[ $(tail -n 1 "$scratch/log.4432") == *' 4 commands outstanding'* ]]; }
	wait_for "the victim's writes" holds_writes
	reserve 4431 preempt --name a --own-key 1 --other-key 1 --type write-exclusive-registrants || fail "preempt: $(cat "$scratch/err")"
	rm -f "$scratch/newer" "$scratch/last"
	rbd export --no-progress "$image" "$scratch/newer"
	wait $writer || true
	for port in 4431 4432; do
		kill -TERM "${gateway[$port]}"
		gateway_ended $port 0
	done
	rbd export --no-progress "$image" "$scratch/last"
	late=yes
	! cmp -s "$scratch/newer" "$scratch/last" || late=no
	! cmp -s -n 512 "$scratch/last" /dev/zero || fail "the victim has written nothing: nothing was shown"
	echo "$image: late: $late"
}
preempts control 30s LD_PRELOAD="$WITHOUT_FENCE" RBD_UNASKED=1
[ $late = yes ] || fail "the control: without asking, no write of the victim came late"
preempts asked 8s
[ $late = no ] || fail "a write of a preempted initiator landed after PREEMPT was answered"

# -- NVMe hosts ----------------------------------------------------------------------------------

# moves IMAGE TIME [ENVIRONMENT]...: a host gives the first gateway up, which holds its write for that time, and writes something newer at
# the second one, which has that environment. $stale: the older data comes last.
moves() {
	local image=$1 unasked=
	rbd create --size 4M --image-feature layering "$image"
	volume_is "path = rbd/$image" 'gateways = several' "fault = delay=write:$2"
	gateway_start 4431
	volume_is "path = rbd/$image" 'gateways = several'
	gateway_start 4432 "${@:3}"
	[ $# = 2 ] || unasked=unasked
	# shellcheck disable=SC2086 # nothing, or a word
	expect 0 "$NVME_HOST" 127.0.0.1:4421 127.0.0.1:4422 $unasked
	for port in 4432 4431; do
		kill -TERM "${gateway[$port]}"
		gateway_ended $port 0
	done
	rm -f "$scratch/last"
	rbd export --no-progress "$image" "$scratch/last"
	stale=$(od -An -tx1 -N 1 "$scratch/last" | tr -d ' ')
	echo "$image: in the end it is $stale"
}
moves nvme-control 20s LD_PRELOAD="$WITHOUT_FENCE" RBD_UNASKED=1
[ "$stale" = aa ] || fail "the control: without asking, no older write of the host came last"
moves nvme 6s
[ "$stale" = bb ] || fail "an older write of an NVMe host landed behind a newer one"

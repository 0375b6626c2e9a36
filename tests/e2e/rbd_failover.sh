#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A job that knows two gateways of an image, which serve it one after the other, goes on when one is killed, is stopped and
# continued, gives the image away, or ends in good order: it sees a pause, and no error; what it reads is what it wrote. Method:
# two daemons with the same volume, of which one serves it and the other waits; faults in turn, while fio writes and then verifies.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

ceph_start
rbd create --size 64M data
volume_is 'path = rbd/data' 'lock_wait = 1s' 'gateways = one'
sed -i 's/^require_all = yes/require_all = no/' "$scratch/rblkd.conf"

declare -A gateway
trap 'for pid in "${gateway[@]}"; do kill -KILL $pid 2> /dev/null || true; done; ceph_stop; rm -rf "$scratch"' EXIT
# gateway_start PORT: it listens; whether it serves the volume is seen later.
gateway_start() {
	: > "$scratch/log.$1"
	"$RBLKD" --listen rblk+tcp://127.0.0.1:"$1" --state-dir "$scratch/state.$1" --reservations-dir "$scratch/identities.$1" \
		--control-socket "$scratch/control.$1" --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2>> "$scratch/log.$1" &
	gateway[$1]=$!
	wait_for "gateway $1" grep -q 'ready: ' "$scratch/log.$1"
}
serves() { grep -qE 'ready: serving 1 volume|volume data: served again' "$scratch/log.$1"; }

gateway_start 4431
serves 4431 || fail "the first gateway does not serve it"
gateway_start 4432
serves 4432 && fail "two gateways serve it"
# Whichever comes first in the address.
expect 0 fio --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri=rblk+tcp://127.0.0.1:4432,127.0.0.1:4431/data --name=first --rw=read --bs=4k \
	--size=64k --output-format=json

fio --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri="rblk+tcp://127.0.0.1:4431;127.0.0.1:4432/data" --name=goes-on --rw=randwrite \
	--bs=4k --iodepth=8 --size=16m --io_size=64m --verify=crc32c --rate_iops=250 --rblk_give_up=5min --rblk_fail_fast=300 \
	--aux-path="$scratch" --output-format=json > "$scratch/out" 2> "$scratch/err" < /dev/null &
fio=$!
goes_on() { kill -0 $fio 2> /dev/null || fail "fio has ended: $(cat "$scratch/err")"; told "$1" ': initiator '; }
# is_at PORT: its session has the volume open there.
is_at() { "$RBLKCTL" sessions --json --socket "$scratch/control.$1" | jq -e 'any(.sessions[]; .connections > 0 and .volumes == ["data"])' > /dev/null; }
# Before that it may still open the volume, and ends when it cannot.
writes() { kill -0 $fio 2> /dev/null || fail "fio has ended: $(cat "$scratch/err")"; [[ $(rados -p rbd ls) == *rbd_data* ]]; }
wait_for "fio at the first gateway" writes

# Killed.
kill -KILL "${gateway[4431]}"
gateway_ended 4431 137
wait_for "the second gateway" serves 4432
told 4432 'is silent: shut out of the cluster' || fail "the first gateway was not shut out"
wait_for "fio at the second gateway" goes_on 4432

# Stopped, and continued when another one serves the image: it comes back as another client, and waits for it; no command is
# answered with an error.
gateway_start 4431
kill -STOP "${gateway[4432]}"
wait_for "the first gateway again" serves 4431
wait_for "fio at the first gateway again" goes_on 4431
: > "$scratch/log.4432"
kill -CONT "${gateway[4432]}"
wait_for "the second gateway again, which waits" told 4432 'in use by gateway'
told 4432 'this process was shut out of the cluster' || fail "nobody says why"
kill -0 "${gateway[4432]}" || fail "the second gateway has ended"

# Neither notices before both have stood still: the job asks the gateway where it was first, which knows that another one has the image.
kill -STOP $fio "${gateway[4431]}"
: > "$scratch/log.4432"
wait_for "the second gateway again" serves 4432
: > "$scratch/log.4431"
kill -CONT "${gateway[4431]}"
wait_for "the first gateway again, which waits" told 4431 'in use by gateway'
kill -CONT $fio
wait_for "fio at the second gateway again" is_at 4432

# Given to the other one, and back: nobody is shut out.
shut_out=$(ceph osd blocklist ls 2> /dev/null | wc -l)
for from in 4432 4431; do
	to=$((8863 - from))
	: > "$scratch/log.$to"
	expect 0 "$RBLKCTL" move --socket "$scratch/control.$from" data
	out_has '1 session has left for another target, 0 stay; not served here any more'
	wait_for "gateway $to" serves $to
	wait_for "fio at gateway $to" is_at $to
done
goes_on 4432
: > "$scratch/log.4431"

# In good order: likewise.
kill -TERM "${gateway[4432]}"
gateway_ended 4432 0
wait_for "the first gateway again" serves 4431
wait_for "fio at the first gateway again" goes_on 4431
[ "$(ceph osd blocklist ls 2> /dev/null | wc -l)" = "$shut_out" ] || fail "shut out in spite of a good end"
wait $fio || fail "the job: $(cat "$scratch/err")"
json_is '.jobs[0].error == 0 and .jobs[0].read.io_bytes > 0'
echo "longest pause: $(jq '.jobs[0].write.clat_ns.max / 1e6 | floor' "$scratch/out") ms"

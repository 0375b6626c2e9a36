#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# While the pool is full, writes wait for room, and nothing else does: when a gateway is lost, another one lets the sessions in. Method:
# two gateways of an image in a cluster that is told to take itself for full; one of them is killed.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

ceph_start
rbd create --size 16M --image-feature layering data
rbd bench --io-type write --io-size 1M --io-total 16M --io-pattern seq data > /dev/null
declare -A gateway
trap 'for pid in "${gateway[@]}"; do kill -KILL $pid 2> /dev/null || true; done; ceph_stop; rm -rf "$scratch"' EXIT
volume_is 'path = rbd/data' 'gateways = several'
for port in 4431 4432; do
	: > "$scratch/log.$port"
	"$RBLKD" --listen rblk+tcp://127.0.0.1:$port --state-dir "$scratch/state.$port" --reservations-dir "$scratch/identities.$port" \
		--control-socket none --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2> "$scratch/log.$port" &
	gateway[$port]=$!
	wait_for "gateway $port" told $port 'ready: serving 1 volume'
done
# full_at RATIO KINDS: sets these ratios, in an order that Ceph allows.
full_at() {
	local kind
	for kind in $2; do
		ceph osd set-"$kind"-ratio "$1" > /dev/null 2>&1 || fail "ceph osd set-$kind-ratio"
	done
}
is_full() { [[ $(ceph osd dump --format json 2> /dev/null | jq -r '.pools[0].flags_names') == *full* ]]; }
is_not_full() { ! is_full; }
job() { fio --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri=rblk+tcp://127.0.0.1:4432/data --name=job --rw=randrw --bs=4k --size=1m \
	--output-format=json "$@"; }

full_at 0.001 'nearfull backfillfull full'
wait_for "a full pool" is_full
kill -KILL "${gateway[4431]}"
gateway_ended 4431 137
# It opens the volume for writing.
job --rwmixread=100 --number_ios=8 > "$scratch/out" 2> "$scratch/err" < /dev/null || fail "a reader while the pool is full: status $?"
told 4432 'is silent: shut out of the cluster' || fail "the gateway that was killed may still write"
job --rwmixread=0 --number_ios=8 > "$scratch/out" 2> "$scratch/err" < /dev/null &
writer=$!
full_at 0.95 'full backfillfull nearfull'
wait_for "room" is_not_full
wait $writer || fail "the writes that waited for room"
json_is '.jobs[0].error == 0 and .jobs[0].write.total_ios == 8'
kill -TERM "${gateway[4432]}"
gateway_ended 4432 0

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a gateway whose writes the cluster holds answers the others, and is not shut out for a session that was never
# there; and no write fails for it. Method: an OSD of two is stopped for a while, with more writes of one gateway than librados
# has under way by itself, and longer than it is configured to wait, and meanwhile a session opens the image at another one.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

engine="external:$RBLK_FIO_ENGINE"
ceph_start 2
# at OBJECT: the number of the OSD that has it.
at() { ceph osd map rbd "$1" --format json 2> /dev/null | jq .acting_primary; }
image() { rbd info --format json data | jq -r ".$1"; }
# Each job's first object is at another OSD than the one by which the gateways ask each other: that one is stopped.
until rbd create --size 64M --image-feature layering data && asks=$(at "rblk.$(image id)") &&
	[ "$(at "$(image block_name_prefix).0000000000000000")" != "$asks" ] &&
	[ "$(at "$(image block_name_prefix).0000000000000008")" != "$asks" ]; do
	rbd rm --no-progress data
done
declare -A gateway
trap 'for pid in "${gateway[@]}"; do kill -KILL $pid 2> /dev/null || true; done; ceph_stop; rm -rf "$scratch"' EXIT
# gateway_start PORT [ENVIRONMENT]...: it listens, and serves the volume.
gateway_start() {
	env "${@:2}" "$RBLKD" --listen rblk+tcp://127.0.0.1:"$1" --state-dir "$scratch/state.$1" --control-socket "$scratch/control.$1" \
		--journal none --reactors 2 --pool-size 8M --config "$scratch/rblkd.conf" 2> "$scratch/log.$1" &
	gateway[$1]=$!
	wait_for "gateway $1" grep -q 'ready: serving 1 volume' "$scratch/log.$1"
}
# job PORT DEPTH OFFSET
job() {
	fio --ioengine="$engine" --rblk_uri=rblk+tcp://127.0.0.1:"$1"/data --name="at-$1" --rw=randwrite --bs=4k --iodepth="$2" --offset="$3" \
		--size=32m --io_size=4m --output="$scratch/fio.$1" < /dev/null > "$scratch/err.$1" 2>&1
}
# has PORT COUNT: so many commands are outstanding there; or it has been shut out.
has() {
	told 4432 'shut out' && fail "a busy gateway is shut out: $(tail -n 3 "$scratch/log.4432")"
	kill -USR1 "${gateway[$1]}" || fail "gateway $1: $(tail -n 5 "$scratch/log.$1")"
	grep -q "^rblkd: status: .* $2 commands outstanding" <(tail -n 2 "$scratch/log.$1") # a line of each reactor
}

volume_is 'path = rbd/data' 'gateways = several'
gateway_start 4431 CEPH_ARGS="--objecter_inflight_ops=8 --rados_osd_op_timeout=1"
gateway_start 4432
osd=${ceph_pids[2 - asks]} # the monitor's process is the first
kill -STOP "$osd"
job 4431 64 0 &
jobs=($!)
wait_for "writes at the first gateway" has 4431 64
job 4432 4 32m &
jobs+=($!)
wait_for "writes at the second gateway" has 4432 4
kill -CONT "$osd"
for pid in "${jobs[@]}"; do
	wait "$pid" || fail "a job: $(cat "$scratch"/err.*)"
done
for port in 4431 4432; do
	kill -TERM "${gateway[$port]}"
	gateway_ended "$port" 0
done

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a cluster that does not answer takes nothing from the other volumes of a daemon, also when that is started again meanwhile: their
# sessions come back to it. Method: one daemon with an image and a file, a job at the file; the cluster's daemons are stopped, and the
# daemon is killed and started again.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

engine="external:$RBLK_FIO_ENGINE"
ceph_start
rbd create --size 32M --image-feature layering data
truncate -s 32M "$scratch/file"
volume_is 'path = rbd/data' '[volume local]' 'store = uring' "path = $scratch/file" 'cache = buffered'
sed -i '/^require_all = yes/d' "$scratch/rblkd.conf"

# daemon_start VOLUMES: serves so many.
daemon_start() {
	target_listen=rblk+tcp://127.0.0.1:4431 target_start --config "$scratch/rblkd.conf"
	log_has "ready: serving $1 volume"
}
daemon_start 2
fio --ioengine="$engine" --rblk_uri="$target/local" --name=local --rw=randwrite --bs=4k --iodepth=4 --size=32m --rate_iops=500 --time_based \
	--runtime=1h --rblk_give_up=60s --minimal --status-interval=1 --output="$scratch/said" < /dev/null 2> "$scratch/err.local" &
job=$!
written_kib() { [ ! -e "$scratch/said" ] && echo 0 || awk -F';' 'NF > 47 { kib = $47 } END { print kib + 0 }' "$scratch/said"; }
# after WHAT: it has written more than it can have had under way, or not yet said, before.
after() {
	local before
	before=$(written_kib)
	goes_on() {
		kill -0 $job 2> /dev/null || fail "$1: the job has ended: $(tail -n 3 "$scratch/err.local" "$scratch/said")"
		[ "$(written_kib)" -ge $((before + 6000)) ]
	}
	wait_for "the job after: $1" goes_on "$1"
}
after "none"
kill -STOP "${ceph_pids[@]}"
kill -KILL "$target_pid"
wait "$target_pid" || true # killed
daemon_start 1
after "started again without the cluster"
kill -CONT "${ceph_pids[@]}"
log_has 'volume data: served again'
kill -INT $job
wait $job || true # told to end
target_stop

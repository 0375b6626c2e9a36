#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What is taken away under a gateway that serves it is noticed, and said of that volume: its reservation is damaged or deleted. It is
# served again when what it needs is there. Method: one daemon, a small cluster of its own.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

control=$scratch/control
ctl() { "$RBLKCTL" "$1" --socket "$control" --json "${@:2}"; }
# missing VOLUME TEXT: it is not served, and this is why.
missing() { ctl volumes | jq -e --arg name "$1" --arg text "$2" '.missing[] | select(.volume == $name and (.reason | contains($text)))' > /dev/null; }
ceph_start
rbd create --size 32M data
volume_is 'path = rbd/data'
target_start --config "$scratch/rblkd.conf" --control-socket "$control"
object=rblk.$(rbd info --format json data | jq -r .id)

# -- the reservation -----------------------------------------------------------------------------

# reserve KEY: registers.
reserve() {
	timeout 60 "$RBLK" reserve --json --name a --ignore-key --new-key "$1" "$target/data" register > "$scratch/out" 2> "$scratch/err" < /dev/null
}
served() { [ "$(log_count 'volume data: served again')" = "$1" ]; }
reserve 1 || fail "register: $(cat "$scratch/err")"
# Deleted while it is served: the change that finds this fails, the next one goes on from nothing.
rados -p rbd truncate "$object" 0
! reserve 2 || fail "a change of what is not there"
wait_for "the volume without reservations" served 1
log_has 'volume data: rbd/data: its reservation is damaged, or was deleted'
reserve 2 || fail "register, when it was deleted: $(cat "$scratch/err")"
# Damaged, whatever is left of it: the volume is not served until somebody deletes that.
n=1
for size in 8 800; do
	{ head -c 8 /dev/zero; head -c $size /dev/urandom; } > "$scratch/damaged"
	rados -p rbd put "$object" "$scratch/damaged"
	! reserve 3 || fail "a change of a damaged one"
	wait_for "the reason" missing data 'its reservation: it has no serial number'
	rados -p rbd truncate "$object" 0
	n=$((n + 1))
	wait_for "the volume without reservations" served $n
	reserve 3 || fail "register, when it was damaged: $(cat "$scratch/err")"
done
target_stop
log_has 'stopped'

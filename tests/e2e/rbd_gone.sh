#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What is taken away under a gateway that serves it is noticed, and said of that volume: an image's pool is deleted, an image is moved to the
# trash, its reservation is damaged or deleted. Volumes that have lost nothing are served on, by the same client of the cluster, and those
# that have are served again when what they need is there. Method: one daemon with an image for each, a small cluster of its own.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

control=$scratch/control
ctl() { "$RBLKCTL" "$1" --socket "$control" --json "${@:2}"; }
# missing VOLUME TEXT: it is not served, and this is why.
missing() { ctl volumes | jq -e --arg name "$1" --arg text "$2" '.missing[] | select(.volume == $name and (.reason | contains($text)))' > /dev/null; }
# problem VOLUME TEXT
problem() { (ctl status || true) | jq -e --arg name "$1" --arg text "$2" '.problems[] | select(.volume == $name and (.message | contains($text)))' > /dev/null; }
other_create() {
	ceph osd pool create other >> "$ceph/log" 2>&1 || ceph_failed "the other pool"
	rbd pool init other
	for image in writes reads; do
		rbd create --size 8M "other/$image"
		rbd bench --io-type write --io-size 1M --io-total 8M --io-pattern seq "other/$image" > "$scratch/out" 2>&1
	done
}
start() { target_start --config "$scratch/rblkd.conf" --control-socket "$control"; }
ceph_start
ceph config set mon mon_allow_pool_delete true
ceph auth caps client.rblkd mon 'profile rbd' osd 'profile rbd' 2> /dev/null
other_create
rbd create --size 32M data
volume_is 'path = rbd/data' '[volume writes]' 'store = rbd' 'path = other/writes' 'gateways = several' \
	'[volume reads]' 'store = rbd' 'path = other/reads' 'read_only = yes'
start
object=rblk.$(rbd info --format json data | jq -r .id)
head -c 1M /dev/urandom > "$scratch/disk"
expect 0 "$RBLK" copy "$scratch/disk" "$target/data"

# -- the reservation -----------------------------------------------------------------------------

# reserve KEY: registers.
reserve() {
	timeout 60 "$RBLK" reserve --json --name a --ignore-key --new-key "$1" "$target/data" register > "$scratch/out" 2> "$scratch/err" < /dev/null
}
reserve 1 || fail "register: $(cat "$scratch/err")"
# Deleted or damaged while it is served: no change is made before its gateways have ended, for others may have it in force.
for size in 0 8 800; do
	rados -p rbd truncate "$object" 0
	[ $size = 0 ] || { head -c 8 /dev/zero; head -c $size /dev/urandom; } > "$scratch/damaged"
	[ $size = 0 ] || rados -p rbd put "$object" "$scratch/damaged"
	for key in 2 3; do
		! reserve $key || fail "a change of what is not there"
		log_has 'volume data: its reservation stays as it is until all its gateways have ended: '
	done
	expect 0 "$RBLK" copy "$scratch/disk" "$target/data"
	target_stop
	if [ $size != 0 ]; then
		expect 1 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state" --config "$scratch/rblkd.conf"
		err_has 'volume data: its reservation: it has no serial number'
		rados -p rbd truncate "$object" 0
	fi
	start
	reserve 1 || fail "register, from nothing: $(cat "$scratch/err")"
done

# -- the trash -----------------------------------------------------------------------------------

# Ceph refuses only to delete it. It is served on, and this is said.
id=$(rbd info --format json data | jq -r .id)
rbd trash mv data
! rbd trash rm --no-progress "$id" > "$scratch/out" 2>&1 || fail "an image that is served was deleted"
log_has 'rbd: rbd/data: the image was moved to the trash'
problem data 'its image was moved to the trash' || fail "rblkctl status: $(ctl status)"
expect 0 "$RBLK" copy "$scratch/disk" "$target/data"
rbd trash restore "$id"
log_has 'rbd: rbd/data: the image is no longer in the trash'
! problem data trash || fail "rblkctl status, when it is restored: $(ctl status)"

# -- the pool ------------------------------------------------------------------------------------

address() { rados -p rbd lock info "$object" rblk | jq -r '.lockers[0].addr'; }
before=$(address)
again=$(log_count 'volume data: served again')
ceph osd pool delete other other --yes-i-really-really-mean-it 2> /dev/null
# Nothing is read in place of what was there.
! timeout 60 "$RBLK" copy "$target/reads" "$scratch/copy" > "$scratch/out" 2>&1 || fail "a read of what was deleted"
for name in writes reads; do
	log_has "volume $name: other/$name: its pool was deleted"
	wait_for "the reason for $name" missing $name 'pool other: No such file or directory'
	problem $name 'pool other' || fail "rblkctl status: $(ctl status)"
done
expect 0 "$RBLK" copy "$scratch/disk" "$target/data"
[ "$(address)" = "$before" ] || fail "the client was given up for another image's pool"
[ "$(log_count 'volume data: served again')" = "$again" ] || fail "a volume of another pool was lost, too"
other_create
for name in writes reads; do
	log_has "volume $name: served again"
	expect 0 "$RBLK" copy "$target/$name" "$scratch/copy"
done
target_stop
log_has 'stopped'

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A volume is an image of Ceph: all kinds of commands, sizes and snapshots, what is refused with words, and a daemon that is killed
# and started again while a job writes. Method: a small cluster of this machine's own; what rblk writes is compared with what
# rbd(8) reads.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

engine=(--ioengine="external:$RBLK_FIO_ENGINE")
# image_read IMAGE: what rbd(8) finds in it, as $scratch/image.
image_read() {
	rm -f "$scratch/image"
	rbd export --no-progress "$1" "$scratch/image"
}

ceph_start
rbd create --size 32M --object-size 1M data
volume_is 'path = rbd/data'
rbd_start

# What is copied in is in the image, and comes out again.
head -c 32M /dev/urandom > "$scratch/disk"
expect 0 "$RBLK" copy "$scratch/disk" "$target/data"
image_read data
cmp "$scratch/disk" "$scratch/image" || fail "the image is not what was copied"
expect 0 "$RBLK" copy "$target/data" "$scratch/back"
cmp "$scratch/disk" "$scratch/back" || fail "what was copied back is another"

# Deep queues and mixed sizes; flushes, FUA, discards, zeroes.
expect 0 fio "${engine[@]}" --rblk_uri="$target/data" --name=verify --rw=randwrite --bsrange=512-256k --bs_unaligned=0 \
	--iodepth=32 --verify=crc32c --verify_state_save=0 --size=32m --output-format=json
json_is '.jobs[0] | .error == 0 and .write.io_bytes == 33554432'
expect 0 fio "${engine[@]}" --rblk_uri="$target/data" --name=sync --rw=randwrite --bs=64k --iodepth=8 --size=4m --fsync=4 --rblk_fua=1 \
	--output-format=json
json_is '.jobs[0] | .error == 0 and .sync.total_ios > 0'
expect 0 fio "${engine[@]}" --rblk_uri="$target/data" --name=trim --rw=trim --bs=1m --size=8m --output-format=json
json_is '.jobs[0] | .error == 0'
image_read data
cmp -n 8388608 "$scratch/image" /dev/zero || fail "whole objects were discarded, and are not zero"

# What was never written, or was discarded, is known: a copy of it moves no data. What is in a clone's parent is data.
rm -f "$scratch/back"
expect 0 "$RBLK" copy --json "$target/data" "$scratch/back"
json_is '.copied_bytes == 33554432 and .zeroed_bytes == 8388608'
cmp "$scratch/image" "$scratch/back" || fail "a copy that leaves holes out is another"
rbd snap create --no-progress data@parent 2> /dev/null
rbd snap protect data@parent
rbd clone data@parent clone
expect 0 rbd bench --io-type write --io-size 4K --io-total 4K --io-pattern seq clone
printf '%s\n' '[volume clone]' 'store = rbd' 'path = rbd/clone' 'read_only = yes' >> "$scratch/rblkd.conf"
reloaded 'volume clone: added'
image_read clone
rm -f "$scratch/back"
expect 0 "$RBLK" copy --json "$target/clone" "$scratch/back"
json_is '.zeroed_bytes == 8384512'
cmp "$scratch/image" "$scratch/back" || fail "a clone is another"

# The same to everyone: no configuration says who it is. A cache would be a lie.
expect 0 "$RBLK" info --json "$target/data"
uuid=$(jq -r .uuid "$scratch/out")
[ "${#uuid}" = 36 ] || fail "uuid: $uuid"

# A snapshot is only read, and has a uuid of its own.
rbd snap create --no-progress data@before 2> /dev/null
expect 0 fio "${engine[@]}" --rblk_uri="$target/data" --name=after --rw=write --bs=1m --size=16m --buffer_pattern=0x5a --output-format=json
image_read data@before
printf '%s\n' '[volume before]' 'store = rbd' 'path = rbd/data@before' >> "$scratch/rblkd.conf"
reloaded 'volume before: added'
expect 0 "$RBLK" copy "$target/before" "$scratch/back"
cmp "$scratch/image" "$scratch/back" || fail "the snapshot is another"
expect 0 "$RBLK" info --json "$target/before"
[ "$(jq -r .uuid "$scratch/out")" != "$uuid" ] || fail "the snapshot has the image's uuid"
# Its parent's data is not copied into a clone that is only read.
rbd clone data@parent copies
rbd config image set rbd/copies rbd_clone_copy_on_read true
printf '%s\n' '[volume copies]' 'store = rbd' 'path = rbd/copies' 'read_only = yes' >> "$scratch/rblkd.conf"
reloaded 'volume copies: added'
expect 0 "$RBLK" copy "$target/copies" "$scratch/back"
rm -f "$scratch/back"
[ -z "$(rbd lock ls copies)" ] || fail "a reader has locked the image"
expect 1 "$RBLK" copy "$scratch/disk" "$target/before"
err_has 'the volume is read only'

# What is only read is not removed meanwhile, has its new size, and is never read as zeroes where a snapshot was.
! rbd rm --no-progress clone > "$scratch/out" 2>&1 || fail "an image that is served was removed"
rbd resize --no-progress --size 40M clone
clone_grown() { [ "$("$RBLK" info --json "$target/clone" | jq .bytes)" = 41943040 ]; }
wait_for "the new size of what is only read" clone_grown
rbd snap rm --no-progress data@before 2> /dev/null
expect 1 "$RBLK" copy "$target/before" "$scratch/back"
err_has 'Input/output error'

# While a gateway serves it, none can be alone with it, and says who has it.
volume_is 'path = rbd/data' 'lock_wait = 1s' 'gateways = one'
rbd_refused "in use by gateway "
err_has "@$(hostname)"

# One gateway and several have COMPARE_AND_WRITE and reservations, and NVMe hosts.
nvme_host() { "$NVME_HOST" "$(grep -m 1 -o 'nvme+tcp://[^, ]*' "$scratch/target.log" | cut -d/ -f3)"; }
compares() { "$RBLK" info --json "$target/data" | jq .can_compare_and_write; }
target_stop
for gateways in one several; do
	volume_is 'path = rbd/data' "gateways = $gateways"
	target_start --listen nvme+tcp://127.0.0.1:0 --config "$scratch/rblkd.conf"
	target=$(grep -m 1 -o 'rblk+tcp://[^, ]*' "$scratch/target.log")
	[ "$(nvme_host)" = 0 ] || fail "$gateways: an NVMe host is refused"
	[ "$(compares)" = true ] || fail "$gateways: no COMPARE_AND_WRITE"
	expect 0 "$RBLK" reserve --json --name a --ignore-key --new-key 1 "$target/data" register
	json_is '.persists and (.registrants | length) == 1'
	target_stop
done
rbd_start

# Another size is served with the next opening.
rbd resize --no-progress --size 48M data
grown() { [ "$("$RBLK" info --json "$target/data" | jq .bytes)" = 50331648 ]; }
wait_for "the new size" grown

# Locked by hand, by another client: writes wait for it, and the disk does not become read-only.
mkfifo "$scratch/locker"
"$LOCKER" data < "$scratch/locker" > "$scratch/locked" 2>&1 &
locker=$!
exec {to_locker}> "$scratch/locker"
wait_for "the lock" grep -q locked "$scratch/locked"
fio "${engine[@]}" --rblk_uri="$target/data" --name=locked --rw=write --bs=4k --iodepth=4 --size=64k --output-format=json \
	> "$scratch/out" 2> "$scratch/err" < /dev/null {to_locker}>&- &
fio=$!
log_has 'another client has locked the image: writes wait'
exec {to_locker}>&-
wait $locker || fail "the lock: $(cat "$scratch/locked")"
wait $fio || fail "writes at a locked image"
log_has 'the image is no longer locked'

# Mirrored, and no longer the primary image: that is said, and it is served again when it is promoted.
rbd mirror pool enable rbd image > /dev/null
rbd mirror image enable data snapshot > /dev/null
rbd mirror image demote data > /dev/null
"$RBLK" copy "$scratch/disk" "$target/data" > "$scratch/out" 2> "$scratch/err" < /dev/null || true
log_has 'volume data: rbd/data: it is mirrored (rbd mirror), and not the primary image: it can only be read'
rbd mirror image promote data > /dev/null
log_has 'volume data: served again'
expect 0 fio "${engine[@]}" --rblk_uri="$target/data" --name=primary --rw=write --bs=4k --size=64k --output-format=json
# It is served on while mirroring ends, too, when Ceph does not say any more that it is the primary image.
for round in 1 2 3; do
	rbd mirror image disable data > /dev/null 2>&1
	[ $round = 3 ] || rbd mirror image enable data snapshot > /dev/null
done
expect 0 fio "${engine[@]}" --rblk_uri="$target/data" --name=primary --rw=write --bs=4k --size=64k --output-format=json
[ "$(log_count 'not served yet')" = 1 ] || fail "the volume is lost when mirroring ends"

# Killed and started again while a job writes: it waits, and what it reads is what it wrote. The first one is shut out of the
# cluster before the next one begins.
address=$(rados -p rbd lock info "$(rados -p rbd ls | grep '^rblk[.]')" rblk | jq -r '.lockers[0].addr')
target_listen=${target%/}
image_read data
mv "$scratch/image" "$scratch/before"
fio "${engine[@]}" --name=waits --rw=randwrite --bs=4k --iodepth=8 --size=4m --verify=crc32c --verify_state_save=0 --rate_iops=500 \
	--rblk_give_up=5min --rblk_fail_fast=300 --rblk_uri="$target/data" > "$scratch/out" 2> "$scratch/err" < /dev/null &
fio=$!
log_has ': initiator '
changed() { image_read data && ! cmp -s "$scratch/image" "$scratch/before"; }
wait_for "a first write" changed
target_stop -KILL
volume_is 'path = rbd/data'
rbd_start
wait $fio || fail "the job that waits for its gateway"
grep -q 'session .*: initiator' "$scratch/target.log" || fail "the job did not come back"
log_has 'is silent: shut out of the cluster for 30 days'
[ "$(ceph osd blocklist ls --format json 2> /dev/null | jq -r '.[].addr')" = "$address" ] || fail "not shut out: $address"
# At an orderly end nobody is left to be shut out.
target_stop
rbd_start
! grep -q 'is silent' "$scratch/target.log" || fail "shut out after an orderly end"
target_stop

# What is refused: settings that acknowledge from memory, names, users, clusters that do not answer.
rbd config image set rbd/data rbd_cache true
rbd_refused 'rbd_cache = true is set for the image or its pool'
rbd config image remove rbd/data rbd_cache
volume_is 'path = data'
rbd_refused 'data: not the name of an image: POOL/IMAGE'
volume_is 'path = rbd/none'
rbd_refused 'rbd/none: No such file or directory'
volume_is 'path = none/data'
rbd_refused 'pool none: No such file or directory'
volume_is 'path = rbd/data@none'
rbd_refused 'rbd/data@none: No such file or directory'
volume_is 'path = rbd/data'
CEPH_ARGS='--id nobody' rbd_refused 'client.nobody cannot connect to the cluster'
CEPH_CONF=$scratch/none rbd_refused "cannot read Ceph's configuration"
# librados would abort the process.
RBD_THREADS=25 LD_PRELOAD=$FEW_THREADS rbd_refused 'librados needs 32 threads and could have only'
# Without the package.
mkdir "$scratch/lib"
: > "$scratch/lib/rblkd-rbd.so"
LD_LIBRARY_PATH=$scratch/lib rbd_refused 'store = rbd needs the package rblkd-rbd'

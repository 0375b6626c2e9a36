#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The engine says once and clearly why a job cannot run, and fails it.
. "$(dirname "$0")/cmd.sh"

engine=(fio --ioengine="external:$RBLK_FIO_ENGINE" --name=job --rw=randwrite --size=1m)
truncate -s 2M "$scratch/disk"
target_start "$scratch/disk"
address=${target#rblk+tcp://}

expect 1 "${engine[@]}"
err_has 'rblk: rblk_uri: missing: rblk://host[:port]/volume'
expect 1 "${engine[@]}" --rblk_uri="$target/none"
err_has "rblk: $address: volume \"none\": no such volume"
[ "$(grep -c '^rblk: ' "$scratch/err")" = 1 ] || fail "not exactly one message"
expect 1 "${engine[@]}" --rblk_uri="$target/disk" --bs=1000
err_has "rblk: disk: block sizes must be multiples of the volume's, 512 bytes"
expect 1 "${engine[@]}" --rblk_uri="$target/disk" --bsrange=512-6000
err_has "rblk: disk: block sizes must be multiples of the volume's, 512 bytes"
expect 1 "${engine[@]}" --rblk_uri="$target/disk" --bs=4k --offset=100
err_has "rblk: disk: offset=100 is no multiple of the volume's block size, 512 bytes"
expect 1 "${engine[@]}" --rblk_uri="$target/disk" --bs=2m --size=2m
err_has "rblk: disk: a block size of 2097152 bytes is more than the target's maximum, 1048576"
expect 1 "${engine[@]}" --rblk_uri="$target/disk" --nrfiles=2
err_has 'rblk: nrfiles: a job has one volume'

# A store that fails: fio names the I/O. A target that was killed: the engine names it, once.
target_stop
target_start --fault fail=write:1 "$scratch/disk"
expect 1 "${engine[@]}" --rblk_uri="$target/disk" --bs=4k
grep -qE 'Input/output error.*write offset=' "$scratch/out" "$scratch/err" || fail "the failed I/O"
target_stop
target_start "$scratch/disk"
"${engine[@]}" --rblk_uri="$target/disk" --bs=4k --time_based --runtime=60 --rblk_give_up=0 \
	> "$scratch/out" 2> "$scratch/err" < /dev/null &
fio=$!
# The second session is that of the job: the first one only asked for the size.
until [ "$(grep -c 'session .*: initiator' "$scratch/target.log")" -ge 2 ]; do
	kill -0 $fio 2>/dev/null || fail "fio ended before the target did"
done
address=${target#rblk+tcp://}
target_stop -KILL
status=0
wait $fio || status=$?
[ $status = 1 ] || fail "target gone: status $status"
[ "$(grep -c "^rblk: .*$address" "$scratch/err")" = 1 ] || fail "the lost target, once"
target_start "$scratch/disk"
address=${target#rblk+tcp://}
target_stop
expect 1 "${engine[@]}" --rblk_uri="$target/disk"
err_has "rblk: $address"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the first steps of a new user work over RDMA verbs: rblkd says what to do if there is no RDMA
# device; with one it serves a disk, a file and memory; fio's verified workload passes on each, and the
# disk itself has the data; a file copied into a volume is the same when copied back; a missing volume
# is refused with a message; rblk ping measures the plain command, and between two commands all four kinds; after
# SIGTERM the daemon exits with 0.
. "$LAB/guest.sh"
export RBLK_FIO_SIZE=8m
ENGINE=(--ioengine=external:"$RBLK_FIO_ENGINE")

modprobe -a rdma_ucm ib_uverbs || lab_fail "modules do not load"
timeout 200 "$RBLKD" /dev/vda > /out/no-device 2>&1
status=$?
[ $status = 1 ] || lab_fail "rblkd without a device: exit status $status: $(cat /out/no-device)"
grep -q 'rdma link add' /out/no-device || lab_fail "rblkd without a device says: $(cat /out/no-device)"

lab_link_up
mkfs.ext4 -q /dev/vdb && mkdir -p /mnt && mount /dev/vdb /mnt || lab_fail "/dev/vdb: no file system"
truncate -s 32M /mnt/file.img
lab_rblkd_start --memory memory=32M /dev/vda /mnt/file.img
volumes=$("$RBLK" list --json "$LAB_URI" | jq -r '[.volumes[].volume] | sort | join(" ")')
[ "$volumes" = "file memory vda" ] || lab_fail "rblk list: '$volumes' instead of 'file memory vda'"

for volume in vda file; do
	lab_say "verified workload on $volume"
	FIO_STATS=1 lab_fio "/out/verify-$volume" verify "${ENGINE[@]}" "--rblk_uri=$LAB_URI/$volume"
done
# The workload of fio-jobs ends with a flush, and memory has nothing to flush to.
lab_say "verified workload on memory"
fio "${ENGINE[@]}" "--rblk_uri=$LAB_URI/memory" --rblk_stats=/out/verify-memory.stats --eta=never \
	--output-format=json --lat_percentiles=1 --output=/out/verify-memory.fio --name=memory --rw=randwrite --bsrange=4k-256k \
	--iodepth=32 --size=8m --verify=crc32c --verify_fatal=1 --verify_state_save=0 || lab_fail "memory: fio: $?"
for volume in vda file memory; do
	"$LAB/../bench/point" "/out/verify-$volume" > /out/point &&
		jq -e '.read == 8388608 and .written == .read and .counters.messages > 0' /out/point > /dev/null ||
		lab_fail "$volume: did not write and read back 8 MiB, or sent no messages"
done
"$RBLK" info "$LAB_URI/nowhere" > /out/nowhere 2>&1 && lab_fail "rblk info: succeeds for a volume that is not there"
grep -q nowhere /out/nowhere || lab_fail "rblk info: does not name the volume that is not there: $(cat /out/nowhere)"
lab_rblkd_stop

for disk in /dev/vda /mnt/file.img; do
	lab_fio "/out/disk-$(basename $disk)" verify --ioengine=io_uring "--filename=$disk" --verify_only=1
	"$LAB/../bench/point" "/out/disk-$(basename $disk)" > /out/point &&
		jq -e '.read == 8388608' /out/point > /dev/null ||
		lab_fail "$disk: was not read"
done

lab_rblkd_start /dev/vda
volume=vda
head -c 12M /dev/urandom > /run/pattern
"$RBLK" copy /run/pattern "$LAB_URI/$volume" || lab_fail "rblk copy into $volume: exit status $?"
cmp -n $((12 << 20)) /run/pattern /dev/vda || lab_fail "/dev/vda: does not have what was copied into it"
"$RBLK" copy "$LAB_URI/$volume" /run/back || lab_fail "rblk copy from $volume: exit status $?"
cmp /run/back /dev/vda || lab_broken "rblk copy: the copy differs from /dev/vda"

lab_say "ping, two ways and four"
ping() { "$RBLK" ping --count 100 --json "$@" > /out/ping.json || lab_fail "rblk ping $*: exit status $?"; }
ping_is() { jq -e "$1" /out/ping.json > /dev/null || lab_fail "ping: not so: $1: $(cat /out/ping.json)"; }
# Order relations, which hold on any machine.
measured() {
	ping_is 'all(.kinds[]; 0 < .min_ns and .min_ns <= .p50_ns and .p50_ns <= .p99_ns
		and .p99_ns <= .max_ns and .min_ns <= .average_ns and .average_ns <= .max_ns)'
	ping_is 'all(.kinds[]; .initiator_cpu_ns >= 0 and .target_cpu_ns > 0 and .target_cpu_ns < 2 * .elapsed_ns)'
}
ping "$LAB_URI"
ping_is '[.kinds[].kind] == ["send-polled", "send-events"]'
measured
lab_rblkd_stop
"$RBLK" ping --serve "$LAB_URI" > /out/ping-serve 2>&1 &
serving=$!
lab_wait 30 grep -q '^serving' /out/ping-serve || lab_fail "rblk ping --serve: $(cat /out/ping-serve)"
for size in 64 4k; do
	ping --peer --size $size "$LAB_URI"
	ping_is '[.kinds[].kind] == ["send-polled", "send-events", "rdma-signalled", "rdma-unsignalled"]'
	measured
done
kill $serving

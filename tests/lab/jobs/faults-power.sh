# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: when the target's disks lose what their caches held, or fail to write, all that was flushed is still there, and
# who had acknowledged writes that are lost is told by its next flush (F7, F9). File systems stop then, and are whole
# when they are mounted again. Method: volatile_disk below four volumes: one for librblk, an attached one, ext4 and xfs
# on two more; a writer of the promise journal on each. A loss of power: rblkd is killed, each disk loses a part of what
# was not durable, and the boot id changes, so that the next rblkd takes the machine for one that was started again.
#   faults-power.sh [ROUNDS [FAULT...]]    default: 2 of both
# power: the above; flaky: promise.sh's.
. "$LAB/guest.sh"
. "$LAB/promise.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"
rounds=${1:-2}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- power flaky
strict='' may_fail=1
writers=(1 2 3 4)
wires=()
kinds=('' library raw ext4 xfs)
places=('' "$LAB_URI/library" /dev/rblk0 /tmp/ext4 /tmp/xfs)
caches=()

writer_start() {
	local own=()
	[ "$1" != 2 ] || own=(--acknowledge /sys/block/rblk0/rblk/acknowledge)
	promise_start "$1" --blocks 2048 --max-blocks 8 --give-up 600000 "${own[@]}" "${places[$1]}"
}
target_start() {
	local kind volumes=()
	for kind in "${kinds[@]:1}"; do volumes+=("$kind=/dev/mapper/$kind"); done
	lab_rblkd_start --keepalive ${alive}s "${volumes[@]}"
}
compare() {
	promise_fs_mend
	for writer in "${writers[@]}"; do promise_check "${places[writer]}" "$writer"; done > /out/last
}
reports() {
	local writer
	for writer in "${writers[@]}"; do [ -s "/out/cut$writer" ] || return 1; done
}
lost=0
fault_power() {
	kill -KILL "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
	rm -f /out/cut?
	kill -USR1 "${caches[@]}"
	lab_wait 20 reports || lab_fail "$fault: a disk does not lose its power"
	lost=$((lost + $(awk '{ n += $4 } END { print n }' /out/cut?)))
	cat /proc/sys/kernel/random/uuid > /tmp/boot_id
	target_start
}

lab_link_up
cat /proc/sys/kernel/random/uuid > /tmp/boot_id
mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id || lab_fail "the boot id cannot be changed"
modprobe nbd nbds_max=4 max_part=0 || lab_fail "nbd does not load"
for writer in "${writers[@]}"; do
	size=64
	[ "${kinds[writer]}" != xfs ] || size=320
	lab_wait 10 [ -b /dev/nbd$((writer - 1)) ] || lab_fail "no /dev/nbd$((writer - 1))"
	"$LAB_BUILD/tests/lab/volatile_disk" /dev/nbd$((writer - 1)) $size "/out/cut$writer" &
	caches+=($!)
	disk_ready() { [ "$(blockdev --getsize64 /dev/nbd$((writer - 1)))" = $((size << 20)) ]; }
	lab_wait 10 disk_ready || lab_fail "/dev/nbd$((writer - 1)): has no size"
done
disks_make library=/dev/nbd0 raw=/dev/nbd1 ext4=/dev/nbd2 xfs=/dev/nbd3
fault=start
target_start
lab_kmod_load
promise_fs_make
promise_rounds "$rounds" "$@"
# Otherwise nothing is proved.
[[ " $* " != *" power "* ]] || [ $lost -gt 0 ] || lab_fail "no cache has lost anything"
grep -q '^[EH]' /out/journal? || lab_fail "nobody was told of anything"

fault=end
promise_fs_end
lab_rblkd_stop
lab_kmod_unload
cat /out/last
lab_say "$count faults; $lost blocks were lost"

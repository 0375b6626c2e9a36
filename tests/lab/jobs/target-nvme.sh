# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: rblkd serves an NVMe namespace by passthrough. The commands go past the block layer, and the disk has the data; flush,
# FUA, write zeroes and discard reach it as such. Its block device is claimed meanwhile, also for as long as a killed rblkd has
# commands under way; one that is mounted is refused. I/O goes on after a reset of the controller, and fails when the disk is gone.
# Blocks of 4096 bytes are served, metadata is refused; without the right to pass commands through, the block device is
# served, with a warning.
# Method: QEMU's NVMe disks: two plain ones, one with metadata, one whose backend does few writes a second, one with larger
# blocks. QEMU refuses a command that is larger than MDTS. The kernel
# counts what goes through the block layer (/sys/block/*/stat has no passthrough), and traces each NVMe command.
#   for boot -N 256M -N 64M,ms=8 -N 64M,throttling.iops-write=4 -N 64M -N 64M,logical_block_size=4096,physical_block_size=4096
. "$LAB/guest.sh"
ENGINE=(--ioengine=external:"$RBLK_FIO_ENGINE")
NBDKIT=$LAB_BUILD/initiator/nbdkit/nbdkit-rblk-plugin.so
# A second daemon that shares nothing with the first.
OTHER=(--listen rblk+tcp://127.0.0.1:4499 --control-socket none)
export RBLK_FIO_SIZE=64m

modprobe nvme || lab_fail "nvme: does not load"
has_serial() { grep -q "$1" /sys/class/nvme/nvme*/serial; }
for disk in 0 1 2 3 4; do
	# The driver probes disks side by side: which one is nvme0 is not said.
	lab_wait 20 has_serial labnvme$disk || lab_fail "no NVMe disk with the serial number labnvme$disk"
done
# number SERIAL: N of nvmeN
number() { grep -l "$1" /sys/class/nvme/nvme*/serial | sed 's/[^0-9]*\([0-9]*\).*/\1/'; }
# node N ng|nvme: the namespace's device
node() { echo "/dev/$2$(number "labnvme$1")n1"; }
for disk in 0 1 2 3 4; do
	lab_wait 20 [ -c "$(node $disk ng)" ] || lab_fail "$(node $disk ng): is not there"
	lab_wait 20 [ -b "$(node $disk nvme)" ] || lab_fail "$(node $disk nvme): is not there"
done
ng=$(node 0 ng) block=$(node 0 nvme)

trace=/sys/kernel/tracing
# commands EXPRESSION: how many of the disk's there were. A path of a shared namespace is nvme0c0n1.
commands() { grep -c "disk=$(basename "$block" n1)\(c[0-9]*\)\?n1, .*cmd=($1" $trace/trace; }
trace_from_here() { echo > $trace/trace; }
echo 16384 > $trace/buffer_size_kb && echo 1 > $trace/events/nvme/nvme_setup_cmd/enable || lab_fail "no trace of NVMe commands"
# What the block layer has done to the disk: reads and writes, and flushes.
block_layer() { awk '{ print $1, $5, $12, $16 }' "/sys/block/$(basename "$block")/stat"; }
# Could another program have the block device for itself?
available() { perl -MFcntl -e 'sysopen(my $device, shift, O_RDONLY | O_EXCL) or exit 1' "$1"; }
passes_through() { ! grep -q 'no passthrough' "$LAB_RBLKD_LOG" || lab_fail "no passthrough: $(cat "$LAB_RBLKD_LOG")"; }

lab_link_up
lab_say "a verified workload"
lab_rblkd_start disk="$ng"
passes_through
before=$(block_layer)
trace_from_here
FIO_STATS=1 lab_fio /out/verify verify "${ENGINE[@]}" "--rblk_uri=$LAB_URI/disk"
head -c 100M /dev/urandom > /run/pattern
"$RBLK" copy --quiet /run/pattern "$LAB_URI/disk" || lab_fail "rblk copy into disk: exit status $?"
"$RBLK" copy --quiet "$LAB_URI/disk" /run/back || lab_fail "rblk copy from disk: exit status $?"
cmp -n $((100 << 20)) /run/pattern /run/back || lab_broken "disk: another copy than was written"
[ "$(block_layer)" = "$before" ] || lab_fail "the block layer was used: '$before', now '$(block_layer)'"
for command in 'nvme_cmd_read ' 'nvme_cmd_write ' nvme_cmd_flush; do
	[ "$(commands "$command")" -gt 0 ] || lab_fail "no $command among: $(head -n 20 $trace/trace)"
done

lab_say "the block device is taken"
available "$block" && lab_fail "$block: others may have it exclusively"
mkdir -p /mnt
mount "$block" /mnt > /out/mount 2>&1 && lab_fail "$block: is mounted"
for path in "$block" "$ng"; do
	timeout 300 "$RBLKD" "${OTHER[@]}" --lock-wait 0 other="$path" > /out/other 2>&1
	status=$?
	[ $status = 1 ] && grep -q "in use by process $LAB_RBLKD" /out/other ||
		lab_fail "$path: a second rblkd: exit status $status: $(cat /out/other)"
done
lab_rblkd_stop
lab_let_go "$block"
cmp -n $((100 << 20)) /run/pattern "$block" || lab_broken "$block: other bytes than were copied"

lab_say "zeroes and discards"
lab_rblkd_start disk="$block" # through the block layer, for what follows it
lab_rblkd_stop
printf '[volume disk]\nstore = nvme\npath = %s\n' "$block" > /run/rblkd.conf
lab_rblkd_start --config /run/rblkd.conf --listen "$LAB_URI"
passes_through
trace_from_here
nbdkit -f -U - "$NBDKIT" "uri=$LAB_URI/disk" --run 'qemu-io -f raw -c "write -z 1M 2M" -c "write -f -P 7 8M 64k" \
	-c "discard 4M 2M" -c flush -c "read -P 0 1M 2M" -c "read -P 7 8M 64k" "$uri"' > /out/ranges 2>&1 ||
	lab_fail "qemu-io: $(cat /out/ranges)"
! grep -q 'verification failed' /out/ranges || lab_broken "zeroes: $(cat /out/ranges)"
for command in nvme_cmd_write_zeroes nvme_cmd_dsm nvme_cmd_flush; do
	[ "$(commands "$command")" -gt 0 ] || lab_fail "no $command among: $(head -n 20 $trace/trace)"
done
# A write's FUA is bit 14 of its control.
[ "$(commands 'nvme_cmd_write .*ctrl=0x4000')" -gt 0 ] || lab_fail "no write with FUA among: $(tail -n 20 $trace/trace)"
dd if="$block" iflag=direct bs=1M skip=1 count=2 2> /out/dd | cmp -n $((2 << 20)) - /dev/zero ||
	lab_broken "$block: was to be zeroed"

# Not under I/O: QEMU then sometimes completes nothing that comes next, and 6.1 gives back EFAULT for memory that is there.
lab_say "the controller is reset"
controller=/sys/class/nvme/nvme$(number labnvme0)
for reset in 1 2 3; do
	echo 1 > "$controller/reset_controller" || lab_fail "$controller: is not reset"
	lab_wait 30 grep -q live "$controller/state" || lab_fail "$controller: $(cat "$controller/state")"
	"$RBLK" copy --quiet /run/pattern "$LAB_URI/disk" || lab_fail "rblk copy after reset $reset: exit status $?"
	"$RBLK" copy --quiet "$LAB_URI/disk" /run/back || lab_fail "rblk copy after reset $reset: exit status $?"
	cmp -n $((100 << 20)) /run/pattern /run/back || lab_broken "disk: another copy than was written after reset $reset"
done

lab_say "the disk is gone"
"$RBLK" ping --count 1 "$LAB_URI" > /dev/null || lab_fail "the target does not answer"
echo 1 > "$controller/device/remove" || lab_fail "$controller: is not removed"
lab_wait 20 [ ! -e "$block" ] || lab_fail "$block: is still there"
timeout 600 "$RBLK" copy --quiet "$LAB_URI/disk" /dev/null > /out/gone 2>&1
status=$?
[ $status != 0 ] && [ $status != 124 ] || lab_fail "a disk that is gone: exit status $status: $(cat /out/gone)"
"$RBLK" ping --count 1 "$LAB_URI" > /dev/null || lab_fail "the target does not answer any more"
lab_rblkd_stop

# 32 writes that the disk does at 4 a second. Whoever kills rblkd has them under way.
lab_say "a killed rblkd keeps both devices until its last command has ended"
ng=$(node 2 ng) block=$(node 2 nvme)
lab_rblkd_start slow="$ng"
passes_through
fio "${ENGINE[@]}" "--rblk_uri=$LAB_URI/slow" --name=slow --rw=write --bs=4k --iodepth=32 --size=16m --thread --eta=never > /out/slow 2>&1 &
fio=$!
trace_from_here
written() { [ "$(commands 'nvme_cmd_write ')" -ge 32 ]; }
lab_wait 30 written || lab_fail "fio does not write: $(cat /out/slow)"
kill -9 "$LAB_RBLKD"
wait "$LAB_RBLKD"
available "$block" && lab_broken "$block: is free while a killed rblkd's writes are under way"
kill -9 $fio
wait $fio
# The next one waits for them, and then has it.
lab_rblkd_start slow="$block"
lab_rblkd_stop
lab_let_go "$block"

lab_say "a mounted disk is refused, and larger blocks are served"
ng=$(node 4 ng) block=$(node 4 nvme)
mkfs.ext4 -q -F "$block" && mount "$block" /mnt || lab_fail "$block: no file system"
timeout 300 "$RBLKD" "${OTHER[@]}" --lock-wait 0 mounted="$ng" > /out/mounted 2>&1
status=$?
[ $status = 1 ] && grep -q "$block: in use by this machine (mounted" /out/mounted ||
	lab_fail "$ng: is mounted: exit status $status: $(cat /out/mounted)"
umount /mnt || lab_fail "$block: is not unmounted"
lab_rblkd_start large="$ng"
passes_through
before=$(block_layer)
trace_from_here
head -c 1M /run/pattern > /run/large
nbdkit -f -U - "$NBDKIT" "uri=$LAB_URI/large" --run 'qemu-io -f raw -c "write -s /run/large 4k 1M" -c "write -z 1M 64k" \
	-c "read -P 0 1M 64k" "$uri"' > /out/large 2>&1 || lab_fail "qemu-io: $(cat /out/large)"
! grep -q 'verification failed' /out/large || lab_broken "larger blocks: $(cat /out/large)"
# Of 1 MiB, which is more than the disk's 512 KiB.
[ "$(commands 'nvme_cmd_write slba=1,')" = 1 ] && [ "$(commands 'nvme_cmd_write ')" -ge 2 ] ||
	lab_fail "no write at block 1, or only one: $(head -n 20 $trace/trace)"
[ "$(block_layer)" = "$before" ] || lab_fail "the block layer was used: '$before', now '$(block_layer)'"
lab_rblkd_stop
dd if="$block" iflag=direct bs=4k skip=1 count=255 2> /out/dd | cmp -n $((1020 << 10)) - /run/large ||
	lab_broken "$block: other bytes than were written"

lab_say "metadata is refused"
timeout 300 "$RBLKD" "${OTHER[@]}" meta="$(node 1 ng)" > /out/meta 2>&1
status=$?
[ $status = 1 ] && grep -q 'has 8 bytes of metadata for each block' /out/meta ||
	lab_fail "metadata: exit status $status: $(cat /out/meta)"

lab_say "without CAP_SYS_ADMIN"
ng=$(node 3 ng) block=$(node 3 nvme)
program=$RBLKD
cat > /run/rblkd-less << END
#!/bin/bash
exec setpriv --inh-caps=-sys_admin --bounding-set=-sys_admin "$program" "\$@"
END
chmod 755 /run/rblkd-less
RBLKD=/run/rblkd-less
lab_rblkd_start disk="$ng"
case $(uname -r) in
6.1.*)
	grep -q "CAP_SYS_ADMIN.*no passthrough: $block is served through the block layer" "$LAB_RBLKD_LOG" ||
		lab_fail "no warning: $(cat "$LAB_RBLKD_LOG")" ;;
esac
"$RBLK" copy --quiet /run/pattern "$LAB_URI/disk" > /out/small 2>&1 && lab_fail "100M fit into a disk of 64M"
head -c 64M /run/pattern > /run/small
"$RBLK" copy --quiet /run/small "$LAB_URI/disk" || lab_fail "rblk copy: exit status $?"
lab_rblkd_stop
cmp /run/small "$block" || lab_broken "$block: other bytes than were copied"
lab_say done

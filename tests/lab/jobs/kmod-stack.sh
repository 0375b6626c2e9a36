# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what stands on a disk stands on a remote volume: partitions, LVM, encryption, discards, flushes,
# blocks of 4096 bytes, a volume that grows, one that may only be read, reservations; and what is asked for is what
# is sent.
# Method: each is made with its own tool, and bytes are compared, with what the target's file holds as well.
# A scripted target counts zeroes and durable writes, and the tracepoints show each step of I/O.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

[ -n "$LAB_SLOW" ] && DATA=128K || DATA=4M
STORE=/tmp/store
PATTERN=/tmp/pattern

is() { [ "$2" = "$3" ] || lab_fail "$1: $2, not $3"; }

# written DEVICE: the pattern written there and read back from the device itself.
written() {
	dd if=$PATTERN of="$1" bs=64k oflag=direct conv=fsync status=none || lab_fail "$1: cannot be written"
	dd if="$1" bs=64k iflag=direct count="$(($(stat -c %s $PATTERN) / 65536))" status=none | cmp - $PATTERN ||
		lab_broken "$1: reads back other bytes"
}

# filesystem DEVICE: made, filled, looked at again after the caches are gone, trimmed.
filesystem() {
	mkfs.ext4 -q -F "$1" && mount "$1" /tmp/mnt || lab_fail "$1: no file system"
	cp $PATTERN /tmp/mnt/file && umount /tmp/mnt || lab_fail "$1: cannot be filled"
	echo 3 > /proc/sys/vm/drop_caches
	mount "$1" /tmp/mnt && cmp /tmp/mnt/file $PATTERN || lab_broken "$1: the file differs"
	rm /tmp/mnt/file
	[ "$2" != trim ] || fstrim /tmp/mnt || lab_fail "$1: fstrim"
	umount /tmp/mnt
	fsck.ext4 -fn "$1" > /tmp/fsck 2>&1 || { cat /tmp/fsck; lab_fail "$1: fsck"; }
}

# quiet COMMAND...: what it says is kept from the console, where "WARNING:" is the kernel's word.
quiet() {
	"$@" > /tmp/quiet 2>&1 && return
	sed 's/WARNING:/warning:/' /tmp/quiet
	return 1
}

# all that device-mapper would ask of udev, which is not here
export DM_DISABLE_UDEV=1
lvm_conf='devices { filter=["a|^/dev/rblk.*|","r|.*|"] use_devicesfile=0 } activation { udev_sync=0 udev_rules=0 } backup { backup=0 archive=0 } global { use_lvmpolld=0 }'

lab_link_up
mkdir -p $STORE /tmp/mnt
# The emulated processor has AES but not the multiplication that this module takes for granted with it.
mkdir -p /etc/modprobe.d
echo "install aesni_intel /bin/false" > /etc/modprobe.d/rblk-lab-aesni.conf
modprobe -a dm_mod dm_crypt || lab_fail "device-mapper does not load"
head -c $DATA /dev/urandom > $PATTERN
truncate -s 64M $STORE/a.img $STORE/large.img
cat > /tmp/rblkd.conf <<END
[volume a]
path = $STORE/a.img
cache = buffered
[volume large]
path = $STORE/large.img
cache = buffered
block_size = 4096
END
lab_rblkd_start --config /tmp/rblkd.conf
lab_kmod_load
lab_attach a queues=2
name=${LAB_DEV#/dev/}

lab_say "blocks and rights"
is getss "$(blockdev --getss $LAB_DEV)" 512
is getro "$(blockdev --getro $LAB_DEV)" 0
is getsize64 "$(blockdev --getsize64 $LAB_DEV)" $((64 << 20))
is write_cache "$(cat /sys/block/$name/queue/write_cache)" "write back"

lab_say "partitions"
parted -s $LAB_DEV mklabel gpt mkpart one 1MiB 17MiB mkpart two 17MiB 57MiB || lab_fail "parted"
partprobe $LAB_DEV || lab_fail "partprobe"
lab_wait 10 [ -b ${LAB_DEV}p2 ] || lab_fail "${LAB_DEV}p2: does not appear"
is "the first partition" "$(blockdev --getsize64 ${LAB_DEV}p1)" $((16 << 20))
filesystem ${LAB_DEV}p1 trim

lab_say "LVM"
quiet lvm pvcreate -qq --config "$lvm_conf" ${LAB_DEV}p2 &&
	quiet lvm vgcreate -qq --config "$lvm_conf" vg ${LAB_DEV}p2 &&
	quiet lvm lvcreate -qq --config "$lvm_conf" -Wn -Zn -L 24M -n lv vg || lab_fail "LVM"
lab_wait 10 [ -e /dev/mapper/vg-lv ] || lab_fail "/dev/mapper/vg-lv: does not appear"
filesystem /dev/mapper/vg-lv trim

lab_say "encryption"
printf secret > /tmp/key
quiet cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --cipher aes-xts-plain64 \
	--luks2-metadata-size 16k --luks2-keyslots-size 256k --key-file /tmp/key /dev/mapper/vg-lv || lab_fail "luksFormat"
cryptsetup open --key-file /tmp/key /dev/mapper/vg-lv secret || lab_fail "cryptsetup open"
written /dev/mapper/secret
printf 'known only in here' | dd of=/dev/mapper/secret conv=fsync,notrunc status=none || lab_fail "secret: cannot be written"
grep -qFa 'known only in here' $STORE/a.img && lab_fail "the plain text is on the target"
cryptsetup close secret || lab_fail "cryptsetup close"
quiet lvm vgremove -qq -f --config "$lvm_conf" vg || lab_fail "vgremove"

lab_say "discard: reads back zero, at the target as well"
written ${LAB_DEV}p1
quiet blkdiscard -f ${LAB_DEV}p1 || lab_fail "blkdiscard"
cmp -n $(stat -c %s $PATTERN) ${LAB_DEV}p1 /dev/zero || lab_broken "discarded bytes are not zero"
cmp -n $(stat -c %s $PATTERN) -i 1048576:0 $STORE/a.img /dev/zero || lab_fail "the target kept them"
written ${LAB_DEV}p1
quiet blkdiscard -f -z ${LAB_DEV}p1 || lab_fail "blkdiscard -z"
cmp -n $(stat -c %s $PATTERN) ${LAB_DEV}p1 /dev/zero || lab_broken "zeroed bytes are not zero"

lab_say "flushes"
flushes() { awk '{ print $16 }' /sys/block/$name/stat; }
before=$(flushes)
fio --name=sync --filename=${LAB_DEV}p1 --rw=write --bs=4k --size=128k --fsync=1 --end_fsync=1 --output=/tmp/fio.txt ||
	{ cat /tmp/fio.txt; lab_fail "fio"; }
[ "$(flushes)" -ge $((before + 32)) ] || lab_fail "$(($(flushes) - before)) flushes for 32 fsyncs"

# No journal is written beside them, no block allocated, no inode table zeroed in the background (that flushes,
# too): such a write needs nothing but its data durable. Now and then the file system has a reason of its own.
lab_say "durable writes of a file system are no flushes"
is fua "$(cat /sys/block/$name/queue/fua)" 1
mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0 ${LAB_DEV}p1 && mount -o noinit_itable ${LAB_DEV}p1 /tmp/mnt || lab_fail "no file system"
dd if=$PATTERN of=/tmp/mnt/file bs=64k conv=fsync status=none || lab_fail "file: cannot be written"
sync
before=$(flushes)
dd if=$PATTERN of=/tmp/mnt/file bs=4k count=16 oflag=direct,dsync conv=notrunc status=none || lab_fail "file: cannot be written"
[ "$(flushes)" -lt $((before + 4)) ] || lab_fail "$(($(flushes) - before)) flushes for 16 durable writes"
umount /tmp/mnt

lab_say "a volume that grows under the disk; tracepoints"
TRACING=/sys/kernel/tracing
echo > $TRACING/trace
echo 1 > $TRACING/events/rblk/enable || lab_fail "tracepoints: cannot be enabled"
dd if=$LAB_DEV of=/dev/null bs=64k count=16 iflag=direct status=none || lab_fail "no I/O"
udevadm monitor --kernel --property --subsystem-match=block > /tmp/uevents &
monitor=$!
lab_wait 10 grep -q KERNEL /tmp/uevents || lab_fail "udevadm monitor"
# sized MEBIBYTES: the disk has them, and the kernel has told so.
resized() { [ "$(blockdev --getsize64 $LAB_DEV)" = $(($1 << 20)) ] && [ "$(grep -c '^RESIZE=1' /tmp/uevents)" = "$2" ]; }
sized() { lab_wait 30 resized "$@" || { cat /tmp/uevents; lab_fail "$LAB_DEV: $(blockdev --getsize64 $LAB_DEV) bytes"; }; }
truncate -s 72M $STORE/a.img
kill -HUP "$LAB_RBLKD"
sized 72 1
exec 8<> $LAB_DEV
# Between two lives of the target, and in use.
lab_rblkd_stop
truncate -s 96M $STORE/a.img
lab_rblkd_start --config /tmp/rblkd.conf 8<&-
sized 96 2
truncate -s 48M $STORE/a.img
kill -HUP "$LAB_RBLKD"
lab_wait 20 grep -q shrink "$LAB_RBLKD_LOG" || lab_fail "a smaller file: not a word"
is "the size, though the file is smaller" "$(blockdev --getsize64 $LAB_DEV)" $((96 << 20))
truncate -s 96M $STORE/a.img
exec 8<&-
kill $monitor
dd if=$PATTERN of=$LAB_DEV bs=64k seek=$((80 * 16)) count=2 oflag=direct status=none || lab_fail "the new end"
cmp -n 131072 -i 0:$((80 << 20)) $PATTERN $STORE/a.img || lab_broken "the new end holds other bytes"
# Answers that come together: their message ends one key, and the others are ended here.
fio --name=keys --filename=$LAB_DEV --direct=1 --ioengine=io_uring --rw=randread --bs=64k --iodepth=8 \
	--iodepth_batch_submit=8 --iodepth_batch_complete_min=8 --size=4M --output=/tmp/fio.txt || lab_fail "fio"
lab_detach
echo 0 > $TRACING/events/rblk/enable
grep rblk_ $TRACING/trace > /tmp/trace
for line in 'rblk_submit: rblk0 queue . tag .* opcode' 'rblk_register: .* bytes 65536 pages 16 key 0x' \
	'rblk_send: .* commands' 'rblk_invalidate: .* remote$' 'rblk_invalidate: .* local$' \
	'rblk_complete: .* status 0 error 0' 'rblk_event: session . event 1' 'rblk_state: session . live -> ended'; do
	grep -q "$line" /tmp/trace || { tail -n 40 /tmp/trace; lab_fail "no such line in the trace: $line"; }
done

lab_say "blocks of 4096 bytes"
lab_attach large queues=1
is getss "$(blockdev --getss $LAB_DEV)" 4096
[ "$(blockdev --getpbsz $LAB_DEV)" -ge 4096 ] || lab_fail "getpbsz: $(blockdev --getpbsz $LAB_DEV)"
dd if=$PATTERN of=$LAB_DEV bs=512 count=1 oflag=direct status=none 2> /dev/null && lab_fail "half a block was written"
filesystem $LAB_DEV trim
written $LAB_DEV
sync
cmp -n $(stat -c %s $PATTERN) $PATTERN $STORE/large.img || lab_broken "the target's file holds other bytes"
lab_detach

lab_say "read only"
lab_attach large read_only
is getro "$(blockdev --getro $LAB_DEV)" 1
dd if=/dev/zero of=$LAB_DEV bs=64k count=1 oflag=direct status=none 2> /dev/null && lab_fail "a read-only disk was written"
cmp -n $(stat -c %s $PATTERN) $PATTERN $LAB_DEV || lab_broken "a read-only disk reads other bytes"
lab_detach

# Two hosts, as their names say. Registrations outlive the target's process, as with sd and nvme.
lab_say "reservations"
lab_attach a queues=2 initiator=first
first=$LAB_DEV
lab_attach a queues=2 initiator=second
second=$LAB_DEV
# pr STATUS DEVICE CALL...: 0, or 3 for a conflict.
pr() {
	local want=$1 got=0
	shift
	"$LAB_BUILD/tests/lab/pr" "$@" > /tmp/pr 2>&1 || got=$?
	[ $got = "$want" ] || lab_fail "pr $*: $got, not $want: $(cat /tmp/pr)"
}
put() { dd if=$PATTERN of="$1" bs=4k count=1 oflag=direct conv=notrunc status=none 2> /tmp/dd; }
get() { dd if="$1" of=/dev/null bs=4k count=1 iflag=direct status=none 2> /tmp/dd; }
may() { "$@" || lab_fail "$*: $(cat /tmp/dd)"; }
may_not() {
	"$@" && lab_fail "$*: against the reservation"
	grep -q 'Invalid exchange' /tmp/dd || lab_fail "$*: $(cat /tmp/dd)"
}
connected() { [ "$(cat "/sys/block/${1#/dev/}/rblk/state")" = live ]; }
pr 3 $first reserve 0xa 1
pr 0 $first register 0 0xa
pr 3 $first register 0 0xc
pr 0 $second ignore 0xb
pr 0 $first reserve 0xa 1
pr 3 $second reserve 0xb 1
pr 1 $first reserve 0xa 9
pr 3 $first reserve 0xc 1
may put $first
may get $second
may_not put $second
kill -9 "$LAB_RBLKD"
wait "$LAB_RBLKD" 2> /dev/null
lab_rblkd_start --config /tmp/rblkd.conf
may_not put $second
pr 0 $second preempt 0xb 0xa 3
may put $second
may_not put $first
pr 3 $first release 0xa 3
pr 0 $first register 0 0xa
may put $first
# One that is asked for without a connection waits for it.
for i in 1 2 3 4 5; do
	lab_kill all "$first"
	pr 0 $first register $((9 + i)) $((10 + i))
done
pr 0 $first register 15 0xa
pr 0 $first abort 0xa 0xb 2
may put $first
may_not get $second
pr 0 $second register 0 0xb
status=0
"$LAB_BUILD/tests/lab/pr" $second keys > /tmp/keys || status=$?
case $status in
77) lab_say "this kernel tells nobody of keys" ;; # it has no ioctl for them
0)
	is keys "$(sed 's/^[0-9]* //' /tmp/keys)" '2 0xa 0xb'
	pr 0 $second holder
	is holder "$(sed 's/^[0-9]* //' /tmp/pr)" '0xa 2'
	;;
*) lab_fail "keys: $(cat /tmp/keys)" ;;
esac
pr 0 $first release 0xa 2
may get $second
pr 0 $second clear 0xb
pr 3 $first reserve 0xa 1
lab_wait 60 connected $first && lab_wait 60 connected $second || lab_fail "not connected"
LAB_DEV=$first
lab_detach
LAB_DEV=$second
lab_detach

lab_rblkd_stop

# What came at the scripted target: seen OPCODE, and of these durable OPCODE.
seen() { awk -v op="$1" '$1 == op { print $2 + 0 }' /tmp/target.log; }
durable() { awk -v op="$1" '$1 == op { print $3 }' /tmp/target.log; }
durable_writes() { dd if=$PATTERN of=$LAB_DEV bs=4k count=8 oflag=direct,dsync status=none || lab_fail "durable writes"; }

lab_say "zeroes are not sent, durable writes say so"
lab_target_start able
lab_attach disk queues=1
is fua "$(cat /sys/block/$name/queue/fua)" 1
durable_writes
blkdiscard -f -z -o 65536 -l 262144 $LAB_DEV || lab_fail "blkdiscard -z"
blkdiscard -f -o 65536 -l 262144 $LAB_DEV || lab_fail "blkdiscard"
lab_detach
lab_target_stop
cat /tmp/target.log
is "writes" "$(seen WRITE)" 8
is "writes with FUA" "$(durable WRITE)" 8
is "writings of zeroes" "$(seen WRITE_ZEROES)" 1
is "discards" "$(seen DISCARD)" 1

lab_say "durable writes where there is no FUA: flushes"
lab_target_start no-fua
lab_attach disk queues=1
is fua "$(cat /sys/block/$name/queue/fua)" 0
durable_writes
lab_detach
lab_target_stop
cat /tmp/target.log
is "writes with FUA" "$(durable WRITE)" 0
[ "$(seen FLUSH)" -ge 8 ] || lab_fail "$(seen FLUSH) flushes for 8 durable writes"

lab_kmod_unload
lab_say done

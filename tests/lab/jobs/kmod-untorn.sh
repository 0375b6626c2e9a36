# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: an untorn write (RWF_ATOMIC) to /dev/rblk0 is one untorn write of the target's disk, and what cannot be kept is
# refused. Method: a SCSI disk of the kernel's that has them (scsi_debug), whose commands are traced, a volume in memory, and
# a file, which has none. With boot-trixie fio writes untorn, too. Linux 6.11 and newer.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
untorn=$LAB_BUILD/tests/lab/untorn
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs tracefs $tracing || lab_fail "no tracefs"

modprobe sd_mod || lab_fail "sd_mod: does not load"
modprobe scsi_debug atomic_wr=1 dev_size_mb=64 || lab_fail "scsi_debug: does not load"
disk_path() { ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/sd*; }
lab_wait 20 disk_path || lab_fail "scsi_debug: no disk"
disk=$(basename "$(disk_path)")
lab_wait 20 [ -b "/dev/$disk" ] || lab_fail "/dev/$disk: does not appear"
limits=/sys/block/$disk/queue
[ "$(cat $limits/atomic_write_unit_max_bytes)" -ge 16384 ] || lab_fail "$disk: has no untorn writes: $(grep -H . $limits/atomic*)"
truncate -s 16M /var/tmp/file.img
lab_link_up
lab_rblkd_start --reactors 1 --memory ram=16M "scsi=/dev/$disk" file=/var/tmp/file.img --cache auto
lab_kmod_load

# has: the longest untorn write of the disk.
has() { cat "/sys/block/${LAB_DEV#/dev/}/queue/atomic_write_unit_max_bytes"; }
# write OFFSET BYTES CHARACTER: it is there.
write() {
	"$untorn" "$LAB_DEV" "$1" "$2" "$3" || lab_fail "$LAB_DEV: an untorn write of $2 at $1 is refused"
	[ "$(dd if="$LAB_DEV" bs=512 skip=$(($1 / 512)) count=$(($2 / 512)) iflag=direct status=none | tr -d "$3" | wc -c)" = 0 ] ||
		lab_fail "$LAB_DEV: $2 at $1 is not what was written"
}
refused() { "$untorn" "$LAB_DEV" "$1" "$2" x 2> /tmp/why && lab_fail "$LAB_DEV: $2 at $1 is not refused"; }
commands() { grep -c "raw=9c" $tracing/trace; } # WRITE ATOMIC (16)

lab_attach scsi
unit=$(has)
echo "scsi: $unit bytes of $(cat $limits/atomic_write_unit_max_bytes)"
[ "$unit" -ge 16384 ] || lab_fail "scsi: has no untorn writes: $(grep -H . /sys/block/rblk0/queue/atomic*)"
[ "$(cat "/sys/block/${LAB_DEV#/dev/}/queue/atomic_write_unit_min_bytes")" = "$(cat $limits/atomic_write_unit_min_bytes)" ] ||
	lab_fail "scsi: the shortest differs: $(grep -H . /sys/block/rblk0/queue/atomic*)"
echo 1 > $tracing/events/scsi/scsi_dispatch_cmd_start/enable
writes=0
for bytes in 4096 16384 "$unit"; do
	for at in 0 $((3 * unit)); do
		write $at "$bytes" a
		writes=$((writes + 1))
		[ "$(commands)" = $writes ] || lab_fail "$writes untorn writes are $(commands) of the disk: $(cat $tracing/trace)"
	done
done
refused 0 12288
refused 4096 16384
refused 0 $((2 * unit))
# Linux joins what is submitted together: each is still untorn, though all of them are no untorn write of a disk's.
for at in 0 16384; do
	"$untorn" "$LAB_DEV" $at 16384 m 4 || lab_fail "joined untorn writes are refused"
	cmp -n 65536 -i $at:0 "$LAB_DEV" <(head -c 65536 /dev/zero | tr '\0' m) || lab_fail "$LAB_DEV: joined untorn writes are lost"
	"$untorn" "$LAB_DEV" $at 4096 n 3 || lab_fail "joined small untorn writes are refused"
	cmp -n 12288 -i $at:0 "$LAB_DEV" <(head -c 12288 /dev/zero | tr '\0' n) || lab_fail "$LAB_DEV: small joined untorn writes are lost"
done
writes=$(commands)
if [ -n "${RBLK_LAB_PROGRAMS:-}" ]; then
	for mount in dev proc sys; do mount --rbind /$mount "$RBLK_LAB_PROGRAMS/$mount" || lab_fail "mount $mount"; done
	chroot "$RBLK_LAB_PROGRAMS" fio --name=untorn --filename="$LAB_DEV" --direct=1 --atomic=1 --ioengine=io_uring --rw=randwrite \
		--bs=16k --iodepth=8 --size=8m --verify=crc32c > /tmp/fio.log 2>&1 || lab_fail "fio: $(cat /tmp/fio.log)"
	fio_writes=$(($(commands) - writes))
	echo "fio: 512 untorn writes are $fio_writes of the disk"
	# Linux may join some.
	[ $fio_writes -gt 256 ] && [ $fio_writes -le 512 ] || lab_fail "fio: 512 untorn writes are $fio_writes of the disk's: $(tail /tmp/fio.log)"
	! grep -E "raw=(2a|8a)" $tracing/trace || lab_fail "fio: a write is not untorn"
	writes=$(commands)
fi
# Others are not.
dd if=/dev/zero of="$LAB_DEV" bs=16384 count=1 oflag=direct status=none
[ "$(commands)" = $writes ] || lab_fail "a plain write is untorn"
echo 0 > $tracing/events/scsi/scsi_dispatch_cmd_start/enable
"$RBLK" info --json "$LAB_URI/scsi" > /out/info.json || lab_fail "rblk info: fails"
jq -e ".untorn_max_bytes == $(cat $limits/atomic_write_unit_max_bytes) or .untorn_max_bytes >= $unit" /out/info.json > /dev/null ||
	lab_fail "rblk info: $(jq -c '[.untorn_min_bytes, .untorn_max_bytes]' /out/info.json)"
lab_detach

lab_attach ram volatile
[ "$(has)" -ge 16384 ] || lab_fail "ram: has no untorn writes"
write 16384 16384 b
lab_detach

lab_attach file
if [ "$(has)" = 0 ]; then
	refused 0 4096
else
	write 0 4096 c
fi
lab_detach
lab_kmod_unload
lab_rblkd_stop
rmmod scsi_debug

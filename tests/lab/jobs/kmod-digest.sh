# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: with digests, what changes between the machine with the disk and the target's memory changes no data: it is sent
# again, and if that does not help I/O fails with EILSEQ, and nothing is stored. What changes on the target's disk is the
# business of what is below the volume: dm-integrity makes it an error, and without that it is read as it is. Method: a
# wire of Soft-RoCE without its CRC (boot-nocrc), on which tc inverts a byte of packets that are full, so of data and not
# of commands. Disks without digests show that this does change data. Then a byte of the disk itself is changed.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

export DM_DISABLE_UDEV=1 # there is none: libdevmapper makes the nodes
IMAGE=/tmp/disk.img DATA=/tmp/data
attribute() { cat "/sys/block/${LAB_DEV#/dev/}/rblk/$1"; }

# flip EVERY: of the full packets in either direction each EVERYth one arrives with another byte in its middle.
# 4096 bytes of data and their headers are 4140 to 4156 bytes of IP; a command's descriptor is further in front.
flip() {
	local end
	for end in i t; do
		tc qdisc add dev wire1$end clsact &&
			tc filter add dev wire1$end egress protocol ip pref 1 u32 match ip protocol 17 0xff match u16 0x1000 0xf000 at 2 \
				action gact ok random determ pipe "$1" action pedit munge offset 2500 u8 invert ||
			lab_fail "wire1$end: tc"
	done
}
# flip_end: no more; FLIPPED is how many there were from the initiator's end (i) and from the target's (t).
declare -A FLIPPED
flip_end() {
	local end
	for end in i t; do
		FLIPPED[$end]=$(tc -s filter show dev wire1$end egress | awk '/pedit/ { here = 1 } here && $1 == "Sent" { print $4; exit }')
		tc qdisc del dev wire1$end clsact || lab_fail "wire1$end: tc"
	done
	lab_say "bytes changed: ${FLIPPED[i]} to the target, ${FLIPPED[t]} from it"
}
flipped() { [ "${FLIPPED[$1]:-0}" -ge "$2" ] || lab_fail "the wire has changed ${FLIPPED[$1]} bytes of end $1, not $2"; }

# write_data, read_data BYTES COUNT: what goes wrong is in /tmp/err.
write_data() { dd if=$DATA of="$LAB_DEV" bs="$1" count="$2" oflag=direct status=none 2> /tmp/err; }
read_data() { dd if="$LAB_DEV" of=/tmp/read bs="$1" count="$2" iflag=direct status=none 2> /tmp/err; }
must() { "$@" || lab_fail "$*: $(cat /tmp/err)"; }
# is_data FILE BYTES
is_data() { cmp -s -n "$2" "$1" $DATA; }
live() {
	[ "$(attribute state)" = live ] && [ "$(attribute losses)" = 0 ] || lab_fail "the connection was lost: $(attribute reason)"
}

for module in cls_u32 act_gact act_pedit sch_ingress dm_integrity; do
	modprobe $module || lab_fail "$module: does not load"
done
lab_link_up
lab_wire_up 1
LAB_ADDR=10.8.1.2
head -c 1M /dev/urandom > $DATA
truncate -s 16M $IMAGE
integritysetup format --batch-mode --no-wipe --integrity crc32c /dev/vda > /tmp/err 2>&1 &&
	integritysetup open --integrity crc32c --integrity-no-journal /dev/vda checked 2> /tmp/err ||
	lab_fail "integritysetup: $(cat /tmp/err)"
dd if=/dev/zero of=/dev/mapper/checked bs=1M oflag=direct status=none 2> /dev/null # until it is full
lab_rblkd_start disk=$IMAGE checked=/dev/mapper/checked plain=/dev/vdb
lab_kmod_load

# 4 KiB go with the command or by a slot, 64 KiB from and to the pages of dd.
lab_say "without digests a changed byte is stored, and read"
lab_attach disk queues=2
[ "$(attribute digest)" = 0 ] && [ "$(cat "/sys/block/${LAB_DEV#/dev/}/queue/stable_writes")" = 0 ] ||
	lab_fail "a digest that nobody asked for"
for bytes in 4096 65536; do
	flip 1
	must write_data $bytes 4
	flip_end
	flipped i 4
	! is_data $IMAGE $((4 * bytes)) || lab_fail "a byte of the wire was changed, and data was not: this job proves nothing"
	must write_data $bytes 4
	is_data $IMAGE $((4 * bytes)) || lab_broken "on a good wire other data is stored"
	flip 1
	must read_data $bytes 4
	flip_end
	flipped t 4
	! is_data /tmp/read $((4 * bytes)) || lab_fail "a byte of the wire was changed, and data was not: this job proves nothing"
done
live
lab_detach

lab_say "with digests it is sent again"
lab_attach disk queues=2 digest
[ "$(attribute digest)" = 1 ] && [ "$(cat "/sys/block/${LAB_DEV#/dev/}/queue/stable_writes")" = 1 ] || lab_fail "no digests"
"$RBLK" list --attached --json > /tmp/list || lab_fail "rblk list"
jq -e '.attached[0] | .digest and .key == null' /tmp/list > /dev/null || lab_fail "rblk list: $(cat /tmp/list)"
# So seldom that it does not strike a request and all of its three further attempts.
flip 401
fio --name=digest --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --iodepth=8 --rw=randwrite --bsrange=4k-64k --blockalign=4k \
	--size=12m --verify=crc32c --do_verify=1 --verify_fatal=1 --eta=never --output=/tmp/fio.txt &
lab_watch $! || { cat /tmp/fio.txt; lab_counters; lab_broken "fio: the above"; }
flip_end
flipped i 5
flipped t 5
# One request may have met two.
retries=$(lab_counter digest_retries)
[ "$retries" -ge 5 ] && [ "$retries" -le $((FLIPPED[i] + FLIPPED[t])) ] || lab_fail "digest_retries: $retries"
cmp -n 12M "$LAB_DEV" $IMAGE || lab_broken "the target's file holds other bytes"
live

lab_say "what changes each time fails"
must write_data 64k 4
for bytes in 4096 65536; do
	before=$(lab_counter digest_retries)
	head -c $bytes /dev/zero > /tmp/zero
	flip 1
	dd if=/tmp/zero of="$LAB_DEV" bs=$bytes oflag=direct status=none 2> /tmp/err && lab_broken "other data was stored"
	grep -q 'Invalid or incomplete multibyte' /tmp/err || lab_fail "a write: $(cat /tmp/err)"
	read_data $bytes 1 && lab_broken "other data was read"
	grep -q 'Invalid or incomplete multibyte' /tmp/err || lab_fail "a read: $(cat /tmp/err)"
	flip_end
	flipped i 4
	flipped t 4
	[ "$(lab_counter digest_retries)" = $((before + 6)) ] || lab_fail "digest_retries: $before, then $(lab_counter digest_retries)"
	is_data $IMAGE 262144 || lab_broken "what failed has changed the target's file"
done
live
must read_data 64k 4
is_data /tmp/read 262144 || lab_broken "on a good wire other data is read"
lab_detach

# spoil DEVICE: a byte of what was written, on the disk itself.
spoil() {
	local at
	at=$(LC_ALL=C grep -obUaF -m 1 "a block that is to be found" "$1" | head -n 1 | cut -d: -f1)
	[ -n "$at" ] || lab_fail "$1: does not have what was written"
	printf X | dd of="$1" bs=1 seek=$((at + 5)) conv=notrunc,fsync status=none || lab_fail "$1: cannot be written"
}
{ echo "a block that is to be found"; head -c 1M /dev/zero; } | head -c 65536 > $DATA
lab_say "a disk that changes by itself, below dm-integrity"
lab_attach checked queues=2 digest
must write_data 64k 1
must read_data 64k 1
is_data /tmp/read 65536 || lab_broken "other data than was written"
spoil /dev/vda
read_data 64k 1 && lab_broken "dm-integrity has found a changed byte, and the read succeeds"
lab_say "$(cat /tmp/err)"
live
lab_detach
lab_say "and without it"
lab_attach plain queues=2 digest
must write_data 64k 1
spoil /dev/vdb
must read_data 64k 1
! is_data /tmp/read 65536 || lab_fail "the disk was not changed"
[ "$(lab_counter digest_retries)" = 0 ] || lab_fail "the wire has changed nothing, and something was sent again"
lab_detach
lab_kmod_unload
lab_rblkd_stop
integritysetup close checked || lab_fail "integritysetup: does not close"

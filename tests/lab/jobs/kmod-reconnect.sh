# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a session outlives its connections: whatever happens to the target, its daemon or a connection, I/O waits
# and then goes on; no request ends with an error or twice, and the data is right. What was acknowledged and not
# flushed before the target's machine crashed is not passed over in silence (F7). Method: fio with verification
# writes to a volume and to files of another, on ext4, while the target is killed and started again, told to
# stop and started again, one connection or all are cut, and no packet arrives for a while. The crash of a machine
# is another boot id for a daemon that was killed.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"

RAW=/dev/rblk0 FILES=/dev/rblk1
[ -n "$LAB_SLOW" ] && SIZE=2M SPACE=64M || SIZE=16M SPACE=192M

attribute() { cat "/sys/block/${1#/dev/}/rblk/$2"; }
state_is() { [ "$(attribute "$1" state)" = "$2" ]; }
both_are() { state_is $RAW "$1" && state_is $FILES "$1"; }
wait_for() { lab_wait 60 "$@" || { grep -H . /sys/block/rblk*/{rblk/{state,reason,connections},rblk_counters/*}; lab_stacks; lab_fail "never: $*"; }; }
done_on() { awk '{ print $1 + $5 }' "/sys/block/${1#/dev/}/stat"; }
flowed() { [ "$(done_on $RAW)" -gt $((raw + 100)) ] && [ "$(done_on $FILES)" -gt $((files + 20)) ]; }
flows() { raw=$(done_on $RAW) files=$(done_on $FILES); wait_for flowed; }
all_up() { ! grep -qv ' live ' "/sys/block/${1#/dev/}/rblk/connections" && [ -z "$(attribute "$1" reason)" ]; }

# Without what this job has open: the disk itself.
target_start() { lab_rblkd_start raw=/tmp/raw.img files=/dev/vda 8<&-; }
target_kill() {
	kill -9 "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
}

# verify NAME ARGUMENT...: what is written is read back at once and compared, over and over until it is told to end.
verify() {
	local name=$1
	shift
	fio --name="$name" --eta=never --ioengine=io_uring --rw=randwrite --bsrange=4k-64k --iodepth=8 --size=$SIZE --verify=crc32c \
		--verify_backlog=64 --verify_fatal=1 --time_based --runtime=3600 --output="/tmp/$name.txt" "$@" &
}
# verified NAME PID: it ends in good order, and has seen no error.
verified() {
	kill "$2"
	lab_watch "$2"
	grep -q 'err= 0' "/tmp/$1.txt" && ! grep -qE 'verify:|error=' "/tmp/$1.txt" ||
		{ cat "/tmp/$1.txt"; lab_broken "$1: an error, or other bytes than were written"; }
}

lab_link_up
lab_wire_up 1
LAB_ADDR=10.8.1.2
truncate -s $SPACE /tmp/raw.img
target_start
lab_kmod_load
lab_once_begin
lab_attach raw queues=2 command_ms=5000 give_up_ms=600000
lab_attach files queues=2 command_ms=5000 give_up_ms=600000
mkfs.ext4 -q -F $FILES && mkdir -p /tmp/mnt && mount -o errors=remount-ro $FILES /tmp/mnt || lab_fail "no file system"
verify raw --filename=$RAW --direct=1
RAW_LOAD=$!
verify files --directory=/tmp/mnt --numjobs=1 --fsync=32
FILES_LOAD=$!
flows

lab_say "the daemon is killed and started again"
target_kill
wait_for both_are recovering
[ -n "$(attribute $RAW reason)" ] || lab_fail "no reason"
target_start
wait_for both_are live
wait_for all_up $RAW
flows
[ "$(attribute $RAW losses)" -ge 1 ] || lab_fail "no loss is counted"
[ "$(attribute $RAW retries)" -ge 1 ] || lab_fail "nothing was sent again"

lab_say "the daemon ends in good order and is started again"
lab_rblkd_stop
target_start
flows
wait_for both_are live

lab_say "connections are cut"
wait_for all_up $RAW
losses=$(attribute $RAW losses)
for i in 1 2 3; do
	lab_kill 1 rblk0
	state_is $RAW live || lab_fail "one connection of two was cut: $(attribute $RAW state)"
	wait_for all_up $RAW
	flows
done
# A machine that crawls may lose one more.
[ "$(attribute $RAW losses)" -ge $((losses + 3)) ] || lab_fail "losses: $losses, then $(attribute $RAW losses)"
for i in 0 all 0 all; do
	lab_kill $i rblk0
	lab_kill $i rblk1
	wait_for both_are live
	flows
done
for wrong in 2 x ''; do
	lab_kill "$wrong" rblk0 && lab_fail "kill_connection: \"$wrong\" was accepted"
done

lab_say "no packet arrives until the connections are lost"
lab_wire_lose 1
wait_for both_are recovering
lab_wire_restore 1
flows
wait_for both_are live

verified raw $RAW_LOAD
verified files $FILES_LOAD
umount /tmp/mnt || lab_fail "umount"
fsck.ext4 -fn $FILES > /tmp/fsck 2>&1 || { cat /tmp/fsck; lab_broken "fsck: not clean"; }
grep -H . /sys/block/rblk*/{rblk/{losses,retries},rblk_counters/*}
LAB_DEV=$FILES
lab_detach
lab_once_end

lab_say "acknowledged, not flushed, and the target's machine crashes"
LAB_DEV=$RAW
boot() {
	umount /proc/sys/kernel/random/boot_id 2> /dev/null
	cat /proc/sys/kernel/random/uuid > /tmp/boot_id
	mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id || lab_fail "no other boot id"
}
crash() {
	wait_for all_up $RAW
	target_kill
	wait_for state_is $RAW recovering
	boot
	target_start
	wait_for state_is $RAW live
}
write() { dd if=/dev/zero of=$RAW bs=4k count=4 oflag=direct conv=notrunc"$1" status=none; }
fsync() { dd if=/dev/zero of=$RAW count=0 conv=notrunc,fsync status=none 2> /tmp/fsync; }
lost_is() { [ "$(attribute $RAW writes_lost)" = "$1" ] || lab_fail "writes_lost: $(attribute $RAW writes_lost), not $1"; }
exec 8<> $RAW
fsync || lab_fail "fsync: $(cat /tmp/fsync)"
crash
lost_is 0
fsync || lab_fail "nothing could be lost, and fsync fails: $(cat /tmp/fsync)"
write '' || lab_fail "no I/O"
crash
lost_is 1
for i in 1 2 3; do
	fsync && lab_broken "fsync $i: succeeds over writes that may be lost"
	grep -q 'Remote I/O error' /tmp/fsync || lab_fail "fsync $i: $(cat /tmp/fsync)"
done
write '' && dd if=$RAW of=/dev/null bs=64k count=4 iflag=direct status=none || lab_fail "no I/O"
echo 2 2> /dev/null > /sys/block/rblk0/rblk/acknowledge && lab_fail "acknowledge: 2 was accepted"
echo 1 > /sys/block/rblk0/rblk/acknowledge || lab_fail "acknowledge"
lost_is 0
write ,fsync || lab_fail "acknowledged, and fsync fails"
write '' || lab_fail "no I/O"
crash
lost_is 1
exec 8<&-
lost_is 0
write ,fsync || lab_fail "closed by all, and fsync fails"
write '' || lab_fail "no I/O"
crash
lost_is 0 # nobody has it open
write ,fsync || lab_fail "fsync"

# Nothing of ours flushes before the crash: no commit by time, no table of inodes that is still to be filled.
lab_say "the same under a file system: it stops"
# Counted from before the mount: a mounted ext4 reads its tables ahead in the background.
lab_once_begin
lab_attach files queues=2 command_ms=5000 give_up_ms=600000
mount -o errors=remount-ro,noinit_itable,commit=3600 $FILES /tmp/mnt || lab_fail "no file system"
dd if=/dev/zero of=/tmp/mnt/file bs=4k count=4 conv=fsync status=none || lab_fail "no I/O on files"
dd if=/dev/zero of=/tmp/mnt/file bs=4k count=4 oflag=direct conv=notrunc status=none || lab_fail "no I/O on files"
crash
wait_for state_is $FILES live
[ "$(attribute $FILES writes_lost)" = 1 ] || lab_fail "files: nothing is lost"
touch /tmp/mnt/other && sync -f /tmp/mnt/other 2> /dev/null && lab_broken "a file system is synced over writes that may be lost"
touch /tmp/mnt/third 2> /dev/null && lab_broken "a file system goes on over writes that may be lost"
umount /tmp/mnt || lab_fail "umount"
lab_detach
lab_once_end
[ "$LAB_ONCE_UNBEGUN" -ge 1 ] || lab_fail "a commit began although the flush before it failed"
LAB_DEV=$RAW

lab_say "another volume of that name"
wait_for all_up $RAW
target_kill
lab_rblkd_start raw=/dev/vda
other() { attribute $RAW reason | grep -q 'another volume has its name now'; }
wait_for other
target_kill
target_start
wait_for state_is $RAW live
write ,fsync || lab_fail "no I/O"
lab_detach

lab_say "given up"
lab_attach raw queues=2 give_up_ms=1000 reconnect_ms=500
target_kill
wait_for state_is $RAW failed
write '' 2> /tmp/dd && lab_fail "a write to a device that was given up"
grep -q 'Link has been severed' /tmp/dd || lab_fail "given up: $(cat /tmp/dd)"
target_start
state_is $RAW failed || lab_fail "given up, and $(attribute $RAW state)"
lab_detach

lab_say "a target that is not there is no attach"
target_kill
answer=$(lab_control "attach address=$LAB_ADDR volume=raw give_up_ms=600000 connect_ms=2000") && lab_fail "attached without a target"
case $answer in "$LAB_ADDR:4430: "*) ;; *) lab_fail "without a target: $answer" ;; esac
lab_kmod_unload
lab_say done

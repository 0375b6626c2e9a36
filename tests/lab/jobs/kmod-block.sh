# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever the block layer and its users do to a disk under I/O, they get what they ask for, while the daemon
# is restarted, in good order and by kill -9 in turn. Method: fio writes and verifies one disk, whose I/O schedulers and
# limits change, whose attributes are read, which is opened and closed, held back by a cgroup, and whose processors
# go and come. A second disk of the same session is discarded, zeroed, made read-only, partitioned and mounted. Not one of ctest's: run it
# by hand, with the time that there is.
#   boot-kmod 6.1 -t 3600 kmod-block.sh [SECONDS [PERIOD]]    default: 300, a restart each 20
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
seconds=${1:-300} period=${2:-20}
first=/sys/block/rblk0 second=/dev/rblk1
over=/tmp/over # the exercises end when it is there

# -- what is done to the first disk ------------------------------------------------------------

set_to() { echo "$2" > "$first/queue/$1" || { echo "$1: does not become $2"; return 1; }; }
ex_schedulers() {
	local scheduler value
	for scheduler in mq-deadline bfq kyber none; do
		set_to scheduler $scheduler || return
		for value in 4 64 32; do set_to nr_requests $value && sleep 0.1 || return; done
		for value in 0 1 2; do set_to nomerges $value && set_to rq_affinity $value && sleep 0.1 || return; done
		for value in 4 64 128; do set_to max_sectors_kb $value && set_to read_ahead_kb $value && sleep 0.1 || return; done
	done
}
ex_attributes() {
	# What is read does not matter, nor what cannot be read: the kernel log must be silent.
	grep -rs . $first/ /sys/kernel/debug/block/rblk0/ > /tmp/attributes
	[ -s /tmp/attributes ] || { echo "nothing is read"; return 1; }
}
ex_opens() { lsblk -O $second > /dev/null && blkid -p -o export /dev/rblk0 > /dev/null || [ $? = 2 ]; }
ex_processors() {
	local cpu=/sys/devices/system/cpu/cpu1/online
	echo 0 > $cpu && sleep 1 && echo 1 > $cpu && sleep 1 || { echo "cpu1: does not go, or come"; return 1; }
}
# In a cgroup that may write 1 MiB a second.
ex_cgroup() {
	local group=/sys/fs/cgroup/rblk status
	mkdir -p $group && echo "$(cat $first/dev) wbps=1048576 riops=100" > $group/io.max || { echo "no limit"; return 1; }
	# Beyond what fio verifies.
	sh -c "echo \$\$ > $group/cgroup.procs && exec dd if=/dev/zero of=/dev/rblk0 bs=64k count=32 seek=1024 oflag=direct status=none"
	status=$?
	rmdir $group
	return $status
}

# -- what is done to the second ----------------------------------------------------------------

zeros() { cmp -n $((4 << 20)) -i $((32 << 20)):0 $second /dev/zero; }
ex_discard() {
	head -c 4M /dev/urandom > /tmp/pattern
	dd if=/tmp/pattern of=$second bs=256k seek=128 oflag=direct conv=fsync status=none &&
		cmp -n $((4 << 20)) -i $((32 << 20)):0 $second /tmp/pattern &&
		blkdiscard -o 32M -l 4M $second && blkdiscard -z -o 32M -l 4M $second && zeros
}
ex_read_only() {
	blockdev --setro $second || return
	! dd if=/tmp/pattern of=$second bs=4k count=1 seek=8192 oflag=direct status=none 2> /dev/null || { echo "read-only: is written"; return 1; }
	blockdev --setrw $second && dd if=/dev/zero of=$second bs=4k count=1 seek=8192 oflag=direct status=none
}
ex_partitions() {
	parted -s $second mklabel gpt mkpart one 1MiB 17MiB mkpart two 17MiB 25MiB && partprobe $second && [ -b ${second}p2 ] ||
		{ echo "no partitions"; return 1; }
	mkfs.ext4 -q -F ${second}p1 && mount -o errors=remount-ro ${second}p1 /tmp/mnt && cp -r /usr/include/linux/netfilter /tmp/mnt || return
	! blockdev --rereadpt $second 2> /dev/null || { echo "partitions are read again under a file system"; return 1; }
	umount /tmp/mnt && fsck.ext4 -fn ${second}p1 > /tmp/fsck 2>&1 || { cat /tmp/fsck; return 1; }
	parted -s $second rm 1 rm 2 && partprobe $second && [ ! -e ${second}p1 ]
}
ex_second() { ex_discard && ex_read_only && ex_partitions; }

# exercise NAME: over and over; what fails, and how often it was done, is in /tmp.
exercise() {
	(
		count=0
		until [ -e $over ]; do
			"$1" > "/tmp/$1.log" 2>&1 || { cat "/tmp/$1.log"; echo "$1 failed"; } >> /tmp/failed
			count=$((count + 1))
		done
		echo "$1: $count times" >> /tmp/rounds
	) &
	exercises+=($!)
}

lab_link_up
truncate -s 96M /tmp/first.img
truncate -s 96M /tmp/second.img
daemon=(first=/tmp/first.img second=/tmp/second.img)
lab_rblkd_start "${daemon[@]}"
lab_kmod_load
modprobe -a bfq kyber-iosched mq-deadline || lab_fail "no schedulers"
mkdir -p /tmp/mnt /sys/fs/cgroup
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup || lab_fail "no cgroups"
echo +io > /sys/fs/cgroup/cgroup.subtree_control || lab_fail "no io in cgroups"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug || lab_fail "no debugfs"
lab_attach first queues=2 give_up_ms=600000
lab_attach second queues=2 give_up_ms=600000
[ "$LAB_DEV" = $second ] || lab_fail "attached as $LAB_DEV"
fio --name=first --eta=never --ioengine=io_uring --filename=/dev/rblk0 --direct=1 --rw=randwrite --bsrange=4k-64k --iodepth=8 \
	--size=64M --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based --runtime=86400 --output=/tmp/fio.txt &
fio=$!
exercises=()
for name in schedulers attributes opens processors cgroup second; do exercise ex_$name; done

while [ $SECONDS -lt "$seconds" ] && [ ! -e /tmp/failed ]; do
	sleep "$period"
	lab_rblkd_replace "${daemon[@]}"
	kill -0 $fio 2> /dev/null || { cat /tmp/fio.txt; lab_fail "fio has ended"; }
done
touch $over
for pid in "${exercises[@]}"; do LAB_DEV=/dev/rblk0 lab_watch "$pid"; done
cat /tmp/rounds
[ ! -e /tmp/failed ] || { cat /tmp/failed; lab_broken "the above"; }
[ "$(wc -l < /tmp/rounds)" = ${#exercises[@]} ] && ! grep -q ': 0 times' /tmp/rounds || lab_fail "an exercise was not done"
kill $fio
LAB_DEV=/dev/rblk0 lab_watch $fio
grep -q 'err= 0' /tmp/fio.txt && ! grep -qE 'verify:|error=' /tmp/fio.txt || { cat /tmp/fio.txt; lab_broken "fio: the above"; }
lab_say "the daemon was replaced $LAB_REPLACED times; losses: $(cat $first/rblk/losses)"
[ "$LAB_REPLACED" -gt 0 ] || lab_fail "the daemon was never replaced"
for LAB_DEV in /dev/rblk0 $second; do lab_detach; done
lab_kmod_unload
lab_rblkd_stop

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what rblk-mirror(7) promises of MD RAID1 over two targets. A target that is killed is a pause; its leg comes back by
# itself, whether the disk had given up or not, and what is copied then is what was written meanwhile; a leg whose target lost
# its cache is written anew as a whole, for the bitmap does not know what was lost. Method: the page's own commands; two daemons,
# the second on a disk whose power can be cut; a writer of the promise journal on the array, which must see no error; the counts
# of the disks say how much was copied; a control re-adds by the bitmap a leg that has lost its cache. At the end the array's
# check, the journal, and a comparison of the two targets' disks.
. "$LAB/guest.sh"
. "$LAB/promise.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/../e2e/tutorial_blocks.sh"
page=$LAB/../../initiator/man/rblk-mirror.7.scd
fault=start
writers=(1)
LAB_MB=64

(cd "$LAB_BUILD" && cmake --install initiator > /tmp/install 2>&1) || lab_fail "install: $(tail -n 5 /tmp/install)"
ldconfig
# The page's paths, shorter waits, and in systemctl's and syslog's place what there is of them here.
mkdir -p /usr/lib/rblk /etc/rblk /etc/mdadm /etc/modprobe.d
ln -sf /usr/local/lib/rblk/md-event /usr/lib/rblk/md-event
printf '#!/bin/sh\n[ "$*" != "restart mdmonitor" ] || exec mdadm --monitor --scan --daemonise --pid-file=/run/monitor.pid\n' > /usr/local/bin/systemctl
printf '#!/bin/sh\nshift 2\necho "$*" >> /out/events\n' > /usr/local/bin/logger
chmod +x /usr/local/bin/systemctl /usr/local/bin/logger
echo "install rblk /sbin/modprobe -a rdma_cm ib_core libcrc32c; /sbin/insmod $LAB_KO" > /etc/modprobe.d/rblk-lab.conf
: > /out/events
echo "HOMEHOST <ignore>" > /etc/mdadm/mdadm.conf
/lib/systemd/systemd-udevd --daemon || lab_fail "udevd: does not start"
lab_facts() {
	dmesg | tail -n 12
	cat /proc/mdstat /out/events
	grep -H . /sys/block/rblk*/rblk/{state,name,writes_lost,reason} /sys/block/md0/md/dev-*/state 2> /dev/null
	tail -n 20 /out/writers.log
}

tutorial_blocks "$page" mirror /tmp/blocks
[ "$(ls /tmp/blocks | wc -l)" = 7 ] && [ "$(grep -c '^```' "$page")" = 14 ] || lab_fail "$page: its examples were not found"
# run NUMBER: an example of the page.
run() {
	local block=/tmp/blocks/0$1
	lab_say "$(tr '\n' ';' < "$block")"
	# A bit of the bitmap is 64 MiB by default, which is all of this disk. --wait fails when it had not to.
	sed -i 's/give-up=1min/give-up=20s/; s/--bitmap=internal/& --bitmap-chunk=64K/; s/--wait .*/& || true/' "$block"
	bash -e "$block" > /tmp/out 2>&1 || lab_fail "exit status $?: $(cat /tmp/out)"
}

# -- two targets -------------------------------------------------------------------------------------

second=10.9.0.77 powers=0
# target_start 1|2: sets pid_1 or pid_2.
target_start() {
	local disk=/dev/vda address=$LAB_ADDR
	[ "$1" = 1 ] || disk=/dev/nbd0 address=$second
	lab_rblkd_start --listen "rblk://$address" --keepalive ${alive}s disk=$disk
	eval "pid_$1=$LAB_RBLKD"
}
# The second is killed; what its disk had not made durable may be lost, and its machine was started again.
target_kill() {
	kill -KILL "$pid_2"
	wait "$pid_2" 2> /dev/null
}
power_cut() {
	rm -f /out/cut
	kill -USR1 "$cache"
	lab_wait 20 [ -s /out/cut ] || lab_fail "$fault: the disk does not lose its power"
	cat /proc/sys/kernel/random/uuid > /tmp/boot_id
	powers=$((powers + $(awk '{ print $4 }' /out/cut)))
}
lab_link_up
ip addr add $second/24 dev lab0 || lab_fail "no second address"
echo "$LAB_ADDR storage1" >> /etc/hosts
echo "$second storage2" >> /etc/hosts
cat /proc/sys/kernel/random/uuid > /tmp/boot_id
mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id || lab_fail "the boot id cannot be changed"
modprobe nbd nbds_max=1 max_part=0 && lab_wait 10 [ -b /dev/nbd0 ] || lab_fail "nbd does not load"
modprobe -a md_mod raid1 || lab_fail "MD does not load"
"$LAB_BUILD/tests/lab/volatile_disk" /dev/nbd0 $LAB_MB /out/cut &
cache=$!
disk_ready() { [ "$(blockdev --getsize64 /dev/nbd0)" = $((LAB_MB << 20)) ]; }
lab_wait 10 disk_ready || lab_fail "/dev/nbd0: has no size"
target_start 1
target_start 2

# -- the array ---------------------------------------------------------------------------------------

md=/sys/block/md0/md
leg() { basename "$(readlink -f /dev/rblk/by-name/b)"; }
state_is() { [ "$(cat "/sys/block/$(leg)/rblk/state")" = "$1" ]; }
dropped() { [ "$(cat $md/degraded)" = 1 ] && grep -q '_\]' /proc/mdstat; }
whole() { [ "$(cat $md/degraded)" = 0 ] && [ "$(cat $md/sync_action)" = idle ]; }
come_back() { lab_wait 60 whole || lab_fail "$fault: the leg does not come back"; }
events() { grep -c "volume b: $1" /out/events; }
# written: KiB that were written to the second leg since it was attached.
written() { awk '{ printf "%d", $7 / 2 }' "/sys/block/$(leg)/stat"; }

run 1
udevadm settle
run 2
lab_wait 60 whole || lab_fail "the first copy does not end"
run 3
lab_wait 20 [ -s /run/monitor.pid ] || lab_fail "the monitor does not run"
run 4
systemd-analyze verify --man=no /etc/systemd/system/mirror.service > /tmp/verify 2>&1 && ! grep mirror /tmp/verify ||
	lab_fail "systemd-analyze: $(cat /tmp/verify)"
# The writer is slow enough, and has few enough blocks, that what it writes is far less than all of the disk.
writer_start() { promise_start 1 --blocks 512 --max-blocks 4 --depth 2 --give-up 600000 /dev/md0; }
writer_start

fault="a target killed, back before its disk gives up"
lab_say "$fault"
progress 100
before=$(written)
target_kill
lab_wait 20 dropped || lab_fail "$fault: MD does not drop the leg"
state_is recovering || lab_fail "$fault: the disk is $(cat "/sys/block/$(leg)/rblk/state")"
target_start 2
come_back
progress 20
[ "$(events 'is back; what was')" = 1 ] || lab_fail "$fault: no such event"
# On a slow machine it may have given up after all.
after=$(written)
lab_say "written to the leg: $((after < before ? after : after - before)) KiB of $((LAB_MB << 10))"

fault="a disk that has given up"
lab_say "$fault"
target_kill
lab_wait 20 dropped || lab_fail "$fault: MD does not drop the leg"
lab_wait 60 state_is failed || lab_fail "$fault: it does not give up"
progress 100
target_start 2
come_back
[ "$(events 'is back; what was')" = 2 ] || lab_fail "$fault: no such event"
# All of what this disk has been given: it was attached only now.
copied=$(written)
lab_say "written to the leg: $copied KiB of $((LAB_MB << 10))"
[ "$copied" -lt $((LAB_MB << 9)) ] || lab_fail "$fault: half of the disk was copied"

fault="a cache that is lost, while the disk connects again"
lab_say "$fault"
progress 100
before=$(written)
target_kill
power_cut
target_start 2
written_anew() { whole && [ "$(events 'is back, and is written anew')" = "$1" ]; }
lab_wait 60 written_anew 1 || lab_fail "$fault: the leg is not written anew"
lab_say "written to the leg: $(($(written) - before)) KiB"
[ $(($(written) - before)) -ge $((LAB_MB * 1000)) ] || lab_fail "$fault: not all was copied"

fault="a cache that is lost, and a disk that has given up"
lab_say "$fault"
progress 100
target_kill
power_cut
lab_wait 60 state_is failed || lab_fail "$fault: it does not give up"
target_start 2
lab_wait 60 written_anew 2 || lab_fail "$fault: the leg is not written anew"
[ "$(written)" -ge $((LAB_MB * 1000)) ] || lab_fail "$fault: not all was copied"
[ $powers -gt 0 ] || lab_fail "no cache has lost anything"

# Is that needed? A leg whose target has lost its cache is re-added by the bitmap, which is what md-event does not do.
fault="the control"
lab_say "$fault"
writers_stop
kill "$(cat /run/monitor.pid)"
dirty() { mdadm --examine-bitmap /dev/rblk/by-name/a | awk '/dirty/ { print $(NF - 2) }'; }
clean() { [ "$(dirty)" -le 1 ]; }
lab_wait 20 clean || lab_fail "$fault: the bitmap has $(dirty) bits"
echo 600 > $md/safe_mode_delay # the superblock's next write would flush
dd if=/dev/urandom of=/tmp/pattern bs=1M count=1 status=none
dd if=/tmp/pattern of=/dev/md0 bs=1M seek=32 oflag=direct status=none || lab_fail "$fault: no write"
target_kill
power_cut
target_start 2
dd if=/tmp/pattern of=/dev/md0 bs=4k count=1 seek=12288 oflag=direct conv=fsync status=none || lab_broken "$fault: the array fails"
lab_wait 20 dropped || lab_fail "$fault: MD does not drop the leg"
lab_wait 20 clean || lab_fail "$fault: the bitmap has $(dirty) bits"
left() { mdadm /dev/md0 --remove /dev/rblk/by-name/b; }
lab_wait 20 left || lab_fail "$fault: the leg is not removed"
mdadm /dev/md0 --re-add /dev/rblk/by-name/b > /tmp/out 2>&1 || lab_fail "$fault: $(cat /tmp/out)"
come_back
echo check > $md/sync_action
lab_wait 60 whole || lab_fail "$fault: the check does not end"
lab_say "re-added by the bitmap, the legs differ in $(cat $md/mismatch_cnt) sectors"
[ "$(cat $md/mismatch_cnt)" -gt 0 ] || lab_fail "$fault: the bitmap had it all"
writer_start

fault="by hand"
mdadm /dev/md0 --fail /dev/rblk/by-name/b > /tmp/out 2>&1 || lab_fail "$fault: $(cat /tmp/out)"
lab_wait 20 left || lab_fail "$fault: the leg is not removed"
run 5
come_back
progress 20
writers_stop

# MD does not pass on that a FLUSH has failed, only what becomes of its own writes; the disk tells it in any case.
fault="a cache that is lost, of the last leg"
lab_say "$fault"
mdadm /dev/md0 --fail /dev/rblk/by-name/a > /tmp/out 2>&1 || lab_fail "$fault: $(cat /tmp/out)"
left() { mdadm /dev/md0 --remove /dev/rblk/by-name/a; }
lab_wait 20 left || lab_fail "$fault: the leg is not removed"
echo 600 > $md/safe_mode_delay
dd if=/tmp/pattern of=/dev/md0 bs=1M seek=40 oflag=direct status=none || lab_fail "$fault: no write"
target_kill
power_cut
target_start 2
dd if=/tmp/pattern of=/dev/md0 bs=4k count=1 seek=12288 oflag=direct conv=fsync status=none 2> /tmp/out
lab_say "$fault: fsync says $?: $(cat /tmp/out)"
[ "$(cat "/sys/block/$(leg)/rblk/writes_lost")" = 1 ] || lab_broken "$fault: the disk does not tell"
echo 1 > "/sys/block/$(leg)/rblk/acknowledge"
mdadm --zero-superblock /dev/rblk/by-name/a
mdadm /dev/md0 --add --failfast /dev/rblk/by-name/a > /tmp/out 2>&1 || lab_fail "$fault: $(cat /tmp/out)"
come_back

fault=end
promise_check /dev/md0 1
run 6
[ "$(tail -n 1 /tmp/out)" = 0 ] || lab_broken "the legs differ in $(tail -n 1 /tmp/out) sectors"
offset=$(($(mdadm --examine /dev/rblk/by-name/a | awk '/Data Offset/ { print $4 }') * 512))
bytes=$(blockdev --getsize64 /dev/md0)
run 7
kill "$pid_1" "$pid_2"
wait "$pid_1" "$pid_2" || lab_fail "rblkd: exit status $?"
[ "$offset" -gt 0 ] && cmp -n "$bytes" -i "$offset" /dev/vda /dev/nbd0 || lab_broken "the targets' disks differ"
udevadm control --exit
lab_kmod_unload
cat /out/events
lab_say done

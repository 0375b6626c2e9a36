# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the kernel's own NVMe host has two paths to a volume, by its native multipath, and one of them may fall silent, be
# disconnected, or end with the daemon, and come back: I/O goes on by the other one without an error, and data is right. Method:
# fio with verification on the disk, whose paths are two wires; of ANA's states the kernel and nvme-cli tell.
. "$LAB/guest.sh"
RBLKCTL=$LAB_BUILD/target/ctl/rblkctl
[ -n "$LAB_SLOW" ] && SIZE=1M || SIZE=8M
host=(-t tcp -s 4420 --hostid=00000000-0000-0000-0000-00000000000a
	--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a)

target_start() { lab_rblkd_start --listen nvme+tcp://10.8.1.2:4420 --listen nvme+tcp://10.8.2.2:4420 disk=/tmp/disk.img; }
lab_facts() { nvme list-subsys; grep . /sys/class/nvme/nvme*/{address,state,nvme*c*/ana_state}; dmesg | tail -n 30; } 2> /dev/null
disk() { DISK=$(lsblk -dnpo NAME | grep '^/dev/nvme'); [ -b "$DISK" ]; }
# Of a wire: its path's controller; is PATH STATE: so it is.
controller() { dirname "$(grep -l "traddr=10.8.$1.2," /sys/class/nvme/nvme*/address)"; }
is() { [ "$(cat "$(controller "$1")"/nvme*c*/ana_state)" = "$2" ] && grep -qx live "$(controller "$1")/state"; }
wait_for() { lab_wait 60 "$@" || lab_fail "never: $*"; }
connect() {
	nvme connect "${host[@]}" -a "10.8.$1.2" -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=600 > /tmp/out 2>&1 ||
		lab_fail "connect: $(cat /tmp/out)"
}
done_on() { cat /sys/block/nvme*c*n*/stat | awk '{ n += $1 + $5 } END { print n }'; }
flowed() { [ "$(done_on)" -gt $((before + 100)) ]; }
flows() { before=$(done_on); wait_for flowed; }
# Both are there, and one is in charge, the path by wire FIRST. (On a busy machine a path may have been lost by itself.)
in_charge() { is "$1" optimized && is "$2" inaccessible && FIRST=$1 SECOND=$2; }
settled() { in_charge 1 2 || in_charge 2 1; }

lab_link_up
lab_wire_up 1
lab_wire_up 2
modprobe nvme-tcp || lab_fail "nvme-tcp does not load"
truncate -s 64M /tmp/disk.img
target_start
nqn=$(nvme discover "${host[@]}" -a 10.8.1.2 | awk '$1 == "subnqn:" { print $2 }')
connect 1
connect 2
lab_wait 20 disk || lab_fail "no disk"
nvme list-subsys
nvme ana-log "/dev/$(basename "$(controller 2)")" > /tmp/out 2>&1 || lab_fail "ana-log: $(cat /tmp/out)"
cat /tmp/out
grep -q inaccessible /tmp/out || lab_fail "ana-log: not inaccessible"
[ "$("$RBLKCTL" sessions --json | jq '.sessions | length')" = 2 ] || lab_fail "not two sessions"
fio --name=paths --filename="$DISK" --direct=1 --eta=never --ioengine=io_uring --rw=randwrite --bsrange=4k-64k --iodepth=8 \
	--size=$SIZE --numjobs=2 --offset_increment=$SIZE --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based \
	--runtime=3600 --output=/tmp/paths.txt &
load=$!
for round in 1 2 3; do
	wait_for settled
	flows
	lab_say "round $round: wire $FIRST is silent"
	lab_wire_lose "$FIRST"
	wait_for is "$SECOND" optimized
	flows
	lab_wire_restore "$FIRST"
done
wait_for settled
lab_say "path $FIRST is disconnected"
nvme disconnect -d "$(basename "$(controller "$FIRST")")" > /tmp/out 2>&1 || lab_fail "disconnect: $(cat /tmp/out)"
wait_for is "$SECOND" optimized
flows
connect "$FIRST"
wait_for settled
lab_say "the daemon is killed, and started again"
kill -9 "$LAB_RBLKD"
wait "$LAB_RBLKD" 2> /dev/null
target_start
wait_for settled
flows
kill $load
wait $load
grep -q 'err= 0' /tmp/paths.txt && ! grep -qE 'verify:|error=' /tmp/paths.txt ||
	{ cat /tmp/paths.txt; lab_broken "an error, or other bytes than were written"; }
cmp -n $((2 * $(numfmt --from=iec $SIZE))) "$DISK" /tmp/disk.img || lab_broken "the target's file holds other bytes"
nvme disconnect -n "$nqn" > /tmp/out || lab_fail "disconnect"
lab_rblkd_stop
lab_say done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: RDMA devices are removed and added under rblkd, more often than a fabric has places for them. Each time
# rblkd listens again on the device's address, logs both, releases the old device, and accepts logins there and
# on its wildcard address. A block device that grows is served whole after a reload, and without one from the next
# OPEN on; it never shrinks unless that is allowed. A daemon that has ended has released its block devices. Method:
# two Soft-RoCE devices. One of them is deleted, while a session and reactors with earlier sessions use it, and
# added again. A loop device whose file is made longer, and which another program then opens exclusively.
#   target-device.sh [TIMES]
. "$LAB/guest.sh"
times=${1:-20}
away=10.8.0.1

lab_link_up
ip link add lab1 type dummy && ip link set lab1 mtu 9000 up && ip addr add $away/24 dev lab1 || lab_fail "lab1"
device_up() { rdma link add rxe1 type rxe netdev lab1 && lab_wait 10 grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state; }
device_up || lab_fail "rxe1: cannot be added"

lab_rblkd_start --reactors 2 --memory m=4M --listen rblk://$away --listen rblk://:4431
logged() { [ "$(grep -c "$1" "$LAB_RBLKD_LOG")" -ge "$2" ]; }
sessions() { grep -c ': initiator ' "$LAB_RBLKD_LOG"; }
more_sessions() { [ "$(sessions)" -gt "$1" ]; }
for ((i = 1; i <= times; i++)); do
	# Each goes to the reactor with fewer sessions, so both reactors use the device.
	before=$(sessions)
	"$RBLK" ping --count 10000000 rblk://$away > /out/ping.log 2>&1 &
	ping=$!
	lab_wait 20 more_sessions "$before" || lab_fail "time $i: no session: $(cat /out/ping.log)"
	"$RBLK" info rblk://$away/m > /out/info.log 2>&1 || lab_fail "time $i: $(cat /out/info.log)"
	timeout 60 rdma link delete rxe1 || lab_fail "time $i: rxe1 is not deleted: $(tail -n 5 "$LAB_RBLKD_LOG")"
	wait $ping && lab_fail "time $i: the session did not end"
	logged "rblk://$away:4430: its device was removed" $i || lab_fail "time $i: the removal is not logged"
	device_up || lab_fail "time $i: rxe1 does not come back"
	lab_wait 20 logged "rblk://$away:4430: is there now: listening" $i ||
		lab_fail "time $i: does not listen again: $(tail -n 5 "$LAB_RBLKD_LOG")"
	for uri in rblk://$away/m rblk://$away:4431/m rblk://$LAB_ADDR:4431/m; do
		"$RBLK" info $uri > /out/info.log 2>&1 || lab_fail "time $i: $uri: $(cat /out/info.log)"
	done
done
lab_rblkd_stop

lab_say "a disk that grows"
modprobe loop || lab_fail "loop: does not load"
truncate -s 8M /tmp/disk.img && disk=$(losetup --find --show /tmp/disk.img) || lab_fail "loop: no device"
lab_rblkd_start disk="$disk"
resize() { truncate -s "$1" /tmp/disk.img && losetup --set-capacity "$disk" || lab_fail "$disk: does not become $1"; }
served() { "$RBLK" info --json "$LAB_URI/disk" 2> /out/info.log | jq -e ".bytes == ($1)" > /dev/null; }
served '8 * 1048576' || lab_fail "8M: $(cat /out/info.log)"
resize 16M
kill -HUP "$LAB_RBLKD"
lab_wait 20 logged 'volume disk: now ' 1 || lab_fail "the reload has not noticed: $(tail -n 5 "$LAB_RBLKD_LOG")"
served '16 * 1048576' || lab_fail "after a reload: $(cat /out/info.log)"
resize 24M
served '24 * 1048576' || lab_fail "at OPEN: $(cat /out/info.log)"
logged 'volume disk: has grown: now ' 1 || lab_fail "the growth is not logged"
head -c 24M /dev/urandom > /tmp/data
"$RBLK" copy --quiet /tmp/data "$LAB_URI/disk" > /out/copy.log 2>&1 || lab_fail "copy: $(cat /out/copy.log)"
cmp /tmp/data "$disk" || lab_broken "$disk: other bytes than were copied"
resize 12M
served '24 * 1048576' || lab_fail "shrunk at OPEN: $(cat /out/info.log)"
kill -HUP "$LAB_RBLKD"
lab_wait 20 logged 'set allow_shrink = yes to allow it' 1 || lab_fail "shrunk: $(tail -n 5 "$LAB_RBLKD_LOG")"
lab_rblkd_stop

lab_say "a disk that is released"
modprobe dm-mod || lab_fail "dm-mod: does not load"
for ((i = 1; i <= 5; i++)); do
	lab_rblkd_start disk="$disk"
	"$RBLK" copy --quiet "$LAB_URI/disk" /dev/null > /out/copy.log 2>&1 || lab_fail "copy: $(cat /out/copy.log)"
	lab_rblkd_stop
	# It opens the disk exclusively.
	dmsetup create --noudevsync taken --table "0 $(blockdev --getsz "$disk") linear $disk 0" ||
		lab_fail "time $i: $disk: not released when rblkd ended"
	dmsetup remove --noudevsync taken || lab_fail "dmsetup remove"
done

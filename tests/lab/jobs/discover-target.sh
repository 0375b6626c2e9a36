# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of the test of discovery over RDMA: rblkd, which is asked over UDP at another port than host 2 asks; see
# discover-initiator.sh. It looks at the daemon's numbers, and takes its RDMA device away and gives it back.
. "$LAB/guest.sh"

log_count() { grep -c -- "$1" "$LAB_RBLKD_LOG" || true; }
# counted N: the N-th number of the log's last line about discovery.
counted() { sed -nE "s/.*discovery: storage1: ([0-9]+) queries answered, ([0-9]+) over the limits, ([0-9]+) malformed/\\$1/p" \
	"$LAB_RBLKD_LOG" | tail -1; }
status() {
	local before
	before=$(log_count 'discovery: storage1:')
	kill -USR1 "$LAB_RBLKD"
	more() { [ "$(log_count 'discovery: storage1:')" -gt "$before" ]; }
	lab_wait 10 more || lab_fail "no line about discovery"
}
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$LAB_RBLKD/status"; }
joined() { [ "$(log_count "queries over RDMA on eth0, device $LAB_RDMA, are answered as storage1")" = "$1" ]; }

lab_link_up
# Another device: librdmacm lets go of one that has gone only while there is another.
ip link add lab1 type dummy && ip link set lab1 mtu 9000 up && rdma link add rxe1 type rxe netdev lab1 || lab_fail "rxe1"
lab_rblkd_start --open --discovery eth0 --discovery-port 4431 --name storage1 --memory ram=32M
lab_wait 10 joined 1 || lab_fail "the group was not joined"
lab_meet serving

lab_meet twisted
status
[ "$(counted 3)" = "$(cat /pair/malformed)" ] || lab_fail "$(counted 3) malformed, not $(cat /pair/malformed)"
rss=$(rss)
lab_meet flood
lab_meet flooded 300
status
# It reads 640 a second; the rest it has not even seen.
[ "$(counted 2)" -gt 100 ] || lab_fail "of 2000 queries, only $(counted 2) were over the limits"
[ $(($(rss) - rss)) -lt 2048 ] || lab_fail "memory: $rss KiB, now $(rss)"
log_count 'discovery: too many queries, lately from 10.9.0.2 on eth0' | grep -q '^[12]$' || lab_fail "lines about the flood"

lab_say "a liar in the same group"
"$LAB_BUILD/tests/lab/group_peer" lie "$LAB_ADDR" > /tmp/liar &
liar=$!
lab_wait 10 grep -q ready /tmp/liar || lab_fail "the liar does not come"
lab_meet lying
lab_meet unbelieved 300
kill $liar
wait $liar || true

lab_say "the device goes, and comes again"
timeout 60 rdma link del "$LAB_RDMA" || lab_fail "$LAB_RDMA is not deleted"
grep -q "eth0 is not found over RDMA for now: $LAB_RDMA: the device was removed" "$LAB_RBLKD_LOG" ||
	lab_fail "the log does not tell of the device"
lab_meet gone
lab_meet unfound 300
rdma link add "$LAB_RDMA" type "$LAB_LINK" netdev eth0 || lab_fail "no $LAB_RDMA"
lab_wait 30 joined 2 || lab_fail "the group was not joined again"
lab_meet back
lab_meet done 300
lab_rblkd_stop

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a target is found over RDMA, by UD multicast, and attached by its name; queries that break a rule are not answered, a
# flood of them gets so many answers and no more, while I/O goes on; wrong answers are not believed; a device may go and
# come. Method: two hosts. The target answers UDP at another port than is asked here: what is found is found over RDMA.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

PEER=$LAB_BUILD/tests/lab/group_peer
lab_facts() { cat /tmp/out /tmp/err; }
# run STATUS ARGUMENT...: rblk; its output is in /tmp/out, its errors in /tmp/err.
run() {
	local want=$1 got=0
	shift
	"$RBLK" "$@" > /tmp/out 2> /tmp/err || got=$?
	[ "$got" = "$want" ] || lab_fail "rblk $*: status $got, not $want"
}
json() { jq -e "$1" /tmp/out > /dev/null || lab_fail "not so: $1"; }
# found: datagrams may be lost, the limits may not allow an answer at once, and emulated machines are slow.
found() { "$RBLK" discover --json --over rdma --time 3s > /tmp/out 2> /tmp/err && jq -e '.targets | length > 0' /tmp/out; }
is_storage1='.errors == [] and (.targets | length) == 1 and (.targets[0] | .target_name == "storage1" and
	.protocol == 2 and .interface == "eth0" and .over == ["rdma"] and
	(.portals | sort) == ["rblk://10.9.0.1:4430", "rblk://[fd09::1]:4430"])'

lab_link_up
lab_kmod_load
lab_meet serving
lab_wait 20 found || lab_fail "not found"
json "$is_storage1"
run 0 discover --json --over udp --time 500ms
json '.targets == []'
by_name() { "$RBLK" discover --time 3s storage1 > /tmp/out 2> /tmp/err; }
lab_wait 20 by_name || lab_fail "not found by its name"
grep -qE '^storage1 +rblk://10\.9\.0\.1:4430 +2 +eth0 +rdma$' /tmp/out || lab_fail "the table"
run 1 discover --over rdma --time 500ms storage2
attach() { "$RBLK" attach --volatile --discover storage1 ram > /tmp/out 2> /tmp/err; }
lab_wait 20 attach || lab_fail "attach"
run 0 list --attached --json
json '.attached | length == 1 and .[0].uri == "discover://storage1/ram" and .[0].state == "live"'
head -c 4M /dev/urandom > /tmp/data
# From every processor, which have queues of their own: then the target has touched all memory that it uses for them.
for cpu in $(seq 0 $(($(nproc) - 1))); do
	taskset -c "$cpu" dd if=/tmp/data of=/dev/rblk0 bs=64k oflag=direct status=none || lab_fail "write"
	taskset -c "$cpu" dd if=/dev/rblk0 bs=64k count=64 iflag=direct status=none | cmp - /tmp/data || lab_broken "data differs"
done

lab_say "queries that break a rule"
"$PEER" twists "$LAB_ADDR" > /tmp/twists || lab_fail "twists"
sed 's/ malformed//' /tmp/twists > /pair/malformed
[ "$(cat /pair/malformed)" -gt 15 ] || lab_fail "too few: $(cat /tmp/twists)"
lab_meet twisted

lab_say "a flood, while I/O goes on"
lab_meet flood
began=$SECONDS
"$PEER" flood "$LAB_ADDR" 2000 > /tmp/flood &
flood=$!
head -c 4M /dev/urandom > /tmp/data
dd if=/tmp/data of=/dev/rblk0 bs=64k oflag=direct status=none || lab_fail "write"
dd if=/dev/rblk0 bs=64k count=64 iflag=direct status=none | cmp - /tmp/data || lab_broken "data differs"
wait $flood || lab_fail "flood"
answers=$(sed 's/ answers//' /tmp/flood)
# 16 at once and 2 a second; $SECONDS is whole seconds.
[ "$answers" -ge 1 ] && [ "$answers" -le $((16 + 2 * (SECONDS - began + 2))) ] ||
	lab_fail "$answers answers in $((SECONDS - began)) seconds"
[ "$(cat /sys/block/rblk0/rblk/losses)" = 0 ] || lab_fail "the connection was lost"
run 0 detach rblk0
lab_meet flooded

lab_meet lying 300
lab_wait 60 found || lab_fail "not found beside a liar"
json "$is_storage1"
lab_meet unbelieved
lab_meet gone 300
run 0 discover --json --over rdma
json '.targets == [] and .errors == []'
lab_meet unfound
lab_meet back 300
lab_wait 60 found || lab_fail "not found again"
json "$is_storage1"

lab_say "this machine's device goes"
timeout 60 rdma link del "$LAB_RDMA" || lab_fail "$LAB_RDMA is not deleted"
run 1 discover --over rdma
grep -q 'no network interface is up that has an RDMA device' /tmp/err || lab_fail "the reason"
lab_kmod_unload
lab_meet done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever strikes the target, a path or a writer over RDMA, no writer sees an error, and the disk holds
# everything that was acknowledged. Method: three writers of the promise journal through librblk, the second with
# its queues over two portals on two RDMA devices, the third with one portal over RDMA and one over TCP; promise.sh
# has the rest.
#   faults.sh [ROUNDS] [FAULT...]    default: 2 of all seven
# client: a writer is killed and goes on with its journal; device: the RDMA device of one portal is deleted and made
# again; tcp: the address of the portal over TCP goes and comes back; the others are promise.sh's.
. "$LAB/guest.sh"
. "$LAB/promise.sh"
rounds=${1:-2}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- kill restart pause client device tcp disk
away=10.8.0.1
tcp=10.8.1.1
writers=(1 2 3)

writer_start() {
	local uri=$LAB_URI/disk queues=2
	[ "$1" != 2 ] || uri=rblk://$LAB_ADDR,$away/disk queues=4
	[ "$1" != 3 ] || uri=rblk://$away,rblk+tcp://$tcp/disk queues=4
	promise_start "$1" --first $((($1 - 1) * 2048)) --blocks 2048 --max-blocks 8 --queues $queues --give-up 600000 "$uri"
}
losses() { lines "$1" '^N .* recovering'; }
target_start() {
	lab_rblkd_start --keepalive 1s --listen "rblk://$LAB_ADDR" --listen "rblk://$away" --listen "rblk+tcp://$tcp" disk=/dev/mapper/disk
}
compare() { promise_check /dev/mapper/disk "${writers[@]}" > /out/last; }
fault_client() {
	kill -KILL "${pids[1]}"
	wait "${pids[1]}" 2> /dev/null
	writer_start 1
}
device_up() {
	rdma link add rxe1 type rxe netdev lab1 && lab_wait 10 grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state
}
fault_device() {
	timeout 120 rdma link delete rxe1 || lab_fail "$fault: rxe1 is not deleted"
	progress 50
	device_up || lab_fail "$fault: rxe1 does not come back"
}

# over_tcp COUNT: has the third writer so many connections over TCP?
over_tcp() { [ "$(ss -Htn state established dst "$tcp:4430" | wc -l)" = "$1" ]; }
fault_tcp() {
	lab_wait 60 over_tcp 2 || lab_fail "$fault: writer 3 does not use TCP: $(ss -tn)"
	ip addr del $tcp/24 dev lab2 || lab_fail "$fault: $tcp stays"
	lab_wait 60 over_tcp 0 || lab_fail "$fault: writer 3 does not notice: $(ss -tn)"
	progress 50
	ip addr add $tcp/24 dev lab2 || lab_fail "$fault: $tcp does not come back"
	lab_wait 60 over_tcp 2 || lab_fail "$fault: writer 3 does not come back to TCP: $(ss -tn)"
}

lab_link_up
ip link add lab1 type dummy && ip link set lab1 mtu 9000 up && ip addr add $away/24 dev lab1 || lab_fail "lab1"
ip link add lab2 type dummy && ip link set lab2 up && ip addr add $tcp/24 dev lab2 || lab_fail "lab2"
device_up || lab_fail "rxe1: is not made"
disks_make disk=/dev/vda
dd if=/dev/zero of=/dev/vda bs=1M count=24 oflag=direct status=none || lab_fail "/dev/vda: cannot be filled"
fault=start
target_start
promise_rounds "$rounds" "$@"
lab_rblkd_stop
cat /out/last
lab_say "$count faults"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever strikes the target, a path or a writer over RDMA, no writer sees an error, and the disk holds
# everything that was acknowledged. Method: two writers of the promise journal through librblk, the second with
# its queues over two portals on two RDMA devices; promise.sh has the rest.
#   faults.sh [ROUNDS] [FAULT...]    default: 4 of all six
# client: a writer is killed and goes on with its journal; device: the RDMA device of one portal is deleted and made
# again; the others are promise.sh's.
. "$LAB/guest.sh"
. "$LAB/promise.sh"
rounds=${1:-4}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- kill restart pause client device disk
away=10.8.0.1
writers=(1 2)

writer_start() {
	local uri=$LAB_URI/disk queues=2
	[ "$1" = 1 ] || uri=rblk://$LAB_ADDR,$away/disk queues=4
	promise_start "$1" --first $((($1 - 1) * 2048)) --blocks 2048 --max-blocks 8 --queues $queues --give-up 600000 "$uri"
}
losses() { lines "$1" '^N .* recovering'; }
target_start() {
	lab_rblkd_start --keepalive 1s --listen "rblk://$LAB_ADDR" --listen "rblk://$away" disk=/dev/mapper/disk
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

lab_link_up
ip link add lab1 type dummy && ip link set lab1 mtu 9000 up && ip addr add $away/24 dev lab1 || lab_fail "lab1"
device_up || lab_fail "rxe1: is not made"
disks_make disk=/dev/vda
dd if=/dev/zero of=/dev/vda bs=1M count=16 oflag=direct status=none || lab_fail "/dev/vda: cannot be filled"
fault=start
target_start
promise_rounds "$rounds" "$@"
lab_rblkd_stop
cat /out/last
lab_say "$count faults"

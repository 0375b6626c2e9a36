# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever strikes the target, a path or a writer over RDMA, no writer sees an error, and the disk holds
# everything that was acknowledged. Method: three writers of the promise journal through librblk: the first over one
# wire, the second with its queues over two, the third with one path over a wire and one over TCP; promise.sh has the
# rest.
#   faults.sh [ROUNDS [FAULT...]]    default: 1 of all
# client: a writer is killed and goes on with its journal; tcp: the address of the path over TCP goes and comes back;
# the others are promise.sh's.
. "$LAB/guest.sh"
. "$LAB/promise.sh"
rounds=${1:-1}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- kill restart pause client tcp disk slow silence path loss reorder late device link memory cgroup
tcp=10.8.3.1
writers=(1 2 3)
wires=(1 2)
wired=(1 2)

writer_start() {
	local uri=rblk://10.8.1.2/disk queues=2
	[ "$1" != 2 ] || uri=rblk://10.8.1.2,10.8.2.2/disk queues=4
	[ "$1" != 3 ] || uri=rblk://10.8.2.2,rblk+tcp://$tcp/disk queues=4
	promise_start "$1" --first $((($1 - 1) * 2048)) --blocks 2048 --max-blocks 8 --queues $queues --give-up 600000 "$uri"
}
losses() { lines "$1" '^N .* recovering'; }
target_start() {
	lab_rblkd_start --keepalive ${alive}s --listen rblk://10.8.1.2 --listen rblk://10.8.2.2 --listen "rblk+tcp://$tcp" \
		disk=/dev/mapper/disk
}
compare() { promise_check /dev/mapper/disk "${writers[@]}" > /out/last; }
fault_client() {
	kill -KILL "${pids[1]}"
	wait "${pids[1]}" 2> /dev/null
	writer_start 1
}

# over_tcp COUNT: has the third writer so many connections over TCP?
over_tcp() { [ "$(ss -Htn state established dst "$tcp:4430" | wc -l)" = "$1" ]; }
fault_tcp() {
	lab_wait 60 over_tcp 2 || lab_fail "$fault: writer 3 does not use TCP: $(ss -tn)"
	ip addr del "$tcp/24" dev lab1 || lab_fail "$fault: $tcp stays"
	lab_wait 60 over_tcp 0 || lab_fail "$fault: writer 3 does not notice: $(ss -tn)"
	progress 50
	ip addr add "$tcp/24" dev lab1 || lab_fail "$fault: $tcp does not come back"
	lab_wait 60 over_tcp 2 || lab_fail "$fault: writer 3 does not come back to TCP: $(ss -tn)"
}

lab_link_up
for wire in "${wires[@]}"; do lab_wire_up "$wire"; done
ip link add lab1 type dummy && ip link set lab1 up && ip addr add "$tcp/24" dev lab1 || lab_fail "lab1"
disks_make disk=/dev/vda
dd if=/dev/zero of=/dev/vda bs=1M count=24 oflag=direct status=none || lab_fail "/dev/vda: cannot be filled"
fault=start
target_start
promise_rounds "$rounds" "$@"
lab_rblkd_stop
cat /out/last
lab_say "$count faults"

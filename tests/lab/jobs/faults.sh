# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever strikes the target, a path or a writer over RDMA, no writer sees an error, and the disk holds
# everything that was acknowledged. Method: two writers of the promise journal through librblk, the second with
# its queues over two portals on two RDMA devices; each fault when both have got on; when both get on again, they
# end, and the disk itself is compared.
#   faults.sh [ROUNDS] [FAULT...]    default: 4 of all six
# kill, restart, pause: rblkd is killed, ends at SIGTERM, stands still past the keep-alive time; client: a writer is
# killed and goes on with its journal; device: the RDMA device of one portal is deleted and made again; disk: the
# disk stands still (dmsetup suspend), the writers' connections do not.
. "$LAB/guest.sh"
rounds=${1:-4}
shift $(($# > 0 ? 1 : 0))
faults=("$@")
[ $# -gt 0 ] || faults=(kill restart pause client device disk)
promise=$LAB_BUILD/tests/promise/promise
away=10.8.0.1
writers=(1 2)
pids=()

# -- the writers ---------------------------------------------------------------------------------

writer_start() {
	local uri=$LAB_URI/disk queues=2
	[ "$1" = 1 ] || uri=rblk://$LAB_ADDR,$away/disk queues=4
	"$promise" run --seed $RANDOM --writer "$1" --first $((($1 - 1) * 2048)) --blocks 2048 --max-blocks 8 \
		--queues $queues --give-up 600000 "/out/journal$1" "$uri" 2>> /out/writers.log &
	pids[$1]=$!
}
# lines WRITER PATTERN: how many its journal has.
lines() {
	local count
	count=$(grep -sc "$2" "/out/journal$1")
	echo "${count:-0}"
}
has() { ! kill -0 "${pids[$1]}" 2> /dev/null || [ "$(lines "$1" "$2")" -ge "$3" ]; }
# reach WRITER PATTERN MORE-THAN: wait until its journal has so many lines.
reach() {
	lab_wait 60 has "$1" "$2" "$3" || lab_fail "$fault: writer $1 does not get on"
	kill -0 "${pids[$1]}" 2> /dev/null || lab_fail "$fault: writer $1 has ended: $(cat /out/writers.log)"
}
progress() {
	local writer from=()
	for writer in "${writers[@]}"; do from[writer]=$(($(lines "$writer" '^A') + $1)); done
	for writer in "${writers[@]}"; do reach "$writer" '^A' "${from[writer]}"; done
}
writers_stop() {
	local writer
	for writer in "${writers[@]}"; do
		kill "${pids[writer]}"
		wait "${pids[writer]}" || lab_fail "$fault: writer $writer: exit status $?: $(cat /out/writers.log)"
	done
}

# -- the faults ----------------------------------------------------------------------------------

target_start() {
	lab_rblkd_start --keepalive 1s --listen "rblk://$LAB_ADDR" --listen "rblk://$away" disk=/dev/mapper/disk
}
fault_kill() {
	kill -KILL "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
	target_start
}
fault_restart() { lab_rblkd_stop; target_start; }
fault_pause() {
	local writer seen=()
	for writer in "${writers[@]}"; do seen[writer]=$(lines "$writer" '^N .* recovering'); done
	kill -STOP "$LAB_RBLKD"
	for writer in "${writers[@]}"; do reach "$writer" '^N .* recovering' $((seen[writer] + 1)); done
	kill -CONT "$LAB_RBLKD"
}
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
fault_disk() {
	dmsetup suspend --nolockfs --noflush disk || lab_fail "$fault: dmsetup suspend"
	sleep 3 # longer than the keep-alive time: the target must not take it for the writers' silence, nor they for its
	dmsetup resume disk || lab_fail "$fault: dmsetup resume"
}

# -- the job -------------------------------------------------------------------------------------

lab_link_up
ip link add lab1 type dummy && ip link set lab1 mtu 9000 up && ip addr add $away/24 dev lab1 || lab_fail "lab1"
device_up || lab_fail "rxe1: is not made"
modprobe dm_mod
dmsetup create --noudevsync disk --table "0 $(blockdev --getsz /dev/vda) linear /dev/vda 0" && dmsetup mknodes ||
	lab_fail "dmsetup"
dd if=/dev/zero of=/dev/vda bs=1M count=16 oflag=direct status=none || lab_fail "/dev/vda: cannot be filled"
fault=start count=0
target_start
for ((round = 1; round <= rounds; round++)); do
	for fault in "${faults[@]}"; do
		for writer in "${writers[@]}"; do writer_start "$writer"; done
		progress 100
		"fault_$fault"
		progress 20
		writers_stop
		"$promise" check --strict /out/journal1 /out/journal2 /dev/mapper/disk > /out/check ||
			lab_fail "$fault, round $round: $(cat /out/check)"
		grep -h '^[EH]' /out/journal1 /out/journal2 && lab_fail "$fault, round $round: errors"
		count=$((count + 1))
		lab_say "$count: $fault"
	done
done
lab_rblkd_stop
cat /out/check
lab_say "$count faults"

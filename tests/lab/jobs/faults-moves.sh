# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: when an initiator's network device moves to another port and to another hardware address (the failover of a
# bond), and when the machine sleeps, no writer sees an error, and the disks hold everything that was acknowledged.
# Method: a writer of the promise journal through librblk and one on an attached disk, over a bond of two ports;
# promise.sh has the rest.
#   faults-moves.sh [ROUNDS [FAULT...]]    default: 2 of all three
# bond: another port becomes the active one; port: because the first has no link; sleep: the machine
# begins to suspend, and resumes.
. "$LAB/guest.sh"
. "$LAB/promise.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/jobs/kmod-once.sh"
rounds=${1:-2}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- bond port sleep
LAB_ADDR=10.8.1.2
writers=(1 2)

writer_start() {
	case $1 in
	1) promise_start 1 --blocks 2048 --max-blocks 8 --queues 2 --give-up 600000 "rblk://$LAB_ADDR/librblk" ;;
	2) promise_start 2 --blocks 2048 --max-blocks 8 /dev/rblk0 ;;
	esac
}
losses() {
	case $1 in
	1) lines 1 '^N .* recovering' ;;
	2) cat /sys/block/rblk0/rblk/losses ;;
	esac
}
target_start() { lab_rblkd_start --keepalive ${alive}s librblk=/dev/mapper/librblk module=/dev/mapper/module; }
compare() {
	lab_once_end
	lab_once_begin
	promise_check /dev/mapper/librblk 1 > /out/last
	promise_check /dev/rblk0 2 > /out/last
}
# The initiator's end is a bond with the hardware address of its active port; the target's is a bridge.
make_bond() {
	local port
	modprobe -a veth bridge && modprobe bonding max_bonds=0 || lab_fail "bonding: does not load"
	ip link add "wire$1i" type bond mode active-backup miimon 50 fail_over_mac active &&
		ip link add "wire$1t" type bridge || lab_fail "wire$1: no bond"
	for port in 1 2; do
		ip link add "port${port}i" mtu 9000 type veth peer name "port${port}t" mtu 9000 &&
			ip link set "port${port}i" master "wire$1i" && ip link set "port${port}t" master "wire$1t" up || lab_fail "port $port"
	done
}
active() { cat /sys/class/net/wire1i/bonding/active_slave; }
active_is() { [ "$(active)" = "$1" ]; }
# Every writer notices. (Soft-RoCE's queue pairs also fail by themselves, a second later: they lose their GID for a while.)
fault_bond() {
	local to=port1i
	! active_is $to || to=port2i
	mark
	ip neigh replace 10.8.1.1 lladdr "$(cat /sys/class/net/$to/address)" dev wire1t nud permanent &&
		echo $to > /sys/class/net/wire1i/bonding/active_slave || lab_fail "$fault: $to"
	noticed
}
fault_channel() {
	local from to=port1i
	from=$(active)
	! active_is $to || to=port2i
	mark
	ip link set "${from%i}t" down || lab_fail "$fault: $from"
	lab_wait 20 active_is $to || lab_fail "$fault: $(active) is active"
	lab_wire_link 1 up # the neighbours know the new hardware address
	noticed
	ip link set "${from%i}t" up || lab_fail "$fault: $from"
}
# The emulated machine has nothing to wake it. So all tasks are frozen as always, and thawed after 5 s.
fault_sleep() { echo freezer > /sys/power/pm_test && echo freeze > /sys/power/state || lab_fail "$fault: /sys/power/state"; }

lab_link_up
lab_wire_up 1 make_bond
disks_make librblk=/dev/vda module=/dev/vdb
fault=start
target_start
lab_kmod_load
lab_attach module "${attach_words[@]}"
lab_once_begin
promise_rounds "$rounds" "$@"
lab_once_end
lab_detach
lab_rblkd_stop
for writer in 1 2; do promise_check "/dev/mapper/$([ $writer = 1 ] && echo librblk || echo module)" $writer; done
lab_kmod_unload
lab_say "$count faults"

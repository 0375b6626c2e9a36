# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: show what becomes of a write that storage holds back while its path fails. A write of ones is in the target's
# storage, which takes its time; the path fails; the initiator sends the ones again over another path; the
# application sees them acknowledged and writes twos to the same block, which are acknowledged, too; then storage
# ends the first write. With rblk the block must hold twos: the write may be sent again only when the first one is
# over (F5). With that rule taken out of rblkd (a login and an OPEN wait for nothing) it must hold ones: else the
# job would prove nothing. The same with the kernel's NVMe host at rblkd, which connects again when a wire was silent:
# the target learns of the loss from that. Of nvme-rdma with nvmet and native multipath the job says what it finds.
# Method: slow_disk, whose chosen write waits for the job's word, below both targets; two RDMA devices as the paths,
# of which one's link goes down. The module has one path, which is cut and comes back at once.
# By RDMA that host is told to connect anew: so both ends know of the loss.
#   stale-write.sh [librblk] [kmod] [unfenced] [nvme] [host] [rdma]    default: all but host and rdma. /out/result has a line of each
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
away=10.8.0.1
disk=/dev/nbd0
slow=/tmp/slow

# -- the paths and the disk ----------------------------------------------------------------------

lab_link_up
ip link add lab1 type dummy && ip link set lab1 mtu 9000 up && ip addr add $away/24 dev lab1 || lab_fail "lab1"
device_up() {
	ip link set lab1 up
	rdma link add rxe1 type rxe netdev lab1 && lab_wait 10 grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state
}
device_up || lab_fail "rxe1: is not made"
modprobe nbd nbds_max=1 max_part=0 || lab_fail "nbd does not load"
lab_wait 10 [ -b $disk ] || lab_fail "no $disk"
"$LAB_BUILD/tests/lab/slow_disk" $disk 16 $slow &
disk_ready() { [ "$(blockdev --getsize64 $disk)" = $((16 << 20)) ]; }
lab_wait 10 disk_ready || lab_fail "$disk: has no size"

# -- one initiator -------------------------------------------------------------------------------

# write_block BYTE: one block full of it, durable for the application when it returns.
write_block() {
	fio --name=write --rw=write --size=4k --bs=4k --buffer_pattern="0x$1" --direct=1 "${FIO[@]}" --eta=never --output=/out/fio.txt
}
writer_ended() { ! kill -0 "$writer" 2> /dev/null; }
word() { od -An -N1 -tx1 -v "$1" | tr -d ' '; }

# show NAME CONNECT-SECOND-PATH PATH-FAILS: prints the block's byte in the end.
show() {
	local name=$1 before=yes
	rm -f $slow.go $slow.landed
	touch $slow
	write_block 11 &
	writer=$!
	lab_wait 20 [ ! -e $slow ] || lab_fail "$name: the write does not arrive"
	"$2"
	"$3"
	# Whether it is acknowledged although storage has not ended it.
	lab_wait 3 writer_ended || before=no
	if [ $before = no ]; then
		touch $slow.go
		lab_wait 20 [ -e $slow.landed ] || lab_fail "$name: the slow write does not end"
		lab_wait 60 writer_ended || lab_fail "$name: the write hangs"
	fi
	wait "$writer" || lab_fail "$name: the write failed: $(cat /out/fio.txt)"
	write_block 22 || lab_fail "$name: the second write failed: $(cat /out/fio.txt)"
	touch $slow.go
	lab_wait 20 [ -e $slow.landed ] || lab_fail "$name: the slow write does not end"
	dd if=$disk of=/tmp/block bs=4k count=1 iflag=direct status=none || lab_fail "$name: $disk cannot be read"
	found=$(word /tmp/block)
	echo "$name: acknowledged before storage had ended it: $before; the block holds $([ "$found" = 22 ] &&
		echo "the newer write" || echo "the OLDER write, byte $found")" | tee -a /out/result
}

link_fails() { ip link set lab1 down; }
target_start() {
	lab_rblkd_start --keepalive 1s --listen "rblk://$LAB_ADDR" --listen "rblk://$away" "disk=$disk"
}
# holds NAME BYTE: what the block must hold.
holds() { [ "$found" = "$2" ] || lab_fail "$1: the block holds $found"; }
# run_librblk NAME BYTE
run_librblk() {
	target_start
	FIO=("--ioengine=external:$RBLK_FIO_ENGINE" "--rblk_uri=rblk://$away,$LAB_ADDR/disk")
	show "$1" true link_fails
	holds "$@"
	lab_rblkd_stop
	rdma link delete rxe1
	device_up || lab_fail "rxe1: does not come back"
}
show_librblk() { run_librblk librblk 22; }
show_unfenced() {
	local fenced=$RBLKD
	RBLKD=$LAB_BUILD/tests/lab/rblkd_unfenced
	run_librblk "librblk, with the fence taken out of rblkd" 11
	RBLKD=$fenced
}

kmod_path_fails() { lab_kill all $LAB_DEV; }
show_kmod() {
	target_start
	lab_kmod_load
	lab_attach disk queues=1 command_ms=60000 give_up_ms=600000
	FIO=(--ioengine=psync "--filename=$LAB_DEV")
	show rblk.ko true kmod_path_fails
	holds rblk.ko 22
	lab_detach
	lab_kmod_unload
	lab_rblkd_stop
}

# Only the host knows of the loss, when the write has taken too long: what it sends to end its connections is lost.
wire_fails() {
	lab_wire_lose 1
	lab_wait 60 grep -qvx live "$controller/state" || lab_fail "nvme-tcp: the host does not notice"
	echo 60000 > "$timeout"
	lab_wire_restore 1
}
host_resets() { echo 1 > "$controller/reset_controller" & }
# run_host NAME BYTE PATH-FAILS
run_host() {
	local nqn way=${host[1]}
	modprobe "nvme-$way" || lab_fail "nvme-$way does not load"
	lab_rblkd_start --keepalive 600s --listen "nvme+$way://${host[3]}:4420" "disk=$disk"
	nqn=$(nvme discover "${host[@]}" | awk '$1 == "subnqn:" { print $2 }')
	nvme connect "${host[@]}" -n "$nqn" --keep-alive-tmo=600 --reconnect-delay=1 --ctrl-loss-tmo=600 || lab_fail "nvme connect"
	lab_wait 20 lab_nvme_disk || lab_fail "nvme: no disk appeared"
	controller=$(echo /sys/class/nvme/nvme*) timeout=$(echo /sys/block/nvme*c*n*/queue/io_timeout)
	echo 5000 > "$timeout"
	FIO=(--ioengine=psync "--filename=$(lab_nvme_disk)")
	show "$1" true "$3"
	holds "$1" "$2"
	nvme disconnect -n "$nqn" || lab_fail "nvme disconnect"
	lab_rblkd_stop
}
show_host() {
	local fenced=$RBLKD
	host=(-t tcp -a 10.8.1.2 -s 4420 --hostid=00000000-0000-0000-0000-00000000000a
		--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a)
	lab_wire_up 1
	run_host "the kernel's NVMe host" 22 wire_fails
	RBLKD=$LAB_BUILD/tests/lab/rblkd_unfenced
	run_host "the same, with the fence taken out of rblkd" 11 wire_fails
	RBLKD=$fenced
}
show_rdma() {
	host=(-t rdma -a "$LAB_ADDR" -s 4420 --hostid=00000000-0000-0000-0000-00000000000a
		--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a)
	run_host "the kernel's NVMe host, by RDMA" 22 host_resets
}

nvme_path() { lab_nvme_connect stale "$1" --keep-alive-tmo=2 --ctrl-loss-tmo=600; }
second_path() { nvme_path "$LAB_ADDR"; }
show_nvme() {
	lab_nvmet_make stale $disk "$away" "$LAB_ADDR"
	for port in 1 2; do lab_nvmet_listen stale $port; done
	nvme_path "$away"
	lab_wait 20 lab_nvme_disk || lab_fail "nvme: no disk appeared"
	FIO=(--ioengine=psync "--filename=$(lab_nvme_disk)")
	show nvme-rdma second_path link_fails
}

: > /out/result
[ $# -gt 0 ] || set -- librblk kmod unfenced nvme
for name in "$@"; do "show_$name"; done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# The systems that are compared, inside guests. On the target: serve_NAME; all of them serve at the same time, each a RAM
# disk of its own, so that only the path to it differs, and cost nothing as long as nobody uses them. On the initiator:
# connect_NAME sets FIO to the arguments that make fio use the system, disconnect_NAME ends that. One guest can be both.
# iSER and SRP are in systems_scsi.sh. Sourced by measure.sh, slots.sh and the lab's cost.sh, after guest.sh, kmod.sh and nvmet.sh.

BENCH_MB=128
# The target: this guest, or host 1 of a pair.
BENCH_TARGET=10.9.0.1

# disk NUMBER: sets DISK. Every page is written once, so that no measurement includes the allocation.
disk() {
	DISK=/dev/ram$1
	[ -b /dev/ram0 ] || modprobe brd rd_nr=7 rd_size=$((BENCH_MB * 1024)) || lab_fail "brd does not load"
	dd if=/dev/zero of="$DISK" bs=1M count=$BENCH_MB oflag=direct status=none || lab_fail "$DISK: cannot be filled"
	[ "$(blockdev --getsize64 "$DISK")" = $((BENCH_MB << 20)) ] || lab_fail "$DISK: wrong size"
}

# systems_serve SYSTEM...: SYSTEM@SIDE is one of the build in the folder RBLK_BENCH_BUILD_SIDE.
systems_serve() {
	local system served=' '
	for system in "$@"; do
		case $system in
		rblk*@*) system="rblk ${system#*@}" ;;
		rblk_ublk_tcp) system=rblk_tcp ;;
		rblk_nvme_*) system=rblk_nvme ;;
		rblk*) system=rblk ;;
		nvme_*) system=nvme ;;
		iser | srp) system=scsi ;;
		esac
		[[ $served != *" $system "* ]] || continue
		served+="$system "
		# shellcheck disable=SC2086 # a name and a side
		serve_$system
	done
}

# use_build SIDE: the programs and the module of that build from now on.
use_build() {
	local folder=RBLK_BENCH_BUILD_$1
	LAB_BUILD=${!folder}
	RBLKD=$LAB_BUILD/target/rblkd
	RBLK=$LAB_BUILD/initiator/cmd/rblk
	RBLK_FIO_ENGINE=$LAB_BUILD/initiator/fio/librblk_fio.so
	LAB_KO=$LAB_BUILD/kmod-lab/$(basename "$LAB_KERNEL")/kmod/rblk.ko
}

# The disk itself, with nothing between: the upper limit for all systems. (In one guest.)
serve_local() { disk 0 && LOCAL=$DISK; }
connect_local() { FIO=(--ioengine=io_uring "--filename=$LOCAL"); }
disconnect_local() { :; }

# The kernel's own pair over RDMA and TCP, as it is by default; and with capsules of 16 KiB over RDMA, so that larger writes
# need no RDMA READ.
serve_nvme() {
	local port
	disk 1
	lab_nvmet_make bench "$DISK" "$BENCH_TARGET" "$BENCH_TARGET" "$BENCH_TARGET"
	echo 4421 > $lab_nvmet/ports/2/addr_trsvcid
	echo 16384 > $lab_nvmet/ports/2/param_inline_data_size
	modprobe nvmet-tcp || lab_fail "nvmet-tcp: does not load"
	echo tcp > $lab_nvmet/ports/3/addr_trtype
	echo 4422 > $lab_nvmet/ports/3/addr_trsvcid
	for port in 1 2 3; do lab_nvmet_listen bench $port; done
	# nvmet makes it smaller where the device has too few SGEs, and says so in its log only.
	[ "$(cat $lab_nvmet/ports/2/param_inline_data_size)" = 16384 ] || lab_fail "nvmet: no capsules of 16 KiB"
}
nvme_connect() { # TRANSPORT PORT [SUBSYSTEM]
	modprobe "nvme-$1" || lab_fail "nvme-$1: does not load"
	lab_nvme_connect "${3:-bench}" "$BENCH_TARGET" -t "$1" -s "$2"
	lab_wait 20 lab_nvme_disk || lab_fail "nvme: no disk appeared"
	FIO=(--ioengine=io_uring "--filename=$(lab_nvme_disk)")
}
nvme_gone() { ! lab_nvme_disk; }
nvme_disconnect() {
	nvme disconnect-all
	lab_wait 20 nvme_gone || lab_fail "nvme: the disk stays"
}
connect_nvme_rdma() { nvme_connect rdma 4420; }
connect_nvme_rdma_16k() { nvme_connect rdma 4421; }
connect_nvme_tcp() { nvme_connect tcp 4422; }
disconnect_nvme_rdma() { nvme_disconnect; }
disconnect_nvme_rdma_16k() { nvme_disconnect; }
disconnect_nvme_tcp() { nvme_disconnect; }

# The same initiators with rblkd.
serve_rblk_nvme() {
	disk 6
	lab_rblkd_start --open --listen "nvme+tcp://$BENCH_TARGET:4433" --listen "nvme+rdma://$BENCH_TARGET:4433" --control-socket none --state-dir /run/rblkd-4433 "disk=$DISK"
}
rblk_subsystem() { # TRANSPORT PORT
	nvme discover -t "$1" -a "$BENCH_TARGET" -s "$2" | awk '$1 == "subnqn:" { print $2; exit }'
}
connect_rblk_nvme_tcp() { modprobe nvme-tcp && nvme_connect tcp 4433 "$(rblk_subsystem tcp 4433)"; }
connect_rblk_nvme_rdma() { modprobe nvme-rdma && nvme_connect rdma 4433 "$(rblk_subsystem rdma 4433)"; }
disconnect_rblk_nvme_tcp() { nvme_disconnect; }
disconnect_rblk_nvme_rdma() { nvme_disconnect; }

# RNBD over RTRS, both ends, as they are by default. They are no modules of Debian's kernel: run builds them.
RNBD_DISK=/dev/rnbd0
rnbd_load() { # server|client
	local module
	modprobe -a rdma_cm ib_core || lab_fail "rnbd: rdma_cm does not load"
	for module in rtrs-core "rtrs-$1" "rnbd-$1"; do
		[ -e "/sys/module/${module//-/_}" ] || insmod "$LAB_KERNEL/rnbd/$module.ko" || lab_fail "rnbd: $module does not load"
	done
}
serve_rnbd() { disk 2 && rnbd_load server; }
connect_rnbd() {
	rnbd_load client
	echo "sessname=bench path=ip:$BENCH_TARGET device_path=/dev/ram2 access_mode=rw" \
		> /sys/devices/virtual/rnbd-client/ctl/map_device || lab_fail "rnbd: no connection"
	lab_wait 20 [ -b $RNBD_DISK ] || lab_fail "rnbd: no disk appeared"
	FIO=(--ioengine=io_uring --filename=$RNBD_DISK)
}
rnbd_gone() { [ ! -e $RNBD_DISK ]; }
disconnect_rnbd() {
	echo normal > /sys/block/${RNBD_DISK#/dev/}/rnbd/unmap_device || lab_fail "rnbd: $RNBD_DISK is not unmapped"
	lab_wait 20 rnbd_gone || lab_fail "rnbd: $RNBD_DISK stays"
}

# rblkd with a RAM disk, opened with O_DIRECT, and a memory volume, which RDMA accesses directly. Of two builds each has
# its daemon, at the port 4430 or 4431.
declare -A RBLK_PORTS=([old]=4431)
serve_rblk() { # [SIDE]
	[ $# = 0 ] || use_build "$1"
	local port=${RBLK_PORTS[${1:-new}]:-4430}
	disk $((port - 4427))
	lab_rblkd_start ${RBLK_BENCH_POLL:+--poll-time "$RBLK_BENCH_POLL"} --open --listen "rblk://$BENCH_TARGET:$port" \
		--control-socket none --state-dir "/run/rblkd-$port" --memory "memory=${BENCH_MB}M" "disk=$DISK"
}
rblk_port() { echo "${RBLK_PORTS[${SIDE:-new}]:-4430}"; }
rblk_uri() { FIO=("--ioengine=external:$RBLK_FIO_ENGINE" "--rblk_uri=rblk://$BENCH_TARGET:$(rblk_port)/$1"); }
connect_rblk() { rblk_uri disk; }
disconnect_rblk() { :; }
connect_rblk_memory() { rblk_uri memory; }
disconnect_rblk_memory() { :; }

# The kernel's initiator, with the same daemon and disk as librblk.
connect_rblk_kmod() {
	lab_kmod_load
	LAB_ADDR=$BENCH_TARGET lab_attach disk "port=$(rblk_port)"
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}
disconnect_rblk_kmod() {
	lab_detach
	lab_kmod_unload
}

# The same by ublk, and over TCP: a daemon with a disk of its own, so that no reactor looks after two fabrics.
ublk_connect() { # URI
	LAB_DEV=$("$RBLK" attach --ublk "$1" 2> /tmp/attach) || lab_fail "ublk: $(cat /tmp/attach)"
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}
connect_rblk_ublk() { ublk_connect "rblk://$BENCH_TARGET:$(rblk_port)/disk"; }
disconnect_rblk_ublk() { "$RBLK" detach "$LAB_DEV" || lab_fail "ublk: $LAB_DEV stays"; }
serve_rblk_tcp() {
	disk 4
	lab_rblkd_start --open --listen "rblk+tcp://$BENCH_TARGET:4432" --control-socket none --state-dir /run/rblkd-4432 "disk=$DISK"
}
connect_rblk_ublk_tcp() { ublk_connect "rblk+tcp://$BENCH_TARGET:4432/disk"; }
disconnect_rblk_ublk_tcp() { disconnect_rblk_ublk; }

# The kernel's NBD client and nbdkit, as they are by default: nbdkit has the RAM disk through the page cache.
serve_nbd() {
	disk 5
	nbdkit -i "$BENCH_TARGET" -p 10809 file "$DISK" || lab_fail "nbdkit does not start"
}
connect_nbd() {
	modprobe nbd && nbd-client "$BENCH_TARGET" 10809 /dev/nbd0 > /tmp/attach 2>&1 || lab_fail "nbd-client: $(cat /tmp/attach)"
	FIO=(--ioengine=io_uring --filename=/dev/nbd0)
}
disconnect_nbd() { nbd-client -d /dev/nbd0 > /tmp/attach 2>&1 || lab_fail "nbd-client: $(cat /tmp/attach)"; }

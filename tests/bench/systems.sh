# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The systems that are compared, inside the guest: for each an up_NAME and a down_NAME. up sets FIO
# to the arguments that make fio use the system. The store is always the same RAM disk, so that only
# the path to it differs. A system may also have begin_NAME and end_NAME RESULT, which run around
# each workload. iSER and SRP are in systems_scsi.sh. Sourced by measure.sh.

BENCH_DISK=/dev/ram0
BENCH_MB=512

# Every page is written once, so that no measurement includes the allocation.
backing_up() {
	modprobe brd rd_nr=1 rd_size=$((BENCH_MB * 1024)) || lab_fail "brd does not load"
	dd if=/dev/zero of=$BENCH_DISK bs=1M count=$BENCH_MB oflag=direct status=none ||
		lab_fail "$BENCH_DISK: cannot be filled"
	[ "$(blockdev --getsize64 $BENCH_DISK)" = $((BENCH_MB << 20)) ] || lab_fail "$BENCH_DISK: wrong size"
}

# The disk itself, with nothing between: the upper limit for all systems.
up_local() { FIO=(--ioengine=io_uring --filename=$BENCH_DISK); }
down_local() { :; }

# The kernel's own pair over RDMA, as it is by default; and with capsules of 16 KiB, so that larger writes need no
# RDMA READ.
nvmet=/sys/kernel/config/nvmet
nvme_disk() { NVME=$(lsblk -dnpo NAME | grep '^/dev/nvme') && [ -b "$NVME" ]; }
up_nvme_rdma() { nvme_up; }
down_nvme_rdma() { nvme_down; }
up_nvme_rdma_16k() {
	nvme_up 16384
	# nvmet makes it smaller where the device has too few SGEs, and says so in its log only.
	[ "$(cat $nvmet/ports/1/param_inline_data_size)" = 16384 ] || lab_fail "nvmet: no capsules of 16 KiB"
}
down_nvme_rdma_16k() { nvme_down; }
# nvme_up [INLINE-BYTES]
nvme_up() {
	local sub=$nvmet/subsystems/bench port=$nvmet/ports/1
	modprobe -a nvmet nvmet-rdma nvme-rdma || lab_fail "nvme: modules do not load"
	mkdir $sub $sub/namespaces/1 $port || lab_fail "nvmet: no configuration"
	echo 1 > $sub/attr_allow_any_host
	echo -n $BENCH_DISK > $sub/namespaces/1/device_path
	echo 1 > $sub/namespaces/1/enable || lab_fail "nvmet: $BENCH_DISK is not served"
	echo rdma > $port/addr_trtype
	echo ipv4 > $port/addr_adrfam
	echo "$LAB_ADDR" > $port/addr_traddr
	echo 4420 > $port/addr_trsvcid
	[ $# = 0 ] || echo "$1" > $port/param_inline_data_size
	ln -s $sub $port/subsystems/bench || lab_fail "nvmet: does not listen"
	nvme connect -t rdma -a "$LAB_ADDR" -s 4420 -n bench \
		--hostid=00000000-0000-0000-0000-00000000000a \
		--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a ||
		lab_fail "nvme: no connection"
	lab_wait 20 nvme_disk || lab_fail "nvme: no disk appeared"
	nvme_disk
	FIO=(--ioengine=io_uring "--filename=$NVME")
}
nvme_down() {
	nvme disconnect -n bench > /dev/null
	rm $nvmet/ports/1/subsystems/bench
	echo 0 > $nvmet/subsystems/bench/namespaces/1/enable
	rmdir $nvmet/ports/1 $nvmet/subsystems/bench/namespaces/1 $nvmet/subsystems/bench
}

# RNBD over RTRS, both ends, as they are by default. They are no modules of Debian's kernel: run builds them.
RNBD_DISK=/dev/rnbd0
up_rnbd() {
	local module
	modprobe -a rdma_cm ib_core || lab_fail "rnbd: rdma_cm does not load"
	for module in rtrs-core rtrs-server rtrs-client rnbd-server rnbd-client; do
		insmod "$LAB_KERNEL/rnbd/$module.ko" || lab_fail "rnbd: $module does not load"
	done
	echo "sessname=bench path=ip:$LAB_ADDR device_path=$BENCH_DISK access_mode=rw" \
		> /sys/devices/virtual/rnbd-client/ctl/map_device || lab_fail "rnbd: no connection"
	lab_wait 20 [ -b $RNBD_DISK ] || lab_fail "rnbd: no disk appeared"
	FIO=(--ioengine=io_uring --filename=$RNBD_DISK)
}
rnbd_gone() { [ ! -e $RNBD_DISK ]; }
# A server that still tears down its connection keeps its modules.
rnbd_unload() { rmmod rnbd_client rnbd_server rtrs_client rtrs_server rtrs_core 2> /dev/null || ! grep -q '^rtrs' /proc/modules; }
down_rnbd() {
	echo normal > /sys/block/${RNBD_DISK#/dev/}/rnbd/unmap_device || lab_fail "rnbd: $RNBD_DISK is not unmapped"
	lab_wait 20 rnbd_gone || lab_fail "rnbd: $RNBD_DISK stays"
	lab_wait 20 rnbd_unload || lab_fail "rnbd: its modules do not unload"
}

RBLKD_POLL=()
[ -z "${RBLK_BENCH_POLL:-}" ] || RBLKD_POLL=(--poll-time "$RBLK_BENCH_POLL")

# rblkd with the same RAM disk behind it, opened with O_DIRECT.
up_rblk() {
	lab_rblkd_start "${RBLKD_POLL[@]}" "$BENCH_DISK"
	FIO=("--ioengine=external:$RBLK_FIO_ENGINE" "--rblk_uri=$LAB_URI/${BENCH_DISK##*/}")
}
down_rblk() { lab_rblkd_stop; }

# rblkd with a memory volume: RDMA accesses the volume directly.
up_rblk_memory() {
	lab_rblkd_start "${RBLKD_POLL[@]}" --memory "bench=${BENCH_MB}M"
	FIO=("--ioengine=external:$RBLK_FIO_ENGINE" "--rblk_uri=$LAB_URI/bench")
}
down_rblk_memory() { lab_rblkd_stop; }

# The kernel's initiator, with the same daemon and disk as up_rblk. Attached again for each
# workload, because the target counts per session and logs the counts at a session's end.
up_rblk_kmod() {
	lab_rblkd_start "${RBLKD_POLL[@]}" "$BENCH_DISK"
	lab_kmod_load
}
down_rblk_kmod() {
	lab_kmod_unload
	lab_rblkd_stop
}
begin_rblk_kmod() {
	lab_attach "${BENCH_DISK##*/}"
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}

# Makes RESULT.stats, as rblk's fio engine writes it, from the target's last line about the session
# and the module's counters. "ios" includes the session's own few commands.
end_rblk_kmod() {
	local own before
	own=$(lab_counters | jq -R 'split(" ") | {(.[0]): (.[1] | tonumber)}' | jq -cs add)
	before=$(kmod_sessions | wc -l)
	lab_detach
	lab_wait 10 kmod_session_ended "$before" || lab_fail "rblkd: does not log the session's end"
	kmod_sessions | tail -n 1 | jq -R --argjson own "$own" '
		def count($pattern): capture($pattern) | .n | tonumber;
		{ios: count("(?<n>[0-9]+) commands"), sends: count("[(]in (?<n>[0-9]+)"),
		 replies: count("sends (?<n>[0-9]+)"), immediates: count("immediates (?<n>[0-9]+)"),
		 writes: count("writes (?<n>[0-9]+)"), reads: count(" reads (?<n>[0-9]+)"),
		 stored_us_total: count("(?<n>[0-9]+) us stored"), module: $own}
		| .messages = .sends + .replies + .immediates + .writes + .reads' > "$1.stats" ||
		lab_fail "rblkd: its line about the session's end is $(kmod_sessions | tail -n 1)"
}
kmod_sessions() { grep ' messages a command ' "$LAB_RBLKD_LOG"; }
kmod_session_ended() { [ "$(kmod_sessions | wc -l)" -gt "$1" ]; }

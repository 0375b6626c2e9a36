# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# The SCSI systems of the comparison: the kernel's target (LIO) with a RAM disk as an iblock backstore, reached over iSER by
# open-iscsi and over SRP by ib_srp, each as it is by default. The same functions as in systems.sh. Sourced by measure.sh.

target=/sys/kernel/config/target
backstore=$target/core/iblock_0/bench
BENCH_IQN=iqn.2024-01.rblk:bench
SRP_PORT=5555

scsi_disk() { DISK=$(lsblk -dnpo NAME | grep '^/dev/sd') && [ -b "$DISK" ]; }
scsi_no_disk() { ! scsi_disk; }
scsi_use_disk() {
	lab_wait 20 scsi_disk || lab_fail "$1: no disk appeared"
	scsi_disk
	FIO=(--ioengine=io_uring "--filename=$DISK")
}

serve_scsi() {
	disk 0
	modprobe -a target_core_mod target_core_iblock || lab_fail "LIO: modules do not load"
	mkdir -p $backstore || lab_fail "LIO: no configuration"
	echo -n "udev_path=$DISK" > $backstore/control
	echo 1 > $backstore/enable || lab_fail "LIO: $DISK is not served"
	serve_iser
	serve_srp
}

serve_iser() {
	local tpg=$target/iscsi/$BENCH_IQN/tpgt_1
	modprobe -a iscsi_target_mod ib_isert || lab_fail "iser: modules do not load"
	mkdir -p $target/iscsi $target/iscsi/$BENCH_IQN # both: making the first loads the module for the second
	mkdir -p "$tpg/np/$BENCH_TARGET:3260" $tpg/lun/lun_0 || lab_fail "iser: no configuration"
	echo 1 > "$tpg/np/$BENCH_TARGET:3260/iser" || lab_fail "iser: does not listen"
	ln -s $backstore $tpg/lun/lun_0/disk
	# Anyone may log in without a password, and write.
	echo 0 > $tpg/attrib/authentication
	echo 1 > $tpg/attrib/generate_node_acls
	echo 0 > $tpg/attrib/demo_mode_write_protect
	echo 1 > $tpg/enable || lab_fail "iser: the target is not enabled"
}
connect_iser() {
	modprobe -a ib_iser sd_mod || lab_fail "iser: modules do not load"
	mkdir -p /run/lock/iscsi
	echo "InitiatorName=$BENCH_IQN-initiator" > /etc/iscsi/initiatorname.iscsi
	# In its own process group: iscsid ends the whole group when it ends.
	setsid iscsid -f > "$LAB_OUT/iscsid.log" 2>&1 &
	ISCSID=$!
	lab_wait 20 iscsiadm -m iface || lab_fail "iscsid: $(cat "$LAB_OUT/iscsid.log")"
	iser_admin -m iface -I bench -o new
	iser_admin -m iface -I bench -o update -n iface.transport_name -v iser
	iser_admin -m node -o new -T $BENCH_IQN -p "$BENCH_TARGET,1" -I bench
	iser_admin -m node -T $BENCH_IQN -I bench --login
	scsi_use_disk iser
}
iser_admin() {
	iscsiadm "$@" > "$LAB_OUT/iscsiadm.log" 2>&1 || lab_fail "iscsiadm $*: $(cat "$LAB_OUT/iscsiadm.log")"
}
disconnect_iser() {
	# iSCSI of 6.1 does not follow a rule of workqueues when a disk goes.
	echo 'WARNING: .* at kernel/workqueue.c:[0-9]* check_flush_dependency' >> "$LAB_OUT/excuses"
	iser_admin -m node -T $BENCH_IQN -I bench --logout
	lab_wait 20 scsi_no_disk || lab_fail "iser: the disk stays"
	kill "$ISCSID"
	wait "$ISCSID"
}

# RoCE does not have InfiniBand's connection manager, so the target listens through rdma_cm. It is named after its port's
# GID, and knows initiators by theirs: eight bytes of zero and the GID's last eight. measure.sh leaves GIDs in /pair.
serve_srp() {
	local gid tpg peer acl
	modprobe -a ib_srpt || lab_fail "srp: ib_srpt does not load"
	mkdir -p $target/srpt || lab_fail "srp: no configuration"
	echo $SRP_PORT > $target/srpt/discovery_auth/rdma_cm_port || lab_fail "srp: does not listen"
	gid=$(tr -d : < /pair/gid-1) peer=$(tr -d : < /pair/gid-2)
	tpg=$target/srpt/0x$gid/0x$gid acl=$tpg/acls/0x0000000000000000${peer:16}
	mkdir -p "$target/srpt/0x$gid" "$tpg" "$tpg/lun/lun_0" || lab_fail "srp: no configuration"
	ln -s $backstore "$tpg/lun/lun_0/disk"
	mkdir -p "$acl" "$acl/lun_0" || lab_fail "srp: no access list"
	ln -s "$tpg/lun/lun_0" "$acl/lun_0/disk"
	echo 1 > "$tpg/enable" || lab_fail "srp: the target is not enabled"
	cat /sys/module/ib_srpt/parameters/srpt_service_guid > /pair/srp
}
connect_srp() {
	local service
	modprobe -a ib_srp sd_mod || lab_fail "srp: modules do not load"
	service=$(cat /pair/srp)
	echo "id_ext=${service#0x},ioc_guid=${service#0x},dest=$BENCH_TARGET:$SRP_PORT" \
		> /sys/class/infiniband_srp/srp-rxe0-1/add_target || lab_fail "srp: no connection"
	scsi_use_disk srp
}
disconnect_srp() {
	local port
	for port in /sys/class/srp_remote_ports/*; do echo 1 > "$port/delete"; done
	lab_wait 20 scsi_no_disk || lab_fail "srp: the disk stays"
}

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# The SCSI systems of the comparison: the kernel's target (LIO) with the RAM disk as an iblock
# backstore, reached over iSER by open-iscsi and over SRP by ib_srp, each as it is by default.
# The same up_NAME and down_NAME as in systems.sh. Sourced by measure.sh.

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

backstore_up() {
	modprobe -a target_core_mod target_core_iblock sd_mod || lab_fail "LIO: modules do not load"
	mkdir -p $backstore || lab_fail "LIO: no configuration"
	echo -n udev_path=$BENCH_DISK > $backstore/control
	echo 1 > $backstore/enable || lab_fail "LIO: $BENCH_DISK is not served"
}
backstore_down() { rmdir $backstore $target/core/iblock_0; }

iser_tpg=$target/iscsi/$BENCH_IQN/tpgt_1
up_iser() {
	modprobe -a iscsi_target_mod ib_isert ib_iser || lab_fail "iser: modules do not load"
	backstore_up
	mkdir -p $target/iscsi $target/iscsi/$BENCH_IQN # both: making the first loads the module for the second
	mkdir -p "$iser_tpg/np/$LAB_ADDR:3260" $iser_tpg/lun/lun_0 || lab_fail "iser: no configuration"
	echo 1 > "$iser_tpg/np/$LAB_ADDR:3260/iser" || lab_fail "iser: does not listen"
	ln -s $backstore $iser_tpg/lun/lun_0/disk
	# Anyone may log in without a password, and write.
	echo 0 > $iser_tpg/attrib/authentication
	echo 1 > $iser_tpg/attrib/generate_node_acls
	echo 0 > $iser_tpg/attrib/demo_mode_write_protect
	echo 1 > $iser_tpg/enable || lab_fail "iser: the target is not enabled"

	mkdir -p /run/lock/iscsi
	echo "InitiatorName=$BENCH_IQN-initiator" > /etc/iscsi/initiatorname.iscsi
	# In its own process group: iscsid ends the whole group when it ends.
	setsid iscsid -f > "$LAB_OUT/iscsid.log" 2>&1 &
	ISCSID=$!
	lab_wait 20 iscsiadm -m iface || lab_fail "iscsid: $(cat "$LAB_OUT/iscsid.log")"
	iser_admin -m iface -I bench -o new
	iser_admin -m iface -I bench -o update -n iface.transport_name -v iser
	iser_admin -m node -o new -T $BENCH_IQN -p "$LAB_ADDR,1" -I bench
	iser_admin -m node -T $BENCH_IQN -I bench --login
	scsi_use_disk iser
}
iser_admin() {
	iscsiadm "$@" > "$LAB_OUT/iscsiadm.log" 2>&1 || lab_fail "iscsiadm $*: $(cat "$LAB_OUT/iscsiadm.log")"
}
down_iser() {
	iser_admin -m node -T $BENCH_IQN -I bench --logout
	lab_wait 20 scsi_no_disk || lab_fail "iser: the disk stays"
	kill "$ISCSID"
	wait "$ISCSID"
	echo 0 > $iser_tpg/enable
	rm $iser_tpg/lun/lun_0/disk
	rmdir $iser_tpg/lun/lun_0 $iser_tpg/np/* $iser_tpg $target/iscsi/$BENCH_IQN $target/iscsi
	backstore_down
}

# RoCE does not have InfiniBand's connection manager, so the target listens through rdma_cm. It is named
# after the port's GID, and knows initiators by their port: eight bytes of zero and the GID's last eight.
up_srp() {
	local gid service acl
	modprobe -a ib_srpt ib_srp || lab_fail "srp: modules do not load"
	backstore_up
	mkdir -p $target/srpt || lab_fail "srp: no configuration"
	echo $SRP_PORT > $target/srpt/discovery_auth/rdma_cm_port || lab_fail "srp: does not listen"
	gid=$(tr -d : < /sys/class/infiniband/rxe0/ports/1/gids/0)
	srp_wwn=$target/srpt/0x$gid
	srp_tpg=$srp_wwn/0x$gid
	mkdir -p "$srp_wwn" "$srp_tpg" "$srp_tpg/lun/lun_0" || lab_fail "srp: no configuration"
	ln -s $backstore "$srp_tpg/lun/lun_0/disk"
	acl=$srp_tpg/acls/0x0000000000000000${gid:16}
	mkdir -p "$acl" "$acl/lun_0" || lab_fail "srp: no access list"
	ln -s "$srp_tpg/lun/lun_0" "$acl/lun_0/disk"
	echo 1 > "$srp_tpg/enable" || lab_fail "srp: the target is not enabled"
	service=$(cat /sys/module/ib_srpt/parameters/srpt_service_guid)
	echo "id_ext=${service#0x},ioc_guid=${service#0x},dest=$LAB_ADDR:$SRP_PORT" \
		> /sys/class/infiniband_srp/srp-rxe0-1/add_target || lab_fail "srp: no connection"
	scsi_use_disk srp
}
down_srp() {
	local port
	for port in /sys/class/srp_remote_ports/*; do echo 1 > "$port/delete"; done
	lab_wait 20 scsi_no_disk || lab_fail "srp: the disk stays"
	echo 0 > "$srp_tpg/enable"
	rm "$srp_tpg"/acls/*/lun_0/disk "$srp_tpg/lun/lun_0/disk"
	rmdir "$srp_tpg"/acls/*/lun_0 "$srp_tpg"/acls/* "$srp_tpg/lun/lun_0" "$srp_tpg" "$srp_wwn"
	echo 0 > $target/srpt/discovery_auth/rdma_cm_port
	rmdir $target/srpt
	backstore_down
}

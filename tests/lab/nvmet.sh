# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The kernel's NVMe target (nvmet) and initiator over RDMA, beside which jobs look at rblk. Sourced after guest.sh.
# Ports are numbered from 1, in the order of their addresses. What names a disk is fixed: an initiator does not take a
# disk with another UUID, as nvmet gives it after a boot, for the one that it had.
lab_nvmet=/sys/kernel/config/nvmet

# lab_nvmet_make SUBSYSTEM DISK ADDRESS...: DISK with a port for each address; none listens yet.
lab_nvmet_make() {
	local sub=$lab_nvmet/subsystems/$1 disk=$2 address port i=0
	shift 2
	modprobe -a nvmet nvmet-rdma nvme-rdma || lab_fail "nvme: modules do not load"
	mkdir "$sub" "$sub/namespaces/1" || lab_fail "nvmet: no configuration"
	echo 1 > "$sub/attr_allow_any_host"
	echo rblklab > "$sub/attr_serial"
	echo 00000000-0000-0000-0000-00000000000b > "$sub/namespaces/1/device_uuid"
	echo 00000000-0000-0000-0000-00000000000b > "$sub/namespaces/1/device_nguid"
	echo -n "$disk" > "$sub/namespaces/1/device_path"
	echo 1 > "$sub/namespaces/1/enable" || lab_fail "nvmet: $disk is not served"
	for address in "$@"; do
		port=$lab_nvmet/ports/$((++i))
		mkdir "$port"
		echo rdma > "$port/addr_trtype"
		echo ipv4 > "$port/addr_adrfam"
		echo "$address" > "$port/addr_traddr"
		echo 4420 > "$port/addr_trsvcid"
	done
}
# lab_nvmet_listen SUBSYSTEM PORT: begins anew; a listener has ended when its device has gone.
lab_nvmet_listen() {
	rm -f "$lab_nvmet/ports/$2/subsystems/$1"
	ln -s "$lab_nvmet/subsystems/$1" "$lab_nvmet/ports/$2/subsystems/$1" || lab_fail "nvmet: port $2 does not listen"
}
# lab_nvme_connect SUBSYSTEM ADDRESS OPTION...: one path, always as the same host.
lab_nvme_connect() {
	nvme connect -t rdma -a "$2" -s 4420 -n "$1" "${@:3}" --hostid=00000000-0000-0000-0000-00000000000a \
		--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a || lab_fail "nvme: no connection to $2"
}
lab_nvme_disk() { lsblk -dnpo NAME | grep '^/dev/nvme'; }

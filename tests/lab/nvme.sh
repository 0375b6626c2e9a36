# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Jobs of the module on disks of the kernel's own NVMe host: the functions of jobs/kmod.sh and ublk.sh, if RBLK_LAB_WAY is nvme-tcp
# or nvme-rdma. Sourced after them. A volume has one path, its first address. Disks are links, LAB_DISK and a number.
case ${RBLK_LAB_WAY:-} in nvme-*) ;; *) return 0 ;; esac
LAB_DISK=/dev/lab-nvme LAB_SCHEME=nvme+${RBLK_LAB_WAY#nvme-}
LAB_HOST=(--hostid=00000000-0000-0000-0000-00000000000a
	--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a)

lab_facts() { nvme list -v; dmesg | grep nvme | tail -n 40; }
# Without multipath over RDMA: what 6.1's takes to another path it submits as io_uring did, without waiting, and a writer that
# has waited gets EAGAIN (mended later, in nvme_failover_req()).
lab_kmod_load() {
	[ "$RBLK_LAB_WAY" = nvme-tcp ] || modprobe nvme-core multipath=N || lab_fail "nvme-core: does not load"
	modprobe "$RBLK_LAB_WAY" || lab_fail "$RBLK_LAB_WAY: does not load"
}
lab_kmod_unload() { :; }
# Requests are counted for drivers of ours.
lab_once_begin() { :; }
lab_once_end() { :; }

# The subsystem of a volume is known by its model number.
nvme_subsystem() { grep -lxE "rblk $1 *" /sys/class/nvme-subsystem/*/model 2> /dev/null | xargs -r dirname; }
# nvme_block VOLUME: its disk is the subsystem's (multipath), or the controller's.
nvme_block() {
	NVME_BLOCK=$(find -L "$(nvme_subsystem "$1")" -maxdepth 2 -name 'nvme*n1' ! -name '*c*n1' -printf '%f\n' -quit 2> /dev/null)
	[ -n "$NVME_BLOCK" ] && [ -b "/dev/$NVME_BLOCK" ]
}
# All subsystems are connected at once, and never given up. The words are the control device's; queues is heeded.
lab_attach() {
	local queues=${*: 2}
	queues=${queues##*queues=}
	[ -n "$(nvme_subsystem "$1")" ] || nvme connect-all -t "${RBLK_LAB_WAY#nvme-}" -a "${LAB_ADDR%%,*}" -s 4420 "${LAB_HOST[@]}" \
		--keep-alive-tmo=$((alive * 2)) --reconnect-delay=1 --ctrl-loss-tmo=-1 --nr-io-queues="${queues%% *}" > /tmp/attach 2>&1 ||
		lab_fail "connect-all: $(cat /tmp/attach)"
	lab_wait 20 nvme_block "$1" || lab_fail "attach $1: no disk"
	LAB_DEV=$LAB_DISK$(find /dev -name "${LAB_DISK#/dev/}*" | wc -l)
	ln -s "$NVME_BLOCK" "$LAB_DEV"
}
lab_detach() {
	nvme disconnect -n "$(cat "$(nvme_of "$LAB_DEV")/subsysnqn")" > /tmp/attach 2>&1 || lab_fail "detach: $(cat /tmp/attach)"
	rm "$LAB_DEV"
}
# nvme_of DISK: its subsystem.
nvme_of() {
	local at
	at=$(dirname "$(find -L /sys/class/nvme-subsystem/* -maxdepth 2 -name "$(readlink "$1")" -print -quit 2> /dev/null)")
	[[ $(basename "$at") == nvme-subsys* ]] || at=$(dirname "$at")
	echo "$at"
}
# lab_losses DISK: as the kernel's log says.
lab_losses() {
	local controller count=0
	for controller in "$(nvme_of "$1")"/nvme*; do
		controller=$(basename "$controller")
		count=$((count + $(dmesg | grep -c " nvme $controller: .*starting error recovery")))
	done
	echo $count
}

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of the figure in priority-initiator.sh: rblkd on a virtio disk, whose limit host 2 asks to be changed.
. "$LAB/guest.sh"
lab_link_up
cat > /tmp/rblkd.conf <<-END
	[volume disk]
	path = /dev/vda
END
lab_rblkd_start --open --control-socket /tmp/control --config /tmp/rblkd.conf
lab_meet ready
lab_meet plain 600
"$LAB_BUILD/target/ctl/rblkctl" set --socket /tmp/control volume disk limit=auto || lab_fail "limit = auto"
lab_meet auto
lab_meet end 600
"$LAB_BUILD/target/ctl/rblkctl" volumes --socket /tmp/control
lab_rblkd_stop

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of the two-host serving test: rblkd on a real disk, until host 2 has done its work. Access rules let host 2 in,
# over IPv4 and IPv6.
. "$LAB/guest.sh"
lab_link_up
cat > /tmp/rblkd.conf <<-END
	[volume vda]
	path = /dev/vda
	[initiator *]
	address = 10.9.0.2, fd09::/64
	write = vda
END
lab_rblkd_start --config /tmp/rblkd.conf
lab_meet serving
lab_meet done 120
lab_rblkd_stop

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of kmod_lossy: rblkd on a virtio disk, behind a network card that loses, delays and reorders what
# it sends; see kmod-lossy-initiator.sh. It compares the disk itself.
. "$LAB/guest.sh"
. "$LAB/lossy.sh"

# Soft-RoCE warns when it ends a READ too early; see tests/lab/rxe/old-acknowledgement.patch.
[ "$1" != breaking ] || echo 'WARNING: .* at drivers/infiniband/sw/rxe/rxe_comp.c' > /out/excuses
lab_link_up
# Lost packets are sent again, but may be late: silence must not end the connection first.
lab_rblkd_start --open --keepalive 2min "disk=/dev/vda"
lab_meet ready
lab_meet attached
lab_lossy_begin
lab_meet written 600
lab_lossy_end
lab_rblkd_stop
# Checks the data that the other end wrote, without the fabric.
fio --name=disk --filename=/dev/vda --direct=1 $(cat /pair/workload) --verify_only --output=/tmp/disk.txt ||
	{ cat /tmp/disk.txt; lab_broken "the disk differs from what was written"; }
lab_say "lost packets were sent again: $(rdma -j statistic show link rxe0/1 | tr -d '\n')"

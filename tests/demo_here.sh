# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The part of tests/demo that needs no lab: rblkd serves a file on this machine, and fio writes,
# verifies and measures it, over TCP on loopback or over the machine's own RDMA device.
#   demo_here.sh tcp|rdma OUT        OUT: a folder for the file and the results; in RBLK_BUILD, the build
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
link=$1 out=$2
# shellcheck disable=SC2034 # guest.sh's
LAB=$root/tests/lab LAB_BUILD=$RBLK_BUILD LAB_HOST=1 LAB_OUT=$out
. "$LAB/guest.sh"
. "$LAB/jobs/demo-volume.sh"

export RBLK_FIO_SIZE=${RBLK_FIO_SIZE:-256m} RBLK_FIO_RUNTIME=1

LAB_RBLKD=
ended() {
	[ -z "$LAB_RBLKD" ] || kill "$LAB_RBLKD" 2> /dev/null || true
	rm -f "$out/disk"
}
trap ended EXIT
trap 'exit 130' INT TERM

# The address of the first active RDMA device.
rdma_address() {
	local netdev
	netdev=$(rdma link show 2> /dev/null | sed -n '0,/.*state ACTIVE.*netdev \([^ ]*\).*/s//\1/p')
	[ -n "$netdev" ] || lab_fail "no active RDMA device here; to make one in software:" \
		"modprobe rdma_rxe && rdma link add rxe0 type rxe netdev DEVICE"
	ip -4 -o addr show dev "$netdev" | awk '{ sub("/.*", "", $4); print $4; exit }'
}

case $link in
tcp) listen=rblk+tcp://127.0.0.1:0 scheme=rblk+tcp ;;
rdma)
	address=$(rdma_address)
	[ -n "$address" ] || lab_fail "the RDMA device has no IPv4 address"
	echo "using $address"
	listen=rblk://$address scheme=rblk
	;;
*) lab_fail "tcp or rdma, not '$link'" ;;
esac

truncate -s 1G "$out/disk"
# Some file systems do not support direct I/O: there rblkd uses the page cache by itself.
if ! dd if="$out/disk" of=/dev/null bs=4k count=1 iflag=direct status=none 2> /dev/null; then
	LAB_FIO_JOBS=$out/fio-jobs
	rm -rf "$LAB_FIO_JOBS"
	cp -r "$root/fio-jobs" "$LAB_FIO_JOBS"
	sed -i 's/^direct=1/direct=0/' "$LAB_FIO_JOBS/common.fio"
	lab_say "no direct I/O on this file system: rblkd uses the page cache"
fi
lab_rblkd_start --listen "$listen" "$out/disk"
LAB_URI=$scheme://$(sed -n 's/.*ready: .*:\/\///p' "$LAB_RBLKD_LOG")
demo_volume "$out/disk"
lab_rblkd_stop
LAB_RBLKD=

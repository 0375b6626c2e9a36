# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the lab itself works. Method: the guest has what was asked for (processors, a disk with
# O_DIRECT, the host's files, a writable root), and data crosses the RDMA link intact: rping
# compares what it sends with what comes back.
#   smoke.sh FILE [BYTES]    FILE: guest.sh as the host sees it; BYTES of the disk
. "$LAB/guest.sh"

[ "$(nproc)" = 2 ] || lab_fail "$(nproc) processors instead of 2"
[ "$(blockdev --getsize64 /dev/vda)" = "${2:-$((64 << 20))}" ] || lab_fail "/dev/vda: not the disk asked for"
cmp -s "$LAB/guest.sh" "$1" || lab_fail "$1: not the host's file"
touch /usr/lab-was-here || lab_fail "the root cannot be written"

head -c 1M /dev/urandom > /run/pattern
dd if=/run/pattern of=/dev/vda bs=64k seek=16 oflag=direct status=none || lab_fail "/dev/vda: O_DIRECT write"
dd if=/dev/vda bs=64k skip=16 count=16 iflag=direct status=none | cmp - /run/pattern ||
	lab_broken "/dev/vda: wrong data was read back"

lab_link_up
timeout 600 rping -s -a "$LAB_ADDR" -C 20 -S 4096 -V > /out/rping-server 2>&1 &
server=$!
listening() { rdma resource show cm_id | grep -q LISTEN; }
lab_wait 10 listening || lab_fail "rping: does not listen"
timeout 600 rping -c -a "$LAB_ADDR" -C 20 -S 4096 -V || lab_fail "rping: the client's exit status is $?"
wait $server || lab_fail "rping: the server's exit status is $?: $(tail -n 3 /out/rping-server)"

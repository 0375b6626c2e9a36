# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the script of `tests/demo --here` finds the machine's RDMA device by itself, serves and verifies over it,
# and says what to do if there is none. Method: the guest is such a machine, first without a device.
. "$LAB/guest.sh"
here() { RBLK_BUILD=$LAB_BUILD RBLK_FIO_SIZE=32m bash "$LAB/../demo_here.sh" rdma "$1"; }

mkdir /run/without /run/with
here /run/without > /out/without 2>&1 && lab_fail "it succeeds without a device"
grep -q 'rdma link add' /out/without || lab_fail "without a device it says: $(cat /out/without)"
lab_link_up
here /run/with || lab_fail "exit status $?"

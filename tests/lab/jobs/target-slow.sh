# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a disk that does not answer delays no other volume. Method: e2e.target_slow, which freezes a file
# system, on one that is made for it.
. "$LAB/guest.sh"

ip link set lo up
mkfs.ext4 -q -F /dev/vda && mkdir -p /tmp/slow && mount /dev/vda /tmp/slow || lab_fail "/dev/vda: no file system"
RBLKD=$RBLKD RBLK_E2E_SLOW_DIR=/tmp/slow timeout 400 "$LAB_BUILD/tests/e2e/e2e_target_slow" > /out/slow 2>&1 ||
	lab_fail "e2e.target_slow: $(cat /out/slow)"
! grep -q SKIP /out/slow || lab_fail "skipped: $(cat /out/slow)"

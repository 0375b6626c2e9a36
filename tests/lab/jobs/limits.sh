# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a target over RDMA that may not lock enough memory says so and what to do. The memory is
# first needed when the first initiator comes: that one is refused with a reason, and the next one is
# served after the limit was raised. Method: rblkd without root's right to lock more.
. "$LAB/guest.sh"
lab_link_up

no_right=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock)
small=(--reactors 1 --pool-size 1M --connections 16 --receive-buffers 256 --memory memory=1M)

# Buffers and receives are registered with the device when the first connection comes over it.
printf '#!/bin/sh\nexec %s prlimit --memlock=1048576 "%s" "$@"\n' "${no_right[*]}" "$RBLKD" > /run/rblkd
chmod +x /run/rblkd
RBLKD=/run/rblkd
lab_rblkd_start "${small[@]}"
timeout 600 "$RBLK" info "$LAB_URI/memory" > /out/refused 2>&1 && lab_fail "rblk info: succeeds without buffers"
grep -q 'login refused: the target ran out of memory' /out/refused ||
	lab_fail "rblk info: does not say why it was refused: $(cat /out/refused "$LAB_RBLKD_LOG")"
grep -q 'LimitMEMLOCK=' "$LAB_RBLKD_LOG" || lab_fail "rblkd: does not say what is missing: $(cat "$LAB_RBLKD_LOG")"
prlimit --pid "$LAB_RBLKD" --memlock=unlimited || lab_fail "the limit cannot be raised"
timeout 600 "$RBLK" info "$LAB_URI/memory" > /out/info 2>&1 ||
	lab_fail "rblk info: refused still: $(cat /out/info "$LAB_RBLKD_LOG")"
lab_rblkd_stop

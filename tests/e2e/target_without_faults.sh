#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A daemon that was built with -DRBLK_FAULTS=OFF serves, and refuses faults in its own words. Method: rblkd's main() linked without
# the room target/fault.
. "$(dirname "$0")/cmd.sh"

none='this rblkd was built without faults (RBLK_FAULTS)'
tcp=(--listen rblk+tcp://127.0.0.1:0)

# refused STATUS LINE ARGUMENT...: rblkd prints exactly this line.
refused() {
	local status=$1 line=$2
	shift 2
	expect "$status" "$RBLKD" "$@"
	[ "$(cat "$scratch/err")" = "rblkd: $line" ] || fail "wanted: rblkd: $line"
}

refused 2 "--fault: $none" "${tcp[@]}" --fault delay=1ms --memory data=1M
printf '[volume data]\nstore = memory\nsize = 1M\nfault = delay=1ms\n' > "$scratch/faults.conf"
refused 2 "$scratch/faults.conf:4: fault: $none" "${tcp[@]}" --config "$scratch/faults.conf"
refused 2 "--fault-socket: $none" "${tcp[@]}" --fault-socket "$scratch/socket" --memory data=1M
refused 2 "--fault-socket: $none" --check "${tcp[@]}" --fault-socket "$scratch/socket" --memory data=1M

target_start --memory data=1M
expect 0 "$RBLK" list "$target"
grep -q data "$scratch/out" || fail "it does not serve"

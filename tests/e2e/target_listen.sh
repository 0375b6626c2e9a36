#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: rblkd listens where it is told to, with the new and the older names of the schemes; without a host,
# on every address of both families, whatever the machine's bindv6only is. Method: rblkd on a free port,
# asked for its list at each address; again in a network namespace, if the test can create one.
. "$(dirname "$0")/cmd.sh"

# answers ADDRESS: the target of target_start answers at this address.
answers() {
	expect 0 "$RBLK" list "rblk+tcp://$1:${target##*:}"
	out_has m
}

for scheme in rblk+tcp tcp; do
	target_listen=$scheme://127.0.0.1:0
	target_start --memory m=1M
	grep -q 'ready: serving 1 volume on rblk+tcp://127.0.0.1:[0-9]*$' "$scratch/target.log" || fail "the ready line"
	answers 127.0.0.1
	target_stop
done

target_listen=rblk+tcp://:0
target_start --memory m=1M
answers 127.0.0.1
answers '[::1]'
target_stop

if [ -z "${RBLK_BINDV6ONLY:-}" ] && unshare -n true 2> /dev/null; then
	RBLK_BINDV6ONLY=1 unshare -n bash -c 'ip link set lo up && echo 1 > /proc/sys/net/ipv6/bindv6only && exec "$@"' \
		- "$0" || fail "with bindv6only"
elif [ -z "${RBLK_BINDV6ONLY:-}" ]; then
	echo "SKIPPED: no network namespace for bindv6only"
fi

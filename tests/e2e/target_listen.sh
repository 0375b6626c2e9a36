#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: rblkd listens where it is told to, with the new and the older names of the schemes; without a host,
# on every address of both families, whatever the machine's bindv6only is; --check refuses what a start could not have. Method:
# rblkd on a free port, asked for its list at each address; again in a network namespace, if the test can create one.
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

# Two options take one port: --check names both. The port may be in use meanwhile, by the service that is running.
check() { expect "$1" "$RBLKD" --check --control-socket none --journal none --memory m=1M "${@:2}"; }
collide() {
	check 1 "${@:3}"
	err_has "$1 and $2 take the same port: only one of them can be listened on"
	[ "$(wc -l < "$scratch/err")" = 1 ] || fail "other lines"
}
tcp=rblk+tcp://
collide 'http = 14430' "listen = $tcp:14430" --listen $tcp:14430 --http 14430
collide 'http = 14430' "listen = ${tcp}127.0.0.1:14430" --listen ${tcp}127.0.0.1:14430 --http 14430
collide 'http = 0.0.0.0:14430' "listen = ${tcp}127.0.0.1:14430" --http 0.0.0.0:14430 --listen ${tcp}127.0.0.1:14430
collide 'http = [::]:14430' "listen = ${tcp}127.0.0.1:14430" --listen ${tcp}127.0.0.1:14430 --http '[::]:14430'
collide "listen = ${tcp}localhost:14430" "listen = ${tcp}127.0.0.1:14430" --listen ${tcp}127.0.0.1:14430 --listen ${tcp}localhost:14430
collide "listen = $tcp:14430" "listen = $tcp:14430" --listen $tcp:14430 --listen $tcp:14430
collide "listen = nvme+tcp://:14430" "listen = ${tcp}127.0.0.1:14430" --listen ${tcp}127.0.0.1:14430 --listen nvme+tcp://:14430
collide 'http = 14430' 'listen = nvme+tcp://:14430' --listen nvme+tcp://:14430 --http 14430
check 0 --listen ${tcp}127.0.0.1:14430 --listen ${tcp}127.0.0.1:14431 --http '[::1]:14430'
check 0 --listen ${tcp}127.0.0.1:0 --listen ${tcp}127.0.0.1:0 --http 0
# What else a start does not get, or only later.
check 1 --listen ${tcp}127.0.0.1:0 --http 192.0.2.77:14430
err_has 'http: 192.0.2.77:14430: Cannot assign requested address'
check 1 --listen ${tcp}127.0.0.1:0 --fault-socket "$scratch/none/socket"
err_has "fault_socket: $scratch/none/socket: No such file or directory"
touch "$scratch/file"
check 1 --listen ${tcp}127.0.0.1:0 --fault-socket "$scratch/file"
err_has "fault_socket: $scratch/file: exists, and is not a socket of rblkd"

# A start serves at the one, says that it will never have the other, and does not wait for that.
target_listen=${tcp}127.0.0.1:0
target_start --control-socket "$scratch/control" --memory m=1M
port=${target##*:}
target_stop
target_listen=$tcp:$port
target_start --control-socket "$scratch/control" --listen-wait 1h --listen "${tcp}127.0.0.1:$port" --memory m=1M
expect 3 "$RBLKCTL" status --socket "$scratch/control"
out_has "${tcp}127.0.0.1:$port: missing, $tcp:$port is listened on, too, and takes the same port, tried again every second"
target_stop

if [ -z "${RBLK_BINDV6ONLY:-}" ] && unshare -n true 2> /dev/null; then
	RBLK_BINDV6ONLY=1 unshare -n bash -c 'ip link set lo up && echo 1 > /proc/sys/net/ipv6/bindv6only && exec "$@"' \
		- "$0" || fail "with bindv6only"
elif [ -z "${RBLK_BINDV6ONLY:-}" ]; then
	echo "SKIPPED: no network namespace for bindv6only"
fi

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A gateway that is cut off from the cluster alone sends its sessions away by itself: those that know another gateway go on there, and
# one that knows none waits, and sees no error, however soon it would give up. If the whole cluster stands still, no session leaves
# for good, none is given up, and nobody is shut out. Method: two gateways, the first of which has a network of its own with a
# link to the cluster, which is cut, and one to the initiators; jobs that know both, and the first alone, and give up
# after ten seconds without any target; then all daemons of the cluster are stopped.
. "$(dirname "$0")/cmd.sh"
. "$(dirname "$0")/ceph.sh"

engine="external:$RBLK_FIO_ENGINE"
declare -A gateway job
space=
trap 'for pid in "${gateway[@]}" "${job[@]}" $space; do kill -KILL $pid 2> /dev/null || true; done; ceph_stop; rm -rf "$scratch"' EXIT

# The first gateway is at 10.94.1.2, and reaches the cluster, 10.93.0.1, from 10.93.1.2.
unshare -n sleep 36000 &
space=$!
apart() { [ "$(readlink "/proc/$space/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
wait_for "a namespace" apart
at() { nsenter -t $space -n "$@"; }
for link in cluster:93 hosts:94; do
	name=${link%:*}
	ip link add "${name}1" type veth peer name "$name" netns $space
	ip addr add "10.${link#*:}.1.1/24" dev "${name}1"
	at ip addr add "10.${link#*:}.1.2/24" dev "$name"
	at ip link set "$name" up
	ip link set "${name}1" up
done
at ip link set lo up
at ip route add 10.93.0.1 via 10.93.1.1
ip addr add 10.93.0.1/32 dev lo
ceph_start 1 10.93.0.1
rbd create --size 32M --image-feature layering several
rbd create --size 32M --image-feature layering one

# gateway_start GATEWAY ADDRESS [COMMAND]...
gateway_start() {
	: > "$scratch/log.$1"
	"${@:3}" "$RBLKD" --listen "rblk+tcp://$2:4431" --open --state-dir "$scratch/state.$1" --reservations-dir "$scratch/identities.$1" \
		--control-socket none --journal none --pool-size 8M --config "$scratch/rblkd.conf" 2>> "$scratch/log.$1" &
	gateway[$1]=$!
	wait_for "gateway $1" told "$1" 'ready: '
}
# job_start NAME OFFSET TARGETS: writes and verifies its part of the image, and says each second how much.
job_start() {
	fio --ioengine="$engine" --rblk_uri="rblk+tcp://$3/data" --name="$1" --rw=randwrite --bs=4k --iodepth=8 --offset="$2" --size=2m \
		--verify=crc32c --verify_backlog=256 --rate_iops=500,500 --time_based --runtime=1h --rblk_give_up=10s --aux-path="$scratch" \
		--minimal --status-interval=1 --output="$scratch/said.$1" < /dev/null 2> "$scratch/err.$1" &
	job[$1]=$!
}
alive() { kill -0 "${job[$2]}" 2> /dev/null || fail "$1: job $2 has ended: $(tail -n 3 "$scratch/err.$2" "$scratch/said.$2")"; }
written_kib() { [ ! -e "$scratch/said.$1" ] && echo 0 || awk -F';' 'NF > 47 { kib = $47 } END { print kib + 0 }' "$scratch/said.$1"; }
# after WHAT JOB...: each has written more than it can have had under way, or not yet said, before.
after() {
	local name before
	for name in "${@:2}"; do
		before=$(written_kib "$name")
		goes_on() { alive "$1" "$name"; [ "$(written_kib "$name")" -ge $((before + 6000)) ]; }
		wait_for "job $name after: $1" goes_on "$1"
	done
}
shut_out() { ceph osd blocklist ls 2> /dev/null | grep -c . || true; }
# refused GATEWAY: a session came to it in vain.
refused() { grep -q "the cluster of this one's volumes does not answer" "$scratch/log.$1"; }
jobs_end() {
	local name
	for name in "${!job[@]}"; do
		alive "the end" "$name"
		kill -INT "${job[$name]}"
		wait "${job[$name]}" || true # told to end
		tail -n 1 "$scratch/said.$name" | awk -F';' '$5 != 0 { exit 1 }' || fail "job $name: $(cat "$scratch/err.$name")"
		unset "job[$name]"
	done
}
gateways_end() {
	for name in 1 2; do
		kill -TERM "${gateway[$name]}"
		gateway_ended $name 0
	done
}

# -- several at a time: cut off alone ----------------------------------------------------------------

volume_is 'path = rbd/several' 'gateways = several'
gateway_start 1 10.94.1.2 nsenter -t $space -n
gateway_start 2 127.0.0.1
job_start knows 0 '10.94.1.2:4431;127.0.0.1:4431'
job_start alone 8m '10.94.1.2:4431'
after "none" knows alone
ip link set cluster1 down
after "cut off" knows
told 1 'rbd: rbd/several: the cluster has not answered this gateway for' || fail "the first gateway has not noticed"
told 2 'is silent: shut out of the cluster' || fail "the second gateway has not shut the first one out"
alive "cut off" alone
ip link set cluster1 up
wait_for "the image at the first gateway again" told 1 'volume data: served again'
after "joined" knows alone

# -- the whole cluster -------------------------------------------------------------------------------

# A session that is at each, and could go to the other one.
jobs_end
: > "$scratch/log.1"
: > "$scratch/log.2"
job_start first 0 '10.94.1.2:4431;127.0.0.1:4431'
job_start second 8m '127.0.0.1:4431;10.94.1.2:4431'
after "none" first second
before=$(shut_out)
kill -STOP "${ceph_pids[@]}"
wait_for "the session at the second gateway in vain" refused 2
wait_for "the session at the first gateway in vain" refused 1
# So long that they would have given up: whoever opens the volume now is refused after five seconds.
for try in 1 2 3; do
	! "$RBLK" info "rblk+tcp://127.0.0.1:4431/data" > "$scratch/out" 2>&1 || fail "$try: a volume without its cluster is opened"
done
alive "the whole cluster" first
alive "the whole cluster" second
kill -CONT "${ceph_pids[@]}"
after "the whole cluster" first second
for name in 1 2; do
	wait_for "gateway $name at the cluster again" told $name 'rbd: rbd/several: the cluster answers this gateway again'
	! told $name 'this process was shut out' || fail "gateway $name was shut out"
done
[ "$(shut_out)" = "$before" ] || fail "somebody is shut out"
jobs_end
gateways_end

# -- one after the other -----------------------------------------------------------------------------

volume_is 'path = rbd/one' 'gateways = one' 'lock_wait = 1s'
sed -i '/^require_all = yes/d' "$scratch/rblkd.conf"
gateway_start 1 10.94.1.2 nsenter -t $space -n
gateway_start 2 127.0.0.1
job_start knows 0 '10.94.1.2:4431;127.0.0.1:4431'
after "none, gateways = one" knows
ip link set cluster1 down
wait_for "the image at the second gateway" told 2 'volume data: served again'
after "cut off, gateways = one" knows
ip link set cluster1 up
after "joined, gateways = one" knows
jobs_end
gateways_end

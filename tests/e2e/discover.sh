#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Discovery: a target that is configured for it is found on the networks that it is configured for, and tells no more than
# its name, version and portals there; malformed queries are not answered; a flood of them gets so many answers and no
# more, takes no memory, and wakes nobody who serves volumes; wrong answers are not believed. Method: an initiator in
# another network namespace, at the other end of a wire; a hostile peer there (discover_peer.c).
. "$(dirname "$0")/cmd.sh"

here=$(dirname "$0")
two_machines ""
liar=
trap 'target_stop; kill $machine $liar 2> /dev/null; rm -rf "$scratch"' EXIT
# Without duplicate address detection: an address can be used at once.
wire() {
	ip link add rblk0 type veth peer name rblk1 netns $machine
	ip addr add 10.77.0.1/24 dev rblk0 && ip addr add fd77::1/64 dev rblk0 nodad && ip link set rblk0 up
	"${there[@]}" ip addr add 10.77.0.2/24 dev rblk1
	"${there[@]}" ip addr add fd77::2/64 dev rblk1 nodad
	"${there[@]}" ip link set rblk1 up
	# Answers to forged addresses have a way.
	ip addr add 10.78.255.254/16 dev rblk0
}
wire
target_listen=rblk+tcp://:0
# discovers FILTER [ARGUMENT...]: one question after the other, until this jq filter is true: datagrams may be lost. Each
# one waits longer for its answers: a daemon may get no processor for a while.
discovers() {
	local filter=$1 patience=300
	shift
	true_of() {
		expect 0 "${there[@]}" "$RBLK" discover --json --time "${patience}ms" "$@"
		patience=$((patience < 10000 ? patience * 2 : patience))
		jq -e "$filter" "$scratch/out" > /dev/null
	}
	wait_for "discover $*: $filter" true_of "$@"
}
no_answer() {
	expect 0 "${there[@]}" "$RBLK" discover --json --time 300ms "$@"
	json_is '.targets == [] and .errors == []'
}

# Off, unless configured.
target_start --memory secret=1M
no_answer
target_stop

# One that is found, by both families, and asked by its name; by a person, too.
target_start --memory secret=1M --discovery rblk0 --name storage1
log_has 'discovery: queries on rblk0 are answered as storage1'
port=${target##*:}
discovers '.targets | length == 1'
wrong=$(jq -r --slurpfile schema "$here/../../initiator/cmd/rblk.schema.json" --arg object discover -f "$here/json_schema.jq" \
	"$scratch/out")
[ -z "$wrong" ] || fail "$wrong"
json_is ".targets[0] | .target_name == \"storage1\" and .protocol == 2 and .interface == \"rblk1\" and .over == [\"udp\"] and
	(.portals | sort) == ([\"rblk+tcp://10.77.0.1:$port\", \"rblk+tcp://10.78.255.254:$port\", \"rblk+tcp://[fd77::1]:$port\"] | sort)"
by_name() {
	timeout 60 "${there[@]}" "$RBLK" discover storage1 > "$scratch/out" 2> "$scratch/err" &&
		[ "$(grep -cE "^storage1 +rblk\+tcp://[^ ]*:$port +2  rblk1 +udp" "$scratch/out")" = 3 ]
}
wait_for "the table" by_name
expect 1 "${there[@]}" "$RBLK" discover --time 300ms storage2
err_has 'rblk: storage2: no target of this name answered'
# Its portals are those to connect to.
head -c 64K /dev/urandom > "$scratch/data"
for portal in 10.77.0.1 '[fd77::1]'; do
	expect 1 "${there[@]}" "$RBLK" list "rblk+tcp://$portal:$port"
	err_has "login refused"
done
# A target by its name, from where it may be used.
by_target() {
	timeout 60 "$RBLK" list --json discover://storage1 > "$scratch/out" 2> "$scratch/err" &&
		[ "$(jq -c '[.volumes[].volume]' "$scratch/out")" = '["secret"]' ]
}
wait_for "discover://storage1" by_target
put() { timeout 60 "$RBLK" copy "$scratch/data" discover://storage1/secret > "$scratch/out" 2> "$scratch/err"; }
wait_for "copy" put
expect 0 "$RBLK" copy "$target/secret" "$scratch/back"
cmp -n 65536 "$scratch/data" "$scratch/back" || fail "data"
expect 1 "$RBLK" list discover://storage2
err_has 'storage2: no target of this name answered'
expect 2 "$RBLK" list discover://st/1/2
err_has 'as in discover://NAME/VOLUME'
# By IPv6 alone.
"${there[@]}" ip addr del 10.77.0.2/24 dev rblk1
discovers '.targets | length == 1'
"${there[@]}" ip addr add 10.77.0.2/24 dev rblk1
# Not on a network that it is not configured for, nor at another port.
expect 0 "$RBLK" discover --json --time 300ms --interface lo
json_is '.targets == []'
[ ! -s "$scratch/err" ] || fail "words besides JSON"
expect 0 "$RBLK" discover --time 300ms --interface lo
[ "$(cat "$scratch/out")" = 'no target answered; a target does if its rblkd.conf has discovery' ] || fail "nobody answers"
no_answer --port 4429

# Another one on this machine: both are found.
"$RBLKD" --listen rblk+tcp://127.0.0.1:0 --control-socket none --state-dir "$scratch/state2" --memory m=1M --discovery all \
	2> "$scratch/second.log" &
second=$!
trap 'target_stop; kill $machine $liar $second 2> /dev/null; rm -rf "$scratch"' EXIT
wait_for "the second" grep -q ready: "$scratch/second.log"
host=$(uname -n | tr -c 'A-Za-z0-9._:+\n-' - | cut -c 1-63)
discovers "[.targets[] | .target_name] == ([\"storage1\", \"$host\"] | sort)"
# It serves this machine only, and tells nobody an address.
json_is ".targets[] | select(.target_name == \"$host\") | .portals == []"
kill $second
wait $second || true

# What is no query gets no answer; what is one tells no volume.
expect 0 "${there[@]}" "$PEER" twists rblk1 4430 10.77.0.1
malformed=$(sed -n 's/ malformed$//p' "$scratch/out")
[ "$malformed" -gt 15 ] || fail "only $malformed"
out_has storage1
if grep -q secret "$scratch/out"; then fail "tells volumes"; fi
# counted NAME: that number of the last line about discovery.
counted() { sed -nE "s/.*discovery: storage1: ([0-9]+) queries answered, ([0-9]+) over the limits, ([0-9]+) malformed/\\$1/p" \
	"$scratch/target.log" | tail -1; }
status() {
	local before
	before=$(grep -c 'discovery: storage1:' "$scratch/target.log" || true)
	kill -USR1 "$target_pid"
	more() { [ "$(grep -c 'discovery: storage1:' "$scratch/target.log" || true)" -gt "$before" ]; }
	wait_for "status" more
}
status
[ "$(counted 3)" = "$malformed" ] || fail "$(counted 3) malformed, not $malformed"

# A flood from one address, then from 256, while nobody does I/O: the threads that serve volumes are not even woken.
# What they do when a log line is asked for is before and after.
reactors() {
	local task
	for task in /proc/"$target_pid"/task/*; do
		if grep -q '^reactor' "$task/comm"; then awk '/ctxt_switches/ { s += $2 } END { print s }' "$task/status"; fi
	done | paste -sd +
}
rss() { awk '/^VmRSS/ { print $2 }' /proc/"$target_pid"/status; }
[ -n "$(reactors)" ] || fail "no threads by the name of reactors"
flood() {
	local answered since rss reactors
	status
	answered=$(counted 1) since=$SECONDS rss=$(rss)
	wait_for "idle reactors" idle
	reactors=$(($(reactors)))
	expect 0 "${there[@]}" "$PEER" flood rblk1 4430 "$@"
	[ $(($(reactors) - reactors)) -le 4 ] || fail "a flood wakes reactors: $reactors, now $(($(reactors)))"
	status
	# 128 at once and 64 a second; $SECONDS is whole seconds.
	[ $(($(counted 1) - answered)) -le $((128 + 64 * (SECONDS - since + 2))) ] || fail "$(counted 1) answers, before $answered"
	[ $(($(rss) - rss)) -lt 2048 ] || fail "memory: $rss KiB, now $(rss)"
}
# Until two looks find the same.
idle() { local before; before=$(($(reactors))); read -rt 0.2 <> <(:) || true; [ $(($(reactors))) = "$before" ]; }
flood 20000 0
log_has 'discovery: too many queries, lately from 10.77.0.2 on rblk0: '
[ "$(grep -c 'discovery: too many' "$scratch/target.log")" -le 2 ] || fail "too many lines"
[ "$(counted 2)" -gt 0 ] || fail "no query was over the limits"
flood 20000 256
# While it lasts, I/O is right, and after it another address is answered.
"${there[@]}" "$PEER" flood rblk1 4430 50000 256 &
flooder=$!
expect 0 "$RBLK" copy "$scratch/data" "$target/secret"
expect 0 "$RBLK" copy "$target/secret" "$scratch/back"
cmp -n 65536 "$scratch/data" "$scratch/back" || fail "data"
wait $flooder
discovers '.targets | length == 1'

# An interface that goes, and comes again; and one that comes later.
ip link del rblk0
wait_for "gone" grep -qF 'discovery: rblk0 is down or gone' "$scratch/target.log"
wire
discovers '.targets | length == 1'
target_stop
ip link del rblk0
target_start --memory secret=1M --discovery "none0,rblk0" --name storage1
wire
discovers '.targets[0].portals | length == 3'
target_stop

# Answers that break a rule, or that nobody asked for, are dropped; of many, so many are kept, and it says so.
"$PEER" lie rblk0 4430 wrong > "$scratch/liar" &
liar=$!
wait_for "liar" grep -q ready "$scratch/liar"
no_answer
kill $liar
wait $liar || true
"$PEER" lie rblk0 4430 many > "$scratch/liar" &
liar=$!
wait_for "liar" grep -q ready "$scratch/liar"
discovers '(.targets[0].portals | length) == 32 and
	(.errors | any(contains("more targets or portals answered than are listed")))'
kill $liar
wait $liar || true
liar=

# A group that cannot be joined is told of once, however often it is tried: here with each interface that comes. An MTU
# that is too small for IPv6 leaves no group of its.
echo 0 > /proc/sys/net/ipv4/igmp_max_memberships
ip link set rblk0 mtu 1200
target_start --memory secret=1M --discovery rblk0,rblk2,rblk3 --name storage1
log_has 'discovery: rblk0: cannot join the multicast group: '
ip link add rblk2 mtu 1200 type veth peer name rblk3 mtu 1200
for interface in rblk2 rblk3; do
	ip link set $interface up
	log_has "discovery: $interface: cannot join the multicast group: "
done
refused_times() { grep -c 'discovery: rblk0: cannot join' "$scratch/target.log"; }
[ "$(refused_times)" = 1 ] || fail "$(refused_times) warnings"
echo 20 > /proc/sys/net/ipv4/igmp_max_memberships
ip addr add 10.79.0.1/24 dev rblk0
log_has 'discovery: queries on rblk0 are answered as storage1'
[ "$(refused_times)" = 1 ] || fail "$(refused_times) warnings"
target_stop

# Mistakes.
expect 2 "$RBLK" discover --over ip
err_has '--over "ip": rdma or udp'
if [ ! -e /sys/class/infiniband ] || [ -z "$(ls /sys/class/infiniband)" ]; then
	expect 1 "$RBLK" discover --over rdma
	err_has 'no network interface is up that has an RDMA device'
fi
expect 2 "$RBLK" discover 'st/1'
err_has '"st/1" is not a target'"'"'s name'
expect 1 "$RBLK" discover --interface none0
err_has 'none0: no such network interface, or it is down'
refused() {
	expect 2 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --memory m=1M "$@"
}
refused --discovery a/b
err_has '"a/b" is not the name of a network interface'
refused --discovery rblk0 --name 'st/1'
err_has '"st/1" is not a name: 1 to 63 letters'
refused --discovery-port 70000
err_has 'is not a number from 1 to 65535'

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever strikes gateways of an image of Ceph, no writer sees an error, and the image holds everything that was
# acknowledged. Method: a small cluster, three gateways, each in a network namespace with a link to the cluster and another one
# to the initiators, and two writers of a promise journal that name all gateways. A fault strikes when both have got on,
# and is over when both get on again and all gateways serve; after some of them the writers end, and the image is compared.
#   gateways.sh FAULTS [SEED [MODE [FAULT...]]]
# FAULTS are drawn by SEED from those named, or from all, each kind once before any comes again; the same seed has the same
# faults at the same places. MODE: several (default), locked (several, of an image with exclusive-lock), one (one after the other).
#   kill, crash, two     a gateway is killed; and started at once; two are
#   stop, pause          it stands still until its writers have left it; until they notice
#   cluster, late        its link to the cluster is cut while it has writes under way; it is killed then, and its machine sends
#                        what it has when newer data is there
#   alone                its link to the cluster stays cut, until its writers have gone elsewhere
#   initiator, both      its link to the initiators is cut; both are
#   osd, osd-kill        an OSD stands still under queued writes; and the gateway that has them is killed
#   monitor              the monitor stands still, and a gateway is killed meanwhile
#   upgrade, drain       all gateways end in good order and start anew, one after the other; one does
#   resize, snapshot, remove   the image grows, gets and loses a snapshot, cannot be removed
#   client               a writer is killed and goes on with its journal at another gateway
# A line for each fault says how long no write of a writer was acknowledged. RBLK_KEEP is a folder for what a failure leaves,
# RBLK_FAULTS_OUT a file for lines "struck FAULT" and "kept". PROMISE, RBLKD, RBLK are the programs.
faults_wanted=${1:?}
. "$(dirname "$0")/../e2e/cmd.sh"
. "$(dirname "$0")/../e2e/ceph.sh"
seed=${2:-$RANDOM} mode=${3:-several}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- kill crash two stop pause cluster alone late initiator both osd osd-kill monitor upgrade drain resize snapshot remove client
writers=(1 2) gateways=(1 2 3)
strikes=${RBLK_STRIKES:-6} # the image is compared after so many
blocks=256                 # of each writer: few, so that what comes late has newer data to land on
declare -A gateway space writer_pids journal_at
fault=none v=-

# -- the end -------------------------------------------------------------------------------------

finish() {
	local status=$? pid
	for pid in "${gateway[@]}" "${writer_pids[@]}"; do kill -KILL "$pid" 2> /dev/null || true; done
	if [ $status != 0 ] && [ $status != 77 ] && [ -n "${RBLK_KEEP:-}" ]; then
		mkdir -p "$RBLK_KEEP"
		ceph_kept
		cp "$scratch"/{log.*,journal*,check,image,struck,*.txt} "$ceph/log" "$RBLK_KEEP" 2> /dev/null || true
	fi
	for pid in "${ceph_pids[@]}"; do kill -CONT "$pid" 2> /dev/null || true; done
	ceph_stop
	for pid in "${space[@]}"; do kill -KILL "$pid" 2> /dev/null || true; done
	wait 2> /dev/null
	rm -rf "$scratch"
}
# What the cluster knows, if it still answers.
ceph_kept() {
	local pid
	for pid in "${ceph_pids[@]}"; do kill -CONT "$pid" 2> /dev/null || true; done
	{
		timeout 20 ceph -s
		timeout 20 ceph osd blocklist ls
		timeout 20 rados -p rbd lock info "rblk.$image_id" rblk
	} > "$scratch/cluster.txt" 2>&1 || true
}
trap finish EXIT
image_id=

# -- the places ----------------------------------------------------------------------------------

# Gateway G's machine has 10.93.G.2 towards the cluster, which is 10.93.0.1, and 10.94.G.2 towards initiators.
space_make() {
	local g=$1
	unshare -n sleep 36000 &
	space[$g]=$!
	apart() { [ "$(readlink "/proc/${space[$1]}/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
	wait_for "a namespace" apart "$g"
	ip link add "cluster$g" type veth peer name cluster netns "${space[$g]}"
	ip link add "hosts$g" type veth peer name hosts netns "${space[$g]}"
	ip addr add "10.93.$g.1/24" dev "cluster$g"
	ip addr add "10.94.$g.1/24" dev "hosts$g"
	at "$g" ip addr add "10.93.$g.2/24" dev cluster
	at "$g" ip addr add "10.94.$g.2/24" dev hosts
	at "$g" ip link set lo up
	at "$g" ip link set cluster up
	at "$g" ip link set hosts up
	ip link set "cluster$g" up
	ip link set "hosts$g" up
	at "$g" ip route add 10.93.0.1 via "10.93.$g.1"
}
at() { nsenter -t "${space[$1]}" -n "${@:2}"; }
# sever LINK G, join LINK G: nothing passes on it any more, and again.
sever() { ip link set "$1$2" down; }
join() { ip link set "$1$2" up; }

# -- gateways ------------------------------------------------------------------------------------

# Its log is of all its lives; log_from[G]: where this one begins.
# As the fault struck: how many of its clients were shut out, how often it had noticed. And it has ended since.
declare -A log_from shots_before noticed_before ended
log_of() { tail -n "+${log_from[$1]}" "$scratch/log.$1"; }
gateway_begin() {
	touch "$scratch/log.$1"
	log_from[$1]=$(($(wc -l < "$scratch/log.$1") + 1))
	nsenter -t "${space[$1]}" -n "$RBLKD" --listen "rblk+tcp://10.94.$1.2" --open --state-dir "$scratch/state.$1" --reservations-dir "$scratch/identities.$1" \
		--control-socket none --journal none --reactors 2 --pool-size 8M --config "$scratch/rblkd.conf" 2> >(stamped >> "$scratch/log.$1") &
	gateway[$1]=$!
}
# As the journals have it.
stamped() { exec perl -MTime::HiRes=time -ne 'BEGIN { $| = 1 } printf "%.6f %s", time, $_'; }
# One that was shut out has ended by itself, says why, and is started anew, as its service would: also one that only was too late
# for the others, on a busy machine.
is_alive() {
	! kill -0 "${gateway[$1]}" 2> /dev/null || return 0
	gateway_over "$1" 1
	[ "$1" = "$v" ] || echo "   gateway $1 has ended, too"
	gateway_begin "$1"
}
is_ready() { is_alive "$1"; log_of "$1" | grep "$ready" > /dev/null; }
gateway_start() { gateway_begin "$1"; wait_for "$fault: gateway $1" is_ready "$1"; }
# Or the cluster was too slow for it as it started, likewise.
says_why() { log_of "$1" | grep 'this process was shut out of the cluster\|the cluster has not answered' > /dev/null; }
gateway_over() {
	local got=0
	wait "${gateway[$1]}" 2> /dev/null || got=$?
	ended[$1]=1
	[ $got = "$2" ] || [ $got = 1 ] || fail "$fault: gateway $1: status $got, not $2: $(tail -n 3 "$scratch/log.$1")"
	[ $got != 1 ] || wait_for "$fault: why gateway $1 has ended" says_why "$1"
}
gateway_kill() { kill -KILL "${gateway[$1]}" 2> /dev/null || true; gateway_over "$1" 137; }
gateway_end() { kill -TERM "${gateway[$1]}" 2> /dev/null || true; gateway_over "$1" 0; }
# How many clients of gateway G others say that they have shut out.
shots() { sed -n "s|.*(.*\\(10[.]93[.]$1[.]2:0/[0-9]*\\)).*: shut out of the cluster for.*|\\1|p" "$scratch"/log.? | sort -u | wc -l; }
# It serves, whatever others have done to it since the fault struck: who was shut out notices first, and ends, or comes back as
# another client (and may wait then, where one serves at a time).
noticed() { grep -c 'this process was shut out of the cluster' "$scratch/log.$1" || true; }
is_back() {
	[ "$(noticed "$1")" -gt "${noticed_before[$1]}" ] || return 1
	[ $mode = one ] || log_of "$1" | grep "$ready\|served again\|was shut out of" | tail -n 1 | grep -v 'was shut out of' > /dev/null
}
has_settled() { is_ready "$1" && { [ "${ended[$1]}" ] || [ "$(shots "$1")" = "${shots_before[$1]}" ] || is_back "$1"; }; }
settle() {
	local g
	for g in "${gateways[@]}"; do wait_for "$fault: gateway $g serves again" has_settled "$g"; done
}

# -- writers -------------------------------------------------------------------------------------

# writer_start WRITER GATEWAY: it names that one first.
writer_start() {
	local list=() i
	for ((i = 0; i < ${#gateways[@]}; i++)); do list+=("10.94.$((($2 - 1 + i) % ${#gateways[@]} + 1)).2"); done
	draw 32768
	"$PROMISE" run --seed "$drawn" --writer "$1" --first $((($1 - 1) * blocks)) --blocks $blocks --max-blocks 8 --queues 2 \
		--give-up 600000 "$scratch/journal$1" "rblk+tcp://$(IFS=';'; echo "${list[*]}")/data" 2>> "$scratch/err" &
	writer_pids[$1]=$!
}
count() { [ ! -e "$scratch/journal$1" ] && echo 0 || grep -c "$2" "$scratch/journal$1" || true; }
got_on() {
	kill -0 "${writer_pids[$1]}" 2> /dev/null || fail "$fault: writer $1 has ended"
	[ "$(count "$1" "$2")" -ge "$3" ]
}
# mark PATTERN [WRITER...]; reached COUNT: since then the journal of each has so many more such lines.
mark() {
	local writer
	marked=$1 marks=()
	shift
	[ $# -gt 0 ] || set -- "${writers[@]}"
	for writer; do marks[writer]=$(count "$writer" "$marked"); done
}
reached() {
	local writer
	for writer in "${!marks[@]}"; do wait_for "$fault: writer $writer, $marked" got_on "$writer" "$marked" $((marks[writer] + $1)); done
}
# progress COUNT [WRITER...]: so many more writes.
progress() { mark '^A' "${@:2}"; reached "$1"; }
# where WRITER: sets `found` to the gateway that it is at.
where() {
	at_one() { found=$(ss -tnpH state established '( dport = 4430 )' | awk -v pid="pid=${writer_pids[$1]}," 'index($0, pid) { split($4, part, "."); print part[3]; exit }'); [ -n "$found" ]; }
	wait_for "$fault: writer $1 at a gateway" at_one "$1"
}
# at_gateway G: sets `there` to the writers that are at G.
at_gateway() {
	local writer
	there=()
	for writer in "${writers[@]}"; do
		where "$writer"
		[ "$found" != "$1" ] || there+=("$writer")
	done
}
writers_stop() {
	local writer status
	for writer in "${writers[@]}"; do kill -TERM "${writer_pids[$writer]}"; done
	for writer in "${writers[@]}"; do
		status=0
		wait "${writer_pids[$writer]}" || status=$?
		[ $status = 0 ] || fail "$fault: writer $writer: exit status $status"
	done
}
compare() {
	local journals=("${writers[@]/#/$scratch/journal}")
	! grep -h '^[EH]' "${journals[@]}" > "$scratch/out" || fail "$fault: errors"
	rm -f "$scratch/image"
	rbd export --no-progress data "$scratch/image" 2> "$scratch/err" || fail "$fault: rbd export"
	"$PROMISE" check --strict "${journals[@]}" "$scratch/image" > "$scratch/check" || fail "$fault: $(cat "$scratch/check")"
	[ -z "${RBLK_FAULTS_OUT:-}" ] || echo kept >> "$RBLK_FAULTS_OUT"
	echo "$(tail -n 1 "$scratch/check")"
}
# pauses: of each writer, the longest time without an acknowledgement since the fault struck.
pauses() {
	local writer
	for writer in "${writers[@]}"; do
		tail -n "+${journal_at[$writer]}" "$scratch/journal$writer" |
			awk '$1 == "A" { if (last && $2 - last > most) most = $2 - last; last = $2 } END { printf " %.1f", most / 1e9 }'
	done
}

# -- the faults ----------------------------------------------------------------------------------

# draw N: sets `drawn`, below N. In the main shell only: each shell has a row of its own.
draw() { drawn=$((RANDOM % $1)); }
# victim: sets `v` to the gateway of a writer, and `w` to that writer.
victim() {
	draw ${#writers[@]}
	w=${writers[drawn]}
	where "$w"
	v=$found
}
# How many commands gateway G has under way, at least: each of its reactors has a line for each session.
under_way() {
	kill -USR1 "${gateway[$1]}"
	log_of "$1" | sed -n 's/.*status: session .* \([0-9]*\) commands\? outstanding.*/\1/p' | tail -n 2 | awk '{ n += $1 } END { print n + 0 }'
}
has_many() { [ "$(under_way "$1")" -ge 8 ]; }
# Bytes that G's kernel has for the cluster and that did not arrive.
undelivered() { at "$1" ss -tnH '( dport >= 3300 )' | awk '{ n += $3 } END { print n + 0 }'; }
# A write; or, where another gateway has the image's lock, that this one asks for it.
has_undelivered() { [ "$(undelivered "$1")" -ge $([ $mode = locked ] && echo 1 || echo 4096) ]; }
has_delivered() { [ "$(undelivered "$1")" = 0 ]; }

fault_kill() { victim; gateway_kill $v; progress 20; gateway_start $v; }
fault_crash() { victim; gateway_kill $v; gateway_start $v; }
fault_two() {
	local other
	victim
	draw 2
	other=$(((v + drawn) % 3 + 1))
	gateway_kill $v
	gateway_kill $other
	progress 20
	gateway_start $other
	gateway_start $v
}
fault_stop() {
	victim
	at_gateway $v
	kill -STOP "${gateway[$v]}"
	progress 50 "${there[@]}"
	kill -CONT "${gateway[$v]}"
}
# It may be continued before it is shut out, or behind that.
fault_pause() {
	victim
	at_gateway $v
	mark '^N [0-9]* recovering' "${there[@]}"
	kill -STOP "${gateway[$v]}"
	reached 1
	kill -CONT "${gateway[$v]}"
	progress 20
}
fault_cluster() {
	victim
	sever cluster $v
	wait_for "$fault: writes in the socket" has_undelivered $v
	join cluster $v
	progress 20
}
fault_alone() {
	victim
	at_gateway $v
	sever cluster $v
	wait_for "$fault: writes in the socket" has_undelivered $v
	progress 50 "${there[@]}"
	join cluster $v
}
fault_late() {
	victim
	sever cluster $v
	wait_for "$fault: writes in the socket" has_undelivered $v
	gateway_kill $v
	progress 200
	join cluster $v
	wait_for "$fault: the dead gateway's data at the cluster" has_delivered $v
	progress 20
	gateway_start $v
}
# Of gateways that take turns it keeps the image, as long as it reaches the cluster.
fault_initiator() {
	victim
	at_gateway $v
	mark '^N [0-9]* recovering' "${there[@]}"
	sever hosts $v
	reached 1
	[ $mode = one ] || progress 50 "${there[@]}"
	join hosts $v
}
fault_both() {
	victim
	at_gateway $v
	sever cluster $v
	wait_for "$fault: writes in the socket" has_undelivered $v
	sever hosts $v
	progress 200 "${there[@]}"
	join cluster $v
	join hosts $v
}
# osd_stop: one of them, which has none of what the gateways ask each other by.
osd_stop() {
	osd=${ceph_pids[2 - asks]}
	kill -STOP "$osd"
	wait_for "$fault: writes at an OSD that stands still" has_many "$v"
}
fault_osd() {
	victim
	osd_stop
	kill -CONT "$osd"
}
fault_osd-kill() {
	victim
	osd_stop
	mark '^N [0-9]* recovering' $w
	gateway_kill $v
	reached 1
	kill -CONT "$osd"
	progress 20
	gateway_start $v
}
fault_monitor() {
	victim
	kill -STOP "${ceph_pids[0]}"
	progress 50
	mark '^N [0-9]* recovering' $w
	gateway_kill $v
	reached 1
	kill -CONT "${ceph_pids[0]}"
	progress 20
	gateway_start $v
}
fault_drain() { victim; gateway_end $v; progress 20; gateway_start $v; }
fault_upgrade() {
	for v in "${gateways[@]}"; do
		gateway_end "$v"
		gateway_start "$v"
		progress 20
	done
}
fault_resize() {
	size=$((size + 4))
	rbd resize --no-progress --size ${size}M data
}
fault_snapshot() {
	rbd snap create --no-progress data@now 2> /dev/null || fail "$fault: rbd snap create"
	progress 50
	rbd snap rm --no-progress data@now 2> /dev/null || fail "$fault: rbd snap rm"
}
fault_remove() {
	! rbd rm --no-progress data > "$scratch/out" 2> "$scratch/err" || fail "$fault: an image is removed below its gateways"
	grep -q 'has watchers' "$scratch/err" "$scratch/out" || fail "$fault: rbd rm does not say why not"
}
fault_client() {
	victim
	kill -KILL "${writer_pids[$w]}"
	wait "${writer_pids[$w]}" 2> /dev/null || true
	writer_start "$w" $((v % 3 + 1))
}

# -- the test ------------------------------------------------------------------------------------

RANDOM=$seed
echo "seed $seed, $mode"
for g in "${gateways[@]}"; do space_make "$g"; done
ip addr add 10.93.0.1/32 dev lo
ceph_start 2 10.93.0.1
size=32
features=layering ready='ready: serving 1 volume' words=('gateways = several')
target_lines=('keepalive = 1s')
case $mode in
several) ;;
locked) features=layering,exclusive-lock,object-map,fast-diff ;;
one) words=('gateways = one' 'lock_wait = 1s') ready='ready: ' target_lines+=('require_all = no') ;;
*) fail "no such mode: $mode" ;;
esac
# Small objects, so that each writer has some at each OSD.
rbd create --size ${size}M --object-size 64K --image-feature "$features" data
volume_is 'path = rbd/data' "${words[@]}"
[ $mode != one ] || sed -i '/^require_all = yes/d' "$scratch/rblkd.conf"
image_id=$(rbd info --format json data | jq -r .id)
asks=$(ceph osd map rbd "rblk.$image_id" --format json 2> /dev/null | jq .acting_primary)
for g in "${gateways[@]}"; do gateway_start "$g"; done

# Kinds in an order of the seed's, round by round.
list=()
while [ ${#list[@]} -lt "$faults_wanted" ]; do
	round=("$@")
	for ((i = ${#round[@]}; i > 1; i--)); do
		draw $i
		kind=${round[drawn]}
		round[drawn]=${round[i - 1]}
		round[i - 1]=$kind
	done
	list+=("${round[@]}")
done
since=0
for ((n = 1; n <= faults_wanted; n++)); do
	fault=${list[n - 1]}
	[ $since -gt 0 ] || for writer in "${writers[@]}"; do writer_start "$writer" "$writer"; done
	progress 50
	for g in "${gateways[@]}"; do shots_before[$g]=$(shots "$g") noticed_before[$g]=$(noticed "$g") ended[$g]=''; done
	for writer in "${writers[@]}"; do journal_at[$writer]=$(wc -l < "$scratch/journal$writer"); done
	[ -z "${RBLK_FAULTS_OUT:-}" ] || echo "struck $fault" >> "$RBLK_FAULTS_OUT"
	echo "$n $fault" >> "$scratch/struck"
	v='-'
	"fault_$fault"
	progress 20
	settle
	echo "$n: $fault: gateway $v, longest pauses$(pauses) s"
	since=$((since + 1))
	if [ $since = "$strikes" ] || [ $n = "$faults_wanted" ]; then
		writers_stop
		compare
		since=0
	fi
done
for g in "${gateways[@]}"; do gateway_end "$g"; done

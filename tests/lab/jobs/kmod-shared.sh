# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: all volumes of a target share one session: its connections, its memory, its tags. What happens to one disk does
# not disturb the others; what happens to the session happens to all. Method: two dozen volumes are attached, and what the
# target and the RDMA stack count is compared with what one takes. Then, while fio verifies what it writes to some of
# them: the daemon is killed and started again, a volume is missing and comes back, one whose disk is slow is detached
# by force, an attach waits for a lost session, programs are killed in an ioctl or an attach, and many attach and detach
# at once.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

COUNT=24
# No request may be given up here.
WORDS='queues=2 command_ms=10000 give_up_ms=600000 connect_ms=60000' SOON=2000
[ -n "$LAB_SLOW" ] && COUNT=8 WORDS='queues=2 command_ms=60000 give_up_ms=7200000 connect_ms=600000' SOON=30000
FAULTS=/tmp/faults

attribute() { cat "/sys/block/rblk$1/rblk/$2"; }
is() { [ "$2" = "$3" ] || lab_fail "$1: $2, not $3"; }
state_is() { [ "$(attribute "$1" state)" = "$2" ]; }
all_are() { # STATE DISK...
	local state=$1 i
	shift
	for i; do state_is "$i" "$state" || return 1; done
}
wait_for() { lab_wait 60 "$@" || { grep -H . /sys/block/rblk*/rblk/{state,reason,connections}; lab_stacks; lab_fail "never: $*"; }; }
all_up() { ! grep -qv ' live ' "/sys/block/rblk$1/rblk/connections" && [ -z "$(attribute "$1" reason)" ]; }
done_on() { awk '{ print $1 + $5 }' "/sys/block/rblk$1/stat"; }
# flows DISK...: I/O ends on each of them.
flowed() { [ "$(done_on "$1")" -gt "$2" ]; }
flows() {
	local i
	for i; do wait_for flowed "$i" $(($(done_on "$i") + 50)); done
}
resources() { rdma resource show | sed 's/^[0-9]*: //' | grep -o 'qp [0-9]* \|cq [0-9]* \|mr [0-9]* \|pd [0-9]* '; }
# served SESSIONS CONNECTIONS: what the daemon says that it has (a session is at home on one reactor).
served() {
	local before
	before=$(wc -l < "$LAB_RBLKD_LOG")
	kill -USR1 "$LAB_RBLKD"
	counted() {
		[ "$(tail -n +$((before + 1)) "$LAB_RBLKD_LOG" | grep -o 'status: session .* connections\? on' | awk -v sessions="$1" -v connections="$2" '
			!/\[remote\]/ { s++ }
			{ c += $(NF - 2) + 0 }
			END { print s + 0 == sessions && c == connections }')" = 1 ]
	}
	lab_wait 20 counted "$@" || { tail -n 20 "$LAB_RBLKD_LOG"; lab_fail "the target has not $1 session and $2 connections"; }
}

VOLUMES=
for i in $(seq 0 $COUNT); do
	truncate -s 8M /tmp/v$i.img
	VOLUMES+=" v$i=/tmp/v$i.img"
done
target_start() { lab_rblkd_start --fault-socket $FAULTS --fault delay=close:1us "$@"; }
target_kill() {
	kill -9 "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
}
verify() { # DISK
	fio --name="v$1" --filename="/dev/rblk$1" --direct=1 --eta=never --ioengine=io_uring --rw=randwrite --bsrange=4k-64k --iodepth=8 \
		--size=4M --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based --runtime=3600 --output="/tmp/fio.$1" &
	LOAD[$1]=$!
}
verified() { # DISK
	kill "${LOAD[$1]}"
	LAB_DEV=/dev/rblk$1
	lab_watch "${LOAD[$1]}"
	grep -q 'err= 0' "/tmp/fio.$1" && ! grep -qE 'verify:|error=' "/tmp/fio.$1" ||
		{ cat "/tmp/fio.$1"; lab_broken "rblk$1: an error, or other bytes than were written"; }
}

lab_link_up
target_start $VOLUMES
lab_kmod_load

lab_say "$COUNT volumes, one session"
lab_attach v0 $WORDS
one=$(resources)
for i in $(seq $((COUNT - 1))); do lab_attach v$i $WORDS; done
is "RDMA resources" "$(resources)" "$one"
is "sessions" "$(cat /sys/block/rblk*/rblk/session | sort -u | wc -l)" 1
is "their numbers" "$(cat /sys/block/rblk*/rblk/session_number | sort -u)" 0
is "connections" "$(wc -l < /sys/block/rblk$((COUNT - 1))/rblk/connections)" 2
served 1 2
lab_attach v$COUNT $WORDS credits=16
[ "$(attribute $COUNT session_number)" != 0 ] || lab_fail "other words, and the same session"
lab_detach
lab_attach v$COUNT $WORDS own_session
[ "$(attribute $COUNT session_number)" != 0 ] || lab_fail "own_session: it is not"
lab_detach
lab_wait 20 eval '[ "$(resources)" = "$one" ]' || { resources; lab_fail "what the other sessions had is left"; }

lab_attach v$COUNT $WORDS credits=16 command_ms=$SOON
HOG=$LAB_DEV
lab_attach v6 $WORDS credits=16 command_ms=$SOON
IDLE=$LAB_DEV

lab_say "the daemon is killed"
for i in 0 1 2 3; do verify $i; done
flows 0 1 2 3
target_kill
wait_for all_are recovering 0 1 2 3 4
target_start $VOLUMES
wait_for all_are live $(seq 0 $((COUNT - 1)))
flows 0 1 2 3

# Few tags, and two disks that share them; one has been idle for a while when the other one takes what it gets.
lab_say "one volume is missing, and what it holds leaves tags to others"
fio --name=hog --filename="$HOG" --direct=1 --eta=never --ioengine=io_uring --rw=randwrite --bs=4k --iodepth=64 --numjobs=2 \
	--size=4M --time_based --runtime=3600 --cpus_allowed=0,1 --cpus_allowed_policy=split --output=/tmp/fio.hog &
HOGS=$!
flows "${HOG#/dev/rblk}"
target_kill
missing=${VOLUMES/ v2=\/tmp\/v2.img/}
target_start ${missing/ v$COUNT=\/tmp\/v$COUNT.img/}
wait_for all_are live "${IDLE#/dev/rblk}"
for cpu in 0 1; do
	timeout 300 taskset -c $cpu dd if=$IDLE of=/dev/null bs=4k count=8 iflag=direct status=none || lab_fail "no tag is left on $cpu: $(cat /sys/block/rblk*/inflight)"
done
state_is "${HOG#/dev/rblk}" renewing || lab_fail "v$COUNT: $(attribute "${HOG#/dev/rblk}" state)"
wait_for all_are live 0 1 3
flows 0 1 3
missing() { state_is 2 renewing && attribute 2 reason | grep -q 'v2: no such volume'; }
wait_for missing
lab_control "detach device=rblk4" > /dev/null || lab_fail "detach beside a disk that waits"
lab_attach v4 $WORDS
is "attached beside a disk that waits" "$LAB_DEV" /dev/rblk4
target_kill
(sleep 2; exec "$RBLKD" --fault-socket $FAULTS --fault delay=close:1us $VOLUMES > "$LAB_OUT/late.log" 2>&1) &
LAB_RBLKD=$! LAB_RBLKD_LOG=$LAB_OUT/late.log
lab_say "an attach waits for a session that is lost"
lab_attach v$COUNT $WORDS
lab_detach
wait_for all_are live 0 1 2 3 4
flows 0 1 2 3

# A queue has 14 tags for requests of its own; a disk that shares them has no more than 7 of each of the two.
lab_say "a disk that is alone again gets all tags"
LAB_DEV=$IDLE
lab_detach
flows "${HOG#/dev/rblk}"
target_kill
all_tags() { [ "$(awk '{ print $1 + $2 }' "/sys/block/${HOG#/dev/}/inflight")" -gt 18 ]; }
wait_for all_tags
target_start $VOLUMES
wait_for all_are live 0 1 2 3 4
flows 0 1 2 3 "${HOG#/dev/rblk}"
kill $HOGS
LAB_DEV=$HOG
lab_watch $HOGS
grep -q 'err= 0' /tmp/fio.hog || { cat /tmp/fio.hog; lab_fail "I/O that was held failed"; }
lab_detach

lab_say "connections are cut"
for i in 0 1 all; do
	lab_kill $i rblk5
	wait_for all_up 0
	flows 0 1 2 3
done

lab_say "one that does not answer is detached by force"
"$RBLK" fault $FAULTS plan v3 delay=write:10s || lab_fail "rblk fault"
kill -9 "${LOAD[3]}"
dd if=/dev/zero of=/dev/rblk3 bs=4k count=8 oflag=direct status=none 2> /tmp/dd &
DD=$!
held() { [ "$(awk '{ print $1 + $2 }' /sys/block/rblk$1/inflight)" -gt 0 ]; }
wait_for held 3
flows 0 1
LAB_DEV=/dev/rblk3
lab_detach force
wait $DD && lab_fail "a write to a disk that was detached succeeded"
wait "${LOAD[3]}" 2> /dev/null
flows 0 1 2
"$RBLK" fault $FAULTS plan v3 delay=close:1us

# Another initiator's write to v6 hangs in storage. A RESERVE of v6 waits for it, and so does an attach of v6 once the
# write's connection has ended. Each is killed more often than there are queues. Only the first RESERVE is sent: the next
# ones come after it, though its caller was killed (F5).
lab_say "killed in an ioctl"
lab_attach v6 $WORDS initiator=other
OTHER=${LAB_DEV#/dev/rblk}
both=$(resources)
disks=$(ls -d /sys/block/rblk*)
hangs=$(printf ',delay=write:60s%.0s' $(seq 16)) # as long as can be: they add up
"$RBLK" fault $FAULTS plan v6 "${hangs#,}" || lab_fail "rblk fault"
dd if=/dev/zero of=/dev/rblk$OTHER bs=4k count=1 oflag=direct status=none 2> /tmp/dd &
DD=$!
wait_for held "$OTHER"
pr() { timeout 300 "$LAB_BUILD/tests/lab/pr" "$@" > /tmp/pr 2>&1 || lab_fail "pr $*: exit status $?: $(cat /tmp/pr)"; }
in_module() { grep -q '\[rblk\]' "/proc/$1/stack"; }
in_call() { grep -q rblk_call_run "/proc/$1/stack"; }
in_reserve() { grep -q rblk_pr_reserve "/proc/$1/stack"; }
in_open() { grep -q rblk_volume_open "/proc/$1/stack"; }
killed() { # PID WHAT
	in_module "$1" || lab_fail "$2: it did not wait"
	kill -9 "$1"
	wait "$1" 2> /dev/null
	wait_for all_up 0
}
for i in 5 6; do pr /dev/rblk$i register 0 0xa; done
for place in in_call in_reserve in_reserve; do
	"$LAB_BUILD/tests/lab/pr" /dev/rblk6 reserve 0xa 1 &
	PR=$!
	wait_for $place $PR
	pr /dev/rblk5 reserve 0xa 1 # another disk's does not wait for that one
	pr /dev/rblk5 release 0xa 1
	killed $PR "RESERVE"
done
flows 0 1 2

lab_say "killed in an attach"
lab_kill all rblk$OTHER
other=$(sed -n 's/.* session \([0-9]*\) \[.*\]: initiator other.*/\1/p' "$LAB_RBLKD_LOG" | tail -n 1)
ended() { [ "$(grep -o " session $other queue [01] .*: closed" "$LAB_RBLKD_LOG" | cut -d' ' -f5 | sort -u | wc -l)" = 2 ]; }
wait_for ended
for i in 1 2 3; do
	lab_control "attach address=$LAB_ADDR volume=v6 $WORDS" > /dev/null &
	ATTACH=$!
	wait_for in_open $ATTACH
	killed $ATTACH "OPEN"
done
kill -STOP "$LAB_RBLKD"
lab_control "attach address=$LAB_ADDR volume=v7 $WORDS own_session" > /dev/null &
ATTACH=$!
wait_for in_module $ATTACH
kill -9 $ATTACH
kill -CONT "$LAB_RBLKD"
wait $ATTACH 2> /dev/null
flows 0 1 2
target_kill # and with it the write that hangs
target_start $VOLUMES
wait_for all_are live 0 1 2 "$OTHER"
wait $DD # it may have been reserved or not
for i in 5 6; do pr /dev/rblk$i register 0xa 0; done
lab_wait 60 eval '[ "$(resources)" = "$both" ]' || { resources; lab_fail "what was killed has left something"; }
is "disks" "$(ls -d /sys/block/rblk*)" "$disks"
lab_detach
flows 0 1 2

for i in 0 1 2; do verified $i; done

lab_say "many at once"
for round in 1 2 3; do
	for i in $(seq 5 $((COUNT - 1))); do lab_control "detach device=rblk$i" > /dev/null & done
	for i in $(seq 5 $((COUNT - 1))); do lab_control "attach address=$LAB_ADDR volume=v$i $WORDS" > /tmp/attached.$i & done
	wait $(jobs -p | grep -vx "$LAB_RBLKD")
	for i in $(seq 5 $((COUNT - 1))); do
		[ -b "/dev/$(cat /tmp/attached.$i)" ] || lab_fail "v$i: $(cat /tmp/attached.$i)"
		dd if="/dev/$(cat /tmp/attached.$i)" of=/dev/null bs=64k count=4 iflag=direct status=none || lab_fail "v$i: no I/O"
	done
	is "sessions" "$(cat /sys/block/rblk*/rblk/session_number | sort -u | wc -l)" 1
done
for disk in /dev/rblk[0-9]*; do
	LAB_DEV=$disk
	lab_detach
done
none() { [ "$(rdma resource show qp link rxe0/- 2> /dev/null | grep -c 'comm.*rblk\|RTS')" = 0 ]; }
lab_wait 20 none || { rdma resource show qp; lab_fail "queue pairs are left"; }
# The first of several that begin together takes the failure for all.
lab_rblkd_stop
for i in 1 2 3; do lab_control "attach address=$LAB_ADDR volume=v$i $WORDS connect_ms=2000" > /tmp/attached.$i & done
wait
for i in 1 2 3; do grep -q "$LAB_ADDR:4430: " /tmp/attached.$i || lab_fail "without a target: $(cat /tmp/attached.$i)"; done
[ ! -e /sys/block/rblk0 ] || lab_fail "a disk is left"
lab_kmod_unload
lab_say done

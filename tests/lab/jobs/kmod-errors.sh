# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: whatever is wrong with an attach, there is one clear line, and nothing is left behind; and it is for
# CAP_SYS_ADMIN alone. Method: malformed lines, wrong hosts and volumes, busy devices; the text is compared,
# and the module is loaded, made to fail and unloaded again a hundred times, counting RDMA resources. A
# program takes all that the RDMA device has of something. Root without the capability is refused, also by a
# control device that was opened with it.
# And of I/O that is not answered in time: the target drops what has not begun, and what has waits for its disk while
# the target says that it lives.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

# refused LINE TEXT: the line fails and the answer holds the text.
refused() {
	local answer
	answer=$(lab_control "$1") && lab_fail "\"$1\" was accepted"
	case $answer in *"$2"*) ;; *) lab_fail "\"$1\": answered \"$answer\", not \"$2\"" ;; esac
}

resources() { rdma resource show | sed 's/^[0-9]*: //' | grep rxe0; }

lab_link_up
truncate -s 16M /tmp/plain.img
lab_rblkd_start "disk=/dev/vda" --memory ram=16M
lab_kmod_load

refused "atach x" 'expected attach, detach or keyring'
refused "attach" 'address= and volume= are needed'
refused "attach address=$LAB_ADDR" 'address= and volume= are needed'
refused "attach address=$LAB_ADDR volume=disk colour=red" '"colour=red": unknown word'
refused "attach address=$LAB_ADDR volume=disk queues=17" 'queues=17: must be from 1 to 16'
refused "attach address=$LAB_ADDR volume=disk queues=x" 'queues=x: not a number'
refused "attach address=$LAB_ADDR volume=disk tos=256" 'tos=256: must be from 0 to 255'
refused "attach address=$LAB_ADDR volume=disk ack_timeout=32" 'ack_timeout=32: must be from 0 to 31'
for source in host ::1 1.2.3.4,; do
	refused "attach address=$LAB_ADDR,$LAB_ADDR volume=disk source=$source" "no numeric address of the family of $LAB_ADDR:4430"
done
refused "attach address=$LAB_ADDR volume=disk source=$LAB_ADDR,$LAB_ADDR" "more sources than addresses"
# Of another machine: no connection is made from an address that was not asked for.
refused "attach address=$LAB_ADDR volume=disk source=192.0.2.1 connect_ms=1000" "$LAB_ADDR:4430"
lab_attach disk source=$LAB_ADDR tos=104 ack_timeout=18
lab_detach
refused "attach address=$LAB_ADDR volume=di/sk" 'letters, digits and ._:+- only'
refused "attach address=$LAB_ADDR volume=disk port=0" 'port=0: must be from 1 to 65535'
refused "attach address=nohost volume=disk" 'not a numeric address'
refused "attach address=$LAB_ADDR volume=nothing" 'no such volume'
refused "attach address=$LAB_ADDR port=4999 volume=disk connect_ms=2000" 'nobody listens there'
refused "attach address=192.0.2.1 volume=disk connect_ms=500" '192.0.2.1:4430'
refused "detach device=rblk7" 'rblk7: no such device'
refused "detach" 'device= is needed'
refused "$(printf 'attach\nattach')" 'expected one line'
refused "attach address=$(printf '1%.0s' {1..64}) volume=disk" 'not a numeric address'
refused "attach address=$LAB_ADDR volume=disk name=a/b" 'letters, digits and ._:+- only'
refused "attach address=$LAB_ADDR volume=disk uri=$(printf 'b\303\274cher')" 'uri=: empty, or not printable'
refused "attach address=$LAB_ADDR volume=disk uri=$(printf '1%.0s' {1..512})" 'longer than 511 characters'
refused "attach $(printf '%2100s' x)" 'a line is at most 2048 bytes'

# Each answer of one open file is read from its beginning, those of refused lines as well.
exec 7<> /dev/rblk-control
for word in first second; do
	echo "attach $word" >&7 2> /dev/null && lab_fail "attach $word was accepted"
	answer=$(cat <&7)
	[ "$answer" = "attach: \"$word\": unknown word" ] || lab_fail "attach $word: answered \"$answer\""
done
exec 7>&-

# A byte of zero would hide what follows.
exec 7<> /dev/rblk-control
printf 'attach address=%s volume=disk\0 volume=nothing\n' "$LAB_ADDR" >&7 2> /dev/null && lab_fail "a zero byte was accepted"
[ "$(cat <&7)" = "expected one line" ] || lab_fail "a zero byte: another answer"
exec 7>&-

lab_attach disk
# Who knows the session's id can take it away (specification, section 13).
setpriv --reuid=65534 --regid=65534 --clear-groups cat "/sys/block/${LAB_DEV#/dev/}/rblk/state" > /dev/null ||
	lab_fail "state: not for everybody"
setpriv --reuid=65534 --regid=65534 --clear-groups cat "/sys/block/${LAB_DEV#/dev/}/rblk/session" 2> /dev/null &&
	lab_fail "the session's id is for everybody"
exec 8< "$LAB_DEV"
refused "detach device=$LAB_DEV" 'in use: open 1 times'
exec 8<&-

# The target and the volume are there; the RDMA device has nothing left to send a login with. (The debug
# kernel would take minutes for it, and has kmod_faults, where each allocation fails once.)
if [ -z "$LAB_SLOW" ]; then
	before=$(resources)
	coproc USE_UP { exec "$LAB_BUILD/tests/lab/use_up" rxe0; }
	pid=$USE_UP_PID # the shell forgets it when it has ended
	read -r -t 120 -u "${USE_UP[0]}" count && read -r -t 10 -u "${USE_UP[0]}" || lab_fail "use_up"
	lab_say "$count are taken"
	refused "attach address=$LAB_ADDR volume=disk queues=2" "$LAB_ADDR:4430: queue 0: login: error"
	exec {USE_UP[1]}>&-
	wait "$pid" || lab_fail "use_up: exit status $?"
	lab_wait 20 eval '[ "$(resources)" = "$before" ]' || { echo "$before"; resources; lab_fail "RDMA resources are left"; }
fi

unprivileged() { setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin bash -c "$1" 2>&1; }
not_permitted() {
	local answer
	answer=$(unprivileged "$1") && lab_fail "\"$1\" is permitted"
	case $answer in *'Operation not permitted'*) ;; *) lab_fail "\"$1\": $answer" ;; esac
}
exec 7<> /dev/rblk-control
unprivileged 'exec 9< /etc/shadow' || lab_fail "not root any more"
not_permitted 'exec 9<> /dev/rblk-control'
not_permitted "echo detach device=$LAB_DEV >&7"
exec 7>&-
lab_detach
lab_kmod_unload

before=$(resources)
for i in $(seq $([ -n "$LAB_SLOW" ] && echo 20 || echo 100)); do
	insmod "$LAB_KO" || lab_fail "load $i"
	case $((i % 4)) in
	0) lab_attach disk queues=2 credits=16; lab_detach ;;
	1) refused "attach address=$LAB_ADDR volume=nothing queues=2 credits=8" 'no such volume' ;;
	2) refused "attach address=$LAB_ADDR port=4999 volume=disk connect_ms=2000" 'nobody listens' ;;
	3) lab_attach disk queues=1 credits=16 ;; # unloading detaches
	esac
	rmmod rblk || lab_fail "unload $i"
done
lab_leaks_none
lab_wait 10 eval '[ "$(resources)" = "$before" ]' || { echo "$before"; resources; lab_fail "RDMA resources are left"; }

lab_kmod_load
refused "attach address=$LAB_ADDR volume=ram" 'cannot be flushed'
lab_attach ram volatile
dd if=/dev/zero of="$LAB_DEV" bs=4k count=4 oflag=direct conv=fsync status=none || lab_fail "a volatile volume: no I/O"
lab_detach
lab_attach ram read_only
lab_detach
lab_rblkd_stop

# A command that is not answered in time: the target is asked to drop it (ABORT), and the connection stays.
lab_say "a slow disk"
FAULTS=/tmp/faults
lab_rblkd_start --pool-size 1M --fault-socket $FAULTS --fault delay=discard:14s disk=/tmp/plain.img
plan() { "$RBLK" fault $FAULTS plan disk "$1" || lab_fail "rblk fault: $1"; }
attribute() { cat "/sys/block/${LAB_DEV#/dev/}/rblk/$1"; }
counted() { [ "$(lab_counter "$1")" -ge "$2" ]; }
lab_attach disk queues=2 command_ms=10000
blkdiscard "$LAB_DEV" || lab_fail "a slow discard"
counted aborts 1 || lab_fail "no ABORT was sent"
[ "$(attribute losses)" = 0 ] || lab_fail "$(attribute losses) connections were lost: $(attribute reason)"
lab_detach

# slow_reads SIZE COMMAND...: sets READ to how many of four have succeeded, while COMMAND runs.
slow_reads() {
	local readers='' i
	for i in 1 2 3 4; do
		taskset 1 dd if="$LAB_DEV" of=/dev/null bs="$1" count=1 skip=$i iflag=direct status=none 2> /tmp/read.$i &
		readers+=" $!"
	done
	"${@:2}"
	READ=0
	for i in $readers; do wait "$i" && READ=$((READ + 1)); done
}
until_dropped() {
	lab_wait 1 counted dropped 1
	plan delay=close:1us
}
# The pool has room for two; the others have not begun when ABORT comes, if it comes before they are told BUSY, after 5 s.
lab_attach disk queues=2 command_ms=2500
for i in 1 2 3 4 5; do
	plan delay=read:6s
	slow_reads 512k until_dropped
	[ $READ = 4 ] || lab_fail "$READ of 4 slow reads succeeded: $(cat /tmp/read.*)"
	counted dropped 1 && break
done
counted dropped 1 || { lab_counters; lab_fail "nothing was dropped"; }
lab_detach

lab_say "a disk that is slower than give_up_ms"
lab_attach disk queues=2 command_ms=3000 give_up_ms=1000
plan delay=read:12s
slow_reads 4k true
[ $READ -ge 1 ] || lab_fail "no read succeeded: $(cat /tmp/read.*)"
counted aborts 2 || lab_fail "ABORT was not sent again"
# What has begun waits for its disk, and costs no connection.
[ "$(attribute losses)" = 0 ] && [ "$(attribute state)" = live ] || lab_fail "$(attribute losses) losses, $(attribute state)"
plan delay=close:1us
dd if="$LAB_DEV" of=/dev/null bs=1M count=4 iflag=direct status=none || lab_fail "no I/O"
lab_detach
lab_kmod_unload
lab_rblkd_stop
lab_say done

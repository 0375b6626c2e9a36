# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what one I/O through the module costs in messages does not grow. Method: fio submits I/Os one at a time, as most
# programs do, and in batches, as tests/bench/README.md has them for librblk, too; the module's counters say how many SENDs and
# answers that took, and the counts that the target logs at the session's end how many RDMA WRITEs and READs. At depth 1
# nothing shares a message. How much an I/O shares at depth depends on the machine: the limits are what was counted on the
# worst and a tenth to a fifth more (tests/bench/README.md has what was counted).
# And large requests of one processor are spread over the queues, small ones are not: the tracepoint says where each goes.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

transfers=0 # RDMA WRITEs and READs that the target needs for all of it

# count NAME DEPTH BATCH RW SIZE I/OS: sets ios, messages, answers, and hundredths: all messages for 100 I/Os.
count() {
	local name=$1 sent replies immediates commands doorbells own=1 number=$6
	[ -z "$LAB_SLOW" ] || number=$(($6 / 4))
	commands=$(lab_counter commands) sent=$(lab_counter messages)
	replies=$(lab_counter replies) immediates=$(lab_counter immediates) doorbells=$(lab_counter doorbells)
	fio --name=count --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw="$4" --bs="$5" --iodepth="$2" \
		--iodepth_batch_submit="$3" --iodepth_batch_complete_min="$3" --iodepth_batch_complete_max="$2" --number_ios="$number" --size=64M --randrepeat=1 \
		--eta=never --output=/tmp/fio.txt || { cat /tmp/fio.txt; lab_fail "fio: $name"; }
	ios=$(($(lab_counter commands) - commands))
	messages=$(($(lab_counter messages) - sent))
	replies=$(($(lab_counter replies) - replies)) immediates=$(($(lab_counter immediates) - immediates))
	doorbells=$(($(lab_counter doorbells) - doorbells))
	answers=$((replies + immediates))
	[ "$ios" -ge $((number - $2)) ] || lab_fail "$name: $ios commands for $number I/Os"
	# The data of a small write travels in the SEND; all other data needs a message of the target's, the immediates' too.
	[ "$4-$5" != randwrite-4k ] || own=0
	transfers=$((transfers + own * ios))
	hundredths=$(((messages + replies + own * ios) * 100 / ios))
	lab_say "$name: $ios commands: $hundredths messages for 100: SENDs $((messages * 100 / ios)), replies $((replies * 100 / ios)), data $((own * 100)) (immediates $((immediates * 100 / ios))); doorbells $((doorbells * 100 / ios))"
}

# at_most HUNDREDTHS: of the last count.
at_most() {
	[ "$hundredths" -le "$1" ] || lab_fail "$hundredths messages for 100 I/Os, at most $1 are allowed"
}

TRACING=/sys/kernel/tracing
# spread SIZE DEPTH FROM TO [OPTION...]: of fio's reads on one processor, that many of a hundred went to the queue that had
# fewer. A read that waits for a doorbell that nobody rings would be dropped as overdue, and sent again.
spread() {
	local zero one least aborts size=$1 depth=$2 from=$3 to=$4
	shift 4
	aborts=$(lab_counter aborts)
	: > $TRACING/trace
	fio --name=spread --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw=randread --bs="$size" --iodepth="$depth" "$@" \
		--number_ios=300 --size=64M --randrepeat=1 --cpus_allowed=0 --eta=never --output=/tmp/fio.txt ||
		{ cat /tmp/fio.txt; lab_fail "fio: $size at depth $depth"; }
	[ "$(lab_counter aborts)" = "$aborts" ] || lab_fail "$size at depth $depth: a read was overdue"
	zero=$(grep -c 'rblk_submit: .* queue 0 tag .* opcode 1 ' $TRACING/trace)
	one=$(grep -c 'rblk_submit: .* queue 1 tag .* opcode 1 ' $TRACING/trace)
	lab_say "$size at depth $depth, two queues: $zero and $one"
	[ $((zero + one)) -ge 280 ] || lab_fail "$((zero + one)) reads were traced, of some 300"
	least=$(((zero < one ? zero : one) * 100 / (zero + one)))
	[ "$least" -ge "$from" ] && [ "$least" -le "$to" ] || lab_fail "$least of a hundred on the other queue; from $from to $to are expected"
}

lab_link_up
lab_rblkd_start --memory bench=64M
lab_kmod_load
lab_attach bench queues=1 volatile
scheduler=$(cat "/sys/block/${LAB_DEV#/dev/}/queue/scheduler")
[[ $scheduler == *"[none]"* ]] || lab_fail "the disk's I/O scheduler: $scheduler"
# limits of: 4k in batches, one at a time; 128k in batches, one at a time
# One at a time nothing has to be shared: where the target keeps up, it answers each command before the next one comes.
for limits in "randread 118 205 270 270" "randwrite 50 205 270 270"; do
	read -r rw batches one large large_one <<< "$limits"
	count "4k $rw, depth 1" 1 1 $rw 4k 2000
	# One in a hundred is for the session's own commands, which take along what waits.
	[ "$messages" -le "$ios" ] && [ $((messages * 100)) -ge $((ios * 99)) ] || lab_fail "depth 1: $messages SENDs for $ios commands"
	[ "$answers" -le "$ios" ] && [ $((answers * 100)) -ge $((ios * 99)) ] || lab_fail "depth 1: $answers answers to $ios commands"
	count "4k $rw, depth 32, in batches" 32 16 $rw 4k 8000
	at_most "$batches"
	count "4k $rw, depth 32, one at a time" 32 1 $rw 4k 8000
	at_most "$one"
	count "128k $rw, depth 8, in batches" 8 4 $rw 128k 500
	at_most "$large"
	count "128k $rw, depth 8, one at a time" 8 1 $rw 128k 500
	at_most "$large_one"
done
lab_detach
lab_kmod_unload
lab_rblkd_stop
line=$(grep ' messages a command ' "$LAB_RBLKD_LOG")
lab_say "$line"
# Data of one command is one work request: none is split. Some more were for the attach.
moved=0
for word in writes immediates reads; do
	moved=$((moved + $(sed "s/.*[ (]$word \([0-9]*\),.*/\1/" <<< "$line")))
done
[ "$moved" -ge "$transfers" ] && [ "$moved" -le $((transfers + 200)) ] || lab_fail "$moved RDMA WRITEs and READs for $transfers I/Os"

lab_say "large requests are spread"
lab_rblkd_start --memory bench=64M
lab_kmod_load
lab_attach bench queues=2 volatile command_ms=60000
echo 1 > $TRACING/events/rblk/rblk_submit/enable || lab_fail "no tracepoint"
spread 4k 32 0 5
spread 128k 1 0 5
spread 128k 8 25 50
spread 64k 8 15 50 --iodepth_batch_submit=8 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=8
echo 0 > $TRACING/events/rblk/rblk_submit/enable
lab_detach
lab_kmod_unload
lab_rblkd_stop
lab_say done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what one I/O through the module costs in messages does not grow. Method: fio submits one I/O at a time, as most
# programs do; the module's counters, and those that the target logs at the session's end, say what it took. At depth 1
# nothing shares a message. At depth 32 an I/O shares what the device has not completed yet: how much that is depends on
# the machine, and is only said (the simulator's test sim.sends has a limit).
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

# count NAME DEPTH RW SIZE I/OS: sets messages, answers and ios; says what one I/O took, in hundredths.
count() {
	local name=$1 sent replies immediates commands doorbells
	commands=$(lab_counter commands) sent=$(lab_counter messages)
	replies=$(lab_counter replies) immediates=$(lab_counter immediates) doorbells=$(lab_counter doorbells)
	fio --name=count --filename="$LAB_DEV" --direct=1 --ioengine=io_uring --rw="$3" --bs="$4" --iodepth="$2" \
		--iodepth_batch_submit=1 --iodepth_batch_complete_min=1 --number_ios="$5" --size=64M --randrepeat=1 --eta=never --output=/tmp/fio.txt ||
		{ cat /tmp/fio.txt; lab_fail "fio: $name"; }
	ios=$(($(lab_counter commands) - commands))
	messages=$(($(lab_counter messages) - sent))
	replies=$(($(lab_counter replies) - replies)) immediates=$(($(lab_counter immediates) - immediates))
	doorbells=$(($(lab_counter doorbells) - doorbells))
	answers=$((replies + immediates))
	[ "$ios" -ge $(($5 - $2)) ] || lab_fail "$name: $ios commands for $5 I/Os"
	lab_say "$name: $ios commands: SENDs $((messages * 100 / ios)), replies $((replies * 100 / ios)), immediates $((immediates * 100 / ios)), doorbells $((doorbells * 100 / ios)) for 100"
}

lab_link_up
lab_rblkd_start --memory bench=64M
lab_kmod_load
lab_attach bench queues=1 volatile
for rw in randread randwrite; do
	count "4k $rw, depth 1" 1 $rw 4k 2000
	# One in a hundred is for the session's own commands, which take along what waits.
	[ "$messages" -le "$ios" ] && [ $((messages * 100)) -ge $((ios * 99)) ] || lab_fail "depth 1: $messages SENDs for $ios commands"
	[ "$answers" -le "$ios" ] && [ $((answers * 100)) -ge $((ios * 99)) ] || lab_fail "depth 1: $answers answers to $ios commands"
	count "4k $rw, depth 32" 32 $rw 4k 8000
	count "128k $rw, depth 8" 8 $rw 128k 500
done
lab_detach
lab_kmod_unload
lab_rblkd_stop
grep ' messages a command ' "$LAB_RBLKD_LOG"
lab_say done

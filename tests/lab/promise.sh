# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Writers of the promise journal (tests/promise), and the faults that strike beneath them. Sourced by jobs, after
# guest.sh. Each fault strikes when all writers have got on, and when all get on again, they end, and the job
# compares the disk itself. A job has
#   writers=(N...)    the writers
#   writer_start N    calls promise_start
#   losses N          how often writer N has lost a connection
#   target_start      calls lab_rblkd_start
#   compare           calls promise_check with what is now on the disk
# and may have faults of its own: functions fault_NAME.
promise=$LAB_BUILD/tests/promise/promise
# What an earlier run in the same folder has left: a writer would go on with it, but the disks are new.
rm -f /out/journal* /out/faults /out/writers.log
pids=()

# -- writers -------------------------------------------------------------------------------------

# promise_start WRITER OPTION... DISK: its journal is /out/journalN.
promise_start() {
	local writer=$1
	shift
	"$promise" run --seed $RANDOM --writer "$writer" "${@:1:$#-1}" "/out/journal$writer" "${*: -1}" 2>> /out/writers.log &
	pids[$writer]=$!
}
# lines WRITER PATTERN: how many its journal has.
lines() {
	local count
	count=$(grep -sc "$2" "/out/journal$1")
	echo "${count:-0}"
}
has() { ! kill -0 "${pids[$1]}" 2> /dev/null || [ "$(lines "$1" "$2")" -ge "$3" ]; }
# reach WRITER PATTERN COUNT: wait until its journal has so many lines.
reach() {
	lab_wait 60 has "$@" || lab_fail "$fault: writer $1 does not get on"
	kill -0 "${pids[$1]}" 2> /dev/null || lab_fail "$fault: writer $1 has ended: $(cat /out/writers.log)"
}
# progress COUNT: so many more writes of each writer.
progress() {
	local writer from=()
	for writer in "${writers[@]}"; do from[writer]=$(($(lines "$writer" '^A') + $1)); done
	for writer in "${writers[@]}"; do reach "$writer" '^A' "${from[writer]}"; done
}
writers_stop() {
	local writer
	for writer in "${writers[@]}"; do
		kill "${pids[writer]}"
		wait "${pids[writer]}" || lab_fail "$fault: writer $writer: exit status $?: $(cat /out/writers.log)"
	done
}
# promise_check WHERE WRITER...: no write and no flush has failed, and WHERE holds all that was acknowledged.
promise_check() {
	local where=$1
	shift
	"$promise" check --strict "${@/#//out/journal}" "$where" > /out/check || lab_broken "$fault: $(cat /out/check)"
	grep -h '^[EH]' "${@/#//out/journal}" && lab_broken "$fault: errors"
	tail -n 1 /out/check
}

# -- faults --------------------------------------------------------------------------------------

# mark; noticed: since then every writer has lost a connection.
mark() {
	local writer
	marks=()
	for writer in "${writers[@]}"; do marks[writer]=$(losses "$writer"); done
}
all_noticed() {
	local writer
	for writer in "${writers[@]}"; do [ "$(losses "$writer")" -gt "${marks[writer]}" ] || return 1; done
}
noticed() { lab_wait 60 all_noticed || lab_fail "$fault: a writer does not notice"; }

# The daemon is killed, ends at SIGTERM, stands still past the keep-alive time.
fault_kill() {
	kill -KILL "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
	target_start
}
fault_restart() { lab_rblkd_stop; target_start; }
fault_pause() {
	mark
	kill -STOP "$LAB_RBLKD"
	noticed
	kill -CONT "$LAB_RBLKD"
}

# disks_table NAME=DEVICE TARGET WORDS: in WORDS, DEVICE stands for the device.
disks_table() { echo "0 $(blockdev --getsz "${1#*=}") $2 ${1#*=} 0${3//DEVICE/${1#*=}}"; }
# disks_make NAME=DEVICE...: /dev/mapper/NAME each, which faults may stop or delay.
disks_make() {
	local disk
	disks=("$@")
	modprobe -a dm_mod dm_delay || lab_fail "dm: modules do not load"
	for disk in "$@"; do
		dmsetup create --noudevsync "${disk%%=*}" --table "$(disks_table "$disk" linear '')" || lab_fail "dmsetup: $disk"
	done
	dmsetup mknodes
}
# disks_become TARGET WORDS: dm's target in the place of what was there, without a pause of its own.
disks_become() {
	local disk name
	for disk in "${disks[@]}"; do
		name=${disk%%=*}
		dmsetup reload "$name" --table "$(disks_table "$disk" "$1" "$2")" && dmsetup suspend --noudevsync --nolockfs "$name" &&
			dmsetup resume --noudevsync "$name" || lab_fail "$fault: dmsetup: $name: $1"
	done
}
# The disk stands still, the writers' connections do not.
fault_disk() {
	local disk
	for disk in "${disks[@]%%=*}"; do
		dmsetup suspend --noudevsync --nolockfs --noflush "$disk" || lab_fail "$fault: dmsetup suspend"
	done
	sleep 3 # longer than the keep-alive time: the target must not take it for the writers' silence, nor they for its
	for disk in "${disks[@]%%=*}"; do dmsetup resume --noudevsync "$disk" || lab_fail "$fault: dmsetup resume"; done
}
# Each write takes longer than the keep-alive time.
fault_slow() {
	disks_become delay ' 0 DEVICE 0 1500'
	sleep 4
	disks_become linear ''
}

# -- the rounds ----------------------------------------------------------------------------------

# promise_rounds ROUNDS FAULT...: each fault so many times, in any order. Sets `fault`, for the words of a failure, and
# adds to `count`. The disk is compared after each fault, or after RBLK_STRIKES. /out/faults has a line "struck FAULT" of
# each fault, and a line "kept" after those that a comparison has judged.
count=0
promise_rounds() {
	local rounds=$1 since=0 round writer left list=()
	shift
	for ((round = 1; round <= rounds; round++)); do list+=("$@"); done
	left=${#list[@]}
	for fault in $(shuf -e "${list[@]}"); do
		[ $since -gt 0 ] || for writer in "${writers[@]}"; do writer_start "$writer"; done
		progress $((since ? 20 : 100))
		echo "struck $fault" >> /out/faults
		"fault_$fault"
		progress 20
		count=$((count + 1)) since=$((since + 1)) left=$((left - 1))
		lab_say "$count: $fault"
		if [ $since -ge "${RBLK_STRIKES:-1}" ] || [ $left = 0 ]; then
			writers_stop
			compare
			echo kept >> /out/faults
			since=0
		fi
	done
}

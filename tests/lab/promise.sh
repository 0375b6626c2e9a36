# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Writers of the promise journal (tests/promise), and the faults that strike beneath them. Sourced by jobs, after
# guest.sh. Each fault strikes when all writers have got on; when all get on again, they end, and the job compares the
# disk itself. A job has
#   writers=(N...)    the writers
#   wires=(1 2)       what lies between them and the target (lab_wire_up); some writers use wire 1 alone
#   wired=(N...)      the writers that have no other way than wires
#   writer_start N    calls promise_start
#   losses N          how often writer N has lost a connection
#   target_start      calls lab_rblkd_start
#   compare           calls promise_check with what is now on the disk
# and may have faults of its own: functions fault_NAME.
promise=$LAB_BUILD/tests/promise/promise
# What an earlier run in the same folder has left: a writer would go on with it, but the disks are new.
rm -f /out/journal* /out/faults /out/writers.log
# The daemon's keep-alive time, in seconds, and the words for volumes that are attached.
alive=1 attach_words=(queues=2 command_ms=10000 give_up_ms=600000)
[ -z "$LAB_SLOW" ] || alive=5 attach_words=(queues=2 command_ms=60000 give_up_ms=7200000 connect_ms=600000)
pids=()
strict=--strict # what was acknowledged is there, flushed or not; empty: a cache may have lost it
may_fail=''     # 1: writers may see errors, and end by them

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
	[ "$may_fail" ] || kill -0 "${pids[$1]}" 2> /dev/null || lab_fail "$fault: writer $1 has ended: $(cat /out/writers.log)"
}
# progress COUNT: so many more writes of each writer.
progress() {
	local writer from=()
	for writer in "${writers[@]}"; do from[writer]=$(($(lines "$writer" '^A') + $1)); done
	for writer in "${writers[@]}"; do reach "$writer" '^A' "${from[writer]}"; done
}
writers_stop() {
	local writer status
	for writer in "${writers[@]}"; do
		kill "${pids[writer]}" 2> /dev/null
		wait "${pids[writer]}"
		status=$?
		# 1: an error of the disk has ended it.
		[ $status = 0 ] || [ "$may_fail$status" = 11 ] ||
			lab_fail "$fault: writer $writer: exit status $status: $(cat /out/writers.log)"
	done
}
# promise_check WHERE WRITER...: WHERE holds what was promised.
promise_check() {
	local where=$1
	shift
	"$promise" check $strict "${@/#//out/journal}" "$where" > /out/check || lab_broken "$fault: $(cat /out/check)"
	[ "$may_fail" ] || ! grep -h '^[EH]' "${@/#//out/journal}" || lab_broken "$fault: errors"
	tail -n 1 /out/check
}

# -- faults --------------------------------------------------------------------------------------

# mark [WRITER...]; noticed: since then each of them, or every writer, has lost a connection.
mark() {
	local writer
	[ $# -gt 0 ] || set -- "${writers[@]}"
	marks=()
	for writer in "$@"; do marks[writer]=$(losses "$writer"); done
}
all_noticed() {
	local writer
	for writer in "${!marks[@]}"; do [ "$(losses "$writer")" -gt "${marks[writer]}" ] || return 1; done
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

# netem WORD...: how packets fare on all wires; without words, as ever.
netem() {
	local wire
	[ $# = 0 ] || drops_before=$(drops)
	for wire in "${wires[@]}"; do lab_wire_net "$wire" "$@"; done
}
drops() { tc -s qdisc show | awk '/^qdisc/ { ours = $2 == "netem" } ours && sub(/.*dropped /, "") { n += $1 } END { print n + 0 }'; }
dropped() { [ "$(drops)" -ge $((drops_before + 10)) ]; }
# No packet arrives, on any wire, until all have lost their connections over them.
fault_silence() {
	mark "${wired[@]}"
	netem loss 100%
	noticed
	netem
}
# None arrives on the second wire, and who has two goes on with the first.
fault_path() {
	drops_before=$(drops)
	lab_wire_lose 2
	lab_wait 60 dropped || lab_fail "$fault: nothing takes the second wire"
	progress 50
	lab_wire_restore 2
}
# Some packets are lost.
fault_loss() {
	netem loss 1%
	lab_wait 60 dropped || lab_fail "$fault: no packet is lost"
	netem
}
# Some arrive behind others.
fault_reorder() {
	netem delay 2ms reorder 90%
	progress 50
	netem
}
# All arrive, later than the keep-alive time.
fault_late() {
	netem delay $((alive * 1500))ms 300ms
	sleep $((alive * 4))
	netem
}
# The RDMA devices of the second wire are deleted and made again.
devices_go() {
	local end
	for end in i t; do
		timeout 300 rdma link delete "${LAB_LINK}2$end" || lab_fail "$fault: ${LAB_LINK}2$end is not deleted"
	done
}
devices_come() { for end in i t; do lab_wire_device 2 $end; done; }
fault_device() {
	devices_go
	progress 50
	devices_come
}
# The link of the second wire goes down and comes back.
fault_link() {
	lab_wire_link 2 down
	progress 50
	# Soft-RoCE's own queue pair does not survive a message that finds no link, unless that is mended
	# (tests/lab/rxe/datagram-error.patch): its devices are made anew.
	local anew=''
	[ "$LAB_LINK${RBLK_LAB_RXE:-}" != rxe ] || anew=1
	[ ! "$anew" ] || devices_go
	lab_wire_link 2 up
	[ ! "$anew" ] || devices_come
}

# All but 100M of the machine's memory is taken; the checks of a slow kernel take more themselves.
fault_memory() {
	local free left=$([ -n "$LAB_SLOW" ] && echo 300 || echo 100)
	free=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
	mount -o remount,size=100% /dev/shm
	fallocate -l $((free - left))M /dev/shm/pressure || lab_fail "$fault: no memory is taken"
	progress 100
	rm /dev/shm/pressure
}
# The daemon's control group has far less memory than it uses: what can be reclaimed is, again and again.
fault_cgroup() {
	local group=/sys/fs/cgroup/rblkd
	[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup || lab_fail "$fault: no cgroup2"
	echo +memory > /sys/fs/cgroup/cgroup.subtree_control && mkdir -p $group && echo "$LAB_RBLKD" > $group/cgroup.procs ||
		lab_fail "$fault: no control group"
	echo 1M > $group/memory.high
	echo 1G > $group/memory.reclaim 2> /dev/null
	progress 100
	echo max > $group/memory.high
}

# disks_table NAME=DEVICE TARGET WORDS: in WORDS, DEVICE stands for the device.
disks_table() { echo "0 $(blockdev --getsz "${1#*=}") $2 ${1#*=} 0${3//DEVICE/${1#*=}}"; }
# disks_make NAME=DEVICE...: /dev/mapper/NAME each, which faults may stop, delay or break.
disks_make() {
	local disk
	disks=("$@")
	modprobe -a dm_mod dm_delay dm_flakey || lab_fail "dm: modules do not load"
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
# Writes to the disks fail until each writer that still runs has seen it.
has_failed() {
	local writer
	for writer in "${writers[@]}"; do
		! kill -0 "${pids[writer]}" 2> /dev/null || [ "$(lines "$writer" '^[EH]')" -gt "${failed[writer]}" ] || return 1
	done
}
fault_flaky() {
	local writer failed=()
	for writer in "${writers[@]}"; do failed[writer]=$(lines "$writer" '^[EH]'); done
	disks_become flakey ' 0 60 1 error_writes'
	lab_wait 60 has_failed || lab_fail "$fault: no error is seen"
	disks_become linear ''
}
# The disk stands still, the writers' connections do not.
fault_disk() {
	local disk
	for disk in "${disks[@]%%=*}"; do
		dmsetup suspend --noudevsync --nolockfs --noflush "$disk" || lab_fail "$fault: dmsetup suspend"
	done
	sleep $((alive * 3)) # longer than the keep-alive time: the target must not take it for the writers' silence, nor they for its
	for disk in "${disks[@]%%=*}"; do dmsetup resume --noudevsync "$disk" || lab_fail "$fault: dmsetup resume"; done
}
# Each write takes longer than the keep-alive time.
fault_slow() {
	disks_become delay " 0 DEVICE 0 $((alive * 1500))"
	sleep $((alive * 4))
	disks_become linear ''
}

# -- attached disks --------------------------------------------------------------------------------

# For jobs that have sourced kmod.sh and kmod-once.sh, with
#   kinds=('' KIND...)    of each writer: the name of its volume; ext4 and xfs have that file system
#   places=('' WHERE...)  what it writes to: a URI, a device, or where its file system is mounted
# address=('' ADDRESS...) of each volume, or LAB_ADDR.
fs_each() { # COMMAND: with writer, kind, place of those with a file system
	local writer kind place
	for writer in "${writers[@]}"; do
		kind=${kinds[writer]} place=${places[writer]}
		case $kind in ext4 | xfs) "$@" || lab_fail "$fault: $kind: $*" ;; esac
	done
}
fs_make() { "mkfs.$kind" -q "$([ "$kind" = ext4 ] && echo -F || echo -f)" "/dev/rblk/$kind"; }
# fs_mount FOLDER-OF-DEVICES
fs_mount() { mkdir -p "$place" && mount -t "$kind" "$1/$kind" "$place"; }
fs_umount() { umount "$place"; }
fs_whole() {
	case $kind in
	ext4) fsck.ext4 -fn "$1/ext4" ;;
	xfs) xfs_repair -n "$1/xfs" ;;
	esac > /out/fsck 2>&1 || { cat /out/fsck; lab_broken "$fault: $kind: is damaged"; }
}
# promise_attach: attaches the volumes that are not written through librblk, with the words in attach_words, in order,
# as /dev/rblk0, ... (or by ublk.sh) and /dev/rblk/KIND.
promise_attach() {
	local writer
	attached=()
	for writer in "${writers[@]}"; do
		case ${places[writer]} in *://*) continue ;; esac
		LAB_ADDR=${address[writer]:-$LAB_ADDR} lab_attach "${kinds[writer]}" "${attach_words[@]}"
		[ "$LAB_DEV" = "${LAB_DISK:-/dev/rblk}${#attached[@]}" ] || lab_fail "attached as $LAB_DEV"
		ln -sf "$LAB_DEV" "/dev/rblk/${kinds[writer]}"
		attached+=("$LAB_DEV")
	done
}
promise_detach() { for LAB_DEV in "${attached[@]}"; do lab_detach; done; }
# promise_fs_make: attaches them; makes and mounts the file systems.
promise_fs_make() {
	mkdir -p /dev/rblk
	promise_attach
	fs_each fs_make
	fs_each fs_mount /dev/rblk
	lab_once_begin
}
# promise_fs_remount: the page cache knows what was written to it; the disk is to be asked.
promise_fs_remount() {
	fs_each fs_umount
	lab_once_end
	# After a failed sync no flush succeeds before every session has closed the volume (F9).
	[ "$fault" != flaky ] || { promise_detach; promise_attach; }
	lab_once_begin
	fs_each fs_mount /dev/rblk
}
# promise_fs_mend: the same; a file system that has stopped plays its journal back and must be whole then.
promise_fs_mend() {
	promise_fs_remount
	fs_each fs_umount
	fs_each fs_whole /dev/rblk
	fs_each fs_mount /dev/rblk
}
promise_fs_end() {
	fs_each fs_umount
	lab_once_end
	promise_detach
}
lab_facts() {
	grep -H . /sys/block/rblk*/rblk/* /sys/block/rblk*/inflight 2> /dev/null
	! declare -F lab_stacks > /dev/null || lab_stacks
}

# -- the rounds ----------------------------------------------------------------------------------

# promise_rounds ROUNDS FAULT...: each fault so many times, in any order. Sets `fault`, for the words of a failure, and
# adds to `count`. The disk is compared after each fault, or after RBLK_STRIKES where no writer may end. /out/faults has a line "struck FAULT" of
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
		if [ "$may_fail" ] || [ $since -ge "${RBLK_STRIKES:-1}" ] || [ $left = 0 ]; then
			writers_stop
			compare
			echo kept >> /out/faults
			since=0
		fi
	done
}

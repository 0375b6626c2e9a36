# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How long I/O pauses: the largest completion latency that fio sees (4 KiB reads and writes, depth 8, O_DIRECT) while
# its target or a path goes away and comes back, of librblk, rblk.ko and nvme-rdma, one after the other in one guest.
# `tests/lab/pauses` runs it, by hand: it measures, and what it measures depends on how busy the machine is.
#   pauses.sh [TIMES [SYSTEM...]]    default: 3, of all; /out/pauses has a line of each, in seconds: the median of
#                                    TIMES, and the largest. Wants one disk of 64M.
# restart: rblkd ends in good order and is started again; nvmet's port is unlinked and linked. kill: rblkd, killed.
# flap: no packet arrives for three seconds. device: of two paths, the initiator's RDMA device is deleted: it knows at
# once. silence: of two paths, one loses every packet. Of a pair, whose host 1 is pauses-target.sh, only reboot:
# host 1 is killed and started again; the seconds are what the pause was longer than the time without a target.
# With the first argument -u instead, on a kernel that has ublk: upgrade, the initiator itself is replaced under I/O, as by
# a newer package, of ublk, rblk.ko and nvme-rdma; and server, ublk's is killed. What is refused, and fio's error, are in words.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
systems=(librblk kmod nvme nvme_tuned librblk_1s kmod_1s)
addresses=(10.8.1.2 10.8.2.2) # of two wires
events=(restart kill flap device silence)
[ "${1:-}" != -u ] || { shift; systems=(ublk kmod nvme) events=(upgrade server); }
times=${1:-3}
shift $(($# > 0 ? 1 : 0))
[ $# = 0 ] || systems=("$@")
disk=/dev/vda
[ ! -d /pair ] || addresses=("$LAB_PEER") events=(reboot)

# -- systems: up_NAME one|two, down_NAME; restart_NAME; kill_NAME where there is a daemon -----------

rblkd_begin() { [ -d /pair ] || lab_rblkd_start "${keepalive[@]}" "${addresses[@]/#/--listen=rblk://}" disk=$disk; }
rblk_restart() { lab_rblkd_stop; rblkd_begin; }
rblk_kill() {
	kill -KILL "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
	rblkd_begin
}
hosts() { [ "$1" = one ] && echo "${addresses[0]}" || echo "${addresses[0]},${addresses[1]}"; }
up_librblk() {
	rblkd_begin
	FIO=("--ioengine=external:$RBLK_FIO_ENGINE" "--rblk_uri=rblk://$(hosts "$1")/disk" --rblk_queues=2 --rblk_give_up=10min)
}
rblkd_end() { [ -d /pair ] || lab_rblkd_stop; }
down_librblk() { rblkd_end; }
up_kmod() {
	rblkd_begin
	lab_kmod_load
	LAB_DEV=$("$RBLK" attach --queues 2 --give-up 10min "rblk://$(hosts "$1")/disk" 2> /tmp/attach) || return
	LAB_DEV=/dev/${LAB_DEV##*/}
	lab_wait 10 [ -b "$LAB_DEV" ] || lab_fail "$LAB_DEV: does not appear"
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}
down_kmod() {
	[ ! -b "$LAB_DEV" ] || lab_detach
	lab_kmod_unload
	rblkd_end
}
up_ublk() {
	rblkd_begin
	LAB_DEV=$("$RBLK" attach --ublk --queues 2 --give-up 10min "rblk://$(hosts "$1")/disk" 2> /tmp/attach) || return
	FIO=(--ioengine=io_uring "--filename=$LAB_DEV")
}
down_ublk() {
	[ ! -b "$LAB_DEV" ] || "$RBLK" detach "$LAB_DEV" || lab_fail "$LAB_DEV stays"
	rblkd_end
}

nvme_path() { lab_nvme_connect pauses "$1" "${tuning[@]}"; }
up_nvme() {
	modprobe nvme-rdma || lab_fail "nvme-rdma: does not load"
	if [ ! -d /pair ]; then
		[ -d $lab_nvmet/subsystems/pauses ] || lab_nvmet_make pauses $disk "${addresses[@]}"
		for i in 1 2; do lab_nvmet_listen pauses $i; done
	fi
	nvme_path "${addresses[0]}"
	[ "$1" = one ] || nvme_path "${addresses[1]}"
	lab_wait 20 lab_nvme_disk || lab_fail "nvme: no disk appeared"
	FIO=(--ioengine=io_uring "--filename=$(lab_nvme_disk)")
}
no_nvme_disk() { ! lab_nvme_disk; }
down_nvme() {
	nvme disconnect -n pauses > /dev/null
	lab_wait 20 no_nvme_disk || lab_fail "nvme: the disk does not go"
}

keepalive=() tuning=() family=''
choose() {
	keepalive=() tuning=() family=${1%%_*}
	case $1 in
	*_1s) keepalive=(--keepalive 1s) ;;
	*_tuned) tuning=(--reconnect-delay=1 --keep-alive-tmo=1 --ctrl-loss-tmo=-1) ;;
	esac
}

# -- what befalls them -----------------------------------------------------------------------------

happen_restart() { case $family in nvme) lab_nvmet_listen pauses 1 ;; *) rblk_restart ;; esac; }
happen_kill() { rblk_kill; }
happen_flap() {
	lab_wire_lose 1
	sleep 3 # what is measured is the rest
	lab_wire_restore 1
}
happen_device() { rdma link delete ${LAB_LINK}1i || lab_fail "${LAB_LINK}1i: is not deleted"; }
after_device() { lab_wire_device 1 i; }
happen_silence() { lab_wire_lose 1; }
after_silence() { lab_wire_restore 1; }
# Both initiators of rblk have the same target.
side() { echo "$incarnation-${family/kmod/librblk}"; }
serving() { [ -e "/pair/serving-$(side)" ]; }
incarnation=1
happen_reboot() {
	local begun
	lab_order kill-1
	begun=$EPOCHREALTIME
	incarnation=$((incarnation + 1))
	lab_order start-1
	lab_wait 120 serving || lab_fail "$system: host 1 does not come back"
	away=$(awk -v begun="$begun" -v now="$EPOCHREALTIME" 'BEGIN { print now - begun }')
}
# What the upgrade of a package can do: another program takes the disk over; a module is unloaded, which is refused while it
# has a user, and so is detaching its disk; a host leaves its target and connects again.
happen_upgrade() {
	case $family in
	ublk)
		cp "$RBLK" /tmp/newer-rblk
		/tmp/newer-rblk attach --take-over --all > /tmp/said 2>&1 || lab_fail "take over: $(cat /tmp/said)"
		: > /tmp/said
		;;
	kmod)
		! rmmod rblk > /tmp/said 2>&1 && ! "$RBLK" detach --wait 0s "$LAB_DEV" >> /tmp/said 2>&1 || lab_fail "a disk in use is detached"
		;;
	nvme)
		nvme disconnect -n pauses > /tmp/out 2>&1 || lab_fail "nvme: $(cat /tmp/out)"
		nvme_path "${addresses[0]}"
		lab_wait 20 lab_nvme_disk || lab_fail "nvme: no disk appeared"
		FIO=(--ioengine=io_uring "--filename=$(lab_nvme_disk)")
		;;
	esac
}
happen_server() { pkill -9 -x rblk-ublk || lab_fail "no server"; }
paths() { case $1 in device | silence) echo two ;; *) echo one ;; esac; }

# -- measuring -----------------------------------------------------------------------------------

# The disk's own count: the same for all. (Host 1 of a pair begins anew with each life, and tells it now and then.)
done_on_disk() {
	if [ -d /pair ]; then
		cat "/pair/done-$(side)"
	else
		awk '{ print $1 + $5 }' /sys/block/${disk#/dev/}/stat
	fi
}
# A program whose disk has gone ends, too.
got_on() { [ "$(done_on_disk)" -ge "$goal" ] || { [ "$event" = upgrade ] && ! kill -0 $load 2> /dev/null; }; }
flows() {
	goal=$(($(done_on_disk) + $1))
	lab_wait 60 got_on || lab_fail "$system, $event: no I/O"
}
# measure: the largest latency while $event befalls $system, in /tmp/seconds.
measure() {
	away=0
	: > /tmp/said
	fio --name=pause --rw=randrw --bs=4k --iodepth=8 --direct=1 --time_based --runtime=3600 --size=48M --eta=never \
		"${FIO[@]}" --output-format=json --output=/tmp/pause.fio 2> /tmp/pause.err &
	load=$!
	flows 500
	"happen_$event"
	# The other path goes on meanwhile: two keep-alive times, and some.
	[ "$(paths "$event")" = one ] || sleep 12
	# All eight places of the queue: of what was lost, the last has come back.
	flows 300
	flows 300
	kill -INT $load
	wait $load
	# What fio prints before its JSON is none.
	sed -n '/^{/,$p' /tmp/pause.fio > /tmp/fio.json
	jq -e --argjson away "$away" '.jobs[0] | select(.error == 0) |
		[([.read.clat_ns.max, .write.clat_ns.max] | max / 1e9) - $away, 0] | max' /tmp/fio.json > /tmp/seconds && return
	[ "$event" = upgrade ] || lab_fail "$system, $event: fio: $(cat /tmp/pause.err /tmp/pause.fio)"
	jq '"fio has ended with the error \(.jobs[0].error)"' /tmp/fio.json > /tmp/seconds
}
row() {
	local i all=()
	[ ! -d /pair ] || lab_wait 120 serving || lab_fail "host 1 does not serve"
	"up_$family" "$(paths "$event")" || {
		"down_$family"
		echo "$event $system: cannot: $(cat /tmp/attach)" | tee -a /out/pauses
		return
	}
	for ((i = 0; i < times; i++)); do
		measure
		all+=("$(cat /tmp/seconds)")
		! declare -F "after_$event" > /dev/null || "after_$event"
		[ $((i + 1)) = "$times" ] || sleep 15 # until all that was lost is in use again
	done
	"down_$family"
	printf '%s\n' "${all[@]}" | sort -n | awk -v name="$event $system" '{ v[NR] = $1 } /error/ { words = $0 }
		END { if (words) print name ": " words; else printf "%s: %.2f, %.2f\n", name, v[int((NR + 1) / 2)], v[NR] }' | tee -a /out/pauses
	sed "s/^/$event $system: /" /tmp/said | tee -a /out/pauses
}

lab_link_up
if [ ! -d /pair ]; then
	for i in 1 2; do lab_wire_up $i; done
	dd if=/dev/zero of=$disk bs=1M count=64 oflag=direct status=none || lab_fail "$disk: cannot be filled"
fi
: > /out/pauses
for system in "${systems[@]}"; do
	choose "$system"
	for event in "${events[@]}"; do
		# nvmet is no process, nor is a module; the keep-alive time of host 1 is the default.
		case $system-$event in nvme*-kill | *_1s-reboot | kmod-server | nvme-server) continue ;; esac
		row
	done
done
[ ! -d /pair ] || touch /pair/ended

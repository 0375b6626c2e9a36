# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The job of the guest for tests/bench/run: the raw link, then each system in turn, with the
# workloads of fio-jobs. Raw results go to /out, one file for each; report reads them.
#   measure.sh SYSTEM...       in the environment: RBLK_BENCH_LINK fast|stock, RBLK_FIO_RUNTIME
. "$LAB/guest.sh"
here=$(dirname "${BASH_SOURCE[0]}")
. "$LAB/jobs/kmod.sh"
. "$here/systems.sh"
. "$here/systems_scsi.sh"
export RBLK_FIO_SIZE=${BENCH_MB}m

# verbs NAME COMMAND...: runs one of perftest's programs as client and server over the link.
verbs() {
	local name=$1 server
	shift
	"$@" -d rxe0 -F > /out/verbs.server 2>&1 &
	server=$!
	lab_wait 20 verbs_listening || lab_fail "verbs $name: does not listen"
	timeout 60 "$@" -d rxe0 -F "$LAB_ADDR" > "/out/verbs.$name" 2>&1 || {
		cat "/out/verbs.$name"
		lab_fail "verbs $name: exit status $?"
	}
	wait $server
}
verbs_listening() { ss -ltn | grep -q :18515; }

raw_link() {
	verbs read_lat_4k ib_read_lat -s 4096 -n 2000
	verbs write_lat_4k ib_write_lat -s 4096 -n 2000
	verbs send_lat_64 ib_send_lat -s 64 -n 2000
	verbs read_bw_4k ib_read_bw -s 4096 -n 5000
	verbs write_bw_4k ib_write_bw -s 4096 -n 5000
	verbs send_bw_64 ib_send_bw -s 64 -n 5000
	verbs read_bw_128k ib_read_bw -s 131072 -n 300
	verbs write_bw_128k ib_write_bw -s 131072 -n 300
}

if [ "$RBLK_BENCH_LINK" = fast ]; then
	insmod "$RBLK_BENCH_FASTCRC" || lab_fail "fastcrc.ko: does not load"
fi
lab_link_up
backing_up
lab_say "verbs"
raw_link
for system in "$@"; do
	lab_say "$system"
	"up_$system"
	FIO_STATS=
	case $system in rblk | rblk_memory) FIO_STATS=1 ;; esac
	for workload in latency:read-4k-qd1 latency:write-4k-qd1 iops:read-4k-qd32 iops:write-4k-qd32 \
		bandwidth:read-128k-qd8 bandwidth:write-128k-qd8; do
		result=/out/$system.${workload#*:}
		! declare -F "begin_$system" > /dev/null || "begin_$system"
		lab_fio "$result" "${workload%%:*}" "${FIO[@]}" "--section=${workload#*:}"
		! declare -F "end_$system" > /dev/null || "end_$system" "$result"
	done
	"down_$system"
done

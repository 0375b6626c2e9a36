# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what an I/O costs in instructions of the whole machine: both ends, fabric, block layer and fio. Method: in a guest whose
# clock counts instructions (boot -e), a fixed number of I/Os on each system in turn; the time that they took is what they
# cost, the less of two, as other work in the guest only adds to it. /out/cost has a line each: SYSTEM WORKLOAD INSTRUCTIONS.
# Some counts of a build (one of twelve of the module's reads by one) have a rhythm of smaller batches: a row above its limit
# is counted up to six times. What the link itself costs is perftest's: see measure_link.
#   cost.sh SYSTEM...      of systems.sh, or link; RBLK_BENCH_FASTCRC names its module, RBLK_COST_LIMITS the limits (bench/cost -l)
# RBLK_COST_PROFILE=WORKLOAD: that one alone; /out/profile-SYSTEM says where its instructions are.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
. "$LAB/../bench/systems.sh"
[ "$LAB_ACCEL" = count ] || lab_fail "the clock does not count instructions: boot -e"

# measure SYSTEM WORKLOAD RW SIZE DEPTH [BATCH]: adds a line to /tmp/costs; fio's own clock says how long it took. It submits
# as many at a time as BATCH says, or whatever the depth has room for.
measure() {
	local number=10000 record=()
	[ -z "${RBLK_COST_PROFILE:-}" ] || record=(perf record -q -a -e cpu-clock -F 4000 -o /tmp/perf.data)
	[ "$4" = 4k ] || number=2000
	[ "$1" != link ] || { measure_link "$4" "$5"; return; }
	"${record[@]}" fio --name=cost --direct=1 --thread --rw="$3" --bs="$4" --iodepth="$5" --iodepth_batch_submit="${6:-$5}" --size=${BENCH_MB}m --number_ios=$number \
		--randrepeat=1 --eta=never --output-format=json --output=/tmp/fio.json "${FIO[@]}" 2> /tmp/fio.log ||
		lab_fail "$1 $2: fio: $(cat /tmp/fio.log /tmp/fio.json)"
	[ ${#record[@]} = 0 ] || perf report -i /tmp/perf.data --sort comm,dso,symbol -w 15,20,40 > "/out/profile-$1" 2> /tmp/fio.log
	# 2 ns are one instruction.
	jq '.jobs[0] | .read.iops + .write.iops | 500000000 / . | round' /tmp/fio.json >> /tmp/costs
}

# measure_link SIZE DEPTH: the least that the packets of the data cost, without command and answer: RDMA READs or WRITEs, as
# either end can move it, DEPTH of them by one call. Their responder is the kernel alone. To poll costs less than events where
# Soft-RoCE works within the call (Linux 6.1), and more where its worker needs the processor (6.12); WRITEs have no events.
# A SEND costs more: a program at each end, and the processor goes to and fro.
measure_link() {
	local program words=(-d "$LAB_RDMA" -F -N -s "$(numfmt --from=iec "${1^^}")" -t "$2" -l "$2" -n $((number / $2 * $2)))
	for program in ib_read_bw "ib_read_bw -e" ib_write_bw; do
		# shellcheck disable=SC2086 # words
		$program "${words[@]}" > /tmp/server.log 2>&1 &
		lab_wait 20 link_listening || lab_fail "$program: does not listen: $(cat /tmp/server.log)"
		# shellcheck disable=SC2086 # words
		"${record[@]}" $program "${words[@]}" "$BENCH_TARGET" > /tmp/link.log 2>&1 || lab_fail "$program: $(cat /tmp/link.log /tmp/server.log)"
		wait $!
		# Its last column is millions a second.
		awk 'heading { printf "%.0f\n", 500 / $5; exit } /#bytes/ { heading = 1 }' /tmp/link.log >> /tmp/costs
	done
}
link_listening() { ss -ltn | grep -q :18515; }
serve_link() { :; }
connect_link() { :; }
disconnect_link() { :; }

insmod "$RBLK_BENCH_FASTCRC" || lab_fail "fastcrc.ko: does not load"
lab_link_up
systems_serve "$@"
: > /out/cost
for system in "$@"; do
	"connect_$system"
	while read -r workload words; do
		[ "${RBLK_COST_PROFILE:-$workload}" = "$workload" ] || continue
		: > /tmp/costs
		limit=$(awk -v row="$system $workload" '$1 " " $2 == row { print $3 }' "${RBLK_COST_LIMITS:-/dev/null}")
		for number in 1 2 3 4 5 6; do
			# shellcheck disable=SC2086 # words
			measure "$system" "$workload" $words
			least=$(sort -n /tmp/costs | head -n 1)
			[ "$number" -lt 2 ] || [ "$least" -gt "${limit:-$least}" ] || break
		done
		echo "$system $workload $least" | tee -a /out/cost
	done <<-END
		read-4k-qd1 randread 4k 1
		write-4k-qd1 randwrite 4k 1
		read-4k-qd32 randread 4k 32
		write-4k-qd32 randwrite 4k 32
		read-4k-qd32-by-one randread 4k 32 1
		write-4k-qd32-by-one randwrite 4k 32 1
		read-128k-qd8 randread 128k 8
		write-128k-qd8 randwrite 128k 8
	END
	"disconnect_$system"
done

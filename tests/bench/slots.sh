# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC1091
# The job of the guest for tests/bench/slots: sweep.fio on one volume, attached once for each value of
# slot_bytes. Points that are compared are measured within seconds of each other.
#   slots.sh ROUNDS       in the environment: RBLK_BENCH_FASTCRC, RBLK_FIO_RUNTIME
. "$LAB/guest.sh"
here=$(dirname "${BASH_SOURCE[0]}")
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
. "$here/systems.sh"
export RBLK_FIO_SIZE=${BENCH_MB}m RBLK_BENCH_RW RBLK_BENCH_BS RBLK_BENCH_DEPTH

insmod "$RBLK_BENCH_FASTCRC" || lab_fail "fastcrc.ko: does not load"
lab_link_up
serve_rblk
lab_kmod_load
declare -A devices
for slot in 4096 8192 16384; do
	echo $slot > /sys/module/rblk/parameters/slot_bytes || lab_fail "slot_bytes: $slot is refused"
	lab_attach disk
	devices[$slot]=$LAB_DEV
done

for round in $(seq "$1"); do
	for RBLK_BENCH_RW in randread randwrite; do
		for RBLK_BENCH_BS in 4096 8192 16384; do
			for RBLK_BENCH_DEPTH in 1 32; do
				lab_say "round $round: $RBLK_BENCH_RW of $RBLK_BENCH_BS, depth $RBLK_BENCH_DEPTH"
				for slot in 4096 8192 16384; do
					result=/out/slots.$slot.$RBLK_BENCH_BS.$RBLK_BENCH_RW.$RBLK_BENCH_DEPTH.$round
					fio --ioengine=io_uring "--filename=${devices[$slot]}" --eta=never \
						--output-format=json --output="$result.fio" "$here/sweep.fio" 2> "$result.log" ||
						lab_fail "fio: $(cat "$result.log" "$result.fio")"
				done
			done
		done
	done
done

for slot in 4096 8192 16384; do
	LAB_DEV=${devices[$slot]}
	lab_say "slot_bytes=$slot: $(lab_counters | tr '\n' ' ')"
	lab_detach
done
lab_kmod_unload
lab_rblkd_stop

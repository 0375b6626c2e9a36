# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: an allocation that fails while a volume is attached, used or detached is answered with an error in
# one line, and leaves nothing behind. Method: fail_nth makes the first, the second, ... allocation of one
# system call fail; between them, RDMA resources and the module's users are counted. And an answer that blk-mq has
# thrown away (fail_io_timeout) ends in ABORT, another connection, and no error. Needs the debug kernel.
#   kmod-faults.sh [POSITIONS]     so many of each call's positions, evenly spread (default 120)
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/host.sh"

positions=${1:-120}
faults=/sys/kernel/debug
NTH=$LAB_BUILD/tests/lab/fail_nth

[ -e /proc/self/fail-nth ] || lab_fail "this kernel injects no faults: boot it with the one of debug-kernel"
for kind in failslab fail_page_alloc; do
	echo N > $faults/$kind/ignore-gfp-wait
	echo 0 > $faults/$kind/verbose
done
echo 0 > $faults/fail_page_alloc/min-order
echo N > $faults/fail_page_alloc/ignore-gfp-highmem

# Few programs are run: on this kernel each takes a good part of a second.
clean() {
	local users
	read -r users < /sys/module/rblk/refcnt
	[ "$users" = 0 ] && [ ! -e /sys/block/rblk0 ] && [ "$(rdma resource show)" = "$before" ]
}
nothing_left() { lab_wait 30 clean || { echo "$before"; rdma resource show; lab_fail "$1: something is left"; }; }

# The kernel says of vmalloc's failures where they were; that is not a complaint of its own. And Soft-RoCE
# of 6.1, when it fails to make a queue pair, ends timers that it has not begun.
cat > /out/excuses << 'EOF'
vmalloc error: size
ODEBUG: assert_init not available.*rxe_qp_do_cleanup
trying to register non-static key.*timer_delete_sync.*rxe_qp_do_cleanup
EOF
log_checked() {
	dmesg > /tmp/log
	! lab_complaints /out/excuses /tmp/log || lab_fail "the kernel complained: the above, $1"
	dmesg -C
}

# nth N CALL WHAT: sets RESULT, LEFT, ANSWER.
nth() {
	"$NTH" "$@" > /tmp/nth || lab_fail "fail_nth $*"
	{ read -r RESULT LEFT; IFS= read -r ANSWER; } < /tmp/nth
	[ "$(wc -l < /tmp/nth)" -le 2 ] || lab_fail "fail_nth $*: answered $(cat /tmp/nth)"
}

# sweep NAME FAILED SUCCEEDED CALL WHAT: CALL with a failing allocation at every position, or at so many
# as there is time for. After each, FAILED or SUCCEEDED is run.
sweep() {
	local name=$1 if_failed=$2 if_succeeded=$3 count n last=0 failed=0 i
	shift 3
	nth 1000000 "$@"
	[ "$RESULT" = 0 ] || lab_fail "$name without a fault: error $RESULT, $ANSWER"
	count=$((1000000 - LEFT))
	$if_succeeded
	for i in $(seq "$positions"); do
		n=$((1 + (i - 1) * count / positions)) # the first of all, always
		[ "$n" -gt "$last" ] || continue
		last=$n
		nth "$n" "$@"
		if [ "$RESULT" = 0 ]; then
			$if_succeeded # there are allocations that may fail
		else
			failed=$((failed + 1))
			case $1 in control) [ -n "$ANSWER" ] || lab_fail "$name, $n: error $RESULT, and not a word" ;; esac
			echo "$RESULT $ANSWER" >> /tmp/answers
			$if_failed
		fi
	done
	log_checked "$name"
	lab_say "$name: $count allocations, $failed errors"
	case $1 in control) [ "$failed" -gt 0 ] || lab_fail "$name: nothing made it fail" ;; esac
}

attach="attach address=$LAB_ADDR volume=disk queues=1 credits=4 connect_ms=20000 command_ms=60000"
attached() { nth 0 control "detach device=rblk0"; [ "$RESULT" = 0 ] || lab_fail "detach: $ANSWER"; nothing_left attach; }
not_attached() { nothing_left "a failed attach"; }
detached() { nothing_left detach; nth 0 control "$attach"; [ "$RESULT" = 0 ] || lab_fail "attach: $ANSWER"; }
not_detached() { lab_detach; detached; }
used() { [ "$(cat /sys/block/rblk0/rblk/state)" = live ] || lab_fail "I/O: $(cat /sys/block/rblk0/rblk/reason)"; }

lab_link_up
# One thread, which opens the device once: what the target has is the same after each session.
lab_rblkd_start --reactors 1 disk=/dev/vda
lab_kmod_needs
log_checked "before anything failed"
: > /tmp/answers
lab_kmod_load
# The first connection has the target open the device.
lab_attach disk queues=1 credits=4
lab_detach
target_let_go() { [[ $(rdma resource show) == *" qp 1 "* ]]; } # the device's own
lab_wait 30 target_let_go || lab_fail "$(rdma resource show)"
before=$(rdma resource show)
sweep attach not_attached attached control "$attach"
LAB_DEV=/dev/rblk0
nth 0 control "$attach"
sweep write used used write "$LAB_DEV"
sweep read used used read "$LAB_DEV"
head -c 65536 /dev/zero | tr '\0' '\132' | cmp -n 65536 - "$LAB_DEV" || lab_broken "other bytes than were written"
sweep detach not_detached detached control "detach device=rblk0"
lab_detach
nothing_left "the last detach"

lab_say "answers that never come"
lab_attach disk queues=1 credits=4 command_ms=5000
echo 0 > $faults/fail_io_timeout/verbose
echo 100 > $faults/fail_io_timeout/probability
echo 1 > /sys/block/rblk0/io-timeout-fail
for direction in "if=$LAB_DEV of=/dev/null iflag=direct" "if=/dev/zero of=$LAB_DEV oflag=direct"; do
	for bytes in 4k 64k; do # through a slot, and registered
		losses=$(cat /sys/block/rblk0/rblk/losses) aborts=$(lab_counter aborts)
		echo 1 > $faults/fail_io_timeout/times
		dd $direction bs=$bytes count=1 status=none || lab_fail "an answer thrown away: dd $direction bs=$bytes"
		[ "$(lab_counter aborts)" -gt "$aborts" ] || lab_fail "no ABORT was sent: dd $direction bs=$bytes"
		[ "$(cat /sys/block/rblk0/rblk/losses)" -gt "$losses" ] || lab_fail "no connection was lost: dd $direction bs=$bytes"
	done
done
lab_detach
nothing_left "answers that never come"
lab_say "answers:"
sort /tmp/answers | uniq -c | sort -rn
lab_kmod_unload
lab_rblkd_stop
log_checked "at the end"
lab_say done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a disk stays, however long nobody uses it: a queue for each processor, polled ones among them, and
# most of them without a command since they were connected. A target that is silent is noticed, said and counted. Method: a target that looks for signs of life
# each second, and nine seconds in which nothing is done; then every queue works, and its disk is unhurt;
# then the daemon is stopped (SIGSTOP).
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

attribute() { cat "/sys/block/${LAB_DEV#/dev/}/rblk/$1"; }

lab_link_up
lab_rblkd_start --keepalive 1s disk=/dev/vda
lab_kmod_load
lab_attach disk queues=2 poll_queues=2
sleep 9 # the time is what is tested
[ "$(attribute state)" = live ] || lab_fail "$(attribute reason)"
[ "$(attribute losses)" = 0 ] || lab_fail "lost $(attribute losses) times"
! grep "sign of life" "$LAB_RBLKD_LOG" || lab_fail "the target closed a queue"
for cpu in 0 1; do
	for polled in '' --hipri; do
		# shellcheck disable=SC2086
		fio --name=each --filename="$LAB_DEV" --direct=1 --rw=randwrite --bs=4k --size=256k --cpus_allowed=$cpu \
			--ioengine=pvsync2 $polled --verify=crc32c --output=/tmp/fio.txt ||
			{ cat /tmp/fio.txt; lab_fail "I/O of processor $cpu $polled"; }
	done
done
[ "$(attribute state)" = live ] || lab_fail "$(attribute reason)"

lab_say "a target that is silent"
kill -STOP "$LAB_RBLKD"
said() { dmesg | grep -q 'lost a connection: .*no answer to KEEPALIVE'; }
lab_wait 60 said || lab_fail "not a word of the loss: $(attribute state), $(attribute reason)"
[ "$(attribute losses)" -ge 1 ] || lab_fail "no loss is counted before the target is back"
kill -CONT "$LAB_RBLKD"
is_live() { [ "$(attribute state)" = live ]; }
lab_wait 60 is_live || lab_fail "$(attribute state): $(attribute reason)"
dd if="$LAB_DEV" of=/dev/null bs=4k count=16 iflag=direct status=none || lab_fail "no I/O"
lab_detach
lab_kmod_unload
lab_rblkd_stop
lab_say done

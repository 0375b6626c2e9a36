# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: two hosts reach each other over RDMA, and one can be killed like a machine and come back while
# the other goes on. Method: rping (which compares the data) to host 1; then ib_write_bw for at most
# 50 minutes. Host 1 is killed during it: its acknowledgements must stop; then host 1 is started again
# and rping works again. (That ib_write_bw ends by itself is not asked for: rxe of Linux 6.1 goes on
# retrying for minutes.)
. "$LAB/guest.sh"
lab_link_up

received() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts; }
acknowledged() { [ "$(received)" -gt $((before + 100)) ]; }
silent() {
	local count
	count=$(received)
	sleep 1
	[ "$count" = "$(received)" ]
}

lab_meet rping-1
rping -c -a "$LAB_PEER" -C 10 -V || lab_fail "rping: exit status $?"

lab_meet perftest
before=$(received)
ib_write_bw -d rxe0 -s 65536 -D 3000 -F "$LAB_PEER" > /out/write_bw 2>&1 &
client=$!
lab_wait 20 acknowledged || lab_fail "ib_write_bw: no packets come back"
lab_order kill-1
lab_wait 20 silent || lab_fail "host 1 was killed and still answers"
kill -KILL $client || lab_fail "ib_write_bw: ended before it was killed"
wait $client

lab_order start-1
lab_meet rping-2
rping -c -a "$LAB_PEER" -C 10 -V || lab_fail "rping: exit status $? after host 1 came back"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Host 1 of the two-host test: serves rping, then ib_write_bw, and is killed during that; after its
# restart it serves only rping.
. "$LAB/guest.sh"
lab_link_up
listening() { rdma resource show cm_id | grep -q LISTEN; }

perftest_listening() { ss -ltn | grep -q :18515; }

rping -s -a "$LAB_ADDR" -C 10 -V > /out/rping &
server=$!
lab_wait 10 listening || lab_fail "rping: does not listen"
lab_meet "rping-$LAB_INCARNATION"
wait $server || lab_fail "rping: the server's exit status is $?"
[ "$LAB_INCARNATION" = 1 ] || exit 0

ib_write_bw -d rxe0 -s 65536 -D 3000 -F > /out/write_bw &
server=$!
lab_wait 10 perftest_listening || lab_fail "ib_write_bw: does not listen"
lab_meet perftest
wait $server
lab_fail "the first life was not killed: ib_write_bw ended with $?"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the verbs fabric does what the fabric's interface says, over IPv4 and IPv6, and leaves nothing
# behind. Method: the conformance cases; round trips with both ends asleep in between; connections
# that end under load, after which the device must have as many objects as before; and last, the case
# that removes the device.
#   fabric-verbs.sh [ROUND_TRIPS [CONNECTIONS]]
. "$LAB/guest.sh"
tests=$LAB_BUILD/tests/fabric
rounds=${1:-5000} connections=${2:-200}

lab_link_up
"$tests/fabric_verbs_wake" verbs "$LAB_ADDR" "$rounds" || lab_fail "wake-ups"

# The program says "idle" when all connections are gone, and waits for a line.
objects() { rdma -j resource show | tr -d ' ' | grep -o '"\(qp\|cm_id\|mr\|srq\)":[0-9]*' | tr '\n' ' '; }
coproc CYCLE { "$tests/fabric_verbs_cycle" verbs "$LAB_ADDR" "$connections" 2>&1; }
# bash closes its own descriptor when the program ends, with what it has said last.
exec {said}<&"${CYCLE[0]}"
while read -r line <&"$said" && [ "$line" != idle ]; do echo "$line"; done
[ "$line" = idle ] || lab_fail "cycles: ended early"
# On Soft-RoCE one QP belongs to the kernel; the acceptor keeps its SRQ and memory, the listener its
# id.
found=$(objects)
echo go >&"${CYCLE[1]}"
wait "$CYCLE_PID" || lab_fail "cycles: exit status $?"
echo "objects after $connections connections: $found"
case $LAB_LINK in
siw) own=0 ;;
*) own=1 ;;
esac
[ "$found" = "\"qp\":$own \"cm_id\":1 \"mr\":1 \"srq\":1 " ] || lab_fail "objects left behind: $found"

"$tests/fabric_conformance" verbs "$LAB_ADDR6" send_receive write_random read_random ||
	lab_fail "conformance, IPv6"
"$tests/fabric_conformance" verbs "$LAB_ADDR" || lab_fail "conformance, IPv4"

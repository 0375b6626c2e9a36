# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A history of the simulator (tests/sim/history.h) as numbers of the model: four for an event, see
# history.pml. The first file is the model, whose events alone are printed. It counts the logins of a queue and the generations of the
# block from 1, each one more than the last; the simulator's numbers may leave some out, and begin anew.
#   awk -f map.awk MODEL.pml HISTORY
FNR == NR {
	if ($1 == "#define" && $2 ~ /^E_/)
		kind[substr($2, 3)] = $3
	next
}
{
	x = $3
	y = $4
}
$1 ~ /^LOGIN/ { incarnation[$2, $3, $4] = ++logins[$2] }
$1 ~ /^(LOGIN|ACCEPT)/ { y = incarnation[$2, $3, $4] }
$1 ~ /^(RENEW|LOGIN)/ { epoch = $3 }
$1 == "LOST" { x = incarnation[$2, $4, $3]; y = 0 }
$1 ~ /^FENCE_/ { x = incarnation[$2, epoch, $3] }
$1 ~ /^(BEGIN|SENT)$/ && !($3 in generation) { generation[$3] = ++generations }
$1 ~ /^(BEGIN|SENT|STORE|LAND|HEARD)$/ { x = generation[$3] }
!($1 in kind) {
	next
}
x > 254 || y > 254 || x == "" || y == "" {
	print "more than the model counts, or unknown: " $0 > "/dev/stderr"
	exit 1
}
{ print kind[$1], $2, x, y }

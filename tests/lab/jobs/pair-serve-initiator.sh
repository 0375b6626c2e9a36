# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: target and initiator on two machines, over IPv4 and IPv6. Method: fio's verified workload from
# here to host 1's disk over one address, and a list over the other.
. "$LAB/guest.sh"
export RBLK_FIO_SIZE=32m
lab_link_up
lab_meet serving
FIO_STATS=1 lab_fio /out/verify verify --ioengine=external:"$RBLK_FIO_ENGINE" "--rblk_uri=rblk://$LAB_PEER/vda"
"$LAB/../bench/point" /out/verify | jq -e '.read == 33554432 and .written == .read' > /dev/null ||
	lab_fail "did not write and read back 32 MiB"
"$RBLK" list "rblk://[fd09::1]" > /out/list || lab_fail "over IPv6: rblk list's exit status is $?"
grep -q vda /out/list || lab_fail "over IPv6, host 1 lists: $(cat /out/list)"
lab_meet done

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the kernel's own NVMe host attaches a volume over TCP or RDMA, without any software of ours: nvme-cli finds, connects and
# describes it, data is right, flush, FUA, discard and zeroes reach the target, a file system on it is whole, and I/O goes on
# without an error when the daemon was killed under it or has restarted in good order, over TCP also with digests; compare, verify and
# reservations are there; where the kernel can, it proves its name by DH-HMAC-CHAP, also again. Method: the target's disk is read
# beside the attached one; flushes are counted at both.
. "$LAB/guest.sh"
[ -n "$LAB_SLOW" ] && TREE=/usr/include/linux/netfilter SIZE=1M || TREE=/usr/include/linux SIZE=8M
. "$LAB/disk.sh"

WAY=${1:-tcp}
modprobe "nvme-$WAY" || lab_fail "nvme-$WAY does not load"
modprobe nvme || true
PORT=4420
host=(-t "$WAY" -a "$LAB_ADDR" -s $PORT --hostid=00000000-0000-0000-0000-00000000000a
	--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a)
target_start() { mkdir -p /tmp/kept; lab_rblkd_start --reservations-dir /tmp/kept --listen "nvme+$WAY://$LAB_ADDR:$PORT" disk=/dev/vda; }
lab_facts() { nvme list -v; dmesg | tail -n 30; tail -n 30 "$LAB_RBLKD_LOG"; } 2> /dev/null
disk() { DISK=$(lsblk -dnpo NAME | grep '^/dev/nvme'); [ -b "$DISK" ]; }

lab_link_up
target_start
lab_say "discover, connect"
nvme discover "${host[@]}" > /tmp/out 2>&1 || lab_fail "discover: $(cat /tmp/out)"
cat /tmp/out
nqn=$(awk '$1 == "subnqn:" { print $2 }' /tmp/out)
case $nqn in nqn.2014-08.org.nvmexpress:uuid:*) ;; *) lab_fail "discover: no subsystem" ;; esac
nvme connect "${host[@]}" -n "$nqn" --keep-alive-tmo=30 > /tmp/out 2>&1 || lab_fail "connect: $(cat /tmp/out)"
lab_wait 20 disk || lab_fail "no disk"
nvme list
nvme list | grep -q 'rblk disk' || lab_fail "nvme list does not know it"
nvme id-ctrl "$DISK" > /tmp/out || lab_fail "id-ctrl"
grep -q '^vwc *: 0x1' /tmp/out && grep -q "^subnqn *: $nqn" /tmp/out || lab_fail "id-ctrl: $(cat /tmp/out)"
nvme id-ns "$DISK" > /tmp/out || lab_fail "id-ns"
nvme ns-descs "$DISK" | grep -q "^uuid *: ${nqn##*:}" || lab_fail "ns-descs: no uuid"
nvme smart-log "$DISK" > /tmp/out || lab_fail "smart-log"
nvme get-feature "$DISK" -f 6 > /tmp/out || lab_fail "get-feature"
[ "$(blockdev --getsize64 "$DISK")" = "$(blockdev --getsize64 /dev/vda)" ] || lab_fail "its size is wrong"
grep -qx 'write back' "/sys/block/${DISK#/dev/}/queue/write_cache" || lab_fail "it has no volatile cache"

lab_say "flush, FUA, discard, zeroes"
flushed=$(flushes) asked=$(operations flush)
dd if=/dev/urandom of="$DISK" bs=4k count=8 oflag=direct,dsync status=none || lab_fail "dd"
[ $(($(flushes) - flushed)) -ge 8 ] || lab_broken "neither FUA nor flushes reach the target's disk"
nvme flush "$DISK" > /tmp/out || lab_fail "flush: $(cat /tmp/out)"
[ $(($(operations flush) - asked)) -ge 1 ] || lab_broken "flushes do not reach the target"
discards_and_zeroes

lab_say "fio"
"${FIO[@]}" --filename="$DISK" || { cat /tmp/fio.txt; lab_broken "fio"; }
same_bytes

lab_say "a file system"
file_system

lab_say "the daemon is killed under I/O, and started again; then it restarts in good order"
load_begin
flows
target_kill
target_start
flows
lab_rblkd_stop
lab_let_go /dev/vda
target_start
flows
load_end
same_bytes

if [ "$WAY" = tcp ]; then
lab_say "digests"
nvme disconnect -n "$nqn" > /tmp/out || lab_fail "disconnect"
nvme connect "${host[@]}" -n "$nqn" --keep-alive-tmo=30 --hdr-digest --data-digest > /tmp/out 2>&1 ||
	lab_fail "connect with digests: $(cat /tmp/out)"
lab_wait 20 disk || lab_fail "no disk"
protected=$("$RBLKCTL" sessions --json | jq '[.sessions[] | select(.volumes != []).digest_connections] | add')
[ "$protected" -ge 2 ] || lab_fail "digests protect $protected connections"
load_begin
flows
target_kill
target_start
flows
load_end
same_bytes
! dmesg | grep -i 'digest' || lab_fail "the host has found a wrong digest"
[ "$("$RBLKCTL" volumes --json | jq '.volumes[0].errors.digest // 0')" = 0 ] || lab_fail "the target has found a wrong digest"
fi

lab_say "compare, verify"
block=$(blockdev --getss "$DISK")
dd if="$DISK" of=/tmp/block bs="$block" count=1 status=none || lab_fail "dd"
nvme compare "$DISK" -s 0 -c 0 -z "$block" -d /tmp/block > /tmp/out 2>&1 || lab_fail "compare: $(cat /tmp/out)"
tr '\0-\377' '\1-\377\0' < /tmp/block > /tmp/other
! nvme compare "$DISK" -s 0 -c 0 -z "$block" -d /tmp/other > /tmp/out 2>&1 || lab_broken "compare: other bytes are the same"
grep -qi 'compare' /tmp/out || lab_fail "compare: $(cat /tmp/out)"
nvme verify "$DISK" -n 1 -s 0 -c 1023 > /tmp/out 2>&1 || lab_fail "verify: $(cat /tmp/out)"

nvme effects-log "$DISK" > /tmp/out 2>&1 || lab_fail "effects-log: $(cat /tmp/out)"
nvme get-log "$DISK" -i 0 -l 1024 > /tmp/out 2>&1 || lab_fail "supported log pages: $(cat /tmp/out)"

lab_say "reservations"
resv() { nvme "resv-$1" "$DISK" -n 1 "${@:2}" > /tmp/out 2>&1; }
resv register -k 0x11 -r 0 -p 3 || lab_fail "register: $(cat /tmp/out)"
resv acquire -c 0x11 -t 1 -a 0 || lab_fail "acquire: $(cat /tmp/out)"
nvme resv-report "$DISK" -n 1 -e -o json > /tmp/out 2>&1 || lab_fail "report: $(cat /tmp/out)"
cat /tmp/out
jq -e '.rtype == 1 and .regctl == 1' /tmp/out > /dev/null || lab_fail "report: $(cat /tmp/out)"
"$RBLKCTL" reservations --json | jq -e '[.reservations[].registrants[] | select(.holder)] | length == 1 and
	(.[0].initiator | startswith("hostid:00000000-0000-0000-0000-00000000000a:"))' > /dev/null ||
	lab_fail "rblkctl does not know the holder: $("$RBLKCTL" reservations --json)"
! resv acquire -c 0x12 -t 1 -a 0 || lab_broken "another key reserves"
grep -qi 'conflict' /tmp/out || lab_fail "acquire with another key: $(cat /tmp/out)"
dd if=/tmp/block of="$DISK" bs="$block" count=1 oflag=direct status=none || lab_broken "the holder cannot write"
resv release -c 0x11 -t 1 -a 0 || lab_fail "release: $(cat /tmp/out)"
resv register -c 0x11 -r 1 || lab_fail "unregister: $(cat /tmp/out)"

lab_say "disconnect"
nvme disconnect -n "$nqn" > /tmp/out || lab_fail "disconnect"
[ "$("$RBLKCTL" sessions --json | jq '.sessions | length')" -le 1 ] || lab_fail "sessions stay"
lab_rblkd_stop

# Debian's 6.1 takes the options, and has nothing behind them.
if grep -q dhchap_ctrl_secret /dev/nvme-fabrics && grep -qw nvme_auth_negotiate /proc/kallsyms; then
	lab_say "authentication"
	lab_let_go /dev/vda
	for name in host other; do "$RBLK" key new /tmp/$name.key > /tmp/out || lab_fail "rblk key"; done
	secret() { "$RBLK" key nvme "$@" 2>&1; }
	connect() { nvme connect "${host[@]}" -n "$nqn" "$@" > /tmp/out 2>&1; }
	printf '[volume disk]\npath = /dev/vda\n[initiator uuid:00000000-0000-0000-0000-00000000000a]\n%s\nwrite = disk\n' \
		"secret = /tmp/host.key" > /tmp/auth.conf
	lab_rblkd_start --reservations-dir /tmp/kept --listen "nvme+$WAY://$LAB_ADDR:$PORT" --config /tmp/auth.conf
	! connect || lab_broken "a host without its secret is let in"
	! connect --dhchap-secret="$(secret /tmp/other.key)" || lab_broken "a host with another secret is let in"
	! connect --dhchap-secret="$(secret /tmp/host.key)" --dhchap-ctrl-secret="$(secret --target /tmp/other.key)" ||
		lab_broken "the host has taken another target for its own"
	grep -q 'authentication as .* denied' "$LAB_RBLKD_LOG" || lab_fail "a wrong secret is not in the log"
	for both in 1 ""; do
		connect --dhchap-secret="$(secret /tmp/host.key)" ${both:+--dhchap-ctrl-secret="$(secret --target /tmp/host.key)"} ||
			lab_fail "connect with a secret: $(cat /tmp/out)"
		lab_wait 20 disk || lab_fail "no disk"
		"${FIO[@]}" --filename="$DISK" || { cat /tmp/fio.txt; lab_broken "fio"; }
		same_bytes
		[ -z "$both" ] || nvme disconnect -n "$nqn" > /tmp/out || lab_fail "disconnect"
	done
	lab_say "another secret, under I/O"
	cat /tmp/other.key >> /tmp/host.key
	kill -HUP "$LAB_RBLKD"
	lab_wait 20 grep -q 'reload: ' "$LAB_RBLKD_LOG" || lab_fail "no reload"
	proofs() { grep -c 'has proven its name' "$LAB_RBLKD_LOG"; }
	proven() { [ "$(proofs)" -gt "$before" ]; }
	load_begin
	flows
	before=$(proofs)
	secret /tmp/other.key > "/sys/class/nvme/$(basename "${DISK%n*}")/dhchap_secret" || lab_fail "the host takes no other secret"
	lab_wait 60 proven || lab_fail "the host does not authenticate again"
	flows
	kill $load
	wait $load
	grep -q 'err= 0' /tmp/fio.txt && ! grep -qE 'verify:|error=' /tmp/fio.txt || { cat /tmp/fio.txt; lab_broken "an error, or other bytes"; }
	nvme disconnect -n "$nqn" > /tmp/out || lab_fail "disconnect"
	lab_rblkd_stop
fi
lab_say "done"

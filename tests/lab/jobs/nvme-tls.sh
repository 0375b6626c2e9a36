# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the kernel's own NVMe host attaches a volume by TLS 1.3, with nvme-cli and tlshd of a later Debian, by identities
# of both versions; data is right, and I/O goes on when the daemon was killed under it or has restarted in good order;
# another key, and who comes without TLS where it is asked of everyone, are refused, and the log says why. Method: keys of
# rblk key; the target's disk is read beside the attached one; rblkctl says what is encrypted.
. "$LAB/guest.sh"
SIZE=8M
. "$LAB/disk.sh"
PORT=4420
host=(-t tcp -a "$LAB_ADDR" -s $PORT --hostid=00000000-0000-0000-0000-00000000000a
	--hostnqn=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a)
lab_facts() { cat /tmp/out /tmp/tlshd.log; dmesg | grep -v rblkd | tail -n 30; }
own() { chroot "$RBLK_LAB_PROGRAMS" /usr/sbin/"$@" > /tmp/out 2>&1; }
target_start() { lab_rblkd_start --tls "${1:-auto}" --listen "nvme+tcp://$LAB_ADDR:$PORT" --config /tmp/conf; }
disk() { DISK=$(lsblk -dnpo NAME | grep '^/dev/nvme'); [ -b "$DISK" ]; }
connect() { own nvme connect "${host[@]}" -n "$nqn" --keep-alive-tmo=30 --nr-io-queues=2 "$@"; }
key_insert() { own nvme check-tls-key --insert --hostnqn="${host[-1]#*=}" "$@" || lab_fail "check-tls-key"; }
# A connection has five seconds for its handshake, which an emulated machine may need for the first time alone.
connects() { lab_wait 30 connect "$@" || lab_fail "connect"; }
disconnect() { own nvme disconnect -n "$nqn" || lab_fail "disconnect"; }
encrypted() { "$RBLKCTL" sessions --json | jq '[.sessions[] | select(.volumes != []).encrypted_connections] | add'; }

# It believes that whoever has AES has carry-less multiply, which the emulator leaves out (boot).
grep -qw pclmulqdq /proc/cpuinfo || echo 'install aesni_intel /bin/false' > /etc/modprobe.d/rblk-lab.conf
modprobe -a gcm ccm || lab_fail "modules"
modprobe tls && modprobe nvme-tcp tls_handshake_timeout=600 || lab_fail "modules"
for mount in dev proc sys; do mount --rbind /$mount "$RBLK_LAB_PROGRAMS/$mount" || lab_fail "mount $mount"; done
printf '[debug]\nloglevel=1\ntls=0\nnl=0\n[authenticate]\nkeyrings=.nvme\n' > "$RBLK_LAB_PROGRAMS/etc/tlshd.conf"
chroot "$RBLK_LAB_PROGRAMS" /usr/sbin/tlshd -s -c /etc/tlshd.conf > /tmp/tlshd.log 2>&1 &
lab_link_up
for name in host other; do "$RBLK" key new /tmp/$name.key > /tmp/out || lab_fail "rblk key"; done
key=$("$RBLK" key nvme --tls /tmp/host.key) other=$("$RBLK" key nvme --tls /tmp/other.key)
nqn=nqn.2014-08.org.nvmexpress:uuid:01010101-0101-0101-0101-010101010101
printf '[volume disk]\npath = /dev/vda\nuuid = %s\n[initiator uuid:00000000-0000-0000-0000-00000000000a]\n%s\nwrite = disk\n' \
	"${nqn##*:}" "secret = /tmp/host.key" > /tmp/conf
target_start

lab_say "connect, fio"
connects --tls --tls-key="$key"
lab_wait 20 disk || lab_fail "no disk"
[ "$(encrypted)" = 3 ] || lab_broken "$(encrypted) connections are encrypted"
grep -q ', by TLS' "$LAB_RBLKD_LOG" || lab_fail "the log does not know of TLS"
"${FIO[@]}" --filename="$DISK" || { cat /tmp/fio.txt; lab_broken "fio"; }
same_bytes

lab_say "the daemon is killed under I/O, and started again; then it restarts in good order"
load_begin
flows
target_kill
target_start
flows
lab_rblkd_stop
lab_let_go /dev/vda
target_start always
flows
load_end
same_bytes
disconnect

lab_say "tls = always: in plain text, and discovery"
! connect || lab_broken "a host without TLS is let in"
grep -qi 'denied.*TLS\|TLS.*denied' "$LAB_RBLKD_LOG" || lab_fail "that it came without TLS is not in the log"
# nvme-cli inserts a key for the subsystem of connect alone; that is there from before.
key_insert --identity=1 --subsysnqn=nqn.2014-08.org.nvmexpress.discovery --keydata="$key"
lab_wait 30 own nvme discover "${host[@]}" --tls || lab_fail "discover"
grep -q "^subnqn: *$nqn" /tmp/out && grep -q '^treq: *required' /tmp/out && grep -q '^sectype: *tls13' /tmp/out ||
	lab_fail "discover: TLS is not told"
all() { own nvme connect-all "${host[@]}" --tls && lab_wait 1 disk; }
lab_wait 30 all || lab_fail "connect-all: no disk"
disconnect

lab_say "an identity of version 0, of a key that is not transformed"
key_insert --identity=0 --subsysnqn="$nqn" --keydata="${key/-1:01:/-1:00:}"
grep -q NVMe0R01 /proc/keys || lab_fail "no key of version 0: $(cat /proc/keys)"
connects --tls --tls_key="$((16#$(awk '/NVMe0R01/ { print $1 }' /proc/keys)))"
lab_wait 20 disk || lab_fail "no disk"
"${FIO[@]}" --filename="$DISK" || { cat /tmp/fio.txt; lab_broken "fio"; }
disconnect

lab_say "another key"
! connect --tls --tls-key="$other" || lab_broken "a host with another key is let in"
grep -q 'refused: host "uuid:00000000-0000-0000-0000-00000000000a" has another secret here' "$LAB_RBLKD_LOG" ||
	lab_fail "a wrong key is not in the log"
lab_rblkd_stop
lab_say "done"

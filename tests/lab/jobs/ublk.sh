# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a volume is a disk by ublk, without any module of ours, over RDMA and over TCP: a file system on it is whole, data is
# right, flush, FUA, discard and zeroes reach the target, I/O waits while the daemon is away, and a disk in use stays. A server
# that is killed, or replaced by another program, is one pause of the disk's I/O and no error, and its successor knows what was not
# flushed; servers that die again and again, and a target that stays away, fail the I/O in good order, and the command
# says what has happened. Method: the target's disk is read beside the attached one; flushes are counted at both. For boot -k
# backports: the release's own kernel has no ublk. With the argument locked: what Secure Boot makes of it, by the kernel's command line.
. "$LAB/guest.sh"
. "$LAB/promise.sh"
# With small sizes each transport has a part: it is the same code above the fabric.
RDMA=$LAB_URI/disk TCP=rblk+tcp://127.0.0.1/disk GROUP=/sys/fs/cgroup/disk
[ -n "$LAB_SLOW" ] && TREE=/usr/include/linux/netfilter SIZE=1M || TREE=/usr/include/linux SIZE=8M
. "$LAB/disk.sh"

lab_facts() { "$RBLK" list --attached; cat /tmp/out; for task in /proc/$(pgrep -xo rblk-ublk)/task/*; do cat "$task/stack"; done; } 2> /dev/null
target_start() { lab_rblkd_start --listen "rblk://$LAB_ADDR" --listen rblk+tcp://127.0.0.1 disk=/dev/vda; }
# attach ARGUMENT...: sets DISK and DEV.
attach() {
	[ -z "$LAB_SLOW" ] || [ "$1" = --tab ] || set -- --connect-timeout 600s "$@"
	DISK=$("$RBLK" attach "$@" 2> /tmp/out) || lab_fail "attach $*: $(cat /tmp/out)"
	DEV=${DISK#/dev/}
	[ -b "$DISK" ] || lab_fail "attach $*: \"$DISK\" is no disk"
}
gone() {
	[ ! -e "$DISK" ] && [ ! -e "/dev/ublkc${DEV#ublkb}" ] && ! server && ! keeper && [ "$(attached length)" = 0 ] &&
		[ -z "$(ls /run/rblk/ublk)" ]
}
detach() {
	"$RBLK" detach "$@" "$DISK" 2> /tmp/out || lab_fail "detach $*: $(cat /tmp/out)"
	lab_wait 10 gone || lab_fail "$DISK is detached, and something of it stays"
}
# fails WORDS COMMAND...: it fails with these words.
fails() {
	local words=$1
	shift
	! "$@" > /tmp/out 2>&1 || lab_fail "$*: succeeds"
	grep -qF -- "$words" /tmp/out || lab_fail "$*: says $(cat /tmp/out)"
}
attached() { "$RBLK" list --attached --json | jq -r ".attached | $1"; }
state_is() { [ "$(attached '.[0].state')" = "$1" ]; }
done_on() { awk '{ print $1 + $5 }' "/sys/block/$DEV/stat"; }

stays() {
	fails "$DEV: mounted at /tmp/mnt" "$RBLK" detach "$DISK"
	[ -b "$DISK" ] && state_is live || lab_broken "a mounted disk is detached"
}
filesystem() {
	lab_say "$1: a file system"
	file_system stays
}

commands() {
	local flushed asked
	lab_say "$1: flush, FUA, discard, zeroes"
	flushed=$(flushes) asked=$(operations flush)
	# Each of these writes has FUA, and a flush follows it.
	dd if=/dev/urandom of="$DISK" bs=4k count=8 oflag=direct,dsync status=none || lab_fail "dd"
	[ $(($(operations flush) - asked)) -ge 8 ] || lab_broken "flushes do not reach the target"
	[ $(($(flushes) - flushed)) -ge 16 ] || lab_broken "FUA does not reach the target's disk"
	discards_and_zeroes
}

outage() {
	lab_say "$1: the daemon is killed under I/O, and started again"
	load_begin
	flows
	target_kill
	lab_wait 60 state_is recovering || lab_fail "it is not recovering"
	[ "$(attached '.[0].error')" != null ] || lab_fail "no reason"
	target_start
	lab_wait 60 state_is live || lab_fail "it does not come back"
	flows
	fails "$DEV: in use: process" "$RBLK" detach --wait 0s "$DISK"
	load_end
	same_bytes
}

server() { pgrep -x rblk-ublk; }
keeper() { pgrep -x rblk-ublk-keep; }
# Another server than $was serves the disk.
followed() { [ "$(attached '.[0].server')" != "$was" ] && state_is live; }
server_kill() {
	was=$(server)
	kill -9 "$was"
	lab_wait 20 followed || lab_broken "a killed server has no successor: $(attached '.[0].error')"
}
# The next keeper and server are where the last ones were, as in a unit of systemd's.
take_over() {
	local before
	was=$(server) before=$(keeper)
	mkdir -p $GROUP && echo "$before" > $GROUP/cgroup.procs && echo "$was" > $GROUP/cgroup.procs || lab_fail "$GROUP"
	[ "$("$RBLK" attach --take-over "${1:-$DEV}" 2> /tmp/out)" = "$DISK" ] || lab_broken "take over: $(cat /tmp/out)"
	followed && [ "$(keeper)" != "$before" ] || lab_fail "it was not taken over"
	[ "$(sort $GROUP/cgroup.procs)" = "$({ keeper; server; } | sort)" ] || lab_fail "it does not belong to the unit that attached it"
}

# survival URI KILLS DEPTH...: with the deepest all tags of a queue are in use, and the kernel has none from the server.
survival() {
	local count depth
	for depth in "${@:3}"; do
		lab_say "$1: the server is killed and replaced under I/O, $depth deep"
		load_begin --verify_backlog=64 --bs=4k --iodepth=$depth
		for ((count = 0; count < $2; count++)); do
			flows
			server_kill
		done
		flows
		take_over
		flows
		load_end
	done
	same_bytes
}

survival_filesystem() {
	local load count
	lab_say "$1: the server is killed and replaced below a file system"
	mkfs.ext4 -q -F "$DISK" && mkdir -p /tmp/mnt && mount "$DISK" /tmp/mnt || lab_fail "no file system"
	while rm -rf /tmp/mnt/tree && cp -r $TREE /tmp/mnt/tree && sync -f /tmp/mnt; do :; done &
	load=$!
	for ((count = 0; count < $2; count++)); do
		flows
		server_kill
	done
	flows
	take_over
	flows
	kill -0 $load 2> /dev/null || lab_broken "the file system has seen an error"
	kill $load
	wait $load 2> /dev/null
	rm -rf /tmp/mnt/tree
	cp -r $TREE /tmp/mnt/tree && umount /tmp/mnt || lab_broken "cp, umount"
	fsck.ext4 -fn "$DISK" > /tmp/out 2>&1 || lab_broken "fsck: not clean"
	mount -o ro "$DISK" /tmp/mnt || lab_fail "mount again"
	[ "$(sums $TREE)" = "$(sums /tmp/mnt/tree)" ] || lab_broken "the files differ"
	umount /tmp/mnt || lab_fail "umount"
}

# The promise journal (tests/promise), with two faults of its own.
writers=(1)
writer_start() { promise_start 1 --blocks 2048 --max-blocks 8 "$DISK"; }
compare() { promise_check "$DISK" 1 > /out/last; }
fault_kill() { target_kill; target_start; }
fault_server() { server_kill; }
fault_upgrade() { take_over; }

# The kernel loads signed modules only: what attach and doctor say of ours, and that a disk is there all the same.
locked() {
	. "$LAB/jobs/kmod.sh"
	lab_say "the kernel is locked down"
	mountpoint -q /sys/kernel/security || mount -t securityfs none /sys/kernel/security
	grep -qF '[integrity]' /sys/kernel/security/lockdown || lab_fail "it is not: $(cat /sys/kernel/security/lockdown)"
	mkdir -p /etc/modprobe.d "/lib/modules/$(uname -r)/updates" && cp "$LAB_KO" "/lib/modules/$(uname -r)/updates/" &&
		echo updates/rblk.ko: >> "/lib/modules/$(uname -r)/modules.dep" || lab_fail "no module"
	echo "install rblk /sbin/insmod $LAB_KO" > /etc/modprobe.d/rblk-lab.conf
	fails 'the kernel module cannot be loaded: rblk is refused: ' "$RBLK" attach --module "$RDMA"
	grep -qF 'loads signed modules only (Secure Boot); rblk attach --ublk needs none' /tmp/out || lab_fail "no help: $(cat /tmp/out)"
	[ ! -e /sys/module/rblk ] || lab_fail "it is loaded"
	attach "$RDMA"
	grep -qF "$RDMA: by ublk: the kernel module rblk is refused: " /tmp/out || lab_fail "it does not say why: $(cat /tmp/out)"
	"$RBLK" doctor > /tmp/doctor 2>&1
	grep -q 'module: no: rblk is not signed' /tmp/doctor && grep -q 'ublk: ublk_drv is loaded' /tmp/doctor || lab_fail "$(cat /tmp/doctor)"
	filesystem "$RDMA"
	detach
	lab_rblkd_stop
	lab_say "done"
	exit
}

lab_link_up
[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup || lab_fail "no cgroup2"
target_start
[ "${1:-}" != locked ] || locked
lab_say "which way"
attach "$RDMA"
grep -qF "$RDMA: by ublk: the kernel module rblk is not here" /tmp/out || lab_fail "it does not say why: $(cat /tmp/out)"
[ "$(attached '.[0].uri')" = "$RDMA" ] && [ "$(attached '.[0].server')" = "$(pgrep -x rblk-ublk)" ] || lab_fail "the list is wrong"
for server in "/proc/$(server)" "/proc/$(keeper)"; do
	[ "$(awk '$1 == "VmLck:" { print $2 }' "$server/status")" -gt 4096 ] && [ "$(cat "$server/oom_score_adj")" = -1000 ] ||
		lab_fail "$(cat "$server/comm") is not protected"
done
[ "$(blockdev --getsize64 "$DISK")" = "$(blockdev --getsize64 /dev/vda)" ] || lab_fail "its size is wrong"
grep -qF '[none]' "/sys/block/$DEV/queue/scheduler" || lab_fail "it has a scheduler"
grep -qx 'write back' "/sys/block/$DEV/queue/write_cache" || lab_fail "it has no volatile cache"
filesystem "$RDMA"
commands "$RDMA"
[ -n "$LAB_SLOW" ] || outage "$RDMA"
"${FIO[@]}" --filename="$DISK" || { cat /tmp/fio.txt; lab_broken "$RDMA: fio"; }
detach

attach "$TCP"
grep -qF "$TCP: by ublk: the kernel module rblk supports only RDMA" /tmp/out || lab_fail "it does not say why: $(cat /tmp/out)"
if [ -z "$LAB_SLOW" ]; then
	filesystem "$TCP"
	commands "$TCP"
fi
outage "$TCP"
detach
"$RBLK" doctor > /tmp/out 2>&1
grep -q '^ *ublk: ublk_drv is loaded' /tmp/out || lab_fail "doctor does not know ublk: $(cat /tmp/out)"

lab_say "options"
attach --ublk --read-only --queues 1 --credits 8 --digest "$RDMA"
[ "$(blockdev --getro "$DISK")" = 1 ] && [ "$(ls "/sys/block/$DEV/mq" | wc -l)" = 1 ] || lab_fail "the options have no effect"
same_bytes
# As at a shutdown: with a user it stays. The server writes its record again after it has looked.
record=$(stat -c %i "/run/rblk/ublk/${DEV#ublkb}")
looked() { [ "$(stat -c %i "/run/rblk/ublk/${DEV#ublkb}")" != "$record" ]; }
exec 6< "$DISK"
kill "$(pgrep -x rblk-ublk)"
lab_wait 10 looked && state_is live || lab_broken "SIGTERM ends a disk in use"
exec 6<&-
kill "$(pgrep -x rblk-ublk)"
lab_wait 10 gone || lab_fail "SIGTERM does not end a disk that is not in use"
fails 'poll-queues: only the kernel module has it' "$RBLK" attach --ublk --poll-queues 1 "$RDMA"
fails 'no such volume' "$RBLK" attach --ublk "$LAB_URI/none"
gone || lab_fail "something stays of an attach that failed"

lab_say "a key, TLS, digest, two paths, the disk's name"
lab_rblkd_stop
"$RBLK" key new /tmp/host.key > /dev/null && truncate -s 16M /tmp/grows.img || lab_fail "no key"
printf '[volume disk]\npath = /dev/vda\nfault = delay=close:1us\n[volume grows]\npath = /tmp/grows.img\n[initiator host]\nwrite = disk, grows
secret = /tmp/host.key\n' > /tmp/rblkd.conf
keyed_start() { lab_rblkd_start --config /tmp/rblkd.conf --fault-socket /tmp/faults --listen "rblk+tcp://$LAB_ADDR" "$@"; }
keyed_start --listen "rblk://$LAB_ADDR"
is() { [ "$(attached ".[0] | $1")" = true ]; }
fails 'which has to be proven with its key' "$RBLK" attach --ublk --name host "rblk+tcp://$LAB_ADDR/disk"
printf 'data rblk://%s,rblk+tcp://%s/disk ublk,name=host,key=/tmp/host.key,digest\n' "$LAB_ADDR" "$LAB_ADDR" > /tmp/tab
# Of two at the same time one has it.
"$RBLK" attach --tab /tmp/tab data > /tmp/one 2>&1 &
"$RBLK" attach --tab /tmp/tab data > /tmp/two 2>&1 && wait $! && lab_fail "two disks have one name"
wait $!
DISK=$(grep -h '^/dev' /tmp/one /tmp/two) && DEV=${DISK#/dev/} && grep -q 'data: is attached already' /tmp/one /tmp/two ||
	lab_fail "two attaches of one name: $(cat /tmp/one /tmp/two)"
is '.name == "data" and .digest and .key == "/tmp/host.key" and (.paths | length == 2 and
	all(.path_state == "up" and .connections > 0 and .proven and .digest and .age_ns >= 0 and .error == null) and
	.[0].rdma and (.[0].tls | not) and (.[1].rdma | not) and .[1].tls)' || lab_fail "the list is wrong: $(attached '.[0]')"
fails 'data: is attached already' "$RBLK" attach --tab /tmp/tab data
dd if="$DISK" of=/dev/null bs=64k count=16 iflag=direct status=none || lab_fail "it cannot be read"
lab_wait 20 is '.counters.commands >= 16' || lab_fail "it does not count"
"$RBLK" top --json --count 1 --interval 100ms | jq -e ".uses[] | .device == \"$DISK\" and .state == \"live\"" > /dev/null || lab_fail "top does not know it"
target_kill
keyed_start
lab_wait 60 is '.state == "live" and .paths[0].path_state == "down" and .paths[0].error != null and .paths[1].path_state == "up" and .losses > 0' ||
	lab_fail "one path: $(attached '.[0]')"
same_bytes

lab_say "writes that may be lost"
dd if=/dev/zero of="$DISK" bs=4k count=1 oflag=direct status=none || lab_fail "dd"
"$RBLK" fault /tmp/faults lose disk || lab_fail "no fault"
lab_wait 60 is '.writes_lost' || lab_fail "it has not learned of the loss"
! dd if=/dev/zero of="$DISK" bs=4k count=1 conv=fsync status=none 2> /tmp/out || lab_broken "fsync succeeds over lost writes"
"$RBLK" acknowledge data > /tmp/out 2>&1 && grep -q 'flushes work again' /tmp/out || lab_fail "acknowledge: $(cat /tmp/out)"
dd if=/dev/zero of="$DISK" bs=4k count=1 conv=fsync status=none || lab_fail "fsync fails after it"
"$RBLK" acknowledge "$DISK" | grep 'no writes are known to be lost' > /dev/null || lab_fail "a loss is left"
"$RBLK" detach data || lab_fail "detach by name"

lab_say "another size"
attach --ublk --name host --key /tmp/host.key "rblk+tcp://$LAB_ADDR/grows"
truncate -s 24M /tmp/grows.img
"$RBLKCTL" reload --force > /tmp/out || lab_fail "reload: $(cat /tmp/out)"
grown() { [ "$(blockdev --getsize64 "$DISK")" = $((24 << 20)) ] && is ".bytes == $((24 << 20)) and .error == null"; }
told() { [ "$(blockdev --getsize64 "$DISK")" = $((16 << 20)) ] && attached '.[0].error' | grep -F "the volume has $((24 << 20)) bytes now" > /dev/null; }
# Linux 6.16 and newer resize a disk of ublk.
[ "$(printf '6.16\n%s\n' "$(uname -r)" | sort -V | sed -n 1p)" = 6.16 ] && want=grown || want=told
lab_wait 20 $want || lab_fail "$want: $(attached '.[0]')"
detach
lab_rblkd_stop
target_start

attach --ublk "$RDMA"
survival "$RDMA" 1 200
detach

if [ -z "$LAB_SLOW" ]; then
	for uri in "$RDMA" "$TCP"; do
		attach --ublk "$uri"
		survival "$uri" 6 200 3
		survival_filesystem "$uri" 6
		rm -f /out/journal1
		dd if=/dev/zero of="$DISK" bs=1M count=8 oflag=direct status=none || lab_fail "$DISK: cannot be filled"
		promise_rounds 2 server upgrade kill restart
		detach
	done

	lab_say "what was not flushed is lost while no server is there"
	lab_rblkd_stop
	truncate -s 16M /tmp/first /tmp/second
	ln -s first /tmp/turning
	printf '[volume disk]\npath = /tmp/turning\ncache = buffered\nfence_domain = 6d1f0c1e-7d4a-4a53-9a0e-2f1d5b7c9e11\n' > /tmp/turning.conf
	turning_start() { lab_rblkd_start --listen "rblk://$LAB_ADDR" --config /tmp/turning.conf; }
	turning_start
	attach --ublk "$RDMA"
	dd if=/dev/urandom of="$DISK" bs=64k count=4 oflag=direct status=none && sync "$DISK" || lab_fail "dd, sync"
	server_kill
	sync "$DISK" || lab_broken "a flush fails, and nothing was lost"
	dd if=/dev/urandom of="$DISK" bs=64k count=4 oflag=direct status=none || lab_fail "dd"
	kill -9 "$LAB_RBLKD"
	wait "$LAB_RBLKD" 2> /dev/null
	was=$(server)
	kill -9 "$was"
	ln -sf second /tmp/turning
	turning_start
	lab_wait 60 followed || lab_broken "no successor: $(attached '.[0].error')"
	! sync "$DISK" || lab_broken "a flush succeeds, and writes are lost"
	[ "$(attached '.[0].writes_lost')" = true ] || lab_fail "the list does not say that writes are lost"
	server_kill
	! sync "$DISK" || lab_broken "the next server's flush succeeds"
	"$RBLK" acknowledge "$DISK" > /tmp/out 2>&1 && sync "$DISK" || lab_fail "acknowledge: $(cat /tmp/out)"
	server_kill
	sync "$DISK" || lab_fail "the next server does not know that the loss was acknowledged"
	detach
	attach --ublk "$RDMA"
	sync "$DISK" || lab_fail "a new attach still knows the loss"
	detach
	lab_rblkd_stop
	target_start

	lab_say "servers that are killed again and again"
	attach --ublk "$RDMA"
	"${FIO[@]}" --filename="$DISK" --verify=0 --time_based --runtime=3600 > /dev/null 2>&1 &
	load=$!
	flows
	until [ ! -e "$DISK" ]; do
		pkill -9 -x rblk-ublk
		sleep 0.02
	done
	wait $load && lab_fail "I/O goes on without a server"
	lab_wait 10 state_is failed || lab_fail "its state is $(attached '.[0].state')"
	"$RBLK" list --attached | grep -qE "$DEV: (its servers are killed again and again|a server was killed while)" || lab_fail "the list does not say what has happened"
	fails "it has failed" "$RBLK" attach --take-over "$DEV"
	detach

	lab_say "the keeper is killed, and then the server"
	attach --ublk "$TCP"
	load_begin --verify_backlog=64
	flows
	kill -9 "$(keeper)"
	flows
	kill -9 "$(server)"
	lab_wait 10 state_is failed || lab_fail "its state is $(attached '.[0].state')"
	fails "its I/O waits for a server" "$RBLK" detach "$DISK"
	"$RBLK" attach --take-over --all > /tmp/out 2>&1 || lab_broken "take over: $(cat /tmp/out)"
	flows
	load_end
	"$RBLK" detach --force "$DISK" && gone || lab_fail "detach by force"
fi

lab_say "a server of another version"
for force in '' --force; do
	attach --ublk "$RDMA"
	printf '\377' | dd of="/run/rblk/ublk/${DEV#ublkb}.kept" bs=1 conv=notrunc status=none # the version
	fails 'its server is of a version that this one cannot take over from' "$RBLK" attach --take-over "$DEV"
	state_is live || lab_fail "its state is $(attached '.[0].state')"
	"$RBLK" detach $force "$DISK" && gone || lab_fail "detach $force"
done

lab_say "the target stays away"
attach --ublk --give-up 3s "$RDMA"
target_kill
lab_wait 60 state_is failed || lab_fail "it does not give up"
! dd if="$DISK" of=/dev/null bs=4k count=1 iflag=direct status=none 2> /tmp/out || lab_fail "it reads from nowhere"
target_start
! dd if="$DISK" of=/dev/null bs=4k count=1 iflag=direct status=none 2> /tmp/out || lab_fail "a disk that has failed works again"
detach
lab_rblkd_stop
lab_say "done"

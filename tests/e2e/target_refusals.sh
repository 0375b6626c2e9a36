#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A target that cannot serve what it is told to says why in one line, object first and reason last, and exits with 1;
# with 2 if the command line or the configuration is wrong. Method: one mistake at a time; all of standard error is
# compared.
. "$(dirname "$0")/cmd.sh"

# All but that nothing identifies this machine over a reboot, which is so in some virtual ones.
said() { sed '/: sessions will not go on with it after a reboot: /d' "$scratch/err"; }

# refused LINE ARGUMENT...: rblkd prints exactly this line and exits with 1. wrong: the same with 2.
refused() {
	ends 1 "$@"
}
wrong() {
	ends 2 "$@"
}
ends() {
	local status=$1 line=$2
	shift 2
	expect "$status" "$RBLKD" "$@"
	[ "$(said)" = "rblkd: $line" ] || fail "wanted: rblkd: $line"
	[ ! -s "$scratch/out" ] || fail "there is output, too"
}

cd "$scratch"
truncate -s 1M disk.img
truncate -s 1000 odd.img
truncate -s 0 empty.img
tcp=(--listen rblk+tcp://127.0.0.1:0 --lock-wait 0)

refused "volume gone: gone.img: No such file or directory" "${tcp[@]}" gone.img
refused "volume d: $scratch: Is a directory" "${tcp[@]}" "d=$scratch"
refused "volume odd: odd.img: size 1000 is not a multiple of the block size, 512" "${tcp[@]}" odd.img
refused "volume empty: empty.img: size is 0" "${tcp[@]}" empty.img
truncate -s 66048 half.img
refused "volume half: half.img: size 66048 is not a multiple of the block size, 4096" \
	"${tcp[@]}" --block-size 4K half.img
wrong "volume disk: defined twice on the command line" "${tcp[@]}" disk.img disk=odd.img
wrong 'unknown option "--blok-size"; did you mean "--block-size"?' --blok-size=4K disk.img

# Editors may put a byte-order mark before the first section. A path with " ;" would be cut to another file's.
printf '\xef\xbb\xbf[target]\nlisten = rblk+tcp://127.0.0.1:0\n[volume disk]\npath = %s/disk.img ; a comment\n' "$scratch" > marked.conf
expect 0 "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 -c marked.conf
printf '[volume disk]\npath = %s/disk.img ;2\n' "$scratch" > cut.conf
wrong "cut.conf:2: path: is \";2\" part of it? Behind a blank, ; begins a comment: a comment has a blank behind its ;, a path cannot have one there" \
	-c cut.conf

printf '[target]\nlisten = rblk+tcp://127.0.0.1:0\n[volume disk]\npath = /disk.img\nblok_size = 4K\n' > rblkd.conf
wrong 'rblkd.conf:5: unknown key "blok_size"; did you mean "block_size"?' -c rblkd.conf
wrong 'rblkd.conf:5: unknown key "blok_size"; did you mean "block_size"?' --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
wrong 'none.conf: No such file or directory' --config none.conf

# --check refuses what could not be served, with the same message as the start if that has one.
cannot() {
	printf '%b' "$2" > rblkd.conf
	expect "$3" "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	err_has "rblkd: $1"
}
ln -s disk.img link.img
cannot "rblkd.conf:2: path: \"$scratch/disk.img\" has quotes" "[volume a]\npath = \"$scratch/disk.img\"\n" 2
cannot 'rblkd.conf:2: path: disk.img is relative' '[volume a]\npath = disk.img\n' 2
cannot 'nothing to serve: the configuration has no section' '[target]\nqueues = 2\n' 2
cannot "volume a: $scratch/gone.img: No such file or directory" "[volume a]\npath = $scratch/gone.img\n" 1
cannot "volume a: $scratch: neither a file nor a block device" "[volume a]\npath = $scratch\n" 1
no_namespace='not a whole NVMe namespace (/dev/ngXnY or /dev/nvmeXnY)'
cannot "volume a: $scratch/disk.img: $no_namespace" "[volume a]\nstore = nvme\npath = $scratch/disk.img\n" 1
refused "volume a: $scratch/disk.img: $no_namespace" --listen rblk+tcp://127.0.0.1:0 --require-all -c rblkd.conf
cannot "volume a: /dev/null: $no_namespace" "[volume a]\nstore = nvme\npath = /dev/null\n" 1
cannot "volume a: /dev/null: neither a file nor a block device" "[volume a]\npath = /dev/null\n" 1
cannot "volume a: $scratch/empty.img: size is 0" "[volume a]\npath = $scratch/empty.img\n" 1
cannot "volume b: $scratch/link.img: already served as volume a ($scratch/disk.img)" \
	"[volume a]\npath = $scratch/disk.img\n[volume b]\npath = $scratch/link.img\n" 1
printf '[volume a]\npath = %s\n' "$scratch/disk.img" > rblkd.conf
expect 0 "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
out_has 'rblkd: the configuration is valid: 1 volume, 1 address'
mkfifo pipe
cannot "volume a: $scratch/pipe: neither a file nor a block device" "[volume a]\npath = $scratch/pipe\n" 1
# Read-only volumes may share a file, but not with one that writes. A memory volume has no path to
# compare.
shared="[volume a]\npath = $scratch/disk.img\nread_only = yes\n[volume m]\nstore = memory\nsize = 1M\n"
shared+="[volume b]\npath = $scratch/link.img\n"
cannot "volume b: $scratch/link.img: already served as volume a ($scratch/disk.img)" "$shared" 1
printf '%b' "$shared"'read_only = yes\n[target]\nlisten = rblk+tcp://127.0.0.2:0\nlisten = rblk+tcp://:0\n' > rblkd.conf
expect 0 "$RBLKD" --check -c rblkd.conf
out_has 'rblkd: the configuration is valid: 3 volumes, 2 addresses'

# An address of HTTP is a number, and a name of the wrong form stops neither a start nor a reload halfway.
memory="[volume m]\nstore = memory\nsize = 1M\n"
cannot 'rblkd.conf:2: http: "localhost:9440" is not [HOST:]PORT with the number of an address' \
	"[target]\nhttp = localhost:9440\n$memory" 2
# What a start needs of the machine: processors, memory.
cannot 'cpus: reactor 0 cannot run on CPU 1023: Invalid argument' "[target]\ncpus = 1023\n$memory" 1
cannot 'memory: the buffers (pool_size) of 64 reactors and the volumes in memory are 1.0 PiB, and this machine has ' \
	'[target]\nreactors = 64\npool_size = 16G\n[volume m]\nstore = memory\nsize = 1024T\n' 1

# warns WORDS CONFIGURATION: valid, and both --check and a start warn; early: --check alone has these words.
warns() {
	early "$@"
	target_start -c rblkd.conf
	grep -qF "$1" target.log || fail "a start does not warn: $1"
	target_stop
}
early() {
	printf '%b' "$2" > rblkd.conf
	expect 0 "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	err_has "rblkd: $1"
}
warns 'tls = always: no initiator has a secret, so nobody can come over TCP' "[target]\ntls = always\n$memory"
warns 'discovery: there is no network interface rblk-none' "[target]\ndiscovery = lo, rblk-none\n$memory"
if [ "$(grep -c discovery: "$scratch/err")" != 1 ]; then fail "an interface that is there is warned of"; fi
early 'state_dir: /nowhere/s: No such file or directory: ' "[target]\nstate_dir = /nowhere/s\n$memory"
early 'reservations_dir: /nowhere/r: No such file or directory: reservations end with rblkd' \
	"[target]\nreservations_dir = /nowhere/r\n$memory"
early 'control_socket: /nowhere/c: No such file or directory: rblkctl does not reach this daemon' \
	"[target]\ncontrol_socket = /nowhere/c\n$memory"
printf '%b' "[target]\nstate_dir = $scratch/new\nreservations_dir = $scratch/new\ncontrol_socket = none\n$memory" > rblkd.conf
expect 0 "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
[ -z "$(said)" ] || fail "warnings of folders that a start makes"

# Of one identity there is one volume: given twice, or because a copy has come to the path of what was served before.
uuid=6f7c0f0e-1d0c-4f2e-8a43-5f0f6a1c9b11
cp disk.img other.img
cannot "rblkd.conf:4: volume b: volume a already has this uuid" \
	"[volume a]\npath = $scratch/disk.img\nuuid = $uuid\n[volume b]\npath = $scratch/other.img\nuuid = $uuid\n" 2
target_start a=disk.img
target_stop
mv disk.img moved.img
mv other.img disk.img
cannot 'volume b: its uuid ' "[target]\nreservations_dir = $scratch/identities\n[volume a]\npath = $scratch/disk.img
[volume b]\npath = $scratch/moved.img\n" 1
err_has " is that of volume a ($scratch/disk.img), of which it may be a copy: give one of them another uuid"
expect 1 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --require-all -c rblkd.conf
err_has " is that of volume a ($scratch/disk.img), of which it may be a copy: give one of them another uuid"

# Addresses of version 0.1 are still accepted; messages have today's form.
wrong '--listen: "tcp://127.0.0.1:65536" is not an address: the port must be a number from 0 to 65535' \
	--listen tcp://127.0.0.1:65536 disk.img
target_start disk.img
grep -qE 'ready: .* on rblk\+tcp://127\.0\.0\.1:[0-9]+$' "$scratch/target.log" || fail "where it serves"
port=${target##*:}
refused "rblk+tcp://127.0.0.1:$port: listen 127.0.0.1:$port: Address already in use" \
	--listen-wait 0 --listen "tcp://127.0.0.1:$port" --memory m=1M
target_stop

# A file system without O_DIRECT (sysfs on all kernels): rblkd uses the page cache with a warning. There is no
# warning if the page cache was asked for, and an error if direct I/O was.
sysfs=/sys/kernel/uevent_seqnum
if [ "$(stat -c %s $sysfs 2> /dev/null)" = 4096 ]; then
	refused "volume s: $sysfs: the file system has no O_DIRECT; try cache = buffered" \
		"${tcp[@]}" --read-only --cache direct s=$sysfs
	target_start --read-only s=$sysfs
	grep -qF "volume s: $sysfs: the file system has no O_DIRECT: served through the page cache" \
		"$scratch/target.log" || fail "no warning"
	expect 0 "$RBLK" info "$target/s"
	target_stop
	target_start --read-only --cache buffered s=$sysfs
	if grep -q O_DIRECT "$scratch/target.log"; then fail "a warning although the page cache was asked for"; fi
	target_stop
else
	echo "SKIPPED: no file without O_DIRECT: $sysfs"
fi

# What another user keeps to himself, a file with a volume, secrets or configuration, or a folder: the message says who
# rblkd is, and what to do; --check says the same. Then the user does that, and it is served.
# denied LINE ARGUMENT...: as user nobody, rblkd prints exactly this line, and exits with 1, or 2 as above.
denied() {
	local line=$1 status=$2
	shift 2
	expect "$status" runuser -u nobody -- "$scratch/program" "$@"
	[ "$(said)" = "rblkd: $line" ] || fail "wanted: rblkd: $line"
}
if [ "$(id -u)" = 0 ]; then
	# That user may not be able to enter the build folder.
	cp "$RBLKD" program
	chmod 755 "$scratch" program
	chmod 600 disk.img
	chown=": Permission denied; rblkd runs as user nobody: chown nobody"
	denied "volume disk: $scratch/disk.img$chown $scratch/disk.img" 1 "${tcp[@]}" "$scratch/disk.img"
	printf '[volume a]\npath = %s\n' "$scratch/disk.img" > rblkd.conf
	chmod 644 rblkd.conf
	denied "volume a: $scratch/disk.img$chown $scratch/disk.img" 1 --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	mkdir closed
	cp disk.img closed/
	printf '[volume a]\npath = %s\n' "$scratch/closed/disk.img" > rblkd.conf
	chmod 700 closed
	enter="$scratch/closed/disk.img: Permission denied; rblkd runs as user nobody: it may not enter $scratch/closed"
	denied "volume a: $enter" 1 --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	denied "volume disk: $enter" 1 "${tcp[@]}" "$scratch/closed/disk.img"
	expect 0 "$RBLK" key new key
	printf '[volume a]\nstore = memory\nsize = 1M\n[initiator db1]\nsecret = %s/key\nwrite = a\n' "$scratch" > rblkd.conf
	denied "rblkd.conf:5: secret: $scratch/key$chown $scratch/key" 2 --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	chown nobody key disk.img
	expect 0 runuser -u nobody -- "$scratch/program" --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	printf '[volume a]\npath = %s\n' "$scratch/disk.img" > rblkd.conf
	expect 0 runuser -u nobody -- "$scratch/program" --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	chmod 400 disk.img
	denied "volume a: $scratch/disk.img: Permission denied; rblkd runs as user nobody: chmod u+rw $scratch/disk.img" 1 \
		--check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	chmod 600 rblkd.conf
	denied "rblkd.conf: Permission denied; rblkd runs as user nobody: chown nobody rblkd.conf" 2 --check --listen rblk+tcp://127.0.0.1:0 -c rblkd.conf
	chown root disk.img
	chmod 600 disk.img
else
	echo "SKIPPED: no unprivileged user to run as"
fi

# A second target gets neither the port nor the file of the first (F6).
target_start disk.img
port=${target##*:}
port=${port%%/*}
expect 1 "$RBLKD" --listen-wait 0 --listen "rblk+tcp://127.0.0.1:$port" --memory m=1M
err_has "rblk+tcp://127.0.0.1:$port: "
grep -qi 'address already in use$' "$scratch/err" || fail "the reason, last"
[ "$(said | wc -l)" = 1 ] || fail "one line"
refused "volume disk: disk.img: in use by process $target_pid (rblkd)" "${tcp[@]}" disk.img
target_stop

# Within one target the message names the other volume, and the daemon does not wait for its own
# lock.
ln disk.img hard.img
ln -s disk.img soft.img
for other in hard soft; do
	expect 1 timeout 120 "$RBLKD" --require-all --listen rblk+tcp://127.0.0.1:0 --lock-wait 10min disk.img $other.img
	[ "$(said)" = "rblkd: volume $other: $other.img: already served as volume disk (disk.img)" ] ||
		fail "one file under two names"
done

# A killed target holds no locks: the next one can serve its volumes.
target_start disk.img
target_stop -KILL
target_start --lock-wait 10s disk.img
target_stop

# Without an RDMA device and without --listen, the message says what to do.
if [ ! -d /sys/class/infiniband ] || [ -z "$(ls /sys/class/infiniband)" ]; then
	expect 1 "$RBLKD" disk.img
	err_has 'rdma link add rxe0 type rxe netdev'
	err_has '--listen rblk+tcp://127.0.0.1'
	[ "$(said | wc -l)" = 1 ] || fail "one line"
else
	echo "SKIPPED: this machine has an RDMA device"
fi

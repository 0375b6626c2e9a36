#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# If the system gives the target too little, it says in one line what it lacks and what to do. It
# exits with 1 if it cannot serve without that, and else serves. Method: rblkd under limits on
# descriptors, on files and on locked memory (without root's right to lock more).
. "$(dirname "$0")/cmd.sh"

# Too few descriptors for io_uring's table of volumes.
expect 1 prlimit --nofile=256:256 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --memory m=1M
err_has 'rblkd: reactor 0: io_uring: Too many open files (raise the limit: ulimit -n, or LimitNOFILE='
[ "$(wc -l < "$scratch/err")" = 1 ] || fail "one line"

# under COMMAND...: from now on COMMAND starts rblkd.
rblkd=$RBLKD
under() {
	printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$*" "$rblkd" > "$scratch/rblkd"
	chmod +x "$scratch/rblkd"
	RBLKD=$scratch/rblkd
}

# rblkd raises a low soft limit, as shells have it, to the hard limit.
under prlimit --nofile=256:4096
target_start --memory m=1M --reactors 1
grep -q '^Max open files *4096 *4096 ' "/proc/$target_pid/limits" || fail "the limit was not raised"
expect 0 "$RBLK" ping --count 1 "$target"
target_stop

# So with the size of files. Beyond a hard limit a write fails, and nothing else: not the daemon.
truncate -s 4M "$scratch/large"
head -c 2M /dev/urandom > "$scratch/data"
under prlimit --fsize=4096:unlimited
target_start --reactors 1 "disk=$scratch/large"
expect 0 "$RBLK" copy "$scratch/data" "$target/disk"
target_stop
under prlimit --fsize=1048576:1048576
target_start --reactors 1 "disk=$scratch/large"
expect 1 "$RBLK" copy "$scratch/data" "$target/disk"
log_has 'File too large'
kill -0 "$target_pid" || fail "a write has ended rblkd"
expect 0 "$RBLK" ping --count 1 "$target"
target_stop

# Too little locked memory even for io_uring's rings, where the kernel counts them.
no_right=()
[ "$(id -u)" != 0 ] || no_right=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock)
under "${no_right[*]}" prlimit --memlock=4096
"$RBLKD" --listen rblk+tcp://127.0.0.1:0 --reactors 1 --memory m=1M 2> "$scratch/err" > "$scratch/out" &
target_pid=$!
until grep -q 'ready: ' "$scratch/err" || ! kill -0 "$target_pid" 2> /dev/null; do
	read -rt 0.05 <> <(:) || true
done
if grep -q 'ready: ' "$scratch/err"; then
	echo "SKIPPED: this kernel does not count io_uring's rings as locked memory"
	target_stop
else
	status=0
	wait "$target_pid" || status=$?
	target_pid=
	[ $status = 1 ] || fail "status $status"
	err_has 'rblkd: reactor 0: io_uring: Cannot allocate memory (raise the memlock limit: ulimit -l, or LimitMEMLOCK='
	[ "$(wc -l < "$scratch/err")" = 1 ] || fail "one line"
fi

# Enough for these, too little for the disk's buffers: this only makes rblkd slower. The log says
# so, and data is right.
under "${no_right[*]}" prlimit --memlock=4194304
truncate -s 4M "$scratch/disk"
head -c 4M /dev/urandom > "$scratch/data"
target_start --reactors 1 --cache buffered "disk=$scratch/disk"
expect 0 "$RBLK" copy "$scratch/data" "$target/disk"
cmp "$scratch/data" "$scratch/disk" || fail "the disk does not have what was written"
[ "$(grep -c 'memlock' "$scratch/target.log")" = 1 ] || fail "one line about the limit"
grep -q 'rblkd: reactor 0: serves without fixed buffers, disks are a little slower: ' "$scratch/target.log" || fail "what is lacking"
# What a start says last is that it has succeeded.
last=$(sed '/rblkd: session /,$d' "$scratch/target.log" | tail -n 1)
[[ $last == 'rblkd: ready: serving 1 volume on '* ]] || fail "the last line of a start: $last"
target_stop

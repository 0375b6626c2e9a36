#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# After SIGHUP the target serves what the file says now, all of it or nothing. It logs what has changed and for
# whom, and never delays a login. Method: the file is changed while the target runs; the test reads the log and
# the list of volumes. Then locks that others hold, and slow I/O.
. "$(dirname "$0")/cmd.sh"
cd "$scratch"
truncate -s 1M a.img
truncate -s 2M b.img

# serves JSON: names and sizes, in their order.
serves() {
	expect 0 "$RBLK" list --json "$target"
	json_is "[.volumes[] | [.volume, .bytes]] == $1"
}

cat > rblkd.conf <<-END
	[volume a]
	path = $scratch/a.img
	[volume m]
	store = memory
	size = 64K
END
target_start --config rblkd.conf --lock-wait 0 --memory fixed=8K
serves '[["a", 1048576], ["fixed", 8192], ["m", 65536]]'

# Added, removed, and one that grew.
cat > rblkd.conf <<-END
	[volume a]
	path = $scratch/a.img
	[volume b]
	path = $scratch/b.img
END
truncate -s 3M a.img
reloaded 'reload: 1 volume added, 1 removed, 0 changed'
log_has 'volume a: now 3 MiB in blocks of 512 bytes'
serves '[["a", 3145728], ["b", 2097152], ["fixed", 8192]]'

# After a mistake anywhere nothing changes, although a new volume comes before it.
cat > rblkd.conf <<-END
	[volume new]
	store = memory
	size = 64K
	[volume b]
	path = $scratch/b.img
	blok_size = 4K
END
reloaded 'reload failed, nothing changed: rblkd.conf:6: unknown key "blok_size"; did you mean "block_size"?'
serves '[["a", 3145728], ["b", 2097152], ["fixed", 8192]]'

# The same if a new volume cannot be opened: the one before it is closed again.
cat > rblkd.conf <<-END
	[volume new]
	store = memory
	size = 64K
	[volume other]
	path = $scratch/missing.img
END
reloaded "reload failed, nothing changed: volume other: $scratch/missing.img: No such file or directory"
serves '[["a", 3145728], ["b", 2097152], ["fixed", 8192]]'

# Changed, a path that changes its name, and settings that wait for a restart.
cat > rblkd.conf <<-END
	[target]
	credits = 64
	[volume a]
	path = $scratch/a.img
	block_size = 4K
	[volume c]
	path = $scratch/b.img
	lock_wait = 30s
END
reloaded 'reload: 1 volume added, 1 removed, 1 changed'
log_has 'reload: these changes need a restart: credits'
serves '[["a", 3145728], ["c", 2097152], ["fixed", 8192]]'
json_is '.volumes[0].block_bytes == 4096'
log_has 'volume c: added: '
log_has 'volume b: removed: '
log_has 'volume a: changed: '

# The path leads to another file: the target serves that one, and logs it.
cat > rblkd.conf <<-END
	[volume a]
	path = $scratch/a.img
	block_size = 4K
END
truncate -s 5M new.img
mv new.img a.img
reloaded 'reload: 0 volumes added, 1 removed, 1 changed'
log_has "volume a: $scratch/a.img is now another file"
serves '[["a", 5242880], ["fixed", 8192]]'

# Fewer blocks than are served: only if allow_shrink is set. The file shrinks, the path leads to a smaller
# file, or the size of memory is smaller.
truncate -s 4M a.img
reloaded "reload failed, nothing changed: volume a: $scratch/a.img has 4194304 bytes, but 5242880 are served"
truncate -s 5M a.img
truncate -s 1M new.img
mv new.img a.img
reloaded "reload failed, nothing changed: volume a: $scratch/a.img has 1048576 bytes, but 5242880 are served"
serves '[["a", 5242880], ["fixed", 8192]]'
echo 'allow_shrink = yes' >> rblkd.conf
reloaded 'reload: 0 volumes added, 0 removed, 1 changed'
serves '[["a", 1048576], ["fixed", 8192]]'

# A memory volume that changes loses its contents, and the log says so.
printf '[volume m]\nstore = memory\nsize = 64K\n' >> rblkd.conf
reloaded 'reload: 1 volume added, 0 removed, 0 changed'
sed -i 's/64K/32K/' rblkd.conf
reloaded 'reload failed, nothing changed: volume m: its store has 32768 bytes, but 65536 are served'
sed -i 's/32K/128K/' rblkd.conf
reloaded 'reload: 0 volumes added, 0 removed, 1 changed'
log_has 'volume m: the data in its memory is discarded'

# Another process holds a lock: logins go on, nothing of the reload is visible yet, and the next reload ends the
# wait.
cp rblkd.conf before.conf
printf '[volume early]\nstore = memory\nsize = 8K\n[volume b]\npath = %s/b.img\nlock_wait = 30min\n' "$scratch" >> rblkd.conf
exec 9< b.img
flock 9
reloaded "volume b: $scratch/b.img: waiting up to 30min"
serves '[["a", 1048576], ["fixed", 8192], ["m", 131072]]'
cp before.conf again.conf
cp rblkd.conf waiting.conf
cp again.conf rblkd.conf
reloaded 'reload: 0 volumes added, 0 removed, 0 changed'
log_has "reload failed, nothing changed: volume b: $scratch/b.img: in use by "
serves '[["a", 1048576], ["fixed", 8192], ["m", 131072]]'

# The wait does not keep the daemon from stopping, either.
cp waiting.conf rblkd.conf
reloaded "volume b: $scratch/b.img: waiting up to 30min"
kill "$target_pid"
wait "$target_pid" || fail "a waiting reload keeps the daemon from stopping"
target_pid=
exec 9<&-

# copy_under_way: starts a copy to volume slow in the background, and waits until the target has
# commands of it.
copy_under_way() {
	"$RBLK" copy --give-up 500ms zeroes "$target/slow" > copy.log 2>&1 &
	copy=$!
	until grep -q 'status: session .* [1-9][0-9]* commands* outstanding, .*open: slow' target.log; do
		kill -0 $copy || fail "the copy has ended: $(cat copy.log)"
		kill -USR1 "$target_pid"
		read -rt 0.05 <> <(:) || true
	done
}

# A volume whose settings change while slow I/O is in flight is served again when that has ended, however short
# its lock_wait is. The copy stands still, so that its session has the volume open however long the reload takes.
printf '[volume slow]\npath = %s/a.img\nfault = delay=write:2s\n' "$scratch" > rblkd.conf
target_start --config rblkd.conf --lock-wait 0 --memory fixed=8K
echo 'lock_wait = 0' >> rblkd.conf
head -c 1M /dev/zero > zeroes
copy_under_way
kill -STOP $copy
log_has 'status: serving 2 volumes on '
log_has 'status: reactor 0: '
echo 'block_size = 4K' >> rblkd.conf
reloaded 'reload: 0 volumes added, 0 removed, 1 changed'
wait_for "who had it open" grep -q 'volume slow: session .* had it open' target.log
kill -CONT $copy
wait $copy || true
serves '[["fixed", 8192], ["slow", 1048576]]'
json_is '.volumes[1].block_bytes == 4096'
target_stop

# The settings of two volumes change, and the I/O of one does not end: the other one is served
# meanwhile.
printf '[volume ok]\npath = %s/b.img\n[volume slow]\npath = %s/a.img\nfault = delay=write:60s\n' "$scratch" "$scratch" > rblkd.conf
target_start --config rblkd.conf --drain-time 0
copy_under_way
# The volume that waits comes first in the file.
printf '[volume slow]\npath = %s/a.img\nblock_size = 4K\n[volume ok]\npath = %s/b.img\nblock_size = 4K\n' "$scratch" "$scratch" > rblkd.conf
reloaded 'volume ok: changed: '
serves '[["ok", 2097152]]'
log_has "in use by this process, for a volume that is being closed; waiting"
if grep -q 'volume slow: changed\|not served yet' target.log; then fail "volume ok waited for volume slow"; fi
target_stop -KILL
wait $copy || true

# Signals that come before it serves end nobody: they wait. The file is a pipe, so the daemon has begun when it is open.
mkfifo early.conf
printf '[target]\nlisten = rblk+tcp://127.0.0.1:0\n[volume m]\nstore = memory\nsize = 64K\n' > m.conf
"$RBLKD" --config early.conf --state-dir state --control-socket none --journal none 2> target.log &
target_pid=$!
exec 8> early.conf
kill -HUP "$target_pid"
kill -USR1 "$target_pid"
cat m.conf >&8
exec 8>&-
told() {
	kill -0 "$target_pid" 2> /dev/null || fail "a signal has ended it"
	grep -q 'status: serving 1 volume on ' target.log
}
wait_for "the status" told
timeout 300 cp m.conf early.conf || fail "the file is not read again"
log_has 'reload: 0 volumes added, 0 removed, 0 changed'

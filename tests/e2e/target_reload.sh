#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# SIGHUP serves what the file says now, all of it or nothing. Method: a file that is changed under a
# running target, whose log is waited for and whose list is asked.
. "$(dirname "$0")/cmd.sh"
cd "$scratch"
truncate -s 1M a.img
truncate -s 2M b.img

# reloaded TEXT: SIGHUP, then wait until the log has that line once more than before.
reloaded() {
	local before tries=0
	before=$(grep -cF -- "$1" target.log || true)
	kill -HUP "$target_pid"
	until [ "$(grep -cF -- "$1" target.log || true)" -gt "$before" ]; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || fail "no such line in a minute: $1"
		read -rt 0.05 <> <(:) || true
	done
}
# serves JSON: names and sizes, in their order.
serves() {
	expect 0 "$RBLK" list --json "$target"
	json_is "[.volumes[] | [.volume, .bytes]] == $1"
}

cat > rblkd.conf <<-END
	[volume a]
	path = a.img
	[volume m]
	store = memory
	size = 64K
END
target_start --config rblkd.conf --lock-wait 0 --memory fixed=8K
serves '[["a", 1048576], ["fixed", 8192], ["m", 65536]]'

# Added, removed, and one that grew.
cat > rblkd.conf <<-END
	[volume a]
	path = a.img
	[volume b]
	path = b.img
END
truncate -s 3M a.img
reloaded 'reload: 1 volumes added, 1 removed, 0 changed'
grep -qF 'volume a: now 6144 blocks of 512 bytes' target.log || fail "growth is not in the log"
serves '[["a", 3145728], ["b", 2097152], ["fixed", 8192]]'

# A mistake anywhere: nothing at all happens, though a new volume comes before it.
cat > rblkd.conf <<-END
	[volume new]
	store = memory
	size = 64K
	[volume b]
	path = b.img
	blok_size = 4K
END
reloaded 'reload: nothing changed: rblkd.conf:6: unknown key "blok_size"; did you mean "block_size"?'
serves '[["a", 3145728], ["b", 2097152], ["fixed", 8192]]'

# The same where a new volume cannot be opened: the one before it is taken back.
cat > rblkd.conf <<-END
	[volume new]
	store = memory
	size = 64K
	[volume other]
	path = missing.img
END
reloaded 'reload: nothing changed: volume other: missing.img: No such file or directory'
serves '[["a", 3145728], ["b", 2097152], ["fixed", 8192]]'

# Changed, a path that changes its name, and settings that wait for a restart.
cat > rblkd.conf <<-END
	[target]
	credits = 64
	[volume a]
	path = a.img
	block_size = 4K
	[volume c]
	path = b.img
	lock_wait = 30s
END
reloaded 'reload: 1 volumes added, 1 removed, 1 changed'
grep -qF 'reload: changed, but kept until a restart: credits' target.log || fail "credits"
serves '[["a", 3145728], ["c", 2097152], ["fixed", 8192]]'
json_is '.volumes[0].block_bytes == 4096'
target_stop

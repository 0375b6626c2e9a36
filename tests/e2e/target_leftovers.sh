#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what a daemon of root's leaves in the folders of another user never stops that user's daemon: sockets, locks, marks of
# failed syncs, reservations, identities. Method: the daemon runs by turns as root and as a user, and ends in good order or
# killed; then files are made root's alone, as a version that gave nothing away has left them. Only what cannot be replaced
# unseen is refused, with a sentence that says what to do. 77: not root.
. "$(dirname "$0")/cmd.sh"
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 77; }
user=4711
run=$scratch/run keep=$scratch/keep disk=$scratch/images/disk.img
chmod 755 "$scratch"
mkdir -m 755 "$run" "$scratch/images"
mkdir -m 700 "$keep"
truncate -s 4M "$disk"
chown -R $user:$user "$run" "$keep" "$scratch/images"
program=$RBLKD
# serve WHO ARGUMENT...: as root, or as the user.
serve() {
	local as=()
	[ "$1" = root ] || as=(setpriv --reuid $user --regid $user --clear-groups)
	shift
	printf '#!/bin/bash\nexec %s %q "$@"\n' "${as[*]}" "$program" > "$scratch/rblkd"
	chmod 755 "$scratch/rblkd"
	RBLKD=$scratch/rblkd target_start --state-dir "$run" --reservations-dir "$keep" --control-socket "$run/control" \
		--fault-socket "$run/fault" --cache buffered "$@" "$disk"
}
# well: nothing of what another left was in the way.
well() {
	log_has "ready: "
	expect 0 "$RBLKCTL" status --socket "$run/control"
	if grep -E 'denied|not permitted|not a file of|cannot be|WARNING' "$scratch/target.log" | grep -v 'accepting faults'; then
		fail "something was in the way"
	fi
	expect 0 "$RBLK" info --json "$target/disk"
	json_is "[.uuid, .cache_epoch] == $(cat "$scratch/known")"
	expect 0 "$RBLK" reserve --json "$target/disk"
	json_is '.persists and .registrants[0].initiator == "a"'
}

serve root
expect 0 "$RBLK" reserve --name a --new-key 0xaa --persist "$target/disk" register
expect 0 "$RBLK" info --json "$target/disk"
jq -c '[.uuid, .cache_epoch]' "$scratch/out" > "$scratch/known"
target_stop
for who in user root user root user; do
	serve $who
	well
	# The reservation is saved anew, with what that makes of files.
	expect 0 "$RBLK" reserve --name b --new-key 0xbb --persist "$target/disk" register
	expect 0 "$RBLK" reserve --name b --own-key 0xbb "$target/disk" register --new-key 0
	target_stop
done
# Killed, they leave lock and sockets; a write that was not made durable is still vouched for, as the inode has lasted.
for who in root user root user; do
	serve $who
	well
	target_stop -KILL
	[ -e "$run/control.lock" ] || fail "$who: no lock is left, so nothing was tried"
done

# As a version has left them that gave nothing away; and half-written ones.
reservations=$(echo "$keep"/reservations-*) identity=$(echo "$keep"/volume-*) mark=$(echo "$run"/f-*)
chmod 600 "$run/control.lock"
chown root:root "$run/control.lock" "$run/control" "$run/fault"
echo x > "$reservations.new"
echo x > "$identity.new"
chmod 600 "$keep"/*.new
serve user
well
expect 0 "$RBLK" reserve --name b --new-key 0xbb --persist "$target/disk" register
target_stop

# A mark that it may not read: nobody vouches for the cache, so initiators are told by a new epoch, once.
chown root:root "$mark"
serve user
log_has "$mark: replaced"
expect 0 "$RBLK" info --json "$target/disk"
json_is "[.uuid, .cache_epoch] != $(cat "$scratch/known")"
jq -c '[.uuid, .cache_epoch]' "$scratch/out" > "$scratch/known"
target_stop
serve user
well
target_stop

# Unsafe: initiators rely on reservations, and on the size of blocks.
for file in "$reservations" "$identity"; do
	chown root:root "$file"
	chmod 600 "$file"
	RBLKD=$program expect 1 setpriv --reuid $user --regid $user --clear-groups "$program" --listen rblk+tcp://127.0.0.1:0 \
		--state-dir "$run" --reservations-dir "$keep" --control-socket none --journal none "$disk"
	err_has "$file: Permission denied; rblkd runs as user $user: chown $user $file"
	chown $user "$file"
done

# A daemon that lives keeps its socket, whoever it runs as.
serve root
chown root:root "$run/control.lock"
chmod 600 "$run/control.lock"
truncate -s 1M "$scratch/images/other.img"
chown $user "$scratch/images/other.img"
setpriv --reuid $user --regid $user --clear-groups "$program" --listen rblk+tcp://127.0.0.1:0 --state-dir none \
	--reservations-dir none --control-socket "$run/control" --journal none "$scratch/images/other.img" 2> "$scratch/second" &
second=$!
second_has() { grep -qF -- "$1" "$scratch/second"; }
wait_for "the second daemon" second_has 'another rblkd has it'
kill $second
wait $second || true
expect 0 "$RBLKCTL" status --socket "$run/control"
out_has "process $target_pid"
target_stop

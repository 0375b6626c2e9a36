#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# TLS as people use it: with a key, TCP to another machine is encrypted, and neither end does without unless both are
# told so; wrong keys, names and peers without TLS are told at both ends; a session outlives its connections.
# Method: the command in a network namespace of its own, which is another machine to the target.
. "$(dirname "$0")/cmd.sh"
cd "$scratch"

two_machines 10.78.0 "e2e.lib_tls tests TLS without"

"$RBLK" key new db1.key > /dev/null
"$RBLK" key new other.key > /dev/null
head -c 2M /dev/urandom > file
truncate -s 2M disk
# conf LINE...: of [target]; db1 has a secret, everyone may write the volume "free".
conf() {
	{
		echo "[target]"
		for line in "$@"; do echo "$line"; done
		printf '[volume data]\npath = %s/disk\ncache = buffered\n' "$scratch"
		printf '[volume free]\nstore = memory\nsize = 2M\n'
		printf '[initiator db1]\nwrite = data\nsecret = %s/target.key\n' "$scratch"
		printf '[initiator *]\nwrite = free\naddress = 0.0.0.0/0\n'
	} > rblkd.conf
}
reloaded() {
	local before
	before=$(grep -cF 'reload: 0 volumes added' target.log || true)
	kill -HUP "$target_pid"
	more() { [ "$(grep -cF 'reload: 0 volumes added' target.log || true)" -gt "$before" ]; }
	wait_for "the reload" more
}
log_has() { grep -qF -- "$1" target.log; }
cp db1.key target.key
conf
target_listen=rblk+tcp://10.78.0.1:0
target_start --config rblkd.conf --control-socket "$scratch/control" --http 0
target_listen=rblk+tcp://10.78.0.1:${target##*:}

# A key is enough: the data goes by TLS, and comes back the same.
expect 0 "${there[@]}" "$RBLK" copy --name db1 --key db1.key file "$target/data"
log_has 'initiator db1 has proven its name, by TLS' || fail "the log does not say TLS"
cmp file disk || fail "what was written by TLS"
expect 0 "${there[@]}" "$RBLK" copy --name db1 --key db1.key "$target/data" back
cmp file back || fail "what was read by TLS"
expect 0 "${there[@]}" "$RBLK" ping --name db1 --key db1.key --count 20 "$target"
expect 0 "${there[@]}" "$RBLK" list --name db1 --key db1.key "$target"

# The target shows it while the session is there.
mkfifo early
"${there[@]}" "$RBLK" copy --name db1 --key db1.key - "$target/data" < early > copied.early 2>&1 &
copy=$!
exec 8> early
shown() { "$RBLKCTL" sessions --json --socket "$scratch/control" 2> /dev/null | jq -e '[.sessions[] | select(.connections > 0 and
	.initiator == "db1" and .proven and .encrypted_connections == .connections and .rdma_connections == 0 and
	all(.paths[]; .proven and .encrypted and (.rdma | not)))] != []' > /dev/null; }
wait_for "the session, proven and encrypted" shown
expect 0 "$RBLKCTL" sessions --socket "$scratch/control"
grep -qE ' db1 +yes +10\.78\.0\.2:[0-9]+ +[1-9][0-9]* +TLS +no +[0-9]+ s ' out || fail "the row of the session"
cat file >&8
exec 8>&-
wait $copy || fail "the copy: $(cat copied.early)"

# Without, both ends have to be told.
wants="the target wants TLS over TCP: use a key, and --tls always to loopback addresses"
expect 1 "${there[@]}" "$RBLK" info --name db1 --key db1.key --tls never "$target/data"
err_has "authentication as \"db1\" failed: $wants"
log_has "authentication as \"db1\" denied: $wants" || fail "the log does not say who came without TLS"
expect 0 "${there[@]}" "$RBLK" info --name db3 "$target/free"
grep -q '^asked from' out && fail "another machine is not the target's own"
conf "tls = never"
reloaded
log_has 'tls = never: initiators with secrets may come without TLS' || fail "never is not told"
expect 0 "${there[@]}" "$RBLK" info --name db1 --key db1.key --tls never "$target/data"
expect 0 "${there[@]}" "$RBLK" info --name db1 --key db1.key "$target/data"
# A session that is there is for the new settings, too: with a key, and then without.
ends_by() { # VOLUME SETTINGS OPTION...
	local volume=$1 settings=$2 before
	shift 2
	before=$(grep -cF 'or that it came without TLS' target.log || true)
	mkfifo fifo
	"${there[@]}" "$RBLK" copy "$@" --give-up 1s --chunk 64k - "$target/$volume" < fifo > copy.out 2> copy.err &
	copy=$!
	exec 7> fifo
	head -c 1M file >&7
	first_half() {
		rm -f copied
		"$RBLK" copy --name db1 --key db1.key "$target/$volume" copied > out.txt 2>&1 7>&- && cmp -s -n 524288 file copied
	}
	wait_for "the first half" first_half
	conf $settings
	reloaded
	ended() { [ "$(grep -cF 'or that it came without TLS' target.log || true)" -gt "$before" ]; }
	wait_for "the end of the session" ended
	wait $copy && fail "a session without TLS outlived its rule"
	exec 7>&-
	grep -qF "$wants" copy.err || fail "the initiator does not know why: $(cat copy.err)"
	rm -f fifo copied
}
truncate -s 0 disk && truncate -s 2M disk
ends_by data "" --name db1 --key db1.key --tls never
ends_by free "tls=always" --name db3
expect 1 "${there[@]}" "$RBLK" info --name db3 "$target/free"
err_has "$wants"
log_has "denied: $wants" || fail "the log does not say who was refused"
expect 1 "$RBLK" info --name db1 --key db1.key --tls never "$target/data"
expect 0 "$RBLK" info --name db1 --key db1.key --tls always "$target/data"
out_has "encrypted            yes: TLS 1.3"
out_has "asked from           the target's own machine"
out_has "digest               no"
expect 0 "$RBLK" info --name db1 --key db1.key --digest "$target/data"
out_has "digest               yes: CRC32C of all data"
# Of each path by itself: the same target by two words for its address.
both=$target,10.78.1:${target##*:}/data
expect 0 "$RBLK" info --name db1 --key db1.key --digest --tls always "$both"
for host in "${target#*://}" "10.78.1:${target##*:}"; do
	out_has "path                 $host: up, 1 connection over TLS, proven, digest, for "
done
expect 0 "$RBLK" info --name db1 --key db1.key --digest --tls always --json "$both"
json_is '[.paths[] | .tls and .proven and .digest and (.rdma | not)] == [true, true]'
conf
reloaded
# The machine itself does without, unless told so.
expect 0 "$RBLK" info --name db1 --key db1.key --tls never "$target/data"
out_has "encrypted            no"
out_has "proven               yes: both ends have the secret"

# Keys that are wrong, and names that are others'.
refused="TLS: the target has another secret for initiator"
expect 1 "${there[@]}" "$RBLK" info --name db1 --key other.key "$target/data"
err_has "$refused \"db1\", or none"
err_has "is it the key of another name? "
log_has 'refused: initiator "db1" has another secret here' || fail "the log does not say who has a wrong key"
exec 9<> "/dev/tcp/127.0.0.1/$(sed -n 's/.*http: http:.*:\([0-9]*\)\/$/\1/p' target.log)"
printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&9
failures=$(sed -n 's/^rblk_tls_failures_total //p' <&9)
exec 9>&-
[ "$failures" -ge 1 ] || fail "$failures failures of TLS are counted"
expect 1 "${there[@]}" "$RBLK" info --name db2 --key db1.key "$target/free"
err_has "$refused \"db2\", or none"
log_has 'refused: initiator "db2" has no secret here' || fail "the log does not say who has no key"
expect 1 "${there[@]}" "$RBLK" info --tls always "$target/free"
err_has "--tls: always needs --key"
expect 1 "${there[@]}" "$RBLK" info --key db1.key --tls always rblk://10.78.0.1/free
err_has "TLS is for rblk+tcp:// only: over RDMA nothing is encrypted"
expect 2 "${there[@]}" "$RBLK" info --tls perhaps "$target/free"
err_has '--tls: "perhaps" is none of auto, always and never'

# A change of the secret without a pause, and its end.
cat other.key >> target.key
reloaded
for key in db1 other; do expect 0 "${there[@]}" "$RBLK" info --name db1 --key $key.key "$target/data"; done
cp db1.key target.key
reloaded
expect 1 "${there[@]}" "$RBLK" info --name db1 --key other.key "$target/data"

# The target is killed under a copy, and the connection is cut off; then it is there again.
truncate -s 0 disk && truncate -s 2M disk
mkfifo fifo
"${there[@]}" "$RBLK" copy --name db1 --key db1.key --chunk 64k - "$target/data" < fifo > copy.out 2> copy.err &
copy=$!
exec 7> fifo
head -c 1M file >&7
written() { cmp -s -n 524288 file disk; }
wait_for "the first half" written
target_stop -KILL
target_start --config rblkd.conf 7>&-
back() { log_has 'has proven its name, by TLS'; }
wait_for "the session is back" back
tail -c 1M file >&7
exec 7>&-
wait $copy || fail "the copy: $(cat copy.err)"
cmp file disk || fail "what was written before and after"

# A target that has no secret gets nothing.
target_stop
target_start --memory free=2M --open
expect 1 "${there[@]}" "$RBLK" copy --name db1 --key db1.key file "$target/free"
err_has "$refused \"db1\", or none"
expect 0 "${there[@]}" "$RBLK" copy file "$target/free"

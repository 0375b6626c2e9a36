#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Secrets as people use them: rblk key makes and shows them, --key proves the initiator's name to the target and the
# target to the initiator, a reload rotates them; neither end does without, and no message, argument or core has one.
# Method: the command against targets with the right secret, with another one and without; files with wrong modes; a
# target that is killed while a copy goes on; the memory of both programs at work, as a core would have it.
. "$(dirname "$0")/cmd.sh"
cd "$scratch"

key() { expect 0 "$RBLK" key "$@"; }
key new db1.key
grep -qE '^1: [0-9a-f]{32}, which initiators use$' out || fail "what it made"
[ "$(stat -c %a db1.key)" = 600 ] || fail "its mode"
grep -qE '^rblk1:[0-9a-f]{64}$' db1.key || fail "its form"
cp out made
key show db1.key
cmp out made || fail "show"
expect 1 "$RBLK" key new db1.key
err_has "db1.key: exists; --add adds a secret to it"
key new other.key
if cmp -s db1.key other.key; then fail "two secrets are the same"; fi
expect 1 "$RBLK" key show none.key
err_has "none.key: No such file or directory"
expect 1 "$RBLK" key new --add none.key
err_has "none.key: No such file or directory"
expect 2 "$RBLK" key make db1.key
err_has 'unknown operation "make"; there are new, show, nvme, install and remove'
expect 2 "$RBLK" key new one.key two.key
# As NVMe's programs have it, and back; the target's is another one.
key nvme db1.key
grep -qxE 'DHHC-1:01:[A-Za-z0-9+/]{48}:' out || fail "NVMe's form"
(umask 077 && cp out nvme.key)
key nvme --target db1.key
grep -qxE 'DHHC-1:01:[A-Za-z0-9+/]{48}:' out || fail "the target's in NVMe's form"
if cmp -s out nvme.key; then fail "the target has the host's secret"; fi
key show nvme.key
cmp out made || fail "NVMe's form is another secret"
key nvme --tls db1.key
grep -qxE 'NVMeTLSkey-1:01:[A-Za-z0-9+/]{48}:' out || fail "NVMe's form for TLS"
(umask 077 && cp out tls.key)
key show tls.key
cmp out made || fail "NVMe's form for TLS is another secret"
expect 2 "$RBLK" key nvme --target --tls db1.key
err_has "--target, --tls: by TLS both ends prove themselves with one secret"
expect 2 "$RBLK" key show --tls db1.key
err_has "--tls: only for rblk key nvme"
expect 2 "$RBLK" key show --target db1.key
err_has "--target: only for rblk key nvme"
expect 1 "$RBLK" key nvme none.key
err_has "none.key: No such file or directory"
expect 2 "$RBLK" key install db1.key 'two words'
err_has 'key "two words": 1 to 63 letters'
expect 1 "$RBLK" attach --key ./db1.key rblk://127.0.0.1/data
err_has 'key "./db1.key": 1 to 63 letters, digits and . _ : + -, or the whole path of a file'
expect 2 "$RBLK" key show --add db1.key
for mode in 644 620 660 602; do
	chmod $mode db1.key
	expect 1 "$RBLK" key show db1.key
	err_has "db1.key: has mode 0$mode: others than its owner could use it; chmod 600"
	expect 1 "$RBLK" list --key db1.key rblk+tcp://127.0.0.1:1
	err_has "key file db1.key: has mode 0$mode: others than its owner could use it; chmod 600"
done
chmod 600 db1.key
head -c 40 db1.key > short.key
chmod 600 short.key
expect 1 "$RBLK" list --key short.key rblk+tcp://127.0.0.1:1
err_has "key file short.key: line 1 is not a whole secret: rblk1: and 64 digits"

# conf SECRET...: the target has these for db1, and a volume for it.
conf() {
	{
		printf '[volume data]\nstore = memory\nsize = 1M\n[volume free]\nstore = memory\nsize = 1M\n'
		printf '[initiator db1]\nwrite = data\n'
		for file in "$@"; do printf 'secret = %s/%s\n' "$scratch" "$file"; done
		[ $# != 0 ] || echo "address = local"
	} > rblkd.conf
}
wrong="authentication as \"db1\" failed: the target has another secret for this initiator's name, or none"
head -c 64K /dev/urandom > file
cp db1.key target.key
conf target.key
target_start --config rblkd.conf
port=${target##*:}
expect 0 "$RBLK" copy --name db1 --key db1.key file "$target/data"
log_has 'initiator db1 has proven its name'
expect 0 "$RBLK" list --name db1 --json --key db1.key "$target"
json_is '[.volumes[].volume] == ["data", "free"]'
expect 0 "$RBLK" ping --name db1 --key db1.key --count 1 "$target"
# Without --key: RBLK_KEY's file, or that of the system if it is set in no way; "none" and an empty one are no key.
unproven="the target has a secret for this initiator's name, which has to be proven with its key"
RBLK_KEY=db1.key expect 0 "$RBLK" info --name db1 "$target/data"
RBLK_KEY=other.key expect 0 "$RBLK" info --name db1 --key db1.key "$target/data"
RBLK_KEY=absent.key expect 1 "$RBLK" info --name db1 "$target/data"
err_has "key file absent.key: No such file or directory"
RBLK_KEY=none expect 1 "$RBLK" info --name db1 "$target/data"
err_has "$unproven"
RBLK_KEY=db1.key expect 1 "$RBLK" info --name db1 --key none "$target/data"
err_has "$unproven"
RBLK_KEY=db1.key expect 0 "$RBLK" doctor --name db1 --json "$target"
json_is '[.. | objects | .proven? | select(. != null)] == [true, true]'
mkdir -p etc/rblk
cp -L /etc/passwd /etc/nsswitch.conf /etc/ld.so.cache etc/ 2> /dev/null || true
cp db1.key etc/rblk/key
# elsewhere STATUS COMMAND...: expect, on a machine with this /etc.
elsewhere() {
	local status=$1
	shift
	expect "$status" unshare -rm sh -c 'mount --bind etc /etc && exec "$@"' sh env -u RBLK_KEY "$@"
}
if unshare -rm mount --bind etc /etc 2> /dev/null; then
	elsewhere 0 "$RBLK" info --name db1 "$target/data"
	elsewhere 1 "$RBLK" info --name db1 --key none "$target/data"
	err_has "$unproven"
	chmod 644 etc/rblk/key
	elsewhere 1 "$RBLK" info --name db1 "$target/data"
	err_has "key file /etc/rblk/key: has mode 0644"
	rm etc/rblk/key
	elsewhere 1 "$RBLK" info --name db1 "$target/data"
	err_has "$unproven"
else
	echo "SKIPPED: /etc/rblk/key: no namespaces for this user"
fi
# Another secret, none, and another name with this one.
expect 1 "$RBLK" info --name db1 --key other.key "$target/data"
err_has "queue 0: $wrong"
log_has "${wrong/failed/denied}"
# Whose key it is, the target does not tell; how to find out, the command does.
hint="is it the key of another name? On the target, rblkctl show has the file of each name's secret, and rblk key show FILE prints its fingerprint"
err_has "$hint; other.key has $("$RBLK" key show other.key | sed -n 's/^1: \([0-9a-f]*\).*/\1/p')"
expect 1 "$RBLK" doctor --name db1 --key other.key "$target"
out_has "$hint; other.key has "
expect 1 "$RBLK" info --name db1 --key other.key --json "$target/data"
json_is '.errors | length == 1'
expect 1 "$RBLK" info --name db1 "$target/data"
grep -qF "$hint" "$scratch/err" && fail "a hint about a key that was not used"
err_has "the target has a secret for this initiator's name, which has to be proven with its key"
expect 1 "$RBLK" info --name db2 --key db1.key "$target/free"
err_has 'authentication as "db2" failed'
expect 1 "$RBLK" info --name db2 "$target/data"
err_has "the target's access rules do not allow it to this initiator"

# Rotation: both are valid, then only the new one; sessions with the old one end.
key new --add target.key
[ "$(grep -c . out)" = 2 ] || fail "two secrets"
reloaded 'reload: 0 volumes added, 0 removed, 0 changed'
tail -n 1 target.key > next.key
chmod 600 next.key
expect 0 "$RBLK" info --name db1 --key db1.key "$target/data"
expect 0 "$RBLK" info --name db1 --key next.key "$target/data"
mkfifo fifo
"$RBLK" copy --name db1 --key db1.key --give-up 1s - "$target/data" < fifo > old.out 2> old.err &
old=$!
exec 7> fifo
head -c 128K file >&7
opened() { kill -USR1 "$target_pid"; grep -q 'db1.*1 connection.*open: data' target.log; }
wait_for "db1 has it open" opened
cp next.key target.key
reloaded 'reload: 0 volumes added, 0 removed, 0 changed'
wait_for "its end" grep -qF 'db1: ended: the access rules do not allow it any more' target.log
head -c 128K file >&7 || true
exec 7>&-
if wait $old; then fail "the old secret is still good"; fi
expect 1 "$RBLK" info --name db1 --key db1.key "$target/data"
err_has "$wrong"
# A file that is wrong changes nothing.
chmod 644 target.key
reloaded "reload failed, nothing changed: rblkd.conf:9: secret: $scratch/target.key: has mode 0644"
expect 0 "$RBLK" info --name db1 --key next.key "$target/data"
chmod 600 target.key

# The proof is made anew on each connection: the target is killed and comes back under a copy.
mkfifo again
truncate -s 1M disk
target_stop
cat > rblkd.conf <<-END
	[volume data]
	path = $scratch/disk
	cache = buffered
	[initiator db1]
	secret = $scratch/target.key
	write = data
END
target_listen=rblk+tcp://127.0.0.1:$port
target_start --config rblkd.conf
"$RBLK" copy --name db1 --key next.key --chunk 64k - "$target/data" < again > new.out 2> new.err &
new=$!
exec 7> again
cat file >&7
# Only what has the volume open goes on: before that, the command ends if nobody listens.
wait_for "the copy has it open" opened
log_has 'initiator db1 has proven its name'
target_stop -KILL
target_start --config rblkd.conf 7>&-
proven() { grep -q 'has proven its name' target.log || ! kill -0 $new; }
wait_for "a proof on the new connection" proven
cat file >&7
exec 7>&-
wait $new || fail "the copy: $(cat new.err)"
cat file file | cmp -n 131072 - disk || fail "data"

# A target that cannot prove itself gets nothing: it has another secret, or none.
target_stop
cp other.key target.key
target_start --config rblkd.conf
expect 1 "$RBLK" copy --name db1 --key next.key file "$target/data"
err_has "$wrong"
target_stop
target_start --memory data=1M
expect 1 "$RBLK" copy --name db1 --key next.key file "$target/data"
err_has "$wrong"
expect 0 "$RBLK" copy --name db1 file "$target/data"

# What a core of either would have, with TLS and without, has neither the secret nor the key that TLS derives from it.
# The secret is found where it has to be, in memory that is not dumped. (Not with sanitizers: see CMakeLists.txt.)
target_stop
cp next.key target.key
truncate -s 16M disk
target_start --config rblkd.conf
mkfifo core
for tls in ${LOOK:+never always}; do
	"$RBLK" copy --name db1 --key next.key --tls $tls --chunk 64k - "$target/data" < core > core.out 2> core.err &
	copy=$!
	exec 7> core
	cat file >&7
	in_use() { kill -USR1 "$target_pid"; [ "$(grep -c 'db1.*1 connection.*open: data' target.log)" -gt 0 ]; }
	wait_for "db1 has it open" in_use
	for pid in $target_pid $copy; do
		expect 0 "$LOOK" "$pid" next.key db1
		grep -qx 'dumped 0, kept out [1-9][0-9]*' out || fail "tls $tls: $(cat out) of $(cat "/proc/$pid/comm")"
		[ -z "$(tr '\0' '\n' < "/proc/$pid/cmdline" | grep -F -- "$(sed 's/rblk1://' next.key)")" ] || fail "an argument"
	done
	exec 7>&-
	wait $copy || fail "the copy: $(cat core.err)"
	target_stop
	target_start --config rblkd.conf
done

# Nothing that was said has a secret in it.
for file in db1.key other.key next.key; do
	secret=$(sed 's/rblk1://' $file)
	if grep -rlF -- "$secret" target.log out err ./*.out ./*.err; then fail "a secret was said"; fi
done

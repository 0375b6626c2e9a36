#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The configuration changes while the daemon serves: by rblkctl, and by the files, all of a change or nothing, and
# whoever asked is told in words; save writes the files back with their comments. Method: changes of each kind, right
# and wrong, while a program has a volume open; the answers, the list of volumes and the files are compared.
. "$(dirname "$0")/cmd.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$scratch"
socket=$scratch/control
ctl() { local verb=$1; shift; "$RBLKCTL" "$verb" --socket "$socket" "$@"; }
# asked STATUS VERB OPERAND...
asked() { local status=$1 verb=$2; shift 2; expect "$status" "$RBLKCTL" "$verb" --socket "$socket" "$@"; }
# serves JSON: names and sizes, in their order.
serves() {
	expect 0 "$RBLK" list --json "$target"
	json_is "[.volumes[] | [.volume, .bytes]] == $1"
}
# A reload that has failed is a problem, until one does not.
unsaved() { "$RBLKCTL" status --socket "$socket" --json > "$scratch/out" || [ $? = 3 ] || fail "rblkctl status"; json_is ".unsaved_changes == $1"; }

truncate -s 1M a.img
truncate -s 2M b.img
mkdir rblkd.conf.d
cat > rblkd.conf <<-END
	# The storage of this house.
	[target]
	log_level = info ; not more

	# Where everything is.
	[volume a]
	path = $scratch/a.img
	  cache = buffered

	# The end.
END
printf '# for tests\n[volume m]\nstore = memory\nsize = 64K\n' > rblkd.conf.d/20-m.conf
echo 'this is not read' > rblkd.conf.d/m.conf.dpkg-old
expect 0 "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --config rblkd.conf
out_has '2 volumes, 1 address'
target_start --config rblkd.conf --lock-wait 0 --control-socket "$socket" --memory fixed=8K
serves '[["a", 1048576], ["fixed", 8192], ["m", 65536]]'
unsaved false

# -- volumes ---------------------------------------------------------------------------------------

# What is added and removed again has left nothing to save.
asked 0 add volume passing store=null size=1M
unsaved true
asked 0 remove volume passing
! grep -q 'not saved' "$scratch/out" || fail "nothing is left to save"
unsaved false
asked 0 add volume b path="$scratch/b.img" cache=buffered
out_has '1 volume added, 0 removed, 0 changed'
out_has 'not saved: rblkctl save'
serves '[["a", 1048576], ["b", 2097152], ["fixed", 8192], ["m", 65536]]'
unsaved true
asked 0 status
out_has 'not saved: rblkctl save'
# It grows, and becomes read-only.
truncate -s 3M b.img
asked 0 set volume b read_only=yes
out_has '0 volumes added, 0 removed, 1 changed'
serves '[["a", 1048576], ["b", 3145728], ["fixed", 8192], ["m", 65536]]'
head -c 4096 /dev/urandom > data
expect 1 "$RBLK" copy data "$target/b"
err_has 'the volume is read only'
asked 0 set volume b read_only= --json
json_is '.changed == 1 and .errors == [] and .needs_restart == [] and .unsaved_changes'
expect 0 "$RBLK" copy data "$target/b"
asked 0 set volume m size=128K
serves '[["a", 1048576], ["b", 3145728], ["fixed", 8192], ["m", 131072]]'

# -- all or nothing --------------------------------------------------------------------------------

nothing_changed() { serves '[["a", 1048576], ["b", 3145728], ["fixed", 8192], ["m", 131072]]'; }
asked 1 set volume a blok_size=4K
err_has 'rblkctl: set: [volume a]: unknown key "blok_size"; did you mean "block_size"?'
asked 1 set volume a limit=10M
err_has 'rblkctl: set: [volume a]: limit: '
asked 1 set volume a fence=10M
err_has 'rblkctl: set: [volume a]: unknown key "fence"; there is "fence_domain"'
asked 1 set volume a cache=never
err_has 'rblkctl: set: [volume a]: cache: '
asked 1 set volume fixd cache=direct
err_has 'rblkctl: set: there is no section [volume fixd] in rblkd.conf; rblkctl add makes one'
asked 1 add initiator 'data base' address=local
err_has 'rblkctl: add: [initiator data base]'
asked 1 add volume c path="$scratch/missing.img"
err_has "rblkctl: add: volume c: $scratch/missing.img: No such file or directory"
asked 1 add volume a path="$scratch/b.img"
err_has 'rblkctl: add: section [volume a] is already there, in rblkd.conf'
asked 1 set volume none cache=direct
err_has 'rblkctl: set: there is no section [volume none] in rblkd.conf; rblkctl add makes one'
asked 1 add volume data2 store=memory bytes=1M
err_has 'rblkctl: add: [volume data2]: unknown key "bytes"'
asked 0 add volume data2 store=null size=1M
asked 1 set volume dta2 cache=direct
err_has 'rblkctl: set: there is no section [volume dta2] in rblkd.conf; did you mean [volume data2]?'
asked 1 remove volume dat2
err_has 'rblkctl: remove: there is no section [volume dat2] in rblkd.conf; did you mean [volume data2]?'
asked 0 remove volume data2
asked 1 remove volume fixed
err_has 'rblkctl: remove: volume fixed is on the command line of rblkd: only its next start changes it'
asked 1 set volume fixed limit_iops=10
err_has 'rblkctl: set: volume fixed is on the command line of rblkd'
log_has 'control: set volume fixed limit_iops=10, as user '
asked 1 set volume a 'path=/x ; y'
err_has 'would begin a comment'
asked 1 set volume a path=$'/x\n[volume evil]\nstore = null\nsize = 1G'
err_has 'a control character cannot be part of a setting'
asked 1 add volume $'x]\n[target' path=/x
err_has 'a control character'
asked 2 set volume a cache
err_has '"cache" is not KEY=VALUE'
asked 2 add target open=yes
err_has 'usage: rblkctl add'
asked 2 remove volume a b
asked 2 set volume a
log_has 'change failed, nothing changed: [volume a]: unknown key'
nothing_changed

# -- what is in use --------------------------------------------------------------------------------

mkfifo fifo
"$RBLK" copy --name user - "$target/m" < fifo > copy.log 2>&1 &
copy=$!
exec 7> fifo
head -c 4096 data >&7
in_use() { ctl volumes --json | jq -e '.volumes[] | select(.volume == "m").opens == 1' > json; }
wait_for "the user" in_use
asked 1 remove volume m
err_has '] user has it open: it is removed only with --force'
asked 1 set volume m size=256K
err_has '] user has it open: it loses its data only with --force'
nothing_changed
asked 0 remove volume m --force
out_has '0 volumes added, 1 removed, 0 changed'
exec 7>&-
wait $copy && fail "it has nothing to write to"
serves '[["a", 1048576], ["b", 3145728], ["fixed", 8192]]'

# -- initiators, and settings of the target --------------------------------------------------------

asked 1 add initiator db1 write=b
err_has 'initiator db1: has neither secret nor address'
asked 0 add initiator db1 address='192.0.2.10, 10.9.0.0/16' write=b
expect 1 "$RBLK" copy data "$target/b"
asked 0 set initiator db1 address=local address=192.0.2.11 write=b write=bb
out_has 'in force'
! grep -q '0 changed' "$scratch/out" || fail "a change that says that nothing has changed"
err_has 'rblkctl: warning: initiator db1: there is no volume bb'
asked 0 set initiator db1 write=b --json
json_is '.warning == null and .unsaved_changes'
expect 0 "$RBLK" copy --name db1 data "$target/b"
asked 0 set target log_level=debug credits=64
out_has 'these changes need a restart: credits'
expect 0 "$RBLKCTL" log-level --socket "$socket"
out_has debug

# A secret is changed under an initiator that uses it: who proves the new one may, and who has the old one, or none, may not.
for name in one two; do expect 0 "$RBLK" key new $name.key; done
asked 1 add initiator db2 secret="$scratch/none.key" write=b
err_has "secret: $scratch/none.key: No such file or directory"
asked 0 add initiator db2 secret="$scratch/one.key" write=b
expect 0 "$RBLK" copy --name db2 --key one.key data "$target/b"
expect 1 "$RBLK" copy --name db2 --key two.key data "$target/b"
err_has 'authentication as "db2" failed'
mkfifo proven
"$RBLK" copy --name db2 --key one.key --give-up 1s - "$target/b" < proven > proven.log 2>&1 &
copy=$!
exec 7> proven
head -c 4096 data >&7
proves() { ctl sessions --json | jq -e 'any(.sessions[]; .initiator == "db2" and .volumes == ["b"])' > json; }
wait_for "db2's session" proves
chmod 644 two.key
asked 1 set initiator db2 secret="$scratch/two.key"
err_has "secret: $scratch/two.key: has mode 0644"
proves || fail "a change that fails has ended the session"
chmod 600 two.key
asked 0 set initiator db2 secret="$scratch/two.key"
out_has 'in force'
log_has 'db2: ended: the access rules do not allow it any more'
exec 7>&-
wait $copy && fail "the old secret is still good"
expect 1 "$RBLK" copy --name db2 --key one.key data "$target/b"
err_has 'authentication as "db2" failed'
expect 1 "$RBLK" copy --name db2 data "$target/b"
expect 0 "$RBLK" copy --name db2 --key two.key data "$target/b"
# Both, while the initiators change to the new one. What is asked for has the path, and nothing has what is in the file.
asked 0 set initiator db2 secret="$scratch/two.key" secret="$scratch/one.key"
expect 0 "$RBLK" copy --name db2 --key one.key data "$target/b"
expect 0 "$RBLK" copy --name db2 --key two.key data "$target/b"
if grep -F -- "$(sed 's/rblk1://' two.key)" target.log out err ./*.log; then fail "a secret was said"; fi
asked 0 remove initiator db2

# -- save ------------------------------------------------------------------------------------------

chmod 640 rblkd.conf
asked 0 save
out_has saved
unsaved false
cat > wanted.conf <<-END
	# The storage of this house.
	[target]
	log_level = debug ; not more
	credits = 64

	# Where everything is.
	[volume a]
	path = $scratch/a.img
	  cache = buffered

	# The end.

	[volume b]
	path = $scratch/b.img
	cache = buffered

	[initiator db1]
	address = local
	address = 192.0.2.11
	write = b
END
diff wanted.conf rblkd.conf >&2 || fail "the file (>) is not as wanted (<)"
[ "$(stat -c %a rblkd.conf)" = 640 ] || fail "the mode"
[ "$(cat rblkd.conf.d/20-m.conf)" = '# for tests' ] || fail "the second file: $(cat rblkd.conf.d/20-m.conf)"
[ "$(ls -A . rblkd.conf.d | grep -c 'conf\.new$')" = 0 ] || fail "a temporary file is left"
asked 0 reload
out_has 'in force'
# Somebody else edits the file meanwhile.
asked 0 set target log_level=info
sed -i 's/The end/The very end/' rblkd.conf
asked 1 save
err_has 'save: rblkd.conf: was changed since rblkd has read it: save --force overwrites it'
grep -q 'very end' rblkd.conf || fail "overwritten"
asked 1 reload
err_has 'reload: changes that were not saved would be lost: save them, or reload with --force'
asked 0 reload --force
unsaved false
# It cannot be written: nothing is lost, and who asked is told.
asked 0 set volume a cache=auto
cp rblkd.conf before.conf
rm rblkd.conf
asked 1 save
err_has 'save: rblkd.conf: No such file or directory'
unsaved true
cp before.conf rblkd.conf
asked 0 save --force
grep -q '^  cache = auto$' rblkd.conf || fail "not saved"

# -- reload ----------------------------------------------------------------------------------------

printf '[volume late]\nstore = memory\nsize = 8K\n' > rblkd.conf.d/10-late.conf
asked 0 reload --json
json_is '.added == 1 and .removed == 0 and .errors == []'
echo 'zebra = 1' >> rblkd.conf.d/10-late.conf
asked 1 reload
err_has 'reload: rblkd.conf.d/10-late.conf:4: unknown key "zebra"'
# Volume b is shown to db1 alone.
serves '[["a", 1048576], ["fixed", 8192], ["late", 8192]]'
expect 2 "$RBLKD" --check --config rblkd.conf
err_has 'rblkd.conf.d/10-late.conf:4: unknown key "zebra"'
rm rblkd.conf.d/10-late.conf
mkfifo rblkd.conf.d/10-late.conf
asked 1 reload
err_has 'rblkd.conf.d/10-late.conf: is not a regular file'
rm rblkd.conf.d/10-late.conf
# What is known only when a volume has been closed undoes all of the change, too.
truncate -s +512 a.img
cp rblkd.conf before.conf
sed -i 's/^  cache = auto$/  block_size = 4K/' rblkd.conf
printf '[volume early]\nstore = memory\nsize = 8K\n' > rblkd.conf.d/10-early.conf
asked 1 reload
err_has "reload: volume a: $scratch/a.img: size 1049088 is not a multiple of the block size, 4096; serving it as before"
serves '[["a", 1049088], ["fixed", 8192], ["late", 8192]]'
cp before.conf rblkd.conf
rm rblkd.conf.d/10-early.conf
asked 1 set volume a block_size=4K
err_has 'is not a multiple of the block size, 4096; serving it as before'
unsaved false
# As the unit does it.
unit=$(sed -n 's/^ExecReload=//p' "$here/../../target/rblkd.service.in" | tail -n 1)
[ "$unit" = '@CMAKE_INSTALL_FULL_BINDIR@/rblkctl reload' ] || fail "ExecReload is $unit"
asked 0 reload
out_has '0 volumes added, 1 removed, 0 changed'
# Another process has the new volume's file: a reload waits for that, the daemon answers others meanwhile, and
# another reload ends the wait.
truncate -s 1M c.img
exec 9< c.img
flock 9
printf '[volume c]\npath = %s/c.img\nlock_wait = 30min\n' "$scratch" > rblkd.conf.d/10-c.conf
ctl reload > waiting.log 2>&1 &
waiting=$!
waits() { grep -q 'c.img: waiting up to 30min' target.log; }
wait_for "the lock" waits
asked 0 sessions
asked 1 kick nobody
rm rblkd.conf.d/10-c.conf
asked 0 reload
wait $waiting && fail "the first reload succeeded"
grep -q 'rblkctl: reload: volume c: .*c.img: in use by ' waiting.log || fail "$(cat waiting.log)"
exec 9<&-
target_stop
grep -q 'stopped$' target.log || fail "no orderly end"

# -- without a file --------------------------------------------------------------------------------

target_start --control-socket "$socket" --memory fixed=8K
asked 0 add volume n store=null size=1G
serves '[["fixed", 8192], ["n", 1073741824]]'
asked 1 save
err_has 'save: rblkd was started without --config: there is no file to save to'
asked 1 reload
err_has 'would be lost'
asked 0 remove volume n
serves '[["fixed", 8192]]'
target_stop

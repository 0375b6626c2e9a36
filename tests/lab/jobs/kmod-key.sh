# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a disk that is attached with a key proves its name on each connection and takes none to a target that does not
# prove itself; its secret can be changed under I/O; whoever fails is told why; nobody is told a secret. Method: targets
# with the right secret, with another one and without, against disks with the same; connections are cut, the daemon is
# killed, the key is replaced and removed, and expires; in the end all that was said is searched for the secrets.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
cd /tmp || lab_fail "no /tmp"

# run STATUS ARGUMENT...: rblk; its output and its errors are kept in said/.
mkdir said
run() {
	local want=$1 got=0
	shift
	"$RBLK" "$@" > out 2> err || got=$?
	cat out err >> said/rblk
	[ "$got" = "$want" ] || lab_fail "rblk $*: status $got, not $want: $(cat out err)"
}
says() { grep -qF -- "$1" err || lab_fail "the errors lack \"$1\": $(cat err)"; }
attribute() { cat "/sys/block/rblk0/rblk/$1"; }
state_is() { [ "$(attribute state)" = "$1" ]; }
wait_for() { lab_wait 60 "$@" || { grep -H . /sys/block/rblk*/rblk/{state,reason,connections}; lab_fail "never: $*"; }; }
all_up() { state_is live && ! grep -qv ' live ' /sys/block/rblk0/rblk/connections; }
reason_has() { attribute reason | grep -qF -- "$1"; }
losses_are() { [ "$(attribute losses)" -gt "$1" ]; }
written() { awk '{ print $5 }' /sys/block/rblk0/stat; }
writes() {
	local before
	before=$(written)
	goes_on() { [ "$(written)" -gt $((before + 50)) ]; }
	wait_for goes_on
}
proofs() { grep -c 'initiator db1 has proven its name' "$LAB_RBLKD_LOG"; }
flows() { dd if=/dev/urandom of=/dev/rblk0 bs=64k count=16 oflag=direct status=none || lab_broken "$1: writing failed"; }
conf() {
	printf '[volume data]\npath = /dev/vda\n[initiator db1]\nwrite = data\n'
	for file in "$@"; do printf 'secret = /tmp/%s\n' "$file"; done
}
reload() {
	local before
	before=$(grep -c 'reload: ' "$LAB_RBLKD_LOG")
	kill -HUP "$LAB_RBLKD"
	reloaded() { [ "$(grep -c 'reload: ' "$LAB_RBLKD_LOG")" -gt "$before" ]; }
	wait_for reloaded
}
wrong="the target has another secret for this initiator's name, or none"

lab_link_up
lab_kmod_load
for name in first second other; do run 0 key new $name.key; done
conf first.key > rblkd.conf
lab_rblkd_start --config rblkd.conf
attach() { run "$@" --name db1 --queues 2 --reconnect 1s "$LAB_URI/data"; }

lab_say "without the key, or with another one"
attach 1 attach
says "the target has a secret for this initiator's name, which has to be proven with its key"
attach 1 attach --key mine
says "key mine: the kernel does not have it"
run 0 key install other.key mine
attach 1 attach --key mine
says "$LAB_ADDR:4430: queue 0: authentication as \"db1\" failed: $wrong"
attach 1 attach --key /tmp/none.key
says "key file /tmp/none.key: No such file or directory"
[ ! -e /sys/block/rblk0 ] || lab_fail "there is a disk"

lab_say "with it"
run 0 key install first.key mine
[ "$(cat out)" = mine ] || lab_fail "install: $(cat out)"
attach 0 attach --key mine
grep -q ' logon .*rblk:mine: 32' /proc/keys || lab_fail "the key is not one of type logon: $(cat /proc/keys)"
[ "$(attribute key)" = mine ] || lab_fail "sysfs: key $(attribute key)"
wait_for all_up
[ "$(proofs)" = 1 ] || lab_fail "no proof was seen"
flows "at first"

lab_say "each connection is proven"
lab_kill all rblk0
wait_for losses_are 0
wait_for all_up
[ "$(proofs)" -ge 2 ] || lab_fail "it came back without a proof"
flows "after a cut"
kill -9 "$LAB_RBLKD"
wait "$LAB_RBLKD" 2> /dev/null
wait_for state_is recovering
lab_let_go /dev/vda
lab_rblkd_start --config rblkd.conf
wait_for all_up
[ "$(proofs)" -ge 1 ] || lab_fail "it came back to a new target without a proof"
flows "after the target's end"

lab_say "another secret, under I/O"
fio --name=load --eta=never --filename=/dev/rblk0 --direct=1 --ioengine=io_uring --rw=randwrite --bs=4k --iodepth=4 --size=8M --verify=crc32c \
	--verify_backlog=32 --verify_fatal=1 --time_based --runtime=600 --output=load.txt &
load=$!
writes
conf first.key second.key > rblkd.conf
reload
run 0 key install second.key mine
writes
before=$(attribute losses)
conf second.key > rblkd.conf
reload
# The target ends what was proven by the old one.
wait_for losses_are "$before"
wait_for all_up
writes
kill $load
LAB_DEV=/dev/rblk0
lab_watch $load
grep -q 'err= 0' load.txt && ! grep -qE 'verify:|error=' load.txt || { cat load.txt; lab_broken "I/O has seen the change"; }

lab_say "a disk whose key is wrong does not come back, and says why; with the right one it does"
run 0 key install other.key mine
lab_kill 0 rblk0
wait_for reason_has "authentication as \"db1\" failed: $wrong"
run 0 list --attached
grep -qF "$wrong" out || lab_fail "list: $(cat out)"
run 0 key remove mine
run 1 key remove mine
says "key mine: the kernel does not have it"
wait_for reason_has 'key mine: the kernel does not have it; "rblk key install" gives it'
run 0 key install second.key mine
wait_for all_up
flows "with the right key again"

lab_say "a key that expires"
# As "keyctl timeout" of who has the module's keyring among his own: what must be proven then is not.
expire() {
	local keyring key
	keyring=$(awk '$8 == "keyring" && $9 == ".rblk:" { print $1 }' /proc/keys)
	key=$(awk '$8 == "logon" && $9 == "rblk:mine:" { print $1 }' /proc/keys)
	# KEYCTL_LINK to the process's keyring (-2), and KEYCTL_SET_TIMEOUT, by keyctl(2), which is 250 here.
	perl -e 'my ($keyring, $key) = map { hex } @ARGV;
		syscall(250, 8, $keyring, -2) == 0 && syscall(250, 15, $key, 1) == 0 or die "keyctl: $!\n"' "$keyring" "$key" ||
		lab_fail "the key's time is not set: $(cat /proc/keys)"
}
expire
expired() { grep 'rblk:mine:' /proc/keys | grep -q ' expd '; }
wait_for expired
flows "with a key that has expired since"
lab_kill 0 rblk0
wait_for reason_has 'key mine: it has expired'
run 0 list --attached
grep -qF 'key mine: it has expired' out || lab_fail "list: $(cat out)"
attach 1 attach --own-session --key mine
says "key mine: it has expired"
run 0 key install second.key mine
wait_for all_up
flows "with a new key"
run 0 detach rblk0

lab_say "a disk that gives up says it in the kernel's log"
attach 0 attach --key mine --give-up 2s
run 0 key install first.key mine
lab_kill all rblk0
wait_for state_is failed
dmesg | grep -F 'gave up' | grep -qF "authentication as \"db1\" failed: $wrong" || lab_fail "the kernel's log: $(dmesg | tail -n 5)"
run 0 detach rblk0

lab_say "a file in place of a name; a target that does not prove itself gets nothing"
attach 0 attach --key /tmp/second.key
[ "$(attribute key)" = /tmp/second.key ] || lab_fail "sysfs: key $(attribute key)"
flows "with a file"
run 0 detach rblk0
lab_rblkd_stop
lab_let_go /dev/vda
lab_rblkd_start data=/dev/vda
attach 1 attach --key /tmp/second.key
says "authentication as \"db1\" failed: $wrong"
attach 0 attach
run 0 detach rblk0
lab_rblkd_stop

lab_say "targets that claim to know it get nothing but AUTHENTICATE"
# claims BEHAVIOUR WORDS
claims() {
	lab_target_start "$1"
	attach 1 attach --key mine --connect-timeout 3s
	says "$2"
	lab_target_stop
	grep -qE '^AUTHENTICATE [1-9]' /tmp/target.log || lab_fail "$1: nothing was asked: $(cat /tmp/target.log)"
	grep -E '^[A-Z_]+ [0-9]' /tmp/target.log | grep -v AUTHENTICATE && lab_broken "$1: it got more than AUTHENTICATE"
}
claims prove-unknown 'authentication as "db1" failed: the target cannot prove that it has the secret'
claims prove-nothing "authentication as \"db1\" failed: the target's answer is malformed"
claims prove-wrong 'authentication as "db1" failed: the target did not prove that it has the secret'
# Which of two times of three seconds is over first is not said.
claims prove-silent ''
grep -qE 'no answer|no session in 3 s' err || lab_fail "prove-silent: $(cat err)"

lab_say "nobody was told a secret"
dmesg > said/dmesg
cat /proc/keys > said/keys
cp "$LAB_OUT"/rblkd.*.log said/
grep -r . /sys/module/rblk > said/sysfs 2> /dev/null
for file in first.key second.key other.key; do
	secret=$(sed 's/rblk1://' $file)
	[ ${#secret} = 64 ] || lab_fail "$file: no secret"
	grep -rlF -- "$secret" said && lab_broken "a secret was said"
	# Nor its beginning, in any case.
	grep -rliF -- "${secret:0:16}" said && lab_broken "a part of a secret was said"
done
lab_kmod_unload
lab_wait 20 eval '! grep -q rblk: /proc/keys' || lab_fail "the keys have outlived the module: $(cat /proc/keys)"
lab_say "done"

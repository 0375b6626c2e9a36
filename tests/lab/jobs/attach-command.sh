# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: rblk attach, detach and list --attached do what their manual says. Method: a target here;
# volumes attached by URI, by a host with an unreachable address, by name and all at once. The
# command's output is compared with sysfs and the disks; wrong requests must be refused with a
# message.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

# run STATUS ARGUMENT...: rblk; its output is in /tmp/out, its errors in /tmp/err.
run() {
	local want=$1 got=0
	shift
	"$RBLK" "$@" > /tmp/out 2> /tmp/err || got=$?
	[ "$got" = "$want" ] || lab_fail "rblk $*: status $got, not $want: $(cat /tmp/out /tmp/err)"
}
says() { grep -qF -- "$1" /tmp/err || lab_fail "the errors lack \"$1\": $(cat /tmp/err)"; }
json() { jq -e "$1" /tmp/out > /dev/null || lab_fail "not so: $1: $(cat /tmp/out)"; }
printed() { [ "$(cat /tmp/out)" = "$1" ] || lab_fail "printed $(cat /tmp/out), not $1"; }

lab_link_up
ip link set lab0 multicast on # a dummy device says that it cannot
lab_rblkd_start --discovery lab0 --name lab-target --memory ram=32M disk=/dev/vda

lab_say "without the module"
run 0 list --attached --json
json '.attached == []'
run 1 attach --module "$LAB_URI/disk" # newer kernels have ublk
says '/dev/rblk-control: does not exist, and the kernel module cannot be loaded'
run 0 detach --all
run 1 detach rblk0
says 'rblk0: is not attached'

lab_say "by URI; the command loads the module"
mkdir -p /etc/modprobe.d
echo "install rblk /sbin/modprobe -a rdma_cm ib_core libcrc32c; /sbin/insmod $LAB_KO" > /etc/modprobe.d/rblk-lab.conf
run 0 attach --queues 2 --credits 32 --give-up 7s --connect-timeout 3s --name here "$LAB_URI/disk"
printed /dev/rblk0
[ -b /dev/rblk0 ] || lab_fail "/dev/rblk0: not there when the command ends"
grep -q 'initiator here' "$LAB_RBLKD_LOG" || lab_fail "the initiator's name did not arrive"
run 0 list --attached --json
json ".attached | length == 1 and (.[0] | .device == \"/dev/rblk0\" and .name == null and
	.uri == \"$LAB_URI/disk\" and .peer == \"$LAB_ADDR:4430\" and .volume == \"disk\" and
	.state == \"live\" and .error == null and .queues == 2 and .credits == 32 and
	.give_up_ns == 7000000000 and .connect_timeout_ns == 3000000000 and .command_timeout_ns == 30000000000 and
	.bytes == $(blockdev --getsize64 /dev/vda) and (.read_only | not) and
	.wwid == \"$(cat /sys/block/rblk0/rblk/wwid)\")"
before=$(jq '.attached[0].counters.commands' /tmp/out)
dd if=/dev/rblk0 of=/dev/null bs=64k count=64 iflag=direct status=none || lab_fail "/dev/rblk0: cannot be read"
run 0 list --attached --json
json ".attached[0].counters.commands >= $before + 64"
run 0 list --attached
grep -qE '^rblk0 +- +'"$LAB_ADDR"':4430 +disk +.* +2 +[0-9]+ +no +no +[0-9]+ (s|min) +live$' /tmp/out || lab_fail "list: $(cat /tmp/out)"

lab_say "top"
"$RBLK" top --json --interval 200ms --filter rblk0 > /tmp/top 2> /tmp/err &
top=$!
begun() { [ -s /tmp/top ]; }
lab_wait 60 begun || lab_fail "top: $(cat /tmp/err)"
dd if=/dev/rblk0 of=/dev/null bs=64k count=64 iflag=direct status=none || lab_fail "/dev/rblk0: cannot be read"
seen() {
	jq -se '[.[].uses[]] | (map(.reads) | add) >= 64 and (map(.read_bytes) | add) >= 4194304 and
		(map(.writes) | add) == 0 and any(.average_ns > 0) and all(.device == "/dev/rblk0" and .volume == "disk" and
		.state == "live" and .pid == null and .failures == null and .p99_ns == null)' /tmp/top > /dev/null 2>&1
}
lab_wait 60 seen || lab_fail "top: $(cat /tmp/top)"
kill "$top"
wait "$top" || true
"$RBLK" top --count 1 --interval 100ms > /tmp/out || lab_fail "top as a table"
grep -q '^rblk0 .* live ' /tmp/out || lab_fail "top: $(cat /tmp/out)"

lab_say "requests that must be refused"
run 1 attach "$LAB_URI/none"
says "$LAB_ADDR:4430/none: no such volume"
run 1 attach "rblk://no-such-host.invalid/disk"
says 'no-such-host.invalid: '
run 2 attach --module "rblk+tcp://$LAB_ADDR/disk"
says 'the kernel module supports only RDMA'
run 2 attach "$LAB_URI"
says 'the volume is missing'
run 1 attach "$LAB_URI/ram"
says "$LAB_ADDR:4430/ram: cannot be flushed, and is lost with the target"
run 2 attach --queues 17 "$LAB_URI/disk"
says '--queues: "17" is not a number from 1 to 16'
run 1 attach --name 'two words' "$LAB_URI/disk"
says 'name "two words"'
run 1 detach /dev/vda
says '/dev/vda: is not attached'

lab_say "busy"
exec 8< /dev/rblk0
run 1 detach --wait 100ms rblk0
says 'rblk0: in use: open 1 times'
"$RBLK" detach --wait 1min rblk0 8<&- &
waiter=$!
exec 8<&-
wait $waiter || lab_fail "detach does not wait for the last close"
[ ! -e /sys/block/rblk0 ] || lab_fail "rblk0: still there"
run 0 attach "$LAB_URI/disk"
mkfs.ext4 -q /dev/rblk0 && mkdir -p /tmp/mnt && mount /dev/rblk0 /tmp/mnt || lab_fail "/dev/rblk0: cannot be mounted"
run 1 detach /dev/rblk0
says 'rblk: rblk0: mounted at /tmp/mnt'
umount /tmp/mnt
run 0 detach "rblk://$LAB_ADDR:4430/disk"

lab_say "while detach waits, another volume gets the index"
run 0 attach "$LAB_URI/disk"
exec 8< /dev/rblk0
"$RBLK" detach --wait 1h --force rblk0 8<&- > /tmp/late 2>&1 &
waiter=$!
# Stop it while it sleeps, not between two steps.
stopped() { grep -q '^State:.T' "/proc/$waiter/status"; }
stopped_asleep() {
	kill -STOP $waiter
	lab_wait 10 stopped || lab_fail "detach does not stop: $(cat /tmp/late)"
	[ "$(cut -d' ' -f1 "/proc/$waiter/syscall")" = 230 ] || { kill -CONT $waiter; return 1; } # clock_nanosleep
}
lab_wait 30 stopped_asleep || lab_fail "detach does not wait: $(cat /tmp/late)"
answer=$(lab_control "detach device=rblk0 force") || lab_fail "detach by another: $answer"
exec 8<&-
run 0 attach --volatile "$LAB_URI/ram"
printed /dev/rblk0
kill -CONT $waiter
wait $waiter || lab_fail "detach: the device has gone, but: $(cat /tmp/late)"
run 0 list --attached --json
json ".attached | length == 1 and .[0].uri == \"$LAB_URI/ram\" and .[0].state == \"live\""
run 0 detach rblk0

lab_say "a target by its name, found on the network"
run 0 attach --discover lab-target disk
printed /dev/rblk0
run 0 list --attached --json
json '.attached | length == 1 and .[0].uri == "discover://lab-target/disk" and .[0].state == "live" and .[0].volume == "disk"'
run 0 detach discover://lab-target/disk
run 1 attach --discover nobody disk
says 'nobody: no target of this name answered'
mkdir -p /etc/rblk
echo 'found discover://lab-target/disk queues=2' > /tmp/foundtab
run 0 attach --tab /tmp/foundtab --all
run 0 list --attached --json
json '.attached[0] | .name == "found" and .queues == 2'
run 0 detach found

lab_say "force, with a working target: no written data is lost"
forced() { # forced HOLDER: the device is removed; it can be attached again when nothing holds it
	run 0 detach --wait 100ms --force rblk0
	[ ! -s /tmp/err ] || lab_fail "$1: $(cat /tmp/err)"
	lab_wait 10 [ ! -e /sys/block/rblk0 ] || lab_fail "$1: rblk0: still there"
}
head -c 8M /dev/urandom > /tmp/data
run 0 attach "$LAB_URI/disk"
mount /dev/rblk0 /tmp/mnt && cp /tmp/data /tmp/mnt/whole || lab_fail "/dev/rblk0: cannot be mounted"
forced "a file system"
umount -l /tmp/mnt
run 0 attach "$LAB_URI/disk"
printed /dev/rblk0
mount /dev/rblk0 /tmp/mnt && cmp /tmp/data /tmp/mnt/whole || lab_fail "a file system: the file is not whole"
umount /tmp/mnt
modprobe dm_mod
dmsetup create over --table "0 $(blockdev --getsz /dev/rblk0) linear /dev/rblk0 0" || lab_fail "dmsetup"
dmsetup mknodes
mount /dev/mapper/over /tmp/mnt && cp /tmp/data /tmp/mnt/mapped || lab_fail "/dev/mapper/over: cannot be mounted"
forced "a mapped one"
umount -l /tmp/mnt
dmsetup remove --retry over
run 0 attach "$LAB_URI/disk"
printed /dev/rblk0
mount /dev/rblk0 /tmp/mnt && cmp /tmp/data /tmp/mnt/mapped || lab_fail "a mapped one: the file is not whole"
umount /tmp/mnt
exec 8> /dev/rblk0
head -c 6M /tmp/data >&8
forced "an open one"
exec 8>&-
run 0 attach "$LAB_URI/disk"
printed /dev/rblk0
cmp -n $((6 << 20)) /tmp/data /dev/rblk0 || lab_broken "an open one: lost what was written"
mkfs.ext4 -q /dev/rblk0 || lab_fail "mkfs.ext4"
run 0 detach rblk0

lab_say "force, with a target that has silently stopped"
run 0 attach --command-timeout 10min "$LAB_URI/disk"
mount /dev/rblk0 /tmp/mnt && cp /tmp/data /tmp/mnt/lost || lab_fail "/dev/rblk0: cannot be mounted"
kill -STOP "$LAB_RBLKD"
run 0 detach --force rblk0
says 'rblk0: data written to it may be lost: ' # after the time limit, or because the connection is lost
umount -l /tmp/mnt
kill -CONT "$LAB_RBLKD"
lab_wait 30 [ ! -e /sys/block/rblk0 ] || lab_fail "rblk0: still there"

lab_say "a host with an unreachable address"
printf 'fd09::77 storage\n%s storage\n' "$LAB_ADDR" >> /etc/hosts
run 0 attach --connect-timeout 1s --json rblk://storage/disk
json '.attached[0] | .device == "/dev/rblk0" and .uri == "rblk://storage/disk" and .volume == "disk"'
run 0 detach rblk://storage/disk
run 0 attach --read-only "rblk://[$LAB_ADDR6]/ram"
[ "$(blockdev --getro /dev/rblk0)" = 1 ] || lab_fail "--read-only: can be written"
run 0 detach /dev/rblk0

lab_say "rblktab"
mkdir -p /etc/rblk
cat > /etc/rblk/rblktab <<-END
	# the volumes of this lab
	data    $LAB_URI/disk  queues=1,credits=16,give-up=500ms
	broken  $LAB_URI/disk  queues=zero
	later   $LAB_URI/ram   noauto,read-only,own-session
	memory  $LAB_URI/ram   volatile  # nothing else
END
run 1 attach --all
says '/etc/rblk/rblktab:3: queues: "zero" is not a number'
printed $'/dev/rblk0\n/dev/rblk1'
run 0 list --attached --json
json '[.attached[] | [.name, .volume, .queues]] | .[0] == ["data", "disk", 1] and .[1][:2] == ["memory", "ram"]'
run 1 attach --all
printed ''
run 1 attach data
says 'data: is attached already, as /dev/rblk0'
answer=$(lab_control "attach address=$LAB_ADDR volume=ram volatile name=data") && lab_fail "two disks are called data"
[[ $answer = *"another disk has this name"* ]] || lab_fail "a name that is taken: $answer"
run 0 attach later
run 0 list --attached --json
json '[.attached[] | {(.name): .session}] | add | .memory != .later'
run 0 detach later
run 0 attach --read-only "$LAB_URI/ram"
run 0 list --attached --json
json '.attached | length == 3 and .[1].session == .[2].session' # without the option
run 0 detach rblk2
run 0 attach later
run 1 attach nobody
says 'nobody: neither a URI (rblk://HOST/VOLUME) nor a name in /etc/rblk/rblktab'
run 2 attach --queues 4 data
run 1 detach "$LAB_URI/ram"
says 'is attached as /dev/rblk1 and as /dev/rblk2'
run 0 detach later
run 0 detach data
run 0 detach --all

lab_say "the target is killed under a mounted file system, then detach as at shutdown"
sed -i 's/give-up=500ms/give-up=1h/' /etc/rblk/rblktab
run 0 attach data
mount /dev/rblk0 /tmp/mnt || lab_fail "/dev/rblk0: cannot be mounted"
head -c 4M /dev/urandom > /tmp/mnt/file
kill -9 "$LAB_RBLKD"
wait "$LAB_RBLKD" 2> /dev/null
state_is() { [ "$(cat /sys/block/rblk0/rblk/state)" = "$1" ]; }
lab_wait 30 state_is recovering || lab_fail "state: $(cat /sys/block/rblk0/rblk/state)"
run 0 list --attached
grep -qE '^rblk0: .' /tmp/out || lab_fail "list does not say why it was lost: $(cat /tmp/out)"
umount /tmp/mnt &
unmounting=$!
run 0 detach --wait 500ms --force data
ended() { [ ! -e "/proc/$unmounting" ] || grep -q '^State:.Z' "/proc/$unmounting/status"; }
lab_wait 60 ended || lab_fail "umount hangs: $(cat "/proc/$unmounting/stack")"
wait "$unmounting" || umount -l /tmp/mnt || lab_fail "umount: status $?"
lab_wait 20 [ ! -e /sys/block/rblk0 ] || lab_fail "rblk0: still there"
run 0 list --attached --json
json '.attached == []'
lab_kmod_unload
lab_say done

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# On a machine without the kernel module, attach, detach and list --attached say what is missing.
# Errors in the command line or in rblktab are reported before that.
. "$(dirname "$0")/cmd.sh"

expect 2 "$RBLK" attach
err_has 'usage: rblk attach'
expect 2 "$RBLK" attach --all data
err_has 'usage: rblk attach'
expect 2 "$RBLK" attach --queues 4 data
err_has 'attach: --queues is not taken with --all or a name: rblktab(5) has its options'
expect 2 "$RBLK" attach --give-up soon rblk://localhost/disk
err_has '--give-up: "soon" is not a time from 0 to'
expect 2 "$RBLK" attach --connect-timeout 1ms rblk://localhost/disk
err_has '--connect-timeout: "1ms" is not a time from 100ms to 10min'
expect 2 "$RBLK" attach --ublk --module rblk://localhost/disk
err_has '--ublk and --module: a disk is attached by one of them'
expect 2 "$RBLK" attach --all --module
err_has 'attach: --module is not taken with --all or a name'
expect 2 "$RBLK" attach --take-over --all --tab /dev/null
err_has 'attach: --tab is not taken with --take-over: the disk keeps the options that it was attached with'
expect 2 "$RBLK" attach --module rblk+tcp://localhost/disk
err_has 'rblk+tcp://localhost/disk: the kernel module supports only RDMA'
expect 2 "$RBLK" attach rblk://localhost
err_has 'rblk://localhost: the volume is missing'
expect 2 "$RBLK" attach --discover st1
err_has 'usage: rblk attach [OPTION]... --discover NAME VOLUME'
expect 2 "$RBLK" attach --discover st1 rblk://localhost/disk
err_has 'usage: rblk attach [OPTION]... --discover NAME VOLUME'
expect 2 "$RBLK" attach --discover st/1 disk
err_has 'discover://st/1/disk: names of target and volume'
expect 2 "$RBLK" attach discover://st1
err_has 'discover://st1: the volume is missing'
expect 2 "$RBLK" detach
err_has 'usage: rblk detach'
expect 2 "$RBLK" list --attached rblk://localhost
err_has 'usage: rblk list'

cat > "$scratch/tab" <<-END
	# no volume here is right
	data rblk://localhost
	x rblk://localhost/disk queues=99
END
expect 1 "$RBLK" attach --all --tab "$scratch/tab"
[ "$(cat "$scratch/err")" = "rblk: $scratch/tab:2: rblk://localhost: the volume is missing, as in rblk://localhost/NAME
rblk: $scratch/tab:3: queues: \"99\" is not a number from 1 to 16" ] || fail "lines"
expect 1 "$RBLK" attach --tab "$scratch/tab" x
err_has "$scratch/tab:3: queues"
expect 1 "$RBLK" attach --tab "$scratch/tab" none
err_has "none: neither a URI (rblk://HOST/VOLUME) nor a name in $scratch/tab"
expect 1 "$RBLK" attach --tab "$scratch/none" --all
err_has "$scratch/none: No such file or directory"

if [ -e /dev/rblk-control ] || modprobe -qn rblk; then
	echo "SKIPPED: messages without the module: this machine has it"
	exit 0
fi
expect 0 "$RBLK" list --attached --json
json_is '.attached == []'
expect 0 "$RBLK" list --attached
[ "$(cat "$scratch/out")" = 'no attached disks' ] || fail "a list without entries"
expect 1 "$RBLK" detach rblk0
err_has 'rblk0: is not attached; see rblk list --attached'
expect 0 "$RBLK" detach --all
if [ "$(id -u)" = 0 ]; then
	expect 1 "$RBLK" attach --module rblk://localhost/disk
	err_has '/dev/rblk-control: does not exist, and the kernel module cannot be loaded: rblk is not here'
fi
if [ "$(id -u)" != 0 ]; then
	as=()
elif runuser -u nobody -- test -x "$RBLK"; then
	as=(runuser -u nobody --)
else
	echo "SKIPPED: no unprivileged user to run as"
	exit 0
fi
expect 1 "${as[@]}" "$RBLK" attach --module rblk://localhost/disk
err_has '/dev/rblk-control: does not exist: the kernel module is not loaded; as root: modprobe rblk'

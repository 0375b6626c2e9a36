# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: hardware measures every system between two machines, says what it found in its JSON and its page, and leaves the machines
# as they were, also when it is interrupted. Method: the job of both hosts of a pair. Host 2 runs it twice: to the end, by ssh; and
# until it measures nvmet's disk, host 1 having run the command that it prints. No figure is looked at but that there is one.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
bench=$LAB/../bench

# What hardware may have changed.
export TMPDIR=/run/hardware
mkdir $TMPDIR
state() {
	cut -d ' ' -f 1 /proc/modules | sort
	find /sys/kernel/config/ /sys/class/nvme $TMPDIR -maxdepth 3 2> /dev/null | sort
	ls /sys/block
	ps -eo comm= | grep -xE 'rblkd|fio|ib_.*_(lat|bw)|perf|perl'
}
is_as_before() { state > /run/now; cmp -s /run/before /run/now; }
check_state() { lab_wait 10 is_as_before || lab_fail "$1, it leaves this: $(diff /run/before /run/now)"; }

# begin [OPTION...]: on host 2.
begin() {
	PATH=/run:$PATH "$bench/hardware" "$@" -b "$LAB_BUILD" -k "$LAB_KO" -n 1 -r 2 -q "1 32" -o /out/hardware 10.9.0.1 > /out/hardware.log 2>&1 &
	hardware=$!
}
# uses_nvme: it measures on nvmet's disk, or it has ended.
uses_nvme() { { grep -q rblk-hardware /sys/class/nvme-subsystem/*/subsysnqn && pgrep -x fio; } || ! kill -0 $hardware; }
# expect EXPRESSION: of jq, true of the results.
expect() { jq -e "$1" /out/hardware/hardware.json > /dev/null || lab_fail "not true: $1: $(cat /out/hardware/hardware.json)"; }

lab_link_up
state > /run/before
lab_meet linked
if [ "$LAB_HOST" = 1 ]; then
	lab_meet ssh 100
	bash -c "$(cat /pair/command)" < /pair/script || lab_fail "the other end's status is $?"
	check_state "at its end"
	lab_meet printed 100
	bash -c "$(sed -n 's/.*as root: //p' /pair/log)" || lab_fail "interrupted, the other end's status is $?"
	check_state "interrupted"
	lab_meet checked
	exit
fi
# In place of ssh: host 1 runs the command.
cat > /run/ssh <<-END
	#!/bin/bash
	cat > /pair/script
	echo "\$2" > /pair/command
	touch /pair/ssh-2
END
chmod +x /run/ssh
begin -s root@lab1
wait "$hardware" || lab_fail "status $?: $(cat /out/hardware.log)"
check_state "at its end"

expect '.left_out == {} and (.conditions.disk | startswith("null_blk"))'
expect 'all(.machines[]; .kernel and .processors > 0 and .path_mtu == 4096 and .software and .rblkd)'
expect '.verbs | keys == (["read_lat_4k", "write_lat_4k", "send_lat_64", "read_bw_4k", "write_bw_4k", "read_bw_128k", "write_bw_128k"] | sort) and all(.[]; . > 0)'
# Three systems with two depths, four jobs and 128k, for reads and writes; and one with a depth.
expect '(.figures | length) == 26 and (.crossings | length) == 33 and all(.crossings[]; .crossed)'
expect 'all(.figures[]; .rate > 0 and .latency_us.p50 > 0 and .latency_us.p99 > 0)'
# In a guest, the meters do not always fit into fio's run.
expect 'all(.figures[].per_io | select(. != {}); .initiator_us > 0 and .target_us > 0)'
expect '[.wrong[] | select(test("has RDMA in software"))] | length == 2'
page=/out/hardware/hardware.html
for row in kernel path_mtu read_bw_128k read-4k-qd1 write-4k-qd32 4jobs-read-4k-qd32 write-128k-qd8; do
	grep -q "<tr><td>$row</td>" $page || lab_fail "the page has no row of $row"
done
[ "$(grep -c '<polyline' $page)" = 2 ] && grep -q '<li>the target has RDMA in software' $page || lab_fail "the page has no plots, or does not say what looks wrong"
! grep -oE '(src|href)=|url\(|@import' $page || lab_fail "the page needs other files"
jq -e --slurpfile results /out/hardware/hardware.json '. == $results[0]' <<< "$(sed -n 's/.*id="results">\(.*\)<.script>.*/\1/p' $page)" > /dev/null ||
	lab_fail "the page's results are others than the JSON's"

begin
lab_wait 20 grep -q 'as root: ' /out/hardware.log || lab_fail "it prints no command: $(cat /out/hardware.log)"
cp /out/hardware.log /pair/log
lab_meet printed
lab_wait 100 uses_nvme
kill "$hardware"
wait "$hardware"
status=$?
[ $status = 143 ] || lab_fail "interrupted, its status is $status: $(cat /out/hardware.log)"
check_state "interrupted"
lab_meet checked

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a disk whose volume is served by one of two gateways is attached whichever comes first in the line, has all of its
# queues at that one, and goes to the other when that ends in good order, is killed, or loses the volume, without an error; a volume that
# neither has is refused with what each has said. Method: two daemons with one file, whose lock makes the second wait; fio with verification.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

RBLKCTL=$LAB_BUILD/target/ctl/rblkctl
ONE=10.8.1.2 TWO=10.8.2.2
declare -A gateway log

cat > /tmp/gateways.conf <<'END'
[target]
require_all = no
[volume disk]
path = /tmp/disk.img
cache = buffered
lock_wait = 5ms
END
gateway_start() {
	cp /tmp/gateways.conf "/tmp/$1.conf"
	lab_rblkd_start --listen "rblk://$1" --state-dir "/tmp/state.$1" --control-socket "/tmp/control.$1" --config "/tmp/$1.conf"
	gateway[$1]=$LAB_RBLKD log[$1]=$LAB_RBLKD_LOG
}
# gateway_stop, gateway_kill, gateway_lose ADDRESS OTHER: the other one looks for the volume at once.
gateway_stop() {
	LAB_RBLKD=${gateway[$1]} LAB_RBLKD_LOG=${log[$1]} lab_rblkd_stop
	kill -HUP "${gateway[$2]}"
}
gateway_kill() {
	kill -KILL "${gateway[$1]}"
	wait "${gateway[$1]}" 2> /dev/null
	kill -HUP "${gateway[$2]}"
}
# It stays, without the volume.
gateway_lose() {
	sed -i '/^\[volume/,$d' "/tmp/$1.conf"
	printf '[volume other]\nstore = memory\nsize = 1M\n' >> "/tmp/$1.conf"
	"$RBLKCTL" reload --force --socket "/tmp/control.$1" > /tmp/out || lab_fail "reload: $(cat /tmp/out)"
	kill -HUP "${gateway[$2]}"
}
wait_for() { lab_wait 60 "$@" || { cat /sys/block/rblk0/rblk/*; lab_stacks; lab_fail "never: $*"; }; }
at() { [ "$(grep -c "live $1:" /sys/block/rblk0/rblk/connections)" = 2 ] && [ "$(cat /sys/block/rblk0/rblk/state)" = live ]; }
done_on_disk() { awk '{ print $1 + $5 }' /sys/block/rblk0/stat; }
flowed() { [ "$(done_on_disk)" -gt $((before + 100)) ]; }
flows() { before=$(done_on_disk); wait_for flowed; }

# Soft-RoCE of 6.12 warns where an old acknowledgement arrives late (tests/lab/rxe/old-acknowledgement.patch).
[[ $(uname -r) = 6.1.* ]] || echo 'WARNING: .* at drivers/infiniband/sw/rxe/rxe_comp.c' > /out/excuses
lab_link_up
lab_wire_up 1
lab_wire_up 2
truncate -s 64M /tmp/disk.img
gateway_start $ONE
gateway_start $TWO
lab_kmod_load

# The first attach at a gateway that has no volume, with groups and without; neither has it; one is not there.
for LAB_ADDR in "$TWO;$ONE" "$TWO,$ONE" "$ONE;$TWO"; do
	lab_attach disk queues=2
	wait_for at $ONE
	lab_detach
done
LAB_ADDR="$TWO;$ONE"
answer=$(lab_control "attach address=$LAB_ADDR volume=none") && lab_fail "a volume that is nowhere is attached"
[[ $answer == *"$TWO:4430/none"*"$ONE:4430/none"* ]] || lab_fail "not both are named: $answer"
answer=$(lab_control "attach address=$TWO;10.8.1.9 volume=none connect_ms=2000") && lab_fail "a volume that is nowhere is attached"
[[ $answer == *"$TWO:4430/none"* ]] || lab_fail "what has answered is not named: $answer"

lab_attach disk queues=2 give_up_ms=600000
fio --name=gateways --filename="$LAB_DEV" --direct=1 --eta=never --ioengine=io_uring --rw=randwrite --bsrange=4k-64k --iodepth=8 \
	--size=4M --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based --runtime=3600 --output=/tmp/gateways.txt &
load=$!
flows
for turn in "stop $ONE $TWO" "stop $TWO $ONE" "kill $ONE $TWO" "kill $TWO $ONE" "lose $ONE $TWO"; do
	set -- $turn
	lab_say "gateway $2: $1, $3 goes on"
	"gateway_$1" "$2" "$3"
	wait_for at "$3"
	flows
	[ "$1" != lose ] || gateway_stop "$2" "$3"
	shift
	gateway_start "$1"
	flows
	at "$2" || lab_fail "the disk goes back by itself"
done
kill $load
lab_watch $load
grep -q 'err= 0' /tmp/gateways.txt && ! grep -qE 'verify:|error=' /tmp/gateways.txt ||
	{ cat /tmp/gateways.txt; lab_broken "an error, or other bytes than were written"; }
lab_detach
for LAB_RBLKD in "${gateway[@]}"; do lab_rblkd_stop; done
lab_kmod_unload
lab_say done

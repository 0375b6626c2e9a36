# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what an administrator does at the target holds over RDMA, for attached disks and for librblk: access rules, limits,
# kick, read_only, new rights, a new size, the removal of a volume, secrets and digests; views, events and metrics name the initiator.
# Method: one rblkd; all of it is changed live, under verified writes by fio on the disk and by its engine; what both ends
# say is compared.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
cd /tmp || lab_fail "no /tmp"
RBLKCTL=$LAB_BUILD/target/ctl/rblkctl
DISK=/sys/block/rblk0

# run STATUS COMMAND...: its output is in out, its errors in err. ctl VERB..., ctl_fails VERB...: rblkctl.
run() {
	local want=$1 got=0
	shift
	"$@" > out 2> err || got=$?
	[ "$got" = "$want" ] || lab_fail "$*: status $got, not $want: $(cat out err)"
}
ctl() { run 0 "$RBLKCTL" "$1" --socket control "${@:2}"; }
ctl_fails() { run 1 "$RBLKCTL" "$1" --socket control "${@:2}"; }
says() { grep -qF -- "$1" err || lab_fail "the errors lack \"$1\": $(cat err)"; }
json_is() { jq -e "$1" out > /dev/null || lab_fail "not so: $1: $(cat out)"; }
logged() { grep -cF -- "$1" "$LAB_RBLKD_LOG"; }
logged_once() { [ "$(logged "$1")" = 1 ] || lab_fail "the log has $(logged "$1") lines with \"$1\", not one"; }
wait_for() { lab_wait 60 "$@" || { grep -H . $DISK/{rblk/{state,reason,connections},rblk_counters/*}; lab_fail "never: $*"; }; }
attribute() { cat "$DISK/rblk/$1"; }
all_up() { [ "$(attribute state)" = live ] && ! grep -qv ' live ' $DISK/rblk/connections; }
is_read_only() { [ "$(cat $DISK/ro)" = "$1" ]; }
# volume NAME FILTER: is that so, of what rblkctl says of it?
volume() { "$RBLKCTL" volumes --socket control --json | jq -e ".volumes[] | select(.volume == \"$1\") | $2" > json; }
# goes_on: both loads have written since now.
engine_written() { "$RBLKCTL" volumes --socket control --json | jq '.volumes[] | select(.volume == "log") | .written_bytes'; }
goes_on() {
	local disk engine
	disk=$(awk '{ print $5 }' $DISK/stat)
	engine=$(engine_written)
	more() { [ "$(awk '{ print $5 }' $DISK/stat)" -gt $((disk + 50)) ] && [ "$(engine_written)" -gt $((engine + 200000)) ]; }
	wait_for more
}
rules="the target's access rules do not allow it to this initiator"

truncate -s 16M log.img small.img
"$RBLK" key new first.key > /dev/null && "$RBLK" key new other.key > /dev/null || lab_fail "key new"
cat > rblkd.conf <<-END
	[volume data]
	path = /dev/vda
	[volume log]
	path = /tmp/log.img
	cache = buffered
	[volume small]
	path = /tmp/small.img
	cache = buffered
	[volume fleeting]
	store = memory
	size = 16M
	[initiator app]
	address = local
	write = data log fleeting
	[initiator reader]
	address = local
	read = data
	see = log
	[initiator owner]
	secret = /tmp/first.key
	write = small
END
lab_link_up
lab_rblkd_start --config rblkd.conf --control-socket /tmp/control --http 9101 --session-time 1ms
lab_kmod_load
attach() { run "$1" "$RBLK" attach --queues 2 --reconnect 1s --name "${@:2}"; }

lab_say "who may"
attach 1 stranger "$LAB_URI/data"
says "$rules"
logged_once ' stranger: OPEN of volume "data" denied: '"$rules"
run 1 "$RBLK" info --name stranger2 "$LAB_URI/data"
says "volume \"data\": $rules"
logged_once ' stranger2: OPEN of volume "data" denied: '"$rules"
attach 1 reader "$LAB_URI/log" # it may see it, and no more
says "$rules"
[ ! -e $DISK ] || lab_fail "there is a disk"
lists() {
	run 0 "$RBLK" list --json --name "$1" "${@:3}" "$LAB_URI"
	json_is "[.volumes[].volume] == $2"
}
lists stranger '[]'
lists reader '["data", "log"]'
lists owner '["small"]' --key first.key
attach 0 reader "$LAB_URI/data"
wait_for is_read_only 1
dd if=/dev/zero of=/dev/rblk0 bs=4k count=1 oflag=direct status=none 2> err && lab_broken "a reader has written"
dd if=/dev/rblk0 of=/dev/null bs=64k count=4 iflag=direct status=none || lab_fail "a reader cannot read"
run 0 "$RBLK" detach rblk0
run 1 "$RBLK" copy --quiet --name reader small.img "$LAB_URI/data"
says 'the volume is read only'
volume data '.written_bytes == 0' || lab_broken "a reader has written: $(cat json)"

lab_say "a reader that may write, and may not any more, while it has the disk open"
attach 0 reader "$LAB_URI/data"
wait_for is_read_only 1
exec 5< /dev/rblk0
may() { sed -i "/^.initiator reader/,/^see/s/^[a-z]* = data/$1 = data/" rblkd.conf && ctl reload; }
may write
wait_for is_read_only 0
dd if=/dev/urandom of=/dev/rblk0 bs=4k count=1 oflag=direct status=none || lab_fail "a reader that may write cannot"
[ "$(attribute losses)" = 0 ] || lab_fail "a new right has cost the connection"
may read
wait_for is_read_only 1
wait_for all_up
dd if=/dev/zero of=/dev/rblk0 bs=4k count=1 oflag=direct status=none 2> err && lab_broken "a reader has written"
exec 5<&-
run 0 "$RBLK" detach rblk0

lab_say "who is there"
attach 0 app --command-timeout 4s "$LAB_URI/data"
wait_for all_up
ctl sessions --json
json_is '.sessions | any(.initiator == "app" and .volumes == ["data"] and (.peer | startswith("'"$LAB_ADDR"'")))'
ctl events --json
json_is '.events | any(.event == "session_named" and .initiator == "app" and (.address | startswith("'"$LAB_ADDR"'")))'
json_is '.events | any(.event == "refused" and .initiator == "stranger" and .volume == "data" and .error == "EACCES")'
metric() { curl -sS --max-time 60 http://127.0.0.1:9101/metrics > metrics && grep -q "^$1" metrics; }

lab_say "a limit, under I/O, that is far less than the commands outstanding need in their time"
LAB_DEV=/dev/rblk0
verify=(--eta=never --rw=randwrite --bs=4k --size=8M --verify=crc32c --verify_backlog=32 --verify_fatal=1 --time_based --runtime=3600)
fio --name=disk --filename=/dev/rblk0 --direct=1 --ioengine=io_uring --iodepth=32 "${verify[@]}" --output=disk.txt &
disk_fio=$!
fio --name=engine --ioengine=external:"$RBLK_FIO_ENGINE" --rblk_uri="$LAB_URI/log" --rblk_name=app --iodepth=8 "${verify[@]}" \
	--output=engine.txt &
engine_fio=$!
goes_on
wait_for metric 'rblk_session_written_bytes_total{session="[0-9]*",initiator="app",volume="data"} [1-9]'
wait_for metric 'rblk_session_written_bytes_total{session="[0-9]*",initiator="app",volume="log"} [1-9]'
ctl set volume data limit_iops=4 limit_burst=20ms
limited() { volume data '.limited_commands > 20 and .outstanding > 20'; }
wait_for limited
# Of 4 KiB each; "operations" has those that were dropped, too.
operations() { "$RBLKCTL" volumes --socket control --json | jq '.volumes[] | select(.volume == "data") | (.read_bytes + .written_bytes) / 4096'; }
# What it lets through, by its own count and by this clock, which is read before and after. An answer may be 100 ms old.
began=$(date +%s%N)
before=$(operations)
dropped() { [ "$(lab_counter dropped)" -gt 8 ]; }
wait_for dropped
after=$(operations)
most=$((($(date +%s%N) - began) / 250000000 + 3))
[ $((after - before)) -le $most ] || lab_fail "$((after - before)) operations at a limit of 4 a second, in which $most fit"
[ "$after" -gt "$before" ] || lab_fail "a limit of 4 a second lets nothing through"
[ "$(attribute losses)" = 0 ] || lab_fail "a limit has cost the connection: $(dmesg | grep rblk0 | tail -n 3)"
volume data '.limited_ns > 0' || lab_fail "no time in the limit is counted: $(cat json)"
ctl set volume data limit_iops=0
goes_on
[ "$(attribute losses)" = 0 ] || lab_fail "a limit has cost the connection: $(dmesg | grep rblk0 | tail -n 3)"

lab_say "kick"
ctl kick app
[ "$(grep -c '^session [0-9]* of app ' out)" -ge 2 ] || lab_fail "kick: $(cat out)"
lost() { [ "$(attribute losses)" -ge 1 ]; }
wait_for lost
wait_for all_up
goes_on

lab_say "a volume that is replaced"
changes() { logged 'volume data: changed: '; }
losses=$(attribute losses)
ctl set volume data cache=direct
[ "$(changes)" = 1 ] || lab_fail "nothing was replaced"
goes_on
[ "$(attribute losses)" = "$losses" ] || lab_fail "a change of the volume has cost the connection"

lab_say "another size"
[ "$(blockdev --getsize64 /dev/rblk0)" = $((64 << 20)) ] || lab_fail "size: $(blockdev --getsize64 /dev/rblk0)"
attach 0 app "$LAB_URI/log"
size_is() { [ "$(blockdev --getsize64 /dev/rblk1)" = $(($1 << 20)) ]; }
wait_for size_is 16
truncate -s 24M log.img
ctl reload --force
wait_for size_is 24
run 0 "$RBLK" detach rblk1

lab_say "a volume that is replaced, or missing for a while, under I/O: what waits goes on"
ctl set volume data cache=buffered
wait_for all_up
goes_on
ctl_fails remove volume data
says ' app has it open: it is removed only with --force'
ctl remove volume data --force
renewing() { [ "$(attribute state)" = renewing ] && attribute reason | grep -qF 'no such volume'; }
wait_for renewing
ctl add volume data path=/dev/vda
wait_for all_up
goes_on
kill $disk_fio $engine_fio
lab_watch $disk_fio
wait $engine_fio
for file in disk.txt engine.txt; do
	grep -q 'err= 0' $file && ! grep -qE 'verify:|error=' $file || { cat $file; lab_broken "I/O has seen a change at the target"; }
done

lab_say "read-only, and not any more"
ctl set volume data read_only=yes
wait_for is_read_only 1
wait_for all_up
first() { dd if=/dev/rblk0 of="$1" bs=64k count=1 iflag=direct status=none || lab_fail "a read-only volume cannot be read"; }
first before
dd if=/dev/zero of=/dev/rblk0 bs=4k count=1 oflag=direct status=none 2> err && lab_broken "a read-only volume was written to"
first after
cmp before after || lab_broken "a read-only volume was written to"
ctl set volume data read_only=
wait_for is_read_only 0
dd if=/dev/urandom of=/dev/rblk0 bs=64k count=4 oflag=direct status=none || lab_fail "it is not writable again"
[ "$(attribute losses)" = "$losses" ] || lab_fail "a change of the volume has cost the connection"
run 0 "$RBLK" detach rblk0

lab_say "a volume in memory, read-only and not any more, while it is open"
attach 0 app --volatile "$LAB_URI/fleeting"
wait_for is_read_only 0
exec 5<> /dev/rblk0
writes() { dd if=/dev/urandom bs=4k count=1 conv=fsync status=none >&5 2> err; }
writes || lab_fail "a memory volume: $(cat err)"
for _ in 1 2; do
	ctl set volume fleeting read_only=yes --force
	wait_for is_read_only 1
	wait_for all_up
	writes && lab_broken "a read-only volume was written to"
	ctl set volume fleeting read_only= --force
	wait_for is_read_only 0
	writes || lab_fail "it is not writable again: $(cat err)"
done
exec 5<&-
[ "$(attribute losses)" = 0 ] || lab_fail "a change of the volume has cost the connection"
run 0 "$RBLK" detach rblk0

lab_say "a volume that is removed"
attach 0 app --give-up 2s "$LAB_URI/data"
wait_for all_up
ctl_fails remove volume data
says '] app has it open: it is removed only with --force'
dd if=/dev/urandom of=/dev/rblk0 bs=64k count=4 oflag=direct status=none || lab_fail "a refused removal has an effect"
ctl remove volume data --force
dd if=/dev/urandom of=/dev/rblk0 bs=64k count=4 oflag=direct status=none 2> err && lab_broken "writes succeed without a volume"
failed() { [ "$(attribute state)" = failed ]; }
wait_for failed
attribute reason | grep -qF "$LAB_ADDR:4430/data: no such volume" || lab_fail "reason: $(attribute reason)"
dmesg | grep -F 'rblk0 ' | grep 'gave up' | grep -qF 'no such volume' || lab_fail "the kernel's log: $(dmesg | tail -n 5)"
run 0 "$RBLK" list --attached
grep -qF 'no such volume' out || lab_fail "list: $(cat out)"
ctl events --json
json_is '.events | any(.event == "volume_removed" and .volume == "data")'
run 0 "$RBLK" detach rblk0

lab_say "secrets and digests with librblk"
head -c 1M /dev/urandom > file
owner() { run "$1" "$RBLK" "${@:2:1}" --name owner --key "${@:3}"; }
owner 0 copy first.key --quiet --digest file "$LAB_URI/small"
logged 'initiator owner has proven its name' > /dev/null || lab_fail "the log does not say who has proven its name"
cmp -n 1M file small.img || lab_broken "other data is stored"
owner 0 copy first.key --quiet --digest --size 1M "$LAB_URI/small" back
cmp file back || lab_broken "other data is read"
owner 1 copy other.key --quiet --digest file "$LAB_URI/small"
says "authentication as \"owner\" failed: the target has another secret for this initiator's name, or none"
run 1 "$RBLK" copy --quiet --name owner file "$LAB_URI/small"
says "the target has a secret for this initiator's name, which has to be proven with its key"
fio --name=proven --ioengine=external:"$RBLK_FIO_ENGINE" --rblk_uri="$LAB_URI/small" --rblk_name=owner --rblk_key=/tmp/first.key \
	--rblk_digest=1 --iodepth=8 --eta=never --rw=randwrite --bsrange=4k-64k --blockalign=4k --size=8M --verify=crc32c --verify_fatal=1 \
	--output=proven.txt || { cat proven.txt; lab_broken "fio with a key and digests"; }
lab_kmod_unload
lab_rblkd_stop
lab_say "done"

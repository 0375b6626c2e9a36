#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: what is missing at the start (a disk, a lock, an address, RDMA, HTTP's port) keeps nothing else from being served; it is told
# everywhere, and served when it is there. Method: each is missing, then comes; rblkctl, events and metrics are asked
# before and after.
. "$(dirname "$0")/cmd.sh"
socket=$scratch/control
asked() {
	local got=0
	"$RBLKCTL" "$1" --json --socket "$socket" > "$scratch/out" 2> "$scratch/err" || got=$?
	# 3: something is wrong, and may just come or go.
	[ $got = 0 ] || [ "$1 $got" = "status 3" ] || fail "rblkctl $1: status $got"
}
# comes FILTER VERB: until it is true of what the verb says.
comes() {
	is() { asked "$2" && jq -e "$1" "$scratch/out" > /dev/null; }
	wait_for "$2: $1" is "$1" "$2"
}
# metric LINE: /metrics has exactly this line.
metrics() {
	local port
	port=$(grep -o 'http: http://127.0.0.1:[0-9]*' "$scratch/target.log" | tail -n 1 | grep -o '[0-9]*$')
	exec 3<> "/dev/tcp/127.0.0.1/$port"
	printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
	cat <&3 > "$scratch/metrics"
	exec 3>&-
}
metric() {
	metrics
	grep -qxF -- "$1" "$scratch/metrics" || fail "no metric: $1"
}

# A disk of several.
truncate -s 1M "$scratch/a.img"
gone=$scratch/gone.img
target_start --control-socket "$socket" --http 0 "$scratch/a.img" "b=$gone"
log_has "volume b: $gone: No such file or directory; not served yet, trying again"
log_has 'ready: serving 1 volume (missing: 1 volume, 0 addresses) on '
expect 0 "$RBLK" list "$target"
out_has a
asked volumes
json_is '[.volumes[].volume] == ["a"] and (.missing | length) == 1 and .missing[0].volume == "b" and
	(.missing[0].reason | endswith("gone.img: No such file or directory"))'
expect 0 "$RBLKCTL" volumes --socket "$socket"
grep -qE "^b +(- +){9}missing, $gone: No such file or directory, tried again every second\$" "$scratch/out" || fail "rblkctl volumes"
expect 3 "$RBLKCTL" status --socket "$socket"
out_has "1 problem: volume b: missing, $gone: No such file or directory"
asked events
json_is '[.events[] | select(.event == "volume_missing" and .volume == "b" and .level == "error")] | length == 1'
metric 'rblk_volume_missing{volume="a"} 0'
metric 'rblk_volume_missing{volume="b"} 1'
# Others come and go meanwhile.
expect 0 "$RBLKCTL" add volume c store=memory size=1M --socket "$socket"
asked volumes
json_is '[.volumes[].volume] == ["a", "c"] and [.missing[].volume] == ["b"]'
expect 0 "$RBLKCTL" remove volume c --socket "$socket"
truncate -s 2M "$gone"
comes '[.volumes[].volume] == ["a", "b"] and .missing == []' volumes
metric 'rblk_volume_missing{volume="b"} 0'
asked events
json_is '[.events[] | select(.event == "volume_added" and .volume == "b")] | length == 1'
json_is '[.events[] | select(.event == "volume_missing")] | length == 1'
expect 0 "$RBLK" info "$target/b"
target_stop

# One that another process serves, and all of HTTP. The first daemon's end gives both.
target_start --http 0 "$scratch/a.img"
first=$target_pid
port=$(grep -o 'http: http://127.0.0.1:[0-9]*' "$scratch/target.log" | grep -o '[0-9]*$')
target_pid=
target_start --control-socket "$socket" --lock-wait 100ms --http "$port" "$scratch/a.img" "$gone"
comes '[.missing_volumes[].volume] == ["a"] and .missing_addresses[0].address == "http: '"$port"'" and
	(.missing_addresses[0].reason | endswith("Address already in use"))' status
asked events
json_is '[.events[] | select(.event == "address_missing")] | length == 1'
kill "$first"
wait "$first" || fail "the first daemon's end"
comes '.missing_volumes == [] and .missing_addresses == [] and .volumes == 2' status
metric 'rblk_volume_missing{volume="a"} 0'
asked events
json_is '[.events[] | select(.event == "address_added")] | length == 1'

# A volume that is removed from the configuration is not missing any more; nor one whose change failed before.
expect 1 "$RBLKCTL" add volume c path=/nowhere --socket "$socket"
asked volumes
json_is '[.volumes[].volume] == ["a", "gone"]'
# What has just been asked for is seen at once.
expect 0 "$RBLKCTL" add volume d store=memory size=1M --socket "$socket"
asked volumes
json_is '[.volumes[].volume] == ["a", "d", "gone"]'
expect 0 "$RBLKCTL" remove volume d --socket "$socket"
asked volumes
json_is '[.volumes[].volume] == ["a", "gone"]'
json_is '.missing == []'
target_stop
[ ! -e "$socket.lock" ] || fail "a lock is left behind, which another user could not take"

# An address that no interface has; RDMA, where the machine has none; all of it. With a configuration file the
# daemon waits even then.
target_start --control-socket "$socket" --listen rblk+tcp://192.0.2.77:4430 --memory m=1M
comes '.missing_addresses[0].address == "rblk+tcp://192.0.2.77:4430" and (.addresses | length) == 1' status
expect 0 "$RBLK" list "$target"
target_stop
printf '[volume m]\nstore = memory\nsize = 1M\n' > "$scratch/rblkd.conf"
if [ ! -d /sys/class/infiniband ] || [ -z "$(ls /sys/class/infiniband)" ]; then
	target_start --control-socket "$socket" --listen rblk://:4430 --memory m=1M
	log_has 'to serve over TCP: listen = rblk+tcp://:4430'
	comes '.missing_addresses[0].address == "rblk://:4430"' status
	expect 0 "$RBLK" info "$target/m"
	target_stop
	expect 1 "$RBLKD" --control-socket none --journal none --listen rblk://:4430 --memory m=1M
	target_start --control-socket "$socket" --listen nvme+rdma://:4420 --memory m=1M
	log_has 'to serve over TCP: listen = nvme+tcp://:4420'
	target_stop
	target_listen=rblk://:4430 target_start --control-socket "$socket" --config "$scratch/rblkd.conf"
	comes '.addresses == [] and (.missing_addresses | length) == 1' status
	target_stop
else
	echo "SKIPPED: this machine has an RDMA device"
fi
if unshare -n true 2> /dev/null; then
	cat > "$scratch/comes" << 'END'
set -e
ip link set lo up
"$@" & pid=$!
until [ -S "$socket" ]; do read -rt 0.05 <> <(:) || true; done
until [[ $("$RBLKCTL" status --socket "$socket" --json) == *'"addresses":[]'* ]]; do read -rt 0.05 <> <(:) || true; done
ip addr add 192.0.2.77/32 dev lo
until "$RBLK" list rblk+tcp://192.0.2.77; do read -rt 0.5 <> <(:) || true; done
kill $pid
wait $pid
END
	export socket
	expect 0 unshare -n bash "$scratch/comes" "$RBLKD" --control-socket "$socket" --journal none --state-dir "$scratch/state" \
		--listen rblk+tcp://192.0.2.77:4430 --config "$scratch/rblkd.conf"
else
	echo "SKIPPED: no network namespace"
fi
target_listen=

# Its initiator waits for a disk that is a little late.
rm -f "$gone"
truncate -s 8M "$scratch/late.img"
head -c 8M /dev/urandom > "$scratch/data"
target_start --fault delay=20ms "b=$scratch/late.img" --memory m=1M
target_listen=$target
"$RBLK" copy --chunk 4096 --depth 1 "$scratch/data" "$target/b" > "$scratch/copied" 2>&1 &
copy=$!
begun() { cmp -s -n 4096 "$scratch/data" "$scratch/late.img"; }
wait_for "a first write" begun
target_stop -KILL
mv "$scratch/late.img" "$scratch/away.img"
target_start --control-socket "$socket" "b=$scratch/late.img" --memory m=1M
log_has ': initiator '
# It comes back, and that is no event of somebody who was refused.
asked events
json_is '[.events[] | select(.event == "refused")] == []'
mv "$scratch/away.img" "$scratch/late.img"
wait $copy || fail "the copy: $(cat "$scratch/copied")"
grep -qF 'verified: crc32c' "$scratch/copied" || fail "the copy is not verified"
target_stop
target_listen=

# A configuration file whose only disk comes later.
rm -f "$gone"
printf '[volume only]\npath = %s\n' "$gone" > "$scratch/rblkd.conf"
target_start --control-socket "$socket" --config "$scratch/rblkd.conf"
comes '.volumes == [] and .missing[0].volume == "only"' volumes
truncate -s 1M "$gone"
comes '.volumes[0].volume == "only" and .missing == []' volumes
rm "$gone"
target_stop
target_start --control-socket "$socket" --config "$scratch/rblkd.conf"
printf '[volume other]\nstore = memory\nsize = 1M\n' > "$scratch/rblkd.conf"
expect 0 "$RBLKCTL" reload --socket "$socket"
asked volumes
json_is '[.volumes[].volume] == ["other"] and .missing == []'
target_stop

# For whoever wants all or nothing; and --check tells all.
expect 1 "$RBLKD" --require-all --listen rblk+tcp://127.0.0.1:0 --control-socket none --journal none \
	--state-dir "$scratch/state" "$scratch/a.img" "b=$gone"
err_has "volume b: $gone: No such file or directory"
printf '[volume a]\npath = %s\n[volume b]\npath = %s\n[volume c]\npath = %s\n' "$scratch/b.img" "$scratch/a.img" \
	"$scratch/c.img" > "$scratch/rblkd.conf"
expect 1 "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --config "$scratch/rblkd.conf"
err_has "volume a: $scratch/b.img: No such file or directory"
err_has "volume c: $scratch/c.img: No such file or directory"
[ "$(wc -l < "$scratch/err")" = 2 ] || fail "other lines"
# What a start would warn of is told, too.
printf '[volume m]\nstore = memory\nsize = 1M\n[initiator db1]\naddress = 192.0.2.1\nwrite = mm\n' > "$scratch/rblkd.conf"
expect 0 "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --config "$scratch/rblkd.conf"
err_has 'initiator db1: there is no volume'

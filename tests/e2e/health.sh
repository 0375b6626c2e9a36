#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What is wrong is said in one place, and everywhere alike: the first line of rblkctl status and its exit status, JSON, /healthz,
# /readyz, and the metric that the alert asks for. Method: each problem is made, seen, and (where it can) mended: a volume and an
# address that are missing, a failed flush, a full disk, a client that was killed, refused logins, a failed reload.
. "$(dirname "$0")/cmd.sh"
command -v curl > /dev/null || no_tool curl
socket=$scratch/control
here=$(dirname "$0")

# http_start ARGUMENT...: as target_start does, with $url. A copy whose output nobody reads is silent: for longer than usual.
http_start() {
	target_start --control-socket "$socket" --http 0 --keepalive 60s "$@"
	url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' "$scratch/target.log" | tail -n 1)
	[ -n "$url" ] || fail "no address in the log"
}
status() { ran=0; "$RBLKCTL" status --socket "$socket" "$@" > "$scratch/out" 2> "$scratch/err" || ran=$?; }
# says STATUS TEXT: the first line of rblkctl status, as a pattern, and its exit status.
says() { status; [ $ran = "$1" ] && sed 1q "$scratch/out" > "$scratch/first" && grep -qE -- "$2" "$scratch/first"; }
# problem KIND LEVEL COUNT: so many are in JSON and in the metric.
problem() {
	status --json
	jq -e --arg kind "$1" --arg level "$2" --argjson count "$3" \
		'[.problems[] | select(.problem == $kind and .level == $level)] | length == $count' "$scratch/out" > /dev/null &&
		curl -sS --max-time 60 "$url/metrics" | grep -xF "rblk_problems{problem=\"$1\"} $3" > /dev/null
}
# volume_says NAME: the table of rblkctl volumes, and its JSON, have the same words of this volume.
volume_says() {
	local words
	status --json
	words=$(jq -r --arg name "$1" '[.problems[] | select(.volume == $name) | .message | ltrimstr("volume \($name): ")] | join("; ")' "$scratch/out")
	[ -n "$words" ] || return 1
	"$RBLKCTL" volumes --socket "$socket" | grep "^$1 " | grep -F -- "  $words" > /dev/null || return 1
	"$RBLKCTL" volumes --json --socket "$socket" | jq -e --arg name "$1" --slurpfile status "$scratch/out" \
		'.volumes[], .missing[] | select(.volume == $name) | .problems == [$status[0].problems[] | select(.volume == $name)]' > /dev/null
}
# healthz CODE TEXT: what it answers, with a line that has this text.
healthz() { [ "$(curl -s -o "$scratch/body" -w '%{http_code}' --max-time 60 "$url/healthz")" = "$1" ] && grep -qF -- "$2" "$scratch/body"; }

# -- nothing is wrong --------------------------------------------------------------------------------

http_start --memory ram=1M
says 0 '^ok$' || fail "ok: $ran"
status --json
json_is '.health == "ok" and .problems == []'
expect 0 "$RBLKCTL" volumes --socket "$socket"
grep -qE '^ram .* ok$' "$scratch/out" || fail "a volume that is well"
expect 0 "$RBLKCTL" volumes --json --socket "$socket"
json_is '.volumes[0].problems == []'
healthz 200 ok || fail "healthz"
curl -sS --max-time 60 "$url/metrics" > "$scratch/metrics"
grep -q '^rblk_problems{' "$scratch/metrics" || fail "no kinds"
[ "$(grep '^rblk_problems{' "$scratch/metrics" | awk '{ sum += $2 } END { print sum }')" = 0 ] || fail "problems"

# -- what may not log in, and a reload that fails -----------------------------------------------------

printf '[volume ram]\nstore = memory\nsize = 1M\n[initiator db1]\naddress = 192.0.2.1\nwrite = ram\n' > "$scratch/rblkd.conf"
target_stop
http_start --config "$scratch/rblkd.conf"
for _ in {1..11}; do expect 1 "$RBLK" info "$target/ram"; done
refused() { says 3 '^1 problem: logins: 1[1-9] refused in the last ten minutes, the last at [0-9:]{8} UTC: .*127\.0\.0\.1'; }
wait_for "refused logins" refused
problem logins_refused warning 1 || fail "refused logins"
healthz 200 '1 problem: logins: ' || fail "a warning is no failure"
printf '[volume ram]\nstore = memry\n' > "$scratch/rblkd.conf"
expect 1 "$RBLKCTL" reload --socket "$socket"
says 3 "^2 problems: configuration: the reload at [0-9:]{8} UTC failed: .*memry.*; logins: " || fail "a reload"
problem reload_failed error 1 || fail "a reload"
healthz 503 '2 problems: configuration: the reload at ' || fail "healthz"
grep -qF "$scratch" "$scratch/body" && fail "paths are not for everyone"
printf '[volume ram]\nstore = memory\nsize = 1M\n[initiator db1]\naddress = 192.0.2.1\nwrite = ram\n' > "$scratch/rblkd.conf"
expect 0 "$RBLKCTL" reload --socket "$socket"
says 3 "^1 problem: logins: " || fail "after the reload"
target_stop

# Want of room is none of them, as for the alert.
http_start --reactors 1 --sessions 1 --memory ram=1M
mkfifo "$scratch/fifo0"
"$RBLK" copy --name first - "$target/ram" < "$scratch/fifo0" > /dev/null 2>&1 &
copy=$!
exec 7> "$scratch/fifo0"
held() { "$RBLKCTL" sessions --json --socket "$socket" | jq -e 'any(.sessions[]; .volumes == ["ram"])' > /dev/null; }
wait_for "the session" held
for _ in {1..11}; do expect 1 "$RBLK" info "$target/ram"; done
says 0 '^ok$' || fail "a lack of room is no denied login"
expect 0 "$RBLKCTL" events --json --socket "$socket"
json_is '[.events[] | select(.event == "full")] | length > 0 and all(.message | test("in use"))'
json_is '[.events[] | select(.event == "refused")] == []'
exec 7>&-
wait $copy || fail "the first session"
target_stop

# -- what is missing ---------------------------------------------------------------------------------

http_start --listen rblk+tcp://192.0.2.77:4430 --memory ram=1M "logs=$scratch/gone.img"
says 3 "^2 problems: volume logs: missing, $scratch/gone.img: No such file or directory, tried again every second; rblk\+tcp://192\.0\.2\.77:4430: missing, " ||
	fail "what is missing"
problem volume_missing error 1 || fail "a volume"
volume_says logs || fail "rblkctl volumes of a missing volume"
problem address_missing error 1 || fail "an address"
status --json
json_is '.problems[0].volume == "logs" and (.problems[0] | has("address") | not) and .problems[1].address == "rblk+tcp://192.0.2.77:4430" and
	(.health | startswith("2 problems: ")) and .errors == []'
healthz 503 '2 problems: volume logs: missing' || fail "healthz"
grep -qF "$scratch" "$scratch/body" && fail "paths are not for everyone"
[ "$(curl -s -o "$scratch/body" -w '%{http_code}' "$url/readyz")" = 200 ] || fail "it is ready"
grep -qF 'serving, 2 problems: volume logs: missing' "$scratch/body" || fail "readyz: $(cat "$scratch/body")"
curl -sS "$url/status.json" > "$scratch/out"
json_is '(.health | startswith("2 problems: volume logs: missing")) and (.problems | length) == 2'
grep -qF "$scratch" "$scratch/out" && fail "paths are not for everyone"
truncate -s 1M "$scratch/gone.img"
mended() { says 3 '^1 problem: rblk\+tcp'; }
wait_for "the volume" mended
problem volume_missing error 0 || fail "the volume is there"
# Truncated under the daemon: told before a read fails, and until it has its size again.
truncate -s 4097 "$scratch/gone.img"
short() { says 3 "^2 problems: volume logs: shorter than it is served: has 4097 bytes, but 1048576 are served; reads of the rest fail until it has them again \\($scratch/gone\.img\\); "; }
wait_for "a truncated file" short
problem volume_short error 1 || fail "a truncated file"
volume_says logs || fail "rblkctl volumes of a truncated file"
healthz 503 'volume logs: shorter than it is served: has 4097 bytes, but 1048576 are served' || fail "healthz"
grep -qF "$scratch" "$scratch/body" && fail "paths are not for everyone"
truncate -s 1M "$scratch/gone.img"
wait_for "its size" mended
# It is served as ever without a name, and would be gone with the daemon.
rm "$scratch/gone.img"
deleted() { says 3 "^2 problems: volume logs: its file was deleted: its data is lost when rblkd stops, copy it away before \\($scratch/gone\.img\\); "; }
wait_for "a deleted file" deleted
problem volume_deleted error 1 || fail "a deleted file"
volume_says logs || fail "rblkctl volumes of a deleted file"
healthz 503 'volume logs: its file was deleted' || fail "healthz"
grep -qF "$scratch" "$scratch/body" && fail "paths are not for everyone"
# With another file in its place, a reload is what helps.
truncate -s 2M "$scratch/gone.img"
replaced() { says 3 "^2 problems: volume logs: its file was replaced: rblkctl reload serves the new one, and ends the old one and its data \\($scratch/gone\.img\\); "; }
wait_for "a replaced file" replaced
problem volume_deleted error 1 || fail "a replaced file"
expect 0 "$RBLKCTL" reload --socket "$socket"
mended || fail "the new file is served: $(cat "$scratch/first")"
expect 0 "$RBLKCTL" volumes --json --socket "$socket"
json_is 'any(.volumes[]; .volume == "logs" and .bytes == 2097152)'
target_stop

# -- a client that was killed -------------------------------------------------------------------------

http_start --session-time 1h --memory ram=16M
copy_start --name web1 - "$target/ram"
head -c 65536 /dev/zero >&7
opened() { "$RBLKCTL" sessions --json --socket "$socket" | jq -e 'any(.sessions[]; .volumes == ["ram"])' > /dev/null; }
wait_for "the session" opened
says 0 '^ok$' || fail "a client is no problem"
kill -KILL $copy
wait $copy 2> /dev/null || true
exec 7>&-
awaited() { says 3 '^1 problem: initiator web1: its connections are lost, its session waits for it 5[0-9] min more$'; }
wait_for "a client that was killed" awaited
problem client_awaited warning 1 || fail "a client that was killed"
status --json
json_is '.problems[0].initiator == "web1"'
expect 0 "$RBLKCTL" kick web1 --socket "$socket"
says 0 '^ok$' || fail "it is not waited for any more"
target_stop

# -- disks -------------------------------------------------------------------------------------------

# A full disk, on a file system of its own.
head -c 4M /dev/urandom > "$scratch/file"
if unshare -m true 2> /dev/null; then
	mkdir "$scratch/mnt"
	cat > "$scratch/rblkd" << 'END'
#!/bin/bash
exec unshare -m bash -c 'mount -t tmpfs -o size=1m tmpfs "$0" && truncate -s 64M "$0/disk" && exec "$@" "disk=$0/disk"' "$MOUNT" "$REAL" "$@"
END
	chmod +x "$scratch/rblkd"
	export MOUNT=$scratch/mnt REAL=$RBLKD
	RBLKD=$scratch/rblkd http_start --cache buffered
	expect 1 "$RBLK" copy "$scratch/file" "$target/disk"
	status --json
	json_is 'any(.problems[]; .problem == "disk_full" and .volume == "disk" and .level == "error" and
		(.message | test("^volume disk: its disk is full: [0-9]+ commands? failed( since [0-9:]{8} UTC)? .[0-9]+ writes?.*., the last at [0-9:]{8} UTC")))'
	volume_says disk || fail "rblkctl volumes of a full disk"
	target_stop
else
	echo "SKIPPED: no mount namespace, so no full disk"
fi
truncate -s 4M "$scratch/disk"
http_start --session-time 1ms --cache buffered --fault fail=write:1 "$scratch/disk"
expect 1 "$RBLK" copy "$scratch/file" "$target/disk"
failing() { says 3 '^1 problem: volume disk: [0-9]+ commands? failed( since [0-9:]{8} UTC)? \([0-9]+ writes?\), the last at [0-9:]{8} UTC: Input/output error$'; }
wait_for "a failing disk" failing
problem volume_failing error 1 || fail "a failing disk"
volume_says disk || fail "rblkctl volumes of a failing disk"
target_stop
http_start --session-time 1ms --cache buffered --fault fail=flush:1 "$scratch/disk" --memory ram=8M
mkfifo "$scratch/fifo2"
"$RBLK" copy --name holder "$target/disk" - > "$scratch/fifo2" 2> /dev/null &
copy=$!
exec 7< "$scratch/fifo2"
head -c 4096 <&7 > /dev/null
expect 1 "$RBLK" copy "$scratch/file" "$target/disk"
failed() { says 3 '^2 problems: volume disk: a flush failed at [0-9:]{8} UTC, FLUSH is refused until every session has closed it; volume disk: [0-9]+ commands? failed( since [0-9:]{8} UTC)? \([0-9]+ flush(es)?\), '; }
wait_for "a failed flush" failed
problem flush_failed error 1 || fail "a failed flush"
volume_says disk || fail "rblkctl volumes of a failed flush"
curl -sS "$url/metrics" > "$scratch/metrics"
grep -qxF 'rblk_volume_flush_failed{volume="disk"} 1' "$scratch/metrics" || fail "its own metric"
# The target's own end of a volume, by a restart in good order or a replacement, is no close of a session: it stands as it
# was, with its time, until a session has closed it.
at=$(grep -o 'a flush failed at [^,]*' "$scratch/first")
target_stop
[ "$(log_count 'every session has closed it: FLUSH is possible again')" = 0 ] || fail "no session has closed it"
exec 7<&-
wait $copy || true
printf '[volume disk]\npath = %s\ncache = buffered\n' "$scratch/disk" > "$scratch/disk.conf"
http_start --session-time 1ms --config "$scratch/disk.conf"
stands() { says 3 "^1 problem: volume disk: $at, FLUSH is refused until $1\$"; }
stands "a session has opened and closed it" || fail "after a restart in good order"
"$RBLK" copy --name holder "$target/disk" - > "$scratch/fifo2" 2> /dev/null &
copy=$!
exec 7< "$scratch/fifo2"
head -c 4096 <&7 > /dev/null
echo 'block_size = 4K' >> "$scratch/disk.conf"
expect 0 "$RBLKCTL" reload --socket "$socket"
stands "[a-z ]* closed it" || fail "after its settings have changed"
exec 7<&-
wait $copy || true
expect 0 "$RBLK" info "$target/disk"
again() { problem flush_failed error 0; }
wait_for "FLUSH again" again
target_stop

# -- the alert ---------------------------------------------------------------------------------------

grep -q 'expr: .*rblk_problems' "$here/../../target/install/alerts.yml" || fail "no alert"

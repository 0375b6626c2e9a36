#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# /metrics is what Prometheus expects, and counts exactly; /healthz and /readyz tell the state. Wrong, huge, slow and many
# requests harm nobody: who copies meanwhile sends the same commands as without them.
# Method: commands whose operations and bytes are known; curl; bash's own sockets for what curl does not send; the format
# by exposition.awk, and by promtool (tests/promtool).
. "$(dirname "$0")/cmd.sh"
here=$(dirname "$0")
command -v curl > /dev/null || no_tool curl

# http_start ARGUMENT...: as target_start does, with $url.
http_start() {
	target_start --http 0 "$@"
	url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' "$scratch/target.log")
	[ -n "$url" ] || fail "no address in the log"
	port=${url##*:}
}
get() { curl -sS --max-time 60 "$url$1"; }
code() { curl -s -o /dev/null -w '%{http_code}' --max-time 60 "$@"; }
# metric SERIES: its value.
metric() { get /metrics | awk -v name="$1" 'index($0, name " ") == 1 { print $NF }'; }
comes() { [ "$(metric "$1")" = "$2" ]; }
# An answer may be a tenth of a second old, and so may be of before the last command.
is() { wait_for "$1 $2" comes "$@"; }

truncate -s 4M "$scratch/disk"
head -c 1000448 /dev/urandom > "$scratch/file"
http_start --reactors 2 --session-time 1ms --cache buffered --memory ram=4M --fault fail=discard:1 "$scratch/disk"
expect 0 curl -sS --max-time 60 "$url/healthz"
out_has ok
expect 0 curl -sS --max-time 60 "$url/readyz"
out_has serving

# -- what is counted -------------------------------------------------------------------------------

expect 0 "$RBLK" copy "$scratch/file" "$target/disk"
is 'rblk_volume_written_bytes_total{volume="disk"}' 1000448
is 'rblk_volume_read_bytes_total{volume="disk"}' 0
is 'rblk_volume_size_bytes{volume="disk"}' 4194304
is 'rblk_volume_errors_total{volume="disk",error="io"}' 0
is 'rblk_volume_errors_total{volume="disk",error="busy"}' 0
writes=$(metric 'rblk_volume_operations_total{volume="disk",operation="write"}')
[ "$writes" -gt 0 ] || fail "no writes"
for stage in queued stored both; do
	is "rblk_volume_latency_seconds_count{volume=\"disk\",kind=\"write\",stage=\"$stage\"}" "$writes"
	is "rblk_volume_latency_seconds_bucket{volume=\"disk\",kind=\"write\",stage=\"$stage\",le=\"+Inf\"}" "$writes"
done
expect 0 "$RBLK" copy --size 1000448 "$target/disk" "$scratch/back"
is 'rblk_volume_read_bytes_total{volume="disk"}' 1000448
is 'rblk_volume_written_bytes_total{volume="disk"}' 1000448
is 'rblk_volume_operations_total{volume="ram",operation="write"}' 0
is rblk_sessions 0
for result in returned denied malformed full stale draining; do is "rblk_logins_total{result=\"$result\"}" 0; done
is 'rblk_connection_ends_total{reason="violation"}' 0
is 'rblk_connection_ends_total{reason="lost"}' 0
ended() { [ "$(metric 'rblk_logins_total{result="accepted"}')" = "$(metric 'rblk_connection_ends_total{reason="disconnected"}')" ]; }
wait_for "an end of a connection for each login" ended

# A session that stays. Its commands are the volume's.
mkfifo "$scratch/fifo"
"$RBLK" copy --name host-1:a+b - "$target/ram" < "$scratch/fifo" > "$scratch/copy" 2>&1 &
copy=$!
exec 7> "$scratch/fifo"
head -c 3000000 /dev/zero >&7
session() { get /metrics | grep 'rblk_session_written_bytes_total{session="[0-9]*",initiator="host-1:a+b",volume="ram"} [1-9]' > /dev/null; }
wait_for "the session's bytes" session
is 'rblk_volume_opens{volume="ram"}' 1
get /metrics > "$scratch/metrics"
count() { grep -F "$1" "$scratch/metrics" | awk '{ sum += $NF } END { print sum + 0 }'; }
[ "$(count "rblk_session_operations_total{")" = "$(count 'rblk_volume_operations_total{volume="ram"')" ] || fail "the session's operations"
[ "$(count "rblk_session_written_bytes_total{")" = "$(count 'rblk_volume_written_bytes_total{volume="ram"')" ] || fail "the session's bytes"
grep -qF 'kind="write",stage="both"' <(grep -F "rblk_session_latency_seconds_count" "$scratch/metrics") || fail "the session's latencies"
[ "$(count rblk_session_credits)" -gt 0 ] || fail "the session's credits"
[ "$(grep -c '^rblk_reactor_busy_seconds_total{' "$scratch/metrics")" = 2 ] || fail "two reactors"
awk -f "$here/exposition.awk" "$scratch/metrics" >&2 || fail "the format"
promtool=$("$here/../promtool" --present) || promtool=
[ -z "$promtool" ] || "$promtool" check metrics < "$scratch/metrics" >&2 || fail "promtool"
exec 7>&-
wait $copy || fail "the copy"
# What an initiator has done stays when its sessions have ended, and is all that was done. The last block was filled up.
is rblk_sessions 0
get /metrics > "$scratch/metrics"
[ "$(count 'rblk_session_')" = 0 ] || fail "a session has ended"
who='initiator="host-1:a+b",proven="no"'
is "rblk_initiator_written_bytes_total{$who}" 3000320
writes=$(metric 'rblk_volume_operations_total{volume="ram",operation="write"}')
[ "$writes" -gt 0 ] || fail "no writes"
is "rblk_initiator_operations_total{$who,operation=\"write\"}" "$writes"
for stage in queued stored both; do
	is "rblk_initiator_latency_seconds_count{$who,kind=\"write\",stage=\"$stage\"}" "$writes"
	is "rblk_initiator_latency_seconds_bucket{$who,kind=\"write\",stage=\"$stage\",le=\"+Inf\"}" "$writes"
done
for what in operations_total latency_seconds_count written_bytes_total read_bytes_total errors_total; do
	[ "$(count "rblk_initiator_$what{")" = "$(count "rblk_volume_$what{")" ] || fail "initiators' and volumes' $what differ"
done
# A second session goes on with the counts; an address has 16 names, and the others share one.
head -c 4096 /dev/zero > "$scratch/block"
expect 0 "$RBLK" copy --name host-1:a+b "$scratch/block" "$target/ram"
is "rblk_initiator_written_bytes_total{$who}" 3004416
for n in {1..20}; do expect 0 "$RBLK" copy --name "many-$n" "$scratch/block" "$target/ram"; done
is rblk_sessions 0
get /metrics > "$scratch/metrics"
[ "$(grep -c '^rblk_initiator_written_bytes_total{' "$scratch/metrics")" = 17 ] || fail "16 names, and the others"
# Two names were there before.
is 'rblk_initiator_written_bytes_total{initiator="many-14",proven="no"}' 4096
is 'rblk_initiator_written_bytes_total{initiator="(others)",proven="no"}' $((6 * 4096))

# -- the process, limits, reloads, fewer buckets ----------------------------------------------------

get /metrics > "$scratch/metrics"
value() { awk -v name="$1" 'index($0, name " ") == 1 { print $NF }' "$scratch/metrics"; }
above() { awk -v value="$(value "$1")" -v least="$2" 'BEGIN { exit !(value > least) }' || fail "$1: $(value "$1")"; }
above process_cpu_seconds_total 0
above process_resident_memory_bytes 1000000
above process_start_time_seconds 1700000000
above process_open_fds 5
[ "$(value process_max_fds)" = "$(ulimit -Sn)" ] || [ "$(value process_max_fds)" -ge 1024 ] || fail "process_max_fds"
[ "$(value rblk_sessions_max)" = 1152 ] && [ "$(value rblk_connections_max)" = 1152 ] || fail "limits"
[ "$(value 'rblk_volume_limit_iops{volume="ram"}')" = 0 ] || fail "no limit"
[ "$(value rblk_tls_failures_total)" = 0 ] && [ "$(value rblk_digest_failures_total)" = 0 ] || fail "failures"
full=$(grep -c 'rblk_volume_latency_seconds_bucket{volume="disk",kind="write",stage="both"' "$scratch/metrics")
[ "$full" = 24 ] || fail "$full buckets"
target_stop
cat > "$scratch/rblkd.conf" <<- END
	[target]
	histograms = few
	[volume ram]
	store = memory
	size = 4M
	limit_iops = 5000
	limit_rate = 50M
	[initiator host-*]
	address = 127.0.0.1
	write = ram
	limit_iops = 700
END
http_start --config "$scratch/rblkd.conf"
expect 0 "$RBLK" copy --digest --name host-1 "$scratch/block" "$target/ram"
is 'rblk_volume_written_bytes_total{volume="ram"}' 4096
get /metrics > "$scratch/metrics"
[ "$(value 'rblk_volume_limit_iops{volume="ram"}')" = 5000 ] || fail "limit_iops"
[ "$(value 'rblk_volume_limit_bytes_per_second{volume="ram"}')" = 52428800 ] || fail "limit_rate"
[ "$(value 'rblk_initiator_limit_iops{initiator="host-1",proven="no"}')" = 700 ] || fail "the initiator's limit"
[ "$(grep -c 'rblk_volume_latency_seconds_bucket{volume="ram",kind="write",stage="both"' "$scratch/metrics")" = 8 ] || fail "few buckets"
awk -f "$here/exposition.awk" "$scratch/metrics" >&2 || fail "the format"
[ "$(value rblk_last_reload_success)" = 1 ] || fail "it has begun well"
before=$(value rblk_last_reload_time_seconds)
cp "$scratch/rblkd.conf" "$scratch/good.conf"
echo nonsense >> "$scratch/rblkd.conf"
kill -HUP $target_pid
is rblk_last_reload_success 0
cp "$scratch/good.conf" "$scratch/rblkd.conf"
kill -HUP $target_pid
is rblk_last_reload_success 1
get /metrics > "$scratch/metrics"
above rblk_last_reload_time_seconds "$before"
target_stop
http_start --reactors 2 --session-time 1ms --cache buffered --memory ram=4M --fault fail=discard:1 "$scratch/disk"

# -- wrong requests --------------------------------------------------------------------------------

[ "$(code "$url/none")" = 404 ] || fail "another path"
[ "$(code -X POST -d x=1 "$url/metrics")" = 405 ] || fail "POST"
[ "$(code -X DELETE "$url/metrics")" = 405 ] || fail "DELETE"
[ "$(code -I "$url/metrics")" = 200 ] || fail "HEAD"
[ "$(code -H "X: $(head -c 100000 /dev/zero | tr '\0' a)" "$url/metrics")" != 200 ] || fail "a huge request"
[ "$(code "$url/$(head -c 60000 /dev/zero | tr '\0' a)")" != 200 ] || fail "a huge path"
# Only names that mean this machine, on a loopback address.
for host in localhost "localhost:$port" 127.0.0.1 '[::1]:80'; do
	[ "$(code -H "Host: $host" "$url/healthz")" = 200 ] || fail "Host: $host"
done
for host in rebound.example localhost.example "127.0.0.1.example:$port" '[::1' '[x]' ''; do
	[ "$(code -H "Host;" -H "Host: ${host:-x.}" "$url/metrics")" != 200 ] || fail "Host: $host is answered"
done
expect 0 curl -sS -D "$scratch/head" -o /dev/null --max-time 60 "$url/metrics"
for line in 'Content-Type: text/plain; version=0.0.4' 'X-Content-Type-Options: nosniff' "Content-Security-Policy: default-src 'none'"; do
	grep -qF "$line" "$scratch/head" || fail "no $line"
done

# -- slow clients, and a flood -----------------------------------------------------------------------

# What the copies of others have done is the same as ever, whoever asks meanwhile.
copied() { get /metrics | grep -F -e 'rblk_volume_operations_total{volume="disk"' -e 'rblk_volume_errors_total{volume="disk"' \
	-e '_bytes_total{volume="disk"' -e 'reason="lost"' -e 'reason="silent"' -e 'reason="violation"'; }
delta() { paste -d' ' "$1" "$2" | awk '{ print $1, $4 - $2 }'; }
# alone: nobody has asked meanwhile, so an answer is of before the copy or of after it.
alone() {
	copied > "$scratch/1"
	delta "$scratch/0" "$scratch/1" > "$scratch/alone"
	grep -qF 'rblk_volume_written_bytes_total{volume="disk"} 1000448' "$scratch/alone"
}
beside() {
	copied > "$scratch/2"
	delta "$scratch/1" "$scratch/2" > "$scratch/beside"
	diff "$scratch/alone" "$scratch/beside" > "$scratch/out" 2> "$scratch/err"
}
copied > "$scratch/0"
expect 0 "$RBLK" copy "$scratch/file" "$target/disk"
wait_for "the copy's counts" alone
# One that trickles is never silent, some are silent; more than may be of one address.
exec {trickle}<> "/dev/tcp/127.0.0.1/$port"
(trap '' PIPE; printf 'GET /metrics HTTP/1.1\r\nX: '; while printf x; do read -rt 1 <> <(:) || true; done) >&$trickle 2> /dev/null &
trickles=$!
for i in $(seq 6); do
	exec {fd}<> "/dev/tcp/127.0.0.1/$port"
	printf 'GET /met' >&$fd
	slow+=("$fd")
done
for i in 1 2 3; do curl -sS --max-time 120 "$url/metrics?[1-200]" > "$scratch/flood.$i" 2>&1 & floods+=($!); done
expect 0 "$RBLK" copy "$scratch/file" "$target/disk"
for pid in "${floods[@]}"; do wait "$pid" || fail "a scrape: $(tail -c 300 "$scratch"/flood.*)"; done
[ "$(cat "$scratch"/flood.* | grep -c '^rblk_build_info')" = 600 ] || fail "scrapes are missing"
wait_for "the same counts of a copy alone (<) and beside the flood (>)" beside
# Each is ended, and room is left for others.
for fd in "${slow[@]}"; do
	status=0
	read -rt 120 -u "$fd" || status=$?
	[ $status = 1 ] || fail "a silent client is not ended: $status"
	exec {fd}>&-
done
wait $trickles || true
exec {trickle}>&-
for i in $(seq 40); do exec {fd}<> "/dev/tcp/127.0.0.1/$port" || break; fds+=("$fd"); done
for fd in "${fds[@]}"; do exec {fd}>&-; done
healthy() { [ "$(code "$url/healthz")" = 200 ]; }
wait_for "room for a client" healthy
expect 0 "$RBLK" info "$target/disk"

# -- errors ------------------------------------------------------------------------------------------

expect 1 timeout 60 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state2" --control-socket none --require-all --http "$port" --memory m=1M
err_has "http: $port: Address already in use"
for wrong in here:80 127.0.0.1: 127.0.0.1:x 1:2:3 '[::1:80' 65536 -1 80x localhost:80; do
	expect 2 timeout 60 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state2" --control-socket none "--http=$wrong" --memory m=1M
	err_has "--http: \"$wrong\" is not [HOST:]PORT"
done
target_stop
http_start --cache buffered --fault fail=write:1 "$scratch/disk"
expect 1 "$RBLK" copy "$scratch/file" "$target/disk"
errors() { local got; got=$(metric 'rblk_volume_errors_total{volume="disk",error="io"}'); [ "$got" -ge 1 ]; }
wait_for "the errors" errors
is 'rblk_volume_written_bytes_total{volume="disk"}' 0

# While it drains, it is not ready: a session without an end keeps it.
target_stop
http_start --drain-time 60s --cache buffered --fault delay=write:60s "$scratch/disk"
"$RBLK" copy "$scratch/file" "$target/disk" > /dev/null 2>&1 &
copy=$!
busy() { [ "$(metric 'rblk_volume_outstanding_commands{volume="disk"}')" -gt 0 ]; }
wait_for "a write" busy
kill -TERM $target_pid
draining() { [ "$(code "$url/readyz")" = 503 ]; }
wait_for "the drain" draining
kill -KILL $copy 2> /dev/null || true
wait $copy 2> /dev/null || true
target_stop -KILL
[ -n "$promtool" ] || no_tool "promtool (tests/promtool gets it): names were checked by exposition.awk alone"

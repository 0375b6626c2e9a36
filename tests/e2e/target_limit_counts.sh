#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the commands that had to wait for a limit are counted, and how long they waited: for the volume and for the session,
# the same in rblkctl and in /metrics; without a limit both are 0. A name has one limit, from however many addresses its
# sessions come, and each session has counts of its own. Method: commands at a limit of one a second, of which the first goes
# at once and all others wait until the limit is removed.
. "$(dirname "$0")/cmd.sh"
command -v curl > /dev/null || no_tool curl
cd "$scratch"
socket=$scratch/control
ctl() { expect 0 "$RBLKCTL" "$1" --socket "$socket" "${@:2}"; }
# volume NAME FILTER: is that so, of what rblkctl says of it?
volume() {
	"$RBLKCTL" volumes --socket "$socket" --json |
		jq -e --arg name "$1" ".volumes[] | select(.volume == \$name) | $2" > json
}

cat > rblkd.conf <<-END
	[volume slow]
	store = memory
	size = 8M
	[volume free]
	store = memory
	size = 8M
	[initiator guest]
	address = local
	write = *
	[initiator host]
	address = local
	write = *
END
head -c 1M /dev/urandom > data
target_start --config rblkd.conf --control-socket "$socket" --http 0 --reactors 1 --session-time 1ms --memory-lock=no \
	--listen 'rblk+tcp://[::1]:0'
ctl status --json
target=$(jq -r '.addresses[] | select(contains("127.0.0.1"))' out)
target6=$(jq -r '.addresses[] | select(contains("[::1]"))' out)
url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' target.log)
# An answer may be a tenth of a second old.
metrics_are() { curl -sS --max-time 60 "$url/metrics" > metrics && awk -v name="$1" -v value="$2" \
	'index($0, name " ") == 1 && $NF == value { found = 1 } END { exit !found }' metrics; }

# -- a volume's limit --------------------------------------------------------------------------------

ctl set volume slow limit_iops=1 limit_burst=20ms
"$RBLK" copy --chunk 4k --name guest data "$target/slow" > copy.log 2>&1 &
copy=$!
# While some wait, those that come wait, too.
all_but_one() { volume slow '.outstanding > 8 and .limited_commands == (.operations | add) + .outstanding - 1'; }
wait_for "all but the first to be counted" all_but_one
expect 0 "$RBLK" copy --chunk 4k --name host data "$target/free"
ctl set volume slow limit_iops=0
wait $copy || fail "$(cat copy.log)"
all_have_waited() { volume slow '.opens == 0 and .limited_commands > 8 and .limited_ns > 0'; }
wait_for "what has waited to be counted" all_have_waited
waited=$("$RBLKCTL" volumes --socket "$socket" --json | jq '.volumes[] | select(.volume == "slow") | .limited_commands')
waited_ns=$("$RBLKCTL" volumes --socket "$socket" --json | jq '.volumes[] | select(.volume == "slow") | .limited_ns')
# The limit is gone, and what was counted stays, without the session.
expect 0 "$RBLK" copy --chunk 4k --name guest data "$target/slow"
copied() { volume slow ".written_bytes == 2097152 and .opens == 0"; }
wait_for "the second copy's end" copied
volume slow ".limited_commands == $waited and .limited_ns == $waited_ns" || fail "without a limit something has waited"
written() { volume free '.written_bytes == 1048576'; }
wait_for "the counts of the other volume" written
volume free '.limited_commands == 0 and .limited_ns == 0' || fail "the other volume has no limit"
wait_for "the metric of commands" metrics_are 'rblk_volume_limited_commands_total{volume="slow"}' "$waited"
seconds=$(awk -v ns="$waited_ns" 'BEGIN { printf "%.9g", ns / 1e9 }')
metrics_are 'rblk_volume_limited_seconds_total{volume="slow"}' "$seconds" || fail "the metric of their time is not $seconds"
grep -q '^rblk_volume_latency_seconds_sum{volume="slow",kind="write",stage="queued"} .*[1-9]' metrics ||
	fail "the wait is no part of a command's time"
grep -q '^rblk_volume_latency_seconds_sum{volume="free",kind="write",stage="queued"} 0$' metrics ||
	fail "the other volume's writes have waited"
metrics_are 'rblk_volume_limited_commands_total{volume="free"}' 0 || fail "the other volume's metric"
metrics_are 'rblk_volume_limited_seconds_total{volume="free"}' 0 || fail "the other volume's metric of time"
curl -sS --max-time 60 "$url/status.json" | jq -e --argjson waited "$waited" '.volumes[] | select(.volume == "slow") |
	.limited_commands == $waited' > json || fail "what the page asks for"
ctl volumes
out_has LIMITED
grep -q "^slow .* $waited  *[0-9.]*[mu]*s  ok\$" out || fail "the table"

# -- an initiator's limit ----------------------------------------------------------------------------

# Two at work with one volume, of which one has a limit: sessions that stay.
mkfifo guest host
for name in guest host; do
	"$RBLK" copy --no-verify --chunk 4k --name $name - "$target/free" < $name > $name.log 2>&1 &
	copies+=($!)
done
exec 7> guest 8> host
ctl set initiator guest limit_iops=20 limit_burst=20ms
head -c 1000000 data >&8
head -c 40000 data >&7 # what a pipe holds
(while head -c 4096 data >&7; do :; done) 2> /dev/null &
load=$!
row() { "$RBLKCTL" top --socket "$socket" --json --interval 500ms --count 1 |
	jq -e '.rows | any(.initiator == "guest" and .volume == "free" and .limited_per_s > 0 and .limited_ns_per_s > 0) and
	all(.initiator == "guest" or (.limited_per_s == 0 and .limited_ns_per_s == 0))' > json; }
wait_for "a row with waits" row
ctl top --interval 100ms --count 1
out_has LIMITED
session() { curl -sS --max-time 60 "$url/metrics" > metrics &&
	grep -q '^rblk_session_limited_commands_total{session="[0-9]*",initiator="guest",volume="free"} [1-9]' metrics &&
	grep -q '^rblk_session_limited_seconds_total{session="[0-9]*",initiator="guest",volume="free"} [0-9]' metrics &&
	grep -q '^rblk_session_written_bytes_total{session="[0-9]*",initiator="host",volume="free"} [1-9]' metrics; }
wait_for "the metrics of the session" session
if grep '^rblk_session_limited_.*initiator="host"' metrics; then fail "the other initiator has no limit"; fi
count() { awk -v name="$1" 'index($0, name) == 1 { sum += $NF } END { print sum + 0 }' metrics; }
[ "$(count 'rblk_session_limited_commands_total{')" = "$(count 'rblk_volume_limited_commands_total{volume="free"}')" ] ||
	fail "the volume's waits are those of its sessions"
kill $load || fail "the load has ended"
wait $load 2> /dev/null || true
ctl set initiator guest limit_iops=0
exec 7>&- 8>&-
for pid in "${copies[@]}"; do wait "$pid" || fail "a copy: $(cat guest.log host.log)"; done

# -- one name, two addresses -------------------------------------------------------------------------

closed() { volume free '.opens == 0'; }
wait_for "the end of the sessions" closed
before=$("$RBLKCTL" volumes --socket "$socket" --json |
	jq '.volumes[] | select(.volume == "free") | (.operations | add) - .limited_commands')
ctl set initiator guest limit_iops=1 limit_burst=20ms
"$RBLK" copy --chunk 4k --name guest data "$target/slow" > one.log 2>&1 &
one=$!
some_wait() { volume slow ".outstanding > 8 and .limited_commands > $waited + 8"; }
wait_for "commands from one address that wait" some_wait
"$RBLK" copy --chunk 4k --name guest data "$target6/free" > two.log 2>&1 &
two=$!
# None goes at once: what the name may do, it does at the other address.
all_of_them() { volume free ".outstanding > 8 and (.operations | add) + .outstanding - .limited_commands == $before"; }
wait_for "all commands from the other address to be counted" all_of_them
ctl sessions --json
jq -e '[.sessions[] | select(.initiator == "guest") | .peer] |
	length == 2 and any(startswith("127.0.0.1")) and any(contains("::1"))' out > json ||
	fail "a session for each address: $(cat out)"
curl -sS --max-time 60 "$url/metrics" > metrics
[ "$(grep -c '^rblk_session_limited_commands_total{session="[0-9]*",initiator="guest",volume="[a-z]*"} [1-9]' metrics)" = 2 ] ||
	fail "counts for each session"
# Who ends the name's sessions ends those of all its addresses; they come back, and go on.
ctl kick guest --json
jq -e '.sessions | length == 2' out > json || fail "kicked: $(cat out)"
ctl set initiator guest limit_iops=0
wait $one || fail "$(cat one.log)"
wait $two || fail "$(cat two.log)"
target_stop

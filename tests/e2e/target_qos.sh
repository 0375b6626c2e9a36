#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Limits of volumes and initiators hold, and change while programs wait for them; others are not limited. Method: a
# copy of many small pieces takes at least as long as its limit says (never: at most), and goes on at once when the
# limit is removed; what waits can be aborted, and its connection can end. unit.target_limit has the exact figures.
. "$(dirname "$0")/cmd.sh"
cd "$scratch"
socket=$scratch/control
asked() { local status=$1 verb=$2; shift 2; expect "$status" "$RBLKCTL" "$verb" --socket "$socket" "$@"; }
ms() { date +%s%3N; }

head -c 1M /dev/urandom > data
cat > rblkd.conf <<-END
	[volume slow]
	store = memory
	size = 8M
	limit_iops = 200
	[volume free]
	store = memory
	size = 8M
	[volume disk]
	path = $scratch/disk
	cache = buffered
	limit_rate = 1M
	[initiator *]
	address = local
	write = *
END
truncate -s 8M disk
target_start --config rblkd.conf --control-socket "$socket" --reactors 2 --session-time 1ms --memory-lock=no

# copied LEAST FROM TO OPTION...: it takes at least so many milliseconds.
copied() {
	local least=$1 from=$2 to=$3 begin end
	shift 3
	begin=$(ms)
	expect 0 "$RBLK" copy "$@" "$from" "$to"
	end=$(ms)
	[ $((end - begin)) -ge "$least" ] || fail "$to: $((end - begin)) ms, not $least"
}
# 256 pieces at 200 a second, of which 20 and a few bought in advance may go at once.
copied 1000 data "$target/slow" --chunk 4k
expect 0 "$RBLK" copy --size 1M --chunk 256k "$target/slow" back
cmp data back || fail "the data"
# A megabyte a second, of which a tenth may go at once; in capsules and without.
copied 700 data "$target/disk" --chunk 4k
copied 700 data "$target/disk" --chunk 256k
expect 0 "$RBLK" copy --size 1M "$target/disk" back
cmp data back || fail "the data"

# -- live ------------------------------------------------------------------------------------------

asked 1 set volume slow limit_iops=many
err_has 'limit_iops: "many" is not a number from 0 to 10000000'
asked 0 set volume slow limit_iops=1
out_has 'in force'
# This would take minutes.
"$RBLK" copy --chunk 4k data "$target/slow" > copy.log 2>&1 &
copy=$!
waits() { "$RBLKCTL" sessions --socket "$socket" --json | jq -e 'any(.sessions[]; .outstanding > 8)' > json; }
wait_for "commands that wait" waits
# Another volume is not limited, nor is it when the waiting one is made free.
expect 0 "$RBLK" copy data "$target/free"
asked 0 set volume slow limit_iops=
wait $copy || fail "$(cat copy.log)"
expect 0 "$RBLK" copy --size 1M "$target/slow" back
cmp data back || fail "the data"

# An initiator's limit is for it alone, and for whatever it does.
asked 1 add initiator guest address=local write='*' weight=0
err_has 'weight: "0" is not a number from 1 to 100'
asked 0 add initiator guest address=local write='*' weight=3 limit_iops=200 limit_burst=50ms
asked 0 set volume disk limit_rate=0
copied 1000 data "$target/free" --chunk 4k --name guest
"$RBLK" copy --chunk 4k --name guest data "$target/disk" > copy.log 2>&1 &
copy=$!
expect 0 "$RBLK" copy --chunk 4k --name host data "$target/disk"
wait $copy || fail "$(cat copy.log)"

# -- ends ------------------------------------------------------------------------------------------

# A program that is killed, and one that is kicked, while their commands wait; then the daemon ends in order.
asked 0 set initiator guest limit_iops=1
"$RBLK" copy --chunk 4k --name guest data "$target/disk" > copy.log 2>&1 &
copy=$!
wait_for "commands that wait" waits
kill -KILL $copy
wait $copy 2> /dev/null || true
gone() { "$RBLKCTL" sessions --socket "$socket" --json | jq -e 'all(.sessions[]; .initiator != "guest")' > json; }
wait_for "its end" gone
"$RBLK" copy --chunk 4k --name guest data "$target/disk" > copy.log 2>&1 &
copy=$!
wait_for "commands that wait" waits
asked 0 kick guest
asked 0 set initiator guest limit_iops=0
wait $copy || fail "$(cat copy.log)"
cmp -n 1048576 data disk || fail "the data"

# A volume that is removed does not wait for them: its path would wait for it, for hours here, were there not the
# program's 30 s for a command.
asked 0 set initiator guest limit_rate=1
"$RBLK" copy --chunk 4k --name guest --give-up 500ms data "$target/disk" > copy.log 2>&1 &
copy=$!
wait_for "commands that wait" waits
asked 0 remove volume disk --force
asked 0 add volume again path="$scratch/disk" cache=buffered lock_wait=10s
wait $copy && fail "a copy to a volume that is gone"
expect 0 "$RBLK" copy --size 1M "$target/again" back
cmp data back || fail "the data"

# What waits while its volume becomes smaller does not make its file grow again.
asked 0 set initiator guest limit_rate=0
asked 0 set volume again limit_rate=1 limit_burst=20ms
"$RBLK" copy --chunk 4k --name guest data "$target/again" > copy.log 2>&1 &
copy=$!
wait_for "commands that wait" waits
# But for the first, of each reactor, all wait.
truncate -s 64k disk
asked 0 set volume again allow_shrink=yes
log_has 'volume again: now 64 KiB in blocks of 512 bytes'
asked 0 set volume again limit_rate=0
wait $copy && fail "a copy beyond the volume's end"
[ "$(stat -c %s disk)" = 65536 ] || fail "the file has grown: $(stat -c %s disk)"
target_stop
grep -q 'stopped$' target.log || fail "no orderly end"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rblk top shows what other processes do by librblk, exactly, and nothing of those that do not publish it. Method: a copy
# whose input this script feeds, so that its session lasts and its bytes are known; a target that goes away; a killed
# program; a folder with things that are no pages; terminals of several widths. JSON is checked against the schema.
. "$(dirname "$0")/cmd.sh"
here=$(dirname "$0")
pages=$scratch/pages
mkdir "$pages"
copy='' top=''
stop() {
	for pid in $copy $top; do kill -KILL "$pid" 2> /dev/null || true; done
	target_stop
	rm -rf "$scratch"
}
trap stop EXIT

# is_top FILE: each of its objects is what the schema says.
is_top() {
	local wrong
	wrong=$(jq -r --slurpfile schema "$here/../../initiator/cmd/rblk.schema.json" --arg object top -f "$here/json_schema.jq" "$1") ||
		fail "not JSON"
	[ -z "$wrong" ] || fail "$wrong"
}
# shows FILTER [OPTION...]: the next table, as JSON, is so.
shows() {
	local filter=$1
	shift
	"$RBLK" top --json --count 1 --interval 100ms --folder "$pages" "$@" > "$scratch/table" 2> "$scratch/err" &&
		jq -e "$filter" "$scratch/table" > /dev/null
}
count_is() { [ "$(find "$pages" -name 'librblk.*' | wc -l)" = "$1" ]; }

truncate -s 1G "$scratch/disk"
target_start --cache buffered --memory ram=256M "$scratch/disk"

# -- nothing, unless it is asked for ---------------------------------------------------------------

expect 0 "$RBLK" top --count 1 --interval 100ms --folder "$pages"
[ "$(sed -n '2,$p' "$scratch/out")" = "$(printf 'no program publishes in this folder\n')" ] || fail "no rows"
expect 0 "$RBLK" top --json --count 1 --interval 100ms --folder "$pages"
is_top "$scratch/out"
json_is '.uses == [] and .elapsed_ns > 0'
# A folder that is not there is mistyped, perhaps: nobody publishes there.
expect 1 "$RBLK" top --count 1 --interval 100ms --folder "$scratch/none"
err_has "$scratch/none: No such file or directory"
expect 1 "$RBLK" top --json --count 1 --interval 100ms --folder "$scratch/none"
json_is '.errors | length == 1'
expect 1 "$RBLK" top --json --count 1 --interval 100ms --folder "$scratch/disk"
json_is '.errors | length == 1'
# What only the environment asks for, and cannot be, is no error.
for folder in "$scratch/none" no wrong ''; do
	expect 0 env "RBLK_STATISTICS=$folder" "$RBLK" info "$target/ram"
done

# -- what is counted -------------------------------------------------------------------------------

mkfifo "$scratch/fifo"
RBLK_STATISTICS=$pages "$RBLK" copy --quiet --chunk 64k --no-verify --give-up 1h - "$target/disk" < "$scratch/fifo" \
	> /dev/null 2> "$scratch/copy.err" &
copy=$!
exec 7> "$scratch/fifo"
wait_for "the session's row" shows '.uses | length == 1 and .[0].volume == "disk" and .[0].state == "live"'
jq -e --arg uri "$target/disk" ".uses[0] | .program == \"rblk\" and .pid == $copy and .uri == \$uri and .device == null and .peer == null" \
	"$scratch/table" > /dev/null || fail "who it is: $(cat "$scratch/table")"
[ "$(stat -c %a "$pages"/librblk.*)" = 600 ] || fail "others may read it"
"$RBLK" top --json --interval 100ms --folder "$pages" > "$scratch/all" 2> "$scratch/err" &
top=$!
first() { [ -s "$scratch/all" ]; }
wait_for "the first table" first
head -c 8388608 /dev/urandom >&7
all() { jq -se '[.[].uses[]] | (map(.written_bytes) | add) == 8388608 and (map(.writes) | add) == 128 and (map(.failures) | add) == 0 and
	any(.p50_ns != null and .p50_ns <= .p99_ns and .average_ns > 0)' "$scratch/all" > /dev/null 2>&1; }
wait_for "8 MiB in all tables together" all
kill "$top"
wait "$top" || true
top=
is_top "$scratch/table"
shows '.uses == []' --filter nobody || fail "the filter"
shows '.uses | length == 1' --filter "[$copy]" || fail "the filter, of a process"

# For people.
expect 0 "$RBLK" top --interval 100ms --count 2 --folder "$pages"
[ "$(grep -c '^USER' "$scratch/out")" = 2 ] || fail "two tables"
out_has "rblk[$copy]"
top_on_terminals USER "'$RBLK' top --folder '$pages'"

# -- a lost target, a killed program ---------------------------------------------------------------

target_stop
wait_for "the lost connection" shows '.uses[0].state == "recovering"'
head -c 65536 /dev/zero >&7
wait_for "a command that waits" shows '.uses[0] | .state == "recovering" and .outstanding >= 1'
count_is 1 || fail "one page"
kill -KILL "$copy"
wait "$copy" 2> /dev/null || true
copy=
exec 7>&-
# What is no page is neither read nor removed.
mkfifo "$pages/librblk.1.0"
ln -s "$scratch/disk" "$pages/librblk.1.1"
mkdir "$pages/librblk.1.2"
echo short > "$pages/librblk.1.3"
echo other > "$pages/other"
shows '.uses == []' || fail "a killed program"
[ "$(find "$pages" -mindepth 1 | wc -l)" = 5 ] || fail "its page is still there, or more is gone"
# A folder that goes later, as a service's does, does not end a table that is there.
"$RBLK" top --json --interval 100ms --folder "$pages" > "$scratch/later" 2> "$scratch/err" &
top=$!
later() { [ -s "$scratch/later" ]; }
wait_for "the first table" later
rm -r "$pages"
tables=$(wc -l < "$scratch/later")
more() { [ "$(wc -l < "$scratch/later")" -gt $((tables + 2)) ]; }
wait_for "more tables" more
kill "$top"
wait "$top" || true
top=

# -- the usual folder, and an orderly end ----------------------------------------------------------

pages=$scratch/run/rblk
mkdir "$scratch/run"
target_start --memory ram=256M
XDG_RUNTIME_DIR=$scratch/run RBLK_STATISTICS=yes "$RBLK" copy --quiet --no-verify - "$target/ram" < "$scratch/fifo" > /dev/null 2>&1 &
copy=$!
exec 7> "$scratch/fifo"
usual() { XDG_RUNTIME_DIR=$scratch/run "$RBLK" top --json --count 1 --interval 100ms --filter "rblk[$copy]" | jq -e '.uses[0].volume == "ram"' \
	> "$scratch/json" 2> "$scratch/err"; }
wait_for "the row in the usual folder" usual
exec 7>&-
wait "$copy" || fail "the copy"
copy=
count_is 0 || fail "a page outlives its session"

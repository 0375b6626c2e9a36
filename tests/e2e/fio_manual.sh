#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The engine's manual has the options that the engine has, with their defaults, and the keys that it writes. Method:
# fio prints the engine's table of options; a run prints the keys.
. "$(dirname "$0")/cmd.sh"
manual=$(dirname "$0")/../../initiator/man/rblk-fio.1.scd

# manual_words HEADING: the first word of each entry of the section.
manual_words() {
	awk -v want="# $1" '/^# / { on = $0 == want } on && /^\*/' "$manual" | sed -E 's/^\*([a-z_]+)\*.*/\1/' | sort
}
expect 0 fio "--enghelp=$RBLK_FIO_ENGINE"
sed -E 's/ .*//' "$scratch/out" | sort > "$scratch/has"
grep -q '^rblk_uri$' "$scratch/has" || fail "the engine's options"
manual_words OPTIONS | diff "$scratch/has" - >&2 || fail "the engine has (<) and the manual has (>)"
while read -r option; do
	expect 0 fio "--enghelp=$RBLK_FIO_ENGINE,$option"
	default=$(sed -nE 's/^ *default: (.*)/\1/p' "$scratch/out" | sed 's/^no default$//')
	[ -z "$default" ] || grep -qF "Default: $default." < <(awk -v want="*$option*" '/^\*/ { on = index($0, want) == 1 } on' "$manual" |
		tr -s '\n\t' ' ') || fail "$option: its default is $default"
done < "$scratch/has"

target_start --memory ram=1M
expect 0 fio --name=one --ioengine="external:$RBLK_FIO_ENGINE" --rblk_uri="$target/ram" --thread --rw=write --bs=4k \
	--size=64k --rblk_stats="$scratch/stats"
jq -r 'keys[]' "$scratch/stats" > "$scratch/keys"
manual_words STATISTICS | diff "$scratch/keys" - >&2 || fail "the engine writes (<) and the manual has (>)"

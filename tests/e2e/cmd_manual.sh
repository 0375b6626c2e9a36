#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The manual and the command have the same verbs and options. Method: each verb's --help comes from
# its option table; the manual's source has the verb's options under the verb's heading, those of the
# verbs that it names there under CONNECTING, and those of all verbs under DESCRIPTION.
. "$(dirname "$0")/cmd.sh"
manual=$(dirname "$0")/../../initiator/man/rblk.1.scd

# manual_options HEADING: the options of that section, one per line.
manual_options() {
	awk -v want="# $1" '/^# / { on = $0 == want } on && /^\*-/' "$manual" |
		grep -oE -- '--[a-z-]+' | sort
}
common=$(manual_options DESCRIPTION)
[ -n "$common" ] || fail "the manual's common options"
connecting=$(manual_options CONNECTING)
connectors=$(awk '/^# / { on = $0 == "# CONNECTING" } on && /^$/ { if (seen) exit } on && /^\*[a-z]/ { seen = 1 } seen' \
	"$manual" | grep -oE '\*[a-z]+\*' | tr -d '*')
[ -n "$connecting" ] && [ -n "$connectors" ] || fail "the manual's options of a connection"

expect 0 "$RBLK" --help
verbs=$(sed -nE 's/^  ([a-z]+) .*/\1/p' "$scratch/out")
for verb in $verbs; do
	grep -q "^\*rblk $verb\*" "$manual" || fail "the manual's synopsis lacks $verb"
	case $verb in help | version) continue ;; esac
	expect 0 "$RBLK" "$verb" --help
	sed -nE 's/^  (-[a-zA-Z],|   ) (--[a-z-]+).*/\2/p' "$scratch/out" | sort > "$scratch/has"
	[ -s "$scratch/has" ] || fail "$verb --help shows no options"
	# The second of two options of one name could never be given.
	twice=$(uniq -d "$scratch/has"; sed -nE 's/^  (-[a-zA-Z]),.*/\1/p' "$scratch/out" | sort | uniq -d)
	[ -z "$twice" ] || fail "$verb has two options " $twice
	shared=
	if grep -qx "$verb" <<< "$connectors"; then shared=$connecting; fi
	printf '%s\n' "$common" "$shared" "$(manual_options "${verb^^}")" | sed '/^$/d' | sort > "$scratch/told"
	diff "$scratch/has" "$scratch/told" >&2 || fail "$verb: --help has (<) and the manual has (>)"
done
for verb in $connectors $(sed -nE 's/^\*rblk ([a-z]+)\*.*/\1/p' "$manual"); do
	grep -qw "$verb" <<< "$verbs" || fail "the manual has $verb, the command has not"
done

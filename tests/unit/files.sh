#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: every file opens with what it owns, and these comments are the only list of files. Method: makes the list, in
# Markdown: of the sources of each folder the first sentence of the opening comment, a .c and its .h in one line with
# the header's. Fails if a file has no such comment, or one of one word, or is too long, or its lines are. (A .c may leave the
# comment to its .h.)
#   files.sh FOLDER [LIST]      FOLDER is the project's; LIST is written (default: nowhere)
set -euo pipefail
cd "$1"

list=$(mktemp)
trap 'rm -f "$list"' EXIT
{
	echo "# Files, by folder"
	find proto target initiator kmod tests \( -name build -o -name .git -o -name mutants \) -prune -o \
		-type f \( -name '*.[ch]' -o -name '*.sh' -o -perm -u+x \) -print0 | LC_ALL=C sort -z |
		xargs -0 awk 'FNR == 1 { printf "\f%s\n", FILENAME } FNR <= 40' | tr -d '\000' | awk '
	function first_sentence(text,  at) {
		gsub(/[ \t]+/, " ", text)
		# Up to a full stop before a new sentence; not the one of "e.g.", nor of the name of a file.
		at = match(text, /[^.A-Z][.:] ([A-Z]|$)/)
		return at > 14 ? substr(text, 1, at) : text
	}
	function end_file(  folder, name, key, text) {
		if (file == "") return
		sub(/^ +/, "", words)
		text = first_sentence(words)
		folder = name = file
		sub(/\/[^\/]*$/, "", folder); sub(/.*\//, "", name)
		key = name; sub(/\.[ch]$/, "", key); key = folder "/" key
		if (!(key in names)) { order[++count] = key; in_folder[key] = folder }
		# The .c comes first; the header says what it is for.
		if (split(text, word, " ") > 1) told[key] = text
		names[key] = names[key] (names[key] ? ", " : "") "`" name "`"
	}
	/^\f/ { end_file(); file = substr($0, 2); words = ""; state = 0; next }
	state == 2 { next }
	state == 0 && (/^#!/ || /SPDX-License-Identifier/ || /^$/) { next }
	# C: the first comment; a script: the lines that begin with #.
	state == 0 && /^\/\*/ { state = 1; c = 1 }
	state == 0 && /^#( |$)/ { state = 1; c = 0 }
	state == 0 { state = 2; next }
	c {
		line = $0
		end = sub(/ *\*\/.*/, "", line)
		sub(/^\/\*+ ?|^ \* ?/, "", line)
		if (line ~ /^ *\*?$/ && words != "" || line ~ /^  /) state = 2; else words = words " " line
		if (end) state = 2
		next
	}
	{
		if (!/^# /) { state = 2; next }
		line = substr($0, 3)
		if (line ~ /^ /) state = 2; else words = words " " line
	}
	END {
		end_file()
		for (i = 1; i <= count; i++) {
			key = order[i]
			if (!(key in told)) { print names[key] ": does not open with what it owns" > "/dev/stderr"; failed = 1 }
			if (in_folder[key] != folder) { folder = in_folder[key]; print "\n## " folder "\n\n| file | owns |\n|---|---|" }
			gsub(/\|/, "\\|", told[key])
			print "| " names[key] " | " told[key] " |"
		}
		exit failed
	}'
} > "$list"
# One sitting: no source has more than 600 lines, but for the library's header, which is its reference.
long=$(find proto target initiator kmod tests \( -name build -o -name .git \) -prune -o -name '*.[ch]' ! -path initiator/rblk.h \
	-exec wc -l {} + | awk '$1 > 600 && $2 != "total"')
[ -z "$long" ] || { echo "more than 600 lines:"; echo "$long"; exit 1; }
# The columns of .clang-format, a tab being eight of them. Some lines are longer from before this was checked: there may be
# no more of them, and the number is to fall. (The module's: unit.kmod_rules.)
limit=$(sed -n 's/^ColumnLimit: //p' .clang-format)
wide=$(find proto target initiator tests \( -name build -o -name .git \) -prune -o -name '*.[ch]' -exec expand {} + |
	awk -v limit="$limit" 'length > limit' | wc -l)
most=660
[ "$wide" -le $most ] || { echo "$wide lines of C have more than $limit columns, and at most $most may"; exit 1; }
count=$(grep -c '^| `' "$list")
[ "$count" -gt 500 ] || { echo "only $count files found"; exit 1; }
[ $# = 1 ] || cp "$list" "$2"
echo "$count files"

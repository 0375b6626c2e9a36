#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: folders are rooms, and includes go down only. Method: read the #include lines of all sources. A file may
# include files of its own room and of rooms that rooms.list allows. Inside a room, includes form no circle, except
# the circles that rooms.list names with a reason. A listed circle that no longer exists is an error, too; a room that
# may include all (tests) may have any. A .c and the .h of the same name are one file here. Expects the project's
# folder as the argument; with a second one, that list instead of rooms.list.
set -euo pipefail

list=$(realpath -e "${2:-$(dirname "$0")/rooms.list}")
cd "$1"

find proto target initiator kmod tests \( -name build -o -name .git \) -prune -o -name '*.[ch]' -print | sort |
	xargs grep -H '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' |
	awk -v list="$list" '
	function folder(path) { return sub(/\/[^\/]*$/, "", path) ? path : "." }
	function stem(path) { gsub(/.*\/|\.[ch]$/, "", path); return path }
	# The room of the file: the longest path in the list that contains it.
	function room_of(path,  at) {
		for (at = folder(path); at != "." && !(at in floors); at = folder(at)) ;
		return at
	}
	function fail(text) { print text; failed = 1 }
	BEGIN {
		while ((getline line < list) > 0) {
			if (line ~ /^(#|$)/) continue
			count = split(line, word, " ")
			if (word[1] == "room") {
				floors[word[2]] = " "
				for (i = 3; i <= count; i++) floors[word[2]] = floors[word[2]] word[i] " "
			} else if (word[1] == "header") {
				header[word[2] " " word[3]] = 1
			} else if (word[1] == "circle") {
				names = line
				gsub(/^circle [^ ]+ |:.*/, "", names)
				circle[word[2] ": " names] = 1
				if (line !~ /: [a-zA-Z]/) fail("rooms.list: a circle without a reason: " line)
			} else {
				fail("rooms.list: not understood: " line)
			}
		}
	}
	{
		split($0, part, "\"")
		file = $0
		sub(/:.*/, "", file)
		target = part[2] ~ /\// ? part[2] : folder(file) "/" part[2]
		from = room_of(file); to = room_of(target)
		includes++
		if (from == ".") { fail(file ": lies in no room of rooms.list"); next }
		if (to == ".") { fail(file ": includes " part[2] ", which lies in no room"); next }
		if (from == to) {
			a = stem(file); b = stem(target)
			if (a != b) { need[from, a, b] = 1; member[from, a] = member[from, b] = 1 }
		} else if (index(floors[from], " " to " ") == 0 && floors[from] !~ / \* / &&
			   !((file " " target) in header)) {
			fail(file ": includes " target ": an arrow from " from " to " to)
		}
	}
	END {
		if (includes < 500) fail("only " includes " includes found")
		for (key in member) { split(key, k, SUBSEP); files[k[1]] = files[k[1]] " " k[2] }
		for (room in files) {
			if (floors[room] ~ / \* /) continue
			n = split(files[room], name, " ")
			delete reach
			for (key in need) { split(key, k, SUBSEP); if (k[1] == room) reach[k[2], k[3]] = 1 }
			for (m = 1; m <= n; m++) for (i = 1; i <= n; i++) if ((name[i], name[m]) in reach)
				for (j = 1; j <= n; j++) if ((name[m], name[j]) in reach) reach[name[i], name[j]] = 1
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && name[j - 1] > name[j]; j--) {
					swap = name[j]; name[j] = name[j - 1]; name[j - 1] = swap
				}
			delete done
			for (i = 1; i <= n; i++) {
				if (done[name[i]] || !((name[i], name[i]) in reach)) continue
				text = ""
				for (j = 1; j <= n; j++) if ((name[i], name[j]) in reach && (name[j], name[i]) in reach) {
					done[name[j]] = 1
					text = text (text ? " " : "") name[j]
				}
				found[room ": " text] = 1
				if (!((room ": " text) in circle)) fail("a circle that rooms.list does not name: " room ": " text)
			}
		}
		for (key in circle) if (!(key in found)) fail("rooms.list names a circle that does not exist: " key)
		count = 0
		for (key in found) count++
		print includes " includes, " count " circles"
		exit failed
	}'

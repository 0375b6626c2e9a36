#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: documents stay short, plain and right. Method: documents.list has each document's budget, and phrases that none may have;
# links lead to a file and to a heading in it; paths, tests, mutants and manuals that documents name exist, and so do the files
# that comments name, of sources, scripts and documents alike. Comments of the product begin with a subject.
#   documents.sh FOLDER      the project's
set -euo pipefail
list=$(dirname "$(realpath "$0")")/documents.list
cd "$1"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
wrong() { echo "$*"; failed=1; }

# prose FILE: its text; lines of code blocks are empty.
prose() { awk '/^```/ { code = !code; print ""; next } code || /^    / { print ""; next } { print }' "$1"; }
# anchors FILE: those of its headings, as GitHub makes them.
anchors() {
	prose "$1" | sed -nE 's/^#+ +//p' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g' |
		awk '{ print seen[$0]++ ? $0 "-" seen[$0] - 1 : $0 }'
}

declare -A anchors_of
anchor_exists() {
	[ -n "${anchors_of[$1]:-}" ] || anchors_of[$1]=$'\n'$(anchors "$1")$'\n'
	[[ ${anchors_of[$1]} == *$'\n'"$2"$'\n'* ]]
}

# check_budget FILE: it has one, and keeps it.
check_budget() {
	local lines words most most_words=''
	read -r most most_words < <(awk -v f="$1" '$1 == "lines" && $3 == f { print $2, $4 }' "$list") ||
		{ wrong "$1: has no budget in documents.list"; return; }
	lines=$(wc -l < "$1") words=$(wc -w < "$1")
	[ "$lines" -le "$most" ] || wrong "$1: $lines lines, $most at most"
	[ -z "$most_words" ] || [ "$words" -le "$most_words" ] || wrong "$1: $words words, $most_words at most"
}

check_links() {
	local link path anchor target folder=.
	[[ $1 != */* ]] || folder=${1%/*}
	while read -r link; do
		case $link in http://* | https://*) continue ;; esac
		path=${link%%#*} anchor=''
		[[ $link != *'#'* ]] || anchor=${link#*#}
		target=$1
		[ -z "$path" ] || target=$folder/$path
		[ -e "$target" ] || { wrong "$1: leads to $path, which does not exist"; continue; }
		[ -z "$anchor" ] || anchor_exists "$target" "$anchor" || wrong "$1: $target has no heading #$anchor"
	done < <(prose "$1" | grep -oE '\]\([^)]+\)' | sed 's/^](//; s/)$//')
}

# check_names FILE: between ` `, paths from a room's folder on; tests and mutants; and manuals, rblk(1).
check_names() {
	local name
	while read -r name; do
		case $name in
		*' '* | *'$'* | *'<'* | *NAME* | *JOB* | build/*) ;;
		proto/* | target/* | initiator/* | kmod/* | tests/* | fio-jobs/* | .ci/*)
			compgen -G "${name%%[#:]*}" > /dev/null || wrong "$1: names $name, which does not exist"
			;;
		unit.*) [ -e "tests/unit/${name#*.}.c" ] || [ -e "tests/unit/${name#*.}.sh" ] || test_exists "$1" "$name" ;;
		e2e.*) compgen -G "tests/e2e/${name#*.}.*" > /dev/null || test_exists "$1" "$name" ;;
		lab.*) test_exists "$1" "$name" ;;
		esac
	done < <({ prose "$1" | grep -oE '`[^`]+`' | tr -d '`' || true; }; prose "$1" | grep -oE '(^|[ (])(unit|e2e|lab)\.[a-z0-9_.-]*[a-z0-9_*-]' | tr -d ' (' || true)
	while read -r name; do
		[ -e "tests/sim/mutants/$name.patch" ] || wrong "$1: names the mutant $name, which does not exist"
	done < <(prose "$1" | grep -oE 'mutants? `[^;|.:]*' | grep -oE '`[a-z-]+`' | tr -d '`' || true)
	while read -r name; do
		compgen -G "*/man/${name%(*}.${name//[^0-9]/}.scd" > /dev/null || wrong "$1: names the manual $name, which does not exist"
	done < <(prose "$1" | grep -oE '(^|[^a-z0-9_])(rblk[a-z.-]*|librblk|nbdkit-rblk-plugin)\([1-8]\)' | sed -E 's/^[^a-z]//' || true)
}

# test_exists FILE NAME: a line of a CMakeLists.txt registers it: by its whole name, or without its kernel.
registered=$(grep -hv '^ *#' tests/*/CMakeLists.txt | tr - _)
test_exists() {
	local name=${2#*.}
	name=${name#promise_} name=${name%-6.1} name=${name%-backports} name=${name%%\**}
	name=${name//-/_}
	[[ $registered =~ [[:space:]\(.\"]$name([^a-z0-9]|$) ]] || wrong "$1: names the test $2, which does not exist"
}

# check_phrases FILE: a sentence may go over two lines, so lines are joined to paragraphs.
phrases=$(sed -n 's/^phrase //p' "$list" | paste -sd '|')
check_phrases() {
	local found
	found=$(prose "$1" | grep -v '^#' | awk '
		/^(\||- |[0-9]+\. |\*|$)/ || entry { print tolower(line); line = "" }
		{ entry = /^\*[^*]*\*($|,| | =)/; sub(/^(- |[0-9]+\. |\t+)/, ""); line = line (line ? " " : "") $0 }
		END { print tolower(line) }' | grep -oE -- "($phrases).{0,40}" || true)
	[ -z "$found" ] || wrong "$1: has a banned phrase: $found"
}

mapfile -t documents < <(find . \( -name build -o -name 'build-*' -o -name .git \) -prune -o -name '*.md' -print | sed 's|^\./||' | LC_ALL=C sort)
[ "${#documents[@]}" -ge 11 ] || wrong "only ${#documents[@]} documents found"
while read -r document; do [ -e "$document" ] || wrong "documents.list has $document, which does not exist"; done < <(
	awk '$1 == "lines" { print $3 }' "$list")
for document in "${documents[@]}"; do
	check_budget "$document"
	check_links "$document"
	check_names "$document"
	check_phrases "$document"
done
# Manuals have no budget; scdoc's text is much like Markdown.
for document in */man/*.scd; do
	check_phrases "$document"
	while read -r name; do test_exists "$document" "$name"; done < <(prose "$document" | grep -oE '_lab\.[a-z0-9.-]*[a-z0-9]_' | tr -d _ || true)
done

# check_comments FILE...: no comment begins with "What" or "Of", and so without a subject.
check_comments() {
	local found
	found=$(awk '
		FNR == 1 { begins = 0 }
		begins && /^[[:space:]]*\* (What|Of) / { print FILENAME ":" FNR ":" $0 }
		{ begins = /\/\*\*?[[:space:]]*$/ }
		/\/\*\*? ?(What|Of) / { print FILENAME ":" FNR ": " $0 }' "$@")
	[ -z "$found" ] || wrong "a comment without a subject: $found"
}
# check_files FILE...: names of files, in comments where FILE is not a document: they are those of the tree, with all of
# their folders or some. A path that does not begin with a room of ours is somebody else's.
check_files() {
	local found
	found=$(awk '
		function name(word,  first) {
			sub(/[.:]$/, "", word)
			if (word !~ /^[a-z0-9_][a-z0-9_\/.-]*\.(c|h|sh|pml|scd)$/ || word in tree) return
			first = word
			sub(/\/.*/, "", first)
			if (first == word || first in room) print FILENAME ":" FNR ": names " word ", which does not exist"
		}
		FILENAME == "-" {
			sub(/^\.\//, "")
			first = $0
			sub(/\/.*/, "", first)
			room[first]
			tree[$0]
			while (sub(/^[^\/]*\//, "")) tree[$0]
			next
		}
		FNR == 1 { document = FILENAME ~ /\.(md|scd)$/; source = FILENAME ~ /\.[ch]$/; comment = document }
		{
			line = $0
			if (!document && !source) { if (line !~ /^[ \t]*#/) next; comment = 1 }
			while (line != "") {
				if (!comment) {
					if (!(at = index(line, "/*"))) next
					line = substr(line, at + 2)
					comment = 1
				}
				text = line
				line = ""
				if (source && (at = index(text, "*/"))) { line = substr(text, at + 2); text = substr(text, 1, at - 1); comment = 0 }
				count = split(text, words, /[^A-Za-z0-9_.\/<>$*{}%+-]+/)
				for (i = 1; i <= count; i++) name(words[i])
			}
		}' - "$@" < "$scratch/tree")
	[ -z "$found" ] || wrong "$found"
}
find . \( -name build -o -name 'build-*' -o -name .git \) -prune -o -type f -print > "$scratch/tree"
mapfile -t commented < <(grep -IE '\.([chm]d?|sh|scd|pml|awk|jq|bt\.in|txt|cmake)$|/[a-z-]+$' "$scratch/tree" | grep -v '/corpus')
[ "${#commented[@]}" -ge 1000 ] || wrong "only ${#commented[@]} files with comments found"
check_files "${commented[@]}"

mapfile -t sources < <(find proto target initiator kmod \( -name build -o -name .git \) -prune -o -name '*.[ch]' -print)
[ "${#sources[@]}" -ge 500 ] || wrong "only ${#sources[@]} sources found"
check_comments "${sources[@]}"

# Would mistakes be found?
probe() {
	(failed=0; "$@" > "$scratch/found"; exit $failed) && wrong "nothing was found in: $(tr '\n' ' ' < "$scratch/probe.md")"
	true
}
cp "$list" "$scratch/list"
for mistake in '[a](nowhere.md)' '[a](probe.md#b)'; do
	echo "$mistake" > "$scratch/probe.md" && probe check_links "$scratch/probe.md"
done
for mistake in '`proto/nothing.c`' '`unit.unheard_of`' 'lab.unheard-of-6.1' 'mutants `nothing`' 'rblkx(1)'; do
	echo "$mistake" > "$scratch/probe.md" && probe check_names "$scratch/probe.md"
done
for mistake in '`nothing_such.h`' 'See proto/nothing_such.c.'; do
	echo "$mistake" > "$scratch/probe.md" && probe check_files "$scratch/probe.md"
done
for mistake in 'It ends. What waits is held.' '- Of two queues one is lost.' 'A robust daemon.' 'This is a TODO.'; do
	echo "$mistake" > "$scratch/probe.md" && probe check_phrases "$scratch/probe.md"
done
for mistake in '/* What waits is held. */' '\tint a; /* Of two, one. */' '/*\n * What waits is held.'; do
	echo -e "$mistake" > "$scratch/probe.md" && probe check_comments "$scratch/probe.md"
done
echo "${#documents[@]} documents"
exit $failed

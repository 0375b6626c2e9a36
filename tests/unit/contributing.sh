#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the commands of CONTRIBUTING.md work as they are written. Method: each line of its blocks is taken from the document, with
# this build in place of build/default, and run if that takes seconds; of longer ones presets, targets, labels,
# options and jobs are looked up. A command that this script does not know is an error.
#   contributing.sh FOLDER BUILD [guests]      FOLDER is the project's; guests: runs those that boot one, and no others
set -euo pipefail
build=$(realpath -e "$2") guests=${3:-}
cd "$1"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "CONTRIBUTING.md: $line: $*" >&2; exit 1; }
# runs COMMAND...: it ends with status 0.
runs() { "$@" > "$scratch/out" 2>&1 < /dev/null || { tail -n 20 "$scratch/out" >&2; fail "status $?"; }; }
has_option() {
	cat <(sed -n "/^#!/,/^set/p" "$1") <(sed -n "/^ROUNDS_HELP=/,/^rounds=/p" tests/bench/rounds.sh) > "$scratch/help"
	grep -qE -- "(^| |')$2( |,|\$)" "$scratch/help" || fail "$1 has no $2"
}

check() {
	local word
	case "$1 ${2:-}" in
	'cmake --preset')
		cmake --list-presets > "$scratch/presets"
		grep -q "\"$3\"" "$scratch/presets" || fail "there is no such preset"
		;;
	'cmake --build')
		[ "${4:-}" ] || return 0
		cmake --build "$3" --target help > "$scratch/targets"
		grep -qE "(^|[. ])$5(:|\$)" "$scratch/targets" || fail "there is no such target"
		;;
	'make -C') [ -e "$3/Makefile" ] || fail "no Makefile" ;;
	'ctest --test-dir')
		runs "$@" -N
		grep -qE '^Total Tests: [1-9]' "$scratch/out" || fail "there are no such tests"
		;;
	'tests/run '*)
		ctest --test-dir "$build" --print-labels > "$scratch/labels"
		for word in "${@:2}"; do grep -qxE " *$word" "$scratch/labels" || fail "there is no label $word"; done
		;;
	tests/lab/boot*)
		[ -x "$1" ] || fail "there is no $1"
		for word in "${@:2}"; do case $word in tests/*) [ -e "$word" ] || fail "there is no $word" ;; esac; done
		[ ! "$guests" ] || [[ " $* " == *" -i "* ]] || runs "$@"
		;;
	'tests/lab/debug-suite '*) for word in "${@:2}"; do [ -e "tests/lab/jobs/$word.sh" ] || fail "no job $word"; done ;;
	'tests/demo '* | 'tests/bench/compare '*)
		for word in "${@:2}"; do case $word in -*) has_option "$1" "$word" ;; esac; done
		;;
	'tests/sim/soak ') [ -x "$1" ] || fail "there is no $1" ;;
	"$build"/*) [ "$guests" ] || runs "$@" ;;
	'export RBLK_BUILD='*) export RBLK_BUILD=$build ;;
	*) fail "nothing here says how to check it" ;;
	esac
}

count=0
while IFS= read -r line <&3; do
	command=${line//build\/default/$build}
	command=${command//\/tmp\/out/$scratch/guest}
	command=$(sed -E 's/ +#.*//; s/\$PWD\///' <<< "$command")
	eval "words=($command)" 2> /dev/null || fail "not one command"
	check "${words[@]}"
	count=$((count + 1))
done 3< <(sed -n 's/^    //p' CONTRIBUTING.md)
[ "$count" -ge 20 ] || { echo "only $count commands found" >&2; exit 1; }
# Would mistakes be found? Each line is wrong.
while IFS= read -r line; do
	eval "words=(${line//build\/default/$build})"
	if (check "${words[@]}") > /dev/null 2>&1; then fail "nothing wrong was found here"; fi
done << 'WRONG'
cmake --preset fast
cmake --build build/default --target rblkx
ctest --test-dir build/default -R '^e2e.lib_ox$'
build/default/tests/unit/unit_wire_login_x
tests/run units
tests/lab/boot tests/lab/jobs/limit.sh
tests/demo --shall
tests/bench/compare -Z HEAD
tests/lab/debug-suite kmod_error
CMOCKA_TEST_FILTER=x build/default/tests/unit/unit_wire_login
WRONG
echo "$count commands"

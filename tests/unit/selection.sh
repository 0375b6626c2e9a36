#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: `tests/run`, `full` and `long` run what tests/README.md says of them, and no test is in none. Method: their dry
# runs (-n), compared with each other and with all tests that this build has. A folder that is configured for the first
# time, as in a fresh clone, has the same tests as one that is configured again.
#   selection.sh PROJECT BUILD    77: BUILD is not one of those that tests/run has
set -euo pipefail
project=$1 build=$(basename "$2")
[ "$2" = "$project/build/$build" ] || { echo "SKIPPED: selection: $2 is no build of tests/run" >&2; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $*" >&2; exit 1; }

# selected NAME ARGUMENT...: what `tests/run ARGUMENT...` has of this build, in the file NAME.
selected() { "$project/tests/run" -n "${@:2}" 2> /dev/null | sed -n "s/^$build //p" | sort > "$1"; [ -s "$1" ] || fail "$1: no test"; }
# none WORDS: nothing comes in.
none() { local found; found=$(head -n 5 | paste -sd' '); [ -z "$found" ] || fail "$1: $found"; }
has() { grep -qx "$2" "$1" || fail "$1 has no $2"; }
registered() { ctest --test-dir "$1" "${@:2}" -N | sed -n 's/^ *Test *#[0-9]*: //p' | sort; }

registered "$2" > all
if [ "$build" = default ]; then
	for once in first again; do
		cmake -S "$project" --preset default -B configured > log 2>&1 || fail "$once: $(tail -n 5 log)"
		registered configured > $once
	done
	comm -3 first again | none "only one of two configurations of a folder has"
fi
# Nothing has changed: whichever mutants are chosen, the number chooses them.
export RBLK_SINCE=HEAD
RBLK_FRESH=5 selected quick
RBLK_FRESH=5 selected full full
RBLK_FRESH=6 selected full-later full
selected long long

comm -23 quick full | none "tests/run has what full has not"
sort -u full long | comm -13 - all | none "neither full nor long has"
# What both need: the packages.
comm -12 full long | sed '/^fuzz\./d; /^sim\.mutant/d; /^install\.build$/d' | none "full and long have both"
sed -n '/^sim\.mutant/p; /^kmod-dkms/p; /^install\.build/p' quick | none "quick has"
for test in unit.selection e2e.lib_io e2e.target_restart fabric.tcp.127.0.0.1 sim.seeds_1 sim.seeds_red fio-jobs kmod-build.6.1; do
	has quick $test
done
[ "$(grep '^lab\.' quick | grep -vx lab.second-chance)" = lab.first ] || fail "quick has another guest than lab.first"

# Mutants: twenty of them beside what builds them, others the next time; all at night.
ls "$project/tests/sim/mutants" | sed -n 's/^\(.*\)\.patch$/sim.mutant_\1/p' | sort > mutants
comm -23 mutants long | none "long has not"
for run in full full-later long; do has $run sim.mutants_build; done
[ "$(comm -12 mutants full | wc -l)" = 20 ] || fail "full has $(comm -12 mutants full | wc -l) mutants"
cmp -s full full-later && fail "full has the same mutants for each commit"

# A label: all tests that have it, and no others.
for label in unit lab sim kmod-build; do
	selected label $label
	registered "$2" -L "^$label\$" | comm -3 - label | none "$label"
done
echo "$(wc -l < quick) tests in quick, $(wc -l < full) in full, $(wc -l < long) in long, of $(wc -l < all)"

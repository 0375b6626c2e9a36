# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# The examples of rblk-tutorial(7), for those who run them: tests/e2e/tutorial.sh, tests/lab/jobs/tutorial.sh and
# tests/install/debian.sh; and those of rblk-storage(7), for tests/lab/jobs/storage.sh. Sourced; the page's own comments say what the marks mean.

# tutorial_check PAGE [KINDS]: each example has a mark, and the mark names a test (or, in KINDS, one of these).
tutorial_check() {
	awk -v kinds="^(${2:-tcp|kmod|package})\$" '
	/^; run / { mark = $3; next }
	/^```/ && !inside { inside = 1; count++; if (mark !~ kinds) { print "line " NR ": an example that no test runs"; bad = 1 } next }
	/^```/ { inside = 0; mark = ""; next }
	END { if (count < 10 || inside) { print "no examples"; bad = 1 } exit bad }' "$1"
}

# tutorial_blocks PAGE KIND FOLDER: writes the examples of this kind to FOLDER/NN, what each must print to FOLDER/NN.says,
# one part a line, and an empty FOLDER/NN.fails for one whose last command must fail.
tutorial_blocks() {
	mkdir -p "$3"
	awk -v kind="$2" -v folder="$3" '
	/^; run / { mark = $3; fails = $4 == "fails"; next }
	/^```/ && !inside {
		inside = 1
		mine = mark == kind
		if (mine) file = sprintf("%s/%02d", folder, ++count)
		if (mine && fails) printf "" > (file ".fails")
		next
	}
	/^```/ { inside = 0; next }
	inside && mine { print > file }
	!inside && mine && /^; says / { sub(/^; says /, ""); print > (file ".says") }
	!inside && !/^;/ && !/^$/ { mine = 0 }' "$1"
}

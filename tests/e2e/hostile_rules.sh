#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# For every rule of proto/README.md that a peer can visibly break, some case of the hostile tests
# breaks it, or the list below says why none can. Method: the tests, given as arguments, list the
# rules of their cases ("--rules"); the specification has the rules' numbers: C, F and V in bold, and
# those of section 4 as a list.
set -euo pipefail

specification=$1
shift

# Rule, and why no case breaks it.
excused='
C5 binds only what the target posts: an initiator cannot tell a missing receive from a slow one
C8 over TCP the keep-alive finds such a peer earlier: unit.target_transfer
F1 an order of one end'\''s work requests, which the wire does not show: tests/sim/mutants break it
F2 likewise
F3 likewise
F4 binds an initiator to its own memory: tests/sim
F6 between two targets on one disk: target_refusals.sh
F7 binds an initiator to its own application: tests/sim
F8 the answer to a number that comes again, or too late: e2e.target_compare
F9 binds a target to its own disk: e2e.target_lost, unit.target_submit
F10 binds an initiator between two targets: e2e.lib_targets
4.5 a target cannot see what an initiator waited for
'

broken=$(for test; do "$test" --rules; done | tr ' ' '\n' | sort -u)
rules=$(grep -oE '\*\*[CFV][0-9]+\*\*' "$specification" | tr -d '*'
	sed -n '/^## 4\. /,/^#### /p' "$specification" | grep -oE '^[0-9]+\.' | sed 's/\(.*\)\./4.\1/')
status=0
for rule in $(sort -u <<< "$rules"); do
	named=no excuse=$(grep -E "^${rule//./\\.} " <<< "$excused" || true)
	grep -qxF "$rule" <<< "$broken" && named=yes
	case $named$excuse in
	no) echo "FAILED: no case breaks $rule" >&2; status=1 ;;
	yes?*) echo "FAILED: $rule is excused and yet has a case" >&2; status=1 ;;
	esac
done
for rule in $(grep -E '^([CFV]|4\.)[0-9]+$' <<< "$broken"); do
	grep -qxF "$rule" <<< "$rules" || { echo "FAILED: a case breaks $rule, which does not exist" >&2; status=1; }
done
[ "$(wc -l <<< "$rules")" -ge 29 ] || { echo "FAILED: these are not all rules: $rules" >&2; status=1; }
exit $status

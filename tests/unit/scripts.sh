#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: every script parses, and none takes success for failure or failure for success because a pipe's last command ended
# early. Method: bash reads each; and no pipe leads into head, `grep -q` or the like: its writer is killed by SIGPIPE now and
# then, which is a failure under pipefail. Jobs of guests run without pipefail and are left out.
#   scripts.sh PROJECT
set -euo pipefail
cd "$1"
status=0
wrong() {
	echo "FAILED: $*" >&2
	status=1
}

mapfile -t scripts < <(grep -rIlE '^#!.*(bash|/sh)$|shellcheck shell=bash' . --exclude-dir=build --exclude-dir='build-*' --exclude-dir=.git
	find . \( -name build -o -name 'build-*' -o -name .git \) -prune -o -name '*.sh' -print)
mapfile -t scripts < <(printf '%s\n' "${scripts[@]}" | sort -u)
for script in "${scripts[@]}"; do
	bash -n "$script" || wrong "$script: bash does not read it"
done
# But for jobs of the lab and what only they source.
found=$(printf '%s\0' "${scripts[@]}" | grep -zvE '^\./tests/(lab/jobs/|lab/lossy\.sh$|bench/measure\.sh$)' |
	xargs -0 grep -nE '[^|]\| *(head|grep -[a-zA-Z]*[qm]|sed [^|]*[;{ ]q\b)' | grep -vE '^[^:]*:[0-9]*:[[:space:]]*#' || true)
[ -z "$found" ] || wrong "pipes that may end before their writers: $found"
echo "${#scripts[@]} scripts"
exit $status

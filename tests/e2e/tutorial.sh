#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The commands of rblk-tutorial(7) that need no kernel module do what the page says, in its order. Method: the page's
# own text is run by one shell, in namespaces of its own, where /srv, /etc, /run and /var/lib are the test's, the
# network has only storage1, and tests/install/systemctl stands for systemd.
#   tutorial.sh PAGE UNITS...       UNITS: the unit files of the build
. "$(dirname "$0")/cmd.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tutorial_blocks.sh"
. "$here/manual_system.sh"
page=$1

tutorial_check "$page" > "$scratch/out" || fail "$page"
if [ -z "${RBLK_TUTORIAL:-}" ]; then
	unshare -mn true 2> /dev/null || { echo "SKIPPED: no namespaces (needs root)"; exit 77; }
	RBLK_TUTORIAL=1 unshare -mn --propagation private "$0" "$@"
	exit
fi

manual_system "${@:2}"
# What the journal has of the service.
printf '#!/bin/sh\ncase "$*" in "--unit rblkd --lines "*) tail -n "$4" "%s" ;; *) exit 1 ;; esac\n' \
	"$scratch/target.log" > "$scratch/bin/journalctl"
chmod +x "$scratch/bin/journalctl"
: > "$scratch/target.log"
served() { grep -q 'ready: ' "$scratch/target.log"; }
# The copy of the page has a session: as many have come as before it, and one more.
sessions() { grep -c ': initiator ' "$scratch/target.log" || true; }
joined() { [ "$(sessions)" -gt "$before" ]; }

tutorial_blocks "$page" tcp "$scratch/blocks"
[ "$(ls "$scratch/blocks" | grep -c '^[0-9]*$')" -ge 15 ] || fail "$page: its examples were not found"
for block in "$scratch"/blocks/[0-9][0-9]; do
	echo "--- $(basename "$block")"
	: > "$scratch/out"
	command='' end=''
	while IFS= read -r line; do
		command+=$line$'\n'
		# A here-document is one command.
		case $line in *' << END') end=END ;; END) end='' ;; esac
		[ -z "$end" ] || continue
		status=0
		echo "$command" >> "$scratch/out"
		case $command in
		rblkd*'&'*)
			eval "${command%&*} 2>> \"\$scratch/target.log\" &"
			wait_for "rblkd: ready" served
			;;
		rblk\ copy*'&'*)
			before=$(sessions)
			eval "$command" >> "$scratch/out" 2>&1
			# In a subshell: the page's own "wait $!" means the copy.
			(wait_for "the session of: $command" joined) || exit
			;;
		*) eval "$command" >> "$scratch/out" 2>&1 || status=$? ;;
		esac
		if [ -e "$block.fails" ]; then
			[ $status != 0 ] || fail "it must fail: $command"
		else
			[ $status = 0 ] || fail "status $status: $command"
		fi
		command=''
	done < "$block"
	# In two steps: a grep that has found its words ends, and what writes to it would fail.
	grep -vxFf "$block" "$scratch/out" > "$scratch/said" || true
	[ ! -e "$block.says" ] || while IFS= read -r words; do
		grep -qF -- "$words" "$scratch/said" || fail "does not say: $words: $(cat "$block")"
	done < "$block.says"
done
[ "$(stat -c %U "/proc/$(cat /run/rblkd.service.pid)")" = rblk ] || fail "the service does not run as user rblk"

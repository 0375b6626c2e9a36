#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The shells complete what the programs accept: every verb, every option, the values of options. Method: the
# completions are loaded as the shells load them. The test calls bash's function with the words that bash makes
# of a line, and compares all that it offers with --help; zsh gets keys on a terminal.
. "$(dirname "$0")/cmd.sh"
mkdir "$scratch/here"
cd "$scratch/here"

# completes WORD...: puts what bash offers for the last of these words, sorted, into $scratch/out.
completes() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	"_$1" || true # compopt works only within a completion
	printf '%s\n' "${COMPREPLY[@]}" | sed '/^$/d' | sort > "$scratch/out"
}
# offers WANTED WORD...: bash offers exactly these words, separated by blanks.
offers() {
	local wanted=$1
	shift
	completes "$@"
	[ "$(paste -sd' ' "$scratch/out")" = "$wanted" ] || fail "$*: not $wanted"
}
# help_options: those of the last output.
help_options() {
	sed -nE 's/^  (-[a-zA-Z]|  |   ),?  ?(--[a-z-]+).*/\1 \2/p' "$scratch/out" | tr ' ' '\n' | sed '/^$/d' | sort
}

. "$RBLK_COMPLETIONS/rblk.bash-completion"
. "$RBLKD_COMPLETIONS/rblkd.bash-completion"
. "$RBLKCTL_COMPLETIONS/rblkctl.bash-completion"
complete -p rblk rblkd rblkctl > /dev/null || fail "not registered"
touch 'a file' disk.img
_rblk_tab() { printf '# comment\n\ndata rblk://h/data noauto\n$(reboot) x\nscratch rblk://h/s\n'; }

expect 0 "$RBLK" --help
sed -nE 's/^  ([a-z]+) .*/\1/p' "$scratch/out" | sort > "$scratch/verbs"
completes rblk help ''
diff "$scratch/verbs" "$scratch/out" >&2 || fail "verbs"
for verb in $(grep -v 'help\|version' "$scratch/verbs"); do
	expect 0 "$RBLK" "$verb" --help
	help_options > "$scratch/options"
	grep -q -- --help "$scratch/options" || fail "$verb --help"
	completes rblk "$verb" -
	diff "$scratch/options" "$scratch/out" >&2 || fail "$verb takes (<), completed are (>)"
done
offers 'ping' rblk p
offers '--help --version -V -h' rblk -
offers '--attached' rblk list --at
offers 'send-events send-polled' rblk ping --kind s
offers 'rdma-signalled rdma-unsignalled' rblk ping --kind = r
offers 'rdma-signalled rdma-unsignalled send-events send-polled' rblk ping -k ''
offers 'rdma-signalled rdma-unsignalled send-events send-polled' rblk ping --kind =
offers '' rblk ping --count ''
offers 'depth' rblk top --sort d
offers '' rblk top ''
offers 'disk.img' rblk attach --tab d
offers 'a file disk.img rblk+tcp:// rblk://' rblk copy ''
offers 'rblk+tcp:// rblk://' rblk list rb
offers '' rblk list rblk :
offers '' rblk list rblk : //
offers 'data rblk+tcp:// rblk:// scratch' rblk attach ''
offers 'scratch' rblk detach s

expect 0 "$RBLKD" --help
help_options > "$scratch/options"
[ "$(wc -l < "$scratch/options")" -gt 20 ] || fail "rblkd --help"
completes rblkd -
diff "$scratch/options" "$scratch/out" >&2 || fail "rblkd takes (<), completed are (>)"
offers 'adaptive always' rblkd --polling a
offers 'adaptive always never' rblkd --polling =
offers 'rblk+tcp:// rblk://' rblkd -l r
offers 'no yes' rblkd --read-only =
offers 'a file disk.img' rblkd --read-only ''
offers 'disk.img' rblkd name = d
offers 'a file disk.img' rblkd --config ''

expect 0 "$RBLKCTL" --help
sed -nE 's/^  ([a-z-]+) .*/\1/p' "$scratch/out" | sort > "$scratch/verbs"
completes rblkctl help ''
diff "$scratch/verbs" "$scratch/out" >&2 || fail "verbs of rblkctl"
for verb in $(grep -v 'help\|version' "$scratch/verbs"); do
	expect 0 "$RBLKCTL" "$verb" --help
	help_options > "$scratch/options"
	completes rblkctl "$verb" -
	diff "$scratch/options" "$scratch/out" >&2 || fail "rblkctl $verb takes (<), completed are (>)"
done
offers 'bytes' rblkctl top --sort b
offers 'debug error info warning' rblkctl log-level ''
offers 'disk.img' rblkctl status --socket d

# What only a target knows: its volumes, its initiators, and the keys that they have.
offers 'initiator volume' rblkctl add ''
offers 'initiator target volume' rblkctl set ''
offers 'volume' rblkctl remove v
offers 'limit_burst= limit_iops= limit_rate=' rblkctl set volume data limit_
offers 'limit_burst= limit_iops= limit_rate=' rblkctl set --socket = /none initiator db1 limit_
offers 'tls=' rblkctl set target tl
offers 'no yes' rblkctl set volume data read_only =
offers 'always auto' rblkctl set target tls = a
offers 'disk.img' rblkctl add volume new path = d
offers '' rblkctl add volume ''
offers 'preempt' rblk reserve rblk : //h/v p
offers 'write-exclusive write-exclusive-all write-exclusive-registrants' rblk reserve --type w
offers 'remove' rblk key re
# A slow machine does not answer within the second that a person waits.
rblk() { "$RBLK" "${@/#1s/60s}"; }
rblkctl() { "$RBLKCTL" "$@"; }
# web1 is configured and not connected, db1 is connected and not configured.
printf '[volume %s]\nstore = memory\nsize = 1M\n' data dates logs > "$scratch/rblkd.conf"
printf '[initiator web1]\naddress = 192.0.2.1\nwrite = logs\n' >> "$scratch/rblkd.conf"
target_start --control-socket "$scratch/control" --config "$scratch/rblkd.conf"
address=${target#rblk+tcp://}
copy_start --name db1 - "$target/data"
in_use() { "$RBLKCTL" sessions --socket "$scratch/control" > "$scratch/out" && grep -q db1 "$scratch/out"; }
wait_for "a session" in_use
for socket in "--socket $scratch/control" "-s $scratch/control" "--socket = $scratch/control"; do
	# shellcheck disable=SC2086 # an option and its value
	offers 'data dates' rblkctl set $socket volume dat
	# shellcheck disable=SC2086
	offers 'db1' rblkctl kick $socket d
	# shellcheck disable=SC2086
	offers 'logs' rblkctl set $socket initiator db1 write = l
done
# What both shells offer: of each line its last word, and what it becomes.
cat > "$scratch/lines" << END
rblkctl set -s $scratch/control init|initiator
rblkctl clear -s $scratch/control lo|logs
rblkctl reservations --socket=$scratch/control lo|logs
rblkctl remove -s $scratch/control volume lo|logs
rblkctl set -s $scratch/control initiator w|web1
rblkctl remove -s $scratch/control initiator w|web1
rblkctl add -s $scratch/control initiator d|db1
rblkctl kick -s $scratch/control d|db1
rblkctl events -s $scratch/control --volume lo|logs
rblkctl events -s $scratch/control --initiator w|web1
rblkctl events -s $scratch/control --initiator d|db1
rblkctl set -s $scratch/control volume logs limit_i|limit_iops=
rblkctl set -s $scratch/control target tl|tls=
rblkctl set -s $scratch/control volume logs read_only=y|yes
rblkctl set -s $scratch/control initiator web1 write=lo|logs
rblkctl add -s $scratch/control volume new path=di|disk.img
rblkctl log-level -s $scratch/control de|debug
rblk reserve rblk://h/v pree|preempt
rblk key ins|install
rblk key show di|disk.img
rblk detach scra|scratch
END
while IFS='|' read -r line wanted; do
	words=${line//=/ = }
	read -ra words <<< "${words//:/ : }"
	offers "$wanted" "${words[@]}"
done < "$scratch/lines"
offers 'db1 web1' rblkctl events -s "$scratch/control" --initiator ''
offers '' rblkctl add -s "$scratch/control" volume l
offers "${address#*:}/data ${address#*:}/dates" rblk info rblk+tcp : "//${address%:*}" : "${address#*:}/dat"
offers '' rblk info rblk+tcp : "//${address%:*}" : "${address#*:}"
offers '' rblk info rblk+tcp : //127.0.0.1:1/d

if command -v zsh > /dev/null; then
	export target RBLK RBLKCTL scratch
	mkdir functions
	cp "$RBLK_COMPLETIONS/_rblk" "$RBLKD_COMPLETIONS/_rblkd" "$RBLKCTL_COMPLETIONS/_rblkctl" functions
	cat > keys.zsh <<-'END'
		# Types each line, and waits until the words after it are on the terminal.
		zmodload zsh/zpty
		zpty shell 'TERM=dumb zsh -f -i'
		zpty -w shell 'PS1="ready>"; fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -d dump; LISTMAX=0'
		zpty -w shell 'rblk() { $RBLK "${@/#1s/60s}" }; rblkctl() { $RBLKCTL "$@" }'
		zpty -w shell 'cat() { [[ $1 != */rblktab ]] && command cat "$@" || print "# x\n\ndata rblk://h/data\nscratch rblk://h/s" }'
		zpty -w shell 'echo load"ed"'
		zpty -r -m shell said '*loaded*' || exit 1
		check() {
			zpty -w -n shell "$1"$'\t'
			echo "$1"
			zpty -r -m shell said "*$2*" || exit 1
			zpty -w -n shell $'\C-u'
		}
		check 'rblk pi' 'rblk ping '
		check 'rblk list --at' 'rblk list --attached'
		check 'rblk ping --kind=rdma-u' '--kind=rdma-unsignalled'
		check 'rblk list rblk+' 'rblk+tcp://'
		check "rblk info $target/date" "$target/dates"
		check 'rblk copy disk' 'disk.img'
		check 'rblkd --drain' '--drain-time'
		check 'rblkd --polling=ne' '--polling=never'
		check 'rblkctl sess' 'rblkctl sessions '
		check 'rblkctl top --sort=vo' '--sort=volume'
		check 'rblkd --listen rblk:' '--listen rblk://'
		while IFS='|' read -r line wanted; do check $line $wanted; done < $scratch/lines
		zpty -d shell
		echo all
	END
	expect 0 zsh -f keys.zsh
	out_has all
else
	echo "SKIPPED: no zsh"
fi
exec 7>&-
target_stop
offers '' rblkctl set --socket "$scratch/control" volume dat

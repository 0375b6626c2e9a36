#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A wrong command line gets a message and exit status 2, and connects to nothing. Every usual way to ask
# for help and version works. Method: one mistake at a time, against an address where nothing listens: an
# attempt to connect would end with 1 and another message.
. "$(dirname "$0")/cmd.sh"
nobody=rblk+tcp://127.0.0.1:1

# wrong WORDS ARGUMENT...: rblk prints these words and exits with 2.
wrong() {
	local words=$1
	shift
	expect 2 "$RBLK" "$@"
	err_has "$words"
	[ ! -s "$scratch/out" ] || fail "rblk $*: there is output, too"
}
expect 2 "$RBLK"
err_has 'rblk VERB'
wrong 'unknown verb "frobnicate"' frobnicate
wrong 'unknown verb "--frobnicate"; see rblk --help' --frobnicate
wrong 'unknown verb "lsit"; did you mean "list"?' lsit
wrong 'unknown verb "foo"; see rblk --help' help foo
wrong 'unknown verb "atach"; did you mean "attach"?' help atach
wrong 'list: unknown option --time-out=5; did you mean "--timeout"?' list --time-out=5 x
wrong 'list: unknown option --give_up; did you mean "--give-up"?' list --give_up 5 x
wrong 'unknown verb "frobnicate"' help frobnicate
wrong 'usage: rblk help [VERB]' help list info
wrong 'usage: rblk version' version now
for verb in list info copy ping attach detach acknowledge reserve fault; do
	wrong "usage: rblk $verb" "$verb"
done
wrong 'usage: rblk doctor' doctor a b
wrong 'usage: rblk top' top a
wrong '--sort: "size" is not one of iops bytes' top --sort size
wrong '--interval: "1ms" is not a time from 100ms to 1h' top --interval 1ms
for verb in list info copy ping attach detach acknowledge top reserve key doctor fault; do
	wrong "$verb: unknown option --frobnicate; see rblk $verb --help" "$verb" --frobnicate
	wrong "$verb: unknown option -Z" "$verb" -Z
done

# No verb has two options of one name: the second could not be given.
while read -r verb; do
	twice=$("$RBLK" "$verb" --help | grep -oE '^  (-.,|   ) --[a-z-]+' | grep -oE '\-\-.*' | sort | uniq -d || true)
	[ -z "$twice" ] || fail "rblk $verb has two options" $twice
done < <("$RBLK" help | awk '/^  [a-z]/ { print $1 }')

# Values of options; for times, every unit.
wrong '--timeout: "2sec" is not a time from 1ms to 1h, like 20ms' list --timeout 2sec $nobody
wrong '--timeout: "2h" is not a time from 1ms to 1h' list --timeout 2h $nobody
wrong '--timeout: "0" is not a time from' list --timeout=0 $nobody
wrong '--timeout: TIME is missing' list --timeout
for time in 2 2s 2000ms 2000000us 1m 1min 1h; do
	expect 1 "$RBLK" list --timeout $time $nobody
	err_has 'refused'
done
wrong '--chunk: "100" is not a size from 512 to' copy --chunk 100 - $nobody/v
wrong '--json: takes no value' info --json=yes $nobody/v
wrong '--kind: unknown kind "none"' ping --kind none $nobody

# An option that a mode does not take is refused.
for option in '--count 5' '--size 8' '--kind send-events' '--source 127.0.0.1' '--tos 4' '--ack-timeout 9' '--name x' '--give-up 1'; do
	# shellcheck disable=SC2086 # an option and its value
	wrong "ping: ${option%% *} is not taken with --serve" ping --serve $option $nobody
done
expect 2 "$RBLK" ping --serve --json $nobody
err_has 'ping: --json is not taken with --serve'
wrong 'ping: --size is not taken without --peer' ping --size 8 $nobody
wrong 'ping: --give-up is not taken with --peer' ping --peer --give-up 1 $nobody
wrong 'list: --timeout is not taken with --attached' list --attached --timeout 1
wrong 'doctor: --tls is not taken without a target' doctor --tls always
wrong 'reserve: --own-key is not taken with show' reserve --own-key 1 $nobody/v
wrong 'attach: --tab is not taken with a target' attach --tab /dev/null $nobody/v
wrong 'discover: --port is not taken over RDMA alone' discover --over rdma --port 5

# URIs.
wrong 'a URI begins with rblk:// or rblk+tcp://' list http://127.0.0.1
wrong 'a URI begins with rblk:// or rblk+tcp://' doctor 127.0.0.1
for port in 65536 99999999999999999999 0 -1 http ''; do
	for verb in list ping doctor; do
		wrong 'the port must be a number from 1 to 65535' $verb "rblk+tcp://127.0.0.1:$port"
	done
	wrong 'the port must be a number from 1 to 65535' info "rblk+tcp://127.0.0.1:$port/v"
	wrong 'the port must be a number from 1 to 65535' copy - "rblk://127.0.0.1:$port/v"
	wrong 'the port must be a number from 1 to 65535' attach "rblk://127.0.0.1:$port/v"
done
wrong 'the host is missing' list rblk+tcp:///
wrong 'names no volume' info $nobody
wrong 'names no volume' copy $nobody -
wrong 'names no volume' copy - $nobody
wrong 'neither a nor b is a volume' copy a b

# Help and version.
for ask in help --help -h 'help help' 'help --help' 'help -h' 'version --help' 'help version'; do
	expect 0 "$RBLK" $ask
	out_has 'version'
done
for verb in list info copy ping attach detach acknowledge top reserve doctor fault; do
	expect 0 "$RBLK" help $verb
	mv "$scratch/out" "$scratch/help"
	expect 0 "$RBLK" $verb -h
	cmp "$scratch/help" "$scratch/out" || fail "help $verb"
done
for ask in version --version -V; do
	expect 0 "$RBLK" $ask
	grep -qE '^rblk [0-9.]+, librblk [0-9.]+$' "$scratch/out" || fail "$ask"
done

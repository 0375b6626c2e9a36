#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A time or a size is the same words everywhere: option of rblk, rblkctl and rblkd, key of the configuration, line of
# rblktab, parameter of nbdkit's plugin and of fio's engine. Method: the same text to each of them; where it is wrong, all
# refuse it in the same words but for their bounds, where it is right, none does.
. "$(dirname "$0")/cmd.sh"

printf 'x' > "$scratch/disk"
conf() { printf '[target]\n%s = %s\n[volume v]\nstore = null\nsize = 1M\n' "$1" "$2" > "$scratch/conf"; }
ask_rblk() { "$RBLK" list --timeout "$1" rblk+tcp://127.0.0.1:1; }
ask_tab() { printf 'v rblk://127.0.0.1/v give-up=%s\n' "$1" > "$scratch/tab"; "$RBLK" attach --tab "$scratch/tab" v; }
ask_rblkctl() { "$RBLKCTL" top --socket "$scratch/none" --count 1 --interval "$1"; }
ask_rblkd() { "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --null v=1M --keepalive "$1"; }
ask_conf() { conf session_time "$1"; "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --config "$scratch/conf"; }
ask_poll() { conf poll_time "$1"; "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --config "$scratch/conf"; }
ask_nbdkit() { nbdkit -f -U - "$RBLK_NBDKIT" rblk+tcp://127.0.0.1:1/v give-up="$1" --run true; }
ask_fio() { fio --ioengine="external:$RBLK_FIO_ENGINE" --name=j --rw=read --rblk_uri=rblk+tcp://127.0.0.1:1/v --rblk_give_up="$1"; }
ask_chunk() { "$RBLK" copy --chunk "$1" - rblk+tcp://127.0.0.1:1/v; }
ask_pool() { "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --null v=1M --pool-size "$1"; }
ask_rate() { printf '[volume v]\nstore = null\nsize = 1M\nlimit_rate = %s\n' "$1" > "$scratch/conf"; "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --config "$scratch/conf"; }

times=(rblk tab rblkctl rblkd conf poll) sizes=(chunk pool rate)
for one in nbdkit:RBLK_NBDKIT fio:RBLK_FIO_ENGINE; do
	name=${one#*:}
	if [ -n "${!name:-}" ]; then times+=("${one%:*}"); else echo "SKIPPED: ${one%:*} was not built"; fi
done

# refuses KIND ASKER TEXT LIKE: in these words.
refuses() {
	"ask_$2" "$3" > "$scratch/out" 2> "$scratch/err" < /dev/null && fail "$2 takes \"$3\""
	grep -qE "\"$3\" is not a $1 from [0-9]+[a-zA-Z]* to [0-9]+[a-zA-Z]*, like $4" "$scratch/err" || fail "$2: refuses \"$3\" otherwise"
}
# takes ASKER TEXT: it may fail later.
takes() {
	"ask_$1" "$2" > "$scratch/out" 2> "$scratch/err" < /dev/null || true
	if grep -q 'is not a' "$scratch/out" "$scratch/err"; then fail "$1 refuses \"$2\""; fi
}
for asker in "${times[@]}"; do
	for text in soon 2sec -1 1.5s 99h 99999999999999999999; do
		refuses time "$asker" "$text" '(500us, )?20ms(,| or) 30s( or 2min)?; without a unit it is seconds'
	done
	for text in 1 1s 500ms 200000us 1S; do takes "$asker" "$text"; done
done
for asker in "${sizes[@]}"; do
	for text in lots 64MB 1.5M 99999999999999999999; do
		refuses size "$asker" "$text" '512, 64K, 10G or 1GiB, all of 1024'
	done
	for text in 2097152 2048K 2m 2MiB; do takes "$asker" "$text"; done
done

# A bare number is seconds: so the longest time is one hour, and that much more is too long.
for asker in rblk rblkctl rblkd conf; do
	takes "$asker" 3600
	refuses time "$asker" 3601 20ms
done

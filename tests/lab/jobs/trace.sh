# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the installed scripts for bpftrace tell what was done, and where the time went. Method: all four run at once, on an
# installed rblkd with a disk that takes 20 ms for each write and on the module; a known number of reads and writes; a
# target that is restarted.
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"

for room in target initiator; do
	(cd "$LAB_BUILD" && cmake --install $room > /tmp/install 2>&1) || lab_fail "install: $(tail -n 5 /tmp/install)"
done
ldconfig
RBLKD=/usr/local/sbin/rblkd
scripts=/usr/local/share/rblk/bpftrace
serve() { lab_rblkd_start --fault delay=write:20ms disk=/dev/vda; }
lab_link_up
serve
lab_kmod_load
lab_attach disk queues=1

names="rblkd-latency rblkd-waits rblk-latency rblk-waits"
declare -A tracer
for name in $names; do
	BPFTRACE_MAP_KEYS_MAX=65536 bpftrace "$scripts/$name.bt" > /tmp/$name 2>&1 &
	tracer[$name]=$!
done
for name in $names; do lab_wait 120 grep -q '^Tracing' /tmp/$name || lab_fail "$name: $(cat /tmp/$name)"; done

dd if=/dev/zero of=$LAB_DEV bs=4k count=48 oflag=direct status=none || lab_fail "writes"
dd if=$LAB_DEV of=/dev/null bs=4k count=64 iflag=direct status=none || lab_fail "reads"
# finish NAME: as Ctrl-C ends it.
finish() {
	kill -INT "${tracer[$1]}"
	wait "${tracer[$1]}" || lab_fail "$1: exit status $?: $(cat /tmp/$1)"
	cat /tmp/$1
}
has() { grep -qE -- "$2" /tmp/$1 || lab_fail "$1: nothing like $2"; }
# The longest bucket of a histogram begins at or above so much: longest NAME HISTOGRAM MICROSECONDS.
longest() {
	awk -v head="$2" -v least="$3" '
		index($0, head) { inside = 1; next }
		inside && /^\[/ { split($1, range, /[\[,)]/); from = range[2]; unit = substr(from, length(from)) }
		inside && /^\[/ { value = from + 0; if (unit == "K") value *= 1024; if (unit == "M") value *= 1048576; if ($3 > 0) top = value }
		inside && !/^\[/ { inside = 0 }
		END { exit !(top >= least) }' /tmp/$1 || lab_fail "$1: $2: is not so long as $3 us"
}
for name in rblkd-latency rblk-latency; do finish $name; done
has rblkd-latency '^@commands\[WRITE\]: 48$'
has rblkd-latency '^@commands\[READ\]: 64$'
longest rblkd-latency '@us[WRITE, 4 store]' 16384
has rblkd-latency '^@us\[READ, 4 store\]'
has rblk-latency '^@commands\[0, WRITE\]: 48$'
has rblk-latency '^@commands\[0, READ\]: 64$'
longest rblk-latency '@us[0, WRITE, stored]' 16384
longest rblk-latency '@us[0, WRITE, total]' 16384
has rblk-latency '^@us\[0, READ, rest\]'

lab_say "a target that is away for a while"
lab_rblkd_stop
dd if=/dev/zero of=$LAB_DEV bs=4k count=1 oflag=direct status=none &
write=$!
serve
wait $write || lab_fail "the write did not wait"
lab_wait 10 grep -q 'is back after' /tmp/rblk-waits || lab_fail "rblk-waits: $(cat /tmp/rblk-waits)"
for name in rblk-waits rblkd-waits; do finish $name; done
has rblk-waits 'session 0 has lost its connection'
has rblk-waits "^@us\[dd, 0, target's disk\]: [1-9]"
has rblkd-waits '^@ns\[[0-9]+, disk\]: [1-9]'
has rblkd-waits '^@completions_in_a_reply'
lab_detach
lab_kmod_unload
lab_rblkd_stop
lab_say done

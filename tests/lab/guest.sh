# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What jobs in the lab share: the RDMA link, rblkd, waiting for conditions. Sourced by the jobs, as
# ". $LAB/guest.sh". Every failure prints its reason and ends the job. (tests/demo --here runs a job
# without a guest; it sets the address and the folder for results itself.)

LAB_ADDR=${LAB_ADDR:-10.9.0.$LAB_HOST}
LAB_OUT=${LAB_OUT:-/out}
LAB_ADDR6=fd09::$LAB_HOST
LAB_PEER=10.9.0.$((3 - LAB_HOST))
# What is under test.
RBLKD=$LAB_BUILD/target/rblkd
RBLK=$LAB_BUILD/initiator/cmd/rblk
RBLK_FIO_ENGINE=$LAB_BUILD/initiator/fio/librblk_fio.so

# With every check on (debug-kernel), the emulated machine is some fifty times slower. Less is done there, and where
# a job asks for it: it is the same code.
case $(uname -r) in *-rblk-debug) LAB_SLOW=1 ;; *) LAB_SLOW=${RBLK_LAB_SMALL:-} ;; esac

lab_say() { echo "# $*"; }
# It prints what a job's function lab_facts knows, and the daemon's log.
lab_fail() {
	declare -F lab_facts > /dev/null && lab_facts >&2
	[ -z "${LAB_RBLKD_LOG:-}" ] || sed 's/^/log: /' "$LAB_RBLKD_LOG" | tail -n 20 >&2
	dmesg | grep 'rblk[0-9]*: ' | tail -n 20 >&2
	echo "FAILED: $*" >&2
	exit "${LAB_FAIL_STATUS:-1}"
}
# lab_broken WORDS: the same, for a promise that was broken: data is wrong or lost, or I/O fails that must not. Such a
# job has no second chance (tests/lab/second-chance).
lab_broken() { LAB_FAIL_STATUS=${LAB_EXIT_BROKEN:-1} lab_fail "$@"; }

# lab_wait SECONDS COMMAND...: runs it until it succeeds; fails after ten times SECONDS, the most that it takes
# on a quiet machine.
lab_wait() {
	local end=$((SECONDS + 10 * $1))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# lab_link_up: the RDMA device LAB_RDMA with 10.9.0.N and fd09::N: Soft-RoCE, or Soft-iWARP where RBLK_LAB_LINK
# says siw (see boot-siw). A single guest puts it on a dummy device, with both ends of a connection; a pair puts
# it on the network card. Frames are large enough for a path MTU of 4096.
LAB_LINK=${RBLK_LAB_LINK:-rxe}
LAB_RDMA=${LAB_LINK}0
lab_link_up() {
	local netdev=eth0
	# ib_uverbs first, as Soft-RoCE itself loads it: the kernel tells its clients of a device's removal in the reverse
	# order, and ib_uverbs waits there until programs have closed the device, which rdma_cm has to tell them.
	modprobe -a ib_uverbs rdma_ucm || lab_fail "link: modules do not load"
	case $LAB_LINK in
	rxe) lab_rxe_load ;;
	siw) lab_siw_load ;;
	esac || lab_fail "link: $LAB_LINK does not load"
	if [ ! -e /sys/class/net/eth0 ]; then
		netdev=lab0
		ip link add lab0 type dummy || lab_fail "link: no dummy device"
	fi
	# Without duplicate address detection, or the first connection would have to wait for it.
	sysctl -q -w "net.ipv6.conf.$netdev.accept_dad=0"
	ip link set "$netdev" mtu 9000 up &&
		ip addr add "$LAB_ADDR/24" dev "$netdev" &&
		ip addr add "$LAB_ADDR6/64" dev "$netdev" nodad || lab_fail "link: $netdev does not come up"
	rdma link add $LAB_RDMA type "$LAB_LINK" netdev "$netdev" || lab_fail "link: no $LAB_RDMA"
	lab_wait 10 lab_port_active || lab_fail "link: $LAB_RDMA does not become active"
}

# Debian's, or the one that boot-rxe has built; it takes the CRC of boot-nocrc if that is there.
lab_rxe_load() {
	[ -z "${RBLK_LAB_CRC:-}" ] || insmod "$RBLK_LAB_CRC" || return
	[ -n "${RBLK_LAB_RXE:-}" ] || { modprobe rdma_rxe; return; }
	modprobe -a ip6_udp_tunnel udp_tunnel && insmod "$LAB_KERNEL/rxe/rdma_rxe.ko"
}

# The kernel's, or the one that `kernel --siw` has built. It connects in the caller's thread, which would wait two minutes
# for a silent path.
lab_siw_load() {
	sysctl -q -w net.ipv4.tcp_syn_retries=1 || return
	modprobe -q siw || { modprobe libcrc32c && insmod "$LAB_KERNEL/siw/siw.ko"; }
}

# lab_wire_up N [MAKE]: two more RDMA devices with a wire between them, whose packets can be lost and whose links can go down:
# what a device sends to itself, no network sees. The target's end is wireNt, 10.8.N.2, on ${LAB_LINK}Nt; the initiator's is
# wireNi, 10.8.N.1, on ${LAB_LINK}Ni.
# MAKE N makes the two ends, if they are not to be plain ones.
lab_wire_up() {
	local end
	"${2:-lab_wire_make}" "$1"
	# A packet between two addresses of one machine takes the wire only if that is asked before what is local.
	[ -z "$(ip rule list pref 0)" ] || { ip rule add pref 100 lookup local && ip rule del pref 0; } || lab_fail "wire$1: ip rule"
	for end in i t; do
		sysctl -q -w "net.ipv4.conf.wire$1$end.accept_local=1" "net.ipv4.conf.wire$1$end.rp_filter=0"
		ip link set "wire$1$end" mtu 9000 || lab_fail "wire$1: mtu"
	done
	ip addr add "10.8.$1.1/32" dev "wire$1i" && ip addr add "10.8.$1.2/32" dev "wire$1t" || lab_fail "wire$1: addresses"
	# What programs send; and what rdma_cm asks of a connection request: does its sender live where it came from?
	for end in "iif lo" "oif wire$1i"; do ip rule add pref 10 $end to "10.8.$1.2" lookup "1${1}1" || lab_fail "wire$1: ip rule"; done
	for end in "iif lo" "oif wire$1t"; do ip rule add pref 10 $end to "10.8.$1.1" lookup "1${1}2" || lab_fail "wire$1: ip rule"; done
	lab_wire_link "$1" up
	for end in i t; do lab_wire_device "$1" $end; done
}
lab_wire_make() {
	local end
	modprobe -a veth sch_netem && ip link add "wire$1i" type veth peer name "wire$1t" || lab_fail "wire$1: no veth"
	for end in i t; do tc qdisc add dev "wire$1$end" root netem limit 10000 || lab_fail "wire$1: tc"; done
}
# lab_wire_device N i|t: the RDMA device of one end.
lab_wire_device() {
	rdma link add "$LAB_LINK$1$2" type "$LAB_LINK" netdev "wire$1$2" || lab_fail "wire$1: no $LAB_LINK$1$2"
	lab_wait 10 grep -q ACTIVE "/sys/class/infiniband/$LAB_LINK$1$2/ports/1/state" || lab_fail "$LAB_LINK$1$2: is not active"
}
# lab_wire_link N up|down: both ends; one that is down has no routes and no neighbours.
lab_wire_link() {
	ip link set "wire$1t" "$2" && ip link set "wire$1i" "$2" || lab_fail "wire$1: $2"
	[ "$2" = up ] || return 0
	ip route replace "10.8.$1.2" dev "wire$1i" src "10.8.$1.1" table "1${1}1" &&
		ip route replace "10.8.$1.1" dev "wire$1t" src "10.8.$1.2" table "1${1}2" &&
		ip neigh replace "10.8.$1.2" lladdr "$(cat "/sys/class/net/wire$1t/address")" dev "wire$1i" nud permanent &&
		ip neigh replace "10.8.$1.1" lladdr "$(cat "/sys/class/net/wire$1i/address")" dev "wire$1t" nud permanent ||
		lab_fail "wire$1: no route"
}

# lab_wire_net N WORD...: how packets fare in both directions (netem); without words, as ever. It is there from the start and
# only changed, because a device refuses packets while its queue discipline is replaced: Linux 6.12's Soft-RoCE ends a queue
# pair whose packet is refused, and without queue pair 1 nothing connects over a device (rxe/datagram-error.patch).
lab_wire_net() {
	local end
	for end in i t; do tc qdisc change dev "wire$1$end" root netem limit 10000 "${@:2}" || lab_fail "wire$1: tc"; done
}
# lab_wire_lose N, lab_wire_restore N: all packets of the wire are lost.
lab_wire_lose() { lab_wire_net "$1" loss 100%; }
lab_wire_restore() { lab_wire_net "$1"; }

# lab_job JOB [ARGUMENT...]: another job, in this guest; what it leaves behind goes before the next one.
lab_job() {
	local link pid
	lab_say "== $*"
	bash "$LAB/jobs/$1.sh" "${@:2}" || exit
	for pid in $(pgrep -x rblkd) $(pgrep -x systemd-udevd) $(pgrep -x kmod_target); do kill -KILL "$pid"; done
	lab_wait 20 lab_no_rblkd || lab_fail "$1: rblkd is still there"
	[ ! -e /sys/module/rblk ] || rmmod rblk || lab_fail "$1: rblk.ko does not unload"
	for link in /sys/class/infiniband/*; do
		[ ! -e "$link" ] || rdma link del "${link##*/}" || lab_fail "$1: ${link##*/} stays"
	done
	[ ! -e /sys/class/net/lab0 ] || ip link del lab0 || lab_fail "$1: lab0 stays"
	! mountpoint -q /tmp/mnt || umount /tmp/mnt || lab_fail "$1: /tmp/mnt stays mounted"
	rm -rf /etc/modprobe.d/rblk-lab.conf /etc/rblk
}

# One program for all processes: to start one for each takes an emulated guest seconds.
lab_no_rblkd() { [[ $'\n'$(readlink /proc/[0-9]*/exe)$'\n' != *$'\n'"$RBLKD"$'\n'* ]]; }

lab_port_active() { grep -q ACTIVE /sys/class/infiniband/$LAB_RDMA/ports/1/state; }

# lab_rblkd_start ARGUMENT...: start the daemon and wait until it is ready. Its log is LAB_RBLKD_LOG;
# LAB_URI is where it listens when the arguments do not say otherwise. RBLK_LAB_NICE=-5: as rblkd.service starts it.
LAB_URI=rblk://$LAB_ADDR
lab_rblkd_start() {
	LAB_RBLKD_LOG=$(mktemp "$LAB_OUT/rblkd.XXXXXX.log")
	nice -n "${RBLK_LAB_NICE:-0}" "$RBLKD" "$@" > "$LAB_RBLKD_LOG" 2>&1 &
	LAB_RBLKD=$!
	lab_wait 60 lab_rblkd_ready || lab_fail "rblkd $*: not ready: $(tail -n 20 "$LAB_RBLKD_LOG")"
	kill -0 "$LAB_RBLKD" 2> /dev/null || lab_fail "rblkd $*: ended: $(tail -n 20 "$LAB_RBLKD_LOG")"
}

# The wait also ends when the daemon has ended.
lab_rblkd_ready() { grep -q ready: "$LAB_RBLKD_LOG" || ! kill -0 "$LAB_RBLKD"; }

# lab_rblkd_stop: SIGTERM, and the daemon must drain and exit 0 by itself.
lab_rblkd_stop() {
	kill "$LAB_RBLKD" || lab_fail "rblkd: had already gone: $(tail -n 5 "$LAB_RBLKD_LOG")"
	lab_wait 20 lab_rblkd_gone || lab_fail "rblkd: still there long after SIGTERM"
	wait "$LAB_RBLKD" || lab_fail "rblkd: exit status $? after SIGTERM: $(tail -n 5 "$LAB_RBLKD_LOG")"
}

# lab_let_go DEVICE: waits until nobody has the block device for himself. The kernel closes what an io_uring has of a
# daemon that was killed up to a second after the daemon has gone.
lab_let_go() {
	lab_wait 20 perl -MFcntl -e 'sysopen(my $device, shift, O_RDONLY | O_EXCL) or exit 1' "$1" ||
		lab_fail "$1: somebody has it open"
}

# A child that has exited is a zombie until it is waited for.
lab_rblkd_gone() { [ ! -e "/proc/$LAB_RBLKD" ] || grep -q '^State:.Z' "/proc/$LAB_RBLKD/status"; }

# lab_fio RESULT WORKLOAD ARGUMENT...: one workload of fio-jobs. RESULT.fio has fio's results in
# JSON; for rblk's engine (FIO_STATS is not empty), RESULT.stats has the engine's.
lab_fio() {
	local result=$1 workload=$2
	shift 2
	fio "$@" ${FIO_STATS:+"--rblk_stats=$result.stats"} --eta=never --output-format=json \
		--output="$result.fio" "${LAB_FIO_JOBS:-$LAB/../../fio-jobs}/$workload.fio" 2> "$result.log" && return
	cat "$result.log" "$result.fio" >&2
	lab_fail "fio $workload: the above"
}

# lab_meet NAME [SECONDS]: waits until the other host of the pair is at the same place, and at most as long as
# the other host's job runs (boot-pair reports its failure).
lab_meet() {
	local other=$((3 - LAB_HOST))
	touch "/pair/$1-$LAB_HOST"
	lab_wait "${2:-60}" lab_met "$1" "$other" || lab_fail "the other host never came to '$1'"
	[ -e "/pair/$1-$other" ] || lab_fail "the other host has failed before it came to '$1'"
}
lab_met() { [ -e "/pair/$1-$2" ] || [ -e "/pair/failed-$2" ]; }

# lab_order kill-N|start-N: have boot-pair do it, and wait until it is done.
lab_order() {
	touch "/pair/$1"
	lab_wait 30 [ ! -e "/pair/$1" ] || lab_fail "boot-pair does not obey: $1"
}

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# The systems that tests/bench/native and compare measure: up_NAME starts one, sets FIO to the arguments
# that make fio use it and server to its process; down ends it. native_point measures. NAME@SIDE is a
# system of the build builds[SIDE]. Sourced after rounds.sh; expects build, disk and out.

BENCH_MB=256
server= memory='' # a server's process, and its file in memory
declare -A builds=()
METER_GROUPS=()
. "$bench/meter.sh"

down() {
	[ -n "$server" ] || return 0
	kill "$server" 2> /dev/null || true
	wait "$server" 2> /dev/null || true
	server=
	[ -z "$memory" ] || rm -f "$memory"
	memory=
}

# wait_until COMMAND...: waits at most half a minute, while the server runs.
wait_until() {
	local tries=0
	until "$@"; do
		kill -0 "$server" 2> /dev/null || setup_fail "the server ended: $(tail -n 3 "$out/server.log")"
		tries=$((tries + 1))
		[ $tries -lt 600 ] || setup_fail "the server is not ready: $(tail -n 3 "$out/server.log")"
		read -rt 0.05 <> <(:) || true
	done
}

# fio uses the page cache of the file, as both servers do.
up_local() { FIO=(--ioengine=io_uring --direct=0 "--filename=$disk"); }

# start_nbdkit SOCKET-ARGUMENT... -- URI PLUGIN...: waits for its pid file, written when it listens.
start_nbdkit() {
	local arguments=() uri
	while [ "$1" != -- ]; do
		arguments+=("$1")
		shift
	done
	uri=$2
	shift 2
	rm -f "$out/nbdkit.pid"
	nbdkit -f -P "$out/nbdkit.pid" "${arguments[@]}" "$@" > "$out/server.log" 2>&1 &
	server=$!
	wait_until [ -s "$out/nbdkit.pid" ]
	FIO=(--ioengine=nbd "--uri=$uri")
}

over_unix() {
	rm -f "$out/nbdkit.sock"
	start_nbdkit -U "$out/nbdkit.sock" -- "nbd+unix:///?socket=$out/nbdkit.sock" "$@"
}

# A port that is free at the moment.
free_port() {
	comm -23 <(seq 20000 30000 | sort) <(ss -Htan | awk '{ sub(".*:", "", $4); print $4 }' | sort -u) | shuf -n 1
}
over_tcp() {
	local port
	port=$(free_port)
	start_nbdkit -i 127.0.0.1 -p "$port" -- "nbd://127.0.0.1:$port/" "$@"
}

# Memory is filled, as a file is: pages that were never written would be read without any copy.
filled() {
	fio "${FIO[@]}" --name=fill --rw=write --bs=1m --iodepth=8 --thread=1 --size=${BENCH_MB}m \
		--output="$out/fill.log" > /dev/null || setup_fail "filling: $(tail -n 3 "$out/fill.log")"
}

up_nbdkit_memory_tcp() { over_tcp memory "${BENCH_MB}M" allocator=malloc && filled; }
up_nbdkit_memory_unix() { over_unix memory "${BENCH_MB}M" allocator=malloc && filled; }
up_nbdkit_file_tcp() { over_tcp file "$disk"; }
up_nbdkit_file_unix() { over_unix file "$disk"; }

# start_qsd FILE: the NBD export of QEMU's storage daemon, which clients may use over several connections.
# fio's engine has one for each job, so from depth 4 on there are four jobs with a quarter of the depth. The
# export has no thread of its own: with one, 7.2 aborts when a client leaves (nbd_blockdev_client_closed()).
start_qsd() {
	local port
	port=$(free_port)
	rm -f "$out/qsd.pid"
	qemu-storage-daemon --blockdev "driver=file,node-name=file,filename=$1,cache.direct=off,aio=io_uring" \
		--nbd-server "addr.type=inet,addr.host=127.0.0.1,addr.port=$port,max-connections=8" \
		--export "type=nbd,id=bench,node-name=file,name=bench,writable=on" \
		--pidfile "$out/qsd.pid" > "$out/server.log" 2>&1 &
	server=$!
	wait_until [ -s "$out/qsd.pid" ]
	FIO=(--ioengine=nbd "--uri=nbd://127.0.0.1:$port/bench")
	jobs_split 4
}
up_qsd_file() { start_qsd "$disk"; }
up_qsd_memory() {
	memory=$(mktemp /dev/shm/rblk-bench.XXXXXX)
	cp "$disk" "$memory"
	start_qsd "$memory"
}

# jobs_split COUNT: the workload of JOB as that many jobs, if its depth admits that.
jobs_split() {
	local depth=${WORKLOAD##*qd} jobs=$out/jobs each
	[ "$depth" -ge "$1" ] || return 0
	each=$((depth / $1))
	rm -rf "$jobs"
	mkdir -p "$jobs/tests/bench"
	cp -r "$root/fio-jobs" "$jobs/"
	cp "$bench/sweep.fio" "$jobs/tests/bench/"
	sed -i "s/^iodepth=.*/iodepth=$each/; s/^iodepth_batch_submit=.*/iodepth_batch_submit=$(((each + 1) / 2))/
		s/^iodepth_batch_complete_max=.*/iodepth_batch_complete_max=$each/" "$jobs"/fio-jobs/*.fio "$jobs"/tests/bench/*.fio
	case ${JOB[1]} in
	*/sweep.fio) JOB[1]=$jobs/tests/bench/sweep.fio ;;
	*) JOB[1]=$jobs/fio-jobs/${JOB[1]##*/} ;;
	esac
	FIO+=("--numjobs=$1")
	connections=$1
}

start_rblkd() {
	: > "$out/server.log" # or the last daemon's would be read as this one's
	"$build/target/rblkd" --listen rblk+tcp://127.0.0.1:0 "$@" > "$out/server.log" 2>&1 &
	server=$!
	wait_until grep -q 'ready: ' "$out/server.log"
	uri=rblk+tcp://$(sed -n 's/.*ready: .*tcp:\/\///p' "$out/server.log")
	FIO=("--ioengine=external:$build/initiator/fio/librblk_fio.so")
}
up_rblk_memory() {
	start_rblkd --memory "bench=${BENCH_MB}M"
	FIO+=("--rblk_uri=$uri/bench")
	filled
}
up_rblk_file() {
	start_rblkd --cache buffered "bench=$disk"
	FIO+=("--rblk_uri=$uri/bench")
}

# native_begin: a disk, and the end of all that this script starts.
native_begin() {
	rm -rf "$out"
	mkdir -p "$out"
	trap 'native_end' EXIT
	trap 'exit 130' INT TERM
	disk=$(mktemp /var/tmp/rblk-bench.XXXXXX)
	dd if=/dev/zero of="$disk" bs=1M count=$BENCH_MB status=none
	export RBLK_FIO_SIZE=${BENCH_MB}m RBLK_FIO_RUNTIME=$runtime
}
spinners=()
native_end() {
	down
	company_leaves
	rm -f "$disk"
}

# One program of equal priority for each processor: with fewer, the others would move out of its way.
company_comes() {
	local i
	for i in $(seq "$(nproc)"); do
		bash -c 'while :; do :; done' &
		spinners+=($!)
	done
}
company_leaves() {
	[ ${#spinners[@]} -gt 0 ] || return 0
	kill "${spinners[@]}" 2> /dev/null || true
	wait "${spinners[@]}" 2> /dev/null || true
	spinners=()
}

# native_point SYSTEM COMPANY ROUND: measures the workload that JOB and WORKLOAD name.
native_point() {
	local base=${1%@*} result=$out/$1.$WORKLOAD.$2.$3 company=$2
	local connections=1 JOB=("${JOB[@]}")
	[ "$base" = "$1" ] || build=${builds[${1#*@}]}
	up_"$base"
	METER_GROUPS=()
	[ -z "$server" ] || METER_GROUPS=("target=$server")
	[ "$company" != crowded ] || company_comes
	case $base in rblk_*) set -- "--rblk_stats=$result.stats" ;; *) set -- ;; esac
	meter_run "$result.meter" "$runtime" fio "${FIO[@]}" "$@" --eta=never --output-format=json --output="$result.fio" \
		"${JOB[@]}" > "$result.log" 2>&1 || setup_fail "$base $WORKLOAD: fio failed: $(tail -n 3 "$result.log" "$result.fio")"
	company_leaves
	# Nothing but the local file, and nbdkit on its Unix socket, may do without TCP connections to the server.
	case $base in
	local | *_unix) ;;
	*) [ "$(cat "$result.probe" 2> /dev/null || echo "$connections")" -ge "$connections" ] ||
		setup_fail "$base $WORKLOAD: $(cat "$result.probe") connections in place of $connections" ;;
	esac
	down
}
# What meter_run calls in its window.
meter_probe() { ss -Htnp state established | grep -c "pid=$server," || true; }

# native_rounds SYSTEM...: by workload, so that what is compared is measured within seconds of each other;
# backwards in every other round, so that what drifts does not favour one place.
native_rounds() {
	local round system company systems=("$@") backwards
	for round in $(seq "$rounds"); do
		for workload in "${workloads[@]}"; do
			workload_job "$workload"
			echo "round $round: $WORKLOAD"
			for company in "${companies[@]}"; do
				for system in "${systems[@]}"; do native_point "$system" "$company" "$round"; done
			done
		done
		backwards=()
		for system in "${systems[@]}"; do backwards=("$system" "${backwards[@]}"); done
		systems=("${backwards[@]}")
	done
}

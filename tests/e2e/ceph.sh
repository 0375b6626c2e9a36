# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# A small Ceph cluster for tests that use images: one monitor and some OSDs in memory, cephx on, in a network namespace that the
# test has to itself. It is sourced behind cmd.sh, in place of which it runs the test again, in that namespace.
if [ -z "${RBLK_CEPH:-}" ]; then
	for tool in ceph-mon ceph-osd ceph rbd ip; do
		command -v $tool > /dev/null || no_tool $tool
	done
	unshare -mn true 2> /dev/null || { echo "SKIPPED: no namespaces (needs root)"; exit 77; }
	RBLK_CEPH=1 unshare -mn --propagation private "$0" "$@"
	exit
fi
ip link set lo up

ceph=$scratch/ceph
export CEPH_CONF=$ceph/ceph.conf
ceph_pids=()
trap 'target_stop; ceph_stop; rm -rf "$scratch"' EXIT

ceph_stop() {
	[ ${#ceph_pids[@]} = 0 ] || kill -KILL "${ceph_pids[@]}" 2> /dev/null || true
	[ ${#ceph_pids[@]} = 0 ] || wait "${ceph_pids[@]}" 2> /dev/null || true
	ceph_pids=()
	umount -l "$ceph" 2> /dev/null || true
}

# daemon ARGUMENT...: it ends with the test.
ceph_daemon() {
	"$@" -f -c "$CEPH_CONF" >> "$ceph/log" 2>&1 &
	ceph_pids+=($!)
}

# ceph_start [OSDS [ADDRESS]]: pool "rbd"; client.rblkd may do what an operator would allow it.
ceph_start() {
	local osds=${1:-1} address=${2:-127.0.0.1} fsid key i
	fsid=$(cat /proc/sys/kernel/random/uuid)
	mkdir -p "$ceph"
	# The monitor's syncs would be in the way of others' tests.
	mount -t tmpfs -o size=512m ceph "$ceph" || ceph_failed "its file system"
	mkdir "$ceph/mon" "$ceph/run"
	cat > "$CEPH_CONF" <<- END
		[global]
		fsid = $fsid
		mon host = [v2:$address:3300/0,v1:$address:6789/0]
		public addr = $address
		cluster addr = $address
		keyring = $ceph/keyring
		run dir = $ceph/run
		admin socket =
		pid file =
		log file = $ceph/log
		osd pool default size = 1
		osd pool default min size = 1
		osd pool default pg num = 8
		osd pool default pg autoscale mode = off
		osd crush chooseleaf type = 0
		# An OSD that was stopped for longer than its read lease may never find out that it has a new one, and then
		# keeps what it was sent for ever ("laggy": Ceph's tracker, 80404).
		osd pool default read lease ratio = 1000
		mon allow pool size one = true
		mon warn on pool no redundancy = false
		auth allow insecure global id reclaim = false
		[mon]
		mon data = $ceph/mon
		mon data avail warn = 1
		mon data avail crit = 1
		keyring = $ceph/mon/keyring
		# A commit at once, and not with the next second: nobody waits for the clock.
		paxos propose interval = 0.02
		[osd]
		osd data = $ceph/osd.\$id
		keyring = $ceph/osd.\$id/keyring
		osd objectstore = memstore
		memstore device bytes = 1073741824
	END
	{
		ceph-authtool --create-keyring "$ceph/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *'
		ceph-authtool "$ceph/keyring" --gen-key -n client.rblkd --cap mon 'profile rbd' --cap osd 'profile rbd pool=rbd'
		ceph-authtool --create-keyring "$ceph/mon.keyring" --gen-key -n mon. --cap mon 'allow *'
		ceph-authtool "$ceph/mon.keyring" --import-keyring "$ceph/keyring"
		monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:$address:3300/0,v1:$address:6789/0]" "$ceph/monmap"
		ceph-mon -c "$CEPH_CONF" -i a --mkfs --monmap "$ceph/monmap" --keyring "$ceph/mon.keyring"
	} > "$ceph/log" 2>&1 || ceph_failed "the monitor's store"
	ceph_daemon ceph-mon -i a
	for ((i = 0; i < osds; i++)); do
		mkdir "$ceph/osd.$i"
		key=$(ceph-authtool --gen-print-key)
		printf '[osd.%d]\n\tkey = %s\n' "$i" "$key" > "$ceph/osd.$i/keyring"
		{
			echo "{\"cephx_secret\": \"$key\"}" | ceph osd new "$(sed "s/./$i/" /proc/sys/kernel/random/uuid)" "$i" -i - &&
				ceph-osd -c "$CEPH_CONF" -i "$i" --mkfs --osd-uuid "$(ceph osd dump --format json | jq -r ".osds[$i].uuid")"
		} >> "$ceph/log" 2>&1 || ceph_failed "osd.$i"
		ceph_daemon ceph-osd -i "$i"
	done
	osds_up() { [ "$(ceph osd stat --format json 2> /dev/null | jq .num_up_osds)" = "$osds" ]; }
	wait_for "$osds OSDs" osds_up
	ceph osd pool create rbd >> "$ceph/log" 2>&1 || ceph_failed "the pool"
	rbd pool init rbd || ceph_failed "the pool"
}
ceph_failed() {
	tail -n 30 "$ceph/log" >&2
	fail "Ceph: $1"
}

# volume_is LINE...: the configuration of the one volume.
volume_is() {
	printf '%s\n' '[target]' 'require_all = yes' "${target_lines[@]}" '[volume data]' 'store = rbd' "$@" > "$scratch/rblkd.conf"
}
target_lines=()
# rbd_start: serves that.
rbd_start() {
	target_start --config "$scratch/rblkd.conf"
}
# rbd_refused TEXT: it cannot be served, and this is said.
rbd_refused() {
	local got=0
	timeout 120 "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state" --reservations-dir "$scratch/identities" \
		--control-socket none --journal none --pool-size 8M --config "$scratch/rblkd.conf" > "$scratch/out" 2> "$scratch/err" || got=$?
	[ $got = 1 ] || fail "rblkd: status $got, not 1"
	err_has "$1"
}

# Gateways that a test has begun: gateway[PORT] is the process, log.PORT what it has logged.
# gateway_ended PORT STATUS: it has ended by itself, or as it was told.
gateway_ended() {
	local got=0
	wait "${gateway[$1]}" || got=$?
	[ $got = "$2" ] || fail "gateway $1: status $got, not $2: $(tail -n 3 "$scratch/log.$1")"
	unset "gateway[$1]"
}
told() { grep -qF -- "$2" "$scratch/log.$1"; }

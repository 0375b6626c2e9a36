# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Question: how many commits a second does a disk carry, where each waits for its fsync? Method: two hosts; ext4 on the disk of
# each system in turn, in rounds; one and sixteen writers that wait after each 4k, sixteen that read and write small files as a mail
# server does, and PostgreSQL's pgbench, if it is there. A line for each load with the median of each system's rounds, its ratio
# to the first system's, and its packets of one commit. Not one of ctest's, for it measures time:
#   boot-kmod 6.1 --pair -t 3600 -m 2G commits.sh commits.sh [ROUNDS [SECONDS [SYSTEM...]]]    default: 3 5 nvme_rdma iser rblk_kmod
. "$LAB/guest.sh"
. "$LAB/jobs/kmod.sh"
. "$LAB/nvmet.sh"
. "$LAB/../bench/systems.sh"
. "$LAB/../bench/systems_scsi.sh"
rounds=${1:-3} seconds=${2:-5}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- nvme_rdma iser rblk_kmod
POSTGRES=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null)

lab_link_up
cp /sys/class/infiniband/rxe0/ports/1/gids/0 "/pair/gid-$LAB_HOST"
lab_meet linked
if [ "$LAB_HOST" = 1 ]; then
	systems_serve "$@"
	lab_meet serving
	lab_meet end 100000
	exit
fi
lab_meet serving

packets() { echo $(($(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/{sent,rcvd}_pkts | paste -sd+))); }
# load_*: sets commits to how many a second.
files() { # fio's arguments
	fio --directory=/mnt --ioengine=psync --fsync=1 --time_based --runtime="$seconds" --group_reporting --eta=never \
		--output-format=json --output=/tmp/load.json "$@" > /dev/null || lab_fail "fio: $(tail -n 5 /tmp/load.json)"
	commits=$(sed -n '/^{/,$p' /tmp/load.json | jq '.jobs[0].write.iops')
}
load_one() { files --name=one --rw=write --bs=4k --size=16m; }
load_sixteen() { files --name=sixteen --rw=randwrite --bs=4k --size=2m --numjobs=16; }
load_mail() { files --name=mail --rw=randrw --bs=16k --filesize=16k --nrfiles=100 --numjobs=16 --openfiles=8; }
load_pgbench() {
	su postgres -c "$POSTGRES/pgbench -n -c 8 -T $seconds bench" > /tmp/load.txt 2>&1 || lab_fail "pgbench: $(cat /tmp/load.txt)"
	commits=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' /tmp/load.txt)
}
postgres_start() {
	install -d -o postgres /mnt/postgres /run/postgresql
	su postgres -c "$POSTGRES/initdb -D /mnt/postgres --wal-segsize=1 && $POSTGRES/pg_ctl -w -D /mnt/postgres -l /tmp/postgres.log \
		-o '-c min_wal_size=4MB -c max_wal_size=16MB -c shared_buffers=16MB' start &&
		createdb bench && $POSTGRES/pgbench -i -q bench" > /tmp/load.txt 2>&1 ||
		lab_fail "PostgreSQL: $(tail -n 5 /tmp/load.txt /tmp/postgres.log)"
}
postgres_stop() { su postgres -c "$POSTGRES/pg_ctl -D /mnt/postgres -m fast stop" > /dev/null || lab_fail "PostgreSQL: $(tail -n 5 /tmp/postgres.log)"; }

# measure LOAD
measure() {
	local before
	before=$(packets)
	"load_$1"
	echo "$1 $system $commits $(($(packets) - before))" >> /out/commits
}
for round in $(seq "$rounds"); do
	for system in "$@"; do
		lab_say "round $round: $system"
		"connect_$system"
		disk=${FIO[-1]#--filename=}
		mkfs.ext4 -qF "$disk" && mount "$disk" /mnt || lab_fail "$system: no file system"
		for load in one sixteen mail; do
			measure $load
			rm -f /mnt/*.*
		done
		if [ -n "$POSTGRES" ]; then
			postgres_start
			measure pgbench
			postgres_stop
		fi
		umount /mnt
		"disconnect_$system"
	done
done
lab_meet end
jq -Rrn --arg first "$1" --argjson seconds "$seconds" '
	def median: sort | .[length / 2 | floor];
	[inputs | split(" ") | {load: .[0], system: .[1], rate: (.[2] | tonumber), packets: ((.[3] | tonumber) / (.[2] | tonumber) / $seconds)}]
	| group_by(.load)[] | (map(select(.system == $first))) as $base
	| "\(.[0].load): " + ([group_by(.system)[]
		| . as $rows | [range(length) | $rows[.].rate / $base[.].rate] as $ratios
		| "\(.[0].system) \(map(.rate) | median | round) a second, ratio \($ratios | median * 100 | round / 100) (\($ratios | min * 100 | round / 100) to \($ratios | max * 100 | round / 100)), \(map(.packets) | median * 10 | round / 10) packets"]
		| join("; "))' < /out/commits

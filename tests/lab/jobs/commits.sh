# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Question: how many commits a second does a disk carry, where each waits for its fsync? Method: two hosts; ext4 on the disk of
# each system in turn, in rounds; one and sixteen writers that wait after each 4k, sixteen that read and write small files as a mail
# server does, and PostgreSQL's pgbench, if it is there. A line for each load with the median of each system's rounds, its ratio
# to the first system's, and its packets of one commit. Not one of ctest's, for it measures time:
#   boot-nocrc 6.1 --pair -t 3600 -m 2G -c 1 commits.sh commits.sh [ROUNDS [SECONDS [SYSTEM...]]]    default: 3 5 nvme_rdma iser rblk_kmod
# In one guest whose clock counts instructions the rates are what a commit costs both ends, at any load of this machine:
#   boot-nocrc 6.1 -e -t 3600 commits.sh [ROUNDS [SECONDS [SYSTEM...]]]
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
if [ -e /pair ]; then
	cp /sys/class/infiniband/rxe0/ports/1/gids/0 "/pair/gid-$LAB_HOST"
	lab_meet linked
	if [ "$LAB_HOST" = 1 ]; then
		systems_serve "$@"
		lab_meet serving
		lab_meet end 100000
		exit
	fi
	lab_meet serving
	ends=1
else
	ends=2
	mkdir /pair
	for host in 1 2; do cp /sys/class/infiniband/rxe0/ports/1/gids/0 /pair/gid-$host; done
	systems_serve "$@"
fi

# One guest sends each packet and receives it.
packets() { echo $((($(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/{sent,rcvd}_pkts | paste -sd+)) / ends)); }
# load_*: writes how many commits a second there were, and how many packets.
report() { echo "$1 $system $2 $(($(packets) - before))" >> /out/commits; }
files() { # NAME, fio's arguments
	local all=(--name="$1" --directory=/mnt --ioengine=psync --fsync=1 --time_based --runtime="$seconds" --group_reporting --eta=never
		--output-format=json --output=/tmp/load.json "${@:2}") before
	fio "${all[@]}" --create_only=1 > /dev/null && sync || lab_fail "$system: fio: $(tail -n 5 /tmp/load.json)"
	before=$(packets)
	fio "${all[@]}" > /dev/null || lab_fail "$system: fio: $(tail -n 5 /tmp/load.json)"
	report "$1" "$(sed -n '/^{/,$p' /tmp/load.json | jq '.jobs[0].write.iops')"
	rm -f /mnt/*.*
}
load_one() { files one --rw=write --bs=4k --size=16m; }
load_sixteen() { files sixteen --rw=randwrite --bs=4k --size=2m --numjobs=16; }
load_mail() { files mail --rw=randrw --bs=16k --filesize=16k --nrfiles=100 --numjobs=16 --openfiles=8; }

# postgres COMMAND...: one of PostgreSQL's programs, as its own user.
postgres() { runuser -u postgres -- "$POSTGRES/$1" "${@:2}" > /tmp/load.txt 2>&1 < /dev/null || lab_fail "$system: $*: $(cat /tmp/load.txt /tmp/postgres.log)"; }
postgres_start() { # FOLDER
	postgres pg_ctl -w -D "$1" -l /tmp/postgres.log -o '-c min_wal_size=4MB -c max_wal_size=16MB -c shared_buffers=16MB' start
}
# The database, made once and copied to each disk.
postgres_make() {
	install -d -o postgres /tmp/postgres /run/postgresql && install -o postgres /dev/null /tmp/postgres.log
	postgres initdb -N -D /tmp/postgres --wal-segsize=1
	postgres_start /tmp/postgres
	postgres createdb bench
	postgres pgbench -i -q bench
	postgres pg_ctl -D /tmp/postgres -m fast stop
}
load_pgbench() { # without the one row of each branch, for which all clients would wait
	local before
	cp -a /tmp/postgres /mnt/ && sync || lab_fail "$system: the database is not copied"
	postgres_start /mnt/postgres
	before=$(packets)
	postgres pgbench -N -n -c 8 -T "$seconds" bench
	report pgbench "$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' /tmp/load.txt)"
	postgres pg_ctl -D /mnt/postgres -m fast stop
}

loads=(one sixteen mail)
system=none
if [ -n "$POSTGRES" ]; then
	lab_say "a database"
	postgres_make
	loads+=(pgbench)
fi
systems=("$@")
for round in $(seq "$rounds"); do
	backwards=()
	for system in "${systems[@]}"; do
		backwards=("$system" "${backwards[@]}")
		lab_say "round $round: $system"
		"connect_$system"
		disk=${FIO[-1]#--filename=}
		mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 "$disk" && mount "$disk" /mnt || lab_fail "$system: no file system"
		for load in "${loads[@]}"; do "load_$load"; done
		umount /mnt
		"disconnect_$system"
	done
	systems=("${backwards[@]}") # what drifts does not favour one place
done
[ "$LAB_HOST" = 1 ] || lab_meet end
jq -Rrn --arg first "$1" --argjson seconds "$seconds" '
	def median: sort | .[length / 2 | floor];
	[inputs | split(" ") | {load: .[0], system: .[1], rate: (.[2] | tonumber), packets: ((.[3] | tonumber) / (.[2] | tonumber) / $seconds)}]
	| group_by(.load)[] | (map(select(.system == $first))) as $base
	| "\(.[0].load): " + ([group_by(.system)[]
		| . as $rows | [range(length) | $rows[.].rate / $base[.].rate] as $ratios
		| "\(.[0].system) \(map(.rate) | median | round) a second, ratio \($ratios | median * 100 | round / 100) (\($ratios | min * 100 | round / 100) to \($ratios | max * 100 | round / 100)), \(map(.packets) | median * 10 | round / 10) packets"]
		| join("; "))' < /out/commits

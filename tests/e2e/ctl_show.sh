#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rblkctl show is the configuration in force, so that a daemon that is started with it shows the same; diff is what a start by the
# files would not have, or have besides. Method: settings of each kind, in files, on the command line and changed by rblkctl; saved,
# changed in the files, and broken there.
. "$(dirname "$0")/cmd.sh"
cd "$scratch"
socket=$scratch/control
ctl() { local status=$1 verb=$2; shift 2; expect "$status" "$RBLKCTL" "$verb" --socket "$socket" "$@"; }
# shows LINE...: these lines are in the output, in this order, one behind the other.
shows() {
	local text
	text=$(printf '%s\n' "$@")
	[[ $'\n'$(cat out)$'\n' == *$'\n'"$text"$'\n'* ]] || fail "the output lacks: $text"
}

truncate -s 1M data.img
expect 0 "$RBLK" key new db1.key
cat > rblkd.conf <<-END
	# The disks of this house.
	[target]
	keepalive = 7s
	open = yes
	[volume data]
	path = $scratch/data.img
	cache = buffered
	limit_rate = 100M
	limit_burst = 200ms
	[initiator db1]
	secret = $scratch/db1.key
	address = 192.0.2.0/24, fd00:1::7
	address = local
	write = data
	see = m*
	weight = 3
	limit_iops = 500
END
target_start --config rblkd.conf --control-socket "$socket" --reactors 2 --pool-size 32M --memory m=8K
ctl 0 diff
[ "$(cat out)" = 'no differences' ] || fail "nothing differs"
ctl 0 show
shows '[volume data]' "path = $scratch/data.img" 'limit_rate = 100M' 'limit_burst = 200ms' 'cache = buffered' ''
shows '[volume m]' 'store = memory' 'size = 8K' ''
shows '[initiator db1]' 'address = 192.0.2.0/24, fd00:1::7, local' "secret = $scratch/db1.key" 'see = m*' 'write = data' 'weight = 3' \
	'limit_iops = 500'
out_has 'open = yes'
out_has 'pool_size = 32M'
out_has 'keepalive = 7s'
grep -qF -f db1.key out && fail "a secret is shown"
grep -qE 'not in the files|credits|not saved' out && fail "defaults, or what differs"
ctl 0 show --all
shows 'credits = 128'
out_has 'read_only = no'

# What the machine has chosen is no setting, with --cpus or without.
target_stop
for option in --reservations-dir="$scratch/identities" --cpus=0; do
	target_start --control-socket "$socket" --memory m=8K $option
	ctl 0 show
	grep -qE '^(reactors|read_only)' out && fail "nobody has set that"
	ctl 0 show --all
	out_has 'reactors = '
	target_stop
done
target_listen=rblk://:4430 target_start --control-socket "$socket" --config rblkd.conf --reactors 2 --pool-size 32M --memory m=8K
ctl 0 show
grep -q '^listen = ' out && fail "nobody has set the address"
target_stop
target_start --config rblkd.conf --control-socket "$socket" --reactors 2 --pool-size 32M --memory m=8K

# Changed, and not saved.
ctl 0 set volume data limit_rate=50M
ctl 0 add volume more store=memory size=1M
ctl 0 show
out_has 'limit_rate = 50M ; not in the files'
shows '[volume more]' 'store = memory ; not in the files' 'size = 1M ; not in the files' ''
out_has 'not saved: rblkctl save'
# A new section is told by what is set in it, too.
if grep -qE 'limit_iops = 0|lock_wait = |read_only = ' out; then fail "defaults of a section that the files lack"; fi
ctl 3 diff
if grep -qE 'limit_iops = 0|lock_wait = |read_only = ' out; then fail "defaults of a section that the files lack"; fi
shows '[volume data]' '- limit_rate = 100M' '+ limit_rate = 50M' '' '[volume more]' '+ store = memory'
ctl 0 show --json
json_is '.unsaved_changes and any(.settings[]; .section == "volume data" and .key == "limit_rate" and .value == "50M" and .in_files == "100M")'
ctl 0 save
ctl 0 diff
ctl 0 show
mv out before
# What is shown is a configuration: a daemon that reads it shows the same.
target_stop
sed -E '/^listen|^state_dir|^reservations_dir|^control_socket|^journal/d' before > again.conf
target_start --config again.conf --control-socket "$socket" --pool-size 32M
ctl 0 show
grep -vE '^(listen|state_dir|reservations_dir|control_socket|journal) ' before > one
grep -vE '^(listen|state_dir|reservations_dir|control_socket|journal) ' out > two
diff one two >&2 || fail "another configuration"

# The files are changed, and not read again; a setting that needs a restart stays; a file is broken.
sed -i 's/^weight = 3/weight = 5/; s/^keepalive = .*/keepalive = 9s/' again.conf
printf '[volume other]\nstore = null\nsize = 1M\n' >> again.conf
ctl 3 diff
shows '[initiator db1]' '- weight = 5' '+ weight = 3'
out_has '- keepalive = 9s'
shows '[volume other]' '- store = null' '- size = 1M'
ctl 0 reload
ctl 3 diff
shows '[target]' '- keepalive = 9s' '+ keepalive = 7s'
[ "$(wc -l < out)" = 3 ] || fail "more than what needs a restart"
echo 'nonsense' >> again.conf
ctl 1 diff
err_has 'the files cannot be read: again.conf:'
ctl 0 show
out_has 'weight = 5'
out_has 'the files cannot be read: again.conf:'

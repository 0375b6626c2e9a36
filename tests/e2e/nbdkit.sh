#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The nbdkit plugin writes and reads a volume without changing its data. Method: qemu-img and
# nbdcopy write through the plugin; the test compares the target's file, and reads back. What a
# client is told is compared with the volume's properties; every refusal has its message.
. "$(dirname "$0")/cmd.sh"

# nbd STATUS ARGUMENT... -- COMMAND: runs the plugin with these while COMMAND runs, which uses $uri.
nbd() {
	local status=$1 arguments=()
	shift
	while [ "$1" != -- ]; do
		arguments+=("$1")
		shift
	done
	expect "$status" nbdkit -f -U - "${arguments[@]}" --run "set -e; cd $scratch; $2"
}
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }

truncate -s 48M "$scratch/disk"
head -c 48M /dev/urandom > "$scratch/image"
target_start --memory mem=24M "$scratch/disk"
plugin=("$RBLK_NBDKIT" "uri=$target/disk")

# What a client is told. A memory volume cannot flush, and says so.
nbd 0 "${plugin[@]}" -- 'nbdinfo --json "$uri"'
json_is '.exports[0] | ."export-size" == 50331648 and .can_flush and .can_fua and .can_trim and
	.can_zero and .can_multi_conn and (.is_read_only | not) and (.can_cache | not) and
	.block_size_minimum == 512 and .block_size_preferred >= 512'
nbd 0 "$RBLK_NBDKIT" "$target/mem" -- 'nbdinfo --json "$uri"'
json_is '.exports[0] | ."export-size" == 25165824 and (.can_flush | not) and (.can_fua | not)'
nbd 0 -r "${plugin[@]}" -- 'nbdinfo --json "$uri"'
json_is '.exports[0].is_read_only'

# Round trips: long requests on several connections and queues, a loop that spins and one that sleeps.
nbd 0 "${plugin[@]}" queues=2 -- 'nbdcopy --flush --connections=4 image "$uri"; nbdcopy "$uri" back'
same "$scratch/image" "$scratch/disk"
same "$scratch/image" "$scratch/back"
nbd 0 "${plugin[@]}" polling=always -- 'nbdcopy --request-size=65536 "$uri" back'
same "$scratch/image" "$scratch/back"
nbd 0 "${plugin[@]}" -- 'qemu-img convert -n -f raw -O raw back "$uri" &&
	qemu-img compare -f raw -F raw image "$uri"'
out_has 'Images are identical.'

# Zeroes and trims: a sparse image written over one that is not sparse. FUA by qemu's write-through
# mode.
truncate -s 48M "$scratch/sparse"
printf 'in the middle' | dd of="$scratch/sparse" bs=1 seek=20000000 conv=notrunc status=none
nbd 0 "${plugin[@]}" -- 'qemu-img convert -n -t writethrough -f raw -O raw sparse "$uri"'
same "$scratch/sparse" "$scratch/disk"
nbd 0 "${plugin[@]}" -- 'qemu-io -f raw -c "write -P 7 -f 0 8M" -c "write -z 1M 2M" -c "write -zu 4M 1M" \
	-c "discard 6M 1M" -c flush -c "read -P 7 0 1M" -c "read -P 0 1M 2M" -c "read -P 0 4M 1M" \
	-c "read -P 7 7M 1M" "$uri"'
! grep -q 'verification failed' "$scratch/out" || fail "qemu-io read wrong data"

# Holes: a client is told of them if the store knows them; if not, all is data.
truncate -s 0 "$scratch/disk" && truncate -s 48M "$scratch/disk"
dd if=/dev/urandom of="$scratch/disk" bs=1M seek=8 count=4 conv=notrunc,fsync status=none
nbd 0 "${plugin[@]}" -- 'nbdinfo --map --json "$uri"'
json_is '[.[] | [.offset, .length, .type]] ==
	[[0, 8388608, 3], [8388608, 4194304, 0], [12582912, 37748736, 3]]'
nbd 0 "${plugin[@]}" -- 'nbdinfo --map --totals "$uri"'
out_has 'hole,zero'
cp --sparse=never "$scratch/disk" "$scratch/full"
rm -f "$scratch/back"
nbd 0 "${plugin[@]}" -- 'nbdcopy "$uri" back'
same "$scratch/full" "$scratch/back"
rm -f "$scratch/back"
nbd 0 "${plugin[@]}" -- 'qemu-img convert -f raw -O raw "$uri" back; qemu-img map --output=json -f raw "$uri"'
same "$scratch/full" "$scratch/back"
nbd 0 "$RBLK_NBDKIT" "$target/mem" -- 'nbdinfo --map --json "$uri"'
json_is '[.[] | [.offset, .length, .type]] == [[0, 25165824, 0]]'

# All volumes of a target, each under its own name.
nbd 0 "$RBLK_NBDKIT" "$target" -- 'nbdinfo --list --json "$uri"'
json_is '[.exports[] | [."export-name", ."export-size"]] == [["disk", 50331648], ["mem", 25165824]]'
nbd 0 "$RBLK_NBDKIT" "$target,$target" -- 'nbdinfo --list --json "$uri"'
json_is '[.exports[]."export-name"] == ["disk", "mem"]'
nbd 0 "$RBLK_NBDKIT" "$target,$target/disk" -- 'nbdinfo --json "$uri"'
json_is '.exports[0]."export-size" == 50331648'
nbd 1 "$RBLK_NBDKIT" "$target" -- 'nbdinfo "nbd+unix:///absent?socket=$unixsocket"'
err_has 'absent'

# Refusals and their messages.
nbd 1 "$RBLK_NBDKIT" "$target/absent" -- 'nbdinfo "$uri"'
err_has 'volume "absent": no such volume'
nbd 1 "$RBLK_NBDKIT" rblk+tcp://127.0.0.1:1/disk -- 'nbdinfo "$uri"'
err_has 'Connection refused'
nbd 1 "$RBLK_NBDKIT" -- :
err_has 'uri is missing'
nbd 1 "$RBLK_NBDKIT" nbd://localhost -- :
err_has 'begins with neither'
for wrong in queues=0 queues=17 polling=maybe colour=red; do
	nbd 1 "${plugin[@]}" "$wrong" -- :
	err_has "${wrong%%=*}"
done

# A key that cannot be used is refused at the start, not to the first client.
no_key() {
	nbd 1 "${plugin[@]}" "${@:2}" -- 'touch started'
	err_has "$1"
	[ ! -e "$scratch/started" ] || fail "it has started"
}
no_key "key=$scratch/nokey: No such file or directory" key="$scratch/nokey"
printf 'rblk1:no secret\n' > "$scratch/bad.key"
chmod 600 "$scratch/bad.key"
no_key "key=$scratch/bad.key: " key="$scratch/bad.key"
no_key 'tls=always: needs key=FILE' tls=always
expect 0 "$RBLK" key new "$scratch/good.key"
nbd 1 "$RBLK_NBDKIT" rblk://127.0.0.1/disk key="$scratch/good.key" tls=always -- :
err_has 'tls=always: is for rblk+tcp:// only'
nbd 0 "${plugin[@]}" key="$scratch/good.key" -- 'touch started'

# A target that stops ends only its own connections; the next connection works when it runs again.
target_stop
nbd 1 "${plugin[@]}" -- 'nbdinfo "$uri"'

# The manual has every parameter that the program has, and no other.
nbdkit "$RBLK_NBDKIT" --help > "$scratch/help"
manual=$(dirname "$0")/../../initiator/man/nbdkit-rblk-plugin.1.scd
diff <(grep -oE '^(\[uri=\]|[a-z-]+=)' "$scratch/help" | tr -d '[]=' | sort) \
	<(sed -n 's/^\*\([a-z-]*\)=\*_.*/\1/p' "$manual" | sort) >&2 || fail "manual and --help differ"

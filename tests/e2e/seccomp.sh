#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: where a container's seccomp profile forbids io_uring, rblkd says what helps; with the profile of the package
# it serves. Method: a filter that refuses io_uring as engines do; the profile's own list as a filter, and everything
# that a container has of rblkd: I/O, the control socket, HTTP, a reload, the end.
. "$(dirname "$0")/cmd.sh"
profile=$PROFILE

# numbers NAME...: of these system calls on this machine, those that it has.
numbers() {
	{
		echo '#include <sys/syscall.h>'
		printf '"%s" SYS_%s\n' $(printf '%s\n' "$@" | sed 'p')
	} | "$CC" -E -P - | awk '$2 ~ /^[0-9]+$/ {print $2}' | paste -sd,
}

forbidden=$(numbers io_uring_setup io_uring_enter io_uring_register)
expect 1 "$RUN" deny 1 "$forbidden" "$RBLKD" --listen rblk+tcp://127.0.0.1:0 --state-dir "$scratch/state" \
	--control-socket none --journal none --memory m=1M
err_has 'reactor 0: io_uring: Operation not permitted'
err_has 'seccomp profile that allows io_uring, such as /usr/share/rblk/seccomp.json'
err_has 'kernel.io_uring_disabled'
expect 1 "$RUN" deny 1 "$forbidden" "$RBLKD" --check --listen rblk+tcp://127.0.0.1:0 --control-socket none --memory m=1M
err_has 'io_uring: Operation not permitted (it is forbidden here'

[ "$(jq -r .defaultAction "$profile")" = SCMP_ACT_ERRNO ] || fail "the profile's default"
mapfile -t names < <(jq -r '.syscalls[] | select(.action == "SCMP_ACT_ALLOW") | .names[]' "$profile")
for name in io_uring_setup io_uring_enter io_uring_register; do
	[[ " ${names[*]} " == *" $name "* ]] || fail "the profile lacks $name"
done
! grep -qwE 'mount|bpf|ptrace|unshare|setns|init_module|keyctl|reboot' <<< "${names[*]}" ||
	fail "the profile allows what no container needs"
allowed=$(numbers "${names[@]}") refused=$(jq .defaultErrnoRet "$profile")
truncate -s 8M "$scratch/disk.img"
rblkd=$RBLKD
cat > "$scratch/rblkd" << END
#!/bin/sh
exec "$RUN" allow $refused "$allowed" "$rblkd" "\$@"
END
chmod +x "$scratch/rblkd"
cat > "$scratch/conf" << END
[volume disk]
path = $scratch/disk.img
END
RBLKD=$scratch/rblkd target_start --config "$scratch/conf" --control-socket "$scratch/control" --http 0
head -c 1M /dev/urandom > "$scratch/data"
expect 0 "$RBLK" copy "$scratch/data" "$target/disk"
out_has 'verified: crc32c'
expect 0 "$RBLKCTL" status --socket "$scratch/control"
printf '[volume more]\nstore = memory\nsize = 1M\n' >> "$scratch/conf"
expect 0 "$RBLKCTL" reload --socket "$scratch/control"
out_has '1 volume added'
expect 0 "$RBLK" list "$target"
out_has more
kill "$target_pid"
wait "$target_pid" || fail "rblkd did not end in order"
target_pid=
cmp -n 1M "$scratch/data" "$scratch/disk.img" || fail "the data"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the lab's commands on the host share: where the cache is, which accelerator works, and which
# lines of a kernel log fail a job. Sourced by boot, boot-pair and kernel; does nothing by itself.

lab_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rblk

# boot's exit statuses that are not the job's.
LAB_EXIT_KERNEL=120  # the guest's kernel complained
LAB_EXIT_TIMEOUT=124 # out of time
LAB_EXIT_DIED=125    # the guest ended without a status: panic, or QEMU could not start

# Lines that a healthy kernel never prints. "segfault at" is a program's crash: the kernel only
# reports it, but no job is right that has one.
LAB_COMPLAINTS='WARNING:|BUG:|Oops|Kernel panic|Call Trace:|general protection fault'
LAB_COMPLAINTS+='|KASAN|KCSAN|UBSAN|possible (circular|recursive) locking|inconsistent lock state'
LAB_COMPLAINTS+='|suspicious RCU usage|INFO: task .* blocked for more than|rcu: INFO:.*stall|soft lockup'
LAB_COMPLAINTS+='|hard LOCKUP|unreferenced object|refcount_t:|list_(add|del) corruption|segfault at'

# lab_complaints FILE...: print the lines that fail a job; succeeds when there are some.
lab_complaints() {
	grep -ahE "$LAB_COMPLAINTS" "$@" 2>/dev/null | tr -d '\r' | sort -u | head -n 40 | grep .
}

# lab_accel KERNEL: print "kvm" or "tcg". That /dev/kvm can be opened proves nothing: on some
# machines a guest hangs under it. So one guest is booted with a time limit, and the answer is
# remembered for this host kernel. RBLK_ACCEL overrides.
lab_accel() {
	local kernel=$1 memory=$lab_cache/accel host answer=tcg out
	if [ -n "${RBLK_ACCEL:-}" ]; then
		echo "$RBLK_ACCEL"
		return
	fi
	if [ ! -w /dev/kvm ]; then
		echo tcg
		return
	fi
	host=$(uname -r)
	if [ "$(cut -d' ' -f1 "$memory" 2>/dev/null)" = "$host" ]; then
		cut -d' ' -f2 "$memory"
		return
	fi
	echo "lab: trying KVM (once, at most 60 s)" >&2
	out=$(mktemp -d)
	if RBLK_ACCEL=kvm "$lab_dir/boot" -t 60 -k "$kernel" -o "$out" "$lab_dir/jobs/probe.sh" \
		> "$out/log" 2>&1; then
		answer=kvm
	fi
	rm -rf "$out"
	echo "$host $answer" > "$memory"
	echo "$answer"
}

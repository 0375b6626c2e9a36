# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the lab's commands on the host share: where the cache is, which accelerator works, and which
# lines of a kernel log fail a job. Sourced by boot, boot-pair and kernel; does nothing by itself.

lab_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rblk

LAB_EXIT_BROKEN=121  # a job's: a promise was broken (guest.sh)
# boot's exit statuses that are not the job's.
LAB_EXIT_KERNEL=120  # the guest's kernel complained
LAB_EXIT_TIMEOUT=124 # out of time
LAB_EXIT_DIED=125    # the guest ended without a status: panic, or QEMU could not start

# Lines that a healthy kernel never prints. "segfault at" is a program's crash: the kernel only
# reports it, but no job is right that has one.
LAB_COMPLAINTS='WARNING:|BUG:|Oops|Kernel panic|Call Trace:|general protection fault'
LAB_COMPLAINTS+='|KASAN|KCSAN|UBSAN|possible (circular|recursive) locking|inconsistent lock state'
LAB_COMPLAINTS+='|suspicious RCU usage|INFO: task .* blocked for more than|rcu: INFO:.*stall|soft lockup'
LAB_COMPLAINTS+='|hard LOCKUP|unreferenced object|suspected memory leaks|refcount_t:|list_(add|del) corruption|segfault at'

# lab_cat FILE...: prints those that exist; a guest that ended early has left only some.
lab_cat() { cat "$@" 2>/dev/null || true; }

# lab_complaints EXCUSES FILE...: print the lines that fail a job; succeeds when there are some. A whole
# report, from its first line to its last, is left out when an expression (one on a line) of the file
# excuses beside this one matches it, or of EXCUSES, the job's own, which need not exist.
lab_complaints() {
	local excuses=$1
	shift
	lab_cat "$@" | tr -d '\r' | awk -v always="$lab_dir/excuses" -v own="$excuses" '
		function learn(file,  line) {
			while ((getline line < file) > 0)
				if (line !~ /^(#|$)/) excuse[++count] = line
		}
		BEGIN { learn(always); learn(own) }
		function report_ends(  i) {
			for (i = 1; i <= count; i++)
				if (text ~ excuse[i]) text = ""
			printf "%s", text
			text = last = ""
		}
		!last && /\[ cut here \]/ { last = "\\[ end trace" }
		!last && /BUG: KASAN: / { last = "==========" }
		!last && /vmalloc error: size|trying to register non-static key/ { last = "</TASK>" }
		!last { print; next }
		{ text = text $0 "\n" }
		$0 ~ last { report_ends() }
		END { report_ends() }' | grep -aE "$LAB_COMPLAINTS" | sort -u | sed -n 1,40p | grep .
}

# lab_emulator_fault FILE...: succeeds when the first complaint in the kernel logs is an int3 where there is
# none. While the kernel patches an instruction, an int3 replaces it. QEMU before 8.1, emulating several
# processors, may run that int3 after the patching is over (it reads the bytes more than once). A kernel
# that jumped into the int3s between functions shows one before the marked byte, and is not excused.
# If the trap finds the instruction whole again, it returns to it, and QEMU may run the int3 for ever. The
# processor that patches waits for that one, and its soft lockup is the first complaint.
lab_emulator_fault() {
	lab_cat "$@" | awk -v complaints="$LAB_COMPLAINTS|int3: 0000" '
		!hit && !waits && $0 ~ complaints {
			if (/soft lockup/) waits = 1
			else if (/int3: 0000 \[#1\]/) hit = 1
			else exit
		}
		hit && /Code: / { fault = ($0 !~ / cc </); exit }
		waits && / text_poke_/ { fault = 1; exit }
		END { exit !fault }'
}

# lab_accel KERNEL: print "kvm" or "tcg". It is not enough that /dev/kvm can be opened: on some
# machines a guest hangs under it. So one guest is booted with a time limit, and the result is
# stored for this host kernel. RBLK_ACCEL overrides.
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

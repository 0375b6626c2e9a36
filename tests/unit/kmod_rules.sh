#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: rules of the kernel module that no test run can check. Nothing is logged under a spinlock: a slow console
# would keep interrupts off. mr_valid is stored with release and read with acquire. The connection manager's private
# data may be unaligned, so the code reads a copy only. Method: read the sources; each rule must first find an example
# of a violation. Expects the project's folder as the argument.
set -euo pipefail
cd "$1/kmod"

# From a line that takes a spinlock to the next that releases one.
logged_under_lock() {
	awk '
	/^}/ { held = 0 }
	/spin_lock(_irq|_irqsave|_bh)?\(/ { held = 1 }
	held && /(^|[^a-z_])(pr|dev|ibdev)_(emerg|alert|crit|err|warn|notice|info|debug)(_once|_ratelimited)?\(|printk\(/ {
		print FILENAME ":" FNR ": logged under a spinlock: " $0
	}
	/spin_unlock(_irq|_irqrestore|_bh)?\(/ { held = 0 }' "$@"
}

# Except the declaration, and the reset of a region that nothing else uses yet.
plain_mr_valid() {
	grep -HnE '\bmr_valid\b' "$@" |
		grep -vE 'smp_(store_release|load_acquire)\(|bool mr_valid;|mr_valid = false; /\* until it is sent \*/' || true
}

# Matches a cast of the event's pointer, or its use without rblk_login_private().
private_data_in_place() {
	grep -HnE '= *\(.*\*\) *(data|.*private_data)\b|rblk_check_(accept|reject)\((data|.*private_data)' "$@" || true
}

# A session has drive_work, a queue its work and late_work, which wait for nobody: another kind of work would have to be thought of in
# each teardown.
other_works() {
	grep -HnE 'INIT_(DELAYED_)?WORK\(|DECLARE_(DELAYED_)?WORK\(' "$@" |
		grep -vE 'INIT_DELAYED_WORK\(&session->drive_work,|INIT_WORK\(&queue->work,|INIT_DELAYED_WORK\(&queue->late_work,' || true
}

# As checkpatch has it, for machines without: no line is longer than 100 columns, but for those with a message.
long_lines() {
	local file
	for file; do
		expand -t 8 "$file" | awk -v file="$file" 'length > 100 && !/"/ { print file ":" NR ": " length " columns" }'
	done
}

# rule NAME BREACH: the rule finds BREACH, and nothing in the module.
failed=0
breach=$(mktemp --suffix .c)
trap 'rm -f "$breach"' EXIT
rule() {
	local found
	printf '%b\n' "$2" > "$breach"
	[ -n "$("$1" "$breach")" ] || { echo "$1: does not find: $2"; failed=1; }
	found=$("$1" ./*.c ./*.h)
	[ -z "$found" ] || { echo "$1:"; echo "$found"; failed=1; }
}
rule logged_under_lock 'void f(void)\n{\n\tspin_lock_irqsave(&l, flags);\n\tpr_err("x");\n\tspin_unlock_irqrestore(&l, flags);\n}'
rule plain_mr_valid '\tif (io->mr_valid)'
rule private_data_in_place '\tconst struct rblk_wire_accept *a = (const struct rblk_wire_accept *)param->private_data;'
rule private_data_in_place '\terror = rblk_check_reject(data, bytes);'
rule other_works '\tINIT_WORK(&disk->open_work, rblk_volume_work);'
rule long_lines '\tvoid f(unsigned int one, unsigned int two, unsigned int three, unsigned int four, unsigned int five);'

# Each file of sysfs is described in sysfs-block-rblk, and no other.
shown() {
	sed -nE 's/^(\tfact|static DEVICE_ATTR_[A-Z_]+)\(([a-z_]+)[,)].*/rblk\/\2/p; s/^\tRBLK_COUNTER\(([a-z_]+)\),$/rblk_counters\/\1/p' "$1" | sort
}
described() { sed -nE 's,^What:\s+/sys/block/rblk<N>/,,p' sysfs-block-rblk | sort; }
[ "$(shown sysfs.c | wc -l)" -gt 30 ] || { echo "sysfs.c: its files are not found"; failed=1; }
diff <(shown sysfs.c) <(described) || { echo "sysfs-block-rblk does not describe what sysfs.c has (<), or describes more (>)"; failed=1; }
exit $failed

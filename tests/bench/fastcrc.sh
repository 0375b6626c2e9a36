# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# fastcrc.ko for the lab's kernel; a guest with it is booted with cryptomgr.notests=1. Sourced after
# setup.sh.

# fastcrc_build DIR [KERNEL]: build it in DIR and export RBLK_BENCH_FASTCRC, the module's path.
fastcrc_build() {
	local headers
	cp -r "$root/tests/bench/fastcrc" "$1"
	headers=$("$root/tests/lab/kernel" --headers "${2:-6.1}")
	setup_quiet make -C "$headers" M="$1" CONFIG_DEBUG_INFO_BTF_MODULES= modules || setup_fail "fastcrc: does not build"
	export RBLK_BENCH_FASTCRC=$1/fastcrc.ko
}

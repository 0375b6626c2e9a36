# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
uname -r; nproc; lsblk; df -h /; id; cat /proc/cmdline; ls /out; dmesg | tail -3

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The smallest job: the guest has come up and both processors work. Used to find out whether KVM
# really works on this machine.
[ "$(nproc)" -ge 1 ] && sync

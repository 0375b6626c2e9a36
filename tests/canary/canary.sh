#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a script's expectation that is not met ends it with words. Method: one that cannot be met.
. "$(dirname "$0")/../e2e/cmd.sh"
expect 0 false
echo "it went on"

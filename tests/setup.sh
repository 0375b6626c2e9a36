# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What tests/run, tests/demo and tests/bench/run do first: install what is missing, and build. It is
# sourced. It asks no questions and works with standard input closed.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

setup_fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

# setup_packages: install what tests/packages names and this machine lacks.
setup_packages() {
	local wanted missing
	mapfile -t wanted < <(grep -v -e '^#' -e '^$' "$root/tests/packages")
	command -v dpkg-query > /dev/null || setup_fail "not a Debian system: install what tests/packages names"
	missing=$(comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) \
		<(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | awk '$1 == "installed" { print $2 }' | sort -u))
	[ -n "$missing" ] || return 0
	[ "$(id -u)" = 0 ] || setup_fail "as root, first: apt-get install --no-install-recommends" $missing
	echo "installing:" $missing
	# The package index is fetched only if installing with the present one fails; that failure is
	# not reported.
	# shellcheck disable=SC2086 # one package a word
	setup_install $missing 2> /dev/null || { setup_quiet apt-get -q update && setup_install $missing; } ||
		setup_fail "packages cannot be installed: see above"
}

setup_install() {
	DEBIAN_FRONTEND=noninteractive setup_quiet apt-get -q -y --no-install-recommends \
		-o DPkg::Lock::Timeout=120 install "$@"
}

# setup_quiet COMMAND...: prints its output only if it fails.
setup_quiet() {
	local log status=0
	log=$(mktemp)
	"$@" > "$log" 2>&1 < /dev/null || status=$?
	[ $status = 0 ] || { tail -n 60 "$log"; echo "failed ($status): $*"; } >&2
	rm -f "$log"
	return $status
}

# setup_build PRESET CMAKE-ARGUMENT...: configure and build in build/PRESET.
setup_build() {
	local dir=$root/build/$1
	echo "building in ${dir#"$root/"}"
	setup_quiet cmake -S "$root" --preset "$@" || setup_fail "$dir: configure failed"
	setup_quiet cmake --build "$dir" || setup_fail "$dir: build failed"
}

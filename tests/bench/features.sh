# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# What an appliance has configured, and who asks it meanwhile, for the scripts that count what an I/O costs then: access
# rules, limits that are not reached, and, without a pause, scrapes of /metrics and a client of the control socket.
# Sourced after setup.sh; expects build and out, the programs' folder and a scratch folder, and then server, the daemon's
# process, which logs to $out/server.log.
features_asking=() # processes

# features_make: sets features_rblkd, the daemon's options (volume bench, null), and features_fio, the engine's.
features_make() {
	cat > "$out/conf" <<-END
		[volume bench]
		store = null
		size = 256M
		limit_iops = 10000000
		limit_rate = 64G
		[initiator bench]
		address = local
		address = 192.0.2.0/24
		write = bench
		weight = 3
		limit_iops = 10000000
		limit_rate = 64G
		[initiator other*]
		address = 192.0.2.0/24
		read = *
	END
	features_rblkd=(--config "$out/conf" --http 0 --control-socket "$out/control" --state-dir "$out/state")
	features_fio=(--rblk_name=bench)
}

# features_until COMMAND...: at most two minutes.
features_until() {
	local tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || setup_fail "not in two minutes: $*"
		read -rt 0.1 <> <(:) || true
	done
}
features_are_asked() { [ -s "$out/scrapes" ] && [ -s "$out/top" ]; }

# features_begin: returns when both have had an answer.
features_begin() {
	local url
	url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' "$out/server.log")
	rm -f "$out/scrapes" "$out/top"
	while curl -sS -o "$out/metrics" "$url/metrics"; do echo >> "$out/scrapes"; done 2> /dev/null &
	features_asking=($!)
	"$build/target/ctl/rblkctl" top --socket "$out/control" --json --interval 100ms > "$out/top" 2>&1 &
	features_asking+=($!)
	features_until features_are_asked
}

# features_end: both still ask, and no limit was reached.
features_end() {
	kill "${features_asking[@]}" 2> /dev/null || setup_fail "who asked has ended: $(tail -n 3 "$out/top")"
	wait "${features_asking[@]}" 2> /dev/null || true
	features_asking=()
	"$build/target/ctl/rblkctl" volumes --socket "$out/control" --json > "$out/volumes"
	jq -e '.volumes[0] | .limited_commands == 0 and (.operations | add) > 0' "$out/volumes" > /dev/null ||
		setup_fail "a limit was reached: $(cat "$out/volumes")"
	echo "scraped $(wc -l < "$out/scrapes") times meanwhile" >&2
}

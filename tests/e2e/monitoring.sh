#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The installed dashboard and alert rules name only metrics, labels and label values that /metrics has, and are valid. Method: the
# metrics of a daemon with a session at work; jq; promtool (tests/promtool).
. "$(dirname "$0")/cmd.sh"
install=$(dirname "$0")/../../target/install
command -v curl > /dev/null || no_tool curl

target_start --http 0 --memory ram=8M
url=$(sed -n 's/.*http: \(http:.*\)\/$/\1/p' "$scratch/target.log")
expect 0 "$RBLK" copy --size 1000448 "$target/ram" "$scratch/back"
# A session that has written, and stays.
copy_start - "$target/ram"
head -c 3000000 /dev/zero >&7
written() { curl -sS --max-time 60 "$url/metrics" > "$scratch/metrics" && grep -q '^rblk_session_written_bytes_total{.*} [1-9]' "$scratch/metrics"; }
wait_for "a session that writes" written
exec 7>&-
wait $copy || fail "the copy"

expect 0 jq -r '.. | .expr? // .query?.query? // empty' "$install/grafana.json"
cp "$scratch/out" "$scratch/dashboard"
sed -n 's/^ *expr: //p; /^ *histogram_quantile/p; /^ *(rate(/p' "$install/alerts.yml" > "$scratch/alerts"
for file in dashboard alerts; do
	names=$(grep -oE 'rblk_[a-z0-9_]+' "$scratch/$file" | sort -u)
	[ "$(wc -w <<< "$names")" -ge 5 ] || fail "$file: no metrics are named"
	for name in $names; do
		grep -qE "^$name(\{| )" "$scratch/metrics" || grep -q "^# TYPE $name " "$scratch/metrics" || fail "$file: there is no metric $name"
	done
	# {label="value"}, {label=~"one|two"}: "instance" and "job" are Prometheus' own; what begins with $ is Grafana's.
	grep -oE '[a-z]+=~?"[^"]*"' "$scratch/$file" | grep -vE '^(instance|job)=' | sort -u > "$scratch/pairs"
	while IFS='=' read -r label values; do
		values=${values#\~} values=${values//\"/}
		for value in ${values//|/ }; do
			case $value in \$*) value= ;; *) value=$value\" ;; esac
			grep -qF "$label=\"$value" "$scratch/metrics" || fail "$file: no series has $label=\"$value"
		done
	done < "$scratch/pairs"
	# by (label, ...)
	for label in $(grep -oE 'by \([a-z, ]+\)' "$scratch/$file" | tr -d '(),' | sed 's/^by //' | tr ' ' '\n' | sort -u); do
		[ "$label" = instance ] || grep -qE "[{,]$label=\"" "$scratch/metrics" || fail "$file: no series has a label $label"
	done
done
[ "$(grep -c 'alert:' "$install/alerts.yml")" -ge 8 ] || fail "alerts are missing"
expect 0 jq -e '[.panels[] | .id] | length == (unique | length) and length > 10' "$install/grafana.json"
promtool=$("$(dirname "$0")/../promtool" --present) || no_tool "promtool (tests/promtool gets it): expressions were not parsed"
"$promtool" check rules "$install/alerts.yml" >&2 || fail "promtool: the rules"
# Each of the dashboard's expressions, as a rule, with Grafana's variables filled in.
{
	printf 'groups:\n- name: dashboard\n  rules:\n'
	jq -r '.panels[].targets[].expr' "$install/grafana.json" | sed 's/\$__rate_interval/5m/g; s/\$[a-z]*/.*/g' |
		awk '{ gsub(/\047/, "\047\047"); printf "  - record: x:%d\n    expr: \047%s\047\n", NR, $0 }'
} > "$scratch/dashboard.yml"
"$promtool" check rules "$scratch/dashboard.yml" >&2 || fail "promtool: the dashboard"

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The page that hardware writes, and what looks wrong (the list at the end of proto/COST.md), from its results.
include "figures";

def ends: .machines | to_entries[] | .key as $side | .value + {$side};
def figure($system; $workload): first(.figures[] | select(.system == $system and .workload == $workload)) // {};

# An array of sentences.
def wrong: . as $all | [
	(ends | "the \(.side)'s" as $its | (.pcie_gtps | if type == "number" then . else null end) as $speed | .pcie_lanes as $lanes |
		if .software then "the \(.side) has RDMA in software: these times say nothing about adapters" else empty end,
		if .path_mtu < 4096 then "\($its) path MTU is \(.path_mtu), not 4096: its network card's MTU is \(.netdev_mtu); RoCE needs 4200" else empty end,
		if $lanes and .pcie_lanes_possible and ($lanes < .pcie_lanes_possible or $speed < .pcie_gtps_possible) then
			"\($its) adapter has PCIe \($speed) GT/s by \($lanes) lanes, and could have \(.pcie_gtps_possible) by \(.pcie_lanes_possible): look at the slot" else empty end,
		if $lanes and $speed and $speed * $lanes * 0.85 < .rate_gbps then "\($its) PCIe link is slower than its port of \(.rate_gbps) Gb/s" else empty end,
		if .numa_nodes > 1 and (.numa_node // -1) < 0 then "\($its) adapter does not say on which of \(.numa_nodes) NUMA nodes it is" else empty end,
		if .governor and .governor != "performance" then "\($its) processors have the governor \(.governor): cpupower frequency-set -g performance" else empty end,
		if (.iommu // "") | startswith("DMA") then "\($its) IOMMU translates for the adapter: each mapping of the kernel's systems costs (iommu=pt)" else empty end,
		if .others_percent > 5 then "other programs had \(.others_percent) % of \($its) processors" else empty end,
		(.counters | to_entries[] | select(.value > 0 and (.key | test("out_of_(buffer|seq)|seq_err|rnr|timeout_err|retry|retrans|pause|discard|duplicate")))
			| "\($its) counter \(.key) went up by \(.value): messages were late, lost or sent again")),
	((.verbs.read_bw_128k // 0) * 8 * 1.048576 / 1000 as $gbps | .machines.initiator | select(.software | not) | select($gbps < .rate_gbps * 0.8)
		| "the bare link reads \($gbps | whole) of \(.rate_gbps) Gb/s"),
	(("read", "write") as $rw | [figure("rblk"; "\($rw)-4k-qd1"), figure("rblk_polling"; "\($rw)-4k-qd1")] | map(.latency_us.p50)
		| select(.[0] and .[1] and .[1] < .[0] * 0.8)
		| "a \($rw) at depth 1 takes \(.[0] | digits2) us, and \(.[1] | digits2) us where both ends never sleep (--polling always): sleeping comes too early"),
	(figure("rblk"; "read-4k-qd32").messages_per_io | select(. and . > 1.7) | "a read of librblk takes \(digits2) messages at depth 32: they share none"),
	(.crossings[] | select(.crossed | not) | "did not cross the link: \(.system // .link) \(.workload // "")")];

def colours: {nvme_rdma: "#d55e00", rblk: "#0072b2", rblk_polling: "#56b4e9", rblk_kmod: "#009e73"};
def row($cell): "<tr>" + (map("<\($cell)>" + (if . == null then "-" else tostring | @html end) + "</\($cell)>") | join("")) + "</tr>";
# table(HEAD): of an array of rows.
def table($head): "<table>" + ($head | row("th")) + (map(row("td")) | join("\n")) + "</table>";

# Latency against load, both logarithmic: a curve for each system, a point for each depth; p99 is dashed.
def plot($rw):
	[.figures[] | select(.workload | test("^\($rw)-4k-qd")) | {system, depth: (.workload | depth), x: .rate, y: .latency_us.p50, p99: .latency_us.p99}] as $points
	| ([$points[].x] | (min * 0.9 | log10) as $low | [$low, (max * 1.1 | log10) - $low]) as [$x0, $dx]
	| ([$points[] | .y, .p99] | (min * 0.8 | log10) as $low | [$low, (max * 1.2 | log10) - $low]) as [$y0, $dy]
	| def x: 60 + (log10 - $x0) / $dx * 620 | round;
	  def y: 370 - (log10 - $y0) / $dy * 330 | round;
	  def ticks($from; $d): range($from | floor; $from + $d + 1) as $decade | (1, 2, 5) | . * pow(10; $decade) | select(log10 > $from and log10 < $from + $d);
	"<svg viewBox=\"0 0 700 420\"><text x=\"60\" y=\"20\">4 KiB random \($rw): latency (us; p50, and p99 dashed) against IOPS</text>"
	+ ([ticks($x0; $dx) | "<path d=\"M\(x) 40V370\" stroke=\"#ddd\"/><text x=\"\(x - 12)\" y=\"388\">\(if . >= 1000 then "\(. / 1000)k" else tostring end)</text>"] | join(""))
	+ ([ticks($y0; $dy) | "<path d=\"M60 \(y)H680\" stroke=\"#ddd\"/><text x=\"8\" y=\"\(y + 4)\">\(.)</text>"] | join(""))
	+ ([$points | group_by(.system)[] | sort_by(.depth) | colours[.[0].system] as $colour
		| "<polyline fill=\"none\" stroke=\"\($colour)\" stroke-width=\"2\" points=\"\(map("\(.x | x),\(.y | y)") | join(" "))\"/>"
		+ "<polyline fill=\"none\" stroke=\"\($colour)\" stroke-dasharray=\"4 4\" points=\"\(map("\(.x | x),\(.p99 | y)") | join(" "))\"/>"
		+ (map("<circle r=\"3\" fill=\"\($colour)\" cx=\"\(.x | x)\" cy=\"\(.y | y)\"/>") | join(""))] | join(""))
	+ ([.conditions.systems | to_entries[] | "<text x=\"\(60 + .key * 150)\" y=\"412\" fill=\"\(colours[.value])\">\(.value)</text>"] | join("")) + "</svg>";

# cells(CELL): a row for each workload, a column for each system, from its figure.
def cells(cell): . as $all | [.conditions.workloads[] as $w | [$w] + [$all.conditions.systems[] as $s | $all | figure($s; $w) | if . == {} then null else cell end]]
	| table(["workload"] + $all.conditions.systems);

def page: . as $all | .conditions as $c
	| "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>rblk on hardware</title><style>body { font: 15px sans-serif; margin: 2em auto;
max-width: 1100px } table { border-collapse: collapse; margin: 1em 0 } td, th { border: 1px solid #ccc; padding: 2px 8px; text-align: left }
svg { width: 700px; max-width: 100%; font-size: 12px }</style><h1>rblk on hardware</h1>",
	"<p>\("\($c.date), revision \($c.revision), disk: \($c.disk); \($c.rounds) rounds of \($c.seconds) s, medians." | @html)</p><h2>Looks wrong</h2><ul>",
	(if .wrong == [] then "<li>nothing that is looked for" else .wrong[] | "<li>\(@html)" end), "</ul>",
	(.left_out | to_entries[] | "<p>\("\(.key) was left out: \(.value)" | @html)</p>"),
	"<p>\([.crossings[] | select(.crossed)] | length) of \(.crossings | length) measurements crossed the ports of both adapters.</p><h2>Machines</h2>",
	([.machines.initiator, .machines.target] as [$i, $t] | [($i + $t | keys_unsorted[]) | select(. != "counters") | [., $i[.], $t[.]]] | table(["", "initiator", "target"])),
	"<h2>The bare link (us, MiB/s)</h2>", (.verbs | to_entries | map([.key, .value]) | table(["perftest", ""])),
	"<h2>Latency against load</h2>", plot("read"), plot("write"),
	"<h2>IOPS, at 128k MB/s (of nvme_rdma)</h2>",
	cells("\(.rate | whole)" + if .to_base then " (\(.to_base | shown($c.bound)))" else "" end),
	"<h2>Latency in us, p50 / p99</h2>", cells("\(.latency_us.p50 | digits2) / \(.latency_us.p99 | digits2)"),
	"<h2>Processor time of one I/O in us, all of it: initiator / target</h2>",
	cells(.per_io | if .initiator_us then "\(.initiator_us | digits2) / \(.target_us | digits2)" else null end),
	"<h2>Instructions of one I/O: initiator / target</h2>",
	cells(.per_io | if .initiator_instructions then "\(.initiator_instructions | whole) / \(.target_instructions | whole)" else null end),
	"<h2>Messages of one I/O</h2>", cells(.messages_per_io | digits2),
	"<h2>Counters that moved</h2>",
	([.machines.initiator.counters, .machines.target.counters] as [$i, $t] | [($i + $t | keys[]) | [., $i[.], $t[.]]] | table(["", "initiator", "target"])),
	"<script type=\"application/json\" id=\"results\">\(tojson | gsub("<"; "\\u003c"))</script></html>";

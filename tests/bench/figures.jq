# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the benchmarks' tables, page and report share: medians, spreads, and ratios of rounds.

# The value below which the share $q of the numbers lies; between two numbers, in proportion.
def quantile($q): sort
	| if length == 0 then null else
	  ((length - 1) * $q) as $at | ($at | floor) as $low
	  | .[$low] + (.[[$low + 1, length - 1] | min] - .[$low]) * ($at - $low) end;
def middle: quantile(0.5);

# Half the distance between the quartiles, as a share of the median. Fewer than three numbers show none.
def spread: middle as $m
	| if length < 3 or $m == 0 then null else (quantile(0.75) - quantile(0.25)) / 2 / $m end;

# The ratio of two systems in the same rounds, from arrays of {round, value}: what drifts slowly acts on both.
def ratio($mine; $theirs; $of):
	[$mine[] as $one | $theirs[] | select(.round == $one.round and .value > 0) | $one.value / .value]
	| if length == 0 then null else {of: $of, ratio: middle, spread: spread, rounds: length} end;

def whole: if . == null then "-" else round | tostring end;
def digits2: if . == null then "-" else . * 100 | round / 100 | tostring end;
# A ratio for people: with a question mark if there are too few rounds, and none if it is unsteady.
def shown($bound):
	if . == null then "-" elif .spread == null then (.ratio | digits2) + "?"
	elif .spread > $bound then "unsteady" else .ratio | digits2 end;

# Depth and size of a workload, from its name.
def depth: sub(".*qd"; "") | tonumber;
def bytes: capture("-(?<n>[0-9]+)(?<unit>[km]?)-qd")
	| (.n | tonumber) * (if .unit == "k" then 1024 elif .unit == "m" then 1048576 else 1 end);

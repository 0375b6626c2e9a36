# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Checks text in the format of Prometheus 0.0.4: each family has its help and type once and before its series, which
# follow without others between; names and labels are well formed; no series comes twice; values are numbers;
# counters end in _total; buckets never fall, and the last one is the count. Says what is wrong, with status 1.
function wrong(why) { print FILENAME ":" FNR ": " why ": " $0; bad = 1 }

# The family of a series: without the suffixes that the family's type has.
function family_of(name,   base) {
	base = name
	if (type[base] == "") sub(/_(bucket|sum|count)$/, "", base)
	return base
}

/^# HELP / {
	if ($3 in help) wrong("a second help")
	if (NF < 4) wrong("no help")
	help[$3] = 1; family = $3; next
}
/^# TYPE / {
	if ($3 != family || $3 in type) wrong("a type without its help before it")
	if ($4 !~ /^(counter|gauge|histogram|summary)$/) wrong("no such type")
	if ($4 == "counter" && $3 !~ /_total$/) wrong("a counter's name ends in _total")
	if ($4 != "counter" && $3 ~ /_total$/) wrong("only a counter's name ends in _total")
	if ($3 !~ /^(rblk|process)_[a-z0-9_]+$/) wrong("not a name of ours")
	type[$3] = $4; next
}
{
	if (!match($0, /^[a-z_0-9]+/)) { wrong("not a series"); next }
	name = substr($0, 1, RLENGTH); rest = substr($0, RLENGTH + 1); labels = ""
	if (substr(rest, 1, 1) == "{") {
		if (!match(rest, /^\{([a-z_]+="([^"\\]|\\.)*",?)+\}/)) { wrong("labels"); next }
		labels = substr(rest, 1, RLENGTH); rest = substr(rest, RLENGTH + 1)
	}
	if (family_of(name) != family) wrong("a series outside of its family")
	if (rest !~ /^ [0-9.]+(e[+-][0-9]+)?$/) wrong("not a number")
	if (name labels in seen) wrong("a second time")
	seen[name labels] = 1
	value = substr(rest, 2) + 0
	if (name ~ /_bucket$/) {
		if (value < last && labels !~ /le="1e-06"|le="2e-06"/) wrong("a bucket is less than the last one")
		last = value
	} else
		if (type[family] == "histogram" && name ~ /_count$/ && value != last) wrong("not the last bucket")
	series++
}
END { if (!series) { print "there are no series"; bad = 1 } exit bad }

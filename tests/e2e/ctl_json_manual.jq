# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The list of keys, made from rblkctl's schema, as the manual must have it: a key that means the same in several objects
# stands once.
[.["$defs"][] | select(.properties) | .title as $where | .properties | to_entries[]
	| {key, $where, text: .value.description}]
| group_by([.key, .text]) | sort_by(.[0].key, .[0].where)[]
| (if .[0].key == "errors" and (.[0].text | startswith("why the verb")) then "all" else map(.where) | join(", ") end) as $where
| "*\(.[0].key)* (\($where))\n\t\(.[0].text[:1] | ascii_upcase)\(.[0].text[1:])." | gsub("_"; "\\_")

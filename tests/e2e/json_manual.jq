# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The list of keys, made from the schema, as the manual must have it.
.["$defs"] as $defs
| [$defs | to_entries[] | select(.key | startswith("key.") | not)] as $objects
| $defs | to_entries | map(select(.key | startswith("key."))) | sort_by(.key)[]
| (.key | ltrimstr("key.")) as $key
| (if $key == "errors" then "all"
   else [$objects[] | select(.value.properties[$key]) | .value.title] | join(", ") end) as $where
| "*\($key)* (\($where))\n\t\(.value.description[:1] | ascii_upcase)\(.value.description[1:])." | gsub("_"; "\\_")

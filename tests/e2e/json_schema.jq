# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints what in a document does not match the schema, one line each; nothing if all does. Method: the
# part of JSON Schema that rblk.schema.json uses; any other keyword is an error, too.
#   jq -r --slurpfile schema SCHEMA --arg object NAME -f json_schema.jq DOCUMENT

def kinds: if type == "array" then . else [.] end;

def wrong($root; $schema; $path):
	. as $value
	| ($schema | keys - ["$ref", "additionalProperties", "anyOf", "description", "enum", "items", "minimum",
		"pattern", "properties", "required", "title", "type"] | .[] | "\($path): keyword \(.)"),
	if $schema["$ref"] then
		wrong($root; $root | getpath($schema["$ref"] | ltrimstr("#/") | split("/")); $path)
	elif $schema.anyOf then
		if any($schema.anyOf[]; . as $one | [$value | wrong($root; $one; $path)] == []) then empty
		else "\($path): is none of what it may be: \($value)" end
	else
		($value | type) as $type
		| if $schema.type | kinds | any(. == $type or
			(. == "integer" and $type == "number" and ($value | tostring | test("^-?[0-9]+$")))) then empty
		  else "\($path): \($value) is not \($schema.type | kinds | join(" or "))" end,
		  if $schema.enum and ([$value] | inside($schema.enum) | not) then "\($path): \($value)" else empty end,
		  if $schema.pattern and ($value | test($schema.pattern) | not) then "\($path): \($value)" else empty end,
		  if $schema.minimum and $type == "number" and $value < $schema.minimum then "\($path): \($value)"
		  else empty end,
		  if $type == "object" then
			(($schema.required // [])[] | select(in($value) | not) | "\($path): has no \(.)"),
			($value | to_entries[] | .key as $key
			 | ($schema.properties[$key] // $schema.additionalProperties) as $of
			 | if $of | type == "object" then .value | wrong($root; $of; "\($path).\($key)")
			   else "\($path).\($key): is not in the schema" end)
		  elif $type == "array" then
			(range($value | length) as $i | $value[$i] | wrong($root; $schema.items; "\($path)[\($i)]"))
		  else empty end
	end;

wrong($schema[0]; $schema[0]["$defs"][$object]; $object)

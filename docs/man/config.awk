# SPDX-License-Identifier: Apache-2.0
# Reads src/base/config.def and writes the variables as a list for the manual
# page (-v form=mdoc) or as the table of docs/configuration.md (-v form=md).
#
# A row is X(member, "NAME", TYPE, "default", low, high, choices, "help"), over
# any number of lines.

# Take the next argument of `rest`: a string without its quotes, or a word.
function next_arg(	v) {
	sub(/^[ \t,]+/, "", rest)
	if (rest ~ /^"/) {
		match(rest, /^"([^"\\]|\\.)*"/)
		v = substr(rest, 2, RLENGTH - 2)
	} else {
		match(rest, /^[^,)]*/)
		v = substr(rest, 1, RLENGTH)
	}
	rest = substr(rest, RLENGTH + 1)
	return v
}

function allowed(type, low, high, choices) {
	if (type == "BOOL")
		return "yes or no"
	if (choices ~ /^,/) {
		choices = substr(choices, 2)
		gsub(/\|/, ", ", choices)
		return "list of " choices
	}
	if (choices != "NULL") {
		gsub(/\|/, ", ", choices)
		return choices
	}
	if (type == "STR")
		return "text"
	if (low == 0 && high == 0)
		return type == "SIZE" ? "size" : "number"
	return (type == "SIZE" ? "size" : "number") ", " low " to " high
}

function row(	name, type, def, low, high, choices, help) {
	next_arg()
	name = next_arg()
	type = next_arg()
	def = next_arg()
	low = next_arg()
	high = next_arg()
	choices = next_arg()
	help = next_arg()
	if (form == "md") {
		gsub(/\|/, "\\|", help)
		printf "| `%s` | %s | %s | %s |\n", name, \
			def == "" ? "empty" : "`" def "`", \
			allowed(type, low, high, choices), help
		return
	}
	printf ".It Ev %s\n", name
	if (help !~ /^etcd/)
		help = toupper(substr(help, 1, 1)) substr(help, 2)
	printf "%s.\n.br\n", help
	printf "Default: %s.\nValues: %s.\n", def == "" ? "empty" : def, \
		allowed(type, low, high, choices)
}

/^X\(/ { text = ""; open = 1 }
open {
	line = $0
	sub(/^[ \t]+/, "", line)
	# Adjacent strings are one, as in C.
	if (text ~ /"$/ && line ~ /^"/)
		text = substr(text, 1, length(text) - 1) substr(line, 2)
	else
		text = text (text == "" ? "" : " ") line
}
open && /\)[ \t]*$/ {
	rest = text
	sub(/^X\(/, "", rest)
	open = 0
	row()
}

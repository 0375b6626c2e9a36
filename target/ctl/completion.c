/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of the build: prints rblkctl's completion for a shell, made from the table of verbs.
 *   completion bash|zsh
 */
#include <stdio.h>
#include <string.h>

#include "proto/shell/completion.h"
#include "target/ctl/ctl.h"

static struct shell_option shell_option_of(const struct ctl_option *option)
{
	return (struct shell_option){
		.name = option->name,
		.help = option->help,
		.letter = option->letter,
		.takes = option->argument ? SHELL_ARGUMENT_REQUIRED : SHELL_ARGUMENT_NONE,
		.argument = option->argument,
		.is_file = option->argument && !strcmp(option->argument, "PATH"),
		.words = option->words,
	};
}

static void verb_names(void)
{
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++)
		printf("%s ", verb->name);
}

/* The daemon says what it knows, at the socket that the line has. */
static const char bash_functions[] =
	"_rblkctl_ask() {\n"
	"	local i name socket=()\n"
	"	for ((i = 1; i < COMP_CWORD; i++)); do\n"
	"		case ${COMP_WORDS[i]} in -s | --socket) socket=(--socket \"${COMP_WORDS[i + 1]}\") ;; esac\n"
	"		[ \"${socket[1]:-}\" != = ] || socket[1]=${COMP_WORDS[i + 2]}\n"
	"	done\n"
	"	rblkctl \"$1\" \"${socket[@]}\" 2> /dev/null | tail -n +2 | while read -r -a row; do\n"
	"		name=${row[$2]:-}\n"
	"		case $name in '' | *[!A-Za-z0-9._:+-]*) ;; *) printf '%s\\n' \"$name\" ;; esac\n"
	"	done\n"
	"}\n"
	"_rblkctl_setting() {\n"
	"	local i kind operands=()\n"
	"	for ((i = 2; i < COMP_CWORD; i++)); do\n"
	"		case ${COMP_WORDS[i]} in\n"
	"		-s | --socket) i=$((i + 1)); [ \"${COMP_WORDS[i]}\" != = ] || i=$((i + 1)) ;;\n"
	"		-*) ;;\n"
	"		*) operands+=(\"${COMP_WORDS[i]}\") ;;\n"
	"		esac\n"
	"	done\n"
	"	kind=${operands[0]:-}\n"
	"	if [ -n \"$given\" ]; then\n"
	"		_rblkctl_value \"$prev\"\n"
	"	elif [ ${#operands[@]} = 0 ]; then\n"
	"		_rblkctl_words \"$1\"\n"
	"	elif [ ${#operands[@]} = 1 ] && [ \"$kind\" != target ]; then\n"
	"		case $verb:$kind in\n"
	"		add:volume) ;;\n"
	"		*:volume) _rblkctl_words \"$(_rblkctl_ask volumes 0)\" ;;\n"
	"		*:initiator) _rblkctl_words \"$(_rblkctl_ask sessions 1)\" ;;\n"
	"		esac\n"
	"	elif [ -n \"$2\" ]; then\n"
	"		_rblkctl_words \"$(_rblkctl_keys \"$kind\")\"\n"
	"	fi\n"
	"}\n";

static void bash_operands(const struct ctl_verb *verb)
{
	int kinds = (int)strcspn(verb->operands, " ");

	if (verb->words)
		printf(" _rblkctl_words '%s';", verb->words);
	else if (strstr(verb->operands, "volume|initiator"))
		printf(" _rblkctl_setting \"$(echo '%.*s' | tr '|' ' ')\" %s;", kinds, verb->operands,
		       strstr(verb->operands, "KEY=") ? "keys" : "''");
	if (strstr(verb->operands, "VOLUME"))
		printf(" _rblkctl_words \"$(_rblkctl_ask volumes 0)\";");
	if (strstr(verb->operands, "INITIATOR"))
		printf(" _rblkctl_words \"$(_rblkctl_ask sessions 1)\";");
}

static void bash_verb(const struct ctl_verb *verb)
{
	printf("	%s:-*) _rblkctl_words '", verb->name);
	for (unsigned int i = 0; verb->options[i]; i++) {
		struct shell_option shell = shell_option_of(verb->options[i]);

		shell_bash_names(&shell);
	}
	printf("' ;;\n	%s:*)", verb->name);
	bash_operands(verb);
	printf(" ;;\n");
}

static void bash_print(void)
{
	char prefix[64];

	shell_bash_begin("rblkctl", " verb=${COMP_WORDS[1]}", "");
	printf("	if [ \"$COMP_CWORD\" = 1 ]; then\n		_rblkctl_words '");
	verb_names();
	printf("help version --help --version -h -V'\n		return\n	fi\n"
	       "	case $verb:$prev in\n");
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++) {
		snprintf(prefix, sizeof(prefix), "%s:", verb->name);
		for (unsigned int i = 0; verb->options[i]; i++) {
			struct shell_option shell = shell_option_of(verb->options[i]);

			shell_bash_argument("rblkctl", prefix, &shell);
		}
	}
	printf("	esac\n	case $verb:$cur in\n	help:*) _rblkctl_words '");
	verb_names();
	printf("help version' ;;\n");
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++)
		bash_verb(verb);
	printf("	esac\n}\n%scomplete -F _rblkctl rblkctl\n", bash_functions);
}

static void zsh_print(void)
{
	printf("#compdef rblkctl\n# zsh completion for rblkctl; made from its own tables when it was built.\n\n"
	       "_rblkctl() {\n	local -a verbs\n	verbs=(");
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++) {
		printf("\n		'%s:", verb->name);
		shell_zsh_text(verb->summary);
		printf("'");
	}
	printf("\n		'help:how to use a verb'\n		'version:the version of this program'\n	)\n"
	       "	if (( CURRENT == 2 )); then\n		_describe verb verbs\n		return\n	fi\n"
	       "	local verb=$words[2]\n	shift words\n	(( CURRENT-- ))\n"
	       "	case $verb in\n	help) _describe verb verbs ;;\n");
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++) {
		printf("	%s)\n		_arguments -S", verb->name);
		for (unsigned int i = 0; verb->options[i]; i++) {
			struct shell_option shell = shell_option_of(verb->options[i]);

			shell_zsh_option(&shell);
		}
		if (verb->words)
			printf(" \\\n		'1:%s:(%s)'", "LEVEL", verb->words);
		printf("\n		;;\n");
	}
	printf("	esac\n}\n\n_rblkctl \"$@\"\n");
}

int main(int argc, char **argv)
{
	return shell_completion_main(argc, argv, bash_print, zsh_print);
}

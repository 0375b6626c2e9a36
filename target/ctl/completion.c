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
	bool volume = !strcmp(option->name, "volume"), initiator = !strcmp(option->name, "initiator");

	return (struct shell_option){
		.name = option->name,
		.help = option->help,
		.letter = option->letter,
		.takes = option->argument ? SHELL_ARGUMENT_REQUIRED : SHELL_ARGUMENT_NONE,
		.argument = option->argument,
		.is_file = option->argument && !strcmp(option->argument, "PATH"),
		.words = option->words,
		.bash = volume ? "$(_rblkctl_ask volumes)" : initiator ? "$(_rblkctl_ask names)" : NULL,
		.zsh = volume ? " _rblkctl_names volumes" : initiator ? " _rblkctl_names names" : NULL,
	};
}

static void verb_names(void)
{
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++)
		printf("%s ", verb->name);
}

/* The names that an operand of a verb may be, as _rblkctl_ask knows them; NULL: none. An initiator without a session is not kicked. */
static const char *names_of(const struct ctl_verb *verb)
{
	return strstr(verb->operands, "VOLUME") ? "volumes" : strstr(verb->operands, "INITIATOR") ? "sessions" : NULL;
}

/* add, set, remove: their first operand is a word such as "volume". */
static bool is_setting(const struct ctl_verb *verb)
{
	return strstr(verb->operands, "volume|initiator") != NULL;
}

/* The daemon says what it knows, at the socket that the line has: `socket`. Both shells take it. */
static const char functions[] =
	"_rblkctl_ask() {\n"
	"	case $1 in\n"
	"	volumes) rblkctl volumes \"${socket[@]}\" | sed -nE '2,$s/^([A-Za-z0-9._:+-]+) .*/\\1/p' ;;\n"
	"	sessions) rblkctl sessions \"${socket[@]}\" | sed -nE '2,$s/^ *[0-9]+ +([A-Za-z0-9._:+-]+) .*/\\1/p' ;;\n"
	"	initiators) rblkctl show \"${socket[@]}\" | sed -nE 's/^\\[initiator ([A-Za-z0-9._:+-]+)\\]$/\\1/p' ;;\n"
	"	names) _rblkctl_ask initiators; _rblkctl_ask sessions ;;\n"
	"	esac 2> /dev/null | sort -u\n"
	"}\n";

/* -- bash -------------------------------------------------------------------------------------- */

static const char bash_functions[] =
	"_rblkctl_socket() {\n"
	"	local i\n"
	"	for ((i = 1; i < COMP_CWORD; i++)); do\n"
	"		case ${COMP_WORDS[i]} in -s | --socket) socket=(--socket \"${COMP_WORDS[i + 1]}\") ;; esac\n"
	"		[ \"${socket[1]:-}\" != = ] || socket[1]=${COMP_WORDS[i + 2]}\n"
	"	done\n"
	"}\n"
	"_rblkctl_value() {\n"
	"	local values=$(_rblkctl_values \"$1\")\n"
	"	case $values in\n"
	"	@files) _rblkctl_files ;;\n"
	"	@volumes) _rblkctl_words \"$(_rblkctl_ask volumes)\" ;;\n"
	"	*) _rblkctl_words \"$values\" ;;\n"
	"	esac\n"
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
	"		add:initiator) _rblkctl_words \"$(_rblkctl_ask sessions)\" ;;\n"
	"		*) _rblkctl_words \"$(_rblkctl_ask \"${kind}s\")\" ;;\n"
	"		esac\n"
	"	elif [ -n \"$2\" ]; then\n"
	"		_rblkctl_words \"$(_rblkctl_keys \"$kind\")\"\n"
	"	fi\n"
	"}\n";

/* "volume initiator", of "volume|initiator NAME KEY=VALUE...", and whether keys follow: the arguments of _rblkctl_setting. */
static void setting_arguments(const struct ctl_verb *verb, char quote)
{
	int length = (int)strcspn(verb->operands, " ");

	putchar(quote);
	for (int i = 0; i < length; i++)
		putchar(verb->operands[i] == '|' ? ' ' : verb->operands[i]);
	printf("%c%s", quote, strstr(verb->operands, "KEY=") ? " keys" : "");
}

static void bash_operands(const struct ctl_verb *verb)
{
	if (verb->words)
		printf(" _rblkctl_words '%s';", verb->words);
	if (is_setting(verb)) {
		printf(" _rblkctl_setting ");
		setting_arguments(verb, '\'');
		printf(";");
	} else if (names_of(verb)) {
		printf(" _rblkctl_words \"$(_rblkctl_ask %s)\";", names_of(verb));
	}
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

	shell_bash_begin("rblkctl", " verb=${COMP_WORDS[1]} socket=()", "");
	printf("	_rblkctl_socket\n	if [ \"$COMP_CWORD\" = 1 ]; then\n		_rblkctl_words '");
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
	printf("	esac\n}\n%s%scomplete -F _rblkctl rblkctl\n", functions, bash_functions);
}

/* -- zsh --------------------------------------------------------------------------------------- */

/* _rblkctl_setting has only the operands in `words`. An action that begins with a blank is run with its own arguments alone. */
static const char zsh_functions[] =
	"_rblkctl_names() {\n"
	"	local -a names\n"
	"	names=(${(f)\"$(_rblkctl_ask $1)\"})\n"
	"	compadd -a names\n"
	"}\n"
	"_rblkctl_setting() {\n"
	"	local values\n"
	"	if (( CURRENT == 1 )); then\n"
	"		compadd -- ${=1}\n"
	"	elif (( CURRENT == 2 )) && [[ $words[1] != target ]]; then\n"
	"		case $verb:$words[1] in\n"
	"		add:volume) ;;\n"
	"		add:initiator) _rblkctl_names sessions ;;\n"
	"		*) _rblkctl_names ${words[1]}s ;;\n"
	"		esac\n"
	"	elif [[ $PREFIX == *=* ]]; then\n"
	"		values=$(_rblkctl_values ${PREFIX%%=*})\n"
	"		compset -P '*='\n"
	"		case $values in\n"
	"		@files) _files ;;\n"
	"		@volumes) _rblkctl_names volumes ;;\n"
	"		*) compadd -- ${=values} ;;\n"
	"		esac\n"
	"	elif [[ -n $2 ]]; then\n"
	"		compadd -S '' -- $(_rblkctl_keys $words[1])\n"
	"	fi\n"
	"}\n\n";

static void zsh_operands(const struct ctl_verb *verb)
{
	if (verb->words)
		printf(" \\\n		'1:LEVEL:(%s)'", verb->words);
	if (is_setting(verb)) {
		printf(" \\\n		'*::%s: _rblkctl_setting ", verb->operands);
		setting_arguments(verb, '"');
		printf("'");
	} else if (names_of(verb)) {
		printf(" \\\n		'1:%s: _rblkctl_names %s'", verb->operands, names_of(verb));
	}
}

static void zsh_print(void)
{
	printf("#compdef rblkctl\n# zsh completion for rblkctl; made from its own tables when it was built.\n\n%s%s",
	       functions, zsh_functions);
	printf("_rblkctl() {\n	local -a verbs\n	verbs=(");
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++) {
		printf("\n		'%s:", verb->name);
		shell_zsh_text(verb->summary);
		printf("'");
	}
	printf("\n		'help:how to use a verb'\n		'version:the version of this program'\n	)\n"
	       "	if (( CURRENT == 2 )); then\n		_describe verb verbs\n		return\n	fi\n"
	       "	local verb=$words[2]\n	shift words\n	(( CURRENT-- ))\n"
	       "	local -a socket\n	local -i i\n"
	       "	for (( i = 2; i < CURRENT; i++ )); do\n"
	       "		case $words[i] in\n"
	       "		-s|--socket) socket=(--socket ${(Q)words[i+1]}) ;;\n"
	       "		--socket=*) socket=(${(Q)words[i]}) ;;\n"
	       "		esac\n	done\n"
	       "	case $verb in\n	help) _describe verb verbs ;;\n");
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++) {
		printf("	%s)\n		_arguments -S", verb->name);
		for (unsigned int i = 0; verb->options[i]; i++) {
			struct shell_option shell = shell_option_of(verb->options[i]);

			shell_zsh_option(&shell);
		}
		zsh_operands(verb);
		printf("\n		;;\n");
	}
	printf("	esac\n}\n\n_rblkctl \"$@\"\n");
}

int main(int argc, char **argv)
{
	return shell_completion_main(argc, argv, bash_print, zsh_print);
}

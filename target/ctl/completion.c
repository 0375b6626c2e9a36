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

static void bash_verb(const struct ctl_verb *verb)
{
	printf("	%s:-*) _rblkctl_words '", verb->name);
	for (unsigned int i = 0; verb->options[i]; i++) {
		struct shell_option shell = shell_option_of(verb->options[i]);

		shell_bash_names(&shell);
	}
	printf("' ;;\n	%s:*)", verb->name);
	if (verb->words)
		printf(" _rblkctl_words '%s'", verb->words);
	printf(" ;;\n");
}

static void bash_print(void)
{
	char prefix[64];

	shell_bash_begin("rblkctl", " verb=${COMP_WORDS[1]}");
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
	printf("	esac\n}\ncomplete -F _rblkctl rblkctl\n");
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

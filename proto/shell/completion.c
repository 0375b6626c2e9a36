/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The words of shells' completions that rblk and rblkd have in common. Prints to standard output.
 */
#include "proto/shell/completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int shell_completion_main(int argc, char **argv, void (*bash)(void), void (*zsh)(void))
{
	if (argc == 2 && !strcmp(argv[1], "bash"))
		bash();
	else if (argc == 2 && !strcmp(argv[1], "zsh"))
		zsh();
	else
		return EXIT_FAILURE;
	return fflush(stdout) || ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* -- bash -------------------------------------------------------------------------------------- */

void shell_bash_begin(const char *command, const char *locals, const char *uri)
{
	printf("# bash completion for %s; made from its own tables when it was built.\n", command);
	printf("_%s_words() {\n"
	       "	COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\"))\n"
	       "	case ${COMPREPLY[*]} in *://* | *=*) compopt -o nospace 2> /dev/null ;; esac\n"
	       "}\n",
	       command);
	printf("_%s_files() {\n"
	       "	local IFS=$'\\n'\n"
	       "	compopt -o filenames 2> /dev/null\n"
	       "	COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
	       "}\n\n",
	       command);
	printf("_%s() {\n"
	       "	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	       "	local given= IFS=$' \\t\\n'%s\n"
	       "	COMPREPLY=()\n"
	       "	# \"--option=value\" are three words, \"NAME=PATH\" and \"rblk://host\" as "
	       "well.\n"
	       "	if [ \"$cur\" = = ]; then\n"
	       "		cur= given=1\n"
	       "	elif [ \"$prev\" = = ]; then\n"
	       "		prev=${COMP_WORDS[COMP_CWORD - 2]} given=1\n"
	       "	elif [ \"$cur\" = : ] || [ \"$prev\" = : ]; then\n"
	       "		%sreturn\n"
	       "	fi\n",
	       command, locals, uri);
}

void shell_bash_argument(const char *command, const char *prefix, const struct shell_option *option)
{
	if (option->takes == SHELL_ARGUMENT_NONE)
		return;
	printf("	%s--%s", prefix, option->name);
	if (option->letter)
		printf(" | %s-%c", prefix, option->letter);
	printf(") ");
	if (option->takes == SHELL_ARGUMENT_OPTIONAL)
		printf("[ -z \"$given\" ] || { ");
	if (option->is_file)
		printf("_%s_files; ", command);
	else if (option->bash)
		printf("_%s_words \"%s\"; ", command, option->bash);
	else if (option->words)
		printf("_%s_words '%s'; ", command, option->words);
	printf(option->takes == SHELL_ARGUMENT_OPTIONAL ? "return; } ;;\n" : "return ;;\n");
}

void shell_bash_names(const struct shell_option *option)
{
	printf(" --%s", option->name);
	if (option->letter)
		printf(" -%c", option->letter);
}

/* -- zsh --------------------------------------------------------------------------------------- */

void shell_zsh_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			printf("'\\'");
		else if (strchr("[]:\\", *text))
			putchar('\\');
		putchar(*text);
	}
}

void shell_zsh_option(const struct shell_option *option)
{
	static const char *const equals[] = {
		[SHELL_ARGUMENT_NONE] = "",
		[SHELL_ARGUMENT_REQUIRED] = "=",
		[SHELL_ARGUMENT_OPTIONAL] = "=-",
	};

	if (option->letter)
		printf(" \\\n		'(-%c --%s)'{-%c,--%s%s}'[", option->letter, option->name,
		       option->letter, option->name, equals[option->takes]);
	else
		printf(" \\\n		'--%s%s[", option->name, equals[option->takes]);
	shell_zsh_text(option->help);
	putchar(']');
	if (option->takes != SHELL_ARGUMENT_NONE) {
		printf("%s%s:", option->takes == SHELL_ARGUMENT_OPTIONAL ? "::" : ":",
		       option->argument);
		if (option->is_file)
			printf("_files");
		else if (option->zsh)
			printf("%s", option->zsh);
		else if (option->words)
			printf("(%s)", option->words);
	}
	putchar('\'');
}

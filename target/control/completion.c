/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of the build: prints rblkd's completion for a shell, made from the table of options.
 *   completion bash|zsh
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/control/options.h"

/* "block_size" as it is on the command line. */
static const char *option_name(const struct tgt_option *option)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s", option->name);
	for (char *c = name; *c; c++)
		if (*c == '_')
			*c = '-';
	return name;
}

/* The words that the option's value may be, or NULL. */
static const char *option_words(const struct tgt_option *option)
{
	static char words[256];
	const struct tgt_option_choice *choice;
	size_t used = 0;

	if (option->type == TGT_OPTION_LISTEN)
		return "rblk:// rblk+tcp://";
	if (option->type == TGT_OPTION_BLOCK)
		return "512 1K 2K 4K";
	if (option->type == TGT_OPTION_BOOL)
		return "yes no";
	if (option->type != TGT_OPTION_CHOICE)
		return NULL;
	for (choice = option->choices; choice->name; choice++)
		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", used ? " " : "",
					 choice->name);
	return words;
}

static bool option_is_file(const struct tgt_option *option)
{
	return option->value && !strcmp(option->value, "FILE");
}

/* -- bash -------------------------------------------------------------------------------------- */

static const char bash_begin[] =
	"# bash completion for rblkd; made from its own tables when it was built.\n"
	"_rblkd_words() {\n"
	"	COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\"))\n"
	"	case ${COMPREPLY[*]} in *://*) compopt -o nospace 2> /dev/null ;; esac\n"
	"}\n"
	"_rblkd_files() {\n"
	"	local IFS=$'\\n'\n"
	"	compopt -o filenames 2> /dev/null\n"
	"	COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
	"}\n"
	"\n"
	"_rblkd() {\n"
	"	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} given= IFS=$' \\t\\n'\n"
	"	COMPREPLY=()\n"
	"	# \"--option=value\" are three words, \"NAME=PATH\" and \"rblk://host\" as well.\n"
	"	if [ \"$cur\" = = ]; then\n"
	"		cur= given=1\n"
	"	elif [ \"$prev\" = = ]; then\n"
	"		prev=${COMP_WORDS[COMP_CWORD - 2]} given=1\n"
	"	elif [ \"$cur\" = : ] || [ \"$prev\" = : ]; then\n"
	"		return\n"
	"	fi\n"
	"	case $prev in\n";

static void bash_value(const struct tgt_option *option)
{
	const char *words = option_words(option);

	if (!option->value)
		return;
	/* A BOOL takes a value only behind "=". */
	if (option->type == TGT_OPTION_BOOL) {
		printf("	--%s) [ -z \"$given\" ] || { _rblkd_words '%s'; return; } ;;\n",
		       option_name(option), words);
		return;
	}
	printf("	--%s", option_name(option));
	if (option->letter)
		printf(" | -%c", option->letter);
	printf(") ");
	if (option_is_file(option))
		printf("_rblkd_files; ");
	else if (words)
		printf("_rblkd_words '%s'; ", words);
	printf("return ;;\n");
}

static void bash_print(const struct tgt_option *options, unsigned int count)
{
	unsigned int i;

	fputs(bash_begin, stdout);
	for (i = 0; i < count; i++)
		if (options[i].places & TGT_ON_COMMAND_LINE)
			bash_value(&options[i]);
	printf("	esac\n	case $cur in\n	-*) _rblkd_words '");
	for (i = 0; i < count; i++) {
		if (!(options[i].places & TGT_ON_COMMAND_LINE))
			continue;
		printf("--%s ", option_name(&options[i]));
		if (options[i].letter)
			printf("-%c ", options[i].letter);
	}
	printf("' ;;\n	*) _rblkd_files ;;\n	esac\n}\ncomplete -F _rblkd rblkd\n");
}

/* -- zsh --------------------------------------------------------------------------------------- */

/* Within single quotes, where _arguments reads brackets and colons. */
static void zsh_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			printf("'\\'");
		else if (strchr("[]:\\", *text))
			putchar('\\');
		putchar(*text);
	}
}

static void zsh_option(const struct tgt_option *option)
{
	bool is_bool = option->type == TGT_OPTION_BOOL;
	const char *equals = !option->value ? "" : is_bool ? "=-" : "=";
	const char *words = option_words(option);

	if (option->letter)
		printf(" \\\n		'(-%c --%s)'{-%c,--%s%s}'[", option->letter, option_name(option),
		       option->letter, option_name(option), equals);
	else
		printf(" \\\n		'--%s%s[", option_name(option), equals);
	zsh_text(option->help);
	putchar(']');
	if (option->value) {
		printf(":%s%s:", is_bool ? ":" : "", option->value);
		if (option_is_file(option))
			printf("_files");
		else if (option->type == TGT_OPTION_LISTEN)
			printf("_rblkd_addresses");
		else if (words)
			printf("(%s)", words);
	}
	putchar('\'');
}

static void zsh_print(const struct tgt_option *options, unsigned int count)
{
	printf("#compdef rblkd\n# zsh completion for rblkd; made from its own tables when it was built.\n\n"
	       "_rblkd_addresses() { compadd -S '' -- rblk:// rblk+tcp://; }\n\n"
	       "_rblkd() {\n	_arguments -S");
	for (unsigned int i = 0; i < count; i++)
		if (options[i].places & TGT_ON_COMMAND_LINE)
			zsh_option(&options[i]);
	printf(" \\\n		'*:PATH:_files'\n}\n\n_rblkd \"$@\"\n");
}

int main(int argc, char **argv)
{
	const struct tgt_option *options;
	unsigned int count;

	options = tgt_options_table(&count);
	if (argc == 2 && !strcmp(argv[1], "bash"))
		bash_print(options, count);
	else if (argc == 2 && !strcmp(argv[1], "zsh"))
		zsh_print(options, count);
	else
		return EXIT_FAILURE;
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

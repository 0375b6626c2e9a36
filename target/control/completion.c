/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of the build: prints rblkd's completion for a shell, made from the table of options.
 *   completion bash|zsh|keys
 * keys: for rblkctl's, which has no table of its own: what may be set of a target, a volume and an initiator, as functions
 * that both shells take: _rblkctl_keys KIND, and _rblkctl_values KEY, words, @volumes or @files.
 */
#include <stdio.h>
#include <string.h>

#include "proto/shell/completion.h"
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
		return "rblk:// rblk+tcp:// nvme+tcp:// nvme+rdma://";
	if (option->type == TGT_OPTION_BLOCK)
		return "512 1K 2K 4K";
	if (option->type == TGT_OPTION_BOOL)
		return "yes no";
	if (!option->choices)
		return NULL;
	for (choice = option->choices; choice->name; choice++)
		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s",
					 used ? " " : "", choice->name);
	return words;
}

/* The next option of the command line from *i on, as shells see it. False: there is none. */
static bool next_option(unsigned int *i, struct shell_option *shell)
{
	unsigned int count;
	const struct tgt_option *options = tgt_options_table(&count), *option;

	while (*i < count && !(options[*i].places & TGT_ON_COMMAND_LINE))
		(*i)++;
	if (*i == count)
		return false;
	option = &options[(*i)++];
	*shell = (struct shell_option){
		.name = option_name(option),
		.help = option->help,
		.letter = option->letter,
		.argument = option->value,
	};
	if (!option->value)
		return true;
	shell->takes =
		option->type == TGT_OPTION_BOOL ? SHELL_ARGUMENT_OPTIONAL : SHELL_ARGUMENT_REQUIRED;
	shell->is_file = !strcmp(option->value, "FILE");
	shell->words = option_words(option);
	if (option->type == TGT_OPTION_LISTEN)
		shell->zsh = "_rblkd_addresses";
	return true;
}

static void bash_print(void)
{
	struct shell_option option;
	unsigned int i;

	shell_bash_begin("rblkd", "", "");
	printf("	case $prev in\n");
	for (i = 0; next_option(&i, &option);)
		shell_bash_argument("rblkd", "", &option);
	printf("	esac\n	case $cur in\n	-*) _rblkd_words '");
	for (i = 0; next_option(&i, &option);)
		shell_bash_names(&option);
	printf("' ;;\n	*) _rblkd_files ;;\n	esac\n}\ncomplete -F _rblkd rblkd\n");
}

static void zsh_print(void)
{
	struct shell_option option;
	unsigned int i;

	printf("#compdef rblkd\n# zsh completion for rblkd; made from its own tables when it was "
	       "built.\n\n"
	       "_rblkd_addresses() { compadd -S '' -- rblk:// rblk+tcp:// nvme+tcp:// nvme+rdma://; }\n\n"
	       "_rblkd() {\n	_arguments -S");
	for (i = 0; next_option(&i, &option);)
		shell_zsh_option(&option);
	printf(" \\\n		'*:PATH:_files'\n}\n\n_rblkd \"$@\"\n");
}

static void keys_print(void)
{
	static const struct {
		const char *section;
		unsigned int place;
	} sections[] = {{"target", TGT_IN_TARGET}, {"volume", TGT_IN_VOLUME}, {"initiator", TGT_IN_INITIATOR}};
	unsigned int count;
	const struct tgt_option *options = tgt_options_table(&count);

	printf("_rblkctl_keys() {\n	case $1 in\n");
	for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++) {
		printf("	%s) echo '", sections[s].section);
		for (unsigned int i = 0; i < count; i++)
			if (options[i].places & sections[s].place)
				printf("%s= ", options[i].name);
		printf("' ;;\n");
	}
	printf("	esac\n}\n_rblkctl_values() {\n	case $1 in\n");
	for (unsigned int i = 0; i < count; i++) {
		const char *words = option_words(&options[i]);

		if (options[i].type == TGT_OPTION_GRANT)
			printf("	%s) echo @volumes ;;\n", options[i].name);
		else if (options[i].type == TGT_OPTION_SECRET || !strcmp(options[i].name, "path"))
			printf("	%s) echo @files ;;\n", options[i].name);
		else if (words && options[i].type != TGT_OPTION_ACTION)
			printf("	%s) echo '%s' ;;\n", options[i].name, words);
	}
	printf("	esac\n}\n");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "keys")) {
		keys_print();
		return fflush(stdout) || ferror(stdout);
	}
	return shell_completion_main(argc, argv, bash_print, zsh_print);
}

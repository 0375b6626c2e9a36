/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of the build: prints rblk's completion for a shell, made from the table of verbs.
 *   completion bash|zsh
 */
#include <stdio.h>
#include <string.h>
#include "initiator/cmd/cmd.h"

static bool operand_is(const struct cmd_verb *verb, const char *what)
{
	return strstr(verb->operands, what) != NULL;
}

static bool takes_uri(const struct cmd_verb *verb)
{
	return operand_is(verb, "TARGET") || operand_is(verb, "VOLUME") || operand_is(verb, "SOURCE");
}

/* -- bash -------------------------------------------------------------------------------------- */

static const char bash_begin[] =
	"# bash completion for rblk; made from its own tables when it was built.\n"
	"_rblk_tab() { cat /etc/rblk/rblktab 2> /dev/null; }\n"
	"_rblk_names() { _rblk_tab | while read -r name uri _; do\n"
	"	case $name in '' | *[!A-Za-z0-9._:-]*) ;; *) printf '%s\\n' \"$name\" ;; esac\n"
	"done; }\n"
	"_rblk_sysfs() { compgen -G \"$1\" | while read -r path; do printf '%s\\n' \"$2${path##*/}\"; done; }\n"
	"_rblk_words() { COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\")); }\n"
	"_rblk_files() {\n"
	"	local IFS=$'\\n'\n"
	"	compopt -o filenames 2> /dev/null\n"
	"	COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
	"}\n"
	"_rblk_uris() {\n"
	"	_rblk_words 'rblk:// rblk+tcp://'\n"
	"	case ${COMPREPLY[*]} in *://*) compopt -o nospace 2> /dev/null ;; esac\n"
	"}\n"
	"\n"
	"_rblk() {\n"
	"	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} IFS=$' \\t\\n'\n"
	"	COMPREPLY=()\n"
	"	# \"--option=value\" are three words, \"rblk://host\" as well.\n"
	"	if [ \"$cur\" = = ]; then\n"
	"		cur=\n"
	"	elif [ \"$prev\" = = ]; then\n"
	"		prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
	"	elif [ \"$cur\" = : ] || [ \"$prev\" = : ]; then\n"
	"		return\n"
	"	fi\n";

static void bash_values(const struct cmd_verb *verb, const struct cmd_option *option)
{
	size_t i;

	if (option->kind == CMD_OPTION_FLAG)
		return;
	printf("	%s:--%s", verb->name, option->name);
	if (option->letter)
		printf(" | %s:-%c", verb->name, option->letter);
	printf(") ");
	if (!strcmp(option->argument, "FILE"))
		printf("_rblk_files; ");
	else if (!strcmp(option->name, "device"))
		printf("_rblk_words \"$(_rblk_sysfs '/sys/class/infiniband/*' '')\"; ");
	if (!strcmp(option->argument, "KIND")) {
		printf("_rblk_words '");
		for (i = 0; cmd_ping_kind_name(i); i++)
			printf("%s%s", i ? " " : "", cmd_ping_kind_name(i));
		printf("'; ");
	}
	printf("return ;;\n");
}

static void bash_verb(const struct cmd_verb *verb)
{
	const struct cmd_option *option;

	printf("	%s:-*) _rblk_words '", verb->name);
	for (option = verb->options; option->name; option++) {
		printf("%s--%s", option == verb->options ? "" : " ", option->name);
		if (option->letter)
			printf(" -%c", option->letter);
	}
	printf("' ;;\n	%s:*)", verb->name);
	if (takes_uri(verb))
		printf(" _rblk_uris;");
	if (operand_is(verb, "SOURCE"))
		printf(" _rblk_files;");
	if (operand_is(verb, "NAME"))
		printf(" _rblk_words \"$(_rblk_names)\";");
	if (operand_is(verb, "DEVICE"))
		printf(" _rblk_words \"$(_rblk_sysfs '/sys/block/rblk[0-9]*' /dev/)\";");
	printf(" ;;\n");
}

static void bash_print(void)
{
	const struct cmd_verb *const *verb;
	const struct cmd_option *option;

	fputs(bash_begin, stdout);
	printf("	if [ \"$COMP_CWORD\" = 1 ]; then\n		_rblk_words '");
	for (verb = cmd_verbs; *verb; verb++)
		printf("%s ", (*verb)->name);
	printf("help version --help --version -h -V'\n		return\n	fi\n"
	       "	case $verb:$prev in\n");
	for (verb = cmd_verbs; *verb; verb++)
		for (option = (*verb)->options; option->name; option++)
			bash_values(*verb, option);
	printf("	esac\n	case $verb:$cur in\n	help:*) _rblk_words '");
	for (verb = cmd_verbs; *verb; verb++)
		printf("%s ", (*verb)->name);
	printf("help version' ;;\n");
	for (verb = cmd_verbs; *verb; verb++)
		bash_verb(*verb);
	printf("	esac\n}\ncomplete -F _rblk rblk\n");
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

static void zsh_option(const struct cmd_option *option)
{
	size_t i;

	if (option->letter)
		printf(" \\\n		'(-%c --%s)'{-%c,--%s%s}'[", option->letter, option->name,
		       option->letter, option->name, option->kind == CMD_OPTION_FLAG ? "" : "=");
	else
		printf(" \\\n		'--%s%s[", option->name, option->kind == CMD_OPTION_FLAG ? "" : "=");
	zsh_text(option->help);
	putchar(']');
	if (option->kind != CMD_OPTION_FLAG) {
		printf(":%s:", option->argument);
		if (!strcmp(option->argument, "FILE"))
			printf("_files");
		else if (!strcmp(option->name, "device"))
			printf("_path_files -W /sys/class/infiniband");
		if (!strcmp(option->argument, "KIND")) {
			printf("(");
			for (i = 0; cmd_ping_kind_name(i); i++)
				printf("%s%s", i ? " " : "", cmd_ping_kind_name(i));
			printf(")");
		}
	}
	putchar('\'');
}

static void zsh_verb(const struct cmd_verb *verb)
{
	const struct cmd_option *option;

	printf("	%s)\n		_arguments -S", verb->name);
	for (option = verb->options; option->name; option++)
		zsh_option(option);
	printf(" \\\n		'*:%s:_rblk_operands%s%s%s%s'\n		;;\n", verb->operands,
	       takes_uri(verb) ? " uri" : "", operand_is(verb, "SOURCE") ? " file" : "",
	       operand_is(verb, "NAME") ? " name" : "", operand_is(verb, "DEVICE") ? " disk" : "");
}

static const char zsh_operands[] =
	"_rblk_operands() {\n"
	"	local kind\n"
	"	local -a names disks\n"
	"	for kind; do\n"
	"		case $kind in\n"
	"		uri) compadd -S '' -- rblk:// rblk+tcp:// ;;\n"
	"		file) _files ;;\n"
	"		name)\n"
	"			names=(${${(M)${(f)\"$(cat /etc/rblk/rblktab 2> /dev/null)\"}:#[A-Za-z0-9]*}%%[[:space:]]*})\n"
	"			compadd -a names\n"
	"			;;\n"
	"		disk)\n"
	"			disks=(/sys/block/rblk[0-9]*(N:t))\n"
	"			compadd -- /dev/$^disks\n"
	"			;;\n"
	"		esac\n"
	"	done\n"
	"}\n\n";

static void zsh_print(void)
{
	const struct cmd_verb *const *verb;

	printf("#compdef rblk\n# zsh completion for rblk; made from its own tables when it was built.\n\n");
	fputs(zsh_operands, stdout);
	printf("_rblk() {\n	local -a verbs\n	verbs=(");
	for (verb = cmd_verbs; *verb; verb++) {
		printf("\n		'%s:", (*verb)->name);
		zsh_text((*verb)->summary);
		printf("'");
	}
	printf("\n		'help:how to use a verb'\n		'version:the version of the command and of its library'\n	)\n"
	       "	if (( CURRENT == 2 )); then\n		_describe verb verbs\n		return\n	fi\n"
	       "	local verb=$words[2]\n	shift words\n	(( CURRENT-- ))\n"
	       "	case $verb in\n	help) _describe verb verbs ;;\n");
	for (verb = cmd_verbs; *verb; verb++)
		zsh_verb(*verb);
	printf("	esac\n}\n\n_rblk \"$@\"\n");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "bash"))
		bash_print();
	else if (argc == 2 && !strcmp(argv[1], "zsh"))
		zsh_print();
	else
		return CMD_USAGE;
	return fflush(stdout) ? CMD_FAILED : CMD_OK;
}

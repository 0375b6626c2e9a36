/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of the build: prints rblk's completion for a shell, made from the table of verbs.
 *   completion bash|zsh
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "initiator/cmd/cmd.h"
#include "initiator/cmd/top.h"
#include "proto/shell/completion.h"

static bool operand_is(const struct cmd_verb *verb, const char *what)
{
	return strstr(verb->operands, what) != NULL;
}

/* By its name in rblktab. */
static bool names_disk(const struct cmd_verb *verb)
{
	return operand_is(verb, "VOLUME|NAME") || operand_is(verb, "DEVICE|NAME");
}

static bool takes_uri(const struct cmd_verb *verb)
{
	return operand_is(verb, "TARGET") || operand_is(verb, "VOLUME") || operand_is(verb, "SOURCE");
}

static bool takes_file(const struct cmd_verb *verb)
{
	return operand_is(verb, "SOURCE") || operand_is(verb, "FILE") || operand_is(verb, "SOCKET");
}

/* The values of ping's --kind, or of reserve's --type. */
static const char *joined(const char *(*name_of)(size_t index))
{
	static char words[256];
	size_t used = 0;

	for (size_t i = 0; name_of(i); i++)
		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", i ? " " : "", name_of(i));
	return words;
}

/* Prints the words that are written as they are: of "VOLUME [show|clear]" "show clear ". */
static void print_literals(const char *operands)
{
	for (const char *c = operands; *c;) {
		size_t length = strcspn(c, " ");
		bool literal = memchr(c, '|', length) && (islower(*c) || *c == '[');

		for (; length; length--, c++)
			if (literal && (islower(*c) || *c == '-' || *c == '|'))
				putchar(*c == '|' ? ' ' : *c);
		if (literal)
			putchar(' ');
		c += *c == ' ';
	}
}

static struct shell_option shell_option_of(const struct cmd_option *option)
{
	bool flag = option->kind == CMD_OPTION_FLAG;
	struct shell_option shell = {
		.name = option->name,
		.help = option->help,
		.letter = option->letter,
		.takes = flag ? SHELL_ARGUMENT_NONE : SHELL_ARGUMENT_REQUIRED,
		.argument = option->argument,
	};

	if (flag)
		return shell;
	shell.is_file = !strcmp(option->argument, "FILE");
	if (!strcmp(option->argument, "KIND"))
		shell.words = joined(cmd_ping_kind_name);
	if (!strcmp(option->argument, "TYPE"))
		shell.words = joined(cmd_reserve_type_name);
	if (!strcmp(option->name, "sort"))
		shell.words = TOP_SORTS;
	if (option->kind == CMD_OPTION_TLS)
		shell.words = "auto always never";
	if (!strcmp(option->name, "device")) {
		shell.bash = "$(_rblk_sysfs '/sys/class/infiniband/*' '')";
		shell.zsh = "_path_files -W /sys/class/infiniband";
	}
	return shell;
}

/* -- bash -------------------------------------------------------------------------------------- */

static const char bash_functions[] =
	"_rblk_tab() { cat /etc/rblk/rblktab 2> /dev/null; }\n"
	"_rblk_names() { _rblk_tab | while read -r name uri _; do\n"
	"	case $name in '' | *[!A-Za-z0-9._:-]*) ;; *) printf '%s\\n' \"$name\" ;; esac\n"
	"done; }\n"
	/* Bash makes words of a URI at each colon; the last word is completed. */
	"_rblk_uri() {\n"
	"	local i=$COMP_CWORD uri name\n"
	"	while [ $i -gt 2 ] && { [ \"${COMP_WORDS[i]}\" = : ] || [ \"${COMP_WORDS[i - 1]}\" = : ]; }; do i=$((i - 1)); done\n"
	"	uri=$(printf %s \"${COMP_WORDS[@]:i:COMP_CWORD-i+1}\")\n"
	"	case $uri in rblk://?*/* | rblk+tcp://?*/*) ;; *) return ;; esac\n"
	"	_rblk_words \"$(rblk list --timeout 1s \"${uri%/*}\" 2> /dev/null | tail -n +2 | while read -r name _; do\n"
	"		case $name in '' | *[!A-Za-z0-9._:+-]*) ;; *) printf '%s\\n' \"${cur%/*}/$name\" ;; esac\n"
	"	done)\"\n"
	"}\n"
	"_rblk_sysfs() { compgen -G \"$1\" | while read -r path; do printf '%s\\n' \"$2${path##*/}\"; done; }\n";

static void bash_arguments(const struct cmd_verb *verb)
{
	const struct cmd_option *option;
	char prefix[64];

	snprintf(prefix, sizeof(prefix), "%s:", verb->name);
	for (option = verb->options; option->name; option++) {
		struct shell_option shell = shell_option_of(option);

		shell_bash_argument("rblk", prefix, &shell);
	}
}

static void bash_verb(const struct cmd_verb *verb)
{
	const struct cmd_option *option;

	printf("	%s:-*) _rblk_words '", verb->name);
	for (option = verb->options; option->name; option++) {
		struct shell_option shell = shell_option_of(option);

		shell_bash_names(&shell);
	}
	printf("' ;;\n	%s:*)", verb->name);
	if (takes_uri(verb))
		printf(" _rblk_words 'rblk:// rblk+tcp://';");
	if (takes_file(verb))
		printf(" _rblk_files;");
	printf(" _rblk_words '");
	print_literals(verb->operands);
	printf("';");
	if (names_disk(verb))
		printf(" _rblk_words \"$(_rblk_names)\";");
	if (operand_is(verb, "DEVICE"))
		printf(" _rblk_words \"$(_rblk_sysfs '/sys/block/rblk[0-9]*' /dev/)\";");
	printf(" ;;\n");
}

static void bash_print(void)
{
	const struct cmd_verb *const *verb;

	shell_bash_begin("rblk", " verb=${COMP_WORDS[1]}", "_rblk_uri; ");
	printf("	if [ \"$COMP_CWORD\" = 1 ]; then\n		_rblk_words '");
	for (verb = cmd_verbs; *verb; verb++)
		printf("%s ", (*verb)->name);
	printf("help version --help --version -h -V'\n		return\n	fi\n"
	       "	case $verb:$prev in\n");
	for (verb = cmd_verbs; *verb; verb++)
		bash_arguments(*verb);
	printf("	esac\n	case $verb:$cur in\n	help:*) _rblk_words '");
	for (verb = cmd_verbs; *verb; verb++)
		printf("%s ", (*verb)->name);
	printf("help version' ;;\n");
	for (verb = cmd_verbs; *verb; verb++)
		bash_verb(*verb);
	printf("	esac\n}\n%scomplete -F _rblk rblk\n", bash_functions);
}

/* -- zsh --------------------------------------------------------------------------------------- */

static void zsh_verb(const struct cmd_verb *verb)
{
	const struct cmd_option *option;

	printf("	%s)\n		_arguments -S", verb->name);
	for (option = verb->options; option->name; option++) {
		struct shell_option shell = shell_option_of(option);

		shell_zsh_option(&shell);
	}
	if (!*verb->operands) {
		printf("\n		;;\n");
		return;
	}
	printf(" \\\n		'*:%s: _rblk_operands%s%s%s%s ", verb->operands, takes_uri(verb) ? " uri" : "",
	       takes_file(verb) ? " file" : "", names_disk(verb) ? " name" : "", operand_is(verb, "DEVICE") ? " disk" : "");
	print_literals(verb->operands);
	printf("'\n		;;\n");
}

static const char zsh_operands[] =
	"_rblk_operands() {\n"
	"	local kind\n"
	"	local -a names disks\n"
	"	for kind; do\n"
	"		case $kind in\n"
	"		uri)\n"
	"			compadd -S '' -- rblk:// rblk+tcp://\n"
	"			[[ $PREFIX == rblk(|+tcp)://?*/* ]] || continue\n"
	"			names=(${${${(f)\"$(rblk list --timeout 1s ${(Q)PREFIX%/*} 2> /dev/null)\"}[2,-1]}%%[[:space:]]*})\n"
	"			compadd -- ${(Q)PREFIX%/*}/$^names\n"
	"			;;\n"
	"		file) _files ;;\n"
	"		name)\n"
	"			names=(${${(M)${(f)\"$(cat /etc/rblk/rblktab 2> /dev/null)\"}:#[A-Za-z0-9]*}%%[[:space:]]*})\n"
	"			compadd -a names\n"
	"			;;\n"
	"		disk)\n"
	"			disks=(/sys/block/rblk[0-9]*(N:t))\n"
	"			compadd -- /dev/$^disks\n"
	"			;;\n"
	"		*) compadd -- $kind ;;\n"
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
		shell_zsh_text((*verb)->summary);
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
	return shell_completion_main(argc, argv, bash_print, zsh_print);
}

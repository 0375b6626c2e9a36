/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shells' completions, which programs of the build print out of the commands' own tables: what they
 * have in common in bash and in zsh. Used by initiator/cmd/completion.c and
 * target/control/completion.c only; nothing of it is installed.
 */
#ifndef RBLK_PROTO_SHELL_COMPLETION_H
#define RBLK_PROTO_SHELL_COMPLETION_H

#include <stdbool.h>

enum shell_argument {
	SHELL_ARGUMENT_NONE,
	SHELL_ARGUMENT_REQUIRED,
	SHELL_ARGUMENT_OPTIONAL, /* only behind "=" */
};

/* An option of a command line. */
struct shell_option {
	const char *name, *help;
	char letter; /* 0: none */
	enum shell_argument takes;
	const char *argument; /* "COUNT" */
	bool is_file;	      /* else: */
	const char *words;    /* that the argument may be, separated by blanks; NULL: anything */
	const char *bash;     /* NULL, or a shell word that prints such words */
	const char *zsh;      /* NULL, or an action of _arguments in place of the words */
};

/* The common main(): "bash" or "zsh" is the only argument. Returns the exit status. */
int shell_completion_main(int argc, char **argv, void (*bash)(void), void (*zsh)(void));

/*
 * The beginning of the file for bash: functions _COMMAND_words and _COMMAND_files, and that of
 * _COMMAND(), which has cur, prev and given ("=" came before cur) when this has been run. `locals`
 * is more for its line of local variables, `uri` "" or commands that complete a word behind a colon, with "; ".
 */
void shell_bash_begin(const char *command, const char *locals, const char *uri);
/* A case of "case $prev in" that completes the option's argument. prefix: "" or "VERB:". */
void shell_bash_argument(const char *command, const char *prefix,
			 const struct shell_option *option);
/* " --name -n" */
void shell_bash_names(const struct shell_option *option);

/* Within single quotes, where _arguments and _describe read brackets and colons. */
void shell_zsh_text(const char *text);
/* A line of _arguments, with the end of the line before it. */
void shell_zsh_option(const struct shell_option *option);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblktab(5): one volume on a line, NAME URI [OPTION,...]. A wrong line is kept as an entry with
 * its error, so that one mistake does not keep a booting machine from its other volumes.
 */
#include "initiator/cmd/attach.h"
#include "initiator/ublk/disk.h"
#include "proto/words/nearest.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cmd_option tab_options[] = {
	ATTACH_OPTIONS(struct attach_entry, options),
	{ "noauto", 0, CMD_OPTION_FLAG, offsetof(struct attach_entry, noauto), 0, 0, NULL, "" },
	/* The initial RAM file system attaches it, from a table without this word. */
	{ "initramfs", 0, CMD_OPTION_FLAG, offsetof(struct attach_entry, initramfs), 0, 0, NULL, "" },
	CMD_OPTIONS_END,
};

bool attach_name_valid(const char *name)
{
	static const char *const devices[] = { "rblk", "ublkb" };
	size_t length = strlen(name);

	if (!length || length >= ATTACH_NAME_BYTES || !isalnum((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		size_t begin = strlen(devices[i]);

		if (!strncmp(name, devices[i], begin) && name[begin] && strspn(name + begin, "0123456789") == length - begin)
			return false;
	}
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._:-", name[i]))
			return false;
	return true;
}

static void tab_fail(struct attach_entry *entry, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The first mistake of a line is the one that is reported. */
static void tab_fail(struct attach_entry *entry, const char *format, ...)
{
	va_list args;

	if (entry->error[0])
		return;
	va_start(args, format);
	vsnprintf(entry->error, sizeof(entry->error), format, args);
	va_end(args);
}

static void tab_unknown(struct attach_entry *entry, const char *word)
{
	struct words_nearest search = words_nearest_to(word);
	char hint[WORDS_HINT_BYTES];

	for (const struct cmd_option *option = tab_options; option->name; option++)
		words_nearest_offer(&search, option->name);
	tab_fail(entry, "unknown option \"%.64s\"; %s", word, words_hint(&search, "", "see rblktab(5)", hint));
}

static void tab_option(struct attach_entry *entry, char *word)
{
	char *value = strchr(word, '=');
	const struct cmd_option *option;
	char reason[CMD_REASON_BYTES];

	if (value)
		*value++ = '\0';
	option = cmd_option_find(tab_options, word, strlen(word));
	if (!option)
		tab_unknown(entry, word);
	else if (option->kind == CMD_OPTION_FLAG && value)
		tab_fail(entry, "%s: takes no value", option->name);
	else if (option->kind != CMD_OPTION_FLAG && (!value || !*value))
		tab_fail(entry, "%s: %s is missing", option->name, option->argument);
	else if (cmd_option_store(option, entry, value, reason))
		tab_fail(entry, "%s: %s", option->name, reason);
}

/* Some mistakes in a line's way can be told before it is taken. */
static void tab_check_way(struct attach_entry *entry, const struct ini_uri *uri)
{
	const struct attach_options *o = &entry->options;
	char reason[ATTACH_REASON_BYTES];
	struct ublk_disk_options own;
	struct ini_uri parsed;

	if (o->ublk && (o->module || entry->initramfs))
		tab_fail(entry, "%s: not together with ublk", o->module ? "module" : "initramfs");
	else if ((o->module || entry->initramfs) && attach_uri_parse(entry->uri, &parsed, reason))
		tab_fail(entry, "%s", reason);
	else if ((o->ublk || !attach_way_rdma(uri)) && attach_ublk_options(entry->uri, o, &own, reason))
		tab_fail(entry, "%s", reason);
}

/* The words of entry->text, which strtok_r() cuts. */
static void tab_line(struct attach_entry *entry, char *word, char **rest)
{
	struct ini_uri uri;
	char reason[ATTACH_REASON_BYTES], line[ATTACH_LINE_BYTES];
	char *options, *more, *at;

	if (!attach_name_valid(word)) {
		tab_fail(entry,
			 "\"%.64s\": a name consists of letters, digits and . _ : - , begins with a letter or a digit, and is not a device's (rblk0)",
			 word);
		return;
	}
	entry->name = word;
	entry->uri = strtok_r(NULL, " \t", rest);
	if (!entry->uri || entry->uri[0] == '#') {
		tab_fail(entry, "%s: the URI is missing", word);
		return;
	}
	if (attach_uri_read(entry->uri, &uri, reason)) {
		tab_fail(entry, "%s", reason);
		return;
	}
	options = strtok_r(NULL, " \t", rest);
	more = options && options[0] != '#' ? strtok_r(NULL, " \t", rest) : NULL;
	if (more && more[0] != '#')
		tab_fail(entry, "\"%.64s\": unexpected word; options are one word, separated by commas", more);
	if (options && options[0] == '#')
		options = NULL;
	for (word = options ? strtok_r(options, ",", &at) : NULL; word; word = strtok_r(NULL, ",", &at))
		tab_option(entry, word);
	entry->noauto |= entry->initramfs;
	tab_check_way(entry, &uri);
	/* For what only the composing checks; the address does not matter. */
	if (attach_line_compose(&uri, "::", &entry->options, line, reason))
		tab_fail(entry, "%s", reason);
}

/* Takes the text. 0, also for an empty line, or -ENOMEM. */
static int tab_add(struct attach_tab *tab, char *text, unsigned int number)
{
	struct attach_entry *entries, *entry;
	const struct attach_entry *other;
	char *rest, *word = strtok_r(text, " \t", &rest);

	if (!word || word[0] == '#') {
		free(text);
		return 0;
	}
	entries = realloc(tab->entries, (tab->count + 1) * sizeof(*entries));
	if (!entries) {
		free(text);
		return -ENOMEM;
	}
	tab->entries = entries;
	entry = &entries[tab->count];
	*entry = (struct attach_entry){
		.line = number,
		.text = text,
		.options = ATTACH_OPTIONS_DEFAULTS,
	};
	tab_line(entry, word, &rest);
	other = entry->name ? attach_tab_find(tab, entry->name) : NULL;
	if (other)
		tab_fail(entry, "%s: already defined in line %u", entry->name, other->line);
	tab->count++;
	return 0;
}

int attach_tab_read(const char *path, struct attach_tab *tab)
{
	FILE *file = fopen(path, "re");
	unsigned int number = 0;
	char *text = NULL;
	size_t room = 0;
	int err = 0;

	*tab = (struct attach_tab){ 0 };
	if (!file)
		return -errno;
	while (!err && getline(&text, &room, file) >= 0) {
		text[strcspn(text, "\r\n")] = '\0';
		err = tab_add(tab, text, ++number);
		text = NULL;
		room = 0;
	}
	if (!err && ferror(file))
		err = -EIO; /* for example a folder: it opens */
	free(text);
	fclose(file);
	if (err)
		attach_tab_free(tab);
	return err;
}

void attach_tab_free(struct attach_tab *tab)
{
	for (size_t i = 0; i < tab->count; i++)
		free(tab->entries[i].text);
	free(tab->entries);
	*tab = (struct attach_tab){ 0 };
}

const struct attach_entry *attach_tab_find(const struct attach_tab *tab, const char *name)
{
	for (size_t i = 0; i < tab->count; i++)
		if (tab->entries[i].name && !strcmp(tab->entries[i].name, name))
			return &tab->entries[i];
	return NULL;
}

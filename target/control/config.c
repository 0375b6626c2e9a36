/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The configuration file, and struct tgt_config's beginning and end. libinih takes the lines apart;
 * sections are noticed here, as the lines go by, because it keeps only 49 characters of their names
 * and does not report empty ones. options.c has the keys.
 */
#include "target/control/config.h"

#include <errno.h>
#include <ini.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>
#include "proto/secret/secret.h"
#include "proto/wire/login.h"
#include "proto/wire/wire_check.h"
#include "target/base/error.h"
#include "target/control/cpus.h"
#include "target/control/document.h"
#include "target/control/initiators.h"
#include "target/control/options.h"
#include "target/store/store.h"

#define REACTORS_AUTO_MAX 8
#define OPTIONS_MAX 64 /* bits of config_file.seen */

void tgt_config_init(struct tgt_config *config)
{
	memset(config, 0, sizeof(*config));
	tgt_options_default(config, TGT_IN_TARGET);
}

void tgt_config_fini(struct tgt_config *config)
{
	free(config->volumes);
	config->volumes = NULL;
	config->volume_count = 0;
	tgt_initiators_fini(config);
}

/* -- volumes ---------------------------------------------------------------------------------- */

static int volume_twice(const struct tgt_volume_config *first, const char *source, char *error)
{
	if (strcmp(first->source, source) == 0)
		return tgt_error(error, -EEXIST, "volume %s: defined twice on the %s", first->name,
				 source);
	return tgt_error(error, -EEXIST, "volume %s: defined twice, at %s and at %s", first->name,
			 first->source, source);
}

/* Room for one more: twice as much whenever it is full, for one is some kilobytes. */
static int volumes_grow(struct tgt_config *config)
{
	unsigned int count = config->volume_count;
	struct tgt_volume_config *volumes;

	/* Full at 0 and at each power of two, and only there. */
	if (count & (count - 1))
		return 0;
	volumes = reallocarray(config->volumes, count ? 2 * count : 1, sizeof(*volumes));
	if (!volumes)
		return -ENOMEM;
	config->volumes = volumes;
	return 0;
}

int tgt_config_volume_add(struct tgt_config *config, const char *name, const char *source,
			  struct tgt_volume_config **volume, char *error)
{
	struct tgt_volume_config *added;
	char field[RBLK_NAME_BYTES] = "";
	unsigned int i;

	if (strlen(name) < sizeof(field))
		strcpy(field, name);
	if (!rblk_name_valid(field))
		return tgt_error(
			error, -EINVAL,
			"%s: \"%s\" is not a volume name: 1 to 63 of A-Z a-z 0-9 . _ : + -", source,
			name);
	for (i = 0; i < config->volume_count; i++)
		if (strcmp(config->volumes[i].name, name) == 0)
			return volume_twice(&config->volumes[i], source, error);
	if (config->volume_count == RBLK_VOLUMES_MAX)
		return tgt_error(error, -ENOSPC,
				 "%s: volume %s: too many volumes, the maximum is %d", source, name,
				 RBLK_VOLUMES_MAX);
	if (volumes_grow(config))
		return tgt_error(error, -ENOMEM, "%s: volume %s: out of memory", source, name);
	added = &config->volumes[config->volume_count++];
	memset(added, 0, sizeof(*added));
	memcpy(added->name, field, sizeof(field));
	snprintf(added->source, sizeof(added->source), "%s", source);
	tgt_options_default(added, TGT_IN_VOLUME);
	*volume = added;
	return 0;
}

static int volume_complete(const struct tgt_volume_config *volume, char *error)
{
	const struct tgt_store_ops *ops = tgt_store_find(volume->store);
	const char *reason = NULL;
	char names[128];

	if (!ops)
		return tgt_error(error, -EINVAL, "%s: volume %s: store \"%s\" is not one of %s", volume->source,
				 volume->name, volume->store, tgt_store_names(names, sizeof(names)));
	if (ops->on_path && !volume->path[0])
		reason = "has no path";
	else if (ops->on_path && volume->bytes)
		reason = "has a path and a size; the size comes from the path";
	else if (!ops->on_path && volume->path[0])
		reason = "has a path, which this store does not use";
	else if (!ops->on_path && !volume->bytes)
		reason = "has no size";
	else if (volume->bytes % (volume->block_bytes ? volume->block_bytes : RBLK_BLOCK_BYTES_MIN))
		reason = "has a size that is not a multiple of its block size";
	if (!reason)
		return 0;
	return tgt_error(error, -EINVAL, "%s: volume %s: store = %s, but it %s", volume->source,
			 volume->name, volume->store, reason);
}

/*
 * F6 in the configuration: two volumes on one path would lock each other out, or worse. With one UUID they would be
 * one.
 */
static int volumes_differ(const struct tgt_config *config, char *error)
{
	unsigned int i, j;

	for (i = 0; i < config->volume_count; i++) {
		const struct tgt_volume_config *volume = &config->volumes[i];

		for (j = 0; j < i && volume->path[0]; j++)
			if (strcmp(config->volumes[j].path, volume->path) == 0)
				return tgt_error(error, -EINVAL,
						 "%s: volume %s: volume %s already uses path %s",
						 volume->source, volume->name,
						 config->volumes[j].name, volume->path);
		for (j = 0; j < i && !uuid_is_null(volume->uuid); j++)
			if (!memcmp(config->volumes[j].uuid, volume->uuid, sizeof(volume->uuid)))
				return tgt_error(error, -EINVAL, "%s: volume %s: volume %s already has this uuid",
						 volume->source, volume->name, config->volumes[j].name);
	}
	return 0;
}

void tgt_config_fill(struct tgt_config *config)
{
	unsigned int quota;

	if (!config->listen_count)
		config->listen[config->listen_count++] = (struct tgt_address){
			.kind = FAB_VERBS,
			.port = RBLK_DEFAULT_PORT,
		};
	if (!config->reactors && config->cpus.count) {
		config->reactors = config->cpus.count;
	} else if (!config->reactors) {
		cpu_set_t cpus;

		config->reactors = 1;
		if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
			config->reactors = (unsigned int)CPU_COUNT(&cpus);
		if (config->reactors > REACTORS_AUTO_MAX)
			config->reactors = REACTORS_AUTO_MAX;
		quota = tgt_cpus_quota("");
		/* More would only be throttled together. */
		if (quota && config->reactors > quota)
			config->reactors = quota;
	}
}

int tgt_config_complete(struct tgt_config *config, char *error)
{
	unsigned int i;

	tgt_config_fill(config);
	if (config->pool_bytes < config->max_io_bytes)
		return tgt_error(
			error, -EINVAL,
			"pool_size is less than max_io: one command could never get a buffer");
	if (config->receive_buffers < config->credits + RBLK_RESERVED_TAGS)
		return tgt_error(
			error, -EINVAL,
			"receive_buffers must be at least credits + %d: one queue needs those",
			RBLK_RESERVED_TAGS);
	for (i = 0; i < config->volume_count; i++) {
		int status = volume_complete(&config->volumes[i], error);

		if (status < 0)
			return status;
	}
	for (i = 0; i < config->initiator_count; i++) {
		int status = tgt_initiator_complete(&config->initiators[i], error);

		if (status < 0)
			return status;
	}
	return volumes_differ(config, error);
}

/* -- the file --------------------------------------------------------------------------------- */

/* While the file is read. */
struct config_file {
	struct tgt_config *config;
	const char *path;
	const char *next; /* what has not been read yet */
	unsigned int line;
	bool edited;	   /* the text's lines are not those of the file at `path` */
	char where[4200];  /* in messages: "path:line", or "[section]" if it is edited */
	unsigned int place; /* of the section: TGT_IN_TARGET, TGT_IN_VOLUME, TGT_IN_INITIATOR; 0: none yet */
	uint64_t seen;	    /* options given in this section, by index */
	bool target_seen;
	bool failed; /* at `line`; `error` says why */
	char *error;
};

static int file_failed(struct config_file *file)
{
	file->failed = true;
	return 0; /* as libinih's handler says no */
}

/* The name behind `kind` and a blank in the section's heading; NULL: it is of another kind. */
static const char *section_name(const char *text, const char *kind)
{
	size_t length = strlen(kind);

	if (strncmp(text, kind, length) != 0 || (text[length] != ' ' && text[length] != '\t'))
		return NULL;
	return text + length + strspn(text + length, " \t");
}

static void *section_object(struct config_file *file)
{
	struct tgt_config *config = file->config;

	if (file->place == TGT_IN_INITIATOR)
		return &config->initiators[config->initiator_count - 1];
	if (file->place == TGT_IN_VOLUME)
		return &config->volumes[config->volume_count - 1];
	return config;
}

static void section_begin(struct config_file *file, char *text)
{
	char *end = strchr(text, ']');
	const char *rest;
	struct tgt_volume_config *volume;
	const char *section, *name;

	if (!end)
		return; /* libinih complains about it */
	rest = end + 1 + strspn(end + 1, " \t");
	if (*rest && !strchr("\r\n;#", *rest)) {
		tgt_error(file->error, 0, "%s: behind the ] of a section is \"%.*s\": a key has a line of its own",
			  file->where, (int)strcspn(rest, "\r\n"), rest);
		file_failed(file);
		return;
	}
	if (rest[0] == '\r' && rest[1] && rest[1] != '\n') {
		tgt_error(file->error, 0, "%s: lines end with a carriage return alone", file->where);
		file_failed(file);
		return;
	}
	*end = 0;
	section = text + 1 + strspn(text + 1, " \t");
	file->seen = 0;
	if (file->edited)
		snprintf(file->where, sizeof(file->where), "[%s]", section);
	if (strcmp(section, "target") == 0) {
		file->place = TGT_IN_TARGET;
		if (file->target_seen) {
			tgt_error(file->error, 0, "%s: duplicate section [target]", file->where);
			file_failed(file);
		}
		file->target_seen = true;
	} else if ((name = section_name(section, "initiator"))) {
		file->place = TGT_IN_INITIATOR;
		if (tgt_initiator_add(file->config, name, file->where, file->error) < 0)
			file_failed(file);
		else
			tgt_options_default(section_object(file), TGT_IN_INITIATOR);
	} else if ((name = section_name(section, "volume"))) {
		file->place = TGT_IN_VOLUME;
		if (tgt_config_volume_add(file->config, name, file->where, &volume, file->error) < 0)
			file_failed(file);
	} else {
		tgt_error(file->error, 0,
			  "%s: unknown section [%s]; there are [target], [volume NAME] and "
			  "[initiator NAME]",
			  file->where, section);
		file_failed(file);
	}
	*end = ']';
}

/* A ';' behind a blank begins a comment. A path that has one would name another file, which might be there. */
static void path_check(struct config_file *file, const char *text)
{
	size_t key = strcspn(text, " \t=");
	const char *at = text;

	if (key != strlen("path") || strncmp(text, "path", key))
		return;
	while ((at = strchr(at + 1, ';')))
		if (strchr(" \t", at[-1]) && !strchr(" \t\r\n", at[1])) {
			tgt_error(file->error, 0,
				  "%s: path: is \"%.*s\" part of it? Behind a blank, ; begins a comment: a comment has a blank "
				  "behind its ;, a path cannot have one there",
				  file->where, (int)strcspn(at, "\r\n"), at);
			file_failed(file);
			return;
		}
}

/*
 * One line for libinih, as fgets(). Leading blanks are taken away: it would take an indented line
 * for more of the value before.
 */
static char *read_line(char *text, int bytes, void *context)
{
	struct config_file *file = context;
	size_t length, blanks;

	if (file->failed || !*file->next)
		return NULL;
	file->line++;
	if (!file->edited)
		snprintf(file->where, sizeof(file->where), "%s:%u", file->path, file->line);
	length = strcspn(file->next, "\n");
	length += file->next[length] == '\n';
	if (length >= (size_t)bytes)
		length = (size_t)bytes - 1;
	memcpy(text, file->next, length);
	text[length] = '\0';
	file->next += length;
	if (length + 1 == (size_t)bytes && text[length - 1] != '\n') {
		tgt_error(file->error, 0, "%s: line longer than %d characters", file->where, bytes - 2);
		file_failed(file);
		return NULL;
	}
	blanks = strspn(text, " \t");
	memmove(text, text + blanks, length - blanks + 1);
	if (text[0] == '[')
		section_begin(file, text);
	else
		path_check(file, text);
	return file->failed ? NULL : text;
}

/* Where a key of another section belongs. */
static const char *key_section(const struct tgt_option *option)
{
	if (option->places & TGT_IN_TARGET)
		return "[target]";
	return option->places & TGT_IN_VOLUME ? "a [volume NAME] section"
					      : "an [initiator NAME] section";
}

static int key_unknown(struct config_file *file, const char *key)
{
	const unsigned int sections = TGT_IN_TARGET | TGT_IN_VOLUME | TGT_IN_INITIATOR;
	const struct tgt_option *other = tgt_option_find(key, file->place ^ sections);
	const char *meant = tgt_option_suggest(key, file->place);
	char longer[TGT_OPTION_NAMES_BYTES];

	if (other)
		tgt_error(file->error, 0, "%s: \"%s\" belongs in %s", file->where,
			  key, key_section(other));
	else if (tgt_option_longer(key, file->place, longer))
		tgt_error(file->error, 0, "%s: unknown key \"%s\"; there is %s", file->where, key, longer);
	else if (meant)
		tgt_error(file->error, 0, "%s: unknown key \"%s\"; did you mean \"%s\"?",
			  file->where, key, meant);
	else
		tgt_error(file->error, 0, "%s: unknown key \"%s\"", file->where, key);
	return file_failed(file);
}

/* The author of the file does not know the daemon's folder, and quotes are characters of a name. */
static const char *path_wrong(const char *path)
{
	if (path[0] == '"' || path[0] == '\'')
		return "has quotes, which would be part of the name: write it without them";
	if (path[0] != '/')
		return "is relative: write an absolute path";
	return NULL;
}

/* The section has said already that its path is no file: it names something elsewhere. */
static bool is_name(struct config_file *file, const struct tgt_option *option)
{
	const struct tgt_volume_config *volume = section_object(file);
	const struct tgt_store_ops *ops = file->place == TGT_IN_VOLUME ? tgt_store_find(volume->store) : NULL;

	return ops && ops->elsewhere && strcmp(option->name, "path") == 0;
}

static bool is_path(const struct tgt_option *option)
{
	return strcmp(option->name, "path") == 0 || strcmp(option->name, "state_dir") == 0 ||
	       strcmp(option->name, "reservations_dir") == 0 || strcmp(option->name, "secret") == 0;
}

/* libinih's handler: 1 is yes, 0 is no. */
static int handle_key(void *context, const char *section, const char *key, const char *value)
{
	struct config_file *file = context;
	const struct tgt_option *option, *table;
	char why[TGT_ERROR_BYTES];
	unsigned int count;
	uint64_t bit;

	if (!file->place) {
		tgt_error(file->error, 0, "%s: \"%s\" is before the first section", file->where, key);
		return file_failed(file);
	}
	option = tgt_option_find(key, file->place);
	if (!option)
		return key_unknown(file, key);
	table = tgt_options_table(&count);
	bit = 1ull << (option - table) % OPTIONS_MAX;
	if (file->seen & bit && !tgt_option_adds(option)) {
		tgt_error(file->error, 0, "%s: duplicate key \"%s\" in this section", file->where, key);
		return file_failed(file);
	}
	file->seen |= bit;
	/* It is not said again: it would be in the log. */
	if (option->type == TGT_OPTION_SECRET && strstr(value, RBLK_SECRET_PREFIX)) {
		tgt_error(file->error, 0, "%s: %s: is a secret itself: write the path of a file that has it", file->where, option->name);
		return file_failed(file);
	}
	if (is_path(option) && *value && !is_name(file, option) && path_wrong(value)) {
		tgt_error(file->error, 0, "%s: %s: %s %s", file->where, option->name,
			  value, path_wrong(value));
		return file_failed(file);
	}
	if (tgt_option_set(option, section_object(file), value, why) < 0) {
		tgt_error(file->error, 0, "%s: %s: %s", file->where, option->name,
			  why);
		return file_failed(file);
	}
	return 1;
}

int tgt_config_load_text(struct tgt_config *config, const char *path, const char *text, bool edited, char *error)
{
	struct config_file file = {
		.config = config, .path = path[0] ? path : "rblkctl", .next = text, .edited = edited, .error = error};
	int status;

	snprintf(file.where, sizeof(file.where), "%s", file.path);
	status = ini_parse_stream(read_line, &file, handle_key, &file);
	if (status > 0 && (!file.failed || (unsigned int)status < file.line))
		/* libinih continues after its own errors; the first wrong line counts. */
		return tgt_error(error, -EINVAL, "%s:%d: neither \"key = value\" nor a [section]",
				 file.path, status);
	if (file.failed)
		return -EINVAL; /* error was formatted where it was found */
	if (status < 0)
		return tgt_error(error, -ENOMEM, "%s: out of memory", file.path);
	return 0;
}

int tgt_config_load(struct tgt_config *config, const char *path, char *error)
{
	struct tgt_document document = {0};
	int status = tgt_document_read_file(&document, path, error);

	if (!status)
		status = tgt_config_load_text(config, path, document.files[0].text, false, error);
	tgt_document_fini(&document);
	return status;
}

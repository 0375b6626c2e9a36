/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes two lists of settings, of what is in force and of the files, and joins them. */
#include "target/control/settings_show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/error.h"
#include "target/control/config.h"
#include "target/control/options.h"

/* -- one configuration ------------------------------------------------------------------------- */

struct setting_list {
	struct tgt_settings *settings; /* owned */
	unsigned int room;
	bool failed; /* no memory */
};

static struct setting_list list_create(void)
{
	struct tgt_settings *settings = calloc(1, sizeof(*settings));

	return (struct setting_list){.settings = settings, .failed = !settings};
}

/* Takes over the texts. */
static void list_add(struct setting_list *list, struct tgt_setting setting)
{
	struct tgt_settings *settings = list->settings;
	unsigned int room = list->room ? list->room * 2 : 64;
	struct tgt_setting *grown = settings ? settings->list : NULL;

	if (settings && settings->count == list->room) {
		grown = reallocarray(settings->list, room, sizeof(*grown));
		list->room = grown ? room : list->room;
	}
	if (!grown || !setting.section || !setting.key || (!setting.value && !setting.filed)) {
		free(setting.section);
		free(setting.key);
		free(setting.value);
		free(setting.filed);
		list->failed = true;
		return;
	}
	settings->list = grown;
	settings->list[settings->count++] = setting;
}

static char *text_of(const struct tgt_option *option, const void *object)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	tgt_option_format(option, object, out);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

/* Every key of the section; standard: such an object with its defaults. */
static void list_section(struct setting_list *list, const char *kind, const char *name,
			 const void *object, const void *standard, unsigned int place)
{
	const struct tgt_option *options;
	char section[RBLK_NAME_BYTES + 16];
	unsigned int count;

	snprintf(section, sizeof(section), "%s%s%s", kind, *name ? " " : "", name);
	options = tgt_options_table(&count);
	for (unsigned int i = 0; i < count; i++) {
		char *value, *otherwise;

		if (!(options[i].places & place) || options[i].type == TGT_OPTION_ACTION)
			continue;
		value = text_of(&options[i], object);
		otherwise = text_of(&options[i], standard);
		if (!value || !otherwise)
			list->failed = true;
		if (value && otherwise && *value)
			list_add(list, (struct tgt_setting){.section = strdup(section),
							    .key = strdup(options[i].name),
							    .value = strdup(value),
							    .standard = !strcmp(value, otherwise)});
		free(value);
		free(otherwise);
	}
}

static struct setting_list list_of(const struct tgt_config *config)
{
	struct setting_list list = list_create();
	struct tgt_initiator_config initiator = {0};
	struct tgt_volume_config volume = {0};
	struct tgt_config target;

	tgt_config_init(&target);
	target.cpus = config->cpus; /* the reactors' number depends on them */
	tgt_config_fill(&target);
	memset(&target.cpus, 0, sizeof(target.cpus));
	tgt_options_default(&volume, TGT_IN_VOLUME);
	tgt_options_default(&initiator, TGT_IN_INITIATOR);
	list_section(&list, "target", "", config, &target, TGT_IN_TARGET);
	for (unsigned int i = 0; i < config->volume_count; i++)
		list_section(&list, "volume", config->volumes[i].name, &config->volumes[i], &volume,
			     TGT_IN_VOLUME);
	for (unsigned int i = 0; i < config->initiator_count; i++)
		list_section(&list, "initiator", config->initiators[i].name, &config->initiators[i],
			     &initiator, TGT_IN_INITIATOR);
	return list;
}

/* -- two of them ------------------------------------------------------------------------------- */

static int setting_order(const void *a, const void *b)
{
	const struct tgt_setting *one = *(struct tgt_setting *const *)a,
				 *two = *(struct tgt_setting *const *)b;
	int order = strcmp(one->section, two->section);

	return order ? order : strcmp(one->key, two->key);
}

/* Moves the files' values beside those in force, and copies those that have no such beside them
 * behind. */
static void list_join(struct setting_list *list, struct tgt_settings *files)
{
	struct tgt_settings *settings = list->settings;
	struct tgt_setting **sorted = calloc(settings->count + 1, sizeof(struct tgt_setting *)),
			   **found;
	unsigned int in_force = settings->count;

	if (!sorted) {
		list->failed = true;
		return;
	}
	for (unsigned int i = 0; i < in_force; i++)
		sorted[i] = &settings->list[i];
	qsort(sorted, in_force, sizeof(*sorted), setting_order);
	for (unsigned int i = 0; i < files->count; i++) {
		struct tgt_setting *file = &files->list[i];

		found = bsearch(&file, sorted, in_force, sizeof(*sorted), setting_order);
		if (!found)
			continue;
		(*found)->filed = file->value;
		(*found)->standard &= file->standard;
		file->value = NULL;
	}
	free(sorted); /* its list may move now */
	for (unsigned int i = 0; i < files->count; i++)
		if (files->list[i].value)
			list_add(list,
				 (struct tgt_setting){.section = strdup(files->list[i].section),
						      .key = strdup(files->list[i].key),
						      .filed = strdup(files->list[i].value),
						      .standard = files->list[i].standard});
}

int tgt_settings_show(int argc, char **argv, const struct tgt_config *in_force,
		      struct tgt_settings **out)
{
	struct setting_list list = list_of(in_force), files;
	char error[TGT_ERROR_BYTES];
	struct tgt_config config;
	enum tgt_run_mode mode;

	if (list.failed) {
		/* nothing is joined */
	} else if (tgt_options_parse(argc, argv, &config, &mode, error) == 0) {
		files = list_of(&config);
		tgt_config_fini(&config);
		list.failed = files.failed;
		if (!files.failed)
			list_join(&list, files.settings);
		tgt_settings_free(files.settings);
	} else {
		list.settings->unreadable = strdup(error);
		list.failed = !list.settings->unreadable;
	}
	*out = list.failed ? NULL : list.settings;
	if (*out)
		return 0;
	tgt_settings_free(list.settings);
	return -ENOMEM;
}

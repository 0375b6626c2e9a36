/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The comparison of reload_settings.h, which follows the table of options. */
#include "target/control/reload_settings.h"

#include <stdio.h>
#include <string.h>
#include "target/base/log.h"
#include "target/control/options.h"

static bool listen_same(const struct tgt_config *a, const struct tgt_config *b)
{
	unsigned int i;

	if (a->listen_count != b->listen_count)
		return false;
	for (i = 0; i < a->listen_count; i++)
		if (a->listen[i].kind != b->listen[i].kind ||
		    a->listen[i].port != b->listen[i].port ||
		    strcmp(a->listen[i].host, b->listen[i].host) != 0)
			return false;
	return true;
}

/* Names, in one line, the settings that differ but need a restart. */
static void restart_settings_log(const struct tgt_config *current, const struct tgt_config *wanted,
				 char names[TGT_RESTART_BYTES])
{
	const struct tgt_option *options;
	size_t length = 0;
	unsigned int i, count;

	names[0] = '\0';
	options = tgt_options_table(&count);
	for (i = 0; i < count; i++) {
		const struct tgt_option *option = &options[i];
		bool same;

		if (!(option->places & TGT_IN_TARGET) || option->places & TGT_RELOADED)
			continue;
		if (option->type == TGT_OPTION_LISTEN)
			same = listen_same(current, wanted);
		else
			same = memcmp((const char *)current + option->offset,
				      (const char *)wanted + option->offset,
				      option->field_bytes) == 0;
		if (!same && length < TGT_RESTART_BYTES)
			length += (size_t)snprintf(names + length, TGT_RESTART_BYTES - length, "%s%s",
						   length ? ", " : "", option->name);
	}
	if (length)
		tgt_log(TGT_LOG_WARNING, "reload: these changes need a restart: %s", names);
}

void tgt_reload_settings(struct tgt_config *current, const struct tgt_config *wanted,
			 char names[TGT_RESTART_BYTES])
{
	restart_settings_log(current, wanted, names);
	tgt_log_set_level((enum tgt_log_level)wanted->log_level);
	current->log_level = wanted->log_level;
}

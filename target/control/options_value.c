/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From text to field, for each type of option, with error messages; and the guess at what was
 * meant.
 */
#include "target/control/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>
#include "proto/wire/wire_check.h"
#include "target/base/error.h"
#include "target/base/units.h"
#include "target/control/address.h"
#include "target/control/cpus.h"
#include "target/control/initiators.h"
#include "target/store/store.h"

/* -- guessing ------------------------------------------------------------------------------- */

#define WORD_MAX 64

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Letters to insert, drop, exchange or swap with their neighbour (Damerau), row by row. */
static unsigned int edit_distance(const char *a, const char *b)
{
	unsigned int rows[3][WORD_MAX + 1];
	unsigned int *before = rows[0], *above = rows[1], *row = rows[2];
	size_t la = strlen(a), lb = strlen(b), i, j;

	if (la > WORD_MAX || lb > WORD_MAX)
		return WORD_MAX;
	for (j = 0; j <= lb; j++)
		above[j] = (unsigned int)j;
	for (i = 1; i <= la; i++) {
		unsigned int *spare = before;

		row[0] = (unsigned int)i;
		for (j = 1; j <= lb; j++) {
			row[j] = least(above[j], row[j - 1]) + 1;
			row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = above;
		above = row;
		row = spare;
	}
	return above[lb];
}

const char *tgt_word_nearest(const char *word, const char *const *words, unsigned int count)
{
	/* Up to a third of the letters wrong is a typing error, more is another word. */
	unsigned int best = least((unsigned int)strlen(word) / 3 + 1, 4) + 1;
	const char *nearest = NULL;
	unsigned int i;

	for (i = 0; i < count; i++) {
		unsigned int distance = edit_distance(word, words[i]);

		if (distance < best) {
			best = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

/* -- reading values --------------------------------------------------------------------------- */

static void field_write(const struct tgt_option *option, void *object, uint64_t value)
{
	void *field = (char *)object + option->offset;
	uint32_t narrow = (uint32_t)value;

	if (option->field_bytes == sizeof(value)) {
		memcpy(field, &value, sizeof(value));
		return;
	}
	assert(option->field_bytes == sizeof(narrow)); /* the table's, not a user's */
	memcpy(field, &narrow, sizeof(narrow));
}

/* "64K" rather than 65536, for messages. */
static const char *size_words(uint64_t bytes, char words[32])
{
	static const char units[] = " KMGT";
	unsigned int unit = 0;

	while (unit + 2 < sizeof(units) && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(words, 32, unit ? "%" PRIu64 "%c" : "%" PRIu64, bytes, units[unit]);
	return words;
}

static const char *time_words(uint64_t us, char words[32])
{
	if (us && us % 1000000 == 0)
		snprintf(words, 32, "%" PRIu64 "s", us / 1000000);
	else if (us && us % 1000 == 0)
		snprintf(words, 32, "%" PRIu64 "ms", us / 1000);
	else
		snprintf(words, 32, us ? "%" PRIu64 "us" : "%" PRIu64, us);
	return words;
}

static int set_count(const struct tgt_option *option, void *object, const char *text, char *why)
{
	uint64_t value;

	if (tgt_units_count(text, &value) < 0 || value < option->least || value > option->most)
		return tgt_error(why, -EINVAL,
				 "\"%s\" is not a number from %" PRIu64 " to %" PRIu64, text,
				 option->least, option->most);
	field_write(option, object, value);
	return 0;
}

static int set_size(const struct tgt_option *option, void *object, const char *text, char *why)
{
	char from[32], to[32];
	uint64_t value;

	if (tgt_units_size(text, &value) < 0 || value < option->least || value > option->most)
		return tgt_error(why, -EINVAL,
				 "\"%s\" is not a size from %s to %s (512, 64K, 10G, ...)", text,
				 size_words(option->least, from), size_words(option->most, to));
	field_write(option, object, value);
	return 0;
}

/* The word of the option's own that `text` is. NULL: none. */
static const struct tgt_option_choice *choice_of(const struct tgt_option *option, const char *text)
{
	const struct tgt_option_choice *choice;

	for (choice = option->choices; choice && choice->name; choice++)
		if (!strcmp(choice->name, text))
			return choice;
	return NULL;
}

static int set_time(const struct tgt_option *option, void *object, const char *text, char *why)
{
	const struct tgt_option_choice *choice = choice_of(option, text);
	uint64_t unit_us = option->type == TGT_OPTION_TIME_MS ? 1000 : 1;
	char from[32], to[32];
	uint64_t value;

	if (choice) {
		field_write(option, object, choice->value);
		return 0;
	}
	if (tgt_units_time(text, &value) < 0 || value % unit_us ||
	    value / unit_us < option->least || value / unit_us > option->most)
		return tgt_error(
			why, -EINVAL, "\"%s\" is not a time from %s to %s (%s20ms, 30s, ...)%s%s", text,
			time_words(option->least * unit_us, from),
			time_words(option->most * unit_us, to), unit_us == 1 ? "500us, " : "",
			option->choices ? ", or " : "", option->choices ? option->choices->name : "");
	field_write(option, object, value / unit_us);
	return 0;
}

static int set_bool(const struct tgt_option *option, void *object, const char *text, char *why)
{
	bool value;

	if (tgt_units_bool(text, &value) < 0)
		return tgt_error(why, -EINVAL, "\"%s\" is neither yes nor no", text);
	memcpy((char *)object + option->offset, &value, sizeof(value));
	return 0;
}

static int set_choice(const struct tgt_option *option, void *object, const char *text, char *why)
{
	const struct tgt_option_choice *choice = choice_of(option, text);
	char names[128] = "";
	size_t length = 0;

	if (choice) {
		field_write(option, object, choice->value);
		return 0;
	}
	for (choice = option->choices; choice->name; choice++)
		length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
					   length ? ", " : "", choice->name);
	return tgt_error(why, -EINVAL, "\"%s\" is not one of %s", text, names);
}

static int set_block(const struct tgt_option *option, void *object, const char *text, char *why)
{
	uint64_t value;

	if (tgt_units_size(text, &value) < 0 || value < option->least || value > option->most ||
	    value & (value - 1))
		return tgt_error(why, -EINVAL, "\"%s\" is not a block size: 512, 1K, 2K or 4K",
				 text);
	field_write(option, object, value);
	return 0;
}

static int set_text(const struct tgt_option *option, void *object, const char *text, char *why)
{
	if (strlen(text) >= option->field_bytes)
		return tgt_error(why, -EINVAL, "longer than %zu characters",
				 option->field_bytes - 1);
	strcpy((char *)object + option->offset, text);
	return 0;
}

static int set_name(const struct tgt_option *option, void *object, const char *text, char *why)
{
	char name[RBLK_NAME_BYTES] = "";

	if (strlen(text) < sizeof(name))
		strcpy(name, text);
	if (!rblk_name_valid(name))
		return tgt_error(why, -EINVAL, "\"%s\" is not a name: 1 to %d letters, digits and . _ : + -", text,
				 RBLK_NAME_BYTES - 1);
	return set_text(option, object, text, why);
}

static int set_interfaces(const struct tgt_option *option, void *object, const char *text, char *why)
{
	const char *word = text + strspn(text, " ,");

	if (!*word)
		return tgt_error(why, -EINVAL, "names no network interface");
	for (; *word; word += strspn(word, " ,")) {
		size_t length = strcspn(word, " ,");

		if (length >= IFNAMSIZ || memchr(word, '/', length))
			return tgt_error(why, -EINVAL, "\"%.*s\" is not the name of a network interface",
					 (int)length, word);
		word += length;
	}
	return set_text(option, object, text, why);
}

static int set_listen(struct tgt_config *config, const char *text, char *why)
{
	struct tgt_address address;
	const char *wrong = tgt_address_parse(text, &address);

	if (!wrong && address.kind == FAB_SIM)
		wrong = TGT_ADDRESS_UNKNOWN;
	if (wrong)
		return tgt_error(why, -EINVAL, "\"%s\" is not an address: %s", text, wrong);
	if (config->listen_count == TGT_LISTEN_MAX)
		return tgt_error(why, -EINVAL, "more than %d addresses", TGT_LISTEN_MAX);
	config->listen[config->listen_count++] = address;
	return 0;
}

static int set_cpus(const struct tgt_option *option, void *object, const char *text, char *why)
{
	return tgt_cpus_parse(text, (struct tgt_cpus *)((char *)object + option->offset), why);
}

static int set_uuid(const struct tgt_option *option, void *object, const char *text, char *why)
{
	uuid_t uuid;

	if (uuid_parse(text, uuid) < 0 || uuid_is_null(uuid))
		return tgt_error(why, -EINVAL, "\"%s\" is not a UUID", text);
	memcpy((char *)object + option->offset, uuid, sizeof(uuid));
	return 0;
}

static int set_fault(const struct tgt_option *option, void *object, const char *text, char *why)
{
	int status = 0;

	if (!tgt_store_faults)
		return tgt_error(why, -EOPNOTSUPP, TGT_STORE_NO_FAULTS);
	if (option->type == TGT_OPTION_FAULT)
		status = tgt_store_faults->check(text, why, TGT_ERROR_BYTES);
	return status < 0 ? status : set_text(option, object, text, why);
}

int tgt_option_set(const struct tgt_option *option, void *object, const char *text, char *why)
{
	if (!*text)
		return tgt_error(why, -EINVAL, "needs a value");
	switch (option->type) {
	case TGT_OPTION_COUNT:
		return set_count(option, object, text, why);
	case TGT_OPTION_SIZE:
		return set_size(option, object, text, why);
	case TGT_OPTION_TIME_MS:
	case TGT_OPTION_TIME_US:
		return set_time(option, object, text, why);
	case TGT_OPTION_BOOL:
		return set_bool(option, object, text, why);
	case TGT_OPTION_CHOICE:
		return set_choice(option, object, text, why);
	case TGT_OPTION_BLOCK:
		return set_block(option, object, text, why);
	case TGT_OPTION_TEXT:
		return set_text(option, object, text, why);
	case TGT_OPTION_NAME:
		return set_name(option, object, text, why);
	case TGT_OPTION_INTERFACES:
		return set_interfaces(option, object, text, why);
	case TGT_OPTION_LISTEN:
		return set_listen(object, text, why);
	case TGT_OPTION_CPUS:
		return set_cpus(option, object, text, why);
	case TGT_OPTION_UUID:
		return set_uuid(option, object, text, why);
	case TGT_OPTION_FAULT:
	case TGT_OPTION_FAULT_SOCKET:
		return set_fault(option, object, text, why);
	case TGT_OPTION_SECRET:
		return tgt_initiator_add_secrets(object, text, why);
	case TGT_OPTION_ADDRESS:
		return tgt_initiator_set_addresses(object, text, why);
	case TGT_OPTION_GRANT:
		return tgt_initiator_set_grants(object, (enum tgt_right)option->least, text, why);
	case TGT_OPTION_ACTION:
		break; /* has no field */
	}
	return tgt_error(why, -EINVAL, "cannot be set");
}

bool tgt_option_adds(const struct tgt_option *option)
{
	return option->type == TGT_OPTION_LISTEN || option->type == TGT_OPTION_ADDRESS ||
	       option->type == TGT_OPTION_GRANT || option->type == TGT_OPTION_SECRET;
}

void tgt_options_default(void *object, unsigned int places)
{
	char why[TGT_ERROR_BYTES];
	const struct tgt_option *options;
	unsigned int i, count;

	options = tgt_options_table(&count);
	for (i = 0; i < count; i++) {
		int status = 0;

		if (options[i].places & places && options[i].otherwise)
			status = tgt_option_set(&options[i], object, options[i].otherwise, why);
		assert(status == 0); /* the table's default breaks the table's own limits */
		(void)status;
	}
}

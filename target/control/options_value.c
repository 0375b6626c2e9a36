/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From text to field, for each type of option, with error messages.
 */
#include "target/control/options.h"

#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>
#include "proto/wire/wire_check.h"
#include "proto/words/units.h"
#include "target/base/error.h"
#include "target/base/http_address.h"
#include "target/control/address.h"
#include "target/control/cpus.h"
#include "target/control/initiators.h"
#include "target/store/store.h"

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

/* A count, size or time. */
static int set_number(const struct tgt_option *option, enum units_kind kind, void *object, const char *text, char *why)
{
	uint64_t value;
	int status = units_read(kind, text, option->least, option->most, &value, why);

	if (status == 0)
		field_write(option, object, value);
	return status;
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
	int status;

	if (choice) {
		field_write(option, object, choice->value);
		return 0;
	}
	status = set_number(option, option->type == TGT_OPTION_TIME_MS ? UNITS_TIME_MS : UNITS_TIME_US, object, text, why);
	if (status < 0 && option->choices)
		snprintf(why + strlen(why), TGT_ERROR_BYTES - strlen(why), "; or %s", option->choices->name);
	return status;
}

static int set_bool(const struct tgt_option *option, void *object, const char *text, char *why)
{
	bool value;

	if (units_bool(text, &value) < 0)
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

	if (units_read(UNITS_SIZE, text, option->least, option->most, &value, why) < 0 || value & (value - 1))
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

static int set_http(const struct tgt_option *option, void *object, const char *text, char *why)
{
	struct sockaddr_storage address;
	int status = tgt_http_address_parse(text, &address, why);

	return status < 0 ? status : set_text(option, object, text, why);
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
		return set_number(option, UNITS_COUNT, object, text, why);
	case TGT_OPTION_SIZE:
		return set_number(option, UNITS_SIZE, object, text, why);
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
	case TGT_OPTION_HTTP:
		return set_http(option, object, text, why);
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

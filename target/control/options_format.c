/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fields become text, for each type of option: what options_value.c reads. */
#include "target/control/options.h"

#include <string.h>
#include <uuid/uuid.h>
#include "proto/words/units.h"
#include "target/base/network.h"
#include "target/control/address.h"

static uint64_t field_read(const struct tgt_option *option, const void *object)
{
	const void *field = (const char *)object + option->offset;
	uint32_t narrow;
	uint64_t value;

	if (option->field_bytes == sizeof(value)) {
		memcpy(&value, field, sizeof(value));
		return value;
	}
	memcpy(&narrow, field, sizeof(narrow));
	return narrow;
}

/* The word of the option's own for that value; NULL: none. */
static const char *choice_word(const struct tgt_option *option, uint64_t value)
{
	const struct tgt_option_choice *choice;

	for (choice = option->choices; choice && choice->name; choice++)
		if (choice->value == value)
			return choice->name;
	return NULL;
}

static void format_number(const struct tgt_option *option, const void *object, FILE *out)
{
	uint64_t value = field_read(option, object);
	const char *word = choice_word(option, value);
	char text[UNITS_TEXT_BYTES];

	if (word)
		fputs(word, out);
	else if (option->type == TGT_OPTION_COUNT)
		fputs(units_text(UNITS_COUNT, value, text), out);
	else if (option->type == TGT_OPTION_TIME_MS)
		fputs(units_text(UNITS_TIME_MS, value, text), out);
	else if (option->type == TGT_OPTION_TIME_US)
		fputs(units_text(UNITS_TIME_US, value, text), out);
	/* A size of 0 is none, unless the table says otherwise. */
	else if (value || option->otherwise)
		fputs(units_text(UNITS_SIZE, value, text), out);
}

static void format_listen(const struct tgt_config *config, FILE *out)
{
	char text[TGT_ADDRESS_BYTES];

	for (unsigned int i = 0; i < config->listen_count; i++) {
		tgt_address_format(&config->listen[i], text);
		fprintf(out, "%s%s", i ? ", " : "", text);
	}
}

static void format_cpus(const struct tgt_cpus *cpus, FILE *out)
{
	for (unsigned int i = 0; i < cpus->count; i++)
		fprintf(out, "%s%u", i ? "," : "", cpus->cpu[i]);
}

static void format_uuid(const uint8_t *uuid, FILE *out)
{
	char text[UUID_STR_LEN];

	if (uuid_is_null(uuid))
		return;
	uuid_unparse_lower(uuid, text);
	fputs(text, out);
}

static void format_addresses(const struct tgt_initiator_config *initiator, FILE *out)
{
	char text[TGT_NETWORK_BYTES];

	for (unsigned int i = 0; i < initiator->network_count; i++) {
		tgt_network_format(&initiator->networks[i], text);
		fprintf(out, "%s%s", i ? ", " : "", text);
	}
}

static void format_grants(const struct tgt_initiator_config *initiator, enum tgt_right right,
			  FILE *out)
{
	const char *between = "";

	for (unsigned int i = 0; i < initiator->grant_count; i++) {
		if (initiator->grants[i].right != right)
			continue;
		fprintf(out, "%s%s", between, initiator->grants[i].volume);
		between = ", ";
	}
}

void tgt_option_format(const struct tgt_option *option, const void *object, FILE *out)
{
	const void *field = (const char *)object + option->offset;
	const struct tgt_initiator_config *initiator = object;

	switch (option->type) {
	case TGT_OPTION_COUNT:
	case TGT_OPTION_SIZE:
	case TGT_OPTION_TIME_MS:
	case TGT_OPTION_TIME_US:
	case TGT_OPTION_CHOICE:
	case TGT_OPTION_BLOCK:
		format_number(option, object, out);
		break;
	case TGT_OPTION_BOOL:
		fputs(*(const bool *)field ? "yes" : "no", out);
		break;
	case TGT_OPTION_TEXT:
	case TGT_OPTION_NAME:
	case TGT_OPTION_INTERFACES:
	case TGT_OPTION_HTTP:
	case TGT_OPTION_FAULT:
	case TGT_OPTION_FAULT_SOCKET:
		fputs(field, out);
		break;
	case TGT_OPTION_LISTEN:
		format_listen(object, out);
		break;
	case TGT_OPTION_CPUS:
		format_cpus(field, out);
		break;
	case TGT_OPTION_UUID:
		format_uuid(field, out);
		break;
	case TGT_OPTION_SECRET:
		fputs(initiator->secret_files ? initiator->secret_files : "", out);
		break;
	case TGT_OPTION_ADDRESS:
		format_addresses(initiator, out);
		break;
	case TGT_OPTION_GRANT:
		format_grants(initiator, (enum tgt_right)option->least, out);
		break;
	case TGT_OPTION_ACTION:
		break; /* has no field */
	}
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sections [initiator NAME]: their values, limits, and what the log says about them. */
#include "target/control/initiators.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/wire/wire_check.h"
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/network.h"
#include "target/base/text.h"
#include "target/control/address.h"
#include "target/serve/rules.h"

#define SEPARATORS " \t,"
#define WORD_BYTES 256

/* A name whose last character may be '*'. field: zero filled. */
static bool pattern_set(char field[RBLK_NAME_BYTES], const char *text)
{
	char name[RBLK_NAME_BYTES] = "";
	size_t length = strlen(text);

	if (!length || length >= RBLK_NAME_BYTES)
		return false;
	memset(field, 0, RBLK_NAME_BYTES);
	memcpy(field, text, length);
	memcpy(name, text, length);
	if (name[length - 1] == '*')
		name[length - 1] = length == 1 ? 'x' : '\0';
	return rblk_name_valid(name);
}

int tgt_initiator_add(struct tgt_config *config, const char *name, const char *source, char *error)
{
	unsigned int count = config->initiator_count;
	struct tgt_initiator_config *added;
	char field[RBLK_NAME_BYTES];

	if (!pattern_set(field, name))
		return tgt_error(error, -EINVAL,
				 "%s: \"%s\" is not an initiator's name: 1 to 63 of A-Z a-z 0-9 . _ : "
				 "+ -, at the end perhaps *",
				 source, name);
	for (unsigned int i = 0; i < count; i++)
		if (strcmp(config->initiators[i].name, field) == 0)
			return tgt_error(error, -EEXIST,
					 "initiator %s: defined twice, at %s and at %s", field,
					 config->initiators[i].source, source);
	if (count == TGT_INITIATORS_MAX)
		return tgt_error(error, -ENOSPC,
				 "%s: initiator %s: too many initiators, the maximum is %d", source,
				 name, TGT_INITIATORS_MAX);
	added = reallocarray(config->initiators, count + 1, sizeof(*added));
	if (!added)
		return tgt_error(error, -ENOMEM, "%s: initiator %s: out of memory", source, name);
	config->initiators = added;
	added += count;
	memset(added, 0, sizeof(*added));
	memcpy(added->name, field, sizeof(field));
	added->source = strdup(source);
	config->initiator_count++;
	return added->source ? 0 : tgt_error(error, -ENOMEM, "%s: out of memory", source);
}

/* -- values ------------------------------------------------------------------------------------ */

/* The next word of *text, which is moved behind it. 1, 0: there is none, or -EINVAL. */
static int word_next(const char **text, char word[WORD_BYTES], char *why)
{
	const char *begin = *text + strspn(*text, SEPARATORS);
	size_t length = strcspn(begin, SEPARATORS);

	if (length >= WORD_BYTES)
		return tgt_error(why, -EINVAL, "\"%.32s...\" is too long", begin);
	memcpy(word, begin, length);
	word[length] = '\0';
	*text = begin + length;
	return length > 0;
}

static int address_add(struct tgt_initiator_config *initiator, const char *word, char *why)
{
	struct tgt_network network, *networks;
	int status = tgt_network_parse(word, &network, why);

	if (status < 0)
		return status;
	if (initiator->network_count == TGT_NETWORKS_MAX)
		return tgt_error(why, -ENOSPC, "more than %d addresses", TGT_NETWORKS_MAX);
	networks = reallocarray(initiator->networks, initiator->network_count + 1, sizeof(*networks));
	if (!networks)
		return tgt_error(why, -ENOMEM, "out of memory");
	initiator->networks = networks;
	networks[initiator->network_count++] = network;
	return 0;
}

static int grant_add(struct tgt_initiator_config *initiator, enum tgt_right right, const char *word,
		     char *why)
{
	struct tgt_grant grant = {.right = right}, *grants;

	if (!pattern_set(grant.volume, word))
		return tgt_error(why, -EINVAL, "\"%s\" is not a volume's name, at the end perhaps *",
				 word);
	if (initiator->grant_count == TGT_GRANTS_MAX)
		return tgt_error(why, -ENOSPC, "more than %d volumes", TGT_GRANTS_MAX);
	grants = reallocarray(initiator->grants, initiator->grant_count + 1, sizeof(*grants));
	if (!grants)
		return tgt_error(why, -ENOMEM, "out of memory");
	initiator->grants = grants;
	grants[initiator->grant_count++] = grant;
	return 0;
}

int tgt_initiator_set_addresses(struct tgt_initiator_config *initiator, const char *text, char *why)
{
	char word[WORD_BYTES];
	int status;

	while ((status = word_next(&text, word, why)) > 0) {
		status = address_add(initiator, word, why);
		if (status < 0)
			break;
	}
	return status;
}

int tgt_initiator_set_grants(struct tgt_initiator_config *initiator, enum tgt_right right,
			     const char *text, char *why)
{
	char word[WORD_BYTES];
	int status;

	while ((status = word_next(&text, word, why)) > 0) {
		status = grant_add(initiator, right, word, why);
		if (status < 0)
			break;
	}
	return status;
}

int tgt_initiator_add_secrets(struct tgt_initiator_config *initiator, const char *path, char *why)
{
	char words[RBLK_SECRET_ERROR_BYTES], advice[TGT_DENIED_BYTES] = "";
	struct rblk_secrets *more = rblk_secrets_read(path, words), *all = NULL;
	char *files;

	if (more)
		all = rblk_secrets_join(initiator->secrets, more, words);
	rblk_secrets_put(more);
	if (!more && access(path, R_OK) < 0)
		tgt_denied(path, errno, advice);
	if (!all)
		return tgt_error(why, -EINVAL, "%s: %s%s", path, words, advice);
	rblk_secrets_put(initiator->secrets);
	initiator->secrets = all;
	if (asprintf(&files, "%s%s%s", initiator->secret_files ? initiator->secret_files : "",
		     initiator->secret_files ? ", " : "", path) < 0)
		return tgt_error(why, -ENOMEM, "%s: out of memory", path);
	free(initiator->secret_files);
	initiator->secret_files = files;
	return 0;
}

int tgt_initiator_complete(const struct tgt_initiator_config *initiator, char *error)
{
	if (initiator->secrets && strchr(initiator->name, '*'))
		return tgt_error(error, -EINVAL,
				 "%s: initiator %s: a secret is for one name, not for all that begin so",
				 initiator->source, initiator->name);
	if (!initiator->network_count && !initiator->secrets)
		return tgt_error(error, -EINVAL,
				 "%s: initiator %s: has neither secret nor address: anyone could use its "
				 "name; for everyone write address = 0.0.0.0/0, ::/0",
				 initiator->source, initiator->name);
	return 0;
}

void tgt_initiators_fini(struct tgt_config *config)
{
	for (unsigned int i = 0; i < config->initiator_count; i++) {
		free(config->initiators[i].networks);
		free(config->initiators[i].grants);
		free(config->initiators[i].source);
		free(config->initiators[i].secret_files);
		rblk_secrets_put(config->initiators[i].secrets);
	}
	free(config->initiators);
	config->initiators = NULL;
	config->initiator_count = 0;
}

/* -- the log ----------------------------------------------------------------------------------- */

static bool listens_beyond(const struct tgt_config *config)
{
	for (unsigned int i = 0; i < config->listen_count; i++)
		if (!tgt_address_loopback(&config->listen[i]))
			return true;
	return false;
}

static bool grant_is_used(const struct tgt_config *config, const struct tgt_grant *grant)
{
	for (unsigned int i = 0; i < config->volume_count; i++)
		if (tgt_rules_match(grant->volume, config->volumes[i].name))
			return true;
	return false;
}

static void say_unused(const struct tgt_config *config, const struct tgt_initiator_config *initiator)
{
	for (unsigned int i = 0; i < initiator->grant_count; i++)
		if (!grant_is_used(config, &initiator->grants[i]))
			tgt_log(TGT_LOG_WARNING, "%s: initiator %s: there is no volume %s",
				initiator->source, initiator->name, initiator->grants[i].volume);
}

void tgt_initiators_unused(const struct tgt_config *config, char *words)
{
	words[0] = '\0';
	for (unsigned int i = 0; i < config->initiator_count && !words[0]; i++)
		for (unsigned int j = 0; j < config->initiators[i].grant_count && !words[0]; j++)
			if (!grant_is_used(config, &config->initiators[i].grants[j]))
				tgt_error(words, 0, "initiator %s: there is no volume %s", config->initiators[i].name,
					  config->initiators[i].grants[j].volume);
}

static bool volume_has_rules(const struct tgt_config *config, const char *volume)
{
	for (unsigned int i = 0; i < config->initiator_count; i++)
		for (unsigned int j = 0; j < config->initiators[i].grant_count; j++)
			if (tgt_rules_match(config->initiators[i].grants[j].volume, volume))
				return true;
	return false;
}

static void say_unencrypted(const struct tgt_config *config)
{
	unsigned int secrets = 0;

	for (unsigned int i = 0; i < config->initiator_count; i++)
		secrets += config->initiators[i].secrets != NULL;
	for (unsigned int i = 0; i < config->listen_count && !secrets && config->tls == TGT_TLS_ALWAYS; i++) {
		if (config->listen[i].kind != FAB_TCP && config->listen[i].kind != FAB_NVME)
			continue;
		tgt_log(TGT_LOG_WARNING,
			"tls = always: no initiator has a secret, so nobody can come over TCP, not even from this machine");
		break;
	}
	for (unsigned int i = 0; i < config->listen_count && secrets && config->tls == TGT_TLS_NEVER; i++) {
		if ((config->listen[i].kind != FAB_TCP && config->listen[i].kind != FAB_NVME) || tgt_address_loopback(&config->listen[i]))
			continue;
		tgt_log(TGT_LOG_WARNING,
			"tls = never: initiators with secrets may come without TLS, and what they read and "
			"write is then not encrypted");
		break;
	}
}

void tgt_initiators_say(const struct tgt_config *config)
{
	unsigned int without = 0;

	say_unencrypted(config);

	for (unsigned int i = 0; i < config->initiator_count; i++)
		say_unused(config, &config->initiators[i]);
	for (unsigned int i = 0; i < config->volume_count; i++)
		without += !volume_has_rules(config, config->volumes[i].name);
	if (!without)
		return;
	if (config->open)
		tgt_log(TGT_LOG_WARNING,
			"open: %u of %u volume%s without access rules, and whoever reaches this target "
			"may read and write what has none",
			without, config->volume_count, TGT_S(config->volume_count));
	else if (listens_beyond(config))
		tgt_log(TGT_LOG_INFO,
			"%u of %u volume%s without access rules, for this machine only: others need an "
			"[initiator NAME] section in the configuration, or --open",
			without, config->volume_count, TGT_S(config->volume_count));
}

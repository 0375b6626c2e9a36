/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Holds page.html, which the assembler includes. */
#include "target/watch/page.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "target/watch/report.h"

__asm__(".pushsection .rodata\n"
	"tgt_page_begin: .incbin \"" TGT_PAGE_FILE "\"\n"
	".byte 0\n"
	".popsection\n");
extern const char tgt_page_begin[] __attribute__((visibility("hidden")));

const char *tgt_page_text(void)
{
	return tgt_page_begin;
}

/* -- the policy -------------------------------------------------------------------------------- */

/* "'sha256-...'" of what is between the page's only <tag> and </tag>. */
static void part_hash(const char *tag, char *text, size_t size)
{
	unsigned char digest[EVP_MAX_MD_SIZE], base64[64];
	char begin[16], end[16];
	const char *from, *to;
	unsigned int length = 0;

	snprintf(begin, sizeof(begin), "<%s>", tag);
	snprintf(end, sizeof(end), "</%s>", tag);
	from = strstr(tgt_page_begin, begin);
	to = from ? strstr(from, end) : NULL;
	text[0] = '\0';
	if (!to)
		return; /* nothing of that kind is allowed */
	from += strlen(begin);
	if (!EVP_Digest(from, (size_t)(to - from), digest, &length, EVP_sha256(), NULL))
		return;
	EVP_EncodeBlock(base64, digest, (int)length);
	snprintf(text, size, "'sha256-%s'", (const char *)base64);
}

const char *tgt_page_policy(void)
{
	static char policy[512];
	char script[80], style[80];

	if (policy[0])
		return policy;
	part_hash("script", script, sizeof(script));
	part_hash("style", style, sizeof(style));
	snprintf(policy, sizeof(policy),
		 "default-src 'none'; script-src %s; style-src %s; connect-src 'self'; base-uri "
		 "'none'; "
		 "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
		 "trusted-types 'none'",
		 script[0] ? script : "'none'", style[0] ? style : "'none'");
	return policy;
}

/* -- what it asks for -------------------------------------------------------------------------- */

static json_t *page_volumes(const struct tgt_methods *methods, const struct tgt_view *view)
{
	json_t *volumes = tgt_report_volumes(view, false), *volume;
	size_t i;

	/* Nobody is told what the page does not show. */
	json_array_foreach(volumes, i, volume) {
		json_object_del(volume, "path");
		tgt_history_rates(methods->history, TGT_HISTORY_VOLUME,
				  json_string_value(json_object_get(volume, "volume")), volume);
	}
	return volumes;
}

static json_t *page_initiators(const struct tgt_methods *methods, const struct tgt_view *view)
{
	json_t *array = json_array(), *object;

	for (unsigned int i = 0; i < view->initiator_count; i++) {
		const struct tgt_view_initiator *one = &view->initiators[i];

		object = json_pack("{s:o, s:b}", "initiator", tgt_rpc_text(one->name), "proven", one->proven);
		tgt_history_rates(methods->history, one->proven ? TGT_HISTORY_PROVEN : TGT_HISTORY_INITIATOR,
				  one->name, object);
		json_array_append_new(array, object);
	}
	return array;
}

/* Without the reasons, which have paths, as those of the problems. */
static void page_missing(json_t *status)
{
	json_t *missing;
	size_t i;

	json_array_foreach(json_object_get(status, "missing_volumes"), i, missing)
		json_object_del(missing, "reason");
}

json_t *tgt_page_status(struct tgt_methods *methods, enum tgt_history_kind kind, const char *name)
{
	const struct tgt_view *view = tgt_methods_view(methods);
	json_t *status = view ? tgt_methods_status(methods, view, false) : NULL, *curves;
	char host[HOST_NAME_MAX + 1] = "";

	if (!status)
		return NULL;
	json_object_del(status, "pid");
	page_missing(status);
	gethostname(host, sizeof(host) - 1);
	json_object_set_new(status, "host", tgt_rpc_text(host));
	json_object_set_new(status, "volumes", page_volumes(methods, view));
	json_object_set_new(status, "initiators", page_initiators(methods, view));
	json_object_set_new(status, "sessions", tgt_report_sessions(view, false));
	curves = tgt_history_curves(methods->history, kind, name);
	json_object_set_new(status, "history", curves ? curves : json_null());
	return status;
}

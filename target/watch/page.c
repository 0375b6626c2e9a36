/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Holds page.html, which the assembler includes. */
#include "target/watch/page.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "target/watch/names.h"
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

/* The latencies of all stages together, without the zeroes at the end. */
static json_t *page_latency(const struct tgt_counts *counts)
{
	json_t *object = json_object();

	for (unsigned int kind = 0; kind < TGT_COUNT_KINDS; kind++) {
		const uint64_t *buckets = counts->latency[kind][TGT_STAGE_BOTH];
		json_t *array = json_array();
		unsigned int count = CORE_BUCKETS;

		while (count && !buckets[count - 1])
			count--;
		for (unsigned int i = 0; i < count; i++)
			json_array_append_new(array, json_integer((json_int_t)buckets[i]));
		json_object_set_new(object, tgt_name_kind(kind), array);
	}
	return object;
}

static json_t *page_volumes(const struct tgt_view *view)
{
	json_t *volumes = tgt_report_volumes(view);

	/* In the view's order. What the page does not show is not told. */
	for (unsigned int i = 0; i < view->volume_count; i++) {
		json_t *volume = json_array_get(volumes, i);

		json_object_set_new(volume, "latency", page_latency(&view->volumes[i].counts));
		json_object_del(volume, "path");
	}
	return volumes;
}

/* Without the reasons, which have paths, as those of the problems. */
static void page_missing(json_t *status)
{
	json_t *missing;
	size_t i;

	json_array_foreach(json_object_get(status, "missing_volumes"), i, missing)
		json_object_del(missing, "reason");
}

json_t *tgt_page_status(struct tgt_methods *methods)
{
	const struct tgt_view *view = tgt_methods_view(methods);
	json_t *status = view ? tgt_methods_status(methods, view, false) : NULL, *ends;

	if (!status)
		return NULL;
	json_object_del(status, "pid");
	page_missing(status);
	ends = json_array();
	for (unsigned int i = 0; i + 1 < CORE_BUCKETS; i++)
		json_array_append_new(ends,
				      json_integer((json_int_t)(core_bucket_end(i) * 1000)));
	json_object_set_new(status, "taken_ns", json_integer((json_int_t)view->taken_ns));
	json_object_set_new(status, "bucket_ends_ns", ends);
	json_object_set_new(status, "volumes", page_volumes(view));
	json_object_set_new(status, "sessions", tgt_report_sessions(view));
	return status;
}

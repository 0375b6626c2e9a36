/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lines of metrics, see metrics_line.h. */
#include "target/watch/metrics_line.h"

#include <inttypes.h>

void tgt_metrics_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value, within its quotes. */
static void escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', out);
		fputc(*text < ' ' || *text > '~' ? '?' : *text, out);
	}
}

void tgt_metrics_label(FILE *out, const char *before, const char *name, const char *value)
{
	fprintf(out, "%s%s=\"", before, name);
	escaped(out, value);
	fputc('"', out);
}

void tgt_metrics_u64(FILE *out, uint64_t value)
{
	fprintf(out, "} %" PRIu64 "\n", value);
}

void tgt_metrics_seconds(FILE *out, double seconds)
{
	fprintf(out, "} %.9g\n", seconds);
}

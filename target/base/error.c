/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The one function of error.h, and why a cut text ends in dots. */
#include "target/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int tgt_error(char *error, int code, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(error, TGT_ERROR_BYTES, format, args);
	va_end(args);
	/* Dots show a reader that the reason, which comes last, is cut. */
	if (length >= TGT_ERROR_BYTES)
		memcpy(error + TGT_ERROR_BYTES - 4, "...", 4);
	return code;
}

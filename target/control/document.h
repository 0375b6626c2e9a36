/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The text of the configuration: its file and those of the folder beside it, as they were read, with
 * their comments. edit.c changes it, save.c writes it back; config.c says what it means. One thread.
 */
#ifndef RBLK_TARGET_DOCUMENT_H
#define RBLK_TARGET_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include "target/base/change.h"

#define TGT_DOCUMENT_FILES_MAX 1024u
#define TGT_DOCUMENT_BYTES_MAX (64u << 20)

struct tgt_document_file {
	char *path; /* as messages name it; "": there is no file, and it cannot be saved */
	char *text; /* ends with a zero */
	size_t bytes;
	struct stat seen; /* when it was read */
	char *saved;	  /* what the file has, since the first edit behind a read or save; NULL: the text */
	bool changed;	  /* the text is not what the file has */
};

/* {0}: nothing was read. */
struct tgt_document {
	struct tgt_document_file *files; /* the configuration file, then the others by name */
	unsigned int count;
};

/* -- document.c: all of these as ever: 0, or negative errno and error (TGT_ERROR_BYTES) ---------- */

/* The file, and all *.conf in the folder PATH.d, if there is one. */
int tgt_document_read(struct tgt_document *document, const char *path, char *error);
/* One file alone. */
int tgt_document_read_file(struct tgt_document *document, const char *path, char *error);
/* Makes a text without a file, for a daemon that has none; no effect if there is one. */
int tgt_document_make(struct tgt_document *document, char *error);
int tgt_document_copy(struct tgt_document *to, const struct tgt_document *from, char *error);
void tgt_document_fini(struct tgt_document *document);
bool tgt_document_changed(const struct tgt_document *document);

/* -- edit.c ------------------------------------------------------------------------------------ */

/* All of the edits; after an error some are made: the caller throws the document away. */
int tgt_document_edit(struct tgt_document *document, const struct tgt_edit *edits, unsigned int count,
		      char *error);

/* As they were given to rblkctl: "set volume data limit_iops=10 limit_rate=". Cut off where words are full. */
void tgt_edits_words(const struct tgt_edit *edits, unsigned int count, char *words, size_t bytes);

/* -- save.c ------------------------------------------------------------------------------------ */

/*
 * Writes what has changed, each file as a whole or not at all. A file that is not as it was read is
 * refused, unless force.
 */
int tgt_document_save(struct tgt_document *document, bool force, char *error);

#endif

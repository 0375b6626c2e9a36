/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the files of a configuration into memory. */
#include "target/control/document.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "target/base/denied.h"

#define SUFFIX ".conf"

void tgt_document_fini(struct tgt_document *document)
{
	for (unsigned int i = 0; i < document->count; i++) {
		free(document->files[i].path);
		free(document->files[i].text);
		free(document->files[i].saved);
	}
	free(document->files);
	document->files = NULL;
	document->count = 0;
}

bool tgt_document_changed(const struct tgt_document *document)
{
	for (unsigned int i = 0; i < document->count; i++)
		if (document->files[i].changed)
			return true;
	return false;
}

/* An empty one, at the end: *out. */
static int file_add(struct tgt_document *document, const char *path, struct tgt_document_file **out,
		    char *error)
{
	struct tgt_document_file *files;

	if (document->count == TGT_DOCUMENT_FILES_MAX)
		return tgt_error(error, -E2BIG, "%s: more than %u files", path,
				 TGT_DOCUMENT_FILES_MAX);
	files = reallocarray(document->files, document->count + 1, sizeof(*files));
	if (files) {
		document->files = files;
		files += document->count;
		memset(files, 0, sizeof(*files));
		files->path = strdup(path);
		files->text = calloc(1, 1);
		document->count++;
	}
	*out = files;
	if (files && files->path && files->text)
		return 0;
	return tgt_error(error, -ENOMEM, "%s: out of memory", path);
}

int tgt_document_make(struct tgt_document *document, char *error)
{
	struct tgt_document_file *file;

	return document->count ? 0 : file_add(document, "", &file, error);
}

int tgt_document_copy(struct tgt_document *to, const struct tgt_document *from, char *error)
{
	memset(to, 0, sizeof(*to));
	for (unsigned int i = 0; i < from->count; i++) {
		const struct tgt_document_file *other = &from->files[i];
		struct tgt_document_file *file;
		char *text = malloc(other->bytes + 1);
		char *saved = other->saved ? strdup(other->saved) : NULL;

		if (!text || (other->saved && !saved) || file_add(to, other->path, &file, error)) {
			free(text);
			free(saved);
			tgt_document_fini(to);
			return tgt_error(error, -ENOMEM, "out of memory");
		}
		free(file->text);
		memcpy(text, other->text, other->bytes + 1);
		file->text = text;
		file->saved = saved;
		file->bytes = other->bytes;
		file->seen = other->seen;
		file->changed = other->changed;
	}
	return 0;
}

/* -- reading ----------------------------------------------------------------------------------- */

static int file_fill(struct tgt_document_file *file, int fd, char *error)
{
	size_t room = 1;

	for (;;) {
		ssize_t got;

		if (file->bytes + 1 == room) {
			char *text = room < TGT_DOCUMENT_BYTES_MAX
					     ? realloc(file->text, room + 65536)
					     : NULL;

			if (!text)
				return tgt_error(error, -EFBIG, "%s: too long, or out of memory",
						 file->path);
			file->text = text;
			room += 65536;
		}
		got = read(fd, file->text + file->bytes, room - file->bytes - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return tgt_error(error, -errno, "%s: %s", file->path, strerror(errno));
		file->bytes += (size_t)got;
		file->text[file->bytes] = '\0';
		if (!got)
			break;
	}
	if (memchr(file->text, 0, file->bytes))
		return tgt_error(error, -EINVAL, "%s: has a zero byte: it is not text", file->path);
	return 0;
}

/* Half a file could mean something else than the whole one. */
static int file_check_whole(struct tgt_document_file *file, int fd, char *error)
{
	struct stat now;

	if (!S_ISREG(file->seen.st_mode))
		return 0;
	if (fstat(fd, &now) == 0 && now.st_size == file->seen.st_size &&
	    (size_t)now.st_size == file->bytes &&
	    now.st_mtim.tv_sec == file->seen.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == file->seen.st_mtim.tv_nsec)
		return 0;
	return tgt_error(error, -EAGAIN, "%s: was written while it was read: reload again",
			 file->path);
}

/* A byte-order mark, as some editors put it at the beginning of UTF-8, is no part of the first line. */
static void file_drop_mark(struct tgt_document_file *file)
{
	static const char mark[] = "\xef\xbb\xbf";
	const size_t bytes = sizeof(mark) - 1;

	if (file->bytes < bytes || memcmp(file->text, mark, bytes))
		return;
	file->bytes -= bytes;
	memmove(file->text, file->text + bytes, file->bytes + 1);
}

/* flags: O_NONBLOCK: only a regular file, and nothing is waited for to find out. */
static int file_read(struct tgt_document *document, const char *path, int flags, char *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | flags), status;
	struct tgt_document_file *file;
	char advice[TGT_DENIED_BYTES];

	if (fd < 0)
		return tgt_error(error, -errno, "%s: %s%s", path, strerror(errno), tgt_denied(path, errno, advice));
	status = file_add(document, path, &file, error);
	if (!status && fstat(fd, &file->seen))
		status = tgt_error(error, -errno, "%s: %s", path, strerror(errno));
	if (!status && flags && !S_ISREG(file->seen.st_mode))
		status = tgt_error(error, -EINVAL, "%s: is not a regular file", path);
	if (!status)
		status = file_fill(file, fd, error);
	if (!status)
		status = file_check_whole(file, fd, error);
	if (!status)
		file_drop_mark(file);
	close(fd);
	return status;
}

int tgt_document_read_file(struct tgt_document *document, const char *path, char *error)
{
	return file_read(document, path, 0, error);
}

/* Names of files that editors and packages leave behind end otherwise. */
static int is_wanted(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return entry->d_name[0] != '.' && length > strlen(SUFFIX) &&
	       !strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name); /* in every locale the same */
}

static int folder_read(struct tgt_document *document, const char *folder, char *error)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_wanted, by_name), status = 0;
	char advice[TGT_DENIED_BYTES];

	if (count < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (count < 0)
		return tgt_error(error, -errno, "%s: %s%s", folder, strerror(errno), tgt_denied(folder, errno, advice));
	for (int i = 0; i < count; i++) {
		char *path = NULL;

		if (!status && asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0)
			status = tgt_error(error, -ENOMEM, "%s: out of memory", folder);
		else if (!status)
			status = file_read(document, path, O_NONBLOCK, error);
		free(path);
		free(entries[i]);
	}
	free(entries);
	return status;
}

int tgt_document_read(struct tgt_document *document, const char *path, char *error)
{
	int status = tgt_document_read_file(document, path, error);
	char *folder;

	if (status)
		return status;
	if (asprintf(&folder, "%s.d", path) < 0)
		return tgt_error(error, -ENOMEM, "%s: out of memory", path);
	status = folder_read(document, folder, error);
	free(folder);
	return status;
}

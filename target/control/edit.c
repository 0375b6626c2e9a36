/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Edits the text of a configuration, a line at a time, and leaves all others as they are. It finds
 * sections and keys as config.c does, but what they mean, and whether that is allowed, is config.c's.
 */
#include "target/control/document.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/words/nearest.h"

#define BLANKS " \t"
#define HINT_BYTES 192

/* A section in a file: its heading, and all lines until the next one. */
struct edit_range {
	struct tgt_document_file *file;
	size_t begin, end;
	size_t last; /* behind its last line that is neither empty nor a comment */
};

/* -- lines ------------------------------------------------------------------------------------- */

static size_t line_end(const struct tgt_document_file *file, size_t begin)
{
	const char *end = memchr(file->text + begin, '\n', file->bytes - begin);

	return end ? (size_t)(end - file->text) + 1 : file->bytes;
}

static const char *line_text(const struct tgt_document_file *file, size_t begin)
{
	return file->text + begin + strspn(file->text + begin, BLANKS);
}

/* "[ volume  data]" is the heading of "volume data". */
static bool heading_is(const char *line, const char *section)
{
	line++; /* '[' */
	line += strspn(line, BLANKS);
	for (; *section; section++) {
		if (*section == ' ') {
			size_t blanks = strspn(line, BLANKS);

			if (!blanks)
				return false;
			line += blanks;
		} else if (*line++ != *section) {
			return false;
		}
	}
	return *line == ']';
}

/* In names of keys '-' and '_' are the same. */
static bool key_is(const char *line, const char *key)
{
	for (; *key; line++, key++)
		if (*line != *key && !(*line == '-' && *key == '_') && !(*line == '_' && *key == '-'))
			return false;
	line += strspn(line, BLANKS);
	return *line == '=' || *line == ':';
}

/* Puts `text` in the place of the bytes. */
static int text_replace(struct tgt_document_file *file, size_t begin, size_t end, const char *text,
			char *error)
{
	size_t length = strlen(text), rest = file->bytes - end + 1;
	char *now = malloc(begin + length + rest);

	if (!now)
		return tgt_error(error, -ENOMEM, "out of memory");
	memcpy(now, file->text, begin);
	memcpy(now + begin, text, length);
	memcpy(now + begin + length, file->text + end, rest);
	if (file->saved)
		free(file->text);
	else
		file->saved = file->text;
	file->text = now;
	file->bytes = begin + length + rest - 1;
	file->changed = strcmp(file->text, file->saved) != 0;
	return 0;
}

/* -- sections ---------------------------------------------------------------------------------- */

/* The next one from *place on; a place of {0} begins at the beginning. */
static bool place_next(struct tgt_document *document, const char *section, struct edit_range *place)
{
	struct tgt_document_file *file = place->file ? place->file : document->files;
	size_t at = place->end;
	bool found = false;

	for (; file < document->files + document->count; file++, at = 0) {
		for (; at < file->bytes; at = line_end(file, at)) {
			const char *line = line_text(file, at);

			if (*line == '[' && found)
				break;
			if (*line == '[' && heading_is(line, section)) {
				*place = (struct edit_range){.file = file, .begin = at};
				found = true;
			}
			if (found && *line && !strchr("#;\r\n", *line))
				place->last = line_end(file, at);
		}
		if (!found)
			continue;
		place->end = at;
		return true;
	}
	return false;
}

/* The name of the section that this heading has, if it is of the kind: "volume "; NULL: it is not. */
static char *heading_name(const char *line, const char *kind, size_t kind_length)
{
	if (*line++ != '[')
		return NULL;
	line += strspn(line, BLANKS);
	if (strncmp(line, kind, kind_length))
		return NULL;
	line += kind_length;
	line += strspn(line, BLANKS);
	return strndup(line, strcspn(line, "]\r\n"));
}

/* "; did you mean [volume data]?" if there is one like it, else the advice. */
static const char *section_hint(const struct tgt_document *document, const char *section, const char *advice,
				char hint[HINT_BYTES])
{
	size_t kind = strcspn(section, " ") + 1;
	struct words_nearest search;

	snprintf(hint, HINT_BYTES, "%s", advice);
	if (kind > strlen(section))
		return hint;
	search = words_nearest_to(section + kind);
	for (unsigned int i = 0; i < document->count; i++) {
		const struct tgt_document_file *file = &document->files[i];

		for (size_t at = 0; at < file->bytes; at = line_end(file, at)) {
			char *name = heading_name(line_text(file, at), section, kind);
			unsigned int below = search.below;

			if (!name)
				continue;
			words_nearest_offer(&search, name);
			if (search.below < below)
				snprintf(hint, HINT_BYTES, "; did you mean [%.*s%s]?", (int)kind, section, name);
			free(name);
		}
	}
	return hint;
}

/* advice: behind the error, if no other section is meant. */
static int section_find(struct tgt_document *document, const char *section, struct edit_range *place,
			const char *advice, char *error)
{
	char hint[HINT_BYTES];

	*place = (struct edit_range){0};
	if (place_next(document, section, place))
		return 0;
	return tgt_error(error, -ENOENT, "there is no section [%s] in %s%s", section,
			 document->files[0].path[0] ? document->files[0].path
						    : "a configuration file",
			 section_hint(document, section, advice, hint));
}

/* At the end of the first file. */
static int section_append(struct tgt_document *document, const char *section, char *error)
{
	struct tgt_document_file *file = &document->files[0];
	bool whole = !file->bytes || file->text[file->bytes - 1] == '\n';
	char *text;
	int status;

	if (asprintf(&text, "%s%s[%s]\n", whole ? "" : "\n", file->bytes ? "\n" : "", section) < 0)
		return tgt_error(error, -ENOMEM, "out of memory");
	status = text_replace(file, file->bytes, file->bytes, text, error);
	free(text);
	return status;
}

static int edit_add(struct tgt_document *document, const char *section, char *error)
{
	struct edit_range place = {0};

	if (place_next(document, section, &place))
		return tgt_error(error, -EEXIST, "section [%s] is already there, in %s", section,
				 place.file->path[0] ? place.file->path : "what was added before");
	return section_append(document, section, error);
}

static int edit_find(struct tgt_document *document, const char *section, char *error)
{
	struct edit_range place = {0};

	if (strcmp(section, "target") == 0)
		return place_next(document, section, &place) ? 0
							     : section_append(document, section, error);
	return section_find(document, section, &place, "; rblkctl add makes one", error);
}

/*
 * One empty line before or behind a section is enough: a section that is added and removed again
 * leaves nothing.
 */
static size_t section_begin(const struct edit_range *place)
{
	const struct tgt_document_file *file = place->file;
	size_t begin = place->begin;
	bool empty_before = begin && file->text[begin - 1] == '\n' && (begin == 1 || file->text[begin - 2] == '\n');
	bool empty_behind = place->last == file->bytes || file->text[place->last] == '\n';

	return empty_before && empty_behind ? begin - 1 : begin;
}

/* Comments behind its last key are, for all that is known, about what follows: they stay. */
static int edit_remove(struct tgt_document *document, const char *section, char *error)
{
	struct edit_range place;
	int status = section_find(document, section, &place, "", error);

	return status ? status : text_replace(place.file, section_begin(&place), place.last, "", error);
}

/* -- keys -------------------------------------------------------------------------------------- */

/* The first line of the key at or behind `at`. */
static bool key_find(const struct edit_range *place, const char *key, size_t *at)
{
	for (; *at < place->last; *at = line_end(place->file, *at))
		if (key_is(line_text(place->file, *at), key))
			return true;
	return false;
}

/* "key = value", with the line's own indentation, comment and end. */
static char *line_make(const struct tgt_document_file *file, size_t begin, const struct tgt_edit *edit)
{
	const char *old = file->text + begin, *end = file->text + line_end(file, begin);
	const char *comment = end;
	char *line;

	/* A ';' behind a blank begins a comment. */
	for (const char *next = old + 1; next < end; next++)
		if (*next == ';' && strchr(BLANKS, next[-1])) {
			comment = next - 1;
			break;
		}
	while (comment == end && end > old && strchr("\r\n", end[-1]))
		comment = --end;
	end = file->text + line_end(file, begin);
	if (asprintf(&line, "%.*s%s = %s%.*s", (int)strspn(old, BLANKS), old, edit->key, edit->value,
		     (int)(end - comment), comment) < 0)
		return NULL;
	return line;
}

/* Removes all lines of the key but the one at `keep` in `kept`. */
static int key_clear(struct tgt_document *document, const struct tgt_edit *edit,
		     const struct tgt_document_file *kept, size_t keep, char *error)
{
	struct edit_range place = {0};
	int status = 0;

	while (!status && place_next(document, edit->section, &place)) {
		size_t at = place.begin;

		while (!status && key_find(&place, edit->key, &at)) {
			size_t end = line_end(place.file, at);

			if (place.file == kept && at == keep) {
				at = end;
				continue;
			}
			status = text_replace(place.file, at, end, "", error);
			place.last -= end - at;
			place.end -= end - at;
			if (place.file == kept && at < keep)
				keep -= end - at;
		}
	}
	return status;
}

static int key_append(struct tgt_document *document, const struct tgt_edit *edit, char *error)
{
	struct edit_range place, other;
	char *line;
	int status = section_find(document, edit->section, &place, "", error);
	bool whole;

	if (status)
		return status;
	/* Behind the last one of its kind, wherever that is. */
	for (other = (struct edit_range){0}; place_next(document, edit->section, &other);)
		for (size_t at = other.begin; key_find(&other, edit->key, &at);
		     at = line_end(other.file, at)) {
			place = other;
			place.last = line_end(other.file, at);
		}
	whole = place.file->text[place.last - 1] == '\n';
	if (asprintf(&line, "%s%s = %s\n", whole ? "" : "\n", edit->key, edit->value) < 0)
		return tgt_error(error, -ENOMEM, "out of memory");
	status = text_replace(place.file, place.last, place.last, line, error);
	free(line);
	return status;
}

static int edit_set(struct tgt_document *document, const struct tgt_edit *edit, char *error)
{
	struct tgt_document_file *file = NULL;
	struct edit_range place = {0};
	size_t line = 0;
	char *text;
	int status;

	/* The last one: of a setting of [target], that is the one that counts. */
	while (place_next(document, edit->section, &place))
		for (size_t at = place.begin; key_find(&place, edit->key, &at);
		     at = line_end(place.file, at)) {
			file = place.file;
			line = at;
		}
	if (!file)
		return key_append(document, edit, error);
	text = line_make(file, line, edit);
	if (!text)
		return tgt_error(error, -ENOMEM, "out of memory");
	status = text_replace(file, line, line_end(file, line), text, error);
	free(text);
	return status ? status : key_clear(document, edit, file, line, error);
}

/* -- edits ------------------------------------------------------------------------------------- */

/* They become parts of lines: nothing in them may end a line, or begin a comment. */
static int edit_check(const struct tgt_edit *edit, char *error)
{
	const char *texts[] = {edit->section, edit->key, edit->value};

	for (unsigned int i = 0; i < 3; i++)
		for (const char *next = texts[i]; next && *next; next++)
			if ((unsigned char)*next < ' ' || *next == 0x7f)
				return tgt_error(error, -EINVAL,
						 "[%s]: a control character cannot be part of a setting",
						 i ? edit->section : "...");
	if (strpbrk(edit->section, "[]"))
		return tgt_error(error, -EINVAL, "\"%s\" is not the name of a section", edit->section);
	if (!edit->key)
		return 0;
	if (!*edit->key || strpbrk(edit->key, "=:;#[] "))
		return tgt_error(error, -EINVAL, "[%s]: \"%s\" is not a key", edit->section, edit->key);
	if (edit->value && (strstr(edit->value, " ;") || *edit->value == ';'))
		return tgt_error(error, -EINVAL,
				 "[%s]: %s: a ; at the beginning or behind a blank would begin a comment",
				 edit->section, edit->key);
	return 0;
}

static int edit_apply(struct tgt_document *document, const struct tgt_edit *edit, char *error)
{
	switch (edit->kind) {
	case TGT_EDIT_ADD:
		return edit_add(document, edit->section, error);
	case TGT_EDIT_REMOVE:
		return edit_remove(document, edit->section, error);
	case TGT_EDIT_FIND:
		return edit_find(document, edit->section, error);
	case TGT_EDIT_SET:
		return edit_set(document, edit, error);
	case TGT_EDIT_MORE:
		return key_append(document, edit, error);
	case TGT_EDIT_UNSET:
		return key_clear(document, edit, NULL, 0, error);
	}
	return -EINVAL;
}

int tgt_document_edit(struct tgt_document *document, const struct tgt_edit *edits, unsigned int count,
		      char *error)
{
	int status = tgt_document_make(document, error);

	for (unsigned int i = 0; i < count && !status; i++) {
		status = edit_check(&edits[i], error);
		if (!status)
			status = edit_apply(document, &edits[i], error);
	}
	return status;
}

/* Values are what a peer of the control socket sent: a line of the log stays one. */
static void words_add(char *words, size_t bytes, const char *before, const char *text, const char *behind)
{
	size_t length = strlen(words);

	snprintf(words + length, bytes - length, "%s%s%s", before, text, behind);
	for (char *c = words + length; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

void tgt_edits_words(const struct tgt_edit *edits, unsigned int count, char *words, size_t bytes)
{
	words[0] = '\0';
	for (const struct tgt_edit *edit = edits; edit < edits + count; edit++) {
		const char *verb = edit->kind == TGT_EDIT_ADD	 ? "add "
				   : edit->kind == TGT_EDIT_REMOVE ? "remove "
				   : edit->kind == TGT_EDIT_FIND   ? "set "
								   : NULL;

		if (verb)
			words_add(words, bytes, words[0] ? ", " : "", verb, edit->section);
		else if (edit->key)
			words_add(words, bytes, " ", edit->key, "=");
		if (!verb && edit->value)
			words_add(words, bytes, "", edit->value, "");
	}
}

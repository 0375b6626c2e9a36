/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the files of a disk's record: see record.h. N is a JSON object, N.udev has udev's properties. */
#include "initiator/ublk/record.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void record_path(const char *root, uint32_t id, const char *end, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s" UBLK_RECORD_FOLDER "/%u%s", root, id, end);
}

#define RECORD_UUID_BYTES (2 * sizeof(((struct ublk_record *)NULL)->uuid) + 1)

static const char *record_uuid(const struct ublk_record *r, char text[RECORD_UUID_BYTES])
{
	for (size_t i = 0; i < sizeof(r->uuid); i++)
		sprintf(text + 2 * i, "%02x", r->uuid[i]);
	return text;
}

uint64_t ublk_record_attachment(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)getpid() << 40 ^ ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

uint64_t ublk_record_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static const struct {
	const char *key;
	size_t offset;
} counts[] = {
	{ "losses", offsetof(struct ublk_record, losses) },
	{ "volume_bytes", offsetof(struct ublk_record, volume_bytes) },
	{ "commands", offsetof(struct ublk_record, stats.commands) },
	{ "sends", offsetof(struct ublk_record, stats.sends) },
	{ "replies", offsetof(struct ublk_record, stats.replies) },
	{ "immediates", offsetof(struct ublk_record, stats.immediates) },
	{ "doorbells", offsetof(struct ublk_record, stats.doorbells) },
	{ "retries", offsetof(struct ublk_record, stats.retries) },
	{ "digest_retries", offsetof(struct ublk_record, stats.digest_retries) },
};
#define RECORD_COUNTS (sizeof(counts) / sizeof(counts[0]))

static uint64_t *record_count(struct ublk_record *r, size_t n)
{
	return (uint64_t *)((char *)r + counts[n].offset);
}

static json_t *record_paths(const struct ublk_record *r)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < r->path_count; i++) {
		const struct rblk_path_info *path = &r->paths[i];

		json_array_append_new(list, json_pack("{s:s s:s s:s s:s s:I s:I s:b s:b s:b}", "host", path->host, "peer", path->peer,
						      "device", path->device, "words", path->words, "connections",
						      (json_int_t)path->connections, "since_ms", (json_int_t)path->connected_ms,
						      "tls", (int)path->tls, "proven", (int)path->proven, "digest",
						      (int)path->digest));
	}
	return list;
}

int ublk_record_write(const char *root, const struct ublk_record *r)
{
	char path[PATH_MAX], fresh[PATH_MAX], uuid[RECORD_UUID_BYTES];
	json_t *object, *again;
	int err = 0;

	object = json_pack("{s:I s:I s:s s:s s:s s:s s:s s:s s:I s:I s:I s:I s:I s:I s:I s:b s:b s:b s:s s:s}", "server",
			   (json_int_t)r->server, "attachment", (json_int_t)r->attachment, "uri", r->uri, "volume", r->volume, "peer",
			   r->peer, "key", r->key, "state", r->state, "words", r->words, "bytes", (json_int_t)r->bytes,
			   "block_bytes", (json_int_t)r->block_bytes, "queues", (json_int_t)r->queues, "credits",
			   (json_int_t)r->credits, "connect_ms", (json_int_t)r->connect_ms, "command_ms",
			   (json_int_t)r->command_ms, "give_up_ms", (json_int_t)r->give_up_ms, "read_only",
			   (int)r->read_only, "digest", (int)r->digest, "writes_lost", (int)r->writes_lost, "name",
			   r->name, "uuid", record_uuid(r, uuid));
	again = json_pack("{s:s s:s s:I s:I s:b s:b}", "initiator", r->initiator, "source", r->source, "tos",
			  (json_int_t)r->tos, "ack_timeout", (json_int_t)r->ack_timeout, "accept_volatile",
			  (int)r->accept_volatile, "priority", (int)r->priority);
	if (json_object_update_new(object, again)) {
		json_decref(object);
		return -EINVAL; /* a text that is not UTF-8 */
	}
	for (size_t i = 0; i < RECORD_COUNTS; i++)
		json_object_set_new(object, counts[i].key, json_integer((json_int_t)*record_count((struct ublk_record *)r, i)));
	json_object_set_new(object, "paths", record_paths(r));
	record_path(root, r->id, ".new", fresh);
	record_path(root, r->id, "", path);
	if (json_dump_file(object, fresh, JSON_COMPACT) || rename(fresh, path))
		err = errno ? -errno : -EIO;
	json_decref(object);
	return err;
}

int ublk_record_write_udev(const char *root, const struct ublk_record *r)
{
	char path[PATH_MAX], fresh[PATH_MAX], uuid[RECORD_UUID_BYTES];
	FILE *file;
	int err;

	record_uuid(r, uuid);
	record_path(root, r->id, ".new", fresh);
	record_path(root, r->id, ".udev", path);
	file = fopen(fresh, "we");
	if (!file)
		return -errno;
	fprintf(file, "RBLK_NAME=%s\nRBLK_TARGET=%s\nRBLK_VOLUME=%s\nRBLK_URI=%s\nRBLK_STATE=%s\nRBLK_SERIAL=%s\n", r->name, r->peer,
		r->volume, r->uri, r->state, uuid);
	err = ferror(file) ? -EIO : 0;
	if (fclose(file) || err || rename(fresh, path))
		err = err ? err : -errno;
	return err;
}

/* -- reading ----------------------------------------------------------------------------------- */

static void read_text(const json_t *object, const char *key, char *text, size_t bytes)
{
	const char *value = json_string_value(json_object_get(object, key));

	snprintf(text, bytes, "%s", value ? value : "");
}

static uint64_t read_number(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

static void read_paths(const json_t *list, struct ublk_record *r)
{
	const json_t *object;
	size_t i;

	json_array_foreach(list, i, object) {
		struct rblk_path_info *path = &r->paths[i];

		if (i == RBLK_PATHS_MAX)
			break;
		r->path_count++;
		read_text(object, "host", path->host, sizeof(path->host));
		read_text(object, "peer", path->peer, sizeof(path->peer));
		read_text(object, "device", path->device, sizeof(path->device));
		read_text(object, "words", path->words, sizeof(path->words));
		path->connections = (unsigned int)read_number(object, "connections");
		path->connected_ms = read_number(object, "since_ms");
		path->tls = json_is_true(json_object_get(object, "tls"));
		path->proven = json_is_true(json_object_get(object, "proven"));
		path->digest = json_is_true(json_object_get(object, "digest"));
	}
}

static void read_uuid(const char *text, uint8_t uuid[16])
{
	unsigned int byte;

	for (size_t i = 0; i < 16 && text && sscanf(text + 2 * i, "%2x", &byte) == 1; i++)
		uuid[i] = (uint8_t)byte;
}

int ublk_record_read(const char *root, uint32_t id, struct ublk_record *r)
{
	char path[PATH_MAX];
	json_t *object;

	*r = (struct ublk_record){ .id = id };
	record_path(root, id, "", path);
	object = json_load_file(path, 0, NULL);
	r->server = (pid_t)read_number(object, "server");
	if (r->server <= 0) {
		json_decref(object);
		return -ENODEV;
	}
	r->attachment = (uint64_t)json_integer_value(json_object_get(object, "attachment"));
	read_text(object, "uri", r->uri, sizeof(r->uri));
	read_text(object, "volume", r->volume, sizeof(r->volume));
	read_text(object, "peer", r->peer, sizeof(r->peer));
	read_text(object, "key", r->key, sizeof(r->key));
	read_text(object, "state", r->state, sizeof(r->state));
	read_text(object, "words", r->words, sizeof(r->words));
	r->bytes = read_number(object, "bytes");
	r->block_bytes = read_number(object, "block_bytes");
	r->queues = read_number(object, "queues");
	r->credits = read_number(object, "credits");
	r->connect_ms = read_number(object, "connect_ms");
	r->command_ms = read_number(object, "command_ms");
	r->give_up_ms = read_number(object, "give_up_ms");
	r->read_only = json_is_true(json_object_get(object, "read_only"));
	r->digest = json_is_true(json_object_get(object, "digest"));
	r->priority = json_is_true(json_object_get(object, "priority"));
	r->writes_lost = json_is_true(json_object_get(object, "writes_lost"));
	read_text(object, "name", r->name, sizeof(r->name));
	read_uuid(json_string_value(json_object_get(object, "uuid")), r->uuid);
	for (size_t i = 0; i < RECORD_COUNTS; i++)
		*record_count(r, i) = read_number(object, counts[i].key);
	read_paths(json_object_get(object, "paths"), r);
	read_text(object, "initiator", r->initiator, sizeof(r->initiator));
	read_text(object, "source", r->source, sizeof(r->source));
	r->tos = read_number(object, "tos");
	r->ack_timeout = read_number(object, "ack_timeout");
	r->accept_volatile = json_is_true(json_object_get(object, "accept_volatile"));
	json_decref(object);
	r->alive = ublk_kept_locked(root, id);
	return 0;
}

void ublk_record_remove(const char *root, uint32_t id)
{
	static const char *const ends[] = { "", ".udev" };
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		record_path(root, id, ends[i], path);
		unlink(path);
	}
	ublk_kept_remove(root, id);
}

static int list_compare(const void *a, const void *b)
{
	const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

int ublk_record_list(const char *root, uint32_t **ids)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int count = 0;
	DIR *dir;

	*ids = NULL;
	snprintf(path, sizeof(path), "%s" UBLK_RECORD_FOLDER, root);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	*ids = calloc(UBLK_RECORDS_MAX, sizeof(**ids));
	while (*ids && count < UBLK_RECORDS_MAX && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (length <= 6 && strspn(entry->d_name, "0123456789") == length)
			(*ids)[count++] = (uint32_t)strtoul(entry->d_name, NULL, 10);
	}
	closedir(dir);
	if (!*ids)
		return -ENOMEM;
	qsort(*ids, (size_t)count, sizeof(**ids), list_compare);
	return count;
}

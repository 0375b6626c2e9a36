/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the list of attached disks: what sysfs says of each, which one an operand means, and how they are
 * printed. For `rblk list --attached` and for the verbs that take one disk.
 */
#include "initiator/cmd/attach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "initiator/ublk/record.h"

/* -- reading ----------------------------------------------------------------------------------- */

/*
 * The disks that are attached, as the module shows them in /sys/block/rblkN/ and rblk/ below it. A
 * device may be removed while it is read: then it is not attached.
 */

/* A file of the device, without the end of its last line; "" where it cannot be read. */
static bool attached_file(const char *root, const char *device, const char *file, char *text,
			  size_t bytes)
{
	char path[PATH_MAX];
	size_t length;
	FILE *from;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/sys/block/%s/%s", root, device, file);
	from = fopen(path, "re");
	if (!from)
		return false;
	length = fread(text, 1, bytes - 1, from);
	fclose(from);
	text[length] = '\0';
	if (length && text[length - 1] == '\n')
		text[length - 1] = '\0';
	return true;
}

static uint64_t attached_number(const char *root, const char *device, const char *file)
{
	char text[32];

	attached_file(root, device, file, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

/* A file each, in the order of their names; entries beyond the table are ignored. */
static void attached_read_counters(const char *root, struct attached *a)
{
	char folder[PATH_MAX], file[64];
	struct dirent **list = NULL;
	int count;

	snprintf(folder, sizeof(folder), "%s/sys/block/%s/rblk_counters", root, a->device);
	count = scandir(folder, &list, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		const char *name = list[i]->d_name;

		if (a->counter_count < ATTACHED_COUNTERS_MAX && name[0] != '.' &&
		    strlen(name) < sizeof(a->counters[0].name)) {
			snprintf(file, sizeof(file), "rblk_counters/%.31s", name);
			strcpy(a->counters[a->counter_count].name, name);
			a->counters[a->counter_count++].value = attached_number(root, a->device, file);
		}
		free(list[i]);
	}
	free(list);
}

/* Portals are a line each; connections "queue state portal milliseconds". */
static void attached_read_paths(const char *root, struct attached *a)
{
	char portals[1024], connections[2048], at[96], *line, *rest;
	struct cmd_paths *paths = &a->paths;
	uint64_t ms;

	attached_file(root, a->device, "rblk/portals", portals, sizeof(portals));
	for (line = strtok_r(portals, "\n", &rest); line && paths->count < RBLK_PATHS_MAX;
	     line = strtok_r(NULL, "\n", &rest))
		snprintf(paths->list[paths->count++].host, sizeof(paths->list[0].host), "%s", line);
	attached_file(root, a->device, "rblk/connections", connections, sizeof(connections));
	for (line = strtok_r(connections, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		ms = 0; /* an older module does not tell it */
		if (sscanf(line, "%*u live %95s %" SCNu64, at, &ms) < 1)
			continue;
		for (unsigned int i = 0; i < paths->count; i++) {
			struct rblk_path_info *path = &paths->list[i];

			if (strcmp(path->host, at))
				continue;
			path->connections++;
			path->proven = a->key[0];
			path->digest = a->digest;
			if (ms > path->connected_ms)
				path->connected_ms = ms;
			snprintf(path->peer, sizeof(path->peer), "%s", at);
		}
	}
}

/* "rblk0"; not "rblk", "rblk-control", "rblk0p1". */
static bool attached_index(const char *device, const char *prefix, unsigned int *index)
{
	const char *digits = device + strlen(prefix);
	size_t length;

	if (strncmp(device, prefix, strlen(prefix)))
		return false;
	length = strlen(digits);
	if (!length || length > 6 || strspn(digits, "0123456789") != length)
		return false;
	*index = (unsigned int)strtoul(digits, NULL, 10);
	return true;
}

static void attached_count(struct attached *a, const char *name, uint64_t value)
{
	snprintf(a->counters[a->counter_count].name, sizeof(a->counters[0].name), "%s", name);
	a->counters[a->counter_count++].value = value;
}

/* The names are those of the module's disks. A server that has ended has no connections. */
static void attached_read_session(const struct ublk_record *r, struct attached *a)
{
	uint64_t now_ms = ublk_record_now_ms();

	attached_count(a, "commands", r->stats.commands);
	attached_count(a, "digest_retries", r->stats.digest_retries);
	attached_count(a, "doorbells", r->stats.doorbells);
	attached_count(a, "immediates", r->stats.immediates);
	attached_count(a, "messages", r->stats.sends);
	attached_count(a, "replies", r->stats.replies);
	a->losses = r->losses;
	a->retries = r->stats.retries;
	memcpy(a->paths.list, r->paths, sizeof(a->paths.list));
	a->paths.count = r->path_count;
	for (unsigned int i = 0; i < r->path_count; i++) {
		struct rblk_path_info *path = &a->paths.list[i];

		path->connected_ms = now_ms > path->connected_ms ? now_ms - path->connected_ms : 0;
		if (!r->alive)
			path->connections = 0;
	}
}

/*
 * A disk of ublk, as its server tells; its size is in the record, because the kernel removes the disk of a server that has
 * ended.
 */
static int attached_read_record(const char *root, uint32_t id, struct attached *a)
{
	struct ublk_record r;

	if (ublk_record_read(root, id, &r))
		return -ENODEV;
	*a = (struct attached){ .index = id, .server = (uint64_t)r.server, .left = !r.alive };
	snprintf(a->device, sizeof(a->device), "ublkb%u", id);
	snprintf(a->state, sizeof(a->state), "%s", r.alive ? r.state : "failed");
	if (r.alive && !r.words[0] && r.volume_bytes != r.bytes)
		snprintf(a->reason, sizeof(a->reason), "the volume has %" PRIu64 " bytes now, and this kernel does not resize a disk of ublk: "
			 "detach it, then attach it again", r.volume_bytes);
	/* A keeper that has given up says why. */
	else if (r.alive || !strcmp(r.state, "failed"))
		snprintf(a->reason, sizeof(a->reason), "%.*s", (int)sizeof(a->reason) - 1, r.words);
	else
		snprintf(a->reason, sizeof(a->reason),
			 "its server, process %d, and its keeper have ended, and its I/O waits: attach --take-over it, "
			 "or detach it by force",
			 (int)r.server);
	snprintf(a->target, sizeof(a->target), "%.*s", (int)sizeof(a->target) - 1, r.peer);
	snprintf(a->volume, sizeof(a->volume), "%.*s", (int)sizeof(a->volume) - 1, r.volume);
	snprintf(a->uri, sizeof(a->uri), "%s", r.uri);
	snprintf(a->key, sizeof(a->key), "%s", r.key);
	snprintf(a->attachment, sizeof(a->attachment), "%016" PRIx64, r.attachment);
	snprintf(a->name, sizeof(a->name), "%s", r.name);
	for (size_t i = 0; i < sizeof(r.uuid); i++)
		sprintf(a->serial + 2 * i, "%02x", r.uuid[i]);
	snprintf(a->wwid, sizeof(a->wwid), "uuid.%s", a->serial);
	a->bytes = r.bytes;
	a->block_bytes = r.block_bytes;
	a->queues = r.queues;
	a->credits = r.credits;
	a->connect_ms = r.connect_ms;
	a->command_ms = r.command_ms;
	a->give_up_ms = r.give_up_ms;
	a->read_only = r.read_only;
	a->digest = r.digest;
	a->writes_lost = r.writes_lost;
	attached_read_session(&r, a);
	return 0;
}

int attached_read(const char *root, const char *device, struct attached *a)
{
	*a = (struct attached){ 0 };
	if (attached_index(device, "ublkb", &a->index))
		return attached_read_record(root, a->index, a);
	if (!attached_index(device, "rblk", &a->index))
		return -ENODEV;
	snprintf(a->device, sizeof(a->device), "%s", device);
	if (!attached_file(root, device, "rblk/state", a->state, sizeof(a->state)))
		return -ENODEV;
	attached_file(root, device, "rblk/reason", a->reason, sizeof(a->reason));
	attached_file(root, device, "rblk/target", a->target, sizeof(a->target));
	attached_file(root, device, "rblk/volume", a->volume, sizeof(a->volume));
	attached_file(root, device, "rblk/name", a->name, sizeof(a->name));
	attached_file(root, device, "rblk/uri", a->uri, sizeof(a->uri));
	attached_file(root, device, "rblk/attachment", a->attachment, sizeof(a->attachment));
	attached_file(root, device, "rblk/wwid", a->wwid, sizeof(a->wwid));
	attached_file(root, device, "rblk/serial", a->serial, sizeof(a->serial));
	attached_file(root, device, "rblk/key", a->key, sizeof(a->key));
	a->digest = attached_number(root, device, "rblk/digest") != 0;
	a->queues = attached_number(root, device, "rblk/queues");
	a->credits = attached_number(root, device, "rblk/credits");
	a->session = attached_number(root, device, "rblk/session_number");
	a->losses = attached_number(root, device, "rblk/losses");
	a->retries = attached_number(root, device, "rblk/retries");
	a->writes_lost = attached_number(root, device, "rblk/writes_lost") != 0;
	a->reconnect_ms = attached_number(root, device, "rblk/reconnect_ms");
	a->fail_fast_ms = attached_number(root, device, "rblk/fail_fast_ms");
	a->connect_ms = attached_number(root, device, "rblk/connect_ms");
	a->command_ms = attached_number(root, device, "rblk/command_ms");
	a->give_up_ms = attached_number(root, device, "rblk/give_up_ms");
	a->keepalive_ms = attached_number(root, device, "rblk/keepalive_ms");
	a->bytes = attached_number(root, device, "size") * 512; /* sysfs counts sectors of 512 */
	a->block_bytes = attached_number(root, device, "queue/logical_block_size");
	a->read_only = attached_number(root, device, "ro") != 0;
	attached_read_counters(root, a);
	attached_read_paths(root, a);
	return 0;
}

static int attached_compare(const void *a, const void *b)
{
	const struct attached *left = a, *right = b;

	if (!left->server != !right->server)
		return left->server ? 1 : -1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* The disk of this name, if it is one of ours. 0 or -ENOMEM. */
static int attached_add(const char *root, const char *device, struct attached **all, int *count)
{
	struct attached *more, one;

	if (attached_read(root, device, &one))
		return 0;
	more = realloc(*all, ((size_t)*count + 1) * sizeof(**all));
	if (!more)
		return -ENOMEM;
	*all = more;
	more[(*count)++] = one;
	return 0;
}

/* The module's disks. 0 or -errno. */
static int attached_add_sysfs(const char *root, struct attached **all, int *count)
{
	struct dirent *entry;
	char path[PATH_MAX];
	int err = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sys/block", root);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "rblk", 4))
			err = attached_add(root, entry->d_name, all, count);
	closedir(dir);
	return err;
}

/* Those of ublk, also where the kernel has none any more. */
static int attached_add_records(const char *root, struct attached **all, int *count)
{
	uint32_t *ids = NULL;
	int records = ublk_record_list(root, &ids), err = records < 0 ? records : 0;
	char device[16];

	for (int i = 0; !err && i < records; i++) {
		snprintf(device, sizeof(device), "ublkb%u", ids[i]);
		err = attached_add(root, device, all, count);
	}
	free(ids);
	return err;
}

int attached_list(const char *root, struct attached **list)
{
	struct attached *all = NULL;
	int count = 0, err = attached_add_sysfs(root, &all, &count);

	*list = NULL;
	if (!err)
		err = attached_add_records(root, &all, &count);
	if (err) {
		free(all);
		return err;
	}
	if (count)
		qsort(all, (size_t)count, sizeof(*all), attached_compare);
	*list = all;
	return count;
}

int attached_acknowledge(const char *root, const struct attached *attached)
{
	char path[PATH_MAX], text[16];
	struct attached now;
	int fd, err = 0;

	/* Others may have detached it, and attached another volume as rblkN. */
	if (attached_read(root, attached->device, &now) ||
	    strcmp(now.attachment, attached->attachment))
		return -ENOENT;
	if (now.server)
		return attach_ublk_acknowledge(&now);
	snprintf(path, sizeof(path), "%s/sys/block/%s/rblk/acknowledge", root, attached->device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	attached_file(root, attached->device, "rblk/writes_lost", text, sizeof(text));
	if (write(fd, "1\n", 2) != 2)
		err = -errno;
	close(fd);
	return err ? err : text[0] == '1';
}

uint64_t attached_counter(const struct attached *attached, const char *name)
{
	for (unsigned int i = 0; i < attached->counter_count; i++)
		if (!strcmp(attached->counters[i].name, name))
			return attached->counters[i].value;
	return 0;
}

/* -- finding ----------------------------------------------------------------------------------- */

/*
 * Which attached disk an operand means: a device or a link to it, a name, or the URI that it was attached with.
 * For the verbs that take one disk.
 */

bool attached_named(const char *root, const char *name, char device[16])
{
	struct attached *list;
	int count = attached_list(root, &list);

	device[0] = '\0';
	for (int i = 0; i < count && name[0]; i++)
		if (!strcmp(list[i].name, name))
			memcpy(device, list[i].device, sizeof(list[i].device));
	free(list);
	return device[0];
}

static bool found_hosts_equal(const struct ini_uri *a, const struct ini_uri *b)
{
	if (a->host_count != b->host_count)
		return false;
	for (unsigned int i = 0; i < a->host_count; i++)
		if (a->hosts[i].kind != b->hosts[i].kind || strcasecmp(a->hosts[i].name, b->hosts[i].name) ||
		    strcmp(a->hosts[i].port, b->hosts[i].port) || a->hosts[i].group != b->hosts[i].group)
			return false;
	return true;
}

static bool found_uri_equal(const char *left, const char *right)
{
	char reason[ATTACH_REASON_BYTES];
	struct ini_uri a, b;

	return !attach_uri_read(left, &a, reason) && !attach_uri_read(right, &b, reason) &&
	       found_hosts_equal(&a, &b) && !strcmp(a.volume, b.volume);
}

/* A volume attached without this command has no URI, but sysfs shows its numeric address. */
static bool found_target_equal(const char *text, const struct attached *attached)
{
	char uri[RBLK_URI_BYTES];

	snprintf(uri, sizeof(uri), "rblk://%s/%s", attached->target, attached->volume);
	return found_uri_equal(text, uri);
}

/* Does this operand mean that device? `path`: the operand, with links resolved. */
static bool found_matches(const char *operand, const char *path, const struct attached *a)
{
	if (strstr(operand, "://"))
		return a->uri[0] ? found_uri_equal(operand, a->uri) :
				   found_target_equal(operand, a);
	if (!strncmp(path, "/dev/", 5))
		return !strcmp(path + 5, a->device);
	return !strcmp(operand, a->device) || (a->name[0] && !strcmp(operand, a->name));
}

const struct attached *attached_find(const char *operand, const struct attached *list, int count)
{
	const struct attached *found = NULL;
	char path[PATH_MAX];

	/* A link in /dev/rblk/ means its device. */
	if (operand[0] != '/' || !realpath(operand, path))
		snprintf(path, sizeof(path), "%s", operand);
	for (int i = 0; i < count; i++) {
		if (!found_matches(operand, path, &list[i]))
			continue;
		if (found) {
			cmd_error("%s: is attached as /dev/%s and as /dev/%s: name one of them",
				  operand, found->device, list[i].device);
			return NULL;
		}
		found = &list[i];
	}
	if (!found)
		cmd_error("%s: is not attached; see rblk list --attached", operand);
	return found;
}

int attached_choose(const char *operand, struct attached **list)
{
	int count = attached_list("", list);
	const struct attached *one;

	if (count < 0)
		cmd_error("/sys/block: %s", strerror(-count));
	if (count < 0 || !operand)
		return count;
	one = attached_find(operand, *list, count);
	if (one) {
		(*list)[0] = *one;
		return 1;
	}
	free(*list);
	return -ENODEV;
}

/* -- printing ---------------------------------------------------------------------------------- */

/*
 * Prints what is attached: for people a table with the reasons of losses under it, for programs
 * JSON with everything that sysfs shows.
 */

int attached_print(const struct attached *list, int count)
{
	char size[CMD_TEXT_BYTES], age[CMD_TEXT_BYTES], queues[24], commands[24], before[24];
	struct cmd_table *table = cmd_table_create(12);
	int i;

	cmd_table_row(table, "DEVICE", "NAME", "TARGET", "VOLUME", "OVER", ">SIZE", ">QUEUES", ">COMMANDS",
		      "PROVEN", "DIGEST", ">AGE", "STATE");
	for (i = 0; i < count; i++) {
		snprintf(queues, sizeof(queues), "%" PRIu64, list[i].queues);
		snprintf(commands, sizeof(commands), "%" PRIu64, attached_counter(&list[i], "commands"));
		cmd_table_row(table, list[i].device, list[i].name[0] ? list[i].name : "-",
			      list[i].target, list[i].volume, cmd_paths_over(&list[i].paths),
			      units_format_bytes(list[i].bytes, size), queues, commands,
			      list[i].key[0] ? "yes" : "no", list[i].digest ? "yes" : "no",
			      cmd_paths_format_age(&list[i].paths, age), list[i].state);
	}
	cmd_table_print(table, "no attached disks");
	cmd_table_destroy(table);
	for (i = 0; i < count; i++) {
		snprintf(before, sizeof(before), "%s: ", list[i].device);
		cmd_paths_print(&list[i].paths, before, 4);
		if (list[i].reason[0])
			printf("%s: %s\n", list[i].device, list[i].reason);
		if (list[i].writes_lost)
			printf("%s: writes that were acknowledged and not flushed may be lost: fsync fails\n",
			       list[i].device);
	}
	return CMD_OK;
}

static json_t *print_counters(const struct attached *attached)
{
	json_t *counters = json_object();

	for (unsigned int i = 0; i < attached->counter_count; i++)
		json_object_set_new(counters, attached->counters[i].name,
				    json_integer((json_int_t)attached->counters[i].value));
	return counters;
}

static json_int_t print_ns(uint64_t ms)
{
	return (json_int_t)(ms * 1000000u);
}

static json_t *print_device(const struct attached *a)
{
	char device[32];

	snprintf(device, sizeof(device), "/dev/%s", a->device);
	return json_pack("{s:s s:o s:o s:s s:s s:s s:o s:s s:s s:I s:I s:b s:I s:I s:I s:I s:b s:I s:I s:I s:I "
			 "s:I s:I s:o s:o s:I s:o s:b s:o s:o}",
			 "device", device, "name", cmd_json_words(a->name), "uri",
			 cmd_json_words(a->uri), "peer", a->target, "volume", a->volume, "state",
			 a->state, "error", cmd_json_words(a->reason), "wwid", a->wwid, "serial",
			 a->serial, "bytes", (json_int_t)a->bytes, "block_bytes",
			 (json_int_t)a->block_bytes, "read_only", (int)a->read_only, "queues",
			 (json_int_t)a->queues, "credits", (json_int_t)a->credits, "losses",
			 (json_int_t)a->losses, "retries", (json_int_t)a->retries, "writes_lost",
			 (int)a->writes_lost, "connect_timeout_ns", print_ns(a->connect_ms),
			 "command_timeout_ns", print_ns(a->command_ms), "reconnect_ns",
			 print_ns(a->reconnect_ms), "fail_fast_ns", print_ns(a->fail_fast_ms), "give_up_ns",
			 print_ns(a->give_up_ms), "keepalive_ns", print_ns(a->keepalive_ms),
			 "counters", print_counters(a), "paths", cmd_paths_json(&a->paths), "session",
			 (json_int_t)a->session, "key", cmd_json_words(a->key), "digest", (int)a->digest, "age_ns",
			 cmd_paths_json_age(&a->paths), "server",
			 a->server ? json_integer((json_int_t)a->server) : json_null());
}

int attached_print_json(const struct attached *list, int count)
{
	json_t *devices = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(devices, print_device(&list[i]));
	return cmd_json_print(json_pack("{s:o}", "attached", devices));
}

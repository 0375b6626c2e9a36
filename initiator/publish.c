/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the file of a session's page: where it is made, its memory, its end. It has no name until it is complete, and
 * a lock as long as a process has it open: a page without a lock is what a killed program has left.
 */
#include "initiator/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "initiator/page.h"
#include "proto/wire/message.h"

struct ini_publish {
	struct ini_page *page; /* mapped and shared */
	int fd;
	char path[PATH_MAX]; /* "": it has no name yet */
};

/* -- the folder -------------------------------------------------------------------------------- */

/* "yes": made if it is missing. 0 or negative errno; path is for messages, too. */
static int default_folder(char *path, size_t bytes)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int fits;

	if (runtime && *runtime == '/') {
		fits = snprintf(path, bytes, "%s/" INI_PAGE_RUNTIME_FOLDER, runtime);
		if (fits < 0 || (size_t)fits >= bytes)
			return -ENAMETOOLONG;
		return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
	}
	snprintf(path, bytes, INI_PAGE_FOLDER);
	if ((mkdir(INI_RUN_FOLDER, 0755) && errno != EEXIST) || (mkdir(path, 0755) && errno != EEXIST))
		return -errno;
	return 0;
}

/* 1: path is where the page is to be; 0: none is wanted; or negative errno. */
static int folder_of(const char *said, char *path, size_t bytes)
{
	int err;

	if (!said || !*said || !strcmp(said, "no"))
		return 0;
	if (!strcmp(said, "yes")) {
		err = default_folder(path, bytes);
		return err ? err : 1;
	}
	if (*said != '/')
		return -EINVAL;
	if (strlen(said) >= bytes)
		return -ENAMETOOLONG;
	strcpy(path, said);
	return 1;
}

/* -- the file ---------------------------------------------------------------------------------- */

static int page_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

/*
 * All of its memory exists from now on: a store that finds none later, in a full file system, would end the program
 * by SIGBUS.
 */
static int page_map(struct ini_publish *publish)
{
	int err = -posix_fallocate(publish->fd, 0, sizeof(struct ini_page));
	void *page;

	if (err)
		return err;
	page = mmap(NULL, sizeof(struct ini_page), PROT_READ | PROT_WRITE, MAP_SHARED, publish->fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	publish->page = page;
	return 0;
}

static void page_fill(struct ini_page *page, const char *uri, const char *initiator)
{
	memcpy(page->magic, INI_PAGE_MAGIC, sizeof(page->magic));
	page->version = INI_PAGE_VERSION;
	page->bytes = sizeof(*page);
	page->pid = (u64)getpid();
	page->state = RBLK_SESSION_CONNECTING;
	snprintf(page->program, sizeof(page->program), "%s", program_invocation_short_name);
	snprintf(page->initiator, sizeof(page->initiator), "%s", initiator);
	snprintf(page->uri, sizeof(page->uri), "%s", uri);
}

/* The file gets the first name that is free. */
static int page_name(struct ini_publish *publish, const char *folder)
{
	char own[64];

	snprintf(own, sizeof(own), "/proc/self/fd/%d", publish->fd);
	for (unsigned int i = 0; i < INI_PAGES_MAX; i++) {
		int length = snprintf(publish->path, sizeof(publish->path),
				      "%s/" INI_PAGE_PREFIX ".%u.%u", folder,
				      (unsigned int)getpid(), i);

		if (length < 0 || (size_t)length >= sizeof(publish->path))
			break;
		if (!linkat(AT_FDCWD, own, AT_FDCWD, publish->path, AT_SYMLINK_FOLLOW))
			return 0;
		if (errno != EEXIST) {
			publish->path[0] = '\0';
			return -errno;
		}
	}
	publish->path[0] = '\0';
	return -ENAMETOOLONG;
}

static int page_make(struct ini_publish *publish, const char *folder, const char *uri,
		     const char *initiator)
{
	int err;

	publish->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (publish->fd < 0)
		return -errno;
	err = page_lock(publish->fd);
	if (!err)
		err = page_map(publish);
	if (err)
		return err;
	page_fill(publish->page, uri, initiator);
	return page_name(publish, folder);
}

int ini_publish_create(const char *option, const char *uri, const char *initiator,
		       struct ini_publish **publish, char *error)
{
	const char *said = option ? option : secure_getenv(INI_PAGE_VARIABLE);
	char folder[PATH_MAX - 64] = "";
	int err = folder_of(said, folder, sizeof(folder));

	*publish = NULL;
	if (err > 0) {
		*publish = calloc(1, sizeof(**publish));
		if (!*publish)
			return -ENOMEM;
		(*publish)->fd = -1;
		err = page_make(*publish, folder, uri, initiator);
		if (err) {
			ini_publish_destroy(*publish);
			*publish = NULL;
		}
	}
	if (!err || !option)
		return 0;
	snprintf(error, RBLK_ERROR_BYTES, "options: statistics: %.150s: %s", folder[0] ? folder : said,
		 folder[0] ? strerror(-err) : "is not yes, no, or the whole path of a folder");
	return err;
}

void ini_publish_destroy(struct ini_publish *publish)
{
	if (!publish)
		return;
	if (publish->path[0])
		unlink(publish->path);
	if (publish->page)
		munmap(publish->page, sizeof(*publish->page));
	if (publish->fd >= 0)
		close(publish->fd);
	free(publish);
}

/* -- counting ---------------------------------------------------------------------------------- */

/* A reader sees all of it or nothing. */
static void set(u64 *place, u64 value)
{
	__atomic_store_n(place, value, __ATOMIC_RELAXED);
}

static void add(u64 *place, u64 value)
{
	set(place, *place + value);
}

struct ini_page_volume *ini_publish_open(struct ini_publish *publish, const char *name)
{
	for (unsigned int i = 0; publish && i < INI_PAGE_VOLUMES; i++) {
		struct ini_page_volume *place = &publish->page->volumes[i];
		u64 use = place->use;

		if (use & 1)
			continue;
		memset(place, 0, sizeof(*place));
		place->use = use;
		snprintf(place->name, sizeof(place->name), "%s", name);
		__atomic_store_n(&place->use, use + 1, __ATOMIC_RELEASE);
		return place;
	}
	return NULL;
}

void ini_publish_close(struct ini_page_volume *place)
{
	if (place)
		add(&place->use, 1);
}

static void count_answer(struct ini_page_volume *place, const struct ini_publish_command *command)
{
	bool reads = command->opcode == RBLK_OP_READ;
	bool writes = command->opcode == RBLK_OP_WRITE ||
		      command->opcode == RBLK_OP_COMPARE_AND_WRITE;
	u64 us = command->ns / 1000;

	add(reads ? &place->reads : writes ? &place->writes : &place->others, 1);
	if (!command->error && reads)
		add(&place->read_bytes, command->bytes);
	if (!command->error && writes)
		add(&place->written_bytes, command->bytes);
	add(&place->us, us);
	add(&place->buckets[core_bucket(us < UINT32_MAX ? (u32)us : UINT32_MAX)], 1);
}

void ini_publish_count(struct ini_page_volume *place, const struct ini_publish_command *command)
{
	if (command->answered)
		count_answer(place, command);
	if (command->error)
		add(&place->errors, 1);
}

void ini_publish_state(struct ini_publish *publish, enum rblk_session_state state)
{
	set(&publish->page->state, state);
}

void ini_publish_outstanding(struct ini_page_volume *place, u32 count)
{
	set(&place->outstanding, count);
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions of programs, from the pages that librblk makes for them (initiator/publish.c). Whoever may write in the
 * folder may have put anything there: files are opened without following links and without waiting, a fixed length
 * of them is read into memory of our own, and their texts end where they have to. Root reads pages of other users; one
 * must belong to the owner of its folder.
 */
#include "initiator/cmd/top.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most entries of a folder: more are not read. */
#define ENTRIES_MAX 1024u
/* 146 years: a longer time is no time, and would not be an integer of JSON. */
#define TIME_MAX_NS (1ull << 62)

/* -- one page ---------------------------------------------------------------------------------- */

static bool page_read(int fd, struct ini_page *page)
{
	if (pread(fd, page, sizeof(*page), 0) != (ssize_t)sizeof(*page))
		return false;
	if (memcmp(page->magic, INI_PAGE_MAGIC, sizeof(page->magic)) ||
	    page->version != INI_PAGE_VERSION || page->bytes != sizeof(*page))
		return false;
	page->program[sizeof(page->program) - 1] = '\0';
	page->initiator[sizeof(page->initiator) - 1] = '\0';
	page->uri[sizeof(page->uri) - 1] = '\0';
	for (unsigned int i = 0; i < INI_PAGE_VOLUMES; i++)
		page->volumes[i].name[sizeof(page->volumes[i].name) - 1] = '\0';
	return true;
}

/* Is the program there that made it? It holds a lock. If nobody can know, the page stays. */
static bool page_alive(int fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

static const char *state_name(uint64_t state)
{
	switch (state) {
	case RBLK_SESSION_CONNECTING:
		return "new";
	case RBLK_SESSION_READY:
		return "live";
	case RBLK_SESSION_RECOVERING:
		return "recovering";
	default:
		return "failed";
	}
}

static void volume_add(const char *key, const struct ini_page *page, unsigned int place,
		       struct top_look *look)
{
	const struct ini_page_volume *volume = &page->volumes[place];
	struct top_use *use = top_look_add(look);

	if (!use)
		return;
	snprintf(use->key, sizeof(use->key), "%.60s %u %" PRIu64, key, place, volume->use);
	snprintf(use->program, sizeof(use->program), "%s", page->program);
	snprintf(use->user, sizeof(use->user), "%s[%" PRIu64 "]", page->program, page->pid & UINT32_MAX);
	use->pid = page->pid & UINT32_MAX;
	snprintf(use->volume, sizeof(use->volume), "%s", volume->name);
	snprintf(use->uri, sizeof(use->uri), "%s", page->uri);
	snprintf(use->state, sizeof(use->state), "%s", state_name(page->state));
	use->counted = use->spread = true;
	use->reads = volume->reads;
	use->writes = volume->writes;
	use->others = volume->others;
	use->failed = volume->errors;
	use->read_bytes = volume->read_bytes;
	use->written_bytes = volume->written_bytes;
	use->ns = volume->us < TIME_MAX_NS / 1000 ? volume->us * 1000 : TIME_MAX_NS;
	use->outstanding = volume->outstanding;
	memcpy(use->buckets, volume->buckets, sizeof(use->buckets));
}

/*
 * Read twice: a volume that has the same place in both had it in between, so its name and counts in the second are
 * its own.
 */
static void page_add(int fd, const char *key, struct top_look *look)
{
	struct ini_page first, page;

	if (!page_read(fd, &first) || !page_read(fd, &page))
		return;
	for (unsigned int i = 0; i < INI_PAGE_VOLUMES; i++) {
		if (!(page.volumes[i].use & 1) || page.volumes[i].use != first.volumes[i].use ||
		    strcmp(page.volumes[i].name, first.volumes[i].name))
			continue;
		volume_add(key, &page, i, look);
	}
}

/* -- a folder ---------------------------------------------------------------------------------- */

/* "librblk.PID.NUMBER" */
static bool page_name(const char *name)
{
	size_t prefix = strlen(INI_PAGE_PREFIX);

	return !strncmp(name, INI_PAGE_PREFIX ".", prefix + 1) &&
	       strspn(name + prefix, ".0123456789") == strlen(name + prefix);
}

static void page_look(int folder, const struct stat *folder_stat, const char *name,
		      struct top_look *look)
{
	struct stat stat;
	char key[64];
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	/* It has ended meanwhile, or is another user's. */
	if (fd < 0)
		return;
	if (!fstat(fd, &stat) && S_ISREG(stat.st_mode) && stat.st_uid == folder_stat->st_uid &&
	    stat.st_size == (off_t)sizeof(struct ini_page)) {
		snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)stat.st_dev,
			 (unsigned long long)stat.st_ino);
		if (page_alive(fd))
			page_add(fd, key, look);
		else
			unlinkat(folder, name, 0);
	}
	close(fd);
}

int top_pages_look(const char *path, struct top_look *look)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = 0;
	struct dirent *entry;
	unsigned int entries = 0;
	struct stat stat;
	DIR *dir;

	if (folder < 0)
		return errno == ENOENT ? 0 : -errno;
	dir = fdopendir(folder);
	if (!dir) {
		err = -errno;
		close(folder);
		return err;
	}
	if (fstat(folder, &stat))
		err = -errno;
	while (!err && entries++ < ENTRIES_MAX && (entry = readdir(dir)))
		if (page_name(entry->d_name))
			page_look(folder, &stat, entry->d_name, look);
	closedir(dir);
	return err;
}

/* -- the usual folders ------------------------------------------------------------------------- */

/* Root's: those of all users. A user's folder that is not as it should be does not spoil the rest. */
static void users_look(const char *root, struct top_look *look)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/run/user", root);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/run/user/%.32s/" INI_PAGE_RUNTIME_FOLDER, root,
			 entry->d_name);
		look->most = look->count + TOP_USES_OF_USER_MAX;
		top_pages_look(path, look);
	}
	look->most = 0;
	closedir(dir);
}

int top_pages_look_usual(const char *root, struct top_look *look)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX], users[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s" INI_PAGE_FOLDER, root);
	err = top_pages_look(path, look);
	if (!geteuid())
		users_look(root, look);
	if (err || !runtime || *runtime != '/')
		return err;
	/* Root's own may be one of those that it has read. */
	snprintf(users, sizeof(users), "%s/run/user/", root);
	if (!geteuid() && !strncmp(runtime, users, strlen(users)))
		return 0;
	snprintf(path, sizeof(path), "%s/" INI_PAGE_RUNTIME_FOLDER, runtime);
	return top_pages_look(path, look);
}

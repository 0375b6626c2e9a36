/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens a store, with a limit. A call of librados may last for ever while the cluster does not answer, so each opening
 * has a thread, and the caller waits for it for a limited time. The next attempt at the same image takes a late opening
 * over. If there is none for a while after the thread has opened the store, it closes that.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/base/settings.h"

/*
 * How long an opening is waited for, from its beginning: those that have begun together are late together. An opening
 * without trouble takes a tenth of a second, and 3 seconds if it has to shut out a gateway.
 */
#define LIMIT_S 20u
#define LIMIT_WORDS "20 seconds"
#define NS_PER_S 1000000000ull
/* The limit, for the attempt that begins an opening, if other volumes wait behind it (others_wait). */
#define MOMENT_NS NS_PER_S
/* How long a store that nobody waits for is kept open for the next attempt. */
#define KEEP_NS (20 * NS_PER_S)
/* How often a wait looks whether the daemon is told to end. */
#define LOOK_NS 50000000
/* An opening that takes longer may wait for a cluster that is away: the monitors are asked each ASK_NS. */
#define DOUBT_NS (5 * NS_PER_S)
#define ASK_NS NS_PER_S
/* The pause before an image that is in use is tried again. */
#define AGAIN_NS 500000000

/* Made by the first attempt, or ahead of it; freed by the attempt that takes its result, or by its thread. */
struct opening {
	struct opening *next;
	char path[RBD_PATH_BYTES];
	struct rbd_name name;
	enum rbd_use use;
	bool wanted; /* an attempt waits for it, or is taking it */
	uint64_t begun_ns;
	uint64_t ask_ns; /* when the monitors are asked next */
	bool kept;	 /* its thread waits for the next attempt */
	bool over;	 /* `err` and `store` are there: its thread has ended, or waits with `kept` */
	int err;
	struct rbd_store *store;
	char error[TGT_ERROR_BYTES];
};

/* Owns all openings, but for `err`, `store` and `error` of one that is not over: its thread owns these. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;				 /* one is over */
static struct opening *openings;

/* -- names ------------------------------------------------------------------------------------- */

/* False: it is empty or too long. */
static bool name_part(char to[RBD_NAME_BYTES], const char *from, size_t length)
{
	if (!length || length >= RBD_NAME_BYTES)
		return false;
	memcpy(to, from, length);
	to[length] = 0;
	return true;
}

static int name_parse(const char *path, struct rbd_name *name, char *error)
{
	const char *slash = strchr(path, '/'), *last = strrchr(path, '/'), *at = last ? strchr(last, '@') : NULL;
	bool good = slash != NULL;

	memset(name, 0, sizeof(*name));
	good = good && name_part(name->pool, path, (size_t)(slash - path));
	if (good && last != slash)
		good = name_part(name->space, slash + 1, (size_t)(last - slash - 1)) && !strchr(name->space, '/');
	good = good && name_part(name->image, last + 1, at ? (size_t)(at - last - 1) : strlen(last + 1));
	if (good && at)
		good = name_part(name->snapshot, at + 1, strlen(at + 1));
	if (good)
		return 0;
	return tgt_rbd_host->error(
		error, -EINVAL, "%s: not the name of an image: POOL/IMAGE, POOL/NAMESPACE/IMAGE or POOL/IMAGE@SNAPSHOT",
		path);
}

/* -- the thread -------------------------------------------------------------------------------- */

/* Lock held. */
static void opening_free(struct opening *opening)
{
	struct opening **place = &openings;

	while (*place != opening)
		place = &(*place)->next;
	*place = opening->next;
	free(opening);
}

/* Lock held. Keeps a store that is open for the next attempt. True: there was one, and it has taken the store. */
static bool opening_keep(struct opening *opening)
{
	uint64_t until_ns = tgt_rbd_now_ns() + KEEP_NS;

	opening->kept = true;
	while (!opening->wanted && tgt_rbd_now_ns() < until_ns && !tgt_rbd_host->interrupted())
		tgt_rbd_cond_wait(&ended, &lock, tgt_rbd_now_ns() + LOOK_NS);
	opening->kept = false;
	return opening->wanted;
}

static void *opening_thread(void *arg)
{
	struct opening *opening = arg;
	struct rbd_store *unwanted;
	bool taken = false;

	opening->err =
		tgt_rbd_store_open(opening->path, &opening->name, opening->use, &opening->store, opening->error);
	pthread_mutex_lock(&lock);
	opening->over = true;
	pthread_cond_broadcast(&ended);
	while (opening->over && !opening->wanted && opening->store) {
		taken = opening_keep(opening);
		if (taken)
			break;
		/* The opening stays in the list, so that nobody begins another one before the store is closed. */
		unwanted = opening->store;
		opening->store = NULL;
		opening->over = false;
		pthread_mutex_unlock(&lock);
		tgt_rbd_store_close(tgt_rbd_store_of(unwanted));
		pthread_mutex_lock(&lock);
		opening->over = true;
		opening->err =
			tgt_rbd_host->error(opening->error, -EAGAIN, "it was opened too late, and is opened again");
		pthread_cond_broadcast(&ended);
	}
	if (taken || !opening->wanted)
		opening_free(opening);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static enum rbd_use config_use(const struct tgt_volume_config *config)
{
	if (config->read_only)
		return RBD_READS;
	return config->gateways == TGT_GATEWAYS_ONE ? RBD_WRITES_ALONE : RBD_WRITES;
}

/* Lock held. The opening of this volume that no attempt waits for; NULL: there is none. */
static struct opening *opening_find(const struct tgt_volume_config *config)
{
	struct opening *opening = openings;

	while (opening &&
	       (opening->wanted || opening->use != config_use(config) || strcmp(opening->path, config->path)))
		opening = opening->next;
	return opening;
}

/* Lock held. */
static struct opening *opening_begin(const struct tgt_volume_config *config, const struct rbd_name *name, char *error)
{
	struct opening *opening = calloc(1, sizeof(*opening));
	int err;

	if (!opening) {
		tgt_rbd_host->error(error, -ENOMEM, "%s: out of memory", config->path);
		return NULL;
	}
	memcpy(opening->path, config->path, sizeof(opening->path) - 1); /* its parts fit */
	opening->name = *name;
	opening->use = config_use(config);
	opening->begun_ns = tgt_rbd_now_ns();
	opening->ask_ns = opening->begun_ns + DOUBT_NS;
	err = tgt_rbd_thread(opening_thread, opening);
	if (err) {
		tgt_rbd_host->error(error, err, "%s: cannot start a thread: %s", config->path, strerror(-err));
		free(opening);
		return NULL;
	}
	opening->next = openings;
	openings = opening;
	return opening;
}

void tgt_rbd_open_ahead(const struct tgt_volume_config *config)
{
	char error[TGT_ERROR_BYTES];
	struct rbd_name name;

	if (name_parse(config->path, &name, error))
		return;
	pthread_mutex_lock(&lock);
	if (!opening_find(config))
		opening_begin(config, &name, error);
	pthread_mutex_unlock(&lock);
}

/* -- waiting ----------------------------------------------------------------------------------- */

/* Lock held. Waits until the opening is over, or until until_ns; false: the daemon is told to end. */
static bool opening_wait(struct opening *opening, uint64_t until_ns)
{
	while (!opening->over) {
		if (tgt_rbd_host->interrupted())
			return false;
		if (tgt_rbd_now_ns() >= opening->ask_ns) {
			opening->ask_ns = tgt_rbd_now_ns() + ASK_NS;
			tgt_rbd_client_probe();
		}
		if (tgt_rbd_now_ns() >= until_ns)
			break;
		tgt_rbd_cond_wait(&ended, &lock, tgt_rbd_now_ns() + LOOK_NS);
	}
	return true;
}

static int open_once(const struct tgt_volume_config *config, const struct rbd_name *name, struct tgt_store **store,
		     char *error)
{
	struct opening *opening;
	uint64_t until_ns = 0;
	bool goes_on;
	int err = -ENOMEM;

	pthread_mutex_lock(&lock);
	opening = opening_find(config);
	if (!opening) {
		opening = opening_begin(config, name, error);
		until_ns = tgt_rbd_now_ns() + MOMENT_NS;
	}
	if (!opening)
		goto out;
	opening->wanted = true;
	goes_on = opening_wait(opening, config->others_wait ? until_ns : opening->begun_ns + LIMIT_S * NS_PER_S);
	if (opening->over) {
		err = opening->err;
		if (err)
			tgt_rbd_host->error(error, err, "%s: %.400s", config->path, opening->error);
		else
			*store = tgt_rbd_store_of(opening->store);
		/* The thread that keeps it frees it. */
		if (opening->kept)
			pthread_cond_broadcast(&ended);
		else
			opening_free(opening);
	} else {
		opening->wanted = false;
		err = tgt_rbd_host->error(error, goes_on ? -ETIMEDOUT : -EINTR, "%s: the cluster has not answered%s",
					  config->path,
					  !goes_on		? "; stopped waiting"
					  : config->others_wait ? ""
								: " in " LIMIT_WORDS);
	}
out:
	pthread_mutex_unlock(&lock);
	return err;
}

int tgt_rbd_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	const struct timespec pause = {.tv_nsec = AGAIN_NS};
	uint64_t deadline_ns = tgt_rbd_now_ns() + (uint64_t)config->lock_wait_ms * 1000000u;
	struct rbd_name name;
	int err = name_parse(config->path, &name, error);
	bool said = false;

	while (!err) {
		err = open_once(config, &name, store, error);
		if (err != -EBUSY || tgt_rbd_now_ns() >= deadline_ns || tgt_rbd_host->interrupted())
			return err;
		if (!said)
			tgt_rbd_host->log(TGT_LOG_WARNING, "volume %s: waiting: %s", config->name, error);
		said = true;
		nanosleep(&pause, NULL);
		err = 0;
	}
	return err;
}

/* -- the end of the process -------------------------------------------------------------------- */

/*
 * librados' threads would crash in what exit() does after this, so the process ends at once if there may be any. All
 * images are closed by now, or wait for the cluster.
 */
static void opening_exit(int status, void *arg)
{
	bool some;

	(void)arg;
	pthread_mutex_lock(&lock);
	some = openings != NULL;
	pthread_mutex_unlock(&lock);
	if (some || tgt_rbd_client_is_there()) {
		fflush(NULL);
		_exit(status);
	}
}

void tgt_rbd_open_begin(void)
{
	tgt_rbd_cond_init(&ended);
	on_exit(opening_exit, NULL);
}

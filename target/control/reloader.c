/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread of reloader.h. */
#include "target/control/reloader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/control/options.h"
#include "target/store/path.h"

#define NS_PER_S 1000000000ull
/* How often what is not served is tried again. */
#define MEND_S 1
/* The last I/O of a former volume: checked so often, and so long by the reload itself. */
#define WAIT_STEP_NS 20000000
#define WAIT_NS (10 * NS_PER_S)

struct tgt_reloader {
	struct tgt_reloader_options options; /* fixed */
	struct tgt_reload reload;	     /* fixed */
	pthread_t thread;
	int fd;
	uint64_t wait_until_ns; /* the thread's; 0: this reload has not waited yet */

	pthread_mutex_t lock; /* owns all below */
	pthread_cond_t changed;
	bool requested; /* and not begun */
	bool busy;
	bool ended; /* since tgt_reloader_ended() was asked */
	bool stopping;
	bool over; /* the thread ends */
};

/* -- on the thread ----------------------------------------------------------------------------- */

/* The thread is needed for something else. */
static bool reloader_wanted(struct tgt_reloader *reloader)
{
	bool wanted;

	pthread_mutex_lock(&reloader->lock);
	wanted = reloader->requested || reloader->stopping;
	pthread_mutex_unlock(&reloader->lock);
	return wanted;
}

static bool reloader_wait(void *context)
{
	const struct timespec pause = {.tv_nsec = WAIT_STEP_NS};
	struct tgt_reloader *reloader = context;

	if (!reloader->wait_until_ns)
		reloader->wait_until_ns = env_now_ns() + WAIT_NS;
	if (reloader_wanted(reloader) || env_now_ns() >= reloader->wait_until_ns)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

/* Parses the command line again, with its configuration file. */
static void reloader_reload(struct tgt_reloader *reloader)
{
	const struct tgt_reloader_options *options = &reloader->options;
	char error[TGT_ERROR_BYTES];
	struct tgt_config wanted;
	enum tgt_run_mode mode;
	int status;

	reloader->wait_until_ns = 0;
	status = tgt_options_parse(options->argc, options->argv, &wanted, &mode, error);
	if (status == 0)
		status = tgt_reload_apply(&reloader->reload, options->config, &wanted, error);
	if (status < 0)
		tgt_log(TGT_LOG_ERROR, "reload failed, nothing changed: %s", error);
}

/* Lock held. Waits for a request, or the time to try again; false: the end. */
static bool reloader_sleep(struct tgt_reloader *reloader, bool mend)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += MEND_S;
	while (!reloader->requested && !reloader->stopping) {
		if (!mend)
			pthread_cond_wait(&reloader->changed, &reloader->lock);
		else if (pthread_cond_timedwait(&reloader->changed, &reloader->lock, &until))
			break;
	}
	return !reloader->stopping;
}

static void *reloader_thread(void *argument)
{
	struct tgt_reloader *reloader = argument;
	const uint64_t one = 1;
	bool mend = false;

	pthread_mutex_lock(&reloader->lock);
	while (reloader_sleep(reloader, mend)) {
		bool requested = reloader->requested;

		reloader->busy = requested;
		reloader->requested = false;
		/* With the lock held, so that no later request's interruption is undone. */
		tgt_path_interrupt(false);
		pthread_mutex_unlock(&reloader->lock);
		if (requested)
			reloader_reload(reloader);
		mend = tgt_reload_mend(&reloader->reload, reloader->options.config) > 0;
		pthread_mutex_lock(&reloader->lock);
		reloader->busy = false;
		if (requested && !reloader->requested) {
			reloader->ended = true;
			/* Full only after 2^64 reloads. */
			if (write(reloader->fd, &one, sizeof(one)) < 0)
				abort();
		}
	}
	reloader->over = true;
	pthread_cond_broadcast(&reloader->changed);
	pthread_mutex_unlock(&reloader->lock);
	return NULL;
}

/* -- the control thread's ---------------------------------------------------------------------- */

static void reloader_free(struct tgt_reloader *reloader)
{
	if (reloader->fd >= 0)
		close(reloader->fd);
	pthread_cond_destroy(&reloader->changed);
	pthread_mutex_destroy(&reloader->lock);
	free(reloader);
}

int tgt_reloader_create(const struct tgt_reloader_options *options, struct tgt_reloader **out,
			char *error)
{
	struct tgt_reloader *reloader = calloc(1, sizeof(*reloader));
	pthread_condattr_t monotonic;
	int err;

	if (!reloader)
		return tgt_error(error, -ENOMEM, "reloader: out of memory");
	reloader->options = *options;
	reloader->reload = (struct tgt_reload){
		.registry = options->registry,
		.rules = options->rules,
		.reactors = options->reactors,
		.reactor_count = options->config->reactors,
		.wait = reloader_wait,
		.context = reloader,
	};
	pthread_mutex_init(&reloader->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&reloader->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	reloader->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = reloader->fd < 0 ? errno
			       : pthread_create(&reloader->thread, NULL, reloader_thread, reloader);
	if (err) {
		reloader_free(reloader);
		return tgt_error(error, -err, "reloader: %s", strerror(err));
	}
	pthread_setname_np(reloader->thread, "reloader");
	*out = reloader;
	return 0;
}

void tgt_reloader_request(struct tgt_reloader *reloader)
{
	pthread_mutex_lock(&reloader->lock);
	if (!reloader->stopping)
		reloader->requested = true;
	tgt_path_interrupt(reloader->busy || reloader->stopping);
	pthread_cond_signal(&reloader->changed);
	pthread_mutex_unlock(&reloader->lock);
}

int tgt_reloader_fd(const struct tgt_reloader *reloader)
{
	return reloader->fd;
}

bool tgt_reloader_ended(struct tgt_reloader *reloader)
{
	uint64_t count;
	bool ended;

	if (read(reloader->fd, &count, sizeof(count)) < 0)
		return false; /* it has not ended */
	pthread_mutex_lock(&reloader->lock);
	ended = reloader->ended && !reloader->requested && !reloader->busy;
	reloader->ended = false;
	pthread_mutex_unlock(&reloader->lock);
	return ended;
}

void tgt_reloader_interrupt(struct tgt_reloader *reloader)
{
	pthread_mutex_lock(&reloader->lock);
	reloader->stopping = true;
	tgt_path_interrupt(true);
	pthread_cond_signal(&reloader->changed);
	pthread_mutex_unlock(&reloader->lock);
}

bool tgt_reloader_destroy(struct tgt_reloader *reloader, uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / NS_PER_S),
		.tv_nsec = (long)(deadline_ns % NS_PER_S),
	};

	bool over;
	int err = 0;

	if (!reloader)
		return true;
	tgt_reloader_interrupt(reloader);
	pthread_mutex_lock(&reloader->lock);
	while (!reloader->over && !err)
		err = pthread_cond_timedwait(&reloader->changed, &reloader->lock, &until);
	over = reloader->over;
	pthread_mutex_unlock(&reloader->lock);
	if (!over)
		return false;
	pthread_join(reloader->thread, NULL);
	reloader_free(reloader);
	return true;
}

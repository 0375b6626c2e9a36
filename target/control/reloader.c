/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread of reloader.h. */
#include "target/control/reloader.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/daemon_event.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/text.h"
#include "target/base/unserved.h"
#include "target/control/document.h"
#include "target/control/options.h"
#include "target/control/settings_show.h"
#include "target/store/path.h"

#define NS_PER_S 1000000000ull
/* How often what is not served is tried again. */
#define MEND_S (TGT_UNSERVED_AGAIN_MS / 1000)
/* The last I/O of a former volume: checked so often, and so long by the reload itself. */
#define WAIT_STEP_NS 20000000
#define WAIT_NS (10 * NS_PER_S)

/* Changes that wait, and results that are kept: more than the control socket has clients. */
#define CHANGES_MAX 32u
#define RESULTS_MAX 128u

struct tgt_reloader {
	struct tgt_reloader_options options; /* fixed */
	struct tgt_changer changer;	     /* fixed */
	pthread_t thread;
	int fd;

	/* The thread's. */
	struct tgt_reload reload;
	struct tgt_document document; /* what is in force */
	uint64_t wait_until_ns;	      /* 0: this reload has not waited yet */

	_Atomic bool unsaved; /* the document has changes that its files do not have */
	pthread_mutex_t lock; /* owns all below */
	pthread_cond_t changed;
	bool requested; /* and not begun: to reload whatever is in use */
	bool lost;	/* volumes are, perhaps */
	bool busy;
	bool ended; /* since tgt_reloader_ended() was asked */
	bool stopping;
	bool over;   /* the thread ends */
	bool joined; /* and has ended */
	struct tgt_change queue[CHANGES_MAX]; /* that wait, in their order */
	unsigned int queued;
	uint64_t numbers, done; /* of the last change that was taken, and that has ended */
	struct tgt_change_result results[RESULTS_MAX]; /* by number */
	struct tgt_last_reload last_reload;
};

/* -- on the thread ----------------------------------------------------------------------------- */

/* The thread is needed for something else: another reload, which may end what is waited for. */
static bool reloader_wanted(struct tgt_reloader *reloader)
{
	bool wanted;

	pthread_mutex_lock(&reloader->lock);
	wanted = reloader->requested || reloader->stopping;
	for (unsigned int i = 0; i < reloader->queued; i++)
		wanted |= reloader->queue[i].kind == TGT_CHANGE_RELOAD;
	pthread_mutex_unlock(&reloader->lock);
	return wanted;
}

static unsigned int reloader_used(void *context, const char *volume, bool connected, char *words)
{
	const struct tgt_reloader *reloader = context;

	return reloader->options.used(reloader->options.used_context, volume, connected, words);
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

/*
 * A volume could be opened only with its former settings, which is known when the others have changed
 * already: all of them go back. 0: they have, and `error` says why. Otherwise they cannot.
 */
static int reloader_undo(struct tgt_reloader *reloader, struct tgt_change_result *result, char *error)
{
	const struct tgt_reloader_options *options = &reloader->options;
	char reason[TGT_ERROR_BYTES];
	struct tgt_config config;
	enum tgt_run_mode mode;
	int status;

	memcpy(reason, result->words, sizeof(reason));
	reloader->reload.used = NULL;
	reloader->reload.result = NULL;
	reloader->wait_until_ns = 0;
	status = tgt_options_parse_document(options->argc, options->argv, &reloader->document,
					    &config, &mode, error);
	if (status == 0)
		status = tgt_reload_apply(&reloader->reload, options->config, &config, error);
	if (status < 0) {
		tgt_log(TGT_LOG_ERROR, "the other changes are in force: %s", error);
		return status;
	}
	memset(result, 0, sizeof(*result));
	tgt_error(error, 0, "%s", reason);
	return 0;
}

/*
 * Makes what `wanted` and the command line say be in force, or nothing. An empty document is read from
 * the files. Takes over the document.
 */
static int reloader_apply(struct tgt_reloader *reloader, struct tgt_document *wanted, bool force,
			  struct tgt_change_result *result, char *error)
{
	const struct tgt_reloader_options *options = &reloader->options;
	struct tgt_config config;
	enum tgt_run_mode mode;
	int status;

	reloader->wait_until_ns = 0;
	reloader->reload.used = force || !options->used ? NULL : reloader_used;
	reloader->reload.result = result;
	status = tgt_options_parse_document(options->argc, options->argv, wanted, &config, &mode,
					    error);
	if (status == 0)
		status = tgt_reload_apply(&reloader->reload, options->config, &config, error);
	if (status == 0 && result && result->reverted && reloader_undo(reloader, result, error) == 0)
		status = -EINVAL;
	if (status < 0) {
		tgt_document_fini(wanted);
		return status;
	}
	tgt_document_fini(&reloader->document);
	reloader->document = *wanted;
	return 0;
}

static void reload_remember(struct tgt_reloader *reloader, bool failed, const char *error)
{
	struct tgt_last_reload *last = &reloader->last_reload;

	pthread_mutex_lock(&reloader->lock);
	last->time_ns = tgt_time_now_ns();
	last->failed = failed;
	snprintf(last->words, sizeof(last->words), "%s", failed ? error : "");
	pthread_mutex_unlock(&reloader->lock);
}

/* Parses the command line again, with its configuration files. */
static int change_reload(struct tgt_reloader *reloader, bool force, struct tgt_change_result *result,
			 char *error)
{
	struct tgt_document wanted = {0};
	int status;

	if (!force && tgt_document_changed(&reloader->document)) {
		status = tgt_error(error, -EBUSY,
				   "changes that were not saved would be lost: save them, or reload "
				   "with --force");
	} else {
		status = reloader_apply(reloader, &wanted, force, result, error);
		reload_remember(reloader, status < 0, error);
	}
	if (status < 0)
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_RELOAD_FAILED,
								  .error = -status},
				 NULL, TGT_LOG_ERROR, "reload failed, nothing changed: %s", error);
	return status;
}

/* Its section is in no file. */
static bool on_command_line(const struct tgt_reloader *reloader, const char *section)
{
	const struct tgt_config *config = reloader->options.config;

	for (unsigned int i = 0; i < config->volume_count; i++)
		if (!strncmp(section, "volume ", 7) && !strcmp(config->volumes[i].name, section + 7))
			return !strcmp(config->volumes[i].source, TGT_COMMAND_LINE);
	return false;
}

static int change_edit(struct tgt_reloader *reloader, const struct tgt_change *change,
		       struct tgt_change_result *result, char *error)
{
	struct tgt_document wanted;
	int status = tgt_document_copy(&wanted, &reloader->document, error);

	if (status == 0) {
		status = tgt_document_edit(&wanted, change->edits, change->edit_count, error);
		for (unsigned int i = 0; i < change->edit_count && status == -ENOENT; i++)
			if (on_command_line(reloader, change->edits[i].section))
				status = tgt_error(error, -EPERM,
						   "%s is on the command line of rblkd: only its next start changes it",
						   change->edits[i].section);
		if (status < 0)
			tgt_document_fini(&wanted);
		else
			status = reloader_apply(reloader, &wanted, change->force, result, error);
	}
	if (status < 0)
		tgt_log(TGT_LOG_ERROR, "change failed, nothing changed: %s", error);
	return status;
}

static int change_move(struct tgt_reloader *reloader, const struct tgt_change *change, struct tgt_change_result *result,
		       char *error)
{
	int status;

	reloader->wait_until_ns = 0;
	reloader->reload.used = reloader_used;
	status = tgt_reload_move(&reloader->reload, reloader->options.config, change->volume, change->force, result,
				 error);
	if (status < 0)
		tgt_log(TGT_LOG_ERROR, "move: %s", error);
	return status;
}

static int change_save(struct tgt_reloader *reloader, bool force, char *error)
{
	int status = tgt_document_save(&reloader->document, force, error);

	if (status < 0)
		tgt_log(TGT_LOG_ERROR, "the configuration is not saved: %s", error);
	else
		tgt_log(TGT_LOG_INFO, "the configuration is saved");
	return status;
}

#define EDITS_BYTES 400 /* what one line of the log has of a change */

static void reloader_change(struct tgt_reloader *reloader, const struct tgt_change *change,
			    struct tgt_change_result *result)
{
	char error[TGT_ERROR_BYTES], what[EDITS_BYTES];

	memset(result, 0, sizeof(*result));
	snprintf(what, sizeof(what), "%s%.80s", change->kind == TGT_CHANGE_SAVE ? "save of the configuration" :
						change->kind == TGT_CHANGE_MOVE ? "move of volume " : "reload",
		 change->volume ? change->volume : "");
	if (change->kind == TGT_CHANGE_EDIT)
		tgt_edits_words(change->edits, change->edit_count, what, sizeof(what));
	if (change->kind != TGT_CHANGE_SHOW)
		tgt_log(TGT_LOG_INFO, "control: %s, as user %u (process %d) asked", what, (unsigned int)change->uid,
			(int)change->pid);
	switch (change->kind) {
	case TGT_CHANGE_RELOAD:
		result->status = change_reload(reloader, change->force, result, error);
		break;
	case TGT_CHANGE_EDIT:
		result->status = change_edit(reloader, change, result, error);
		break;
	case TGT_CHANGE_MOVE:
		result->status = change_move(reloader, change, result, error);
		break;
	case TGT_CHANGE_SAVE:
		result->status = change_save(reloader, change->force, error);
		break;
	case TGT_CHANGE_SHOW:
		result->status = tgt_settings_show(reloader->options.argc, reloader->options.argv, reloader->options.config,
						   &result->settings);
		tgt_error(error, 0, "out of memory");
		break;
	}
	if (result->status < 0)
		strcpy(result->words, error);
	result->unsaved = tgt_document_changed(&reloader->document);
}

/* Lock held. Waits for a request, or the time to try again; false: the end. */
static bool reloader_sleep(struct tgt_reloader *reloader, bool mend)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += MEND_S;
	while (!reloader->requested && !reloader->stopping && !reloader->queued && !reloader->lost) {
		if (!mend)
			pthread_cond_wait(&reloader->changed, &reloader->lock);
		else if (pthread_cond_timedwait(&reloader->changed, &reloader->lock, &until))
			break;
	}
	return !reloader->stopping;
}

/* Lock held, and released meanwhile. The first that waits. */
static void reloader_take(struct tgt_reloader *reloader)
{
	struct tgt_change change = reloader->queue[0];
	struct tgt_change_result result;

	memmove(&reloader->queue[0], &reloader->queue[1],
		--reloader->queued * sizeof(reloader->queue[0]));
	pthread_mutex_unlock(&reloader->lock);
	reloader_change(reloader, &change, &result);
	tgt_change_fini(&change);
	pthread_mutex_lock(&reloader->lock);
	/* Whoever asked for the former one has gone. */
	tgt_settings_free(reloader->results[++reloader->done % RESULTS_MAX].settings);
	reloader->results[reloader->done % RESULTS_MAX] = result;
	eventfd_write(reloader->changer.fd, 1);
}

/* Lock held, and released meanwhile. */
static void reloader_signalled(struct tgt_reloader *reloader)
{
	char error[TGT_ERROR_BYTES];

	pthread_mutex_unlock(&reloader->lock);
	change_reload(reloader, true, NULL, error);
	pthread_mutex_lock(&reloader->lock);
}

static void *reloader_thread(void *argument)
{
	struct tgt_reloader *reloader = argument;
	unsigned int left = tgt_unserved_count(reloader->options.unserved, TGT_UNSERVED_VOLUME);

	pthread_mutex_lock(&reloader->lock);
	while (reloader_sleep(reloader, left > 0)) {
		bool requested = reloader->requested, mended;
		unsigned int before = left;

		reloader->busy = requested || reloader->queued;
		reloader->requested = reloader->lost = false;
		/* With the lock held, so that no later request's interruption is undone. */
		tgt_path_interrupt(false);
		if (requested)
			reloader_signalled(reloader);
		else if (reloader->queued)
			reloader_take(reloader);
		atomic_store(&reloader->unsaved, tgt_document_changed(&reloader->document));
		pthread_mutex_unlock(&reloader->lock);
		left = tgt_reload_mend(&reloader->reload, reloader->options.config);
		mended = left < before;
		pthread_mutex_lock(&reloader->lock);
		reloader->busy = false;
		if ((requested || mended) && !reloader->requested) {
			reloader->ended = true;
			eventfd_write(reloader->fd, 1);
		}
	}
	reloader->over = true;
	pthread_cond_broadcast(&reloader->changed);
	pthread_mutex_unlock(&reloader->lock);
	return NULL;
}

/* Any thread, with the registry's lock held. */
static void reloader_lost(void *context)
{
	struct tgt_reloader *reloader = context;

	pthread_mutex_lock(&reloader->lock);
	reloader->lost = true;
	pthread_cond_signal(&reloader->changed);
	pthread_mutex_unlock(&reloader->lock);
}

/* -- changes; any thread ----------------------------------------------------------------------- */

static uint64_t changer_begin(void *context, struct tgt_change *change, char *error)
{
	struct tgt_reloader *reloader = context;
	uint64_t number = 0;

	pthread_mutex_lock(&reloader->lock);
	if (reloader->stopping) {
		tgt_error(error, -ESHUTDOWN, "the daemon stops");
	} else if (reloader->queued == CHANGES_MAX) {
		tgt_error(error, -EAGAIN, "%u other changes wait already", CHANGES_MAX);
	} else {
		number = ++reloader->numbers;
		reloader->queue[reloader->queued++] = *change;
		/* A reload ends what a former one waits for. */
		if (change->kind == TGT_CHANGE_RELOAD && reloader->busy)
			tgt_path_interrupt(true);
		pthread_cond_signal(&reloader->changed);
	}
	pthread_mutex_unlock(&reloader->lock);
	if (!number)
		tgt_change_fini(change);
	return number;
}

static bool changer_ended(void *context, uint64_t number, struct tgt_change_result *result)
{
	struct tgt_reloader *reloader = context;
	bool ended;

	pthread_mutex_lock(&reloader->lock);
	ended = number <= reloader->done;
	if (ended && reloader->done - number >= RESULTS_MAX) {
		memset(result, 0, sizeof(*result));
		result->status = tgt_error(result->words, -ESTALE, "it has ended too long ago");
	} else if (ended) {
		*result = reloader->results[number % RESULTS_MAX];
		reloader->results[number % RESULTS_MAX].settings = NULL;
	}
	pthread_mutex_unlock(&reloader->lock);
	return ended;
}

static bool changer_unsaved(void *context)
{
	struct tgt_reloader *reloader = context;

	return atomic_load(&reloader->unsaved);
}

static void changer_last_reload(void *context, struct tgt_last_reload *last)
{
	struct tgt_reloader *reloader = context;

	pthread_mutex_lock(&reloader->lock);
	*last = reloader->last_reload;
	pthread_mutex_unlock(&reloader->lock);
}

const struct tgt_changer *tgt_reloader_changer(const struct tgt_reloader *reloader)
{
	return &reloader->changer;
}

/* -- the control thread's ---------------------------------------------------------------------- */

static void reloader_free(struct tgt_reloader *reloader)
{
	for (unsigned int i = 0; i < reloader->queued; i++)
		tgt_change_fini(&reloader->queue[i]);
	for (unsigned int i = 0; i < RESULTS_MAX; i++)
		tgt_settings_free(reloader->results[i].settings);
	tgt_document_fini(&reloader->document);
	if (reloader->changer.fd >= 0)
		close(reloader->changer.fd);
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
		.unserved = options->unserved,
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
	reloader->changer = (struct tgt_changer){
		.begin = changer_begin,
		.ended = changer_ended,
		.unsaved = changer_unsaved,
		.last_reload = changer_last_reload,
		.context = reloader,
		.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	reloader->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = tgt_document_copy(&reloader->document, options->document, error) < 0 ? ENOMEM
	      : reloader->fd < 0 || reloader->changer.fd < 0 ? errno
	      : pthread_create(&reloader->thread, NULL, reloader_thread, reloader);
	if (err) {
		reloader_free(reloader);
		return tgt_error(error, -err, "reloader: %s", strerror(err));
	}
	pthread_setname_np(reloader->thread, "reloader");
	tgt_registry_on_lost(options->registry, reloader_lost, reloader);
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

bool tgt_reloader_stop(struct tgt_reloader *reloader, uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / NS_PER_S),
		.tv_nsec = (long)(deadline_ns % NS_PER_S),
	};
	bool over;
	int err = 0;

	if (!reloader || reloader->joined)
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
	reloader->joined = true;
	return true;
}

void tgt_reloader_destroy(struct tgt_reloader *reloader)
{
	if (!reloader)
		return;
	tgt_registry_on_lost(reloader->options.registry, NULL, NULL);
	reloader_free(reloader);
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "initiator/fio/engine_stats.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * Identifies one run of fio: a random number drawn when fio loads the engine, before it starts its
 * jobs, so that jobs that are processes inherit it.
 */
static uint64_t engine_run;

__attribute__((constructor)) static void engine_stats_draw_run(void)
{
	if (getrandom(&engine_run, sizeof(engine_run), GRND_NONBLOCK) != sizeof(engine_run))
		engine_run = (uint64_t)getpid();
	engine_run >>= 1; /* JSON's integers are signed */
}

void engine_stats_subtract(struct rblk_stats *later, const struct rblk_stats *earlier)
{
	later->commands -= earlier->commands;
	later->sends -= earlier->sends;
	later->replies -= earlier->replies;
	later->immediates -= earlier->immediates;
	later->target_writes -= earlier->target_writes;
	later->target_reads -= earlier->target_reads;
	later->doorbells -= earlier->doorbells;
	later->sleeps -= earlier->sleeps;
	later->busy_retries -= earlier->busy_retries;
	later->retries -= earlier->retries;
	later->digest_retries -= earlier->digest_retries;
	later->queued_us_total -= earlier->queued_us_total;
	later->stored_us_total -= earlier->stored_us_total;
}

static void engine_stats_sum(json_t *root, const char *key, uint64_t value)
{
	json_int_t before = json_integer_value(json_object_get(root, key));

	json_object_set_new(root, key, json_integer(before + (json_int_t)value));
}

static void engine_stats_merge(json_t *root, const struct engine_stats *stats)
{
	const struct rblk_stats *s = &stats->session;

	engine_stats_sum(root, "jobs", 1);
	engine_stats_sum(root, "ios", stats->ios);
	engine_stats_sum(root, "messages",
			 s->sends + s->replies + s->immediates + s->target_writes +
				 s->target_reads);
	engine_stats_sum(root, "sends", s->sends);
	engine_stats_sum(root, "replies", s->replies);
	engine_stats_sum(root, "immediates", s->immediates);
	engine_stats_sum(root, "writes", s->target_writes);
	engine_stats_sum(root, "reads", s->target_reads);
	engine_stats_sum(root, "doorbells", s->doorbells);
	engine_stats_sum(root, "sleeps", s->sleeps);
	engine_stats_sum(root, "busy_retries", s->busy_retries);
	engine_stats_sum(root, "retries", s->retries);
	engine_stats_sum(root, "digest_retries", s->digest_retries);
	engine_stats_sum(root, "queued_us_total", s->queued_us_total);
	engine_stats_sum(root, "stored_us_total", s->stored_us_total);
	engine_stats_sum(root, "latency_us_total", stats->latency_us_total);
}

/* The object that this run has written so far, or an empty one: never that of an earlier run. */
static json_t *engine_stats_load(FILE *file)
{
	json_t *root = json_loadf(file, 0, NULL);
	json_int_t run = json_integer_value(json_object_get(root, "run"));

	if (root && run == (json_int_t)engine_run)
		return root;
	json_decref(root);
	root = json_object();
	if (root)
		json_object_set_new(root, "run", json_integer((json_int_t)engine_run));
	return root;
}

static int engine_stats_store(FILE *file, const json_t *root)
{
	rewind(file);
	if (ftruncate(fileno(file), 0))
		return -errno;
	if (json_dumpf(root, file, JSON_INDENT(2)) || fputc('\n', file) == EOF || fflush(file))
		return errno ? -errno : -EIO;
	return 0;
}

int engine_stats_add(const char *path, const struct engine_stats *stats, char *error)
{
	json_t *root = NULL;
	FILE *file = NULL;
	int result = 0;
	int fd;

	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) {
		result = -errno;
		goto out;
	}
	/* A file description of its own for each job, so that the lock holds between threads too.
	 */
	file = fdopen(fd, "r+");
	if (!file) {
		result = -errno;
		close(fd);
		goto out;
	}
	if (flock(fd, LOCK_EX)) {
		result = -errno;
		goto out;
	}
	root = engine_stats_load(file);
	if (!root) {
		result = -ENOMEM;
		goto out;
	}
	engine_stats_merge(root, stats);
	result = engine_stats_store(file, root);
out:
	json_decref(root);
	if (file && fclose(file) && !result)
		result = -errno;
	if (result)
		snprintf(error, RBLK_ERROR_BYTES, "%.150s: %s", path, strerror(-result));
	return result;
}

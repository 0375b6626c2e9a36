/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rados client that all images of this process share. A client of its own for each image would be sixteen threads,
 * a connection to each OSD and, when the process dies, a commit of the monitors, each time.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

/* librados has 14 threads, and 3 more with its first image (16.2); a few to spare. */
#define THREADS 32u
/* So long for a first answer of a monitor (Ceph's own default is five minutes). */
#define CONNECT_S "30"
/* A standby opens its images again and again: it need not connect each time. */
#define LINGER_NS (60 * 1000000000ull)
#define USER "rblkd"

struct rbd_client {
	struct rbd_task linger; /* first: ends it if nobody has it by then */
	rados_t cluster;
	char name[RBD_CLIENT_BYTES];
	unsigned int users; /* under `lock` */
	_Atomic bool fenced;
};

/* Held while a client is made or ended: whoever needs one waits for that in any case. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rbd_client *current; /* under `lock` */

rados_t tgt_rbd_client_cluster(const struct rbd_client *client)
{
	return client->cluster;
}

const char *tgt_rbd_client_name(const struct rbd_client *client)
{
	return client->name;
}

/*
 * Its commands must not be answered with errors: another gateway serves the images now. When the process ends, so do
 * its connections; initiators take what was under way for lost, and send it again there. The service starts it anew.
 */
void tgt_rbd_client_fenced(struct rbd_client *client)
{
	if (!atomic_exchange(&client->fenced, true)) {
		tgt_rbd_host->log(
			TGT_LOG_ERROR,
			"rbd: this process was shut out of the cluster: another gateway has taken it for dead, or "
			"somebody has blocklisted it: it ends, to be started again");
		tgt_rbd_host->end();
	}
	for (;;)
		pause(); /* another thread ends it */
}

/* -- threads ----------------------------------------------------------------------------------- */

static void *thread_wait(void *gate)
{
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

/*
 * librados ends the process if it cannot make a thread. Limits are many (the user's, the cgroup's and those above it,
 * the machine's), so as many are made as it will need, all at the same time.
 */
static int threads_check(char *error)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_t threads[THREADS];
	unsigned int made = 0;
	int err = 0;

	pthread_mutex_lock(&gate);
	while (made < THREADS && !err) {
		err = -pthread_create(&threads[made], NULL, thread_wait, &gate);
		made += !err;
	}
	pthread_mutex_unlock(&gate);
	for (unsigned int i = 0; i < made; i++)
		pthread_join(threads[i], NULL);
	if (!err)
		return 0;
	return tgt_rbd_host->error(
		error, err,
		"rbd: librados needs %u threads and could have only %u: %s (raise the limit: ulimit -u, or "
		"TasksMax= in the unit)",
		THREADS, made, strerror(-err));
}

/* -- the client -------------------------------------------------------------------------------- */

/* The user that CEPH_ARGS names as Ceph's own programs understand it, or rblkd's own. librados itself does not look. */
static void user_find(char user[RBD_NAME_BYTES])
{
	const char *text = getenv("CEPH_ARGS");
	char args[1024], *word, *rest = args, *value;
	bool next = false;

	snprintf(user, RBD_NAME_BYTES, USER);
	snprintf(args, sizeof(args), "%s", text ? text : "");
	while ((word = strtok_r(rest, " \t", &rest))) {
		value = strchr(word, '=');
		if (!next && strncmp(word, "--id", 4) && strncmp(word, "--name", 6) && strcmp(word, "-n"))
			continue;
		if (!next && !value) {
			next = true;
			continue;
		}
		value = next ? word : value + 1;
		if (!strncmp(value, "client.", 7))
			value += 7;
		snprintf(user, RBD_NAME_BYTES, "%s", value);
		next = false;
	}
}

/* Before it connects. An image's metadata may overrule them (image.c). */
static int client_configure(rados_t cluster)
{
	static const char *const settings[][2] = {
		{"rbd_cache", "false"},
		/*
		 * Copied by librbd, although the pool's memory stays as it is. Without, a completion waits until none
		 * has the data any more, and a write that fails early (another client has locked the image) keeps a
		 * reference until it has completed: never (seen with 16.2).
		 */
		{"rbd_disable_zero_copy_writes", "true"},
		{"client_mount_timeout", CONNECT_S},
		{"log_to_stderr", "false"},
	};
	int err = rados_conf_read_file(cluster, NULL);

	if (!err)
		err = rados_conf_parse_env(cluster, NULL);
	for (unsigned int i = 0; i < sizeof(settings) / sizeof(settings[0]) && !err; i++)
		err = rados_conf_set(cluster, settings[i][0], settings[i][1]);
	return err;
}

static void client_set_name(struct rbd_client *client)
{
	char host[64] = "?", text[UUID_STR_LEN];
	uuid_t uuid;

	uuid_generate_random(uuid);
	uuid_unparse_lower(uuid, text);
	if (gethostname(host, sizeof(host) - 1))
		strcpy(host, "?");
	host[sizeof(host) - 1] = 0;
	snprintf(client->name, sizeof(client->name), "%s@%s", text, host);
}

/* Lock held; nobody has it. */
static void client_end(struct rbd_client *client)
{
	current = NULL;
	rados_shutdown(client->cluster);
	free(client);
}

/*
 * The keeper's thread. Queued again: it was used while this waited for the lock, and lingers anew. (It is queued
 * with the lock held, and taken from the queue by this thread alone.)
 */
static void client_linger(struct rbd_task *task)
{
	struct rbd_client *client = (struct rbd_client *)task; /* its first member */

	pthread_mutex_lock(&lock);
	if (!client->users && !task->queued)
		client_end(client);
	pthread_mutex_unlock(&lock);
}

static int client_make(struct rbd_client **out, char *error)
{
	struct rbd_client *client;
	char user[RBD_NAME_BYTES];
	const char *failed = "cannot be made";
	int err = threads_check(error);

	if (err)
		return err;
	user_find(user);
	client = calloc(1, sizeof(*client));
	if (!client)
		return tgt_rbd_host->error(error, -ENOMEM, "rbd: out of memory");
	client->linger.run = client_linger;
	client_set_name(client);
	err = rados_create(&client->cluster, user);
	if (err)
		goto err_free;
	err = client_configure(client->cluster);
	failed = "cannot read Ceph's configuration (CEPH_CONF, or /etc/ceph/ceph.conf)";
	if (err)
		goto err_shutdown;
	err = rados_connect(client->cluster);
	failed = "cannot connect to the cluster (are the monitors up, and is there a keyring for it that rblkd may "
		 "read?)";
	if (err)
		goto err_shutdown;
	*out = client;
	return 0;

err_shutdown:
	rados_shutdown(client->cluster);
err_free:
	free(client);
	return tgt_rbd_host->error(error, err, "rbd: client.%s %s: %s", user, failed, strerror(-err));
}

int tgt_rbd_client_get(struct rbd_client **client, char *error)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!current)
		err = client_make(&current, error);
	if (!err) {
		current->users++;
		*client = current;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void tgt_rbd_client_put(struct rbd_client *client)
{
	pthread_mutex_lock(&lock);
	if (!--client->users)
		tgt_rbd_keeper_later(&client->linger, LINGER_NS);
	pthread_mutex_unlock(&lock);
}

bool tgt_rbd_client_is_there(void)
{
	bool there;

	/* One is made or ended, which may last for ever: the end of the process does not wait for that. */
	if (pthread_mutex_trylock(&lock))
		return true;
	there = current != NULL;
	pthread_mutex_unlock(&lock);
	return there;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rados client that all images of this process share. A client for each image would cost, each time, sixteen
 * threads, a connection to each OSD and, when the process dies, a commit of the monitors.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "target/base/error.h"

/* librados has 14 threads, and 3 more with its first image (16.2); a few to spare. */
#define THREADS 32u
/* The limit for a monitor's first answer (Ceph's default is five minutes). */
#define CONNECT_S "30"
/* How long an unused client is kept: a standby opens its images again and again, and need not connect each time. */
#define LINGER_NS (60 * 1000000000ull)
#define USER "rblkd"
/* After a client that lasted less than PAUSE_MAX_NS, or could not be made, the pause before the next one doubles. */
#define PAUSE_NS 1000000000ull
#define PAUSE_MAX_NS (30 * 1000000000ull)
/* No client is made while more former ones have not ended: that may take for ever, and each has its threads. */
#define FORMERS_MAX 3u

struct rbd_client {
	struct rbd_task linger; /* first: ends the client if it has no users by then */
	rados_t cluster;
	char name[RBD_CLIENT_BYTES];
	char *address;		/* librados' */
	struct rbd_user *stores; /* under `users_lock` */
	_Atomic bool fenced;	/* changes under `users_lock` */
	_Atomic bool writes;	/* it may have writes that have yet to land; a former client is shut out for that */
	/* Under `lock`: */
	unsigned int users;
	bool over; /* it has ended */
	bool probed; /* a thread asks the monitors */
	struct rbd_client *next; /* in `formers` */
};

/* Held while a client is made or ended: whoever needs a client waits for that in any case. Taken before users_lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rbd_client *current;
/*
 * Clients that were given up. Each is freed once it has ended and, if it has written, its successor has shut it out for
 * as long as gateways are. At most FORMERS_MAX + 1 have not ended. One may have ended and not be shut out: it has no
 * successor before that.
 */
static struct rbd_client *formers;
static struct {
	uint64_t made_ns;	     /* when the last successor of a former client was made; 0: never */
	uint64_t pause_ns, until_ns; /* the next one is made after this pause, not before that time */
	char error[TGT_ERROR_BYTES];
} again;
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER; /* held for moments */

rados_t tgt_rbd_client_cluster(const struct rbd_client *client)
{
	return client->cluster;
}

const char *tgt_rbd_client_name(const struct rbd_client *client)
{
	return client->name;
}

/* -- its users ---------------------------------------------------------------------------------- */

void tgt_rbd_client_fenced(struct rbd_client *client, const char *why)
{
	if (!why)
		why = "another gateway has taken this one for dead, or somebody has blocklisted it";
	pthread_mutex_lock(&users_lock);
	if (!atomic_exchange(&client->fenced, true)) {
		tgt_rbd_host->log(TGT_LOG_ERROR,
				  "rbd: this process was shut out of the cluster: %s: it comes back as another client, "
				  "and opens its images again",
				  why);
		for (struct rbd_user *user = client->stores; user; user = user->next)
			tgt_rbd_host->lost(user->store, why);
	}
	pthread_mutex_unlock(&users_lock);
}

bool tgt_rbd_client_is_fenced(const struct rbd_client *client)
{
	return atomic_load_explicit(&client->fenced, memory_order_relaxed);
}

int tgt_rbd_client_join(struct rbd_client *client, struct rbd_user *user)
{
	bool fenced;

	pthread_mutex_lock(&users_lock);
	fenced = atomic_load(&client->fenced);
	if (!fenced) {
		user->next = client->stores;
		client->stores = user;
	}
	pthread_mutex_unlock(&users_lock);
	return fenced ? -ESHUTDOWN : 0;
}

void tgt_rbd_client_leave(struct rbd_client *client, struct rbd_user *user)
{
	struct rbd_user **place = &client->stores;

	pthread_mutex_lock(&users_lock);
	while (*place != user)
		place = &(*place)->next;
	*place = user->next;
	pthread_mutex_unlock(&users_lock);
}

/* -- threads ----------------------------------------------------------------------------------- */

static void *thread_wait(void *gate)
{
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

/*
 * librados aborts the process if it cannot make a thread. There are many limits (the user's, those of the cgroup and
 * the ones above it, the machine's), so this makes as many threads as librados will need, all at the same time.
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

static char process[UUID_STR_LEN]; /* its part of the names of all its clients; under `lock` */

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
		 * librbd copies the data of each write, although the pool's memory would not change. Without copies a
		 * completion waits until nothing refers to the data, and a write that fails early (another client has
		 * locked the image) keeps its own reference until it has completed, which is never (seen with 16.2).
		 */
		{"rbd_disable_zero_copy_writes", "true"},
		{"client_mount_timeout", CONNECT_S},
		/*
		 * librados has no limits of its own: rblkd bounds what is under way. At a limit the next call would
		 * wait in librados, also a reactor's that answers another gateway, which would take this one for dead.
		 */
		{"objecter_inflight_ops", "0"},
		{"objecter_inflight_op_bytes", "0"},
		/* An OSD may carry out later what librados has given up, after what another gateway writes (F5). */
		{"rados_osd_op_timeout", "0"},
		{"log_to_stderr", "false"},
	};
	int err = rados_conf_read_file(cluster, NULL);

	if (!err)
		err = rados_conf_parse_env(cluster, NULL);
	for (unsigned int i = 0; i < sizeof(settings) / sizeof(settings[0]) && !err; i++)
		err = rados_conf_set(cluster, settings[i][0], settings[i][1]);
	return err;
}

static void client_free(struct rbd_client *client)
{
	free(client->address);
	free(client);
}

/* Lock held: `process`, and a number. */
static void client_set_name(struct rbd_client *client)
{
	static unsigned int number;
	char host[64] = "?";
	uuid_t uuid;

	if (!process[0]) {
		uuid_generate_random(uuid);
		uuid_unparse_lower(uuid, process);
	}
	if (gethostname(host, sizeof(host) - 1))
		strcpy(host, "?");
	host[sizeof(host) - 1] = 0;
	snprintf(client->name, sizeof(client->name), "%s.%u@%s", process, ++number, host);
}

bool tgt_rbd_client_was(const struct rbd_client *client, const char *name)
{
	return !strncmp(name, client->name, UUID_STR_LEN - 1) && strcmp(name, client->name);
}

void tgt_rbd_client_writes(struct rbd_client *client)
{
	atomic_store(&client->writes, true);
}

/* Lock held. Ends the present client, or one that has just been made; it has no users. */
static void client_end(struct rbd_client *client)
{
	current = NULL;
	rados_shutdown(client->cluster);
	client_free(client);
}

/* -- former clients ----------------------------------------------------------------------------- */

/* Lock held. */
static void formers_free(void)
{
	struct rbd_client **place = &formers, *client;

	while ((client = *place)) {
		if (!client->over || atomic_load(&client->writes)) {
			place = &client->next;
			continue;
		}
		*place = client->next;
		client_free(client);
	}
}

/* Lock held. Doubles the pause before the next client. */
static void again_later(uint64_t least_ns)
{
	again.pause_ns = again.pause_ns ? 2 * again.pause_ns : least_ns;
	if (again.pause_ns > PAUSE_MAX_NS)
		again.pause_ns = PAUSE_MAX_NS;
	again.until_ns = tgt_rbd_now_ns() + again.pause_ns;
}

/* Lock held. The present client was given up: it becomes a former one, and ends when its last user has put it. */
static void client_retire(void)
{
	current->next = formers;
	formers = current;
	current = NULL;
	if (tgt_rbd_now_ns() - again.made_ns >= PAUSE_MAX_NS)
		again.pause_ns = 0;
	else
		again_later(PAUSE_NS);
	snprintf(again.error, sizeof(again.error),
		 "rbd: this process was shut out of the cluster once more: the next client waits for a while");
}

/* A thread's: librados may wait for ever for what a former client has under way. */
static void *former_end(void *arg)
{
	struct rbd_client *client = arg;

	rados_shutdown(client->cluster);
	pthread_mutex_lock(&lock);
	client->over = true;
	formers_free();
	pthread_mutex_unlock(&lock);
	return NULL;
}

void tgt_rbd_client_unlocked(struct rbd_client *client)
{
	char error[TGT_ERROR_BYTES];

	tgt_rbd_client_fenced(client, "its lock was broken by hand");
	if (tgt_rbd_shoot(client->cluster, client->name, client->address, "has lost its lock", error))
		tgt_rbd_host->log(TGT_LOG_WARNING, "%s; its successor tries again", error);
	else
		atomic_store(&client->writes, false);
}

/* Lock held; the client has no users. */
static void former_begin_end(struct rbd_client *client)
{
	if (client == current)
		client_retire();
	if (tgt_rbd_thread(former_end, client))
		tgt_rbd_keeper_later(&client->linger, PAUSE_NS);
}

/*
 * Lock held. Former clients may have been shut out for a short time only, or not at all. What their connections still
 * deliver must not land on what the next client writes.
 */
static int formers_shoot(rados_t cluster, char *error)
{
	int err = 0;

	for (struct rbd_client *client = formers; client && !err; client = client->next) {
		if (!atomic_load(&client->writes))
			continue;
		err = tgt_rbd_shoot(cluster, client->name, client->address, "is a former client of this process",
				    error);
		if (!err)
			atomic_store(&client->writes, false);
	}
	formers_free();
	return err;
}

/* -- making and ending one ---------------------------------------------------------------------- */

/*
 * If the task is queued again, the client was used while this waited for the lock, and lingers anew. (It is queued with
 * the lock held, and not taken from the queue while this runs.)
 */
static void client_linger(struct rbd_task *task)
{
	struct rbd_client *client = (struct rbd_client *)task; /* its first member */

	pthread_mutex_lock(&lock);
	if (!client->users && !task->queued) {
		if (atomic_load(&client->fenced))
			former_begin_end(client);
		else
			client_end(client);
	}
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
	tgt_rbd_reach_begin();
	err = rados_connect(client->cluster);
	tgt_rbd_reach_end(err != -ETIMEDOUT);
	failed = "cannot connect to the cluster (are the monitors up, and is there a keyring for it that rblkd may "
		 "read?)";
	if (err)
		goto err_shutdown;
	err = rados_getaddrs(client->cluster, &client->address);
	failed = "has no address";
	if (err)
		goto err_shutdown;
	*out = client;
	return 0;

err_shutdown:
	rados_shutdown(client->cluster);
err_free:
	client_free(client);
	return tgt_rbd_host->error(error, err, "rbd: client.%s %s: %s", user, failed, strerror(-err));
}

/* Lock held. Makes the successor of a client that was given up or could not be made. */
static int client_make_again(char *error)
{
	struct rbd_client *client;
	unsigned int count = 0;
	int err;

	for (client = formers; client; client = client->next)
		count += !client->over;
	if (count > FORMERS_MAX)
		return tgt_rbd_host->error(error, -EAGAIN,
					   "rbd: %u former clients of this process have not ended: start rblkd anew",
					   count);
	if (tgt_rbd_now_ns() < again.until_ns)
		return tgt_rbd_host->error(error, -EAGAIN, "%s", again.error);
	err = client_make(&client, again.error);
	if (!err) {
		err = formers_shoot(client->cluster, again.error);
		if (!err) {
			current = client;
			again.made_ns = tgt_rbd_now_ns();
			return 0;
		}
		client_end(client);
	}
	again_later(PAUSE_NS);
	return tgt_rbd_host->error(error, err, "%s", again.error);
}

int tgt_rbd_client_get(struct rbd_client **client, char *error)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (current && atomic_load(&current->fenced))
		client_retire();
	if (!current)
		err = formers || again.pause_ns ? client_make_again(error) : client_make(&current, error);
	if (!err) {
		current->users++;
		*client = current;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/* Lock held. */
static void client_put(struct rbd_client *client)
{
	if (!--client->users)
		tgt_rbd_keeper_later(&client->linger, atomic_load(&client->fenced) ? 0 : LINGER_NS);
}

void tgt_rbd_client_put(struct rbd_client *client)
{
	pthread_mutex_lock(&lock);
	client_put(client);
	pthread_mutex_unlock(&lock);
}

/* -- its map ------------------------------------------------------------------------------------ */

int tgt_rbd_client_map(struct rbd_client *client, char *error)
{
	int err;

	tgt_rbd_reach_begin();
	err = rados_wait_for_latest_osdmap(client->cluster);
	/* The call also fails each time that librados looks for another monitor. */
	tgt_rbd_reach_end(!err || err == -ESHUTDOWN);
	if (err)
		tgt_rbd_host->error(error, err, "rbd: no map of the cluster: %s", strerror(-err));
	if (err == -ESHUTDOWN)
		tgt_rbd_client_fenced(client, NULL);
	return err;
}

bool tgt_rbd_client_pool_gone(rados_ioctx_t io, struct tgt_store *store)
{
	char name[RBD_NAME_BYTES];

	if (rados_ioctx_get_pool_name(io, name, sizeof(name)) != -ENOENT)
		return false;
	tgt_rbd_host->lost(store, "its pool was deleted");
	return true;
}

static void *probe_thread(void *arg)
{
	struct rbd_client *client = arg;
	char error[TGT_ERROR_BYTES];

	tgt_rbd_client_map(client, error);
	pthread_mutex_lock(&lock); /* waits until tgt_rbd_client_probe() has counted this thread */
	client->probed = false;
	client_put(client);
	pthread_mutex_unlock(&lock);
	return NULL;
}

void tgt_rbd_client_probe(void)
{
	/* A thread that makes or ends a client holds the lock for long, and asks the monitors itself. */
	if (pthread_mutex_trylock(&lock))
		return;
	if (current && !current->probed && !tgt_rbd_thread(probe_thread, current)) {
		current->probed = true;
		current->users++;
	}
	pthread_mutex_unlock(&lock);
}

bool tgt_rbd_client_is_there(void)
{
	bool there;

	/* A client is made or ended, perhaps for ever: the end of the process does not wait for that. */
	if (pthread_mutex_trylock(&lock))
		return true;
	there = current || formers;
	pthread_mutex_unlock(&lock);
	return there;
}

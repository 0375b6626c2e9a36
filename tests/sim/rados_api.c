/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * librados as the module of target/rbd calls it, on the cluster of rados.c. A call of a process that is dead has no
 * effect, and comes back at once; what it had sent goes on. Linked instead of the library.
 */
#include "tests/sim/rados_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/actor.h"
#include "tests/sim/fiber.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* Of calls of a dead process. */
#define DEAD (-ENOTCONN)

static uint64_t last_watch;

bool rados_process_is_dead(void)
{
	return sim_rados_process_is_dead(sim_actor_self()->machine);
}

/* -- callbacks ---------------------------------------------------------------------------------- */

static void *finisher_run(void *arg)
{
	struct rados_client *client = arg;
	struct rados_call *call;

	for (;;) {
		while ((call = TAILQ_FIRST(&client->calls))) {
			TAILQ_REMOVE(&client->calls, call, link);
			client->calling = true;
			call->run(call);
			client->calling = false;
		}
		sim_rados_thread_wait();
	}
	return NULL;
}

int rados_watch_flush(rados_t cluster)
{
	const struct rados_client *client = cluster;

	while (!rados_process_is_dead() && (client->calling || !TAILQ_EMPTY(&client->calls)))
		sim_fiber_sleep(20 * SIM_US);
	return 0;
}

/* -- calls that wait ----------------------------------------------------------------------------- */

/* False: its process has died meanwhile, and `op` is not its own any more. */
static bool op_wait(struct rados_op *op)
{
	struct rados_client *client = op->client;

	op->fiber = sim_fiber_self();
	if (!op->fiber)
		sim_fail("a call of librados waits where nothing may wait");
	rados_op_send(op);
	while (!client->dead && !op->done)
		sim_fiber_wait(UINT64_MAX);
	return !client->dead;
}

/* Of a call that has nothing but a result. */
int rados_op_call(struct rados_op *op)
{
	int result;

	if (!op_wait(op))
		return DEAD;
	result = op->result;
	rados_op_free(op);
	return result;
}

/* NULL: the process is dead. */
static struct rados_op *op_begin(rados_ioctx_t io, unsigned int where, int (*run)(struct rados_op *op))
{
	return rados_process_is_dead() ? NULL : rados_op_create(io, where, run);
}

static void text_copy(char *to, size_t bytes, const char *from)
{
	if ((size_t)snprintf(to, bytes, "%s", from) >= bytes)
		sim_fail("librados is given a long name");
}

/* -- clients -------------------------------------------------------------------------------------- */

int rados_create(rados_t *cluster, const char *const id)
{
	(void)id;
	*cluster = rados_client_create(sim_actor_self()->machine);
	return 0;
}

int rados_conf_read_file(rados_t cluster, const char *path)
{
	(void)cluster;
	(void)path;
	return 0;
}

int rados_conf_parse_env(rados_t cluster, const char *var)
{
	(void)cluster;
	(void)var;
	return 0;
}

int rados_conf_set(rados_t cluster, const char *option, const char *value)
{
	(void)cluster;
	(void)option;
	(void)value;
	return 0;
}

/* What the monitor says of the newest map. */
static int map_get(struct rados_client *client)
{
	struct rados_op *op = op_begin(client, RADOS_MONITOR, rados_do_map);

	if (!op || !op_wait(op))
		return DEAD;
	if (op->id > client->map)
		client->map = op->id;
	rados_op_free(op);
	return 0;
}

int rados_connect(rados_t cluster)
{
	struct rados_client *client = cluster;
	int err = map_get(client);

	if (!err)
		client->finisher = sim_rados_thread_start("finish", finisher_run, client);
	return err;
}

void rados_shutdown(rados_t cluster)
{
	struct rados_client *client = cluster;

	if (!client->dead)
		rados_client_drop(client);
}

int rados_wait_for_latest_osdmap(rados_t cluster)
{
	sim_rados_counts.maps++;
	return map_get(cluster);
}

uint64_t rados_get_instance_id(rados_t cluster)
{
	return ((const struct rados_client *)cluster)->nonce;
}

int rados_getaddrs(rados_t cluster, char **addresses)
{
	const struct rados_client *client = cluster;

	*addresses = sim_rbd_calloc(1, 64);
	snprintf(*addresses, 64, "10.1.0.%u:0/%u", client->machine, client->nonce);
	return 0;
}

int rados_cluster_fsid(rados_t cluster, char *text, size_t bytes)
{
	(void)cluster;
	return snprintf(text, bytes, "5f3cbd3e-0000-0000-0000-000000000001");
}

int rados_ioctx_create(rados_t cluster, const char *pool, rados_ioctx_t *io)
{
	(void)pool;
	*io = cluster;
	return 0;
}

void rados_ioctx_destroy(rados_ioctx_t io)
{
	(void)io;
}

void rados_ioctx_set_namespace(rados_ioctx_t io, const char *space)
{
	(void)io;
	(void)space;
}

int64_t rados_ioctx_get_id(rados_ioctx_t io)
{
	(void)io;
	return 1;
}

int rados_blocklist_add(rados_t cluster, char *address, uint32_t seconds)
{
	struct rados_client *client = cluster;
	struct rados_op *op = op_begin(client, RADOS_MONITOR, rados_do_blocklist);
	unsigned int machine;

	sim_rados_counts.blocked++;
	if (!op)
		return DEAD;
	if (sscanf(address, "10.1.0.%u:0/%" SCNu32, &machine, &op->number) != 2)
		sim_fail("the blocklist is to have %s", address);
	op->bytes = seconds;
	if (!op_wait(op))
		return DEAD;
	if (op->id > client->map)
		client->map = op->id;
	rados_op_free(op);
	return 0;
}

/* -- objects --------------------------------------------------------------------------------------- */

/* What is asked of one operation. */
struct write_op {
	const char *expected, *full; /* the caller's; NULL: nothing */
	size_t expected_bytes, full_bytes;
};

rados_write_op_t rados_create_write_op(void)
{
	return sim_rbd_calloc(1, sizeof(struct write_op));
}

void rados_release_write_op(rados_write_op_t op)
{
	sim_rbd_free(op);
}

void rados_write_op_create(rados_write_op_t op, int exclusive, const char *category)
{
	(void)op;
	(void)exclusive;
	(void)category;
}

void rados_write_op_cmpext(rados_write_op_t op, const char *expected, size_t bytes, uint64_t offset, int *result)
{
	struct write_op *write = op;

	if (offset)
		sim_fail("an object is compared beyond its beginning");
	write->expected = expected;
	write->expected_bytes = bytes;
	*result = 0;
}

void rados_write_op_write_full(rados_write_op_t op, const char *data, size_t bytes)
{
	struct write_op *write = op;

	write->full = data;
	write->full_bytes = bytes;
}

int rados_write_op_operate(rados_write_op_t given, rados_ioctx_t io, const char *object, time_t *mtime, int flags)
{
	const struct write_op *write = given;
	struct rados_op *op = op_begin(io, 0, write->full ? rados_do_replace : rados_do_nothing);

	(void)object;
	(void)mtime;
	(void)flags;
	if (!op)
		return DEAD;
	if (write->expected_bytes > sizeof(op->payload) || write->full_bytes > sizeof(rados_cluster.note))
		sim_fail("an object has no room");
	op->data = malloc(write->full_bytes + 1);
	if (!op->data)
		sim_fail("out of memory");
	op->offset = write->expected_bytes;
	op->bytes = write->full_bytes;
	if (write->full) {
		memcpy(op->payload, write->expected, write->expected_bytes);
		memcpy(op->data, write->full, write->full_bytes);
	}
	return rados_op_call(op);
}

int rados_read(rados_ioctx_t io, const char *object, char *data, size_t bytes, uint64_t offset)
{
	struct rados_op *op = op_begin(io, 0, rados_do_recall);
	int result;

	(void)object;
	(void)offset;
	if (!op)
		return DEAD;
	op->data = malloc(sizeof(rados_cluster.note));
	if (!op->data)
		sim_fail("out of memory");
	if (!op_wait(op))
		return DEAD;
	result = op->result > (int)bytes ? (int)bytes : op->result;
	if (result > 0)
		memcpy(data, op->data, (size_t)result);
	rados_op_free(op);
	return result;
}

static int lock_take(rados_ioctx_t io, const char *cookie, const char *tag, bool shared)
{
	struct rados_op *op = op_begin(io, 0, rados_do_lock);

	if (!op)
		return DEAD;
	text_copy(op->name, sizeof(op->name), cookie);
	text_copy(op->tag, sizeof(op->tag), tag);
	op->shared = shared;
	return rados_op_call(op);
}

int rados_lock_exclusive(rados_ioctx_t io, const char *object, const char *name, const char *cookie, const char *desc,
			 struct timeval *duration, uint8_t flags)
{
	(void)object;
	(void)name;
	(void)desc;
	(void)duration;
	(void)flags;
	return lock_take(io, cookie, "", false);
}

int rados_lock_shared(rados_ioctx_t io, const char *object, const char *name, const char *cookie, const char *tag,
		      const char *desc, struct timeval *duration, uint8_t flags)
{
	(void)object;
	(void)name;
	(void)desc;
	(void)duration;
	(void)flags;
	return lock_take(io, cookie, tag, true);
}

static int lock_drop(rados_ioctx_t io, uint32_t number, const char *cookie)
{
	struct rados_op *op = op_begin(io, 0, rados_do_unlock);

	if (!op)
		return DEAD;
	text_copy(op->name, sizeof(op->name), cookie);
	op->number = number;
	return rados_op_call(op);
}

int rados_unlock(rados_ioctx_t io, const char *object, const char *name, const char *cookie)
{
	(void)object;
	(void)name;
	return lock_drop(io, 0, cookie);
}

int rados_break_lock(rados_ioctx_t io, const char *object, const char *name, const char *client, const char *cookie)
{
	uint32_t number;

	(void)object;
	(void)name;
	if (sscanf(client, "client.%" SCNu32, &number) != 1)
		sim_fail("a lock of %s is to be broken", client);
	return lock_drop(io, number, cookie);
}

struct snapshot {
	unsigned int count;
	struct rados_locker of[RADOS_LOCKERS_MAX];
};

static int do_list(struct rados_op *op)
{
	struct snapshot *snapshot = op->out;
	const struct rados_locker *lockers = rados_lockers(&snapshot->count);

	memcpy(snapshot->of, lockers, snapshot->count * sizeof(*lockers));
	return 0;
}

/* Behind the others; false: there is no room. */
static bool text_add(char *list, size_t *used, size_t room, const char *text)
{
	size_t bytes = strlen(text) + 1;

	if (*used + bytes > room)
		return false;
	memcpy(list + *used, text, bytes);
	*used += bytes;
	return true;
}

ssize_t rados_list_lockers(rados_ioctx_t io, const char *object, const char *name, int *exclusive, char *tag,
			   size_t *tag_bytes, char *clients, size_t *clients_bytes, char *cookies,
			   size_t *cookies_bytes, char *addresses, size_t *addresses_bytes)
{
	size_t room[3] = {*clients_bytes, *cookies_bytes, *addresses_bytes};
	struct rados_op *op = op_begin(io, 0, do_list);
	struct snapshot *snapshot;
	char text[64];
	ssize_t count;

	(void)object;
	(void)name;
	*clients_bytes = *cookies_bytes = *addresses_bytes = 0;
	*exclusive = 0;
	*tag = 0;
	*tag_bytes = 0;
	if (!op)
		return DEAD;
	snapshot = op->out = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		sim_fail("out of memory");
	if (!op_wait(op))
		return DEAD;
	count = op->result < 0 ? op->result : (ssize_t)snapshot->count;
	for (ssize_t i = 0; i < count; i++) {
		const struct rados_locker *locker = &snapshot->of[i];

		*exclusive |= !locker->shared;
		snprintf(text, sizeof(text), "client.%u", locker->nonce);
		if (!text_add(clients, clients_bytes, room[0], text) ||
		    !text_add(cookies, cookies_bytes, room[1], locker->name))
			sim_fail("the lock's list has no room");
		snprintf(text, sizeof(text), "10.1.0.%u:0/%u", locker->machine, locker->nonce);
		if (!text_add(addresses, addresses_bytes, room[2], text))
			sim_fail("the lock's list has no room");
	}
	rados_op_free(op);
	return count;
}

static void watch_note(struct rados_client *client, uint64_t from, uint64_t to)
{
	unsigned int i = 0;

	while (i < RADOS_WATCHES_MAX && client->watched[i] != from)
		i++;
	if (i == RADOS_WATCHES_MAX && to)
		sim_fail("client %u has too many watches", client->nonce);
	if (i < RADOS_WATCHES_MAX)
		client->watched[i] = to;
}

int rados_watch3(rados_ioctx_t io, const char *object, uint64_t *cookie, rados_watchcb2_t asked,
		 rados_watcherrcb_t lost, uint32_t timeout, void *arg)
{
	struct rados_op *op = op_begin(io, 0, rados_do_watch);
	struct rados_watch *watch;
	int err;

	(void)object;
	(void)timeout;
	if (!op)
		return DEAD;
	watch = op->out = calloc(1, sizeof(*watch));
	if (!watch)
		sim_fail("out of memory");
	*watch = (struct rados_watch){.id = ++last_watch, .asked = asked, .lost = lost, .arg = arg};
	*cookie = watch->id;
	watch_note(io, 0, *cookie);
	err = rados_op_call(op);
	if (err && err != DEAD)
		watch_note(io, *cookie, 0);
	return err;
}

/* Watches are confirmed every five seconds. */
int rados_watch_check(rados_ioctx_t io, uint64_t cookie)
{
	const struct rados_client *client = io;
	const struct rados_osd *osd = &rados_cluster.osds[0];
	uint64_t now_ns = sim_now_ns(), heard_ns = now_ns, every_ns = 5 * SIM_S;
	bool there = false;

	for (unsigned int i = 0; i < RADOS_WATCHES_MAX; i++)
		there |= rados_cluster.watches[i].client == client && rados_cluster.watches[i].id == cookie;
	if (rados_cluster.cut_ns[client->machine] > now_ns)
		heard_ns = rados_cluster.cut_from_ns[client->machine];
	else if (!there)
		return -ENOTCONN;
	if (osd->stalled_ns > now_ns && osd->stalled_from_ns < heard_ns)
		heard_ns = osd->stalled_from_ns;
	heard_ns -= heard_ns < every_ns ? heard_ns : (heard_ns + cookie * SIM_S) % every_ns;
	return (int)((now_ns - heard_ns) / SIM_MS) + 1;
}

int rados_unwatch2(rados_ioctx_t io, uint64_t cookie)
{
	struct rados_op *op = op_begin(io, 0, rados_do_unwatch);

	if (!op)
		return DEAD;
	op->id = cookie;
	watch_note(io, cookie, 0);
	return rados_op_call(op);
}

int rados_notify2(rados_ioctx_t io, const char *object, const char *text, int bytes, uint64_t timeout_ms, char **reply,
		  size_t *reply_bytes)
{
	struct rados_op *op = op_begin(io, 0, rados_do_notify);
	int result;

	sim_rados_counts.notifies++;

	(void)object;
	*reply = NULL;
	if (!op)
		return DEAD;
	op->offset = timeout_ms;
	op->bytes = (uint64_t)bytes;
	op->data = malloc((size_t)bytes);
	op->out = calloc(1, sizeof(struct rados_acks));
	if (!op->data || !op->out)
		sim_fail("out of memory");
	memcpy(op->data, text, (size_t)bytes);
	if (!op_wait(op))
		return DEAD;
	result = op->result;
	*reply_bytes = sizeof(struct rados_acks);
	*reply = sim_rbd_calloc(1, *reply_bytes);
	memcpy(*reply, op->out, *reply_bytes);
	rados_op_free(op);
	return result;
}

int rados_decode_notify_response(char *reply, size_t bytes, struct notify_ack_t **acks, size_t *ack_count,
				 struct notify_timeout_t **timeouts, size_t *timeout_count)
{
	struct rados_acks *from = (struct rados_acks *)reply;
	struct notify_ack_t *to = sim_rbd_calloc(RADOS_WATCHES_MAX, sizeof(*to));
	struct notify_timeout_t *silent = sim_rbd_calloc(RADOS_WATCHES_MAX, sizeof(*silent));

	(void)bytes;
	*acks = to;
	*timeouts = silent;
	*ack_count = *timeout_count = 0;
	for (unsigned int i = 0; i < from->count; i++)
		if (from->of[i].answered)
			to[(*ack_count)++] = (struct notify_ack_t){
				.cookie = from->of[i].watch,
				.payload = from->of[i].payload,
				.payload_len = from->of[i].bytes};
		else
			silent[(*timeout_count)++] = (struct notify_timeout_t){.cookie = from->of[i].watch};
	return 0;
}

void rados_free_notify_response(struct notify_ack_t *acks, size_t count, struct notify_timeout_t *timeouts)
{
	(void)count;
	sim_rbd_free(timeouts);
	sim_rbd_free(acks);
}

void rados_buffer_free(char *buffer)
{
	sim_rbd_free(buffer);
}

/* From any thread, and waits for nothing. */
int rados_notify_ack(rados_ioctx_t io, const char *object, uint64_t notify, uint64_t watch, const char *text, int bytes)
{
	struct rados_op *op = op_begin(io, 0, rados_do_ack);

	(void)object;
	if (!op)
		return DEAD;
	if ((size_t)bytes > sizeof(op->payload))
		sim_fail("a long answer to a notify");
	op->offset = notify;
	op->id = watch;
	op->bytes = (uint64_t)bytes;
	memcpy(op->payload, text, (size_t)bytes);
	op->ended = rados_op_free;
	rados_op_send(op);
	return 0;
}

void rados_api_reset(void)
{
	last_watch = 0;
	rados_completions_reset();
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listening and connecting on the simulated fabric. Requests and answers travel like messages and
 * are lost where the way is cut; who waits for one that never comes has a time-out.
 */
#include "tests/sim/fabric_sim.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fiber.h"
#include "tests/sim/model.h"
#include "tests/sim/random.h"
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

/* The server's patience for a client that has been answered. */
#define ESTABLISH_NS (2 * SIM_S)

struct sim_listener {
	struct fab_listener head;
	struct sockaddr_storage address;
	bool dead;
};

static struct sim_listener *listeners[SIM_LISTENERS_MAX];

/* -- listening ----------------------------------------------------------------------------- */

static struct sim_listener *listener_at(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *wanted = (const void *)address;

	for (unsigned int i = 0; i < SIM_LISTENERS_MAX; i++) {
		const struct sockaddr_in *here;

		if (!listeners[i] || listeners[i]->dead)
			continue;
		here = (const void *)&listeners[i]->address;
		if (here->sin_addr.s_addr == wanted->sin_addr.s_addr &&
		    here->sin_port == wanted->sin_port)
			return listeners[i];
	}
	return NULL;
}

int sim_listen(struct fab *fab, const struct sockaddr *addr, int backlog, struct fab_listener **out)
{
	struct sim_listener *listener = calloc(1, sizeof(*listener));

	(void)backlog;
	memcpy(&listener->address, addr, sizeof(struct sockaddr_in));
	if (listener_at(&listener->address)) {
		free(listener);
		return fab_fail(fab, -EADDRINUSE, "address already in use");
	}
	listener->head.fab = fab;
	for (unsigned int i = 0; i < SIM_LISTENERS_MAX; i++) {
		if (listeners[i])
			continue;
		listeners[i] = listener;
		*out = &listener->head;
		return 0;
	}
	sim_fail("too many listeners");
}

void sim_listener_destroy(struct fab_listener *listener)
{
	for (unsigned int i = 0; i < SIM_LISTENERS_MAX; i++)
		if (listeners[i] && &listeners[i]->head == listener)
			listeners[i] = NULL;
	free(listener);
}

int sim_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr)
{
	*addr = ((const struct sim_listener *)listener)->address;
	return 0;
}

void sim_listeners_kill(struct sim_actor *actor)
{
	for (unsigned int i = 0; i < SIM_LISTENERS_MAX; i++)
		if (listeners[i] && ((struct sim_fab *)listeners[i]->head.fab)->actor == actor)
			listeners[i]->dead = true;
}

/* -- making -------------------------------------------------------------------------------- */

static struct sim_conn *conn_create(struct sim_fab *fab, const struct fab_conn_options *options)
{
	struct sim_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		sim_fail("out of memory");
	conn->head.fab = &fab->head;
	conn->head.user = options->user;
	conn->fab = fab;
	conn->options = *options;
	TAILQ_INSERT_TAIL(&fab->conns, conn, link);
	sim_end_init(conn);
	sim_wire_init(conn);
	return conn;
}

/* The queue pair. */
static void conn_equip(struct sim_conn *conn)
{
	const struct fab_limits *limits = &conn->fab->device.limits;

	conn->head.device = &conn->fab->device;
	conn->head.qp_num = sim_qp_number();
	conn->head.inline_bytes = conn->options.inline_bytes < sim_net.inline_bytes
					  ? conn->options.inline_bytes
					  : sim_net.inline_bytes;
	conn->read_in = conn->options.read_in < limits->max_read_in ? conn->options.read_in
								    : (uint8_t)limits->max_read_in;
	conn->head.read_out = conn->options.read_out < limits->max_read_out
				      ? conn->options.read_out
				      : (uint8_t)limits->max_read_out;
	if (fab_conn_table_insert(&conn->fab->head, &conn->head))
		sim_fail("out of memory");
}

/* -- the client ---------------------------------------------------------------------------- */

static void on_timeout(void *arg)
{
	sim_conn_lose(arg, IBV_WC_WR_FLUSH_ERR, -ETIMEDOUT);
}

static bool message_lost(const struct sim_conn *conn)
{
	return !sim_link_up(conn) || (!sim_net.calm && sim_chance(sim_net.lose));
}

/* One to it. */
static bool answer_lost(const struct sim_conn *conn)
{
	return !sim_link_back(conn) || (!sim_net.calm && sim_chance(sim_net.lose));
}

/* The listener is told of a request; of whom: NULL if the sender is not there to be answered. */
static struct sim_request *request_tell(struct sim_fab *fab, struct sim_conn *client,
					const struct sim_request *like, const uint8_t *data,
					size_t bytes)
{
	struct sim_request *request = calloc(1, sizeof(*request));

	if (!request)
		sim_fail("out of memory");
	*request = *like;
	request->head.ops = &sim_fabric_ops;
	request->client = client;
	request->listener_fab = fab;
	sim_fab_note(fab, NULL, FAB_EVENT_REQUEST, 0, data, bytes);
	TAILQ_LAST(&fab->notes, sim_note_list)->event.request = &request->head;
	return request;
}

/* A request that was on its way twice: the second comes when nobody waits for an answer. */
struct ghost {
	struct sim_event event;
	struct sim_request like;
	struct sockaddr_storage address;
	uint8_t data[RBLK_PRIVATE_DATA_MAX];
	size_t bytes;
};

static void on_ghost(void *arg)
{
	struct ghost *ghost = arg;
	struct sim_listener *listener = listener_at(&ghost->address);

	if (listener) {
		sim_reached("fabric", "a request to connect comes twice", NULL);
		request_tell((struct sim_fab *)listener->head.fab, NULL, &ghost->like, ghost->data,
			     ghost->bytes);
	}
	free(ghost);
}

static struct ghost *ghost_send(const struct sim_conn *conn, const struct sim_request *like)
{
	struct ghost *ghost = calloc(1, sizeof(*ghost));

	if (!ghost)
		sim_fail("out of memory");
	ghost->event = (struct sim_event){.run = on_ghost, .arg = ghost};
	ghost->like = *like;
	ghost->address = conn->address;
	ghost->bytes = conn->options.private_bytes;
	memcpy(ghost->data, conn->private_data, ghost->bytes);
	sim_event_in(&ghost->event, sim_below(sim_chance(500000) ? SIM_MS : 100 * SIM_MS));
	return ghost;
}

/* To the other of two targets, as when an address moves between machines. */
static void ghost_stray(const struct sim_conn *conn, const struct sim_request *like)
{
	struct sockaddr_in *address = (struct sockaddr_in *)&ghost_send(conn, like)->address;

	address->sin_addr.s_addr = htonl(0x0a000000u + sim_stranger + 1);
	sim_reached("fabric", "a login comes to another target, too", NULL);
}

/* The first login of a session. A second of it would begin the session again in a target that was
 * started meanwhile, which the raw initiator takes for a target that lies. */
static bool begins_session(const struct sim_conn *conn)
{
	struct rblk_wire_login login;

	memcpy(&login, conn->private_data, sizeof(login));
	return !rblk_le16(login.queue_index) && !rblk_le32(login.fence_incarnation);
}

static void on_request_arrives(void *arg)
{
	struct sim_conn *conn = arg;
	struct sim_listener *listener = listener_at(&conn->address);
	struct sim_request like = {.client = NULL};
	struct sim_fab *fab;

	if (!listener) {
		/* Its machine is there and says so; or it is not, and the time runs out. */
		if (sim_portal_of(&conn->address) < SIM_PORTALS_MAX && sim_chance(500000))
			sim_conn_lose(conn, IBV_WC_WR_FLUSH_ERR, -ECONNREFUSED);
		return;
	}
	fab = (struct sim_fab *)listener->head.fab;
	if (message_lost(conn))
		return;
	like.head.read_in = conn->read_in;
	like.head.read_out = conn->head.read_out;
	((struct sockaddr_in *)&like.head.peer)->sin_family = AF_INET;
	((struct sockaddr_in *)&like.head.peer)->sin_addr.s_addr =
		htonl(0x0a010000u + conn->fab->actor->machine);
	if (!sim_net.calm && !begins_session(conn) && sim_chance(sim_net.twice))
		ghost_send(conn, &like);
	if (!sim_net.calm && sim_stranger != UINT_MAX && begins_session(conn) && sim_chance(800000))
		ghost_stray(conn, &like);
	conn->request = request_tell(fab, conn, &like, conn->private_data,
				     conn->options.private_bytes);
}

bool sim_resolved(struct sim_conn *conn, struct fab_event *event)
{
	int err;

	if (conn->state != SIM_CONN_RESOLVING)
		return false;
	conn_equip(conn);
	conn->state = SIM_CONN_REQUESTED;
	fab_conn_set_peer(&conn->head, (struct sockaddr *)&conn->address);
	err = conn->prepare ? conn->prepare(&conn->head, conn->head.user) : 0;
	if (err) {
		sim_conn_die(conn, IBV_WC_WR_FLUSH_ERR);
		event->type = FAB_EVENT_FAILED;
		event->status = err;
		return true;
	}
	conn->cm = (struct sim_event){.run = on_request_arrives, .arg = conn};
	sim_event_in(&conn->cm, sim_latency_ns());
	return false;
}

static void on_resolve(void *arg)
{
	struct sim_conn *conn = arg;

	sim_fab_note(conn->fab, conn, FAB_EVENT_NONE, 0, NULL, 0);
}

int sim_connect(struct fab *head, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **out)
{
	struct sim_fab *fab = (struct sim_fab *)head;
	struct sim_conn *conn = conn_create(fab, options);

	memcpy(&conn->address, addr, sizeof(struct sockaddr_in));
	memcpy(conn->private_data, options->private_data, options->private_bytes);
	conn->options.private_data = NULL;
	conn->prepare = prepare;
	/* One that goes through two fabrics is named after the first. */
	conn->session = sim_session_of(fab->actor);
	conn->state = SIM_CONN_RESOLVING;
	conn->cm = (struct sim_event){.run = on_resolve, .arg = conn};
	conn->timeout = (struct sim_event){.run = on_timeout, .arg = conn};
	sim_event_in(&conn->cm, sim_latency_ns());
	sim_event_in(&conn->timeout, options->timeout_ms * SIM_MS);
	*out = &conn->head;
	return 0;
}

/* -- the server ---------------------------------------------------------------------------- */

int sim_accept(struct fab *head, struct fab_request *request_head,
	       const struct fab_conn_options *options, struct fab_conn **out)
{
	struct sim_request *request = (struct sim_request *)request_head;
	struct sim_fab *fab = (struct sim_fab *)head;
	struct sim_conn *client = request->client;
	struct sim_conn *conn;

	sim_fiber_preempt();
	client = request->client;
	if (sim_refuses(fab)) {
		sim_reached("fabric", "an acceptance fails", NULL);
		return fab_fail(head, -ENOMEM, "no queue pair");
	}
	conn = conn_create(fab, options);
	conn_equip(conn);
	conn->server = true;
	conn->state = SIM_CONN_ACCEPTED;
	fab_conn_set_peer(&conn->head, (struct sockaddr *)&request->head.peer);
	if (client) {
		client->request = NULL;
		client->peer = conn;
		conn->peer = client;
		/*
		 * What a stranger knows of its ends says nothing of what the session has elsewhere (F10).
		 * A killed target that takes a connection on its way out has none at all.
		 */
		if (fab->actor->machine != sim_stranger && !fab->dead)
			conn->session = client->session;
		conn->address = client->address;
		if (conn->head.read_out > client->read_in)
			sim_fail("%s: more READs outstanding than the peer answers",
				 fab->actor->name);
		sim_model_conn_made(conn->session);
	}
	free(request);
	*out = &conn->head;
	return 0;
}

static void on_answered(void *arg)
{
	struct sim_conn *conn = arg;
	struct sim_conn *server = conn->peer;

	sim_event_cancel(&conn->timeout);
	conn->state = SIM_CONN_UP;
	sim_fab_note(conn->fab, conn, FAB_EVENT_ESTABLISHED, 0, conn->private_data,
		     conn->options.private_bytes);
	if (server && !message_lost(conn))
		sim_event_in(&server->cm, sim_latency_ns());
}

void sim_conn_established(struct sim_conn *conn)
{
	if (conn->state != SIM_CONN_ACCEPTED)
		return;
	sim_event_cancel(&conn->timeout);
	conn->state = SIM_CONN_UP;
	sim_fab_note(conn->fab, conn, FAB_EVENT_ESTABLISHED, 0, NULL, 0);
}

static void on_ready_to_use(void *arg)
{
	sim_conn_established(arg);
}

/* Its queue pair was to be made by another thread. The peer waits for sim_refuse(). */
static void on_unmade(void *arg)
{
	struct sim_conn *conn = arg;

	sim_reached("fabric", "a queue pair cannot be made", NULL);
	sim_conn_ended(conn);
	sim_conn_die(conn, IBV_WC_WR_FLUSH_ERR);
	sim_fab_note(conn->fab, conn, FAB_EVENT_FAILED,
		     fab_fail(conn->head.fab, -ENOMEM, "no queue pair"), NULL, 0);
}

/* As if another implementation had answered: ours takes more than an initiator of few credits can send. */
static void grant_less(struct sim_conn *conn, struct sim_conn *client)
{
	struct rblk_wire_accept accept;

	if (client->options.private_bytes < sizeof(accept))
		return;
	memcpy(&accept, client->private_data, sizeof(accept));
	if (sim_net.batch_max && sim_net.batch_max < rblk_le16(accept.max_batch))
		accept.max_batch = rblk_to_le16(sim_net.batch_max);
	conn->batch_max = rblk_le16(accept.max_batch);
	memcpy(client->private_data, &accept, sizeof(accept));
}

int sim_establish(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct sim_conn *conn = sim_conn_of(head);
	struct sim_conn *client = conn->peer;

	if (sim_refuses(conn->fab)) {
		conn->cm = (struct sim_event){.run = on_unmade, .arg = conn};
		sim_event_in(&conn->cm, sim_latency_ns());
		return 0;
	}

	conn->cm = (struct sim_event){.run = on_ready_to_use, .arg = conn};
	conn->timeout = (struct sim_event){.run = on_timeout, .arg = conn};
	sim_event_in(&conn->timeout, ESTABLISH_NS);
	if (conn->fab->dead)
		return 0;
	sim_rules_accepted(conn, private_data, bytes);
	if (!client || client->state != SIM_CONN_REQUESTED) {
		sim_event_in(&conn->hangup, sim_latency_ns());
		return 0;
	}
	memcpy(client->private_data, private_data, bytes);
	client->options.private_bytes = bytes;
	grant_less(conn, client);
	client->cm = (struct sim_event){.run = on_answered, .arg = client};
	if (!message_lost(conn))
		sim_event_in(&client->cm, sim_latency_ns());
	return 0;
}

static void on_rejected(void *arg)
{
	struct sim_conn *conn = arg;

	sim_conn_die(conn, IBV_WC_WR_FLUSH_ERR);
	sim_fab_note(conn->fab, conn, FAB_EVENT_REJECTED, -ECONNREFUSED, conn->private_data,
		     conn->options.private_bytes);
}

static void reject(struct sim_conn *client, const void *private_data, uint8_t bytes)
{
	if (!client || client->state != SIM_CONN_REQUESTED)
		return;
	client->request = NULL;
	if (bytes)
		memcpy(client->private_data, private_data, bytes);
	client->options.private_bytes = bytes;
	client->cm = (struct sim_event){.run = on_rejected, .arg = client};
	if (!answer_lost(client))
		sim_event_in(&client->cm, sim_latency_ns());
}

void sim_request_free(struct sim_request *request)
{
	if (request->client)
		request->client->request = NULL;
	free(request);
}

void sim_reject(struct fab_request *head, const void *private_data, uint8_t bytes)
{
	struct sim_request *request = (struct sim_request *)head;

	if (!request->listener_fab->dead)
		reject(request->client, private_data, bytes);
	sim_request_free(request);
}

void sim_refuse(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct sim_conn *conn = sim_conn_of(head);

	if (!conn->fab->dead)
		reject(conn->peer, private_data, bytes);
	if (conn->peer)
		conn->peer->peer = NULL;
	conn->peer = NULL;
}

struct fab_device *sim_request_device(struct fab *fab, struct fab_request *request)
{
	(void)request;
	return &((struct sim_fab *)fab)->device;
}

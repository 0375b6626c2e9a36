/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Contexts of the simulated fabric: the table of its operations, registration, completion queues,
 * events, and what faults do to whole processes and links.
 */
#include "tests/sim/fabric_sim.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/fiber.h"
#include "tests/sim/model.h"
#include "tests/sim/random.h"
#include "tests/sim/rules.h"
#include "tests/sim/socket_sim.h"
#include "tests/sim/thread.h"
#include "tests/sim/trace.h"

#define KEYS_MAX 65536u
#define MACHINES_MAX 32
/* Keys are not small numbers, so that an index taken for a key is found out. */
#define KEY_FIRST 0x5eed0000u

struct sim_net sim_net;

static struct {
	struct sim_mr *keys[KEYS_MAX]; /* NULL: deregistered */
	uint32_t key_count;
	/* Last in, first out: where sim_net.again says so, these are used again. */
	uint32_t old_keys[KEYS_MAX], old_qps[KEYS_MAX];
	uint32_t old_key_count, old_qp_count;
	uint32_t serial, qp_number; /* the last ones */
	uint8_t cut[MACHINES_MAX]; /* SIM_LINK_OUT, SIM_LINK_IN */
	uint8_t portal_cut[MACHINES_MAX][SIM_PORTALS_MAX]; /* likewise: of a target's address */
	TAILQ_HEAD(, sim_fab) fabs;
	TAILQ_HEAD(, sim_joint) joints;
} fabric = {.fabs = TAILQ_HEAD_INITIALIZER(fabric.fabs),
	    .joints = TAILQ_HEAD_INITIALIZER(fabric.joints)};

static struct sim_fab *to_fab(struct fab *fab)
{
	return (struct sim_fab *)fab;
}

void sim_fabric_reset(void)
{
	if (!TAILQ_EMPTY(&fabric.fabs) || !TAILQ_EMPTY(&fabric.joints))
		sim_fail("a fabric was not closed");
	fabric.key_count = 0;
	fabric.serial = 0;
	fabric.qp_number = 0;
	fabric.old_key_count = fabric.old_qp_count = 0;
	memset(fabric.cut, 0, sizeof(fabric.cut));
	memset(fabric.portal_cut, 0, sizeof(fabric.portal_cut));
}

unsigned int sim_fabric_count(void)
{
	struct sim_fab *fab;
	unsigned int count = 0;

	TAILQ_FOREACH(fab, &fabric.fabs, link)
		count++;
	return count;
}

const struct sim_fab *sim_fabric_next(const struct sim_fab *fab)
{
	return fab ? TAILQ_NEXT(fab, link) : TAILQ_FIRST(&fabric.fabs);
}

/* -- contexts ------------------------------------------------------------------------------ */

static struct fab *sim_open(const struct fab_options *options, char *error)
{
	struct sim_fab *fab = calloc(1, sizeof(*fab));

	(void)error;
	if (!fab)
		sim_fail("out of memory");
	fab->head.ops = &sim_fabric_ops;
	fab->head.options = *options;
	fab->serial = ++fabric.serial;
	fab->head.fd = SIM_FD_FIRST + (int)fab->serial;
	fab->device.fab = &fab->head;
	snprintf(fab->device.name, sizeof(fab->device.name), "sim0");
	fab->device.limits = sim_net.limits;
	fab->actor = sim_actor_self();
	TAILQ_INIT(&fab->conns);
	TAILQ_INIT(&fab->cq);
	TAILQ_INIT(&fab->notes);
	TAILQ_INSERT_TAIL(&fabric.fabs, fab, link);
	return &fab->head;
}

static void srq_empty(struct sim_fab *fab)
{
	fab->srq_count -= fab->srq.count;
	free(fab->srq.of);
	memset(&fab->srq, 0, sizeof(fab->srq));
}

/* It was removed and comes back, under the same index: what had been posted is gone. */
static void sim_device_release(struct fab_device *device)
{
	struct sim_fab *fab = to_fab(device->fab);
	const struct sim_conn *conn;

	TAILQ_FOREACH(conn, &fab->conns, link)
		if (conn->head.device)
			sim_fail("%s: its device is released with connections left", fab->actor->name);
	sim_reached("fabric", "a removed device is released", NULL);
	srq_empty(fab);
}

static void sim_fab_close(struct fab *head)
{
	struct sim_fab *fab = to_fab(head);
	struct sim_note *note;
	struct sim_cqe *cqe;

	if (!TAILQ_EMPTY(&fab->conns) || fab->mrs)
		sim_fail("%s: its fabric is closed with %s left", fab->actor->name,
			 fab->mrs ? "memory registered" : "connections");
	srq_empty(fab);
	while ((cqe = TAILQ_FIRST(&fab->cq))) {
		TAILQ_REMOVE(&fab->cq, cqe, link);
		free(cqe);
	}
	while ((note = TAILQ_FIRST(&fab->notes))) {
		TAILQ_REMOVE(&fab->notes, note, link);
		if (note->event.request)
			sim_request_free((struct sim_request *)note->event.request);
		free(note);
	}
	TAILQ_REMOVE(&fabric.fabs, fab, link);
	free(fab);
}

static int arm(struct sim_fab *fab, bool receives_only)
{
	const struct sim_cqe *cqe;

	sim_fiber_preempt();
	fab->readable = false;
	TAILQ_FOREACH(cqe, &fab->cq, link)
		if (cqe->receive || !receives_only)
			return 1;
	if (!TAILQ_EMPTY(&fab->notes))
		return 1;
	fab->armed = true;
	fab->receives_only = receives_only;
	sim_fiber_preempt();
	return 0;
}

static int sim_arm(struct fab *head)
{
	return arm(to_fab(head), false);
}

/* As of verbs: the end of a connection is told by completions of either kind. */
static int sim_arm_receives(struct fab *head)
{
	struct sim_fab *fab = to_fab(head);
	const struct sim_conn *conn;

	TAILQ_FOREACH(conn, &fab->conns, link)
		if (conn->state != SIM_CONN_UP || conn->closed)
			break;
	return arm(fab, head->options.apart && !conn);
}

/* Something has come. */
static void fab_signal(struct sim_fab *fab)
{
	if (fab->dead || !fab->armed)
		return;
	fab->armed = false;
	fab->readable = true;
	sim_actor_wake(fab->actor);
}

/* Of fab_join(): the fabs of one actor's session. */
struct sim_joint {
	TAILQ_ENTRY(sim_joint) link;
	int fd;
	unsigned int count;
	struct sim_fab *fabs[2];
};

int fab_join(struct fab *const *fabs, unsigned int count)
{
	struct sim_joint *joint = calloc(1, sizeof(*joint));

	if (!joint || count > 2)
		sim_fail("no room for a descriptor of %u fabrics", count);
	joint->fd = SIM_FD_FIRST + (int)++fabric.serial;
	joint->count = count;
	for (unsigned int i = 0; i < count; i++)
		joint->fabs[i] = to_fab(fabs[i]);
	TAILQ_INSERT_TAIL(&fabric.joints, joint, link);
	return joint->fd;
}

static struct sim_joint *joint_of(int fd)
{
	struct sim_joint *joint;

	TAILQ_FOREACH(joint, &fabric.joints, link)
		if (joint->fd == fd)
			break;
	return joint;
}

void fab_join_end(int fd)
{
	struct sim_joint *joint = joint_of(fd);

	if (!joint)
		sim_fail("the end of what is no descriptor of several fabrics");
	TAILQ_REMOVE(&fabric.joints, joint, link);
	free(joint);
}

static bool fab_ready(const struct sim_fab *fab)
{
	if (!fab->readable && !fab->armed)
		sim_fail("%s: it sleeps, and has not armed its fabric", fab->actor->name);
	return fab->readable;
}

bool sim_fd_ready(int fd)
{
	struct sim_joint *joint = joint_of(fd);
	struct sim_fab *fab;
	bool ready = false;

	if (sim_eventfd_is(fd))
		return sim_eventfd_ready(fd);
	if (sim_epoll_is(fd))
		return sim_epoll_ready(fd);
	for (unsigned int i = 0; joint && i < joint->count; i++)
		ready = ready || fab_ready(joint->fabs[i]);
	if (joint)
		return ready;
	TAILQ_FOREACH(fab, &fabric.fabs, link)
		if (fab->head.fd == fd)
			break;
	if (!fab)
		sim_fail("a wait for what is no descriptor");
	return fab_ready(fab);
}

static int sim_timeout_ms(const struct fab *fab)
{
	(void)fab;
	return -1;
}

uint32_t sim_qp_number(void)
{
	if (sim_net.again && fabric.old_qp_count) {
		sim_reached("number", "of a queue pair is used again", NULL);
		return fabric.old_qps[--fabric.old_qp_count];
	}
	return ++fabric.qp_number;
}

void sim_qp_number_free(uint32_t number)
{
	if (fabric.old_qp_count < KEYS_MAX)
		fabric.old_qps[fabric.old_qp_count++] = number;
}

uint32_t sim_session_of(const struct sim_actor *actor)
{
	struct sim_fab *fab;

	TAILQ_FOREACH(fab, &fabric.fabs, link)
		if (fab->actor == actor)
			return fab->serial;
	return 0;
}

void sim_session_renew(struct sim_fab *fab)
{
	fab->serial = ++fabric.serial;
}

/* -- completions --------------------------------------------------------------------------- */

void sim_fab_complete(struct sim_conn *conn, const struct ibv_wc *wc, unsigned int frees,
		      bool receive, bool srq)
{
	struct sim_fab *fab = conn->fab;
	struct sim_cqe *cqe = calloc(1, sizeof(*cqe));

	if (!cqe)
		sim_fail("out of memory");
	if (++fab->cq_count > fab->head.options.cq_depth)
		sim_fail("%s: completion queue overrun: more than %u", fab->actor->name,
			 fab->head.options.cq_depth);
	cqe->wc = *wc;
	cqe->wc.qp_num = conn->head.qp_num;
	cqe->conn = conn;
	cqe->frees = frees;
	cqe->receive = receive;
	cqe->srq = srq;
	conn->cqes++;
	TAILQ_INSERT_TAIL(&fab->cq, cqe, link);
	if (receive || !fab->receives_only)
		fab_signal(fab);
}

static int sim_poll(struct fab *head, struct ibv_wc *wc, int count)
{
	struct sim_fab *fab = to_fab(head);
	int got = 0;

	sim_fiber_preempt();
	while (got < count && !TAILQ_EMPTY(&fab->cq)) {
		struct sim_cqe *cqe = TAILQ_FIRST(&fab->cq);
		struct sim_conn *conn = cqe->conn;

		TAILQ_REMOVE(&fab->cq, cqe, link);
		fab->cq_count--;
		wc[got++] = cqe->wc;
		conn->sq_used -= cqe->frees;
		if (cqe->receive && !cqe->srq)
			conn->rq_count--;
		if (cqe->srq)
			fab->srq_count--;
		conn->cqes--;
		free(cqe);
		sim_conn_check_drained(conn);
	}
	return got;
}

/* -- events -------------------------------------------------------------------------------- */

void sim_fab_note(struct sim_fab *fab, struct sim_conn *conn, enum fab_event_type type, int status,
		  const void *data, size_t bytes)
{
	struct sim_note *note = calloc(1, sizeof(*note));

	if (!note)
		sim_fail("out of memory");
	note->resolved = type == FAB_EVENT_NONE;
	note->event.type = type;
	note->event.status = status;
	note->event.conn = conn ? &conn->head : NULL;
	if (bytes)
		memcpy(note->data, data, bytes);
	note->event.private_bytes = bytes;
	TAILQ_INSERT_TAIL(&fab->notes, note, link);
	fab_signal(fab);
}

static int sim_poll_event(struct fab *head, struct fab_event *event)
{
	struct sim_fab *fab = to_fab(head);
	struct sim_note *note;

	sim_fiber_preempt();
	while ((note = TAILQ_FIRST(&fab->notes))) {
		struct sim_conn *conn = (struct sim_conn *)note->event.conn;
		bool told = true;

		TAILQ_REMOVE(&fab->notes, note, link);
		/* Of a closed connection only DRAINED still comes. */
		if (conn && conn->closed && note->event.type != FAB_EVENT_DRAINED)
			told = false;
		*event = note->event;
		memcpy(fab->private_data, note->data, sizeof(fab->private_data));
		event->private_data = fab->private_data;
		if (told && note->resolved)
			told = sim_resolved(conn, event);
		free(note);
		if (told)
			return 1;
	}
	return 0;
}

/* -- memory -------------------------------------------------------------------------------- */

static int mr_add(struct sim_fab *fab, void *addr, size_t bytes, int access, struct fab_mr **out)
{
	struct sim_mr *mr = calloc(1, sizeof(*mr));
	bool again = sim_net.again && fabric.old_key_count;
	uint32_t key = again ? fabric.old_keys[--fabric.old_key_count] : fabric.key_count++;

	if (!mr || fabric.key_count == KEYS_MAX)
		sim_fail("no progress: all memory keys are used up");
	if (again)
		sim_reached("number", "of memory (its key) is used again", NULL);
	mr->head.fab = &fab->head;
	mr->fab = fab;
	mr->base = addr;
	mr->bytes = bytes;
	mr->access = access;
	mr->key = KEY_FIRST + key;
	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++)
		mr->head.lkey[i] = mr->head.rkey[i] = mr->key;
	fabric.keys[key] = mr;
	fab->mrs++;
	*out = &mr->head;
	return 0;
}

bool sim_refuses(const struct sim_fab *fab)
{
	return !sim_net.calm && fab->refuses && !fab->dead && sim_chance(sim_net.refuse);
}

static int sim_mr_register(struct fab *fab, void *addr, size_t bytes, int access,
			   struct fab_mr **mr)
{
	if (sim_refuses(to_fab(fab))) {
		sim_reached("fabric", "a registration is refused", NULL);
		return fab_fail(fab, -ENOMEM, "registration is refused");
	}
	return mr_add(to_fab(fab), addr, bytes, access, mr);
}

static void sim_mr_deregister(struct fab_mr *head)
{
	struct sim_mr *mr = (struct sim_mr *)head;

	sim_rules_key_ends(mr->fab, mr->key);
	fabric.keys[mr->key - KEY_FIRST] = NULL;
	fabric.old_keys[fabric.old_key_count++] = mr->key - KEY_FIRST;
	mr->fab->mrs--;
	free(mr);
}

struct sim_mr *sim_mr_find(uint32_t key)
{
	return key - KEY_FIRST < fabric.key_count ? fabric.keys[key - KEY_FIRST] : NULL;
}

/* -- the network --------------------------------------------------------------------------- */

void sim_link_cut(unsigned int machine, unsigned int ways)
{
	fabric.cut[machine] = (uint8_t)ways;
}

void sim_portal_cut(unsigned int machine, unsigned int portal, unsigned int ways)
{
	fabric.portal_cut[machine][portal] = (uint8_t)ways;
}

unsigned int sim_portal_of(const struct sockaddr_storage *address)
{
	return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 8 & 0xff;
}

/* The ways, as the target sees them, that its address has lost by which the two are connected. */
static unsigned int portal_ways(const struct sim_conn *conn)
{
	unsigned int portal = sim_portal_of(&conn->address);
	unsigned int host = ntohl(((const struct sockaddr_in *)&conn->address)->sin_addr.s_addr) & 0xff;

	if (portal >= SIM_PORTALS_MAX || !host || host > MACHINES_MAX)
		return 0;
	return fabric.portal_cut[host - 1][portal];
}

bool sim_link_up(const struct sim_conn *conn)
{
	return !(portal_ways(conn) & (conn->server ? SIM_LINK_OUT : SIM_LINK_IN)) &&
	       !(fabric.cut[conn->fab->actor->machine] & SIM_LINK_OUT) &&
	       !(conn->peer && fabric.cut[conn->peer->fab->actor->machine] & SIM_LINK_IN);
}

bool sim_link_back(const struct sim_conn *conn)
{
	return !(portal_ways(conn) & (conn->server ? SIM_LINK_IN : SIM_LINK_OUT)) &&
	       !(fabric.cut[conn->fab->actor->machine] & SIM_LINK_IN) &&
	       !(conn->peer && fabric.cut[conn->peer->fab->actor->machine] & SIM_LINK_OUT);
}

bool sim_way_up(unsigned int from, unsigned int to, unsigned int target, unsigned int portal, bool in)
{
	return !(fabric.portal_cut[target][portal] & (in ? SIM_LINK_IN : SIM_LINK_OUT)) &&
	       !(fabric.cut[from] & SIM_LINK_OUT) && !(fabric.cut[to] & SIM_LINK_IN);
}

uint64_t sim_latency_ns(void)
{
	return sim_between(sim_net.latency_min_ns, sim_net.latency_max_ns);
}

/* -- the end of processes and connections -------------------------------------------------- */

/*
 * The kernel closes what a killed process had, and tells the peers; a machine without power tells
 * nobody. Then nothing that the dead process's memory says has any effect.
 */
void sim_fabric_kill(struct sim_actor *actor, bool power_lost)
{
	struct sim_conn *conn;
	struct sim_fab *fab;

	sim_listeners_kill(actor);
	TAILQ_FOREACH(fab, &fabric.fabs, link) {
		if (fab->actor != actor)
			continue;
		fab->dead = true;
		TAILQ_FOREACH(conn, &fab->conns, link) {
			if (conn->peer && !power_lost && sim_link_up(conn))
				sim_conn_lose(conn->peer, IBV_WC_RETRY_EXC_ERR, -ECONNRESET);
			sim_conn_ended(conn);
			if (conn->server && conn->session)
				sim_model_conn_gone(conn->session, true);
			sim_conn_kill(conn);
		}
	}
}

void sim_fabric_unplug(const struct sim_actor *actor)
{
	struct sim_conn *conn, *following;
	struct sim_fab *fab;

	TAILQ_FOREACH(fab, &fabric.fabs, link) {
		if (fab->actor != actor || fab->dead || TAILQ_EMPTY(&fab->conns))
			continue;
		sim_trace(actor->name, "its device is removed");
		sim_fab_note(fab, NULL, FAB_EVENT_DEVICE_GONE, 0, NULL, 0);
		TAILQ_LAST(&fab->notes, sim_note_list)->event.device = &fab->device;
		for (conn = TAILQ_FIRST(&fab->conns); conn; conn = following) {
			following = TAILQ_NEXT(conn, link);
			if (conn->peer && conn->state == SIM_CONN_UP && sim_link_up(conn))
				sim_conn_lose(conn->peer, IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT);
			sim_conn_lose(conn, IBV_WC_WR_FLUSH_ERR, -ENODEV);
		}
	}
}

bool sim_fabric_break(uint64_t n)
{
	struct sim_conn *conn;
	struct sim_fab *fab;
	uint64_t count = 0;

	TAILQ_FOREACH(fab, &fabric.fabs, link)
		TAILQ_FOREACH(conn, &fab->conns, link)
			count += conn->state == SIM_CONN_UP;
	if (!count)
		return false;
	n %= count;
	TAILQ_FOREACH(fab, &fabric.fabs, link)
		TAILQ_FOREACH(conn, &fab->conns, link)
			if (conn->state == SIM_CONN_UP && n-- == 0) {
				sim_conn_break(&conn->head);
				return true;
			}
	return false;
}

const struct fab_ops sim_fabric_ops = {
	.kind = FAB_SIM,
	.open = sim_open,
	.close = sim_fab_close,
	.arm = sim_arm,
	.arm_receives = sim_arm_receives,
	.poll = sim_poll,
	.poll_event = sim_poll_event,
	.timeout_ms = sim_timeout_ms,
	.listen = sim_listen,
	.listener_destroy = sim_listener_destroy,
	.listener_address = sim_listener_address,
	.accept = sim_accept,
	.reject = sim_reject,
	.request_device = sim_request_device,
	.device_release = sim_device_release,
	.connect = sim_connect,
	.conn_establish = sim_establish,
	.conn_refuse = sim_refuse,
	.conn_close = sim_close,
	.conn_destroy = sim_destroy,
	.mr_register = sim_mr_register,
	.mr_deregister = sim_mr_deregister,
	.post_send = sim_post_send,
	.post_recv = sim_post_recv,
	.post_srq_recv = sim_post_srq_recv,
};

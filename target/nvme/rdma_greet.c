/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lobby. A host's request comes to the listener's fab, which gives it to the fab of the reactor with the fewest
 * connections; that accepts it and waits for Connect, and sends what this says to the listener as a login. A reactor
 * accepts it, there, or somebody refuses it: then the status of Connect is sent, and the connection ends. The list of
 * fabs, their mail and what links the two are under one lock, which no I/O takes. Everything here is a stranger's.
 */
#include "target/nvme/rdma.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/quota.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, nvme_rdma_fab) members = TAILQ_HEAD_INITIALIZER(members);
static struct nvme_rdma_requests lobby = TAILQ_HEAD_INITIALIZER(lobby); /* all requests, oldest first */
static bool drains;

/* -- mail: the lock is held ---------------------------------------------------------------------- */

static void mail_send(struct nvme_rdma_fab *fab, struct nvme_rdma_request *request)
{
	const uint64_t one = 1;

	TAILQ_INSERT_TAIL(&fab->inbox, request, link);
	fab->has_mail = true;
	if (write(fab->eventfd, &one, sizeof(one)) < 0)
		return; /* full: it wakes, too */
}

static struct nvme_rdma_request *mail_take(struct nvme_rdma_fab *fab)
{
	struct nvme_rdma_request *request;

	pthread_mutex_lock(&lock);
	request = TAILQ_FIRST(&fab->inbox);
	if (request)
		TAILQ_REMOVE(&fab->inbox, request, link);
	fab->has_mail = !TAILQ_EMPTY(&fab->inbox);
	pthread_mutex_unlock(&lock);
	return request;
}

static void request_free(struct nvme_rdma_request *request)
{
	pthread_mutex_lock(&lock);
	TAILQ_REMOVE(&lobby, request, lobby_link);
	pthread_mutex_unlock(&lock);
	free(request);
}

/* -- fabs that come and go ----------------------------------------------------------------------- */

void nvme_rdma_lobby_join(struct nvme_rdma_fab *fab)
{
	pthread_mutex_lock(&lock);
	TAILQ_INSERT_TAIL(&members, fab, link);
	pthread_mutex_unlock(&lock);
}

static void refuse_raw(struct fab_request *raw, enum nvme_rdma_status status)
{
	const struct nvme_rdma_reject reject = {.status = rblk_to_le16((uint16_t)status)};

	nvme_rdma_below->ops->reject(raw, &reject, sizeof(reject));
}

/* From now on nobody sends anything here. Logins that are elsewhere have no connection any more, or had none before. */
void nvme_rdma_lobby_leave(struct nvme_rdma_fab *fab)
{
	struct nvme_rdma_request *request;
	struct nvme_rdma *rdma;

	pthread_mutex_lock(&lock);
	TAILQ_REMOVE(&members, fab, link);
	TAILQ_FOREACH(request, &lobby, lobby_link) {
		if (request->head.fab != fab->fab)
			continue;
		request->head.fab = NULL;
		if (!request->asks || !request->conn)
			continue;
		request->conn->request = NULL;
		request->conn = NULL;
	}
	pthread_mutex_unlock(&lock);
	while ((request = mail_take(fab))) {
		if (request->raw)
			refuse_raw(request->raw, NVME_RDMA_NO_RESOURCES);
		else if (request->conn)
			request->conn->request = NULL;
		request_free(request);
	}
	TAILQ_FOREACH(rdma, &fab->all, link) {
		if (rdma->request)
			request_free(rdma->request);
		rdma->request = NULL;
	}
}

/* -- at the listener ----------------------------------------------------------------------------- */

/* Checks what a host asks for. 0: it may have that. */
static enum nvme_rdma_status ask_check(const void *private_data, size_t bytes, struct nvme_rdma_request *request)
{
	struct nvme_rdma_ask ask;
	uint32_t entries;

	if (bytes < sizeof(ask))
		return NVME_RDMA_BAD_LENGTH;
	memcpy(&ask, private_data, sizeof(ask));
	entries = rblk_le16(ask.commands) + 1u;
	request->queue = rblk_le16(ask.queue);
	request->entries = (uint16_t)entries;
	if (ask.format)
		return NVME_RDMA_BAD_FORMAT;
	if (request->queue >= RBLK_QUEUES_MAX)
		return NVME_RDMA_BAD_QUEUE;
	if (entries < 2 || entries > (request->queue ? NVME_ENTRIES_MAX : NVME_ADMIN_ENTRIES_MAX))
		return NVME_RDMA_BAD_COMMANDS;
	return rblk_le16(ask.receives) < rblk_le16(ask.commands) ? NVME_RDMA_BAD_RECEIVES : 0;
}

/* The lock is held. */
static bool lobby_has_room(const struct sockaddr_storage *peer)
{
	const struct tgt_quota quota = {.most = NVME_RDMA_LOBBY_MAX,
					.each = NVME_RDMA_LOBBY_EACH,
					.kept = NVME_RDMA_LOBBY_MAX / 8};
	const struct nvme_rdma_request *one;
	unsigned int used = 0, own = 0;

	TAILQ_FOREACH(one, &lobby, lobby_link) {
		used++;
		own += fab_same_address(&one->head.peer, peer);
	}
	return tgt_quota_allows(&quota, used, own);
}

/* The lock is held. NULL: there is no reactor. */
static struct nvme_rdma_fab *fab_choose(void)
{
	struct nvme_rdma_fab *fab, *best = NULL;

	TAILQ_FOREACH(fab, &members, link)
		if (fab->entries && (!best || fab->load < best->load))
			best = fab;
	return best;
}

void nvme_rdma_drain(void)
{
	pthread_mutex_lock(&lock);
	drains = true;
	pthread_mutex_unlock(&lock);
}

void nvme_rdma_greet(struct nvme_rdma_fab *fab, const struct fab_event *event)
{
	struct nvme_rdma_request *request = calloc(1, sizeof(*request));
	enum nvme_rdma_status status = NVME_RDMA_NO_RESOURCES;
	struct nvme_rdma_fab *reactor = NULL;

	if (request)
		status = ask_check(event->private_data, event->private_bytes, request);
	if (status) {
		free(request);
		refuse_raw(event->request, status);
		return;
	}
	request->head.ops = fab->fab->ops;
	request->head.peer = event->request->peer;
	request->head.read_in = event->request->read_in;
	request->head.read_out = event->request->read_out;
	request->raw = event->request;
	pthread_mutex_lock(&lock);
	if (!drains && lobby_has_room(&request->head.peer))
		reactor = fab_choose();
	if (reactor) {
		request->head.fab = reactor->fab;
		TAILQ_INSERT_TAIL(&lobby, request, lobby_link);
		mail_send(reactor, request);
	}
	pthread_mutex_unlock(&lock);
	if (reactor)
		return;
	free(request);
	refuse_raw(event->request, NVME_RDMA_NO_RESOURCES);
}

static void login_tell(struct nvme_rdma_fab *fab, struct nvme_rdma_request *request, struct fab_event *event)
{
	fab->login = request->login;
	memset(event, 0, sizeof(*event));
	event->type = FAB_EVENT_REQUEST;
	event->request = &request->head;
	event->private_data = &fab->login;
	event->private_bytes = sizeof(fab->login);
}

/* -- at the reactor: accepted below -------------------------------------------------------------- */

static uint32_t send_depth(uint16_t entries)
{
	uint32_t credits = entries > RBLK_CREDITS_MIN ? entries : RBLK_CREDITS_MIN;

	/* As io_queue.c reckons, and this room's own. */
	return (credits + RBLK_RESERVED_TAGS) * 2 + NVME_RDMA_PLACES * NVME_RDMA_PLACE_WRS;
}

/* The request's connection; NULL: it could not be made. */
static struct nvme_rdma *conn_make(struct nvme_rdma_fab *fab, struct nvme_rdma_request *request)
{
	struct fab_conn_options options = {
		.send_depth = send_depth(request->entries),
		.send_sge = 1,
		.inline_bytes = 4 * sizeof(struct nvme_completion),
		.read_in = 0, /* nobody READs here */
		.read_out = request->head.read_in,
	};
	struct nvme_rdma *rdma = calloc(1, sizeof(*rdma));
	struct fab_device *device;

	if (!rdma)
		return NULL;
	device = nvme_rdma_below->ops->request_device(fab->fab, request->raw);
	rdma->device = device ? nvme_rdma_device(fab, device) : NULL;
	if (!rdma->device || nvme_rdma_below->ops->accept(fab->fab, request->raw, &options, &rdma->conn)) {
		free(rdma);
		return NULL;
	}
	request->raw = NULL;
	rdma->conn->above = rdma;
	rdma->fab = fab;
	rdma->send_depth = options.send_depth;
	TAILQ_INIT(&rdma->parked);
	TAILQ_INIT(&rdma->fetches);
	TAILQ_INSERT_TAIL(&fab->all, rdma, link);
	fab->load++;
	rdma->device->lobby++;
	rdma->device->guests++;
	memcpy(request->device, device->name, sizeof(request->device));
	return rdma;
}

static void lobby_begin(struct nvme_rdma_fab *fab, struct nvme_rdma_request *request)
{
	const struct nvme_rdma_accept accept = {.receives = rblk_to_le16(request->entries)};
	struct nvme_rdma *rdma = conn_make(fab, request);

	if (!rdma) {
		refuse_raw(request->raw, NVME_RDMA_NO_RESOURCES);
		request_free(request);
		return;
	}
	rdma->request = request;
	request->conn = rdma;
	nvme_rdma_own_post(rdma->device);
	nvme_rdma_timer(rdma, env_now_ns() + NVME_RDMA_LOBBY_MS * 1000000ull);
	if (nvme_rdma_below->ops->conn_establish(rdma->conn, &accept, sizeof(accept)))
		nvme_rdma_lobby_end(rdma);
}

/* Nobody waits for it any more, or it is refused; a request that is elsewhere comes back. */
void nvme_rdma_lobby_end(struct nvme_rdma *rdma)
{
	struct nvme_rdma_request *request = rdma->request;

	if (rdma->state >= NVME_RDMA_ENDS)
		return;
	rdma->state = NVME_RDMA_ENDS;
	rdma->device->lobby--;
	rdma->request = NULL;
	if (request)
		request->conn = NULL;
	if (request && !request->asks)
		request_free(request);
	fab_conn_close(rdma->conn);
}

void nvme_rdma_lobby_event(struct nvme_rdma *rdma, enum fab_event_type type)
{
	const struct nvme_rdma_reject reject = {.status = rblk_to_le16(NVME_RDMA_NO_RESOURCES)};

	switch (type) {
	case FAB_EVENT_FAILED:
		nvme_rdma_below->ops->conn_refuse(rdma->conn, &reject, sizeof(reject));
		nvme_rdma_lobby_end(rdma);
		break;
	case FAB_EVENT_DISCONNECTED:
		nvme_rdma_lobby_end(rdma);
		break;
	case FAB_EVENT_DRAINED:
		fab_conn_destroy(rdma->conn);
		break;
	default:
		break;
	}
}

/* -- Connect ------------------------------------------------------------------------------------- */

static void connect_refuse(struct nvme_rdma *rdma, uint16_t status)
{
	rdma->state = NVME_RDMA_REFUSED;
	if (!nvme_rdma_respond_first(rdma, status))
		nvme_rdma_lobby_end(rdma);
}

/* A status. */
static uint16_t connect_take(struct nvme_rdma *rdma, const struct nvme_connect *data)
{
	const struct nvme_rdma_request *request = rdma->request;
	struct nvme_hello *hello = rdma->hello;
	uint16_t status = nvme_connect_check(hello, &rdma->connect, data);

	if (!status && (hello->queue != request->queue || hello->entries > request->entries))
		status = NVME_CONNECT_INVALID;
	return !status || status == NVME_CONNECT_BUSY ? status : status | NVME_NO_RETRY;
}

/* Its data is in the capsule, or with the host: Linux' is for an admin queue. */
static bool is_connect(const struct nvme_command *command, uint32_t bytes)
{
	bool capsule = command->sgl == NVME_SGL_CAPSULE;
	uint32_t length = rblk_le32(command->length);

	if (command->opcode != NVME_FABRICS || (rblk_le32(command->namespace) & 0xff) != NVME_CONNECT)
		return false;
	if (capsule)
		return !command->address && length == sizeof(struct nvme_connect) && bytes == length;
	return (command->sgl == NVME_SGL_KEYED || command->sgl == NVME_SGL_KEYED_INVALIDATE) &&
	       (length & 0xffffff) == sizeof(struct nvme_connect) && !bytes;
}

void nvme_rdma_first(struct nvme_rdma *rdma, const struct nvme_command *command, const void *data, uint32_t bytes)
{
	if (rdma->state != NVME_RDMA_LOBBY || !is_connect(command, bytes)) {
		nvme_rdma_fail(rdma, -EPROTO);
		return;
	}
	rdma->connect = *command;
	rdma->hello = calloc(1, sizeof(*rdma->hello));
	rdma->state = NVME_RDMA_READS;
	if (!rdma->hello || (!bytes && !nvme_rdma_fetch_first(rdma, sizeof(struct nvme_connect))))
		nvme_rdma_fail(rdma, -ENOMEM);
	else if (bytes)
		nvme_rdma_first_read(rdma, data);
}

void nvme_rdma_first_read(struct nvme_rdma *rdma, const void *data)
{
	struct nvme_rdma_request *request = rdma->request;
	struct nvme_rdma_fab *fab, *listener = NULL;
	uint16_t status;

	rdma->hello->id = rdma->connect.id;
	status = connect_take(rdma, data);
	if (status) {
		connect_refuse(rdma, status);
		return;
	}
	nvme_login_fill(rdma->hello);
	/* Each completion is a message. */
	rdma->hello->login.reply_bytes = rblk_to_le32(sizeof(struct rblk_wire_completion));
	request->login = rdma->hello->login;
	rdma->state = NVME_RDMA_ASKS;
	pthread_mutex_lock(&lock);
	TAILQ_FOREACH(fab, &members, link)
		if (!fab->entries)
			listener = fab;
	request->asks = listener != NULL;
	if (listener)
		mail_send(listener, request);
	pthread_mutex_unlock(&lock);
	if (!listener)
		connect_refuse(rdma, NVME_CONNECT_BUSY);
}

bool nvme_rdma_mail(struct nvme_rdma_fab *fab, struct fab_event *event)
{
	struct nvme_rdma_request *request;
	struct nvme_rdma *rdma;

	while ((request = mail_take(fab))) {
		if (!fab->entries) {
			login_tell(fab, request, event);
			return true;
		}
		if (request->raw) {
			lobby_begin(fab, request);
			continue;
		}
		/* It was refused. Its connection is this thread's alone. */
		rdma = request->conn;
		if (rdma) {
			rdma->request = NULL;
			connect_refuse(rdma, request->refused);
		}
		request_free(request);
	}
	return false;
}

/* -- the login is answered ----------------------------------------------------------------------- */

void nvme_rdma_reject(struct fab_request *head, const void *private_data, uint8_t bytes)
{
	struct nvme_rdma_request *request = (struct nvme_rdma_request *)head;
	bool over;

	request->refused = nvme_connect_status(private_data, bytes);
	pthread_mutex_lock(&lock);
	over = !head->fab;
	if (!over)
		mail_send(nvme_rdma_fab(head->fab), request);
	pthread_mutex_unlock(&lock);
	if (over)
		request_free(request);
}

/* Its home may be another reactor, which judges by the device that it has of that name. */
struct fab_device *nvme_rdma_request_device(struct fab *head, struct fab_request *request_head)
{
	const struct nvme_rdma_request *request = (const struct nvme_rdma_request *)request_head;
	struct nvme_rdma_fab *fab = nvme_rdma_fab(head);
	struct fab_device *device;

	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++)
		if (fab->devices[i].device && !strcmp(fab->devices[i].device->name, request->device))
			return fab->devices[i].device;
	device = nvme_rdma_below->device(head, request->device);
	return device && nvme_rdma_device(fab, device) ? device : NULL;
}

int nvme_rdma_accept(struct fab *head, struct fab_request *request_head, const struct fab_conn_options *options,
		     struct fab_conn **conn)
{
	struct nvme_rdma_request *request = (struct nvme_rdma_request *)request_head;
	struct nvme_rdma *rdma = head == request_head->fab ? request->conn : NULL;

	if (!rdma || rdma->failed)
		return fab_fail(head, -ECONNRESET, "accept: the host has gone");
	if (options->send_depth + NVME_RDMA_PLACES * NVME_RDMA_PLACE_WRS > rdma->send_depth)
		return fab_fail(head, -EINVAL, "accept: %u sends wanted, there are %u", options->send_depth,
				rdma->send_depth);
	rdma->state = NVME_RDMA_ACCEPTED;
	rdma->request = NULL;
	rdma->due_ns = 0;
	rdma->device->lobby--;
	rdma->device->guests--;
	rdma->device->queues++;
	rdma->conn->user = options->user;
	request_free(request);
	*conn = rdma->conn;
	return 0;
}

int nvme_rdma_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes)
{
	struct nvme_rdma *rdma = nvme_rdma(conn);
	struct nvme_queue *queue;

	queue = nvme_queue_create(rdma->hello, private_data, bytes, &nvme_rdma_transport, conn);
	if (!queue)
		return fab_fail(conn->fab, -ENOMEM, "accept %s: out of memory", conn->peer);
	queue->rdma = rdma;
	rdma->queue = queue;
	if (!nvme_rdma_send_init(rdma))
		return fab_fail(conn->fab, -ENOMEM, "accept %s: out of memory", conn->peer);
	nvme_forget_hello(rdma->hello);
	rdma->hello = NULL;
	nvme_queue_begin(queue);
	return 0;
}

/* It is closed next, so that the host may not hear it: then it sees that the connection has ended. */
void nvme_rdma_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes)
{
	if (nvme_rdma(conn)->hello)
		(void)nvme_rdma_respond_first(nvme_rdma(conn), nvme_connect_status(private_data, bytes));
}

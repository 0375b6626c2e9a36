/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of the fabric: that of the fabric below but for what stands here. Completions of receives become messages
 * of rblk's (rdma_receive.c), others go through. The reactor's receives are posted as two segments: data from the
 * buffer's beginning on, and the command at its end. A few are kept back, because a queue has messages that no capsule brings.
 */
#include "target/nvme/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"

#define POST_BATCH 32u
#define NS_PER_MS 1000000ull
#define LOOK_SKIPS 16u /* calls without a look at the clock */

const struct nvme_rdma_below *nvme_rdma_below = &nvme_rdma_verbs;
static struct fab_ops ops;

/* -- devices and their receives ------------------------------------------------------------------ */

static struct nvme_rdma_fab *fab_of(const struct nvme_rdma_device *device)
{
	return nvme_rdma_fab(device->device->fab);
}

static void device_clear(struct nvme_rdma_device *device)
{
	fab_mr_deregister(device->own_mr);
	free(device->own);
	free(device->receives);
	free(device->free_numbers);
	memset(device, 0, sizeof(*device));
}

static bool device_init(struct nvme_rdma_fab *fab, struct nvme_rdma_device *device, struct fab_device *of)
{
	const size_t bytes = NVME_RDMA_OWN_RECEIVES * (NVME_RDMA_CAPSULE_BYTES + sizeof(struct nvme_completion));

	device->device = of;
	device->receives = calloc(fab->entries + 1, sizeof(*device->receives));
	device->free_numbers = calloc(fab->entries + 1, sizeof(*device->free_numbers));
	device->own = calloc(1, bytes);
	if (!device->receives || !device->free_numbers || !device->own ||
	    fab_mr_register(of->fab, device->own, bytes, IBV_ACCESS_LOCAL_WRITE, &device->own_mr)) {
		device_clear(device);
		return false;
	}
	for (uint32_t i = fab->entries; i > 0; i--)
		device->free_numbers[device->free_count++] = i - 1;
	for (uint32_t i = NVME_RDMA_OWN_RECEIVES; i > 0; i--)
		device->own_free[device->own_count++] = i - 1;
	device->invalidates = of->limits.invalidate;
	/* NVMe has no immediates, and says by each command whether its key is to be invalidated. */
	of->limits.immediate = false;
	of->limits.invalidate = false;
	of->limits.final = true;
	return true;
}

struct nvme_rdma_device *nvme_rdma_device(struct nvme_rdma_fab *fab, struct fab_device *of)
{
	struct nvme_rdma_device *device = &fab->devices[of->index];

	return device->device == of || device_init(fab, device, of) ? device : NULL;
}

static uint64_t receive_id(const struct nvme_rdma_device *device, uint32_t number)
{
	return NVME_RDMA_RECEIVE | (uint64_t)device->device->index << 32 | number;
}

static char *own_capsule(const struct nvme_rdma_device *device, uint32_t index)
{
	return device->own + index * NVME_RDMA_CAPSULE_BYTES;
}

void nvme_rdma_own_post(struct nvme_rdma_device *device)
{
	uint32_t entries = fab_of(device)->entries;

	while (device->own_count && NVME_RDMA_OWN_RECEIVES - device->own_count < device->lobby) {
		uint32_t index = device->own_free[device->own_count - 1];
		char *capsule = own_capsule(device, index);
		struct ibv_sge sge = {.addr = (uintptr_t)capsule,
				      .length = NVME_RDMA_CAPSULE_BYTES,
				      .lkey = fab_mr_lkey(device->own_mr, device->device)};
		struct ibv_recv_wr wr = {.wr_id = receive_id(device, entries + index), .sg_list = &sge, .num_sge = 1};
		struct ibv_recv_wr *bad;

		if (nvme_rdma_below->ops->post_srq_recv(device->device, &wr, &bad))
			return;
		device->own_count--;
	}
}

/* A batch of the reactor's. How many were posted. */
static uint32_t receives_post(struct nvme_rdma_device *device, const uint32_t *numbers, uint32_t count, int *err)
{
	struct ibv_recv_wr wr[POST_BATCH], *bad;
	struct ibv_sge sges[POST_BATCH][2];

	for (uint32_t i = 0; i < count; i++) {
		const struct nvme_rdma_receive *receive = &device->receives[numbers[i]];

		sges[i][0].addr = receive->address + receive->bytes - sizeof(struct nvme_command);
		sges[i][0].length = sizeof(struct nvme_command);
		sges[i][1].addr = receive->address;
		sges[i][1].length = NVME_CAPSULE_BYTES;
		sges[i][0].lkey = sges[i][1].lkey = receive->lkey;
		wr[i] = (struct ibv_recv_wr){.wr_id = receive_id(device, numbers[i]), .sg_list = sges[i], .num_sge = 2};
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	*err = count ? nvme_rdma_below->ops->post_srq_recv(device->device, wr, &bad) : 0;
	return *err ? (uint32_t)(bad - wr) : count;
}

static bool wants_spare(const struct nvme_rdma_device *device)
{
	uint32_t wanted = 2 * device->queues + 2;

	return device->spare_count < (wanted < NVME_RDMA_SPARES ? wanted : NVME_RDMA_SPARES);
}

static int post_srq_recv(struct fab_device *head, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct nvme_rdma_device *device = nvme_rdma_device(nvme_rdma_fab(head->fab), head);
	int err = device ? 0 : -ENOMEM;

	while (wr && !err) {
		struct ibv_recv_wr *wrs[POST_BATCH];
		uint32_t numbers[POST_BATCH], count = 0, posted;

		for (; wr && count < POST_BATCH && device->free_count; wr = wr->next) {
			uint32_t number = device->free_numbers[--device->free_count];

			device->receives[number] = (struct nvme_rdma_receive){
				wr->wr_id, wr->sg_list->addr, wr->sg_list->length, wr->sg_list->lkey};
			if (wants_spare(device)) {
				device->spares[device->spare_count++] = number;
				continue;
			}
			wrs[count] = wr;
			numbers[count++] = number;
		}
		posted = receives_post(device, numbers, count, &err);
		for (uint32_t i = count; i > posted; i--) {
			device->free_numbers[device->free_count++] = numbers[i - 1];
			wr = wrs[i - 1];
		}
		if (!err && !posted && wr && !device->free_count)
			err = -ENOMEM;
	}
	*bad = wr;
	return err;
}

void nvme_rdma_receive_again(struct nvme_rdma_device *device, const struct nvme_rdma_receive *receive)
{
	struct ibv_sge sge = {receive->address, receive->bytes, receive->lkey};
	struct ibv_recv_wr wr = {.wr_id = receive->wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc *wc;

	if (!post_srq_recv(device->device, &wr, &bad))
		return;
	/* It is the reactor's again, which tries again. */
	wc = nvme_rdma_done(fab_of(device), receive->wr_id, 0);
	wc->status = IBV_WC_WR_FLUSH_ERR;
}

/* -- completions --------------------------------------------------------------------------------- */

bool nvme_rdma_done_room(const struct nvme_rdma_fab *fab)
{
	return fab->done_tail - fab->done_head < NVME_RDMA_DONE - NVME_RDMA_BATCH;
}

struct ibv_wc *nvme_rdma_done(struct nvme_rdma_fab *fab, uint64_t wr_id, uint32_t qp_num)
{
	struct ibv_wc *wc = &fab->done[fab->done_tail++ & (NVME_RDMA_DONE - 1)];

	memset(wc, 0, sizeof(*wc));
	wc->wr_id = wr_id;
	wc->qp_num = qp_num;
	wc->opcode = IBV_WC_RECV;
	return wc;
}

static void take_capsule(struct nvme_rdma *rdma, const struct nvme_rdma_receive *receive, const struct ibv_wc *wc,
			 const struct nvme_command *command, const char *data)
{
	uint32_t bytes = wc->byte_len - (uint32_t)sizeof(*command);

	if (wc->opcode != IBV_WC_RECV || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) ||
	    wc->byte_len < sizeof(*command))
		nvme_rdma_fail(rdma, -EPROTO);
	else if (rdma->queue)
		nvme_rdma_capsule(rdma, receive, command, data, bytes);
	else
		nvme_rdma_first(rdma, command, data, bytes);
}

static void received(struct nvme_rdma_fab *fab, const struct ibv_wc *wc, struct nvme_rdma *rdma)
{
	struct nvme_rdma_device *device = &fab->devices[(wc->wr_id & ~NVME_RDMA_RECEIVE) >> 32];
	bool well = wc->status == IBV_WC_SUCCESS && rdma && !rdma->closed && !rdma->failed;
	uint32_t number = (uint32_t)wc->wr_id;
	struct nvme_rdma_receive receive;
	const char *data;

	if (number >= fab->entries) {
		number -= fab->entries;
		data = own_capsule(device, number);
		if (well)
			take_capsule(rdma, NULL, wc, (const void *)data, data + sizeof(struct nvme_command));
		device->own_free[device->own_count++] = number;
		nvme_rdma_own_post(device);
		return;
	}
	receive = device->receives[number];
	device->free_numbers[device->free_count++] = number;
	data = (const char *)(uintptr_t)receive.address;
	if (well) {
		rdma->offered = &receive;
		take_capsule(rdma, &receive, wc,
			     (const void *)(data + receive.bytes - sizeof(struct nvme_command)), data);
		well = !rdma->offered;
		rdma->offered = NULL;
	}
	if (!well)
		nvme_rdma_receive_again(device, &receive);
}

static void completed(struct nvme_rdma_fab *fab, const struct ibv_wc *wc)
{
	struct fab_conn *conn = fab_conn_find(fab->fab, wc->qp_num);
	struct nvme_rdma *rdma = conn ? nvme_rdma(conn) : NULL;

	if (wc->wr_id & NVME_RDMA_RECEIVE)
		received(fab, wc, rdma);
	else if (!(wc->wr_id & NVME_RDMA_OWN))
		*nvme_rdma_done(fab, 0, 0) = *wc;
	else if (rdma)
		nvme_rdma_own_sent(rdma, wc->wr_id, wc->status == IBV_WC_SUCCESS);
}

static int give(struct nvme_rdma_fab *fab, struct ibv_wc *wc, int count)
{
	int got = 0;

	while (got < count && fab->done_head != fab->done_tail)
		wc[got++] = fab->done[fab->done_head++ & (NVME_RDMA_DONE - 1)];
	return got;
}

static int rdma_poll(struct fab *head, struct ibv_wc *wc, int count)
{
	struct nvme_rdma_fab *fab = nvme_rdma_fab(head);
	struct ibv_wc below[NVME_RDMA_BATCH];
	int got = give(fab, wc, count), found;

	if (fab->done_head != fab->done_tail)
		return got;
	nvme_rdma_work(fab);
	found = nvme_rdma_below->ops->poll(head, below, NVME_RDMA_BATCH);
	for (int i = 0; i < found; i++)
		completed(fab, &below[i]);
	return got + give(fab, wc + got, count - got);
}

/* -- events and timers --------------------------------------------------------------------------- */

void nvme_rdma_timer(struct nvme_rdma *rdma, uint64_t due_ns)
{
	rdma->due_ns = due_ns;
	if (due_ns && due_ns < rdma->fab->due_ns)
		rdma->fab->due_ns = due_ns;
}

static void timers_run(struct nvme_rdma_fab *fab)
{
	uint64_t now_ns = env_now_ns();
	struct nvme_rdma *rdma, *following;

	if (now_ns < fab->due_ns)
		return;
	fab->due_ns = UINT64_MAX;
	for (rdma = TAILQ_FIRST(&fab->all); rdma; rdma = following) {
		following = TAILQ_NEXT(rdma, link);
		if (!rdma->due_ns || rdma->closed)
			continue;
		if (now_ns < rdma->due_ns) {
			nvme_rdma_timer(rdma, rdma->due_ns);
			continue;
		}
		rdma->due_ns = 0;
		if (rdma->finishes)
			nvme_rdma_fail(rdma, -EPROTO);
		else if (rdma->queue)
			nvme_tick(rdma->queue);
		else
			nvme_rdma_lobby_end(rdma);
	}
}

/* One whose end this room has found. */
static bool failed_tell(struct nvme_rdma_fab *fab, struct fab_event *event)
{
	struct nvme_rdma *rdma = TAILQ_FIRST(&fab->failed);

	if (!rdma)
		return false;
	TAILQ_REMOVE(&fab->failed, rdma, failed_link);
	rdma->told = false;
	memset(event, 0, sizeof(*event));
	event->type = FAB_EVENT_DISCONNECTED;
	event->status = rdma->status;
	event->conn = rdma->conn;
	event->device = rdma->conn->device;
	return true;
}

/* The reactor ends what it has of a device when its own connections have ended: it hears of it after the others. */
static bool gone_keep(struct nvme_rdma_fab *fab, const struct fab_event *event)
{
	struct nvme_rdma_device *device = event->device ? &fab->devices[event->device->index] : NULL;

	if (event->type != FAB_EVENT_DEVICE_GONE || !device || device->device != event->device || !device->guests)
		return false;
	fab->gone += !device->gone;
	device->gone = true;
	return true;
}

static struct nvme_rdma_device *gone_find(struct nvme_rdma_fab *fab)
{
	for (unsigned int i = 0; fab->gone && i < FAB_DEVICES_MAX; i++)
		if (fab->devices[i].gone && !fab->devices[i].guests)
			return &fab->devices[i];
	return NULL;
}

static bool gone_tell(struct nvme_rdma_fab *fab, struct fab_event *event)
{
	struct nvme_rdma_device *device = gone_find(fab);

	if (!device)
		return false;
	device->gone = false;
	fab->gone--;
	*event = (struct fab_event){.type = FAB_EVENT_DEVICE_GONE, .device = device->device};
	return true;
}

static int poll_event(struct fab *head, struct fab_event *event)
{
	struct nvme_rdma_fab *fab = nvme_rdma_fab(head);

	if (++fab->skips >= LOOK_SKIPS) {
		fab->skips = 0;
		timers_run(fab);
	}
	if (failed_tell(fab, event) || gone_tell(fab, event) || (fab->has_mail && nvme_rdma_mail(fab, event)))
		return 1;
	while (nvme_rdma_below->ops->poll_event(head, event) > 0) {
		struct nvme_rdma *rdma = event->conn ? nvme_rdma(event->conn) : NULL;

		if (event->type == FAB_EVENT_REQUEST)
			nvme_rdma_greet(fab, event);
		else if (rdma && rdma->state != NVME_RDMA_ACCEPTED)
			nvme_rdma_lobby_event(rdma, event->type);
		else if (!gone_keep(fab, event))
			return 1;
	}
	return 0;
}

static int timeout_ms(const struct fab *head)
{
	const struct nvme_rdma_fab *fab = nvme_rdma_fab(head);
	int ms = nvme_rdma_below->ops->timeout_ms(head);
	uint64_t now_ns;

	if (fab->due_ns == UINT64_MAX)
		return ms;
	now_ns = env_now_ns();
	if (fab->due_ns <= now_ns)
		return 0;
	if (ms < 0 || fab->due_ns - now_ns < (uint64_t)ms * NS_PER_MS)
		ms = (int)((fab->due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
	return ms;
}

/* As with NVMe/TCP: controllers that were replaced end before an OPEN goes on (F5), and aborts are found. */
static int arm(struct fab *head)
{
	struct nvme_rdma_fab *fab = nvme_rdma_fab(head);
	struct nvme_rdma *rdma;
	unsigned int news;
	uint64_t told;
	int some;

	/* Before looking for the news that it tells of. */
	if (read(fab->eventfd, &told, sizeof(told)) < 0)
		told = 0; /* nobody has */
	news = nvme_controller_news(fab->news);
	some = nvme_rdma_below->ops->arm(head);
	if (news != fab->news) {
		fab->news = news;
		TAILQ_FOREACH(rdma, &fab->all, link)
			if (rdma->queue && !rdma->closed)
				nvme_check_end(rdma->queue);
	}
	fab->skips = LOOK_SKIPS;
	if (some)
		return some;
	return fab->done_head != fab->done_tail || !TAILQ_EMPTY(&fab->failed) || fab->has_mail ||
	       nvme_rdma_has_work(fab) || gone_find(fab);
}

/* -- the end of a connection, and of a device ---------------------------------------------------- */

static void conn_close(struct fab_conn *conn)
{
	struct nvme_rdma *rdma = nvme_rdma(conn);

	rdma->closed = true;
	rdma->due_ns = 0;
	nvme_rdma_idle(rdma);
	nvme_rdma_below->ops->conn_close(conn);
}

static void conn_destroy(struct fab_conn *conn)
{
	struct nvme_rdma *rdma = nvme_rdma(conn);
	struct nvme_rdma_fab *fab = rdma->fab;

	TAILQ_REMOVE(&fab->all, rdma, link);
	fab->load--;
	if (rdma->state == NVME_RDMA_ACCEPTED)
		rdma->device->queues--;
	else
		rdma->device->guests--;
	nvme_rdma_send_fini(rdma);
	if (rdma->queue)
		nvme_queue_free(rdma->queue);
	if (rdma->hello)
		nvme_forget_hello(rdma->hello);
	free(rdma);
	conn->above = NULL;
	nvme_rdma_below->ops->conn_destroy(conn);
}

static void host_id(const struct fab_conn *conn, uint8_t id[FAB_HOST_ID_BYTES])
{
	const struct nvme_rdma *rdma = nvme_rdma(conn);

	memcpy(id, (rdma->queue ? &rdma->queue->hello : rdma->hello)->identity.host_id, FAB_HOST_ID_BYTES);
}

static void device_release(struct fab_device *head)
{
	struct nvme_rdma_fab *fab = nvme_rdma_fab(head->fab);

	if (fab->devices[head->index].device == head)
		device_clear(&fab->devices[head->index]);
	if (nvme_rdma_below->ops->device_release)
		nvme_rdma_below->ops->device_release(head);
}

/* -- fabs ---------------------------------------------------------------------------------------- */

static void rdma_close(struct fab *head)
{
	struct nvme_rdma_fab *fab = nvme_rdma_fab(head);
	struct fab_event event;
	struct nvme_rdma *rdma;
	struct ibv_wc wc[NVME_RDMA_BATCH];

	nvme_rdma_lobby_leave(fab);
	nvme_controller_leave(fab->eventfd);
	/* Those in the lobby are nobody else's. Their draining has time limits. */
	head->options.helper = NULL;
	TAILQ_FOREACH(rdma, &fab->all, link)
		nvme_rdma_lobby_end(rdma);
	while (!TAILQ_EMPTY(&fab->all)) {
		nvme_rdma_below->ops->arm(head);
		rdma_poll(head, wc, NVME_RDMA_BATCH);
		if (!poll_event(head, &event))
			env_yield();
	}
	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++)
		device_clear(&fab->devices[i]);
	nvme_rdma_below->ops->close(head);
	close(fab->eventfd);
	free(fab);
}

static struct fab *rdma_open(const struct fab_options *options, char *error)
{
	struct nvme_rdma_fab *fab = calloc(1, sizeof(*fab));
	struct fab_options below = *options;
	struct fab *head;

	if (!fab) {
		snprintf(error, FAB_ERROR_BYTES, "RDMA: out of memory");
		return NULL;
	}
	fab->entries = options->srq_depth;
	fab->due_ns = UINT64_MAX;
	TAILQ_INIT(&fab->inbox);
	TAILQ_INIT(&fab->all);
	TAILQ_INIT(&fab->failed);
	TAILQ_INIT(&fab->woken);
	TAILQ_INIT(&fab->starved);
	below.recv_sge = 2;
	if (fab->entries)
		below.srq_depth += NVME_RDMA_OWN_RECEIVES;
	/* Apart, each has room: for the receives, and for two work requests of each and this room's own: a queue stands
	 * for eight receives at least. */
	below.apart = true;
	below.cq_depth = options->cq_depth + NVME_RDMA_LOBBY_MAX;
	static_assert(NVME_RDMA_PLACES * NVME_RDMA_PLACE_WRS <= RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS, "as said");
	head = nvme_rdma_below->ops->open(&below, error);
	if (!head) {
		free(fab);
		return NULL;
	}
	fab->eventfd = nvme_rdma_below->wake(head);
	if (fab->eventfd < 0) {
		snprintf(error, FAB_ERROR_BYTES, "RDMA: eventfd: %s", strerror(-fab->eventfd));
		nvme_rdma_below->ops->close(head);
		free(fab);
		return NULL;
	}
	fab->fab = head;
	head->above = fab;
	head->ops = &ops;
	nvme_controller_listen(fab->eventfd);
	nvme_rdma_lobby_join(fab);
	return head;
}

static int rdma_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
			fab_prepare_fn prepare, struct fab_conn **conn)
{
	return fab_fail(fab, -EOPNOTSUPP, "NVMe over RDMA: only hosts connect");
}

void nvme_rdma_init(void)
{
	ops = *nvme_rdma_below->ops;
	ops.kind = FAB_NVME_RDMA;
	ops.open = rdma_open;
	ops.close = rdma_close;
	ops.arm = arm;
	ops.arm_receives = NULL;
	ops.poll = rdma_poll;
	ops.poll_event = poll_event;
	ops.timeout_ms = timeout_ms;
	ops.accept = nvme_rdma_accept;
	ops.reject = nvme_rdma_reject;
	ops.request_device = nvme_rdma_request_device;
	ops.device_release = device_release;
	ops.connect = rdma_connect;
	ops.conn_establish = nvme_rdma_establish;
	ops.conn_refuse = nvme_rdma_refuse;
	ops.conn_close = conn_close;
	ops.conn_destroy = conn_destroy;
	ops.conn_host_id = host_id;
	ops.post_send = nvme_rdma_post_send;
	ops.post_srq_recv = post_srq_recv;
	fab_nvme_rdma_ops = &ops;
}

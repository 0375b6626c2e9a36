/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the queue pair of fabric_group.h, its memory and its membership. It uses the context of the device that rdma_cm has
 * opened, and reads no asynchronous events: completions tell that the queue pair has failed, and rdma_cm tells
 * that the device was removed.
 */
#include "proto/fabric/fabric_group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/fabric/fabric_verbs.h"

#define NS_PER_MS 1000000ull
#define JOIN_MS 1000
/* The kernel's errno for what it does not do, which user space has no name for. */
#define KERNEL_ENOTSUPP 524
/* With a hop limit of 1 nothing leaves the link. */
#define HOP_LIMIT 1
#define RECEIVE_BYTES (FAB_GROUP_HEADER_BYTES + FAB_GROUP_BYTES)
#define MEMORY_BYTES ((size_t)FAB_GROUP_RECEIVES * RECEIVE_BYTES + (size_t)FAB_GROUP_SENDS * FAB_GROUP_BYTES)
/* wr_id: a receive's number, or a send's behind them. */
#define SEND_ID FAB_GROUP_RECEIVES
#define NOTHING_DELIVERED FAB_GROUP_RECEIVES

struct group_send {
	bool busy;	   /* from posting to its completion */
	struct ibv_ah *ah; /* an answer's own; NULL: the group's */
};

struct fab_group {
	/* Made in this order; NULL until then. */
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint8_t *memory; /* receive buffers, then send buffers */
	struct ibv_mr *mr;
	bool join_asked; /* rdma_cm has to be asked to leave */
	struct ibv_ah *ah;
	struct sockaddr_storage address;
	char device[IBV_SYSFS_NAME_MAX];
	struct ibv_ah_attr ah_attr; /* of the join; answers have another destination */
	uint32_t qp_num, qkey;
	bool armed, ethernet;
	unsigned int delivered; /* the receive that the caller reads */
	char lost[FAB_ERROR_BYTES]; /* why; "": it works */
	struct group_send sends[FAB_GROUP_SENDS];
};

static socklen_t address_bytes(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* -errno; `error` is "DEVICE ADDRESS: WHAT: REASON". */
static int group_fail(const struct fab_group_options *options, const char *device, int err, const char *what,
		      char *error)
{
	const struct sockaddr *local = options->local;
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(local->sa_family,
		  local->sa_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)local)->sin6_addr :
						 (const void *)&((const struct sockaddr_in *)local)->sin_addr,
		  text, sizeof(text));
	snprintf(error, FAB_ERROR_BYTES, "%s%s%s: %s: %s", device, device[0] ? " " : "", text, what, strerror(err));
	return -err;
}

/* -- receives ---------------------------------------------------------------------------------- */

static uint8_t *receive_buffer(const struct fab_group *group, unsigned int i)
{
	return group->memory + (size_t)i * RECEIVE_BYTES;
}

/* 0 or errno. */
static int receive_post(struct fab_group *group, unsigned int i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)receive_buffer(group, i), .length = RECEIVE_BYTES, .lkey = group->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(group->id->qp, &wr, &bad);
}

/* -- joining ----------------------------------------------------------------------------------- */

/* 0 or errno, with what failed. */
static int group_bind(struct fab_group *group, const struct fab_group_options *options, const char **what)
{
	struct sockaddr_storage local = {0};

	*what = "rdma_cm";
	group->events = rdma_create_event_channel();
	if (!group->events)
		return errno;
	if (fcntl(group->events->fd, F_SETFL, O_NONBLOCK) ||
	    rdma_create_id(group->events, &group->id, group, RDMA_PS_UDP))
		return errno;
	/* Any port: those of UD messages do not exist on the wire. */
	memcpy(&local, options->local, address_bytes(options->local));
	((struct sockaddr_in *)&local)->sin_port = 0; /* in the same place in both families */
	*what = "not an RDMA device's address";
	if (rdma_bind_addr(group->id, (struct sockaddr *)&local))
		return errno == EADDRNOTAVAIL ? ENODEV : errno;
	if (!group->id->verbs)
		return ENODEV;
	snprintf(group->device, sizeof(group->device), "%s", ibv_get_device_name(group->id->verbs->device));
	*what = "multicast";
	return group->id->verbs->device->transport_type == IBV_TRANSPORT_IB ? 0 : EOPNOTSUPP;
}

/* 0 or errno, with what failed. */
static int group_create_qp(struct fab_group *group, const char **what)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = FAB_GROUP_SENDS, .max_recv_wr = FAB_GROUP_RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct ibv_context *verbs = group->id->verbs;
	int err = 0;

	*what = "a queue pair for multicast";
	group->pd = ibv_alloc_pd(verbs);
	if (!group->pd)
		return errno;
	group->channel = ibv_create_comp_channel(verbs);
	if (!group->channel || fcntl(group->channel->fd, F_SETFL, O_NONBLOCK))
		return errno;
	group->cq = ibv_create_cq(verbs, FAB_GROUP_SENDS + FAB_GROUP_RECEIVES, NULL, group->channel, 0);
	if (!group->cq)
		return errno;
	group->memory = calloc(1, MEMORY_BYTES);
	if (!group->memory)
		return ENOMEM;
	group->mr = ibv_reg_mr(group->pd, group->memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!group->mr)
		return errno;
	init.send_cq = init.recv_cq = group->cq;
	if (rdma_create_qp(group->id, group->pd, &init))
		return errno;
	for (unsigned int i = 0; i < FAB_GROUP_RECEIVES && !err; i++)
		err = receive_post(group, i);
	return err;
}

/* Waits for the event that answers the join, JOIN_MS at most. 0 or errno. */
static int group_wait_joined(struct fab_group *group)
{
	struct pollfd polled = {.fd = group->events->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	uint64_t end_ns = env_now_ns() + JOIN_MS * NS_PER_MS;
	int err = 0;

	while (rdma_get_cm_event(group->events, &event)) {
		uint64_t now_ns = env_now_ns();

		if (errno != EAGAIN)
			return errno;
		if (now_ns >= end_ns)
			return ETIMEDOUT;
		if (poll(&polled, 1, (int)((end_ns - now_ns) / NS_PER_MS) + 1) < 0 && errno != EINTR)
			return errno;
	}
	if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN) {
		group->ah_attr = event->param.ud.ah_attr;
		group->qp_num = event->param.ud.qp_num;
		group->qkey = event->param.ud.qkey;
	} else if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		err = ENODEV;
	} else {
		err = event->status < 0 ? -event->status : event->status ? event->status : EIO;
	}
	rdma_ack_cm_event(event);
	return err;
}

/* 0 or errno, with what failed. */
static int group_enter(struct fab_group *group, const struct fab_group_options *options, const char **what)
{
	struct rdma_cm_join_mc_attr_ex join = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = options->listen ? RDMA_MC_JOIN_FLAG_FULLMEMBER : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&group->address,
	};
	struct ibv_port_attr port;
	int err;

	*what = "joining the multicast group";
	err = ibv_query_port(group->id->verbs, group->id->port_num, &port);
	if (err)
		return err;
	group->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	memcpy(&group->address, options->group, address_bytes(options->group));
	/* RoCE v2 has groups of IPv4 only. */
	if (rdma_join_multicast_ex(group->id, &join, group))
		return errno == KERNEL_ENOTSUPP || errno == ENOSYS ? EOPNOTSUPP : errno;
	group->join_asked = true;
	err = group_wait_joined(group);
	if (err)
		return err;
	group->ah_attr.grh.hop_limit = HOP_LIMIT;
	group->ah = ibv_create_ah(group->pd, &group->ah_attr);
	return group->ah ? 0 : errno;
}

int fab_group_join(const struct fab_group_options *options, struct fab_group **out, char *error)
{
	struct fab_group *group = calloc(1, sizeof(*group));
	const char *what = "";
	int err;

	*out = NULL;
	if (!group)
		return group_fail(options, "", ENOMEM, "multicast", error);
	group->delivered = NOTHING_DELIVERED;
	err = group_bind(group, options, &what);
	if (!err)
		err = group_create_qp(group, &what);
	if (!err)
		err = group_enter(group, options, &what);
	if (err) {
		if (err == ENODEV && group->device[0])
			snprintf(group->lost, sizeof(group->lost), "%s: removed meanwhile", group->device);
		err = group_fail(options, group->device, err, what, error);
		fab_group_leave(group);
		return err;
	}
	*out = group;
	return 0;
}

void fab_group_leave(struct fab_group *group)
{
	bool lost;

	if (!group)
		return;
	lost = group->lost[0];
	/* Detaches the queue pair from the group: before that it cannot be destroyed. */
	if (group->join_asked)
		rdma_leave_multicast(group->id, (struct sockaddr *)&group->address);
	if (group->id && group->id->qp)
		rdma_destroy_qp(group->id);
	for (unsigned int i = 0; i < FAB_GROUP_SENDS; i++)
		if (group->sends[i].ah)
			ibv_destroy_ah(group->sends[i].ah);
	if (group->ah)
		ibv_destroy_ah(group->ah);
	if (group->mr)
		ibv_dereg_mr(group->mr);
	free(group->memory);
	if (group->cq)
		ibv_destroy_cq(group->cq);
	if (group->channel)
		ibv_destroy_comp_channel(group->channel);
	if (group->pd)
		ibv_dealloc_pd(group->pd);
	if (group->id)
		rdma_destroy_id(group->id);
	if (group->events)
		rdma_destroy_event_channel(group->events);
	free(group);
	/* A driver that waits for its users waits for librdmacm's own context, too. */
	if (lost)
		verbs_devices_sync();
}

/* -- state ------------------------------------------------------------------------------------- */

const char *fab_group_device(const struct fab_group *group)
{
	return group->device;
}

bool fab_group_ethernet(const struct fab_group *group)
{
	return group->ethernet;
}

void fab_group_polled(const struct fab_group *group, struct pollfd *polled)
{
	polled[0] = (struct pollfd){.fd = group->events->fd, .events = POLLIN};
	polled[1] = (struct pollfd){.fd = group->channel->fd, .events = POLLIN};
}

static void group_lose(struct fab_group *group, const char *why)
{
	if (!group->lost[0])
		snprintf(group->lost, sizeof(group->lost), "%s: %s", group->device, why);
}

const char *fab_group_lost(struct fab_group *group)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(group->events, &event) == 0) {
		switch (event->event) {
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
			group_lose(group, "the device was removed");
			break;
		case RDMA_CM_EVENT_ADDR_CHANGE:
			group_lose(group, "its hardware address has changed");
			break;
		case RDMA_CM_EVENT_MULTICAST_ERROR:
			group_lose(group, "the fabric has ended the multicast group");
			break;
		default:
			break;
		}
		rdma_ack_cm_event(event);
	}
	return group->lost[0] ? group->lost : NULL;
}

/* -- receiving --------------------------------------------------------------------------------- */

static void send_end(struct group_send *send)
{
	if (send->ah)
		ibv_destroy_ah(send->ah);
	*send = (struct group_send){.busy = false};
}

/* One whose header does not say whom it is from is told, too: the caller bounds how many it takes. */
static void message_take(const struct fab_group *group, const struct ibv_wc *wc,
			 struct fab_group_message *message)
{
	const uint8_t *buffer = receive_buffer(group, (unsigned int)wc->wr_id);

	*message = (struct fab_group_message){.data = buffer};
	if (!(wc->wc_flags & IBV_WC_GRH) || wc->byte_len < FAB_GROUP_HEADER_BYTES || wc->byte_len > RECEIVE_BYTES ||
	    !fab_group_source(buffer, message->from))
		return;
	message->data = buffer + FAB_GROUP_HEADER_BYTES;
	message->length = wc->byte_len - FAB_GROUP_HEADER_BYTES;
	message->qp_num = wc->src_qp;
	message->lid = wc->slid;
	message->service_level = wc->sl;
	message->path_bits = wc->dlid_path_bits;
}

static void receive_again(struct fab_group *group, unsigned int i)
{
	if (receive_post(group, i))
		group_lose(group, "its queue pair takes no receive buffers");
}

/* True: a message. */
static bool group_complete(struct fab_group *group, const struct ibv_wc *wc, struct fab_group_message *message)
{
	if (wc->wr_id >= SEND_ID)
		send_end(&group->sends[wc->wr_id - SEND_ID]);
	if (wc->status) {
		group_lose(group, ibv_wc_status_str(wc->status));
		return false;
	}
	if (wc->wr_id >= SEND_ID)
		return false;
	message_take(group, wc, message);
	group->delivered = (unsigned int)wc->wr_id;
	return true;
}

/* Takes the event of an armed completion queue; another comes only when it is armed again. */
static void group_disarm(struct fab_group *group)
{
	struct ibv_cq *cq;
	void *context;

	if (group->armed && ibv_get_cq_event(group->channel, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		group->armed = false;
	}
}

bool fab_group_receive(struct fab_group *group, struct fab_group_message *message)
{
	struct ibv_wc wc;
	int found;

	if (group->delivered != NOTHING_DELIVERED)
		receive_again(group, group->delivered);
	group->delivered = NOTHING_DELIVERED;
	group_disarm(group);
	while (!group->lost[0]) {
		found = ibv_poll_cq(group->cq, 1, &wc);
		if (found < 0)
			group_lose(group, "its completion queue cannot be polled");
		else if (found && group_complete(group, &wc, message))
			return true;
		else if (!found && group->armed)
			return false;
		else if (!found && ibv_req_notify_cq(group->cq, 0))
			group_lose(group, "its completion queue cannot be armed");
		else if (!found)
			group->armed = true; /* and polled once more: what came before raises no event */
	}
	return false;
}

/* -- sending ----------------------------------------------------------------------------------- */

/* own: an answer's address handle, which the group owns on success only; NULL: the group's. 0 or -errno. */
static int group_post(struct fab_group *group, struct ibv_ah *own, uint32_t qp_num, const void *data,
		      size_t bytes)
{
	struct ibv_sge sge = {.length = (uint32_t)bytes, .lkey = group->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	unsigned int i = 0;
	uint8_t *buffer;
	int err;

	while (i < FAB_GROUP_SENDS && group->sends[i].busy)
		i++;
	if (i == FAB_GROUP_SENDS)
		return -EAGAIN;
	buffer = group->memory + (size_t)FAB_GROUP_RECEIVES * RECEIVE_BYTES + (size_t)i * FAB_GROUP_BYTES;
	memcpy(buffer, data, bytes);
	sge.addr = (uintptr_t)buffer;
	wr.wr_id = SEND_ID + i;
	wr.wr.ud.ah = own ? own : group->ah;
	wr.wr.ud.remote_qpn = qp_num;
	wr.wr.ud.remote_qkey = group->qkey;
	err = ibv_post_send(group->id->qp, &wr, &bad);
	if (!err)
		group->sends[i] = (struct group_send){.busy = true, .ah = own};
	return -err;
}

int fab_group_send(struct fab_group *group, const void *data, size_t bytes)
{
	return bytes > FAB_GROUP_BYTES ? -EMSGSIZE : group_post(group, NULL, group->qp_num, data, bytes);
}

int fab_group_answer(struct fab_group *group, const struct fab_group_message *message, const void *data,
		     size_t bytes)
{
	struct ibv_ah_attr attr = group->ah_attr;
	struct ibv_ah *ah;
	int err;

	if (bytes > FAB_GROUP_BYTES)
		return -EMSGSIZE;
	memcpy(attr.grh.dgid.raw, message->from, sizeof(attr.grh.dgid.raw));
	attr.dlid = message->lid;
	attr.sl = message->service_level;
	attr.src_path_bits = message->path_bits;
	attr.is_global = 1;
	ah = ibv_create_ah(group->pd, &attr);
	if (!ah)
		return -errno;
	err = group_post(group, ah, message->qp_num, data, bytes);
	if (err)
		ibv_destroy_ah(ah);
	return err;
}

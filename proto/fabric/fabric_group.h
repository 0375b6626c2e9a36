/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A multicast group of RDMA: a queue pair of unreliable datagrams (UD) on the device of one address of
 * this machine, which hears the group and sends to it, or only sends. rdma_cm joins the group
 * (RDMA_PS_UDP). For discovery; it has nothing to do with a struct fab. One thread at a time uses a group.
 *
 * Its memory is fixed when it is made. A datagram that comes while all receive buffers are full is lost; a send while
 * FAB_GROUP_SENDS are under way is refused.
 */
#ifndef RBLK_FABRIC_GROUP_H
#define RBLK_FABRIC_GROUP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define FAB_GROUP_BYTES 4096 /* the longest datagram: the largest path MTU of RDMA */
#define FAB_GROUP_RECEIVES 32
#define FAB_GROUP_SENDS 16
#define FAB_GROUP_FDS 2
#define FAB_GROUP_HEADER_BYTES 40 /* what a device puts in front of each datagram */

struct fab_group;

struct fab_group_options {
	const struct sockaddr *local; /* an address of this machine */
	const struct sockaddr *group; /* of the same family */
	bool listen;		      /* false: it sends there, and gets what is sent to the queue pair only */
};

/*
 * Makes a group, which the caller gives back by fab_group_leave(). Waits for rdma_cm, a second at most. 0, or -errno with
 * `error` (FAB_ERROR_BYTES), which names device, address and reason, and *group NULL. -ENODEV: the address is not an RDMA
 * device's. -EOPNOTSUPP: the device, or its kind, has no such groups.
 */
int fab_group_join(const struct fab_group_options *options, struct fab_group **group, char *error);
/* Leaves and frees. Sends that are under way may be lost. NULL: no effect. */
void fab_group_leave(struct fab_group *group);

const char *fab_group_device(const struct fab_group *group); /* "rxe0" */
/* Ethernet: the sources of datagrams are IP addresses; else they are InfiniBand's GIDs. */
bool fab_group_ethernet(const struct fab_group *group);

/* To be polled (POLLIN) when fab_group_receive() has found nothing. FAB_GROUP_FDS entries are filled. */
void fab_group_polled(const struct fab_group *group, struct pollfd *polled);
/* The device has gone, or no longer works, with the reason: only fab_group_leave() is left. NULL: it works. */
const char *fab_group_lost(struct fab_group *group);

struct fab_group_message {
	const void *data; /* until the next fab_group_receive() */
	size_t length;	  /* 0: its header is wrong, and it cannot be answered */
	uint8_t from[16]; /* IPv4 as IPv6 maps it */
	/* The way back, for fab_group_answer(). */
	uint32_t qp_num;
	uint16_t lid;
	uint8_t service_level, path_bits;
};
/* False: there is none. */
bool fab_group_receive(struct fab_group *group, struct fab_group_message *message);

/* 0; -EMSGSIZE; -EAGAIN: too many are under way; or another negative errno. */
int fab_group_send(struct fab_group *group, const void *data, size_t bytes);
/*
 * To the sender of the message only. The kernel finds the way there: that takes seconds if the address does not
 * answer ARP.
 */
int fab_group_answer(struct fab_group *group, const struct fab_group_message *message, const void *data,
		     size_t bytes);

/*
 * The source in the header: InfiniBand's or IPv6's, or, in its last 20 bytes, IPv4's. False: neither. Pure.
 */
bool fab_group_source(const uint8_t header[FAB_GROUP_HEADER_BYTES], uint8_t address[16]);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A block device in this process's memory, over a socket (nbd), for programs of the lab whose disks
 * fail in ways of their own. One thread serves; errors of the socket or the device end the process.
 */
#pragma once

#include <linux/nbd.h>
#include <stdbool.h>
#include <stdint.h>

#define NBD_DISK_BLOCK 4096u

/* What reads see. */
struct nbd_disk {
	unsigned char *memory;
	uint64_t bytes;
};
extern struct nbd_disk nbd_disk;

/* Called by the thread that serves. Both answer with nbd_disk_answer(), at once or later. */
struct nbd_disk_ops {
	/* `data` is the callee's, to free(); `fua`: durable when it is answered. */
	void (*write)(const struct nbd_request *request, unsigned char *data, bool fua);
	void (*flush)(const struct nbd_request *request);
};

uint64_t nbd_disk_from(const struct nbd_request *request);
uint32_t nbd_disk_length(const struct nbd_request *request);
/* The command is over, without an error. Any thread. */
void nbd_disk_answer(const struct nbd_request *request);
/* Serves until the device is disconnected. `flags`: more NBD_FLAG_ than flush. Exit status. */
int nbd_disk_run(const char *device, const char *megabytes, unsigned long flags,
		 const struct nbd_disk_ops *ops);
__attribute__((noreturn)) void nbd_disk_fail(const char *what);

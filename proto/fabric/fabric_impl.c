/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts that all kinds of fabric share, below them: the table that leads from a queue pair's
 * number to its connection, and the words of errors. Knows nothing of any kind.
 */
#include "proto/fabric/fabric_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- connections by queue pair number ----------------------------------------------------------
 *
 * Open addressing, linear probing, at most half full, so that a lookup is one or two loads. Created
 * with the first connection and freed with the last, so that implementations have nothing to do
 * for it. Removal closes the gap by moving later entries back: there are no tombstones, and
 * a table that has seen a million reconnections is as fast as a new one.
 */

struct fab_conn_slot {
	uint32_t qp_num;
	struct fab_conn *conn; /* NULL: free */
};

struct fab_conn_table {
	uint32_t mask; /* slots - 1; slots is a power of two */
	uint32_t used;
	struct fab_conn_slot slots[];
};

#define FAB_CONN_SLOTS_MIN 16

static uint32_t conn_table_home(const struct fab_conn_table *table, uint32_t qp_num)
{
	/* Numbers come in runs, or differ in high bits only: multiply, take the middle bits. */
	return (uint32_t)(((uint64_t)qp_num * 0x9e3779b1u) >> 16) & table->mask;
}

static struct fab_conn_table *conn_table_alloc(uint32_t slots)
{
	struct fab_conn_table *table =
		calloc(1, sizeof(*table) + slots * sizeof(struct fab_conn_slot));

	if (table)
		table->mask = slots - 1;
	return table;
}

static void conn_table_put(struct fab_conn_table *table, struct fab_conn *conn)
{
	uint32_t i = conn_table_home(table, conn->qp_num);

	while (table->slots[i].conn)
		i = (i + 1) & table->mask;
	table->slots[i].qp_num = conn->qp_num;
	table->slots[i].conn = conn;
	table->used++;
}

/* Room for one more at no more than half full. */
static int conn_table_reserve(struct fab *fab)
{
	struct fab_conn_table *old = fab->conns;
	struct fab_conn_table *table;
	uint32_t slots = old ? old->mask + 1 : 0;

	if (old && (old->used + 1) * 2 <= slots)
		return 0;
	table = conn_table_alloc(old ? slots * 2 : FAB_CONN_SLOTS_MIN);
	if (!table)
		return -ENOMEM;
	for (uint32_t i = 0; i < slots; i++)
		if (old->slots[i].conn)
			conn_table_put(table, old->slots[i].conn);
	free(old);
	fab->conns = table;
	return 0;
}

int fab_conn_table_insert(struct fab *fab, struct fab_conn *conn)
{
	int err;

	if (fab_conn_find(fab, conn->qp_num))
		return -EEXIST;
	err = conn_table_reserve(fab);
	if (err)
		return err;
	conn_table_put(fab->conns, conn);
	return 0;
}

/* Entries behind the gap move into it unless they would land before their home. */
static void conn_table_close_gap(struct fab_conn_table *table, uint32_t gap)
{
	uint32_t i = gap;

	for (;;) {
		uint32_t home;

		i = (i + 1) & table->mask;
		if (!table->slots[i].conn)
			break;
		home = conn_table_home(table, table->slots[i].qp_num);
		if (((i - home) & table->mask) < ((i - gap) & table->mask))
			continue;
		table->slots[gap] = table->slots[i];
		gap = i;
	}
	table->slots[gap].conn = NULL;
}

void fab_conn_table_remove(struct fab *fab, struct fab_conn *conn)
{
	struct fab_conn_table *table = fab->conns;
	uint32_t i;

	if (!table)
		return;
	for (i = conn_table_home(table, conn->qp_num); table->slots[i].conn != conn;
	     i = (i + 1) & table->mask)
		if (!table->slots[i].conn)
			return;
	conn_table_close_gap(table, i);
	if (--table->used == 0) {
		free(table);
		fab->conns = NULL;
	}
}

struct fab_conn *fab_conn_find(struct fab *fab, uint32_t qp_num)
{
	const struct fab_conn_table *table = fab->conns;

	if (!table)
		return NULL;
	for (uint32_t i = conn_table_home(table, qp_num); table->slots[i].conn;
	     i = (i + 1) & table->mask)
		if (table->slots[i].qp_num == qp_num)
			return table->slots[i].conn;
	return NULL;
}

/* -- errors ----------------------------------------------------------------------------------- */

int fab_fail(struct fab *fab, int error, const char *format, ...)
{
	char text[FAB_ERROR_BYTES];
	va_list args;

	/* Via a copy: the new text may quote the old one. */
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(fab->error, text, sizeof(text));
	return error;
}

const char *fab_lost_text(int status)
{
	if (!status)
		return "the connection was lost";
	if (status == -ECONNABORTED)
		return "TLS was cut off: the peer, or something on the way, has ended it without saying so";
	if (status == -EBADMSG)
		return "TLS: what arrived is not what the peer has sent";
	if (status == -ESTALE)
		return "its host has connected to the volume again";
	return strerror(-status);
}

void fab_conn_set_peer(struct fab_conn *conn, const struct sockaddr *peer)
{
	fab_format_address(peer, conn->peer, sizeof(conn->peer));
	fab_network_of(peer, conn->network);
}

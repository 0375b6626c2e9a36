/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The pages that hosts read of a controller, its namespace and the subsystems that there are. A subsystem is a volume:
 * its NQN has the volume's UUID, its one namespace is the volume, its model has the volume's name.
 */
#include "target/nvme/queue.h"

#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <uuid/uuid.h>

#define PAGE_SHIFT 12
#define NAMESPACE 1u

void nvme_subsystem_of(const __u8 uuid[16], char nqn[NVME_NQN_BYTES])
{
	memset(nqn, 0, NVME_NQN_BYTES);
	strcpy(nqn, NVME_UUID_PREFIX);
	uuid_unparse_lower(uuid, nqn + strlen(NVME_UUID_PREFIX));
}

/* The largest n with 2^n pages in so many bytes. */
static uint8_t pages_shift(uint64_t bytes)
{
	uint8_t n = 0;

	while ((2ull << (PAGE_SHIFT + n)) <= bytes)
		n++;
	return n;
}

/* Filled with blanks, without a zero at the end. */
static void text_fill(char *field, size_t bytes, const char *text)
{
	size_t length = strnlen(text, bytes);

	memset(field, ' ', bytes);
	memcpy(field, text, length);
}

static void identify_volume(const struct nvme_queue *queue, struct nvme_identify_controller *data)
{
	const struct rblk_wire_volume *volume = &queue->controller->volume;
	char serial[sizeof(data->serial) + 1], model[sizeof(volume->name) + 6];

	for (unsigned int i = 0; i < sizeof(data->serial) / 2; i++)
		snprintf(serial + 2 * i, 3, "%02x", volume->uuid[i]);
	text_fill(data->serial, sizeof(data->serial), serial);
	snprintf(model, sizeof(model), "rblk %s", volume->name);
	text_fill(data->model, sizeof(data->model), model);
	data->kind = 1;
	data->log_attributes = 2; /* there is that of commands and their effects */
	data->paths = NVME_PATHS;
	data->events = rblk_to_le32(NVME_EVENT_NAMESPACE | NVME_EVENT_ANA);
	data->ana_s = 10; /* hosts give up a path that changes for longer; none says that it does */
	data->ana = NVME_ANA_STATES;
	data->ana_group_most = data->ana_groups = rblk_to_le32(1);
	data->transfer = pages_shift(rblk_le32(volume->max_io_bytes));
	data->namespaces = data->namespaces_most = rblk_to_le32(1);
	data->commands = rblk_to_le16(NVME_ENTRIES_MAX);
	data->optional =
		rblk_to_le16(NVME_OPTIONAL_COMPARE | (nvme_has(queue, RBLK_VOLUME_DISCARD) ? NVME_OPTIONAL_DSM : 0) |
			     (nvme_has(queue, RBLK_VOLUME_WRITE_ZEROES) ? NVME_OPTIONAL_ZEROES : 0) |
			     (nvme_has(queue, RBLK_VOLUME_RESERVATIONS) ? NVME_OPTIONAL_RESERVATIONS : 0) |
			     (nvme_has(queue, RBLK_VOLUME_CHECKSUM) ? NVME_OPTIONAL_VERIFY : 0));
	if (nvme_fused_bytes(queue)) {
		data->fused = rblk_to_le16(1);
		data->atomic_compare = rblk_to_le16((uint16_t)(nvme_fused_bytes(queue) / nvme_block_bytes(queue) - 1));
	}
	data->write_cache = nvme_has(queue, RBLK_VOLUME_VOLATILE_CACHE);
	data->command_units = rblk_to_le32((sizeof(struct nvme_command) + NVME_CAPSULE_BYTES) / 16);
	data->response_units = rblk_to_le32(sizeof(struct nvme_completion) / 16);
}

static void identify_discovery(struct nvme_identify_controller *data)
{
	text_fill(data->serial, sizeof(data->serial), "0");
	text_fill(data->model, sizeof(data->model), "rblk");
	data->kind = 2;
	data->transfer = pages_shift(NVME_LOG_BYTES);
	data->commands = rblk_to_le16(NVME_ADMIN_ENTRIES_MAX);
}

static void identify_controller(const struct nvme_queue *queue, struct nvme_identify_controller *data)
{
	const struct nvme_controller *controller = queue->controller;

	if (controller->discovery)
		identify_discovery(data);
	else
		identify_volume(queue, data);
	text_fill(data->firmware, sizeof(data->firmware), "1");
	data->id = rblk_to_le16(controller->id);
	data->version = rblk_to_le32(NVME_VERSION);
	data->aborts = NVME_ABORTS_MAX - 1;
	data->errors = NVME_ERRORS_MAX - 1;
	data->async_events = NVME_EVENTS_MAX - 1;
	data->firmware_updates = 3; /* one slot, which nobody writes */
	data->keep_alive = rblk_to_le16(10);
	data->sq_entry = 0x66;
	data->cq_entry = 0x44;
	/* SGLs, without alignment; and the data of a capsule has an offset. With keys where the transport has them. */
	data->sgls = rblk_to_le32(1u | 1u << 20 | (queue->transport->keyed ? 1u << 2 : 0));
	data->descriptors = 1;
	memcpy(data->subsystem, controller->identity.subsystem, sizeof(data->subsystem));
}

static void identify_namespace(const struct nvme_queue *queue, struct nvme_identify_namespace *data)
{
	const struct rblk_wire_volume *volume = &queue->controller->volume;
	uint32_t shift = (uint32_t)__builtin_ctz(nvme_block_bytes(queue));

	data->blocks = data->capacity = data->used = volume->blocks;
	data->attributes = nvme_has(queue, RBLK_VOLUME_READ_ONLY);
	data->paths = 1; /* other controllers have it, too */
	data->group = rblk_to_le32(1);
	if (nvme_has(queue, RBLK_VOLUME_RESERVATIONS))
		data->reservations =
			NVME_RESERVATIONS_ALL |
			(nvme_has(queue, RBLK_VOLUME_RESERVATIONS_PERSIST) ? NVME_RESERVATIONS_PERSIST : 0);
	memcpy(data->nguid, volume->uuid, sizeof(data->nguid));
	data->format_0 = rblk_to_le32(shift << 16);
}

/* Type, length, two reserved bytes, and the identifier: the UUID, the same as NGUID, the command set. */
static void identify_descriptors(const struct nvme_queue *queue, uint8_t *data)
{
	const struct rblk_wire_volume *volume = &queue->controller->volume;

	data[0] = 3;
	data[1] = sizeof(volume->uuid);
	memcpy(data + 4, volume->uuid, sizeof(volume->uuid));
	data[20] = 2;
	data[21] = sizeof(volume->uuid);
	memcpy(data + 24, volume->uuid, sizeof(volume->uuid));
	data[40] = 4;
	data[41] = 1;
}

static void identify_set(const struct nvme_queue *queue, struct nvme_identify_set *data)
{
	const struct rblk_wire_volume *volume = &queue->controller->volume;
	uint32_t most = rblk_le32(volume->max_discard_blocks);

	/* A count has 16 bits: only less is a limit. */
	if (most && most <= 0xffff)
		data->zeroes = pages_shift((uint64_t)most * nvme_block_bytes(queue));
}

uint16_t nvme_identify(const struct nvme_queue *queue, const struct nvme_command *command, void *data)
{
	uint32_t namespace = rblk_le32(command->namespace), cns = rblk_le32(command->word[0]) & 0xff;
	bool is_one = namespace == NAMESPACE && !queue->absent;

	/* The NVM command set alone. */
	if (rblk_le32(command->word[1]) >> 24 || (queue->controller->discovery && cns != NVME_CNS_CONTROLLER))
		return NVME_BAD_FIELD;
	switch (cns) {
	case NVME_CNS_CONTROLLER:
		identify_controller(queue, data);
		return NVME_OK;
	case NVME_CNS_NAMESPACE: /* zeroes of one that is not active */
		if (is_one)
			identify_namespace(queue, data);
		return namespace == NAMESPACE ? NVME_OK : NVME_BAD_NAMESPACE;
	case NVME_CNS_NAMESPACES: /* beyond the one that is named */
		if (namespace >= 0xfffffffe)
			return NVME_BAD_NAMESPACE;
		if (namespace < NAMESPACE && !queue->absent)
			*(__le32 *)data = rblk_to_le32(NAMESPACE);
		return NVME_OK;
	case NVME_CNS_DESCRIPTORS:
		if (is_one)
			identify_descriptors(queue, data);
		return is_one ? NVME_OK : NVME_BAD_NAMESPACE;
	case NVME_CNS_SET_NAMESPACE: /* nothing beyond the common */
		return is_one ? NVME_OK : NVME_BAD_NAMESPACE;
	case NVME_CNS_SET_CONTROLLER:
		identify_set(queue, data);
		return NVME_OK;
	default:
		return NVME_BAD_FIELD;
	}
}

uint64_t nvme_hash(uint64_t seed, const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < bytes; i++)
		seed = (seed ^ byte[i]) * 0x100000001b3ull;
	return seed;
}

/* -- the discovery log page ---------------------------------------------------------------------- */

/* It changes with the list. */
static uint64_t generation(const struct nvme_queue *queue)
{
	return nvme_hash(NVME_HASH_SEED, queue->uuids, queue->listed * sizeof(*queue->uuids));
}

/* The address that the host has reached this queue at serves the subsystems, too. */
static void entry_fill(const struct nvme_queue *queue, const __u8 uuid[16], struct nvme_discovery_entry *entry)
{
	struct sockaddr_storage address = {0};
	const struct sockaddr_in6 *in6 = (const void *)&address;
	const struct sockaddr_in *in = (const void *)&address;
	bool v4;

	memset(entry, 0, sizeof(*entry));
	queue->transport->local(queue, &address);
	v4 = address.ss_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
	entry->transport = queue->transport->kind;
	entry->family = v4 ? 1 : 2;
	entry->kind = 2;
	entry->port = rblk_to_le16(1);
	entry->controller = rblk_to_le16(NVME_CONTROLLER_ANY);
	entry->admin_entries = rblk_to_le16(NVME_ADMIN_ENTRIES_MAX);
	snprintf(entry->service, sizeof(entry->service), "%u", ntohs(in->sin_port)); /* in the same place in both */
	if (address.ss_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, entry->address, sizeof(entry->address));
	else
		inet_ntop(v4 ? AF_INET : AF_INET6, in6->sin6_addr.s6_addr + (v4 ? 12 : 0), entry->address,
			  sizeof(entry->address));
	nvme_subsystem_of(uuid, entry->subsystem);
	/* A host that has come by TLS (1.3) has to come by it. */
	if (queue->hello.tls) {
		entry->requirements = NVME_SECURE_REQUIRED;
		entry->specific[0] = NVME_SECURE_TLS13;
	}
	/* RDMA: connected queue pairs, of whatever provider, by the connection manager of RDMA. */
	if (queue->transport->keyed)
		entry->specific[0] = entry->specific[1] = entry->specific[2] = 1;
}

void nvme_discovery_log(const struct nvme_queue *queue, uint64_t offset, uint32_t bytes, uint8_t *data)
{
	struct nvme_discovery header = {
		.generation = rblk_to_le64(generation(queue)),
		.records = rblk_to_le64(queue->listed),
	};
	struct nvme_discovery_entry entry;
	uint32_t done = 0;

	/* Piece by piece: each record is as long as the header. */
	while (done < bytes) {
		uint64_t at = offset + done, index = at / sizeof(entry);
		uint32_t skip = (uint32_t)(at % sizeof(entry)), part = (uint32_t)sizeof(entry) - skip;

		if (part > bytes - done)
			part = bytes - done;
		if (index > queue->listed)
			return; /* zeroes */
		if (index)
			entry_fill(queue, queue->uuids[index - 1], &entry);
		memcpy(data + done, (const uint8_t *)(index ? (const void *)&entry : (const void *)&header) + skip,
		       part);
		done += part;
	}
}

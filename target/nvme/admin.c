/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands of an admin queue: properties, identify, features, log pages, keep-alive, abort, asynchronous events. What
 * is not there is refused as the specification says.
 */
#include "target/nvme/queue.h"

#include <stdlib.h>
#include <string.h>

static void refuse(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t status)
{
	nvme_respond(queue, slot, status | NVME_NO_RETRY, 0);
}

/* Zeroes, for which the host has room, exactly. NULL: it is refused. */
static uint8_t *data_for(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t bytes)
{
	uint16_t status = !nvme_is_remote(queue, &slot->command)			? NVME_BAD_SGL_TYPE
			  : nvme_data_length(queue, &slot->command) != bytes ? NVME_BAD_SGL_LENGTH
									     : NVME_INTERNAL;
	uint8_t *data = status == NVME_INTERNAL ? calloc(1, bytes) : NULL;

	if (!data)
		refuse(queue, slot, status);
	return data;
}

/* -- properties ---------------------------------------------------------------------------------- */

static bool property_get(const struct nvme_queue *queue, uint32_t offset, bool wide, uint64_t *value)
{
	/* Queues of so many entries, contiguous, the NVM command set, ready within 10 s. */
	const uint64_t cap = (NVME_ENTRIES_MAX - 1) | 1ull << 16 | 20ull << 24 | 1ull << 37;

	switch (offset) {
	case NVME_CAP:
		*value = cap;
		return wide;
	case NVME_VS:
		*value = NVME_VERSION;
		return !wide;
	case NVME_CC:
		*value = queue->configuration;
		return !wide;
	case NVME_CSTS:
		*value = queue->status;
		return !wide;
	default:
		return false;
	}
}

static void configure(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t value)
{
	bool shuts = value & NVME_CC_SHUTDOWN && !(queue->configuration & NVME_CC_SHUTDOWN);

	queue->configuration = value;
	queue->controller->enabled = value & NVME_CC_ENABLE;
	queue->status = value & NVME_CC_ENABLE ? NVME_CSTS_READY | (queue->status & NVME_CSTS_SHUT) : 0;
	/* The host is done with the volume: it is closed when the last command has ended. */
	if (shuts && !queue->controller->discovery) {
		nvme_step_begin(queue, NVME_STEP_CLOSE, slot);
		return;
	}
	if (shuts)
		queue->status |= NVME_CSTS_SHUT;
	nvme_respond(queue, slot, NVME_OK, 0);
}

static void fabrics(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint32_t offset = nvme_word(slot, 11);
	bool wide = nvme_word(slot, 10) & 1;
	uint64_t value;

	switch (rblk_le32(slot->command.namespace) & 0xff) {
	case NVME_PROPERTY_GET:
		if (property_get(queue, offset, wide, &value))
			nvme_respond(queue, slot, NVME_OK, value);
		else
			refuse(queue, slot, NVME_BAD_FIELD);
		break;
	case NVME_PROPERTY_SET:
		if (offset != NVME_CC || wide || queue->held)
			refuse(queue, slot, NVME_BAD_FIELD);
		else if (queue->step)
			queue->held = slot;
		else
			configure(queue, slot, nvme_word(slot, 12));
		break;
	case NVME_CONNECT:
		refuse(queue, slot, NVME_BAD_SEQUENCE);
		break;
	default:
		refuse(queue, slot, NVME_BAD_OPCODE);
	}
}

/* -- features ------------------------------------------------------------------------------------ */

/* Finds the value of a feature that is kept here. Returns a status. */
static uint16_t feature_find(const struct nvme_queue *queue, const struct nvme_slot *slot, uint32_t *value)
{
	const struct nvme_controller *controller = queue->controller;
	uint32_t namespace = rblk_le32(slot->command.namespace), most = controller->queues - 2u, flag;
	bool sets = slot->command.opcode == NVME_SET_FEATURES, discovery = controller->discovery;

	switch (nvme_word(slot, 10) & 0xff) {
	case NVME_FEATURE_QUEUES:
		*value = most << 16 | most; /* without this one, and 0's based */
		return discovery || controller->queues < 2 ? NVME_BAD_FIELD : NVME_OK;
	case NVME_FEATURE_KEEP_ALIVE:
		*value = queue->hello.keep_alive_ms;
		return NVME_OK;
	case NVME_FEATURE_EVENTS:
		*value = queue->event_configuration;
		return NVME_OK;
	case NVME_FEATURE_WRITE_CACHE:
		*value = !discovery && nvme_has(queue, RBLK_VOLUME_VOLATILE_CACHE);
		return discovery ? NVME_BAD_FIELD : NVME_OK;
	case NVME_FEATURE_RESERVATION_MASK:
		flag = RBLK_VOLUME_RESERVATIONS;
		break;
	case NVME_FEATURE_RESERVATION_PERSISTENCE:
		flag = RBLK_VOLUME_RESERVATIONS_PERSIST;
		break;
	default:
		return NVME_BAD_FIELD;
	}
	/* These are a namespace's. */
	*value = controller->notices.mask;
	if (discovery || !nvme_has(queue, flag))
		return NVME_BAD_FIELD;
	return namespace == 1 || (sets && namespace == 0xffffffff) ? NVME_OK : NVME_BAD_NAMESPACE;
}

/* now: what feature_find() has found. A status. */
static uint16_t feature_set(struct nvme_queue *queue, uint8_t feature, uint32_t value, uint32_t now)
{
	switch (feature) {
	case NVME_FEATURE_QUEUES:
		return (value & 0xffff) == 0xffff || value >> 16 == 0xffff ? NVME_BAD_FIELD : NVME_OK;
	case NVME_FEATURE_KEEP_ALIVE:
		queue->hello.keep_alive_ms = value;
		return NVME_OK;
	case NVME_FEATURE_EVENTS:
		queue->event_configuration = value;
		return NVME_OK;
	case NVME_FEATURE_WRITE_CACHE:
		return (value & 1) == now ? NVME_OK : NVME_NOT_CHANGEABLE;
	default: /* the mask of reservations' notices */
		queue->controller->notices.mask = value & NVME_RESERVATION_MASKS;
		return NVME_OK;
	}
}

/* Asks rblk: only REGISTER changes it. */
static void ask_persists(struct nvme_queue *queue, struct nvme_slot *slot)
{
	slot->reserves = true;
	slot->wire = (struct rblk_wire_command){.volume = rblk_to_le32(1)};
	nvme_reserve_begin(queue, slot);
}

void nvme_admin_persists(struct nvme_queue *queue, struct nvme_slot *slot, bool persists)
{
	if (slot->command.opcode == NVME_SET_FEATURES && (nvme_word(slot, 11) & 1) != persists)
		refuse(queue, slot, NVME_NOT_CHANGEABLE);
	else
		nvme_respond(queue, slot, NVME_OK, persists);
}

/* The host identifier, of 16 bytes. */
static void get_host_id(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint8_t *data;

	if (!(nvme_word(slot, 11) & 1)) {
		refuse(queue, slot, NVME_BAD_FIELD);
		return;
	}
	data = data_for(queue, slot, sizeof(queue->hello.identity.host_id));
	if (!data)
		return;
	memcpy(data, queue->hello.identity.host_id, sizeof(queue->hello.identity.host_id));
	nvme_respond_data(queue, slot, data, sizeof(queue->hello.identity.host_id));
}

static void features(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint32_t word10 = nvme_word(slot, 10), value = 0;
	bool sets = slot->command.opcode == NVME_SET_FEATURES;
	uint8_t feature = word10 & 0xff;
	uint16_t status;

	/* No value outlives the controller, and only current ones can be read. */
	if (word10 & (sets ? 1u << 31 : 0x700u)) {
		refuse(queue, slot, NVME_BAD_FIELD);
		return;
	}
	if (feature == NVME_FEATURE_HOST_ID && !sets) {
		get_host_id(queue, slot);
		return;
	}
	status = feature_find(queue, slot, &value);
	if (!status && feature == NVME_FEATURE_RESERVATION_PERSISTENCE) {
		ask_persists(queue, slot);
		return;
	}
	if (!status && sets)
		status = feature_set(queue, feature, nvme_word(slot, 11), value);
	if (status)
		refuse(queue, slot, status);
	else
		nvme_respond(queue, slot, NVME_OK, sets && feature != NVME_FEATURE_QUEUES ? 0 : value);
	nvme_event_tell(queue);
}

/* -- identify, log pages ------------------------------------------------------------------------- */

static void identify(struct nvme_queue *queue, struct nvme_slot *slot)
{
	void *data = data_for(queue, slot, NVME_IDENTIFY_BYTES);
	uint16_t status;
	bool sees;

	if (!data)
		return;
	status = nvme_identify(queue, &slot->command, data);
	if (status) {
		free(data);
		refuse(queue, slot, status);
		return;
	}
	sees = queue->absent && (nvme_word(slot, 10) & 0xff) == NVME_CNS_NAMESPACES;
	nvme_respond_data(queue, slot, data, NVME_IDENTIFY_BYTES);
	if (sees)
		nvme_event_seen(queue);
}

struct log_range {
	uint64_t offset;
	uint64_t bytes;
};

static struct log_range log_range(const struct nvme_slot *slot)
{
	return (struct log_range){
		.offset = (uint64_t)nvme_word(slot, 13) << 32 | nvme_word(slot, 12),
		.bytes = (((uint64_t)(nvme_word(slot, 11) & 0xffff) << 16 | nvme_word(slot, 10) >> 16) + 1) * 4,
	};
}

/*
 * Fills a log page that is kept here: changed namespaces, ANA, errors, health (a healthy medium, and how many errors),
 * one slot of firmware, notices of reservations; the others are log.c's.
 */
static void log_fill(struct nvme_queue *queue, const struct nvme_slot *slot, uint8_t *data, uint64_t bytes)
{
	bool keeps = nvme_word(slot, 10) & NVME_LOG_KEEPS;
	uint8_t page = nvme_word(slot, 10) & 0xff;

	if (page == NVME_LOG_CHANGED) {
		*(__le32 *)data = rblk_to_le32(nvme_event_read(queue, NVME_EVENT_NAMESPACE, keeps));
	} else if (page == NVME_LOG_ANA) {
		nvme_event_read(queue, NVME_EVENT_ANA, keeps);
		nvme_path_log(queue, nvme_word(slot, 10) & NVME_LOG_GROUPS, data, bytes);
	} else if (page == NVME_LOG_ERRORS) {
		nvme_errors_read(&queue->controller->errors, data, bytes);
	} else if (page == NVME_LOG_HEALTH && bytes >= 5) {
		__le64 errors = rblk_to_le64(nvme_errors_read(&queue->controller->errors, NULL, 0));

		data[3] = 100; /* spare, in percent */
		data[4] = 10;
		if (bytes >= NVME_HEALTH_ERRORS + sizeof(errors))
			memcpy(data + NVME_HEALTH_ERRORS, &errors, sizeof(errors));
	} else if (page == NVME_LOG_FIRMWARE && bytes) {
		data[0] = 1;
	} else if (page == NVME_LOG_RESERVATIONS) {
		nvme_notice_read(queue, keeps, data, bytes);
	} else if (page == NVME_LOG_PAGES) {
		nvme_log_pages(data, bytes);
	} else if (page == NVME_LOG_EFFECTS) {
		nvme_log_effects(queue, data, bytes);
	}
}

void nvme_admin_listed(struct nvme_queue *queue, struct nvme_slot *slot)
{
	struct log_range range = log_range(slot);
	uint8_t *data = data_for(queue, slot, (uint32_t)range.bytes);

	if (!data)
		return;
	if (queue->controller->discovery)
		nvme_discovery_log(queue, range.offset, (uint32_t)range.bytes, data);
	else
		log_fill(queue, slot, data, range.bytes);
	nvme_respond_data(queue, slot, data, (uint32_t)range.bytes);
	nvme_notice_news(queue);
}

static void get_log_page(struct nvme_queue *queue, struct nvme_slot *slot)
{
	struct log_range range = log_range(slot);
	bool discovery = queue->controller->discovery;

	if (!nvme_log_has(queue, nvme_word(slot, 10) & 0xff)) {
		refuse(queue, slot, NVME_BAD_LOG_PAGE);
	} else if (range.bytes > NVME_LOG_BYTES || range.offset % 4 ||
		   (!discovery && (range.offset || range.bytes > 4096))) {
		refuse(queue, slot, NVME_BAD_FIELD);
	} else if (discovery && !range.offset && !queue->step) {
		/* From its beginning it is read anew. */
		queue->listed = queue->busy = 0;
		nvme_step_begin(queue, NVME_STEP_LIST, slot);
	} else {
		nvme_admin_listed(queue, slot);
	}
}

/* -- which is which ------------------------------------------------------------------------------ */

void nvme_admin(struct nvme_queue *queue, struct nvme_slot *slot)
{
	if (slot->command.flags != NVME_FLAGS_SGL) {
		refuse(queue, slot, NVME_BAD_FIELD);
		return;
	}
	switch (slot->command.opcode) {
	case NVME_FABRICS:
		fabrics(queue, slot);
		break;
	case NVME_IDENTIFY:
		identify(queue, slot);
		break;
	case NVME_SET_FEATURES:
	case NVME_GET_FEATURES:
		features(queue, slot);
		break;
	case NVME_GET_LOG_PAGE:
		get_log_page(queue, slot);
		break;
	case NVME_KEEP_ALIVE:
		nvme_respond(queue, slot, NVME_OK, 0);
		break;
	case NVME_ABORT:
		nvme_abort(queue, slot);
		break;
	case NVME_ASYNC_EVENT:
		if (queue->event_count == NVME_EVENTS_MAX) {
			refuse(queue, slot, NVME_TOO_MANY_EVENTS);
			break;
		}
		queue->events[queue->event_count++] = slot;
		nvme_event_tell(queue);
		break;
	default:
		refuse(queue, slot, NVME_BAD_OPCODE);
	}
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands of an admin queue: properties, identify, features, log pages, keep-alive, abort, asynchronous events. What
 * is not there is refused as the specification says.
 */
#include "target/nvme/queue.h"

#include <stdlib.h>
#include <string.h>

static uint32_t word(const struct nvme_slot *slot, unsigned int number)
{
	return rblk_le32(slot->command.word[number - 10]);
}

static void refuse(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t status)
{
	nvme_respond(queue, slot, status | NVME_NO_RETRY, 0);
}

/* Does the host have room for exactly so much? If not it is refused. */
static bool has_room(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t bytes)
{
	uint16_t status = !nvme_is_remote(queue, &slot->command)			? NVME_BAD_SGL_TYPE
			  : nvme_data_length(queue, &slot->command) != bytes ? NVME_BAD_SGL_LENGTH
									     : NVME_OK;

	if (status)
		refuse(queue, slot, status);
	return !status;
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
	uint32_t offset = word(slot, 11);
	bool wide = word(slot, 10) & 1;
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
			configure(queue, slot, word(slot, 12));
		break;
	case NVME_CONNECT:
		refuse(queue, slot, NVME_BAD_SEQUENCE);
		break;
	default:
		refuse(queue, slot, NVME_BAD_OPCODE);
	}
}

/* -- features ------------------------------------------------------------------------------------ */

static uint32_t queues_feature(const struct nvme_queue *queue)
{
	uint32_t most = queue->controller->queues - 2u; /* without this one, and 0's based */

	return most << 16 | most;
}

/* That of a namespace: nobody is told of reservations; whether they persist is REGISTER's to change. */
static void reservation_feature(struct nvme_queue *queue, struct nvme_slot *slot)
{
	bool mask = (word(slot, 10) & 0xff) == NVME_FEATURE_RESERVATION_MASK;
	bool sets = slot->command.opcode == NVME_SET_FEATURES;
	uint32_t namespace = rblk_le32(slot->command.namespace);

	if (queue->controller->discovery ||
	    !nvme_has(queue, mask ? RBLK_VOLUME_RESERVATIONS : RBLK_VOLUME_RESERVATIONS_PERSIST)) {
		refuse(queue, slot, NVME_BAD_FIELD);
	} else if (namespace != 1 && !(sets && namespace == 0xffffffff)) {
		refuse(queue, slot, NVME_BAD_NAMESPACE);
	} else if (!mask) {
		slot->reserves = true;
		slot->wire = (struct rblk_wire_command){.volume = rblk_to_le32(1)};
		nvme_reserve_begin(queue, slot);
	} else if (sets && word(slot, 11) != NVME_RESERVATION_MASKED) {
		refuse(queue, slot, NVME_NOT_CHANGEABLE);
	} else {
		nvme_respond(queue, slot, NVME_OK, NVME_RESERVATION_MASKED);
	}
}

void nvme_admin_persists(struct nvme_queue *queue, struct nvme_slot *slot, bool persists)
{
	if (slot->command.opcode == NVME_SET_FEATURES && (word(slot, 11) & 1) != persists)
		refuse(queue, slot, NVME_NOT_CHANGEABLE);
	else
		nvme_respond(queue, slot, NVME_OK, persists);
}

/* The host identifier, of 16 bytes. */
static void get_host_id(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint8_t *data;

	if (!(word(slot, 11) & 1)) {
		refuse(queue, slot, NVME_BAD_FIELD);
		return;
	}
	if (!has_room(queue, slot, sizeof(queue->hello.identity.host_id)))
		return;
	data = malloc(sizeof(queue->hello.identity.host_id));
	if (!data) {
		refuse(queue, slot, NVME_INTERNAL);
		return;
	}
	memcpy(data, queue->hello.identity.host_id, sizeof(queue->hello.identity.host_id));
	nvme_respond_data(queue, slot, data, sizeof(queue->hello.identity.host_id));
}

static void set_features(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint32_t value = word(slot, 11), most = queue->controller->queues - 1u;

	/* None is kept over the controller's end. */
	if (word(slot, 10) >> 31) {
		refuse(queue, slot, NVME_BAD_FIELD);
		return;
	}
	switch (word(slot, 10) & 0xff) {
	case NVME_FEATURE_QUEUES:
		if (queue->controller->discovery || (value & 0xffff) == 0xffff || value >> 16 == 0xffff || !most)
			break;
		nvme_respond(queue, slot, NVME_OK, queues_feature(queue));
		return;
	case NVME_FEATURE_KEEP_ALIVE:
		queue->hello.keep_alive_ms = value;
		nvme_respond(queue, slot, NVME_OK, 0);
		return;
	case NVME_FEATURE_EVENTS:
		queue->event_configuration = value;
		nvme_respond(queue, slot, NVME_OK, 0);
		nvme_event_tell(queue);
		return;
	case NVME_FEATURE_RESERVATION_MASK:
	case NVME_FEATURE_RESERVATION_PERSISTENCE:
		reservation_feature(queue, slot);
		return;
	case NVME_FEATURE_WRITE_CACHE:
		if (queue->controller->discovery)
			break;
		if ((value & 1) == nvme_has(queue, RBLK_VOLUME_VOLATILE_CACHE))
			nvme_respond(queue, slot, NVME_OK, 0);
		else
			refuse(queue, slot, NVME_NOT_CHANGEABLE);
		return;
	default:
		break;
	}
	refuse(queue, slot, NVME_BAD_FIELD);
}

static void get_features(struct nvme_queue *queue, struct nvme_slot *slot)
{
	bool discovery = queue->controller->discovery;
	uint32_t value = 0;

	switch (word(slot, 10) & 0x7ff) { /* the current values alone */
	case NVME_FEATURE_QUEUES:
		if (discovery || queue->controller->queues < 2)
			break;
		value = queues_feature(queue);
		goto known;
	case NVME_FEATURE_HOST_ID:
		get_host_id(queue, slot);
		return;
	case NVME_FEATURE_RESERVATION_MASK:
	case NVME_FEATURE_RESERVATION_PERSISTENCE:
		reservation_feature(queue, slot);
		return;
	case NVME_FEATURE_WRITE_CACHE:
		if (discovery)
			break;
		value = nvme_has(queue, RBLK_VOLUME_VOLATILE_CACHE);
		goto known;
	case NVME_FEATURE_KEEP_ALIVE:
		value = queue->hello.keep_alive_ms;
		goto known;
	case NVME_FEATURE_EVENTS:
		value = queue->event_configuration;
		goto known;
	default:
		break;
	}
	refuse(queue, slot, NVME_BAD_FIELD);
	return;
known:
	nvme_respond(queue, slot, NVME_OK, value);
}

/* -- identify, log pages ------------------------------------------------------------------------- */

static void identify(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint16_t status;
	void *data;

	if (!has_room(queue, slot, NVME_IDENTIFY_BYTES))
		return;
	data = calloc(1, NVME_IDENTIFY_BYTES);
	status = data ? nvme_identify(queue, &slot->command, data) : NVME_INTERNAL;
	if (!status) {
		nvme_respond_data(queue, slot, data, NVME_IDENTIFY_BYTES);
		return;
	}
	free(data);
	refuse(queue, slot, status);
}

struct log_range {
	uint64_t offset;
	uint64_t bytes;
};

static struct log_range log_range(const struct nvme_slot *slot)
{
	return (struct log_range){
		.offset = (uint64_t)word(slot, 13) << 32 | word(slot, 12),
		.bytes = (((uint64_t)(word(slot, 11) & 0xffff) << 16 | word(slot, 10) >> 16) + 1) * 4,
	};
}

/*
 * Fills a log page that is kept here: changed namespaces, ANA, errors, health (a healthy medium, and how many errors),
 * one slot of firmware, no notice of reservations; the others are log.c's.
 */
static void log_fill(struct nvme_queue *queue, const struct nvme_slot *slot, uint8_t *data, uint64_t bytes)
{
	bool keeps = word(slot, 10) & NVME_LOG_KEEPS;
	uint8_t page = word(slot, 10) & 0xff;

	if (page == NVME_LOG_CHANGED) {
		*(__le32 *)data = rblk_to_le32(nvme_event_read(queue, NVME_EVENT_NAMESPACE, keeps));
	} else if (page == NVME_LOG_ANA) {
		nvme_event_read(queue, NVME_EVENT_ANA, keeps);
		nvme_path_log(queue, word(slot, 10) & NVME_LOG_GROUPS, data, bytes);
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
	} else if (page == NVME_LOG_PAGES) {
		nvme_log_pages(data, bytes);
	} else if (page == NVME_LOG_EFFECTS) {
		nvme_log_effects(queue, data, bytes);
	}
}

static void log_answer(struct nvme_queue *queue, struct nvme_slot *slot)
{
	struct log_range range = log_range(slot);
	uint8_t page = word(slot, 10) & 0xff;
	uint8_t *data = calloc(1, range.bytes);

	if (!data) {
		refuse(queue, slot, NVME_INTERNAL);
		return;
	}
	if (page == NVME_LOG_DISCOVERY)
		nvme_discovery_log(queue, range.offset, (uint32_t)range.bytes, data);
	else
		log_fill(queue, slot, data, range.bytes);
	nvme_respond_data(queue, slot, data, (uint32_t)range.bytes);
}

void nvme_admin_listed(struct nvme_queue *queue, struct nvme_slot *slot)
{
	log_answer(queue, slot);
}

static void get_log_page(struct nvme_queue *queue, struct nvme_slot *slot)
{
	struct log_range range = log_range(slot);
	uint8_t page = word(slot, 10) & 0xff;
	bool discovery = queue->controller->discovery;

	if (!nvme_log_has(queue, page)) {
		refuse(queue, slot, NVME_BAD_LOG_PAGE);
		return;
	}
	if (range.bytes > NVME_LOG_BYTES || range.offset % 4 || (!discovery && (range.offset || range.bytes > 4096))) {
		refuse(queue, slot, NVME_BAD_FIELD);
		return;
	}
	if (!has_room(queue, slot, (uint32_t)range.bytes))
		return;
	/* From its beginning it is read anew. */
	if (discovery && !range.offset && !queue->step) {
		queue->listed = queue->busy = 0;
		nvme_step_begin(queue, NVME_STEP_LIST, slot);
		return;
	}
	log_answer(queue, slot);
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
		set_features(queue, slot);
		break;
	case NVME_GET_FEATURES:
		get_features(queue, slot);
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

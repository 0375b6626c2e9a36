/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of reservation_image.h: a head, then a record for each registrant, with a checksum over
 * all. Little-endian, and checked like data from a peer.
 */
#include "target/store/reservation_image.h"

#include <string.h>
#include "proto/digest/digest.h"
#include "proto/wire/wire_check.h"

#define IMAGE_VERSION 1u

static const char magic[8] = "rblkPR\n";

struct file_head {
	char magic[8];
	__le32 version;
	__le32 crc; /* CRC32C of the file with 0 here */
	uint8_t uuid[16];
	__le32 generation;
	__le32 count;
	uint8_t type;
	uint8_t reserved[7];
};
RBLK_ASSERT_SIZE(struct file_head, 48);

struct file_registrant {
	char initiator[RBLK_NAME_BYTES];
	uint8_t host[TGT_REGISTRANT_HOST_BYTES];
	__le64 key;
	uint8_t holder;
	uint8_t reserved[7];
};
RBLK_ASSERT_SIZE(struct file_registrant, 104);

struct file_image {
	struct file_head head;
	struct file_registrant registrants[RBLK_REGISTRANTS_MAX];
};

static size_t image_bytes(uint32_t count)
{
	return sizeof(struct file_head) + count * sizeof(struct file_registrant);
}

static uint32_t image_crc(const struct file_image *image, uint32_t count)
{
	struct file_head head = image->head;

	head.crc = 0;
	return rblk_digest(rblk_digest(0, &head, sizeof(head)), image->registrants,
			   count * sizeof(struct file_registrant));
}

static_assert(sizeof(struct file_image) == sizeof(struct tgt_reservation_image), "there is room");

/* NULL, or what is wrong with it. */
static const char *image_fault(const struct file_image *image, size_t bytes, const uint8_t uuid[16])
{
	const struct file_head *head = &image->head;
	uint32_t count, holders = 0;

	if (bytes < sizeof(*head))
		return "it is cut short";
	if (memcmp(head->magic, magic, sizeof(magic)))
		return "it is no file of reservations";
	if (rblk_le32(head->version) != IMAGE_VERSION)
		return "another version of rblkd wrote it";
	count = rblk_le32(head->count);
	if (count > RBLK_REGISTRANTS_MAX || bytes != image_bytes(count))
		return "its length is wrong";
	if (image_crc(image, count) != rblk_le32(head->crc))
		return "its checksum is wrong";
	if (memcmp(head->uuid, uuid, sizeof(head->uuid)))
		return "it is another volume's";
	if (head->type > RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL)
		return "its type of reservation is unknown";
	for (uint32_t i = 0; i < count; i++) {
		const struct file_registrant *registrant = &image->registrants[i];

		holders += registrant->holder != 0;
		if (!rblk_name_valid(registrant->initiator) || !registrant->key)
			return "a registrant in it is malformed";
	}
	if (holders > 1 || (holders && !head->type))
		return "its holder is ambiguous";
	return NULL;
}

static void image_decode(const struct file_image *image, struct tgt_reservation *reservation)
{
	reservation->generation = rblk_le32(image->head.generation);
	reservation->type = image->head.type;
	reservation->count = rblk_le32(image->head.count);
	reservation->persist = reservation->count > 0;
	for (unsigned int i = 0; i < reservation->count; i++) {
		const struct file_registrant *from = &image->registrants[i];
		struct tgt_registrant *to = &reservation->registrants[i];

		memcpy(to->initiator, from->initiator, sizeof(to->initiator));
		memcpy(to->host, from->host, sizeof(to->host));
		to->key = rblk_le64(from->key);
		to->holder = from->holder;
	}
}

static void image_encode(const struct tgt_reservation *reservation, const uint8_t uuid[16],
			 struct file_image *image)
{
	memset(image, 0, sizeof(*image));
	memcpy(image->head.magic, magic, sizeof(magic));
	memcpy(image->head.uuid, uuid, sizeof(image->head.uuid));
	image->head.version = rblk_to_le32(IMAGE_VERSION);
	image->head.generation = rblk_to_le32(reservation->generation);
	image->head.count = rblk_to_le32(reservation->count);
	image->head.type = reservation->type;
	for (unsigned int i = 0; i < reservation->count; i++) {
		const struct tgt_registrant *from = &reservation->registrants[i];
		struct file_registrant *to = &image->registrants[i];

		memcpy(to->initiator, from->initiator, sizeof(to->initiator));
		memcpy(to->host, from->host, sizeof(to->host));
		to->key = rblk_to_le64(from->key);
		to->holder = from->holder;
	}
	image->head.crc = rblk_to_le32(image_crc(image, reservation->count));
}

const char *tgt_reservation_decode(const struct tgt_reservation_image *bytes, size_t count, const uint8_t uuid[16],
				   struct tgt_reservation *reservation)
{
	struct file_image image;
	const char *fault;

	memcpy(&image, bytes, sizeof(image));
	fault = image_fault(&image, count, uuid);
	if (!fault)
		image_decode(&image, reservation);
	return fault;
}

size_t tgt_reservation_encode(const struct tgt_reservation *reservation, const uint8_t uuid[16],
			      struct tgt_reservation_image *bytes)
{
	struct file_image image;

	image_encode(reservation, uuid, &image);
	memcpy(bytes, &image, sizeof(image));
	return image_bytes(reservation->count);
}

/* -- notes ------------------------------------------------------------------------------------- */

/* Whose it is, its place says. */
static const uint8_t anyone[16];

void tgt_reservation_note_encode(const struct tgt_reservation *reservation, const struct tgt_reservation_by *by,
				 struct tgt_reservation_note *note)
{
	memset(note, 0, sizeof(*note));
	note->serial = rblk_to_le64(reservation->serial);
	memcpy(note->by, by->initiator, sizeof(note->by));
	note->action = by->action;
	note->aborts = by->aborts;
	tgt_reservation_encode(reservation, anyone, &note->image);
}

const char *tgt_reservation_note_decode(const struct tgt_reservation_note *note, struct tgt_reservation *reservation,
					struct tgt_reservation_by *by)
{
	static const struct tgt_reservation_note none;
	const struct file_head *head = (const void *)note->image.bytes;
	uint32_t count;

	memset(reservation, 0, sizeof(*reservation));
	memset(by, 0, sizeof(*by));
	if (!note->serial) /* nobody has ever changed anything */
		return memcmp(note, &none, sizeof(none)) ? "it has no serial number" : NULL;
	memcpy(&count, &head->count, sizeof(count));
	count = rblk_le32((__le32)count);
	memcpy(by->initiator, note->by, sizeof(by->initiator));
	by->initiator[RBLK_NAME_BYTES - 1] = 0;
	by->action = note->action;
	by->aborts = note->aborts;
	reservation->serial = rblk_le64(note->serial);
	return count > RBLK_REGISTRANTS_MAX
		       ? "it has too many registrants"
		       : tgt_reservation_decode(&note->image, image_bytes(count), anyone, reservation);
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no byte of an NVMe host makes the target's side of NVMe/TCP misbehave, and whatever it sends, what the reactor
 * gets of it are right messages of rblk's. Method: the input is played as a hostile host over loopback against a small
 * reactor, which checks each message and answers it, with data where there is some. The input begins with a byte that
 * says which queue it is (the admin queue of a new controller, or one of I/O), which digests there are, whether it
 * begins right (with TLS, too, or it is an identity for that alone) and whether its host has a secret; then come
 * records:
 *
 *   control byte, header (72 bytes), count byte, `count` bytes of payload
 *
 * where bits of the control byte make the header one of a command, or of data, with right lengths, so that inputs pass
 * the first checks and reach later ones, too; one of them makes its digests wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/digest/digest.h"
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "target/nvme/fabric.h"
#include "target/nvme/wire.h"
#include "tests/fuzz/fuzz_nvme_reactor.h"

#define CREDITS 6u
#define TURNS 60
#define WAIT_MS 30000

enum {
	FIX_COMMAND = 1,
	FIX_DATA = 2,
	FIX_BYTES = 4,
	FIX_OPCODE = 8,
	FIX_NAMESPACE = 16,
	FIX_SGL = 32,
	FIX_TRANSFER = 64,
	WRONG_DIGESTS = 128,
};

static const char subsystem[] = NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101";
static struct fab *fab;
static struct fab_listener *listener;
static struct sockaddr_storage addr;
static struct fab_conn *admin;
static int admin_fd;
static bool drained; /* the connection of the input */

static void turn(struct reactor *reactor)
{
	struct fab_event event;
	struct ibv_wc wc[8];
	int count = fab_poll(fab, wc, 8);

	for (int i = 0; i < count; i++)
		reactor_completed(reactor, &wc[i]);
	while (fab_poll_event(fab, &event) == 1)
		drained |= event.type == FAB_EVENT_DRAINED && event.conn == reactor->conn;
}

/* -- connections --------------------------------------------------------------------------------- */

static bool await_request(struct fab_event *event, int fd)
{
	struct pollfd polled[] = {{.fd = fab_fd(fab), .events = POLLIN}, {.fd = fd, .events = POLLRDHUP}};

	while (event->type != FAB_EVENT_REQUEST) {
		if (fab_poll_event(fab, event) == 1 || fab_arm(fab) != 0)
			continue;
		FUZZ_ASSERT(poll(polled, 2, WAIT_MS) > 0 || errno == EINTR);
		if (polled[1].revents & (POLLRDHUP | POLLHUP))
			return false;
	}
	return true;
}

static int dial(void)
{
	const struct linger reset = {.l_onoff = 1}; /* else ports run out */
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	FUZZ_ASSERT(fd >= 0);
	while (connect(fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)) < 0 && errno != EISCONN)
		FUZZ_ASSERT(errno == EINTR || errno == EALREADY);
	FUZZ_ASSERT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0);
	return fd;
}

static void put(int fd, const void *data, size_t bytes)
{
	send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void put_digest(int fd, const void *data, uint32_t bytes, bool wrong)
{
	__le32 digest = rblk_to_le32(rblk_digest(0, data, bytes) ^ wrong);

	put(fd, &digest, sizeof(digest));
}

/* A PDU with digests, which its header already counts. */
static void put_pdu(int fd, const void *header, uint32_t head, const void *data, uint32_t bytes, uint8_t digests,
		    bool wrong)
{
	put(fd, header, head);
	if (digests & NVME_DIGEST_HEADER)
		put_digest(fd, header, head, wrong && !bytes);
	put(fd, data, bytes);
	if (bytes && digests & NVME_DIGEST_DATA)
		put_digest(fd, data, bytes, wrong);
}

static void send_connect(int fd, uint16_t queue, const char *nqn, uint8_t digests, bool secret)
{
	const uint32_t header_digest = digests & NVME_DIGEST_HEADER ? 4 : 0,
		       data_digest = digests & NVME_DIGEST_DATA ? 4 : 0;
	struct nvme_pdu_ic ic = {
		.pdu = {.type = NVME_PDU_IC_REQ, .header_bytes = sizeof(ic), .bytes = rblk_to_le32(sizeof(ic))},
		.digests = digests};
	struct {
		struct nvme_pdu pdu;
		struct nvme_command command;
		struct nvme_connect data;
	} connect = {
		.pdu = {.type = NVME_PDU_COMMAND,
			.flags = digests,
			.header_bytes = 72,
			.data_offset = (__u8)(72 + header_digest),
			.bytes = rblk_to_le32((uint32_t)sizeof(connect) + header_digest + data_digest)},
		.command = {.opcode = NVME_FABRICS,
			    .flags = NVME_FLAGS_SGL,
			    .namespace = rblk_to_le32(NVME_CONNECT),
			    .length = rblk_to_le32(sizeof(connect.data)),
			    .sgl = NVME_SGL_CAPSULE,
			    .word = {rblk_to_le32((uint32_t)queue << 16), rblk_to_le32(15)}},
		.data = {.controller = rblk_to_le16(queue ? 1 : NVME_CONTROLLER_ANY)},
	};

	strcpy(connect.data.subsystem, nqn);
	strcpy(connect.data.host, secret ? NVME_UUID_PREFIX "b" : NVME_UUID_PREFIX "a");
	put(fd, &ic, sizeof(ic));
	put_pdu(fd, &connect, 72, &connect.data, sizeof(connect.data), digests, false);
}

static bool accept_one(struct reactor *reactor, int fd)
{
	const struct fab_conn_options options = {
		.send_depth = 64, .recv_depth = 8, .send_sge = 1, .inline_bytes = 64, .read_in = 4, .read_out = 4};
	struct rblk_wire_accept accept = {.credits = rblk_to_le16(CREDITS)};
	struct rblk_wire_login login;
	struct fab_event event = {0};

	*reactor = (struct reactor){.credits = CREDITS};
	drained = false;
	if (!await_request(&event, fd))
		return false;
	FUZZ_ASSERT(event.private_bytes == sizeof(login));
	memcpy(&login, event.private_data, sizeof(login));
	FUZZ_ASSERT(rblk_check_login(&login, sizeof(login)) == RBLK_WIRE_OK);
	reactor->features = rblk_le32(login.features);
	FUZZ_ASSERT(fab_accept(fab, event.request, &options, &reactor->conn) == 0);
	if (!admin)
		admin = reactor->conn;
	FUZZ_ASSERT(fab_conn_establish(reactor->conn, &accept, sizeof(accept)) == 0);
	return true;
}

/* The name "uuid:b" has one. */
static struct rblk_secrets *find_secrets(void *secrets, const char *name)
{
	return strcmp(name, "uuid:b") == 0 ? rblk_secrets_ref(secrets) : NULL;
}

static struct rblk_secrets *secrets_make(void)
{
	static const char text[] = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:\n";
	int fd = memfd_create("secrets", MFD_CLOEXEC);
	char error[RBLK_SECRET_ERROR_BYTES], path[32];
	struct rblk_secrets *secrets;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	FUZZ_ASSERT(fd >= 0 && !fchmod(fd, 0600) && write(fd, text, sizeof(text) - 1) == sizeof(text) - 1);
	secrets = rblk_secrets_read(path, error);
	FUZZ_ASSERT(secrets);
	close(fd);
	return secrets;
}

/* What is taken for a name is one, and no key needs more than there is. */
static void identity(const uint8_t *data, size_t bytes)
{
	char *text = strndup((const char *)data, bytes), name[RBLK_NAME_BYTES];
	struct rblk_secrets *secrets = secrets_make();
	u8 key[RBLK_TLS_KEY_BYTES];

	if (!tgt_nvme_tls()->parse(text, name)) {
		FUZZ_ASSERT(rblk_name_valid(name));
		for (unsigned int form = 0; form < tgt_nvme_tls()->forms; form++)
			tgt_nvme_tls()->derive(secrets, 0, form, text, key);
	}
	rblk_secrets_put(secrets);
	free(text);
}

static void setup(void)
{
	struct fab_options options = {.cq_depth = 256, .recv_sge = 1, .srq_depth = REACTOR_BUFFERS};
	struct rblk_secrets *secrets;
	struct {
		struct nvme_pdu pdu;
		struct nvme_command command;
	} enable = {
		.pdu = {.type = NVME_PDU_COMMAND, .header_bytes = 72, .bytes = rblk_to_le32(72)},
		.command = {.opcode = NVME_FABRICS,
			    .flags = NVME_FLAGS_SGL,
			    .word = {0, rblk_to_le32(NVME_CC), rblk_to_le32(1)}},
	};
	struct sockaddr_in in = {.sin_family = AF_INET};
	char error[FAB_ERROR_BYTES];
	struct reactor reactor;

	if (fab)
		return;
	tgt_nvme_init(8);
	secrets = secrets_make();
	tgt_nvme_secrets(find_secrets, secrets);
	options.tls = rblk_tls_server_of(tgt_nvme_tls(), find_secrets, secrets);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fab = fab_open(FAB_NVME, &options, error);
	FUZZ_ASSERT(fab && fab_listen(fab, (struct sockaddr *)&in, 8, &listener) == 0);
	FUZZ_ASSERT(fab_listener_address(listener, &addr) == 0);
	admin_fd = dial();
	send_connect(admin_fd, 0, subsystem, 0, false);
	FUZZ_ASSERT(accept_one(&reactor, admin_fd));
	reactor_begin(fab, fab_conn_device(admin));
	/* Its setup, and then it is enabled. */
	for (int answered = 0; answered < 2;) {
		char response[24];

		turn(&reactor);
		if (recv(admin_fd, response, sizeof(response), MSG_DONTWAIT | MSG_PEEK) < 24)
			continue;
		recv(admin_fd, response, sizeof(response), 0);
		if (response[0] == NVME_PDU_IC_RESP) {
			char rest[sizeof(struct nvme_pdu_ic) - sizeof(response)];

			FUZZ_ASSERT(recv(admin_fd, rest, sizeof(rest), MSG_WAITALL) == sizeof(rest));
		} else if (!answered++) {
			FUZZ_ASSERT(send(admin_fd, &enable, sizeof(enable), MSG_NOSIGNAL) == sizeof(enable));
		}
	}
}

/* -- what the host sends ------------------------------------------------------------------------- */

/* Mostly right words: an action and a type; a report of at most 1 KiB. */
static void fix_reservation(struct nvme_command *command)
{
	uint32_t word10 = rblk_le32(command->word[0]);

	if (command->opcode == NVME_RESERVE_REPORT) {
		command->word[0] = rblk_to_le32(word10 & 0xff);
		command->word[1] = rblk_to_le32(1);
	} else if (command->opcode == NVME_RESERVE_REGISTER) {
		command->word[0] = rblk_to_le32(word10 & 0xc000000b);
	} else if (command->opcode == NVME_RESERVE_ACQUIRE || command->opcode == NVME_RESERVE_RELEASE) {
		command->word[0] = rblk_to_le32(word10 & 0x703);
	}
}

/* What there has to be room for, or is to be fetched. */
static uint32_t length_of(const struct nvme_command *command)
{
	switch (command->opcode) {
	case NVME_IDENTIFY:
		return NVME_IDENTIFY_BYTES;
	case NVME_RESERVE_REGISTER:
	case NVME_RESERVE_ACQUIRE:
	case NVME_RESERVE_RELEASE:
		return sizeof(struct nvme_reserve);
	case NVME_RESERVE_REPORT:
		return (rblk_le32(command->word[0]) + 1) * 4;
	default:
		return 512 * (1 + (rblk_le32(command->word[2]) & 3));
	}
}

static void fix(uint8_t header[72], uint8_t control, uint32_t payload, uint32_t number, uint8_t digests)
{
	const uint8_t flags = digests & (payload ? 3 : NVME_DIGEST_HEADER), head = digests & NVME_DIGEST_HEADER ? 4 : 0;
	const uint32_t more = head + (flags & NVME_PDU_DATA_DIGEST ? 4 : 0);
	static const uint8_t opcodes[] = {
		NVME_FLUSH,    NVME_WRITE,	  NVME_READ,	NVME_WRITE_ZEROES, NVME_DATASET_MANAGEMENT,
		NVME_IDENTIFY, NVME_GET_FEATURES, NVME_FABRICS, NVME_ASYNC_EVENT,  NVME_KEEP_ALIVE,
		NVME_COMPARE,  NVME_VERIFY,	  NVME_RESERVE_REGISTER, NVME_RESERVE_REPORT,
		NVME_RESERVE_ACQUIRE, NVME_RESERVE_RELEASE, NVME_ABORT, NVME_GET_LOG_PAGE};
	struct nvme_pdu *pdu = (void *)header;
	struct nvme_command *command = (void *)(header + sizeof(*pdu));
	struct nvme_pdu_data *data = (void *)header;

	if (control & FIX_COMMAND) {
		*pdu = (struct nvme_pdu){.type = NVME_PDU_COMMAND,
					 .flags = flags,
					 .header_bytes = 72,
					 .data_offset = (__u8)(payload ? 72 + head : 0)};
		if (control & FIX_BYTES)
			pdu->bytes = rblk_to_le32(72 + payload + more);
		if (control & FIX_OPCODE) {
			command->opcode = opcodes[command->opcode % sizeof(opcodes)];
			command->flags = NVME_FLAGS_SGL | (command->flags & NVME_FLAGS_FUSE);
			command->word[2] = rblk_to_le32(rblk_le32(command->word[2]) & 3);
			fix_reservation(command);
		}
		if (control & FIX_NAMESPACE)
			command->namespace = rblk_to_le32(1);
		if (control & FIX_SGL) {
			command->sgl = payload ? NVME_SGL_CAPSULE : NVME_SGL_TRANSPORT;
			command->address = 0;
			command->length = rblk_to_le32(payload ? payload : length_of(command));
		}
		if (command->opcode == NVME_FABRICS && control & FIX_TRANSFER) {
			command->namespace = rblk_to_le32(payload ? NVME_AUTH_SEND : NVME_AUTH_RECEIVE);
			command->word[0] = rblk_to_le32(0xe9010100);
			command->word[1] = command->length;
		}
		command->id = rblk_to_le16((uint16_t)number);
	} else if (control & FIX_DATA) {
		data->pdu = (struct nvme_pdu){.type = NVME_PDU_H2C_DATA,
					      .flags = (__u8)((data->pdu.flags & NVME_PDU_LAST) | flags),
					      .header_bytes = 24,
					      .data_offset = (__u8)(24 + head)};
		if (control & FIX_BYTES) {
			data->pdu.bytes = rblk_to_le32(24 + payload + more);
			data->length = rblk_to_le32(payload);
		}
		if (control & FIX_TRANSFER) {
			data->transfer =
				rblk_to_le16(rblk_le16(data->transfer) % 64 | (rblk_le16(data->transfer) & 0x8000));
			data->command = rblk_to_le16(rblk_le16(data->command) % (number + 1));
			data->offset = 0;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t first = bytes ? data[0] : 0, digests = first >> 3 & 3, payload[512];
	struct reactor reactor;
	uint32_t number = 0;
	int fd;

	setup();
	if (!bytes)
		return 0;
	data++;
	bytes--;
	if ((first & 0xc1) == 0xc1) {
		identity(data, bytes);
		return 0;
	}
	fd = dial();
	if (first & 1) {
		/* Nothing is right before its first byte. */
		send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(fd, SHUT_WR);
		memset(&reactor, 0, sizeof(reactor));
		for (int i = 0; i < TURNS / 10; i++)
			turn(&reactor);
		close(fd);
		return 0;
	}
	send_connect(fd, first & 2 ? 1 : 0, first & 4 ? NVME_DISCOVERY_NQN : subsystem, digests,
		     first & 32);
	if (!accept_one(&reactor, fd)) {
		close(fd);
		return 0;
	}
	for (int i = 0; i < 10; i++)
		turn(&reactor);
	while (bytes > 74) {
		uint8_t header[72], control = data[0];
		uint32_t length = data[73], most = (uint32_t)bytes - 74, head;

		memcpy(header, data + 1, sizeof(header));
		data += 74;
		bytes -= 74;
		/* Whole blocks, repeated, for what is to be data of a block. */
		memset(payload, 0, sizeof(payload));
		memcpy(payload, data, length < most ? length : most);
		data += length < most ? length : most;
		bytes -= length < most ? length : most;
		length = length & 1 ? sizeof(payload) : length < most ? length : most;
		if (length > sizeof(payload))
			length = sizeof(payload);
		fix(header, control, length, number++, digests);
		head = !(control & FIX_COMMAND) && control & FIX_DATA ? 24 : 72;
		put_pdu(fd, header, head, payload, length, digests, control & WRONG_DIGESTS);
		turn(&reactor);
		turn(&reactor);
	}
	for (int i = 0; i < TURNS / 4; i++)
		turn(&reactor);
	fab_conn_close(reactor.conn);
	close(fd);
	for (int i = 0; i < TURNS && !drained; i++)
		turn(&reactor);
	FUZZ_ASSERT(drained);
	fab_conn_destroy(reactor.conn);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The target of jobs/kmod-hostile.sh and kmod-key.sh: the scripted target of the end-to-end tests over RDMA, doing
 * the one thing that its argument names. It prints "ready" when it listens, and ends on SIGTERM;
 * then it prints what came: a line for each opcode, "WRITE 4, 3 FUA".
 *   kmod_target ADDRESS BEHAVIOUR
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "proto/wire/wire_names.h"
#include "tests/e2e/fake_target.h"

/* -- logins -------------------------------------------------------------------------------------- */

static void accept_other_instance(struct rblk_wire_accept *accept)
{
	static u8 life;

	accept->target_instance[0] = ++life;
}

static void accept_other_epoch(struct rblk_wire_accept *accept)
{
	accept->session_epoch = rblk_to_le64(2);
}

static void accept_more_credits(struct rblk_wire_accept *accept)
{
	accept->credits = rblk_to_le16(RBLK_CREDITS_MAX);
}

static void accept_unasked_feature(struct rblk_wire_accept *accept)
{
	accept->features |= rblk_to_le32(RBLK_FEATURE_DIGEST);
}

static void accept_other_version(struct rblk_wire_accept *accept)
{
	accept->version = rblk_to_le16(RBLK_PROTOCOL_VERSION + 1);
}

static void accept_no_invalidation(struct rblk_wire_accept *accept)
{
	accept->features &= rblk_to_le32(~(u32)RBLK_FEATURE_INVALIDATE);
}

/* Many commands to a message, and no room for them. */
static void accept_short_messages(struct rblk_wire_accept *accept)
{
	accept->command_bytes = rblk_to_le32(RBLK_COMMAND_BYTES_MIN);
}

/* Longer than the in-capsule data of a message may be. */
static void accept_long_messages(struct rblk_wire_accept *accept)
{
	accept->command_bytes = rblk_to_le32(RBLK_COMMAND_BYTES_MAX);
}

/* Logins that are refused, from a queue on. */
static const struct {
	const char *name;
	u16 version, reason;
	u32 detail;
	u16 from;
} refusals[] = {
	{ "reject-version", 7, RBLK_REJECT_VERSION, 7, 0 },
	{ "reject-denied", RBLK_PROTOCOL_VERSION, RBLK_REJECT_DENIED, 0, 0 },
	{ "reject-queues", RBLK_PROTOCOL_VERSION, RBLK_REJECT_QUEUE_COUNT, 1, 0 },
	{ "reject-unknown", 7, RBLK_REJECT_MAX, 99, 0 }, /* of another version: may be known there */
	{ "reject-nonsense", RBLK_PROTOCOL_VERSION, RBLK_REJECT_MAX, 0, 0 },
	{ "reject-second", RBLK_PROTOCOL_VERSION, RBLK_REJECT_NO_RESOURCES, 0, 1 },
};

/* -- volumes ------------------------------------------------------------------------------------- */

/* Allowed by the specification, but not suitable for a block layer without changes. */
static void volume_odd_hints(struct rblk_wire_volume *volume)
{
	volume->physical_bytes = rblk_to_le32(1u << 31);
	volume->optimal_bytes = rblk_to_le32(UINT32_MAX);
	volume->flags = rblk_to_le32(RBLK_VOLUME_FLUSH | RBLK_VOLUME_DISCARD | RBLK_VOLUME_WRITE_ZEROES);
	volume->discard_granularity_bytes = rblk_to_le32(3);
	volume->max_discard_blocks = rblk_to_le32(UINT32_MAX);
	volume->max_io_bytes = rblk_to_le32(RBLK_IO_BYTES_MAX);
	volume->max_capsule_bytes = rblk_to_le32(RBLK_CAPSULE_DATA_MAX);
}

static void volume_least(struct rblk_wire_volume *volume)
{
	volume->physical_bytes = rblk_to_le32(1);
	volume->optimal_bytes = 0;
	volume->max_io_bytes = rblk_to_le32(4096);
	volume->max_capsule_bytes = 0;
	volume->flags = rblk_to_le32(RBLK_VOLUME_DISCARD);
	volume->discard_granularity_bytes = rblk_to_le32(1u << 30);
	volume->max_discard_blocks = rblk_to_le32(1);
}

/* All that a volume may be able to do. */
static void volume_able(struct rblk_wire_volume *volume)
{
	volume->flags = rblk_to_le32(RBLK_VOLUME_FLUSH | RBLK_VOLUME_VOLATILE_CACHE | RBLK_VOLUME_FUA |
				     RBLK_VOLUME_DISCARD | RBLK_VOLUME_WRITE_ZEROES);
	volume->discard_granularity_bytes = rblk_to_le32(4096);
	volume->max_discard_blocks = rblk_to_le32(FAKE_VOLUME_BLOCKS);
}

/* All but that one: what must be durable is flushed. */
static void volume_no_fua(struct rblk_wire_volume *volume)
{
	volume->flags = rblk_to_le32(RBLK_VOLUME_FLUSH | RBLK_VOLUME_VOLATILE_CACHE);
}

static void volume_capsules(struct rblk_wire_volume *volume)
{
	volume->max_capsule_bytes = rblk_to_le32(RBLK_CAPSULE_DATA_MAX);
}

static void volume_huge_blocks(struct rblk_wire_volume *volume)
{
	volume->block_bytes = rblk_to_le32(1 << 20);
}

static void volume_no_blocks(struct rblk_wire_volume *volume)
{
	volume->blocks = 0;
}

static void volume_endless(struct rblk_wire_volume *volume)
{
	volume->blocks = rblk_to_le64(UINT64_MAX);
}

static void volume_no_handle(struct rblk_wire_volume *volume)
{
	volume->handle = 0;
}

static void volume_other_name(struct rblk_wire_volume *volume)
{
	volume->name[0] = 'x';
}

static void volume_no_transfer(struct rblk_wire_volume *volume)
{
	volume->max_io_bytes = 0;
}

static void volume_small_transfer(struct rblk_wire_volume *volume)
{
	volume->max_io_bytes = rblk_to_le32(512);
}

/* -- answers ------------------------------------------------------------------------------------- */

#define REFUSED_TIMES 3

/* Succeeds only the fourth time; until then the status is the one that `script->arg` points to. */
static enum fake_answer answer_late(struct fake_target *fake, const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	static unsigned int refused[RBLK_OP_MAX];
	const u16 *status = fake_target_script(fake)->arg;

	/* Session commands are not refused with DRAINING: they would end the attach. */
	if (*status == RBLK_E_DRAINING && command->opcode != RBLK_OP_WRITE)
		return FAKE_REPLY;
	if (refused[command->opcode]++ % (REFUSED_TIMES + 1) < REFUSED_TIMES)
		completion->status = rblk_to_le16(*status);
	return FAKE_REPLY;
}

/* What `script->arg` points to: an answer to one kind of command. Anything else goes well. */
struct special {
	u8 opcode;
	enum fake_answer answer;
	u16 status;
};

static enum fake_answer answer_special(struct fake_target *fake,
				       const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	const struct special *special = fake_target_script(fake)->arg;

	if (command->opcode != special->opcode)
		return FAKE_REPLY;
	completion->status = rblk_to_le16(special->status);
	return special->answer;
}

/* Written by the target's thread; main() reads them when that has ended. */
static unsigned int fua_seen[RBLK_OP_MAX];

static enum fake_answer answer_counted(struct fake_target *fake, const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	(void)fake;
	(void)completion;
	fua_seen[command->opcode] += command->flags & RBLK_CMD_FUA ? 1 : 0;
	return FAKE_REPLY;
}

static enum fake_answer answer_other_life(struct fake_target *fake,
					  const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	(void)fake;
	if (command->opcode == RBLK_OP_WRITE)
		completion->sequence = rblk_to_le32(rblk_le32(command->sequence) + 1);
	return FAKE_REPLY;
}

static enum fake_answer answer_other_tag(struct fake_target *fake,
					 const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	(void)fake;
	if (command->opcode == RBLK_OP_WRITE)
		completion->tag = rblk_to_le16((rblk_le16(command->tag) + 1) % 8);
	return FAKE_REPLY;
}

/*
 * After each WRITE an event, if the last one was confirmed; with known and unknown kinds and
 * handles.
 */
static enum fake_answer answer_events(struct fake_target *fake, const struct rblk_wire_command *command,
				      struct rblk_wire_completion *completion)
{
	static const struct {
		u16 event;
		u32 handle;
	} events[] = { { RBLK_EVENT_VOLUME_CHANGED, FAKE_HANDLE },
		       { RBLK_EVENT_VOLUME_CHANGED, FAKE_HANDLE + 1 },
		       { RBLK_EVENT_VOLUME_REMOVED, FAKE_HANDLE } };
	static u32 sent, confirmed;

	(void)completion;
	if (command->opcode == RBLK_OP_KEEPALIVE)
		confirmed = (u32)rblk_le64(command->argument);
	if (command->opcode == RBLK_OP_WRITE && sent == confirmed) {
		sent++;
		fake_target_send_event(fake, events[sent % 3].event, sent, events[sent % 3].handle);
	}
	return FAKE_REPLY;
}

/* V9: the second is the first again, whether that has been confirmed meanwhile or not. */
static enum fake_answer answer_two_events(struct fake_target *fake,
					  const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	(void)completion;
	if (command->opcode == RBLK_OP_WRITE) {
		fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
		fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	}
	return FAKE_REPLY;
}

/* V9: on another queue than 0. */
static enum fake_answer answer_event_elsewhere(struct fake_target *fake,
					       const struct rblk_wire_command *command,
					       struct rblk_wire_completion *completion)
{
	(void)completion;
	if (command->opcode == RBLK_OP_WRITE && fake_target_queue(fake) == 1)
		fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	return FAKE_REPLY;
}

/* It says itself that it has answered. */
static enum fake_answer answer_silent(struct fake_target *fake, const struct rblk_wire_command *command,
				      struct rblk_wire_completion *completion)
{
	(void)fake;
	if (command->opcode == RBLK_OP_ABORT)
		completion->result = rblk_to_le64(RBLK_ABORT_UNKNOWN);
	return command->opcode == RBLK_OP_WRITE ? FAKE_SILENT : FAKE_REPLY;
}

static enum fake_answer answer_mute(struct fake_target *fake, const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	(void)fake;
	(void)completion;
	return command->opcode == RBLK_OP_WRITE || command->opcode == RBLK_OP_ABORT ? FAKE_SILENT : FAKE_REPLY;
}

/* As if it had lost its power after all but this: nobody is told. */
static enum fake_answer answer_dead(struct fake_target *fake, const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	(void)fake;
	(void)completion;
	return command->opcode == RBLK_OP_RESERVE || command->opcode == RBLK_OP_KEEPALIVE ? FAKE_SILENT : FAKE_REPLY;
}

/* AUTHENTICATE as a right target answers it, but for the proof; and an event, to make it say more than that. */
static enum fake_answer answer_without_proof(struct fake_target *fake, const struct rblk_wire_command *command,
					     struct rblk_wire_completion *completion)
{
	struct rblk_wire_authenticate report = { .nonce = { 7 }, .name = "db1" };
	static u32 step;

	(void)completion;
	if (command->opcode != RBLK_OP_AUTHENTICATE)
		return FAKE_REPLY;
	report.step = rblk_to_le32(step % 2 + 1);
	if (step++ % 2)
		report.proof[0] = 1;
	else
		fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	fake_target_report(fake, command, &report, sizeof(report));
	return FAKE_REPLY;
}

#define STATUS(opcode, status)                                                                     \
	.command = answer_special, .arg = &(struct special){ opcode, FAKE_REPLY, status }
#define ANSWER(opcode, answer)                                                                     \
	.command = answer_special, .arg = &(struct special){ opcode, answer, RBLK_OK }

static const struct {
	const char *name;
	struct fake_script script;
} behaviours[] = {
	{ "reject-silent", { .reject_silent = true } },
	{ "prove-unknown", { STATUS(RBLK_OP_AUTHENTICATE, RBLK_E_UNSUPPORTED) } },
	{ "prove-nothing", { ANSWER(RBLK_OP_AUTHENTICATE, FAKE_REPLY) } },
	{ "prove-silent", { ANSWER(RBLK_OP_AUTHENTICATE, FAKE_SILENT) } },
	{ "prove-wrong", { .command = answer_without_proof } },
	{ "accept-version", { .accept = accept_other_version } },
	{ "other-instance", { .accept = accept_other_instance } },
	{ "other-epoch", { .accept = accept_other_epoch } },
	{ "more-credits", { .accept = accept_more_credits } },
	{ "unasked-feature", { .accept = accept_unasked_feature } },
	{ "short-messages", { .accept = accept_short_messages, .volume = volume_capsules } },
	{ "long-messages", { .accept = accept_long_messages, .volume = volume_capsules } },
	{ "odd-hints", { .volume = volume_odd_hints } },
	{ "least", { .volume = volume_least } },
	{ "huge-blocks", { .volume = volume_huge_blocks } },
	{ "no-blocks", { .volume = volume_no_blocks } },
	{ "endless", { .volume = volume_endless } },
	{ "no-transfer", { .volume = volume_no_transfer } },
	{ "no-handle", { .volume = volume_no_handle } },
	{ "other-name", { .volume = volume_other_name } },
	{ "small-transfer", { .volume = volume_small_transfer } },
	{ "busy", { .command = answer_late, .arg = &(u16){ RBLK_E_BUSY } } },
	{ "draining", { .command = answer_late, .arg = &(u16){ RBLK_E_DRAINING } } },
	{ "always-draining", { STATUS(RBLK_OP_WRITE, RBLK_E_DRAINING) } },
	{ "always-busy", { STATUS(RBLK_OP_WRITE, RBLK_E_BUSY) } },
	{ "no-resources", { STATUS(RBLK_OP_WRITE, RBLK_E_NO_RESOURCES) } },
	{ "close-identify", { ANSWER(RBLK_OP_IDENTIFY, FAKE_CLOSE) } },
	{ "silent-open", { ANSWER(RBLK_OP_OPEN, FAKE_SILENT) } },
	/* The first is the kernel's own, for partitions. */
	{ "close-read", { ANSWER(RBLK_OP_READ, FAKE_CLOSE) } },
	{ "twice", { ANSWER(RBLK_OP_WRITE, FAKE_REPLY_TWICE) } },
	{ "mute", { .command = answer_mute } },
	{ "silent", { .command = answer_silent } },
	{ "lasting", { ANSWER(RBLK_OP_RESERVE, FAKE_SILENT) } },
	{ "dead", { .command = answer_dead } },
	{ "closing", { ANSWER(RBLK_OP_WRITE, FAKE_CLOSE) } },
	{ "immediate", { ANSWER(RBLK_OP_WRITE, FAKE_IMMEDIATE) } },
	{ "raw", { ANSWER(RBLK_OP_WRITE, FAKE_REPLY_RAW), .raw = { 1, 2, 3 }, .raw_bytes = 33 } },
	{ "too-long", { ANSWER(RBLK_OP_WRITE, FAKE_REPLY_RAW), .raw_bytes = FAKE_RAW_BYTES } },
	{ "not-plain", { ANSWER(RBLK_OP_WRITE, FAKE_REPLY_WITH_IMMEDIATE) } },
	{ "invalidate", { .accept = accept_no_invalidation, ANSWER(RBLK_OP_WRITE, FAKE_REPLY_INVALIDATE) } },
	{ "other-life", { .command = answer_other_life } },
	{ "other-tag", { .command = answer_other_tag } },
	{ "able", { .volume = volume_able, .command = answer_counted } },
	{ "no-fua", { .volume = volume_no_fua, .command = answer_counted } },
	{ "events", { .command = answer_events } },
	{ "two-events", { .command = answer_two_events } },
	{ "event-elsewhere", { .command = answer_event_elsewhere } },
};

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

static bool find_script(const char *name, struct fake_script *script)
{
	for (size_t i = 0; i < COUNT(behaviours); i++) {
		if (!strcmp(behaviours[i].name, name)) {
			*script = behaviours[i].script;
			return true;
		}
	}
	for (size_t i = 0; i < COUNT(refusals); i++) {
		if (!strcmp(refusals[i].name, name)) {
			*script = (struct fake_script){
				.reject = { .magic = rblk_to_le32(RBLK_MAGIC),
					    .version = rblk_to_le16(refusals[i].version),
					    .reason = rblk_to_le16(refusals[i].reason),
					    .detail = rblk_to_le32(refusals[i].detail) },
				.reject_from = refusals[i].from,
			};
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(RBLK_DEFAULT_PORT) };
	struct fake_target *fake;
	struct fake_script script;
	sigset_t signals;
	unsigned int seen[RBLK_OP_MAX];
	int signal;

	if (argc != 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
		fprintf(stderr, "usage: kmod_target ADDRESS BEHAVIOUR\n");
		return 2;
	}
	if (!find_script(argv[2], &script)) {
		fprintf(stderr, "kmod_target: %s: unknown behaviour\n", argv[2]);
		return 2;
	}
	script.rdma = &address;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL); /* before there is a thread that could take it */
	fake = fake_target_start(&script);
	printf("ready\n");
	fflush(stdout);
	sigwait(&signals, &signal);
	for (u8 op = 0; op < RBLK_OP_MAX; op++)
		seen[op] = fake_target_seen(fake, op);
	fake_target_stop(fake);
	for (u8 op = 0; op < RBLK_OP_MAX; op++)
		if (seen[op])
			printf("%s %u, %u FUA\n", rblk_opcode_name(op), seen[op], fua_seen[op]);
	return 0;
}

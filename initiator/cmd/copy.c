/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk copy: a file into a volume, a volume into a file, a volume into another. The end makes it
 * safe: the destination is flushed, and the target's checksum of every chunk is compared with
 * that of the data that went through here. Only then does the command succeed.
 */
#include "initiator/cmd/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define COPY_RANGES_MAX 8 /* that are printed */

static struct copy_values {
	struct cmd_connect connect;
	uint64_t chunk_bytes, depth, bytes;
	bool sparse, no_verify, quiet, json;
} values = { .connect = CMD_CONNECT_DEFAULTS, .chunk_bytes = 1u << 20, .depth = 16 };

static const struct cmd_option options[] = {
	{ "chunk", 'c', CMD_OPTION_SIZE, offsetof(struct copy_values, chunk_bytes), 512,
	  COPY_CHUNK_MAX, "BYTES", "size of one transfer (default: 1m, or the volume's longest I/O)" },
	{ "depth", 'd', CMD_OPTION_NUMBER, offsetof(struct copy_values, depth), 1, COPY_DEPTH_MAX,
	  "COUNT", "number of transfers at a time (default: 16)" },
	{ "size", 's', CMD_OPTION_SIZE, offsetof(struct copy_values, bytes), 1, INT64_MAX, "BYTES",
	  "copy only the first BYTES" },
	{ "sparse", 'S', CMD_OPTION_FLAG, offsetof(struct copy_values, sparse), 0, 0, NULL,
	  "do not transfer chunks of zeroes: have them zeroed, or leave holes" },
	{ "no-verify", 0, CMD_OPTION_FLAG, offsetof(struct copy_values, no_verify), 0, 0, NULL,
	  "do not compare checksums at the end" },
	{ "quiet", 'q', CMD_OPTION_FLAG, offsetof(struct copy_values, quiet), 0, 0, NULL,
	  "print no progress line" },
	CMD_OPTION_JSON(struct copy_values),
	CMD_CONNECT_OPTIONS(struct copy_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static void copy_interrupt(int signal)
{
	copy_interrupted = 1;
}

/* The second signal kills: a stuck target must not block the user. */
static void copy_catch_signals(void)
{
	struct sigaction action = { .sa_handler = copy_interrupt, .sa_flags = SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int copy_open(struct copy *copy, char **operands)
{
	bool from_volume = cmd_is_uri(operands[0]);
	bool to_volume = cmd_is_uri(operands[1]);
	uint32_t depth = (uint32_t)values.depth;
	int result;

	if (!from_volume && !to_volume) {
		cmd_error("copy: neither %s nor %s is a volume (rblk://... or rblk+tcp://...)",
			  operands[0], operands[1]);
		return CMD_USAGE;
	}
	if ((from_volume && cmd_uri_check(operands[0], true)) ||
	    (to_volume && cmd_uri_check(operands[1], true)))
		return CMD_USAGE;
	if (from_volume)
		result = copy_end_open_volume(&copy->source, operands[0], false, &values.connect,
					      depth);
	else
		result = copy_end_open_source(&copy->source, operands[0]);
	if (!result && to_volume)
		result = copy_end_open_volume(&copy->destination, operands[1], true,
					      &values.connect, depth);
	else if (!result)
		result = copy_end_open_destination(&copy->destination, operands[1]);
	return result ? CMD_FAILED : CMD_OK;
}

/* How much to copy, and does it fit? */
static int copy_check_sizes(struct copy *copy)
{
	const struct copy_end *source = &copy->source;
	const struct copy_end *destination = &copy->destination;
	char a[CMD_TEXT_BYTES], b[CMD_TEXT_BYTES];

	copy->total = source->bytes;
	if (values.bytes) {
		if (source->bytes != COPY_UNKNOWN && values.bytes > source->bytes)
			return cmd_error("%s: has %s, fewer than the %s of --size", source->name,
					 units_format_bytes(source->bytes, a),
					 units_format_bytes(values.bytes, b));
		copy->total = values.bytes;
	}
	if (copy->total != COPY_UNKNOWN && copy->total > destination->bytes)
		return cmd_error("%s: %s do not fit into %s, %s (%" PRIu64 " > %" PRIu64 " bytes)",
				 source->name, units_format_bytes(copy->total, a), destination->name,
				 units_format_bytes(destination->bytes, b), copy->total,
				 destination->bytes);
	return CMD_OK;
}

/* The most of a hole that the destination takes at a time; 0: it is written like data. */
static uint32_t copy_hole_bytes(const struct copy *copy)
{
	const struct copy_end *end = &copy->destination;
	uint64_t most = COPY_HOLE_MAX;

	if (!end->session)
		return end->regular ? COPY_HOLE_MAX : copy->chunk_bytes;
	if (!end->info->can_write_zeroes)
		return 0;
	if (end->info->max_discard_bytes < most)
		most = end->info->max_discard_bytes;
	return (uint32_t)(most - most % copy->block_bytes);
}

static int copy_check_ends(struct copy *copy)
{
	struct copy_end *ends[] = { &copy->source, &copy->destination };
	struct copy_end *checked = copy_verify_end(copy);
	uint32_t block_bytes = 1;
	int i;

	copy->chunk_bytes = (uint32_t)values.chunk_bytes;
	for (i = 0; i < 2; i++) {
		if (!ends[i]->session)
			continue;
		if (ends[i]->info->max_io_bytes < copy->chunk_bytes)
			copy->chunk_bytes = ends[i]->info->max_io_bytes;
		if (ends[i]->block_bytes > block_bytes)
			block_bytes = ends[i]->block_bytes;
	}
	copy->block_bytes = block_bytes;
	copy->chunk_bytes -= copy->chunk_bytes % block_bytes;
	if (!copy->chunk_bytes)
		return cmd_error("--chunk: is less than a block of the volume, %u bytes",
				 block_bytes);
	if (!values.no_verify && !checked->info->can_checksum)
		return cmd_error("%s: the target computes no checksums to verify the copy with; "
				 "copy with --no-verify",
				 checked->name);
	copy->hole_bytes = copy_hole_bytes(copy);
	return copy_holes_init(&copy->source) ? CMD_FAILED : CMD_OK;
}

/* -- messages at the end ----------------------------------------------------------------------- */

static FILE *copy_output(const char *destination)
{
	return strcmp(destination, "-") ? stdout : stderr;
}

static void copy_say_differences(struct copy *copy)
{
	const struct copy_end *end = copy_verify_end(copy);
	const struct copy_range *range = copy->differences;
	size_t i;

	for (i = 0; i < copy->difference_count && i < COPY_RANGES_MAX; i++)
		cmd_error("%s: bytes %" PRIu64 " to %" PRIu64 " differ from what was copied",
			  end->name, range[i].offset, range[i].offset + range[i].bytes - 1);
	if (copy->difference_count > COPY_RANGES_MAX)
		cmd_error("%s: %zu more ranges differ", end->name,
			  copy->difference_count - COPY_RANGES_MAX);
	cmd_error("%s: verification failed%s", end->name,
		  end == &copy->source
			  ? ": the volume changed while it was copied, or the transfer "
			    "is faulty"
			  : ": another writer, or faulty storage");
}

static void copy_say(const struct copy *copy, FILE *out, double seconds)
{
	char bytes[CMD_TEXT_BYTES], zeroed[CMD_TEXT_BYTES], rate[CMD_TEXT_BYTES];

	fprintf(out, "copied: %s in %.2f s, %s/s", units_format_bytes(copy->done_bytes, bytes),
		seconds,
		units_format_bytes((uint64_t)((double)copy->done_bytes / (seconds > 0 ? seconds : 1)),
				 rate));
	if (copy->zeroed_bytes)
		fprintf(out, ", of which %s of zeroes were not transferred",
			units_format_bytes(copy->zeroed_bytes, zeroed));
	fputc('\n', out);
}

static void copy_say_verified(const struct copy *copy, FILE *out)
{
	uint64_t bytes;
	uint32_t crc = copy_verify_crc(copy, &bytes);

	fprintf(out, "verified: crc32c %08x over %" PRIu64 " bytes\n", crc, bytes);
}

static void copy_say_json(const struct copy *copy, uint64_t elapsed_ns, bool verified)
{
	json_t *differences = json_array();
	const struct copy_range *range = copy->differences;
	uint64_t bytes;
	char crc[16];

	for (size_t i = 0; i < copy->difference_count; i++)
		json_array_append_new(differences, json_pack("{s:I s:I}", "offset_bytes",
							     (json_int_t)range[i].offset,
							     "length_bytes",
							     (json_int_t)range[i].bytes));
	snprintf(crc, sizeof(crc), "%08x", copy_verify_crc(copy, &bytes));
	cmd_json_print(json_pack(
		"{s:o s:o s:I s:I s:I s:b s:s s:I s:o}", "source", cmd_json_text(copy->source.name),
		"destination", cmd_json_text(copy->destination.name), "copied_bytes",
		(json_int_t)copy->done_bytes, "zeroed_bytes", (json_int_t)copy->zeroed_bytes,
		"elapsed_ns", (json_int_t)elapsed_ns, "verified", verified, "crc32c", crc,
		"checked_bytes", (json_int_t)bytes, "differences", differences));
}

static int copy_say_stopped(const struct copy *copy)
{
	const char *why = copy_interrupted ? "interrupted" : "stopped";
	char done[CMD_TEXT_BYTES], total[CMD_TEXT_BYTES];

	units_format_bytes(copy->done_bytes, done);
	if (copy->total == COPY_UNKNOWN)
		return cmd_error("%s: %s were copied, not verified", why, done);
	return cmd_error("%s: %s of %s were copied, not verified", why, done,
			 units_format_bytes(copy->total, total));
}

/* -- the verb ---------------------------------------------------------------------------------- */

static int copy_do(struct copy *copy, FILE *out)
{
	uint64_t start_ns = progress_now_ns();
	int64_t differ = 0;
	uint64_t elapsed_ns;

	if (copy_end_clear(&copy->destination))
		return CMD_FAILED;
	if (copy_run(copy) || copy_interrupted)
		return copy_say_stopped(copy);
	if (copy_end_sync(&copy->destination, copy->done_bytes))
		return copy_say_stopped(copy);
	elapsed_ns = progress_now_ns() - start_ns;
	if (!values.no_verify)
		differ = copy_verify(copy);
	if (differ < 0)
		return copy_say_stopped(copy);
	if (!values.json)
		copy_say(copy, out, (double)elapsed_ns / 1e9);
	if (differ)
		copy_say_differences(copy);
	if (values.json)
		copy_say_json(copy, elapsed_ns, !values.no_verify && !differ);
	else if (!values.no_verify && !differ)
		copy_say_verified(copy, out);
	return differ ? CMD_MISMATCH : CMD_OK;
}

static int copy_run_verb(char **operands, int count)
{
	struct copy copy = { .source.fd = -1, .destination.fd = -1 };
	int status;

	copy.depth = (uint32_t)values.depth;
	copy.sparse = values.sparse;
	copy.quiet = values.quiet;
	copy_catch_signals();
	cmd_json_output(copy_output(operands[1]));
	status = copy_open(&copy, operands);
	if (!status)
		status = copy_check_sizes(&copy);
	if (!status)
		status = copy_check_ends(&copy);
	if (!status && copy_init(&copy))
		status = CMD_FAILED;
	if (!status)
		status = copy_do(&copy, copy_output(operands[1]));
	if (copy_end_close(&copy.source) + copy_end_close(&copy.destination) && !status)
		status = CMD_FAILED;
	copy_fini(&copy);
	return status;
}

const struct cmd_verb cmd_verb_copy = {
	.name = "copy",
	.operands = "SOURCE DESTINATION",
	.summary = "copy a file into a volume or a volume into a file, and verify it",
	.options = options,
	.values = &values,
	.connects = true,
	.operands_least = 2,
	.operands_most = 2,
	.run = copy_run_verb,
};

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the command line of the promise journal. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/program/program.h"
#include "tests/promise/run.h"

static const char usage_text[] =
	"usage: promise run [OPTION...] JOURNAL DISK\n"
	"       promise check [OPTION...] JOURNAL... DISK\n"
	"\n"
	"run writes, and notes in JOURNAL what was promised; check compares DISK with it.\n"
	"DISK is rblk://host/volume, a block device, a file, or a folder of files. JOURNAL\n"
	"lies elsewhere; one that exists is continued. Several writers have a JOURNAL and a\n"
	"range each.\n"
	"\n"
	"run ends in good order at SIGTERM. Exit status 1: an error of the disk ended it,\n"
	"2: it could not begin.\n"
	"  --seed N         of all that is random (1)\n"
	"  --writes N       end after so many writes and flushes (at SIGTERM only)\n"
	"  --writer N       number of the writer (1)\n"
	"  --first N        its first block (0)\n"
	"  --blocks N       how many blocks it has (256)\n"
	"  --unit BYTES     of a block, which is never torn: 512 to 4096 (4096)\n"
	"  --max-blocks N   of one write (16)\n"
	"  --depth N        commands under way (16)\n"
	"  --queues N       of the session (1)\n"
	"  --give-up MS     of the session (60000)\n"
	"  --flush N        flushes in 1000 commands (20)\n"
	"  --fua N          writes with FUA in 1000 (100)\n"
	"  --no-last-flush  end without a flush\n"
	"  --acknowledge FILE  of a block device: takes \"1\" after a failed flush, and writing\n"
	"                   goes on\n"
	"\n"
	"check exits with 0: kept, 1: broken, 2: cannot tell.\n"
	"  --strict         no cache was lost: what was acknowledged is there, flushed or not\n"
	"\n"
	"Of both, where DISK is a folder:\n"
	"  --file-size BYTES  of each file (1048576)\n";

enum option_key {
	KEY_SEED = 256,
	KEY_WRITES,
	KEY_WRITER,
	KEY_FIRST,
	KEY_BLOCKS,
	KEY_UNIT,
	KEY_MAX_BLOCKS,
	KEY_DEPTH,
	KEY_QUEUES,
	KEY_GIVE_UP,
	KEY_FLUSH,
	KEY_FUA,
	KEY_NO_LAST_FLUSH,
	KEY_ACKNOWLEDGE,
	KEY_STRICT,
	KEY_FILE_SIZE,
};

static const struct option long_options[] = {
	{"seed", required_argument, NULL, KEY_SEED},
	{"writes", required_argument, NULL, KEY_WRITES},
	{"writer", required_argument, NULL, KEY_WRITER},
	{"first", required_argument, NULL, KEY_FIRST},
	{"blocks", required_argument, NULL, KEY_BLOCKS},
	{"unit", required_argument, NULL, KEY_UNIT},
	{"max-blocks", required_argument, NULL, KEY_MAX_BLOCKS},
	{"depth", required_argument, NULL, KEY_DEPTH},
	{"queues", required_argument, NULL, KEY_QUEUES},
	{"give-up", required_argument, NULL, KEY_GIVE_UP},
	{"flush", required_argument, NULL, KEY_FLUSH},
	{"fua", required_argument, NULL, KEY_FUA},
	{"no-last-flush", no_argument, NULL, KEY_NO_LAST_FLUSH},
	{"acknowledge", required_argument, NULL, KEY_ACKNOWLEDGE},
	{"strict", no_argument, NULL, KEY_STRICT},
	{"file-size", required_argument, NULL, KEY_FILE_SIZE},
	{NULL, 0, NULL, 0},
};

__attribute__((noreturn)) static void usage(void)
{
	fputs(usage_text, stderr);
	exit(PROMISE_EXIT_CANNOT);
}

static uint64_t number(uint64_t least, uint64_t most)
{
	char *end;
	uint64_t value = strtoull(optarg, &end, 10);

	if (!*optarg || *end || *optarg == '-' || value < least || value > most)
		usage();
	return value;
}

static void take_option(int key, struct promise_run *run, struct promise_check *check)
{
	switch (key) {
	case KEY_SEED:
		run->seed = number(0, UINT64_MAX);
		break;
	case KEY_WRITES:
		run->writes = number(1, UINT64_MAX);
		break;
	case KEY_WRITER:
		run->range.writer = (uint32_t)number(0, UINT32_MAX);
		break;
	case KEY_FIRST:
		run->range.first = number(0, 1u << 28);
		break;
	case KEY_BLOCKS:
		run->range.blocks = number(1, 1u << 28);
		break;
	case KEY_UNIT:
		run->range.unit = (uint32_t)number(512, 4096);
		break;
	case KEY_MAX_BLOCKS:
		run->blocks_max = (uint32_t)number(1, 1u << 16);
		break;
	case KEY_DEPTH:
		run->options.depth = (uint32_t)number(1, 512);
		break;
	case KEY_QUEUES:
		run->options.queues = (uint32_t)number(1, 16);
		break;
	case KEY_GIVE_UP:
		run->options.give_up_ms = (uint32_t)number(1, 3600000);
		break;
	case KEY_FLUSH:
		run->flush_per_1000 = (uint32_t)number(0, 1000);
		break;
	case KEY_FUA:
		run->fua_per_1000 = (uint32_t)number(0, 1000);
		break;
	case KEY_NO_LAST_FLUSH:
		run->last_flush = false;
		break;
	case KEY_ACKNOWLEDGE:
		run->options.acknowledge = optarg;
		break;
	case KEY_STRICT:
		check->strict = true;
		break;
	case KEY_FILE_SIZE:
		run->options.file_bytes = check->file_bytes = number(4096, 1ull << 40);
		break;
	default:
		usage();
	}
}

static int promise_main(int argc, char **argv)
{
	struct promise_run run = {
		.seed = 1,
		.range = {.writer = 1, .blocks = 256, .unit = 4096},
		.options = {.writer = 1,
			    .depth = 16,
			    .queues = 1,
			    .file_bytes = 1 << 20,
			    .create = true},
		.blocks_max = 16,
		.flush_per_1000 = 20,
		.fua_per_1000 = 100,
		.last_flush = true,
	};
	struct promise_check check = {.file_bytes = 1 << 20};
	const char *verb = argc > 1 ? argv[1] : "";
	uint64_t broken;
	int key;

	optind = 2;
	while ((key = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		take_option(key, &run, &check);
	run.options.writer = run.range.writer;
	if (run.range.unit % 512 || run.options.file_bytes % 4096 || argc - optind < 2)
		usage();
	if (!strcmp(verb, "run") && argc - optind == 2) {
		run.journal = argv[optind];
		run.disk = argv[optind + 1];
		return promise_run(&run);
	}
	if (strcmp(verb, "check") != 0)
		usage();
	check.journals = (const char *const *)argv + optind;
	check.journal_count = (unsigned int)(argc - optind - 1);
	check.disk = argv[argc - 1];
	return promise_check(&check, &broken);
}

int main(int argc, char **argv)
{
	rblk_program_begin();
	return rblk_program_end("promise", promise_main(argc, argv));
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asks the kernel about the process, under the names that Prometheus' own programs have, and the configuration for limits. */
#include "target/watch/metrics_process.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>
#include "target/io/limit.h"
#include "target/serve/rules.h"
#include "target/watch/metrics_line.h"

static void gauge(FILE *out, const char *name, const char *help, double value)
{
	tgt_metrics_family(out, name, "gauge", help);
	fprintf(out, "%s %.15g\n", name, value);
}

/* -- the process ------------------------------------------------------------------------------- */

/* 0: not known. */
static uint64_t resident_bytes(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	uint64_t pages = 0;

	if (!statm)
		return 0;
	if (fscanf(statm, "%*u %" SCNu64, &pages) != 1)
		pages = 0;
	fclose(statm);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Without the one that looks. 0: not known, as there is none left. */
static unsigned int open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned int count = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count ? count - 1 : 0;
}

static double timeval_s(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void metrics_reload(FILE *out, const struct tgt_methods *methods)
{
	struct tgt_last_reload last = {0};

	if (methods->changer)
		methods->changer->last_reload(methods->changer->context, &last);
	gauge(out, "rblk_last_reload_success", "1 if the files that were read last could be put in force.", !last.failed);
	gauge(out, "rblk_last_reload_time_seconds", "When they were read, since the epoch.",
	      last.time_ns ? (double)last.time_ns / 1e9 : methods->started_s);
}

void tgt_metrics_process(FILE *out, const struct tgt_methods *methods)
{
	struct rusage usage = {0};
	struct rlimit files = {0};

	getrusage(RUSAGE_SELF, &usage);
	getrlimit(RLIMIT_NOFILE, &files);
	tgt_metrics_family(out, "process_cpu_seconds_total", "counter", "Processor time of all threads.");
	fprintf(out, "process_cpu_seconds_total %.6f\n", timeval_s(&usage.ru_utime) + timeval_s(&usage.ru_stime));
	gauge(out, "process_resident_memory_bytes", "Memory of the process that is in RAM.", (double)resident_bytes());
	gauge(out, "process_open_fds", "Descriptors that are open.", open_descriptors());
	gauge(out, "process_max_fds", "Descriptors that may be open.", (double)files.rlim_cur);
	gauge(out, "process_start_time_seconds", "When the daemon was started, since the epoch.", methods->started_s);
	metrics_reload(out, methods);
}

/* -- limits ------------------------------------------------------------------------------------ */

static const struct limit_metric {
	const char *volumes, *initiators;
	enum tgt_limit_kind kind;
} limit_metrics[] = {
	{"rblk_volume_limit_iops", "rblk_initiator_limit_iops", TGT_LIMIT_OPERATIONS},
	{"rblk_volume_limit_bytes_per_second", "rblk_initiator_limit_bytes_per_second", TGT_LIMIT_BYTES},
};

/* Names of volumes, and of initiators that are under a limit, were checked: they need no quotes within. */
static void metrics_rules(FILE *out, const struct tgt_rules *rules, const struct tgt_view *view)
{
	for (size_t i = 0; i < sizeof(limit_metrics) / sizeof(limit_metrics[0]); i++) {
		const struct limit_metric *metric = &limit_metrics[i];

		tgt_metrics_family(out, metric->volumes, "gauge", "The volume's limit; 0: none.");
		for (unsigned int j = 0; j < view->volume_count; j++)
			fprintf(out, "%s{volume=\"%s\"} %" PRIu64 "\n", metric->volumes, view->volumes[j].name,
				tgt_limit_per_s(tgt_rules_volume_limit(rules, view->volumes[j].name), metric->kind));
		tgt_metrics_family(out, metric->initiators, "gauge", "The limit of an initiator that has one.");
		for (unsigned int j = 0; j < view->initiator_count; j++) {
			const struct tgt_view_initiator *initiator = &view->initiators[j];
			struct tgt_who who = {.name = initiator->name, .proven = initiator->proven};
			uint64_t limit = initiator->name[0] ? tgt_limit_per_s(tgt_rules_initiator_limit(rules, &who), metric->kind) : 0;

			if (limit)
				fprintf(out, "%s{initiator=\"%s\",proven=\"%s\"} %" PRIu64 "\n", metric->initiators,
					initiator->name, initiator->proven ? "yes" : "no", limit);
		}
	}
}

void tgt_metrics_limits(FILE *out, const struct tgt_methods *methods, const struct tgt_view *view)
{
	const struct tgt_config *config = methods->source.config;
	struct tgt_rules *rules = methods->source.rules ? tgt_rulebook_get(methods->source.rules) : NULL;

	if (config) {
		gauge(out, "rblk_sessions_max", "Sessions that there may be.", config->sessions_max);
		gauge(out, "rblk_connections_max", "Connections that there may be.", config->queues_total_max);
		gauge(out, "rblk_receive_buffers_max", "Receive buffers that a reactor may have for a device.",
		      config->receive_buffers);
	}
	if (!rules)
		return;
	metrics_rules(out, rules, view);
	tgt_rules_put(rules);
}

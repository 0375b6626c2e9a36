/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lists of CPUs, and the calling thread's affinity; see cpus.h. */
#include "target/control/cpus.h"

#include <stdio.h>
#include <limits.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/error.h"

/* A number of a CPU, without sign or space. False: it is none, or too large for a cpu_set_t. */
static bool cpu_read(const char **text, unsigned long *cpu)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*cpu = strtoul(*text, &end, 10);
	*text = end;
	return !errno && *cpu < CPU_SETSIZE;
}

/* FIRST or FIRST-LAST. */
static bool range_read(const char **text, unsigned long *first, unsigned long *last)
{
	if (!cpu_read(text, first))
		return false;
	*last = *first;
	if (**text != '-')
		return true;
	(*text)++;
	return cpu_read(text, last) && *first <= *last;
}

int tgt_cpus_parse(const char *text, struct tgt_cpus *cpus, char *why)
{
	const char *at = text;
	struct tgt_cpus list;

	memset(&list, 0, sizeof(list));
	do {
		unsigned long first, last;

		if (!range_read(&at, &first, &last) || (*at && *at != ','))
			return tgt_error(why, -EINVAL,
					 "\"%s\" is not a list of CPUs from 0 to %d (0-3,8)", text,
					 CPU_SETSIZE - 1);
		for (; first <= last; first++) {
			for (unsigned int i = 0; i < list.count; i++)
				if (list.cpu[i] == first)
					return tgt_error(why, -EINVAL, "\"%s\" has CPU %lu twice",
							 text, first);
			if (list.count == TGT_REACTORS_MAX)
				return tgt_error(why, -EINVAL, "\"%s\" has more than %d CPUs", text,
						 TGT_REACTORS_MAX);
			list.cpu[list.count++] = (uint16_t)first;
		}
	} while (*at++ == ',');
	*cpus = list;
	return 0;
}

int tgt_cpus_enter(const struct tgt_cpus *cpus, unsigned int reactor, cpu_set_t *before, char *error)
{
	unsigned int cpu;
	cpu_set_t only;

	if (!cpus->count)
		return 0;
	cpu = cpus->cpu[reactor % cpus->count];
	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_getaffinity(0, sizeof(*before), before) < 0 ||
	    sched_setaffinity(0, sizeof(only), &only) < 0)
		return tgt_error(error, -errno,
				 "cpus: reactor %u cannot run on CPU %u: %s (is it there, online, and in this "
				 "process's cpuset?)",
				 reactor, cpu, strerror(errno));
	return 0;
}

void tgt_cpus_leave(const struct tgt_cpus *cpus, const cpu_set_t *before)
{
	if (cpus->count)
		sched_setaffinity(0, sizeof(*before), before);
}

/* -- cgroups ----------------------------------------------------------------------------------- */

/*
 * The CPUs that one cgroup's quota allows: "200000 100000" is two CPUs, "max 100000" all. 0: it
 * does not say.
 */
static unsigned int quota_of(const char *root, const char *group)
{
	unsigned long long quota, period;
	char path[PATH_MAX];
	unsigned int count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/cpu.max", root, group);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &quota, &period) == 2 && quota && period && quota / period < UINT_MAX)
		count = (unsigned int)((quota + period - 1) / period);
	fclose(file);
	return count;
}

unsigned int tgt_cpus_quota(const char *root)
{
	char path[PATH_MAX], group[PATH_MAX] = "";
	unsigned int least = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(path, sizeof(path), file))
		if (!strncmp(path, "0::/", 4))
			snprintf(group, sizeof(group), "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
	fclose(file);
	/* Each limits what is below it. */
	for (;;) {
		unsigned int count = quota_of(root, group);
		char *slash = strrchr(group, '/');

		if (count && (!least || count < least))
			least = count;
		if (!slash)
			return least;
		*slash = '\0';
	}
}

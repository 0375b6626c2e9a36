/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the ways by which this machine can use volumes, and why not by one of them. Called by doctor_system.c. */
#include "initiator/cmd/doctor.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 4, 5))) static void ways_add(struct doctor_facts *facts, const char *name, bool usable,
							   const char *format, ...)
{
	struct doctor_way *way = &facts->ways[facts->way_count++];
	va_list args;

	snprintf(way->name, sizeof(way->name), "%s", name);
	way->usable = usable;
	va_start(args, format);
	vsnprintf(way->words, sizeof(way->words), format, args);
	va_end(args);
}

/* Does this kernel load signed modules only? Secure Boot locks it down. */
static bool ways_signed_only(const char *root)
{
	char line[64];

	return (doctor_line(root, "/sys/module/module/parameters/sig_enforce", "", line, sizeof(line)) && line[0] == 'Y') ||
	       (doctor_line(root, "/sys/kernel/security/lockdown", "", line, sizeof(line)) && strchr(line, '[') &&
		!strstr(line, "[none]"));
}

/* Whose signature it is, only the kernel knows. A compressed one is taken for signed. */
static bool ways_is_signed(const char *root, const struct doctor_facts *facts, const struct doctor_module *module)
{
	static const char mark[] = "~Module signature appended~\n";
	char path[PATH_MAX], end[sizeof(mark) - 1];
	size_t length;
	bool is;
	int fd;

	length = (size_t)snprintf(path, sizeof(path), "%s/lib/modules/%s/%s", root, facts->kernel, module->file);
	fd = length > 3 && length < sizeof(path) && !strcmp(path + length - 3, ".ko") ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return true;
	is = lseek(fd, -(off_t)sizeof(end), SEEK_END) >= 0 && read(fd, end, sizeof(end)) == sizeof(end) &&
	     !memcmp(end, mark, sizeof(end));
	close(fd);
	return is;
}

static void ways_module(struct doctor_facts *facts, const char *root)
{
	struct doctor_module module;

	doctor_module_read(facts, root, "rblk", &module);
	if (module.loaded)
		ways_add(facts, "module", true, "rblk is loaded");
	else if (!module.available)
		ways_add(facts, "module", false, "rblk is not built for this kernel (package rblk-dkms)");
	else if (ways_signed_only(root) && !ways_is_signed(root, facts, &module))
		ways_add(facts, "module", false, "rblk is not signed, and this kernel loads signed modules only (Secure Boot): see rblk(1)");
	else
		ways_add(facts, "module", true, "rblk can be loaded");
}

static void ways_ublk(struct doctor_facts *facts, const char *root)
{
	unsigned int major = 0, minor = 0;
	struct doctor_module module;
	char line[32];

	doctor_module_read(facts, root, "ublk_drv", &module);
	if (sscanf(facts->kernel, "%u.%u", &major, &minor) == 2 && (major < 6 || (major == 6 && minor < 5)))
		ways_add(facts, "ublk", false, "Linux 6.5 or newer is needed");
	else if (!module.available)
		ways_add(facts, "ublk", false, "this kernel has no module ublk_drv (CONFIG_BLK_DEV_UBLK)");
	else if (doctor_line(root, "/proc/sys/kernel/io_uring_disabled", "", line, sizeof(line)) && line[0] == '2')
		ways_add(facts, "ublk", false, "io_uring is switched off (sysctl kernel.io_uring_disabled)");
	else
		ways_add(facts, "ublk", true, "ublk_drv %s", module.loaded ? "is loaded" : "can be loaded");
}

static bool ways_found(const char *root, const char *pattern)
{
	char path[PATH_MAX];
	glob_t found;
	bool any;

	snprintf(path, sizeof(path), "%s%s", root, pattern);
	any = !glob(path, GLOB_BRACE, NULL, &found);
	if (any)
		globfree(&found);
	return any;
}

static void ways_nbdkit(struct doctor_facts *facts, const char *root)
{
	if (!ways_found(root, "/usr/{,local/}{bin,sbin}/nbdkit"))
		ways_add(facts, "nbdkit", false, "nbdkit is not installed");
	else if (!ways_found(root, "/usr/{,local/}{lib,lib64,lib/*}/nbdkit/plugins/nbdkit-rblk-plugin.so"))
		ways_add(facts, "nbdkit", false, "its plugin is not installed (package nbdkit-plugin-rblk)");
	else
		ways_add(facts, "nbdkit", true, "nbdkit has the plugin rblk");
}

void doctor_collect_ways(struct doctor_facts *facts, const char *root)
{
	facts->way_count = 0;
	ways_module(facts, root);
	ways_ublk(facts, root);
	ways_nbdkit(facts, root);
	ways_add(facts, "librblk", true, "for programs, and this command");
}

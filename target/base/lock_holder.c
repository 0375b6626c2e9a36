/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The lines of /proc/locks: "12: FLOCK ADVISORY WRITE 4711 08:01:131074 0 EOF". */
#include "target/base/lock_holder.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int tgt_lock_holder(const char *path)
{
	unsigned int major_number, minor_number;
	unsigned long long inode;
	int pid, holder = 0;
	char line[256];
	struct stat st;
	FILE *locks;

	locks = stat(path, &st) ? NULL : fopen("/proc/locks", "re");
	if (!locks)
		return 0;
	while (!holder && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major_number, &minor_number, &inode) == 4 &&
		    major_number == major(st.st_dev) && minor_number == minor(st.st_dev) && inode == st.st_ino)
			holder = pid;
	fclose(locks);
	return holder;
}

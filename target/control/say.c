/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The words of say.h. */
#include "target/control/say.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include "target/base/log.h"
#include "target/base/settings.h"
#include "target/control/initiators.h"

/* Discovery waits for interfaces that come later, so a name that is misspelled is no error. */
static void say_interfaces(const char *names)
{
	char name[IFNAMSIZ];

	if (!strcmp(names, "none") || !strcmp(names, "all"))
		return;
	for (names += strspn(names, " ,"); *names; names += strspn(names, " ,")) {
		size_t length = strcspn(names, " ,");

		snprintf(name, sizeof(name), "%.*s", (int)length, names);
		if (!if_nametoindex(name))
			tgt_log(TGT_LOG_WARNING,
				"discovery: there is no network interface %s; the target answers there when there is",
				name);
		names += length;
	}
}

void tgt_say(const struct tgt_config *config)
{
	tgt_initiators_say(config);
	say_interfaces(config->discovery);
}

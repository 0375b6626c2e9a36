/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * initiator/names.h without a resolver and threads. The name target-MACHINE-PORTALS has the addresses of that host's
 * portals in any order, behind one at which nothing ever answers; asked again, it answers now or later, in another order.
 * Linked instead of initiator/names.c. Also getifaddrs(3), by which a target asks whether a peer is on its own machine: none
 * is.
 */
#include "initiator/names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include "proto/core/env.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

struct ini_lookup {
	char name[32];
};

static void add(struct ini_addresses *found, const char *port, unsigned int portal, unsigned int machine)
{
	struct sockaddr_in *address = (void *)&found->of[found->count++];

	address->sin_family = AF_INET;
	address->sin_port = htons((u16)atoi(port));
	address->sin_addr.s_addr = htonl(0x0a000000u + (portal << 8) + machine);
}

int ini_names_ask(const char *name, const char *port, struct ini_addresses *found)
{
	unsigned int machine, portal, portals, first;

	memset(found, 0, sizeof(*found));
	if (sscanf(name, "10.0.%u.%u", &portal, &machine) == 2) {
		add(found, port, portal, machine);
		return 0;
	}
	if (sscanf(name, "target-%u-%u", &machine, &portals) != 2)
		sim_fail("%s: nobody has this name", name);
	first = (unsigned int)sim_below(portals);
	add(found, port, SIM_PORTALS_MAX, machine);
	for (unsigned int i = 0; i < portals; i++)
		add(found, port, (first + i) % portals, machine);
	return 0;
}

bool ini_names_numeric(const char *name)
{
	return *name >= '0' && *name <= '9';
}

struct ini_lookup *ini_lookup_start(const char *name, const char *port)
{
	struct ini_lookup *lookup = calloc(1, sizeof(*lookup));

	(void)port;
	if (!lookup)
		sim_fail("out of memory");
	snprintf(lookup->name, sizeof(lookup->name), "%s", name);
	return lookup;
}

bool ini_lookup_answered(struct ini_lookup *lookup, struct ini_addresses *found, int *error)
{
	if (sim_chance(500000))
		return false;
	*error = sim_chance(200000) ? EAI_AGAIN : ini_names_ask(lookup->name, "4430", found);
	sim_reached("application", *error ? "asks for its target's addresses in vain" : "learns its target's addresses again",
		    NULL);
	free(lookup);
	return true;
}

void ini_lookup_drop(struct ini_lookup *lookup)
{
	if (lookup)
		sim_reached("application", "does not wait for its target's addresses", NULL);
	free(lookup);
}

int __wrap_getifaddrs(struct ifaddrs **list);
int __wrap_getifaddrs(struct ifaddrs **list)
{
	*list = NULL;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list);
void __wrap_freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

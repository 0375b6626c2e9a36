/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where an open volume was served last, and whether another target may take it over. Specification
 * section 8, F10: a fence reaches only what its target knows of, so commands go on at another
 * instance only if both reported the same fence domain. One for each open volume. Pure; the caller
 * owns the memory, and asks before it uses the handle of a new epoch.
 */
#ifndef RBLK_CORE_DOMAIN_H
#define RBLK_CORE_DOMAIN_H

#include "proto/wire/types.h"

/* Why it may not; for people. */
#define CORE_DOMAIN_TEXT \
	"another target serves it here, which does not say that it can fence the first one (no common fence domain)"

struct core_domain {
	u8 instance[16]; /* target_instance of the session when the volume was opened last */
	u8 domain[16];	 /* what that target reported; zero: nothing */
	bool known;	 /* it was opened */
};

/* May the volume be used at this instance, whose OPEN reports that domain? */
static inline bool core_domain_admits(const struct core_domain *domain, const u8 instance[16],
				      const u8 reported[16])
{
	static const u8 none[16];

	if (!domain->known || !memcmp(domain->instance, instance, sizeof(domain->instance)))
		return true;
	return memcmp(reported, none, sizeof(none)) &&
	       !memcmp(domain->domain, reported, sizeof(domain->domain));
}

/* It is used there from now on. */
static inline void core_domain_opened(struct core_domain *domain, const u8 instance[16],
				      const u8 reported[16])
{
	memcpy(domain->instance, instance, sizeof(domain->instance));
	memcpy(domain->domain, reported, sizeof(domain->domain));
	domain->known = true;
}

#endif

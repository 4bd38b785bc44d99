/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection over iWARP has to itself: a protection domain, and memory registered in it. */
#ifndef TICKBUS_BUS_VERBS_OWN_H
#define TICKBUS_BUS_VERBS_OWN_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

struct verbs_own_region;

/* What a connection has. */
struct verbs_own {
	struct verbs_own *next; /* among those whose connection ended */
	struct ibv_pd *pd;
	struct verbs_own_region *regions;
};

/* The registrations of an exposure for connections. */
struct verbs_own_regions {
	struct verbs_own_region *first;
};

/* NULL with errno. */
struct verbs_own *verbs_own_open(struct ibv_context *);
/* The registration of an exposure for remote READ by this connection, made if there is none yet;
 * NULL with errno. */
struct ibv_mr *verbs_own_register(struct verbs_own *, struct verbs_own_regions *, void *memory,
				  size_t bytes);
/* The connection ended: verbs_own_free_ended frees what it had. Takes NULL. */
void verbs_own_end(struct verbs_own *, struct verbs_own **ended);
/* Frees what ended connections had, at most this many registrations. Returns how many are left of
 * that number. */
unsigned int verbs_own_free_ended(struct verbs_own **ended, unsigned int most);
/* Ends the registrations of an exposure, in the same way. */
unsigned int verbs_own_withdraw(struct verbs_own_regions *, unsigned int most);

#endif

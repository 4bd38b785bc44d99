/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains of a device, one for each realm, and memory registered in them. */
#ifndef TICKBUS_BUS_VERBS_DOMAIN_H
#define TICKBUS_BUS_VERBS_DOMAIN_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"

/* The address at which a registration begins for its readers. */
#define VERBS_REGISTRATION_ADDRESS 0

/* Memory that peers of a domain may READ; held by each exposure of it. */
struct verbs_registration {
	struct verbs_registration *next, **link;
	const void *memory;
	struct ibv_mr *mr;
	unsigned int users;
	bool retired; /* gets no new users (D2) */
};

struct verbs_domain {
	struct verbs_domain *next, **link;
	struct ibv_context *device;
	uint32_t realm;
	struct ibv_pd *pd;
	unsigned int users;
	struct verbs_registration *registrations;
};

/* The domain of a device and a realm, made if there is none yet; NULL with errno. */
struct verbs_domain *verbs_domain_use(struct fabric_common *, struct ibv_context *, uint32_t realm);
/* When this user has destroyed all that it made in the domain. */
void verbs_domain_leave(struct verbs_domain *);
/* The registration of memory for remote READ alone, made if there is none yet; NULL with errno. */
struct verbs_registration *verbs_registration_use(struct verbs_domain *, void *memory,
						  size_t bytes);
/* The memory is about to be unmapped. Peers with the key may read until all users left. */
void verbs_registration_retire(struct verbs_registration *);
void verbs_registration_leave(struct verbs_registration *);

#endif

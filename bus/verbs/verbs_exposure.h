/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a listener exposes, and the protection domains that its device has for each realm. */
#ifndef TICKBUS_BUS_VERBS_EXPOSURE_H
#define TICKBUS_BUS_VERBS_EXPOSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/fabric.h"
#include "bus/verbs/verbs_listener.h"

struct verbs_own;

/* Whether the peers of a realm share domain and registrations. Otherwise each peer has its own. The
 * device is there. */
bool verbs_exposure_shared(const struct verbs_listener *);
/* The key of the shared registration, or of that for one connection: 0, or -errno with a text. */
int verbs_exposure_key(const struct exposure *, struct fabric_key *);
int verbs_exposure_own_key(struct exposure *, struct verbs_own *, struct fabric_key *);
/* Makes sure that the listener has the domain of a realm: 0, or -errno with a text. */
int verbs_exposure_domain(struct verbs_listener *, uint32_t realm);
/* Registers the next exposure that is not registered: 1, 0 when all are, or -errno with a text. */
int verbs_exposures_register_next(struct verbs_listener *);
/* The device goes: ends all registrations and domains, and keeps the exposures. */
void verbs_exposures_unregister(struct verbs_listener *);
/* Frees exposures that were withdrawn long enough ago. */
void verbs_exposures_free_withdrawn(struct verbs_listener *);
void verbs_exposures_close(struct verbs_listener *);

#endif

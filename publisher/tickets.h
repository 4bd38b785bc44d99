/* SPDX-License-Identifier: Apache-2.0 */
/* The tickets of realms: which realm a client proves to know the ticket of, and changing a ticket
 * while the bus runs. */
#ifndef TICKBUS_PUBLISHER_TICKETS_H
#define TICKBUS_PUBLISHER_TICKETS_H

#include "bus/proof.h"
#include "publisher/state.h"

/* The realm whose present or old ticket makes this proof, and that ticket; or NULL. Tries all
 * tickets, so that the time it takes does not show which one fits. Under the lock. */
const struct realm *tickets_find(struct tb_publisher *, const struct proof_handshake *,
				 const uint8_t proof[PROOF_BYTES], const uint8_t **ticket);
/* True if a client without a ticket makes this proof. */
bool tickets_absent(const struct proof_handshake *, const uint8_t proof[PROOF_BYTES]);
/* Wipes the old tickets whose time is over. Under the lock. */
void tickets_expire(struct tb_publisher *);

#endif

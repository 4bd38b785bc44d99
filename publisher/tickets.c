/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/tickets.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"

static const uint8_t no_ticket[TB_TICKET_BYTES];

static_assert(TB_TICKET_BYTES == PROOF_TICKET_BYTES, "a ticket is the key of a proof");

/* -- proofs -----------------------------------------------------------------------------------
 */

static bool ticket_fits(const uint8_t ticket[TB_TICKET_BYTES],
			const struct proof_handshake *handshake, const uint8_t proof[PROOF_BYTES])
{
	uint8_t expected[PROOF_BYTES];

	proof_of_client(ticket, handshake, expected);
	return proof_same(expected, proof);
}

/* The work is the same for each proof, also for a realm without an old ticket. So the time of a
 * refusal does not show which realms changed their tickets. */
const struct realm *tickets_find(struct tb_publisher *publisher,
				 const struct proof_handshake *handshake,
				 const uint8_t proof[PROOF_BYTES], const uint8_t **ticket)
{
	const struct realm *found = NULL;

	tickets_expire(publisher);
	for (uint32_t i = 0; i < publisher->realm_count; i++) {
		const struct realm *realm = &publisher->realms[i];

		const bool fits = ticket_fits(realm->ticket, handshake, proof);
		const bool old_fits = ticket_fits(realm->old_ticket, handshake, proof);

		if (fits) {
			found = realm;
			*ticket = realm->ticket;
		}
		if (old_fits && realm->old_until_ms) {
			found = realm;
			*ticket = realm->old_ticket;
		}
	}
	return found;
}

bool tickets_absent(const struct proof_handshake *handshake, const uint8_t proof[PROOF_BYTES])
{
	return ticket_fits(no_ticket, handshake, proof);
}

/* -- change -----------------------------------------------------------------------------------
 */

static void old_ticket_end(struct realm *realm)
{
	explicit_bzero(realm->old_ticket, TB_TICKET_BYTES);
	realm->old_until_ms = 0;
}

void tickets_expire(struct tb_publisher *publisher)
{
	const uint64_t now = clock_coarse_ms();

	for (uint32_t i = 0; i < publisher->realm_count; i++)
		if (publisher->realms[i].old_until_ms && now >= publisher->realms[i].old_until_ms)
			old_ticket_end(&publisher->realms[i]);
}

static bool realm_knows(const struct realm *realm, const uint8_t ticket[TB_TICKET_BYTES])
{
	return memcmp(realm->ticket, ticket, TB_TICKET_BYTES) == 0 ||
	       (realm->old_until_ms && memcmp(realm->old_ticket, ticket, TB_TICKET_BYTES) == 0);
}

static int change_check(const char *name, const uint8_t *ticket, uint32_t old_valid_ms)
{
	if (!name || !ticket || memcmp(ticket, no_ticket, TB_TICKET_BYTES) == 0)
		return error_set(EINVAL, "ticket of realm %s: found %s, expected random bytes",
				 name ? name : "NULL", ticket && name ? "zeros" : "NULL");
	if (old_valid_ms > BOUND_TICKET_OVERLAP_S_MAX * 1000)
		return error_set(EINVAL,
				 "ticket of realm %s: old_valid_ms: found %u, expected at most %d",
				 name, old_valid_ms, BOUND_TICKET_OVERLAP_S_MAX * 1000);
	return 0;
}

static struct realm *realm_named(struct tb_publisher *publisher, const char *name)
{
	for (uint32_t i = 0; i < publisher->realm_count; i++)
		if (strcmp(publisher->realms[i].name, name) == 0)
			return &publisher->realms[i];
	return NULL;
}

/* Under the lock. A ticket of two realms would leave its clients' realm to chance. */
static int ticket_change(struct tb_publisher *publisher, const char *name,
			 const uint8_t ticket[TB_TICKET_BYTES], uint32_t old_valid_ms)
{
	struct realm *realm = realm_named(publisher, name);

	if (!realm)
		return error_set(ENOENT, "ticket of realm %s: found no realm of this name", name);
	if (memcmp(realm->ticket, no_ticket, TB_TICKET_BYTES) == 0)
		return error_set(EINVAL,
				 "ticket of realm %s: this realm is for clients without a ticket",
				 name);
	tickets_expire(publisher);
	for (uint32_t i = 0; i < publisher->realm_count; i++)
		if (&publisher->realms[i] != realm && realm_knows(&publisher->realms[i], ticket))
			return error_set(EEXIST,
					 "ticket of realm %s: realm %s has the same ticket, "
					 "expected a ticket of its own",
					 name, publisher->realms[i].name);
	if (memcmp(realm->ticket, ticket, TB_TICKET_BYTES) == 0)
		return 0;
	old_ticket_end(realm);
	if (old_valid_ms > 0) {
		memcpy(realm->old_ticket, realm->ticket, TB_TICKET_BYTES);
		realm->old_until_ms = clock_coarse_ms() + old_valid_ms;
	}
	memcpy(realm->ticket, ticket, TB_TICKET_BYTES);
	return 1;
}

TB_API int tb_publisher_ticket(struct tb_publisher *publisher, const char *realm,
			       const uint8_t *ticket, uint32_t old_valid_ms)
{
	int result;

	if (!publisher)
		return error_null("publisher");
	result = change_check(realm, ticket, old_valid_ms);
	if (result < 0)
		return result;
	publisher_lock(publisher);
	result = ticket_change(publisher, realm, ticket, old_valid_ms);
	publisher_unlock(publisher);
	return result;
}

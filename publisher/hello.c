/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side of the handshake.
 *
 * H4  Nothing of a first hello is kept: its cookie, which the second hello repeats, shows where it
 *     came from and when. Nothing is made for a client, and no ticket is tried, before its cookie
 *     was checked. */
#include "publisher/hello.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/control.h"
#include "bus/proof.h"
#include "publisher/quota.h"
#include "publisher/session.h"
#include "publisher/tickets.h"
#include "tickbus/error.h"

/* A first hello asks for a challenge. */
static bool is_first(const struct control_hello *hello)
{
	static const uint8_t none[PROOF_BYTES];

	return memcmp(hello->cookie, none, sizeof(none)) == 0 &&
	       memcmp(hello->proof, none, sizeof(none)) == 0;
}

/* H4. True if the cookie was made for this client, and not long ago. */
static bool cookie_check(const struct tb_publisher *publisher, const struct proof_client *client,
			 const struct control_hello *hello, char reason[FABRIC_REASON_BYTES])
{
	if (proof_cookie_good(publisher->secret, client, clock_coarse_ms(), hello->cookie))
		return true;
	snprintf(reason, FABRIC_REASON_BYTES,
		 "the second hello is too late, or comes from another address than the first; "
		 "expected it within %d s; connect again",
		 PROOF_WINDOW_MS / 1000);
	return false;
}

/* A bus without realms has a single realm without a ticket. */
static bool has_tickets(const struct tb_publisher *publisher)
{
	static const uint8_t none[TB_TICKET_BYTES];

	return publisher->realm_count > 1 ||
	       memcmp(publisher->realms[0].ticket, none, sizeof(none)) != 0;
}

/* The realm whose ticket the client proves to know, or NULL. A peer stays in it until it
 * disconnects. */
static const struct realm *realm_choose(struct endpoint *endpoint,
					const struct proof_handshake *handshake,
					const struct control_hello *hello, const uint8_t **ticket,
					char reason[FABRIC_REASON_BYTES])
{
	struct tb_publisher *publisher = endpoint->publisher;
	const struct realm *realm = tickets_find(publisher, handshake, hello->proof, ticket);
	const bool absent = tickets_absent(handshake, hello->proof); /* the same work for each */

	if (realm)
		return realm;
	if (absent)
		snprintf(reason, FABRIC_REASON_BYTES,
			 "the subscriber has no ticket, but the publisher requires a ticket");
	else if (!has_tickets(publisher))
		snprintf(reason, FABRIC_REASON_BYTES,
			 "the bus takes no tickets, or the dialled address was not %s",
			 endpoint->identity);
	else
		snprintf(
			reason, FABRIC_REASON_BYTES,
			"the publisher does not know the ticket, or the dialled address was not %s",
			endpoint->identity);
	return NULL;
}

/* The welcome, with the proof that this publisher knows the ticket. */
static int welcome_fill(struct endpoint *endpoint, struct peer *peer, const struct realm *realm,
			const struct proof_handshake *handshake, const uint8_t *ticket,
			struct fabric_answer *answer)
{
	const struct tb_publisher *publisher = endpoint->publisher;
	struct control_welcome welcome = { .bus_id = publisher->bus_id,
					   .features = has_tickets(publisher)
							       ? CONTROL_FEATURE_REALMS
							       : 0,
					   .stale_ms = publisher->stale_ms,
					   .topics_max = publisher->topics_max };
	int result;

	welcome.version = handshake->version_high < CONTROL_VERSION_HIGH ? handshake->version_high
									 : CONTROL_VERSION_HIGH;
	memcpy(welcome.name, publisher->name, sizeof(welcome.name));
	answer->given = endpoint->pages[realm->index];
	result = answer->given->ops->key(answer->given, peer, &welcome.key);
	if (result < 0)
		return result;
	if (publisher->notice_groups[0].announcers[endpoint->index])
		endpoint->listener->ops->notices(endpoint->listener, NULL, &welcome.notices);
	answer->welcome_bytes = control_welcome_encode(&welcome, answer->welcome);
	proof_of_publisher(ticket, handshake, answer->welcome, answer->welcome_bytes,
			   welcome.proof);
	control_welcome_encode(&welcome, answer->welcome);
	return 0;
}

/* Accepts a client that answered its challenge. */
static int hello_accept(struct endpoint *endpoint, struct peer *peer,
			const struct control_hello *hello, struct fabric_answer *answer)
{
	struct proof_handshake handshake = { .version_low = hello->version_low,
					     .version_high = hello->version_high,
					     .address = endpoint->identity };
	const struct realm *realm;
	const uint8_t *ticket;
	int result;

	memcpy(handshake.nonce, hello->nonce, sizeof(handshake.nonce));
	memcpy(handshake.cookie, hello->cookie, sizeof(handshake.cookie));
	realm = realm_choose(endpoint, &handshake, hello, &ticket, answer->reason);
	if (!realm)
		return -EACCES;
	result = quota_check(endpoint, peer, realm, answer->reason);
	if (result < 0)
		return result;
	if (!session_open(endpoint, peer, realm)) {
		snprintf(answer->reason, sizeof(answer->reason),
			 "the publisher has no memory for another subscriber");
		return -EAGAIN;
	}
	result = welcome_fill(endpoint, peer, realm, &handshake, ticket, answer);
	if (result < 0) {
		snprintf(answer->reason, sizeof(answer->reason), "%s", tb_error());
		session_close(peer->user);
		return -EAGAIN; /* the subscriber may try again */
	}
	return 0;
}

int hello_answer(void *user, struct peer *peer, const void *bytes, size_t length,
		 struct fabric_answer *answer)
{
	struct endpoint *endpoint = user;
	struct tb_publisher *publisher = endpoint->publisher;
	struct control_hello hello;
	const struct proof_client client = { .nonce = hello.nonce,
					     .origin = peer->origin,
					     .origin_bytes = peer->origin_bytes };
	int result = control_hello_decode(bytes, length, &hello);

	if (result < 0) {
		snprintf(answer->reason, sizeof(answer->reason), "%s", tb_error());
		return result;
	}
	if (is_first(&hello)) {
		proof_cookie(publisher->secret, &client, clock_coarse_ms(), answer->challenge);
		return 1;
	}
	if (!cookie_check(publisher, &client, &hello, answer->reason))
		return -ETIMEDOUT; /* the client may try again */
	return hello_accept(endpoint, peer, &hello, answer);
}

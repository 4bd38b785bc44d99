/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/hello.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/control.h"
#include "publisher/realm.h"
#include "publisher/session.h"

static int hello_check(const struct control_hello *hello, char reason[FABRIC_REASON_BYTES])
{
	if (hello->version_low > CONTROL_VERSION_HIGH ||
	    hello->version_high < CONTROL_VERSION_LOW) {
		snprintf(
			reason, FABRIC_REASON_BYTES,
			"no common version: the subscriber speaks %u to %u, the publisher %d to %d",
			hello->version_low, hello->version_high, CONTROL_VERSION_LOW,
			CONTROL_VERSION_HIGH);
		return -EPROTO;
	}
	return 0;
}

/* The realm of the hello's ticket. A peer stays in it until it disconnects. */
static int realm_choose(const struct tb_publisher *publisher, const struct control_hello *hello,
			const struct realm **realm, char reason[FABRIC_REASON_BYTES])
{
	static const uint8_t none[TB_TICKET_BYTES];
	const char *why = "the subscriber's ticket is not known to the publisher";

	*realm = realms_find(publisher, hello->ticket);
	if (*realm)
		return 0;
	if (memcmp(hello->ticket, none, sizeof(none)) == 0)
		why = "the subscriber has no ticket, but the publisher requires a ticket";
	else if (publisher->realm_count == 1 &&
		 memcmp(publisher->realms[0].ticket, none, sizeof(none)) == 0)
		why = "the subscriber has a ticket, but no realm of the bus has a ticket";
	snprintf(reason, FABRIC_REASON_BYTES, "%s", why);
	return -EACCES;
}

int hello_answer(void *user, struct peer *peer, const void *hello, size_t bytes, void *welcome,
		 size_t *welcome_bytes, struct exposure **given, char reason[FABRIC_REASON_BYTES])
{
	struct endpoint *endpoint = user;
	struct tb_publisher *publisher = endpoint->publisher;
	struct control_hello asked;
	struct control_welcome answer = { .bus_id = publisher->bus_id,
					  .stale_ms = publisher->stale_ms,
					  .topics_max = publisher->topics_max };
	const struct realm *realm = NULL;
	int result = control_hello_decode(hello, bytes, &asked);

	if (result < 0)
		snprintf(reason, FABRIC_REASON_BYTES, "%s", tb_error());
	else
		result = hello_check(&asked, reason);
	if (result == 0)
		result = realm_choose(publisher, &asked, &realm, reason);
	if (result == 0 && !session_open(endpoint, peer, realm)) {
		snprintf(reason, FABRIC_REASON_BYTES,
			 "the publisher has no memory for another subscriber");
		result = -EAGAIN;
	}
	if (result < 0)
		return result;
	answer.version = asked.version_high < CONTROL_VERSION_HIGH ? asked.version_high
								   : CONTROL_VERSION_HIGH;
	memcpy(answer.name, publisher->name, sizeof(answer.name));
	*given = endpoint->pages[realm->index];
	answer.key = (*given)->ops->key(*given);
	if (publisher->notice_groups[0].announcers[endpoint->index])
		endpoint->listener->ops->notices(endpoint->listener, NULL, &answer.notices);
	*welcome_bytes = control_welcome_encode(&answer, welcome);
	return 0;
}

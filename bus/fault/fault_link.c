/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a connection with faults, and its messages.
 *
 * F3  A fault of the connection never breaks the link below: its descriptor stays valid, and
 * nothing is freed, until the owner breaks it. What arrives below after the loss is not passed on.
 * F4  While the decorator holds anything back, sleep says that there is work. So no wake-up is
 *     lost: the owner polls until the time of the last fault has passed. */
#include "bus/fault/fault_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/fault/fault_trouble.h"

static struct fault_link *link_of(struct link *base)
{
	return (struct fault_link *)base;
}

/* -- calls of the link below -------------------------------------------------------------------
 */

static int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			uint8_t hello[FABRIC_HELLO_BYTES])
{
	struct fault_link *link = user;

	fault_trouble(link);
	return link->lost ? error_set(ECONNRESET, "fault: the connection is lost")
			  : link->calls.challenge(link->user, challenge, hello);
}

static void on_welcome(void *user, const void *welcome, size_t bytes)
{
	struct fault_link *link = user;

	fault_trouble(link);
	if (link->lost)
		return;
	link->welcoming = true;
	link->calls.welcome(link->user, welcome, bytes);
	link->welcoming = false;
}

static void on_message(void *user, const void *message, size_t bytes)
{
	struct fault_link *link = user;

	fault_trouble(link);
	if (!link->lost)
		link->calls.message(link->user, message, bytes);
}

static void gone(struct fault_link *link, int code, const char *why)
{
	link->lost = link->reported = true;
	link->calls.gone(link->user, code, why);
}

static void on_gone(void *user, int code, const char *why)
{
	struct fault_link *link = user;

	if (!link->lost)
		gone(link, code, why);
}

static const struct link_calls calls_from_below = {
	.challenge = on_challenge,
	.welcome = on_welcome,
	.message = on_message,
	.gone = on_gone,
};

/* -- the link ----------------------------------------------------------------------------------
 */

int fault_connect(struct link **out, const char *address, const void *hello, size_t bytes,
		  const struct link_calls *calls, void *user)
{
	struct fault_plan plan;
	struct fault_link *link;
	int result = fault_plan_parse(address, &plan);

	*out = NULL;
	if (result < 0)
		return result;
	link = calloc(1, sizeof(*link));
	if (!link)
		return error_set(ENOMEM, "address fault:%.100s: no memory", address);
	link->ops = plan.ops;
	link->calls = *calls;
	link->user = user;
	fault_chance_begin(&link->chance, &plan);
	result = plan.ops->connect(&link->below, plan.address, hello, bytes, &calls_from_below,
				   link);
	if (result < 0)
		free(link);
	else
		*out = &link->base;
	return result;
}

enum link_state fault_link_state(const struct link *base)
{
	const struct fault_link *link = (const struct fault_link *)base;

	return link->reported || link->broken ? LINK_GONE : link->ops->link_state(link->below);
}

int fault_link_fd(const struct link *base)
{
	const struct fault_link *link = (const struct fault_link *)base;

	return link->ops->link_fd(link->below);
}

int fault_link_user(const struct link *base, uid_t *user)
{
	const struct fault_link *link = (const struct fault_link *)base;

	return link->ops->link_user(link->below, user);
}

/* Sends what a stall held back, in order. */
static void held_send(struct fault_link *link)
{
	unsigned int sent = 0;

	while (sent < link->held_count && link->ops->link_send(link->below, link->held[sent].text,
							       link->held[sent].bytes) != -EAGAIN)
		sent++;
	link->held_count -= sent;
	memmove(link->held, link->held + sent, link->held_count * sizeof(link->held[0]));
}

static void link_free(struct fault_link *link)
{
	link->ops->link_close(link->below);
	free(link->notices.held);
	free(link);
}

int fault_link_poll(struct link *base)
{
	struct fault_link *link = link_of(base);
	int count = 0;

	if (link->broken || link->reported || fault_is_stalled(link))
		return 0;
	link->polling = true;
	if (!link->lost && link->held_count > 0)
		held_send(link);
	if (!link->lost)
		count = link->ops->link_poll(link->below);
	if (link->lost && !link->reported && !link->broken) {
		gone(link, ECONNRESET, "fault: the connection is lost, as the address asks");
		count++;
	}
	link->polling = false;
	if (link->closed)
		link_free(link);
	return count;
}

int fault_link_send(struct link *base, const void *message, size_t bytes)
{
	struct fault_link *link = link_of(base);
	struct fault_message *held = &link->held[link->held_count];

	if (link->lost || fault_link_state(base) != LINK_UP)
		return error_set(ENOTCONN, "not connected");
	if (bytes == 0 || bytes > sizeof(held->text))
		return error_set(EMSGSIZE, "found a message of %zu bytes, expected 1 to %d", bytes,
				 FABRIC_MESSAGE_BYTES);
	fault_trouble(link);
	if (link->lost)
		return 0; /* the message is lost with the connection */
	if (link->held_count == 0 && !fault_is_stalled(link))
		return link->ops->link_send(link->below, message, bytes);
	if (link->held_count == FABRIC_UNANSWERED)
		return error_set(EAGAIN, "fault: the connection stalls");
	memcpy(held->text, message, bytes);
	held->bytes = bytes;
	link->held_count++;
	return 0;
}

void fault_link_left(struct link *base)
{
	struct fault_link *link = link_of(base);

	link->polling = link->welcoming = false;
	link->ops->link_left(link->below);
}

void fault_link_break(struct link *base)
{
	struct fault_link *link = link_of(base);

	link->broken = true;
	link->ops->link_break(link->below);
	fault_reads_break(link);
}

void fault_link_settle(struct link *base)
{
	struct fault_link *link = link_of(base);

	link->ops->link_settle(link->below);
}

void fault_link_close(struct link *base)
{
	struct fault_link *link = link_of(base);

	if (!link)
		return;
	if (link->polling)
		link->closed = true;
	else
		link_free(link);
}

int fault_sleep(struct link *base)
{
	struct fault_link *link = link_of(base);

	if (link->lost || link->held_count > 0 || link->notices.count > 0 ||
	    fault_reads_held(link) || fault_is_stalled(link))
		return 1; /* F4 */
	return link->ops->sleep(link->below);
}

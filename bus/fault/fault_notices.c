/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/fault/fault_notices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/fault/fault_link.h"
#include "bus/fault/fault_trouble.h"

#define LATE_NS                                                                                    \
	UINT64_C(1000000) /* the longest delay; a notice waits as long for the next notice */

int fault_receive(struct link *base, const struct fabric_notices *notices)
{
	struct fault_link *link = (struct fault_link *)base;

	if (!link->notices.held)
		link->notices.held = calloc(FAULT_NOTICES, sizeof(*link->notices.held));
	if (!link->notices.held)
		return error_set(ENOMEM, "fault: no memory for notices");
	return link->ops->receive(link->below, notices);
}

void fault_receive_end(struct link *base, const struct fabric_notices *notices)
{
	const struct fault_link *link = (const struct fault_link *)base;

	link->ops->receive_end(link->below, notices);
}

/* A free place with a copy of the datagram; NULL: there is none. */
static struct fault_notice *hold(struct fault_notices *notices, const void *datagram, size_t length)
{
	struct fault_notice *place = notices->held;

	if (!place || notices->count == FAULT_NOTICES || length > sizeof(place->bytes))
		return NULL;
	while (place->length > 0)
		place++;
	*place = (struct fault_notice){ .length = length };
	memcpy(place->bytes, datagram, length);
	notices->count++;
	return place;
}

/* The length of a held notice that is due, or 0. */
static size_t held_take(struct fault_notices *notices, void *datagram, size_t room)
{
	const uint64_t now_ns = notices->count > 0 ? clock_ns() : 0;

	for (unsigned int i = 0; i < FAULT_NOTICES && notices->count > 0; i++) {
		struct fault_notice *notice = &notices->held[i];
		const size_t length = notice->length;

		if (length == 0 || now_ns < notice->due_ns)
			continue;
		notice->length = 0;
		notices->count--;
		if (length > room)
			continue;
		memcpy(datagram, notice->bytes, length);
		return length;
	}
	return 0;
}

/* Notices that waited for the next notice are due now. */
static void passed(struct fault_notices *notices)
{
	for (unsigned int i = 0; i < FAULT_NOTICES && notices->count > 0; i++) {
		struct fault_notice *notice = &notices->held[i];

		if (notice->length == 0 || !notice->behind)
			continue;
		notice->behind = false;
		notice->due_ns = 0;
		fault_counted(FAULT_REORDER);
	}
}

/* Whether the datagram waits in the queue. */
static bool waits(struct fault_link *link, const void *datagram, size_t length)
{
	const bool late = fault_chance_met(&link->chance, FAULT_DELAY);
	const bool behind = fault_chance_met(&link->chance, FAULT_REORDER);
	struct fault_notice *notice =
		late || behind ? hold(&link->notices, datagram, length) : NULL;

	if (!notice)
		return false;
	notice->due_ns = clock_ns() + LATE_NS;
	notice->behind = !late;
	if (late) {
		fault_counted(FAULT_DELAY);
		notice->due_ns -= fault_chance_below(&link->chance, FAULT_DELAY, LATE_NS);
	}
	return true;
}

size_t fault_datagram(struct link *base, void *datagram, size_t room)
{
	struct fault_link *link = (struct fault_link *)base;
	size_t length;

	if (fault_is_stalled(link))
		return 0;
	length = held_take(&link->notices, datagram, room);
	if (length > 0)
		return length;
	while ((length = link->ops->datagram(link->below, datagram, room)) > 0) {
		if (fault_chance_met(&link->chance, FAULT_DROP)) {
			fault_counted(FAULT_DROP);
			continue;
		}
		if (fault_chance_met(&link->chance, FAULT_DUP) &&
		    hold(&link->notices, datagram, length))
			fault_counted(FAULT_DUP);
		if (waits(link, datagram, length))
			continue;
		passed(&link->notices);
		return length;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: datagrams that say how far topics are. Any host on the network may have sent them.
 *
 * M1  The head in a notice is a hint. It may cause READs of slots that are not written yet. It
 *     never causes a delivery: copies prove themselves.
 * M2  A false hint is dropped, and further hints are ignored for a pause that doubles. Meanwhile,
 *     and when no notices come, the bus page shows what moved. Whatever is sent, it causes at most
 *     one READ of a progress line per POLL_PAGE_MS.
 * M3  Heads only rise within an epoch. Notices of other buses and epochs are ignored.
 * M4  A head below the known head does not count as a sign that notices arrive. Otherwise a
 *     stranger could send 0 and keep a topic from polling. */
#include "subscriber/notices.h"

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/notice.h"
#include "subscriber/fetch.h"

#define DATAGRAMS_PER_POLL 64
#define PAUSE_MIN_MS       1
#define PAUSE_MAX_MS       1024
#define LOST_MAX           65536 /* a longer jump of the numbers is a restart, or forged */

/* -- groups: received once, for all sources that need them ------------------------------------ */

static bool same_notices(const struct fabric_notices *a, const struct fabric_notices *b)
{
	return a->kind == b->kind && address_same(&a->group, &b->group);
}

static struct fabric_notices *group_of(struct tb_subscriber *subscriber,
				       const struct fabric_notices *notices)
{
	for (uint32_t i = 0; i < subscriber->group_count; i++)
		if (same_notices(&subscriber->groups[i], notices))
			return &subscriber->groups[i];
	return NULL;
}

static bool is_needed(const struct tb_source *source)
{
	return !source->orphan && source->state != SOURCE_DEAD &&
	       (source->state != SOURCE_ENDED || source->has_successor);
}

/* A group that is not received is tried again with the next pulse; until then its sources poll. */
void notices_join(struct tb_source *source, const struct fabric_notices *notices)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (!is_needed(source))
		return;
	if (!same_notices(&source->notices, notices))
		notices_leave(source);
	source->notices = *notices;
	if (notices->kind == FABRIC_NOTICES_NONE || group_of(subscriber, notices) ||
	    subscriber->group_count == BOUND_NOTICE_GROUPS_MAX)
		return;
	subscriber->groups[subscriber->group_count++] = *notices;
	subscriber->ops->receive(subscriber->link, notices);
}

/* The fabric knows whether a group is received; the group may have been lost since. */
void notices_keep(struct tb_subscriber *subscriber)
{
	for (uint32_t i = 0; i < subscriber->group_count; i++)
		subscriber->ops->receive(subscriber->link, &subscriber->groups[i]);
}

void notices_leave(const struct tb_source *left)
{
	struct tb_subscriber *subscriber = left->subscription->subscriber;
	struct fabric_notices *group = group_of(subscriber, &left->notices);

	if (!group)
		return;
	for (uint32_t i = 0; i < subscriber->table_used; i++) {
		const struct tb_source *source = subscriber->table[i];

		if (source && source != left && is_needed(source) &&
		    same_notices(&source->notices, &left->notices))
			return;
	}
	subscriber->ops->receive_end(subscriber->link, group);
	*group = subscriber->groups[--subscriber->group_count];
}

/* The publisher sends each head with each pulse, four times in the stale bound. */
bool notices_alive(const struct tb_source *source)
{
	return source->noticed_ms != 0 &&
	       clock_coarse_ms() - source->noticed_ms < source->subscription->subscriber->stale_ms;
}

/* -- hints ------------------------------------------------------------------------------------ */

bool notices_hint(struct tb_source *source, uint64_t head)
{
	const uint64_t now = clock_coarse_ms();

	if (source->hint != 0 && source->hint <= source->head)
		source->hint_pause_ms = 0; /* the last hint was true */
	if (head <= source->head)
		return true;
	if (source->state != SOURCE_RUNNING || source->mapping.view || now < source->hint_after_ms)
		return false;
	if (head - source->next >= source->mapping.shape.slots)
		source->look = true; /* a whole lap ahead: only the progress line can judge it */
	else if (head > source->hint)
		source->hint = head;
	return true;
}

void notices_false(struct tb_source *source)
{
	uint32_t pause_ms = 2 * source->hint_pause_ms;

	pause_ms = pause_ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : pause_ms;
	source->hint_pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
	source->hint_after_ms = clock_coarse_ms() + source->hint_pause_ms;
	source->hint = 0;
	source->subscription->counters[SUBSCRIPTION_FALSE_HINTS]++;
}

/* How many notices were lost between two numbers; 0 before the first notice. */
static uint64_t numbers_lost(uint64_t last, uint64_t number)
{
	return last != 0 && number > last && number - last <= LOST_MAX ? number - last - 1 : 0;
}

/* Uses a topic's entry for each source of that topic. */
static void entry_use(struct tb_subscriber *subscriber, const struct notice *notice,
		      const struct notice_entry *entry)
{
	const uint64_t now = clock_coarse_ms();

	for (uint32_t i = 0; i < subscriber->table_used; i++) {
		struct tb_source *source = subscriber->table[i];
		uint64_t *counters;

		if (!source || source->orphan || source->state == SOURCE_DEAD ||
		    source->mapping.shape.topic_id != entry->topic_id ||
		    source->mapping.shape.epoch != entry->epoch)
			continue;
		if (entry->head >= source->head) /* M4 */
			source->noticed_ms = now;
		source->subscription->named = true;
		counters = source->subscription->counters;
		if (notice->sender == entry->topic_id) {
			counters[SUBSCRIPTION_NOTICES]++;
			counters[SUBSCRIPTION_NOTICES_LOST] +=
				numbers_lost(source->notice_number, notice->number);
			source->notice_number = notice->number;
		}
		notices_hint(source, entry->head);
	}
}

/* Counts notices that came with a pulse, and notices without an entry for the subscription's
 * topics. */
static void datagram_count(struct tb_subscriber *subscriber, const struct notice *notice)
{
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription) {
		s->counters[SUBSCRIPTION_HEARTBEATS] += s->named && notice->sender == 0;
		s->counters[SUBSCRIPTION_NOTICES_OTHERS] += !s->named;
		s->named = false;
	}
}

void notices_take(struct tb_subscriber *subscriber)
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	struct notice_reader reader;
	struct notice_entry entry;
	struct notice notice = { 0 };
	size_t length;

	for (int i = 0; i < DATAGRAMS_PER_POLL; i++) {
		length = subscriber->ops->datagram(subscriber->link, bytes, sizeof(bytes));
		if (length == 0)
			return;
		if (notice_open(&reader, bytes, length, &notice) == 0 &&
		    notice.bus_id == subscriber->welcome.bus_id)
			while (notice_next(&reader, &entry) == 1)
				entry_use(subscriber, &notice, &entry);
		datagram_count(subscriber, &notice);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: datagrams that say how far topics are. Anyone on the network may have sent them.
 *
 * M1  A head of a notice is a hint. It may make us READ slots that are not written yet, never
 *     deliver anything: copies prove themselves.
 * M2  A hint that turned out false is dropped, and further ones are ignored for a pause that
 *     doubles; meanwhile, and when no notices come, the bus page tells what moved. So whatever is
 *     sent, there is at most one READ of a progress line for it per POLL_PAGE_MS.
 * M3  Heads only go up within an epoch. Other buses and epochs are none of ours. */
#include "bus/notice.h"
#include "subscriber/subscriber.h"

#define DATAGRAMS_PER_POLL 64
#define PAUSE_MAX_MS       1024
#define LOST_MAX           65536 /* a longer jump of the numbers is a new beginning, or a lie */

void notices_open(struct tb_subscriber *subscriber)
{
	const struct fabric_notices *notices = &subscriber->welcome.notices;

	subscriber->noticed_ms = 0;
	subscriber->receives = false;
	if (subscriber->ops->receive && notices->kind != FABRIC_NOTICES_NONE)
		subscriber->receives = subscriber->ops->receive(subscriber->link, notices) == 0;
}

/* The publisher sends with each pulse, four times in the bound. */
bool notices_alive(const struct tb_subscriber *subscriber)
{
	return subscriber->noticed_ms != 0 &&
	       subscriber_now_ms() - subscriber->noticed_ms < subscriber->stale_ms;
}

bool notices_hint(struct tb_source *source, uint64_t head)
{
	const uint64_t now = subscriber_now_ms();

	if (source->hint != 0 && source->hint <= source->head)
		source->hint_pause_ms = 0; /* the last one was true */
	if (head <= source->head)
		return true;
	if (source->state != SOURCE_RUNNING || source->place.view || now < source->hint_after_ms)
		return false;
	if (head - source->next >= source->place.shape.slots)
		source->look = true; /* what it would mean for us only the progress line can say */
	else if (head > source->hint)
		source->hint = head;
	return true;
}

void notices_false(struct tb_source *source)
{
	uint32_t pause_ms = 2 * source->hint_pause_ms;

	pause_ms = pause_ms < POLL_PAGE_MS ? POLL_PAGE_MS : pause_ms;
	source->hint_pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
	source->hint_after_ms = subscriber_now_ms() + source->hint_pause_ms;
	source->hint = 0;
	source->subscription->counters[SUBSCRIPTION_FALSE_HINTS]++;
}

/* How many notices came to nobody's knowledge between two numbers; none before the first. */
static uint64_t numbers_lost(uint64_t last, uint64_t number)
{
	return last != 0 && number > last && number - last <= LOST_MAX ? number - last - 1 : 0;
}

/* One topic's entry, for each source that reads it. */
static void entry_use(struct tb_subscriber *subscriber, const struct notice *notice,
		      const struct notice_entry *entry)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++) {
		struct tb_source *source = subscriber->table[i];
		uint64_t *counters;

		if (!source || source->orphan || source->state == SOURCE_DEAD ||
		    source->place.shape.topic_id != entry->topic_id ||
		    source->place.shape.epoch != entry->epoch)
			continue;
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

void notices_take(struct tb_subscriber *subscriber)
{
	uint8_t bytes[NOTICE_BYTES_MAX];
	struct notice_reader reader;
	struct notice_entry entry;
	struct notice notice;
	size_t length;

	for (int i = 0; i < DATAGRAMS_PER_POLL; i++) {
		length = subscriber->ops->datagram(subscriber->link, bytes, sizeof(bytes));
		if (length == 0)
			return;
		if (notice_open(&reader, bytes, length, &notice) < 0 ||
		    notice.bus_id != subscriber->welcome.bus_id)
			continue;
		subscriber->noticed_ms = subscriber_now_ms();
		while (notice_next(&reader, &entry) == 1)
			entry_use(subscriber, &notice, &entry);
	}
}

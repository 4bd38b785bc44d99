/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the publisher is alive: its pulse on the bus page, by our own clock.
 *
 * If the count stands still, the publisher is dead, hung or unreachable. A pulse that stays invalid
 * counts as standing still. Only the pulse and the entries of joined topics are read.
 * Over a network a look is a READ of the pulse, which alone decides life, then READs of the
 * entries. While a pulse is awaited, no READ of entries is posted (U2). */
#include "subscriber/pulse.h"

#include <errno.h>
#include <string.h>

#include "bus/bus_page.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/progress.h"
#include "bus/words.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/entries.h"
#include "subscriber/glance.h"
#include "subscriber/merge_state.h"
#include "subscriber/notices.h"
#include "subscriber/reader.h"
#include "subscriber/tag.h"
#include "tickbus/subscriber.h"

#define ENTRY_READS_MAX 16 /* READs of entries in one list */

int pulse_open(struct tb_subscriber *subscriber, struct fabric_key key)
{
	int result;

	subscriber->page_bytes = bus_page_bytes(subscriber->welcome.topics_max);
	subscriber->pulse_known = false;
	subscriber->pulse_topics = 0;
	subscriber->pulse_ms = clock_coarse_ms();
	result = subscriber->ops->remote_open(subscriber->link, key, subscriber->page_bytes,
					      &subscriber->page);
	if (result < 0)
		return error_prefix(result, "bus page: ");
	subscriber->page_view = subscriber->ops->view(subscriber->page);
	if (!subscriber->page_view)
		subscriber->page_copy =
			subscriber->ops->landing(subscriber->link, subscriber->page_bytes);
	if (!subscriber->page_view && !subscriber->page_copy) {
		pulse_close(subscriber);
		return error_prefix(-ENOMEM, "bus page: ");
	}
	subscriber->lost = false;
	return 0;
}

void pulse_close(struct tb_subscriber *subscriber)
{
	if (subscriber->page_copy)
		subscriber->ops->landing_free(subscriber->link, subscriber->page_copy,
					      subscriber->page_bytes);
	if (subscriber->page)
		subscriber->ops->remote_close(subscriber->page);
	subscriber->page = NULL;
	subscriber->page_view = NULL;
	subscriber->page_copy = NULL;
	subscriber->pulse_under_way = false;
	subscriber->page_asked_ms = 0;
	subscriber->entries_under_way = 0;
	memset(&subscriber->entries, 0, sizeof(subscriber->entries));
	memset(&subscriber->landed, 0, sizeof(subscriber->landed));
}

/* How long the count may stand still. It moves 4 times in the stale bound. A subscriber reads it
 * 10 times in the bound, or up to 16 times if it never sleeps. Its last move and its standstill are
 * each seen at most a tenth of the bound late. So a standstill is reported within the bound. */
static uint32_t still_ms(const struct tb_subscriber *subscriber)
{
	return subscriber->stale_ms - subscriber->stale_ms / 4;
}

/* A topic without a start has not appeared yet. */
static void source_stale(struct tb_source *source, bool stale)
{
	if (source->stale == stale || source->state == SOURCE_DEAD ||
	    source->state == SOURCE_ENDED || source->next == 0)
		return;
	source->stale = stale;
	source->stale_code = 0;
	deliver_event(source, stale ? TB_EVENT_STALE : TB_EVENT_LIVE);
}

/* Whether readable records come first; the end may be among them. Only while the position moves: a
 * writer that died inside the progress line leaves a line that never shows the last head. */
static bool source_readable(struct tb_source *source)
{
	const bool moved = source->next != source->next_when_lost;

	source->next_when_lost = source->next;
	return source->mapping.view && source->state == SOURCE_RUNNING && moved &&
	       (source->look || source->next <= source->head);
}

static void all_stale(struct tb_subscriber *subscriber)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i] && !source_readable(subscriber->table[i]))
			source_stale(subscriber->table[i], true);
}

bool pulse_topic_missing(struct tb_source *source, const char *text)
{
	if (source->has_successor || source_readable(source))
		return false;
	source_stale(source, true);
	deliver_stale_reason(source, ENOENT, text);
	return true;
}

void pulse_lost(struct tb_subscriber *subscriber)
{
	subscriber->lost = true;
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i]) {
			glance_look(subscriber->table[i]);
			subscriber->table[i]->next_when_lost = 0;
		}
}

/* A line that was read often and stays invalid: the topic is stale even if its publisher is alive.
 * If records came meanwhile, the line was written again: a reader of slots may not have read it
 * since. */
static bool line_lost(struct tb_source *source)
{
	if (source->next != source->next_when_invalid)
		source->invalid = 0;
	return source->invalid > TRIES_MAX &&
	       clock_coarse_ms() - source->invalid_ms >= still_ms(source->subscription->subscriber);
}

/* -- entries ---------------------------------------------------------------------------------- */

static bool entry_wanted(const struct tb_source *source)
{
	return source && !source->orphan && source->state != SOURCE_DEAD;
}

/* Whether the page has an entry for the source's topic. The pulse's topic count is bounded by the
 * page. */
static bool entry_exists(const struct tb_subscriber *subscriber, const struct tb_source *source)
{
	return entry_wanted(source) && source->mapping.shape.topic_id <= subscriber->pulse_topics;
}

static uint32_t entry_index(const struct tb_source *source)
{
	return source->mapping.shape.topic_id - 1;
}

/* The page shows nothing of the topic. If it stays so, the topic is stale even if its publisher is
 * alive: over a network its memory is not READ (U1). An entry that is written just now is invalid
 * once. */
static void entry_lost(struct tb_subscriber *subscriber, struct tb_source *source,
		       uint64_t asked_ms)
{
	if (source->entry_lost_ms == 0)
		source->entry_lost_ms = asked_ms;
	else if (asked_ms - source->entry_lost_ms >= still_ms(subscriber))
		source_stale(source, true);
}

/* Uses a copy of a source's entry, requested at that time. A count of the pulse that stands still
 * brings nothing new. */
static void entry_use(struct tb_subscriber *subscriber, struct tb_source *source,
		      struct bus_entry *entry, uint64_t asked_ms)
{
	if (bus_page_verify_entry(entry, entry_index(source), subscriber->welcome.bus_id) < 0) {
		entry_lost(subscriber, source, asked_ms);
		return;
	}
	connection_shown(source, entry->epoch, asked_ms);
	if (source->entry_count == subscriber->pulse_count)
		return;
	source->entry_count = subscriber->pulse_count;
	if (entry->epoch != source->mapping.shape.epoch) {
		if (source->has_successor)
			return;
		source->subscription->discover = true;
		entry_lost(subscriber, source, asked_ms);
		return;
	}
	source->entry_lost_ms = 0;
	if (entry->head > source->head || entry->state == TOPIC_ENDED)
		glance_look(source);
	notices_missed(source, entry->head);
	source->next_when_lost = 0;
	if (asked_ms >= subscriber->pulse_ms + still_ms(subscriber))
		return; /* the publisher is stale, and its topics with it */
	/* 4 pulses are the stale bound. The beat is taken between two pulses, so allow a fifth. */
	source_stale(source, subscriber->pulse_count > entry->beat + 5 || line_lost(source) ||
				     merge_state_lags(source));
}

static void entries_view(struct tb_subscriber *subscriber, uint64_t now)
{
	struct bus_entry entry;

	for (uint32_t i = 0; i < subscriber->table_used; i++) {
		struct tb_source *source = subscriber->table[i];

		if (entry_wanted(source) && !entry_exists(subscriber, source))
			entry_lost(subscriber, source, now);
		if (!entry_exists(subscriber, source))
			continue;
		words_load(&entry,
			   subscriber->page_view + bus_page_entry_offset(entry_index(source)),
			   sizeof(entry));
		entry_use(subscriber, source, &entry, now);
	}
}

/* All READs of a list have completed. */
static void entries_arrived(struct tb_subscriber *subscriber)
{
	struct bus_entry entry;

	for (uint32_t i = 0; i < subscriber->table_used; i++) {
		struct tb_source *source = subscriber->table[i];

		if (!entry_exists(subscriber, source) ||
		    !entries_have(&subscriber->landed, entry_index(source)))
			continue;
		words_load(&entry,
			   subscriber->page_copy + bus_page_entry_offset(entry_index(source)),
			   sizeof(entry));
		entry_use(subscriber, source, &entry, subscriber->entries_ms);
	}
	memset(&subscriber->landed, 0, sizeof(subscriber->landed));
}

/* -- the pulse -------------------------------------------------------------------------------- */

/* Uses a copy of the pulse. Returns whether the count has moved. */
static bool pulse_use(struct tb_subscriber *subscriber, struct bus_pulse *pulse)
{
	const bool first = !subscriber->pulse_known;
	const bool changed = !first && pulse->changes != subscriber->changes;

	if (bus_page_verify_pulse(pulse, subscriber->welcome.bus_id,
				  subscriber->welcome.topics_max) < 0 ||
	    (!first && pulse->count == subscriber->pulse_count))
		return false;
	subscriber->pulse_known = true;
	subscriber->pulse_count = pulse->count;
	subscriber->pulse_topics = pulse->topics;
	subscriber->changes = pulse->changes;
	subscriber->pulse_ms = clock_coarse_ms();
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription) {
		s->changed |= changed;
		s->discover |= first || changed || s->retry;
	}
	notices_keep(subscriber);
	return true;
}

/* Reports topics stale if the count stood still for too long when the page was last read. */
static void stale_judge(struct tb_subscriber *subscriber, uint64_t looked_ms)
{
	if (subscriber->lost ||
	    (subscriber->welcomed && looked_ms >= subscriber->pulse_ms + still_ms(subscriber)))
		all_stale(subscriber);
}

/* After twice the bound without a pulse the connection is replaced: some devices report no error.
 * By then the topics were reported stale. */
bool pulse_unanswered(const struct tb_subscriber *subscriber)
{
	return subscriber->page_asked_ms &&
	       clock_coarse_ms() - subscriber->page_asked_ms >= 2 * (uint64_t)subscriber->stale_ms;
}

/* -- READs ------------------------------------------------------------------------------------ */

static void pulse_post(struct tb_subscriber *subscriber)
{
	const struct fabric_read read = { .remote = subscriber->page,
					  .bytes = sizeof(struct bus_pulse),
					  .into = subscriber->page_copy,
					  .tag = tag_pack(READ_PULSE, 0, 0) };

	subscriber->pulse_under_way = subscriber->ops->read(subscriber->link, &read, 1) == 1;
}

/* The list of READs: as many runs as there is room for. */
static void entries_post(struct tb_subscriber *subscriber)
{
	struct fabric_read reads[ENTRY_READS_MAX];
	struct entry_run runs[ENTRY_READS_MAX];
	unsigned int count = connection_entries_room(subscriber);
	int posted;

	count = entries_runs(&subscriber->entries, runs,
			     count < ENTRY_READS_MAX ? count : ENTRY_READS_MAX);
	for (unsigned int i = 0; i < count; i++) {
		const uint64_t offset = bus_page_entry_offset(runs[i].first);

		reads[i] = (struct fabric_read){
			.remote = subscriber->page,
			.offset = offset,
			.bytes = runs[i].count * (uint32_t)sizeof(struct bus_entry),
			.into = subscriber->page_copy + offset,
			.tag = tag_pack_entries(runs[i].first, runs[i].count),
		};
	}
	posted = count > 0 ? subscriber->ops->read(subscriber->link, reads, count) : 0;
	subscriber->entries_ms = clock_coarse_ms();
	for (int i = 0; i < posted; i++)
		entries_posted(&subscriber->entries, &runs[i]);
	if (posted > 0)
		subscriber->entries_under_way = (unsigned int)posted;
}

/* The pulse comes first. */
static void page_post(struct tb_subscriber *subscriber)
{
	if (subscriber->page_asked_ms) {
		if (!subscriber->pulse_under_way)
			pulse_post(subscriber);
	} else if (subscriber->entries_under_way == 0) {
		entries_post(subscriber);
	}
}

static void pulse_arrived(struct tb_subscriber *subscriber, int status)
{
	const uint64_t asked_ms = subscriber->page_asked_ms;
	struct bus_pulse pulse;

	subscriber->pulse_under_way = false;
	if (status < 0)
		return; /* it is requested again, and counts as not arrived */
	subscriber->page_asked_ms = 0;
	words_load(&pulse, subscriber->page_copy, sizeof(pulse));
	pulse_use(subscriber, &pulse);
	stale_judge(subscriber, asked_ms);
	entries_begin(&subscriber->entries);
	for (uint32_t i = 0; i < subscriber->table_used; i++)
		if (entry_exists(subscriber, subscriber->table[i]))
			entries_want(&subscriber->entries, entry_index(subscriber->table[i]));
		else if (entry_wanted(subscriber->table[i]))
			entry_lost(subscriber, subscriber->table[i], asked_ms);
	page_post(subscriber);
}

void pulse_fetched(struct tb_subscriber *subscriber, struct tag tag, int status)
{
	if (!subscriber->page_copy)
		return;
	if (tag.kind == READ_PULSE) {
		pulse_arrived(subscriber, status);
		return;
	}
	for (uint32_t i = 0; i < tag_entry_count(tag) && status == 0; i++)
		entries_want(&subscriber->landed, tag_first_entry(tag) + i);
	if (--subscriber->entries_under_way == 0)
		entries_arrived(subscriber);
	if (status == 0)
		page_post(subscriber);
}

/* Requests the pulse, unless its READ is outstanding. Returns whether this is the first request
 * since a pulse arrived. A READ that cannot be posted counts as not answered. */
static bool page_ask(struct tb_subscriber *subscriber, uint64_t now, bool was_elsewhere)
{
	const bool first = subscriber->page_asked_ms == 0;

	if (first) {
		subscriber->page_asked_ms = now;
		subscriber->page_grace_ms = was_elsewhere ? subscriber->stale_ms / 2 : 0;
	}
	page_post(subscriber);
	return first;
}

/* A page that does not arrive counts as a standstill, but not while the caller was away. After its
 * return the READ may be behind many others, and gets half of the bound as a grace period. */
void pulse_look(struct tb_subscriber *subscriber)
{
	const uint64_t now = clock_coarse_ms();
	const bool was_elsewhere = now - subscriber->page_ms >= subscriber->stale_ms / 4;
	struct bus_pulse pulse;

	subscriber->page_ms = now;
	if (subscriber->page_view) {
		words_load(&pulse, subscriber->page_view, sizeof(pulse));
		if (pulse_use(subscriber, &pulse))
			entries_view(subscriber, now);
	} else if (subscriber->page) {
		if (page_ask(subscriber, now, was_elsewhere) ||
		    now - subscriber->page_asked_ms < subscriber->page_grace_ms)
			return;
	}
	stale_judge(subscriber, now);
}

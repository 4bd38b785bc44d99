/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: datagrams that say how far topics are. Any host on the network may have sent them. Any
 * client that has joined the topic may have sent a notice with a valid tag.
 *
 * M1  The head in a notice is a hint. It may cause READs of slots that are not written yet. It
 *     never causes a delivery: copies prove themselves.
 * M2  A false hint is dropped, and further hints are ignored for a pause that doubles. From the
 *     false hint until the first look after the pause, notices do not count as arriving: the
 *     reader polls. It also polls after an ignored hint, and after a head that is a whole lap
 *     ahead. That lasts until a notice comes with a head that is known or is READ at once.
 *     Whatever is sent, it causes at most one READ of a progress line per polling interval or
 *     millisecond, the shorter of them.
 * M3  Heads only rise within an epoch. Notices of other buses and epochs are ignored.
 * M4  A head below the known head does not count as a sign that notices arrive. Otherwise a
 *     client could send 0 and keep a topic from polling. If sender 0 or the bus page brings a
 *     head that no notice said before, the writer's notice is missing. Then the reader polls
 *     until another notice comes.
 * M5  An entry counts only if its tag was made with the topic's key of this epoch.
 * M6  Each sender's numbers rise, from the numbers in the grant. An entry with an old number is a
 *     replay: no hint, and no sign that notices arrive. If it has a higher head than the entry
 *     with the last number, a client forges numbers: as after a false hint, the reader polls. The
 *     head of that entry counts at most as known, if it was false or ignored.
 * M7  If more than 1 in 100 of the last 1,000 numbers of the writer are missing, notices do not
 *     count as arriving. Numbers since the grant count. Heads are numbered for all topics of a
 *     group, so their numbers show no loss.
 * M8  A poll processes at most WORK_MAX entries, and uses a topic's sources at most once for a
 *     datagram. Datagrams that wait are taken by later polls, or are lost and missing by number. */
#include "subscriber/notices.h"

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/notice.h"
#include "subscriber/topic_index.h"

#define DATAGRAMS_PER_POLL 64
#define WORK_MAX           256 /* entries in a poll */
#define ENTRIES_MAX        ((BOUND_NOTICE_BYTES_MAX - NOTICE_HEADER) / NOTICE_ENTRY)
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

void notices_begin(struct tb_source *source)
{
	for (int sender = 0; sender < NOTICE_SENDERS; sender++)
		source->last_notice[sender] =
			(struct last_notice){ .number = source->mapping.notice_numbers[sender],
					      .head = UINT64_MAX };
	source->losses = (struct loss_window){ 0 };
	source->noticed_writer = false;
	source->noticed_head = source->joined;
}

/* The publisher sends each head with each pulse, four times in the stale bound. */
bool notices_alive(const struct tb_source *source)
{
	return source->noticed_ms != 0 && source->fetched_ns >= source->hint_after_ns && /* M2 */
	       !loss_window_lossy(&source->losses) &&                                    /* M7 */
	       clock_coarse_ms() - source->noticed_ms < source->subscription->subscriber->stale_ms;
}

/* -- hints ------------------------------------------------------------------------------------ */

bool notices_hint(struct tb_source *source, uint64_t head)
{
	if (source->hint != 0 && source->hint <= source->head)
		source->hint_pause_ms = 0; /* the last hint was true */
	if (head <= source->head)
		return true;
	if (source->state != SOURCE_RUNNING || source->mapping.view ||
	    (source->hint_after_ns != 0 && clock_ns() < source->hint_after_ns))
		return false;
	if (head - source->next >= source->mapping.shape.slots) {
		source->look = true; /* a whole lap ahead: only the progress line can judge it */
		return false;
	}
	if (head > source->hint)
		source->hint = head;
	return true;
}

void notices_false(struct tb_source *source)
{
	uint32_t pause_ms = 2 * source->hint_pause_ms;

	pause_ms = pause_ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : pause_ms;
	source->hint_pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
	source->hint_after_ns = clock_ns() + UINT64_C(1000000) * source->hint_pause_ms;
	source->hint = source->noticed_ms = 0;
	source->noticed_head = source->head;
	for (int sender = 0; sender < NOTICE_SENDERS; sender++)
		if (source->last_notice[sender].head > source->head)
			source->last_notice[sender].head = source->head;
	source->subscription->counters[SUBSCRIPTION_FALSE_HINTS]++;
}

void notices_missed(struct tb_source *source, uint64_t head)
{
	if (head > source->noticed_head)
		source->noticed_ms = 0; /* M4 */
}

/* -- datagrams -------------------------------------------------------------------------------- */

static bool is_reading(const struct tb_source *source, const struct notice_entry *entry)
{
	return !source->orphan && source->state != SOURCE_DEAD &&
	       source->mapping.shape.topic_id == entry->topic_id &&
	       source->mapping.shape.epoch == entry->epoch;
}

/* A notice of the topic's writer, whose last notice had the number `last`. Before the first, the
 * subscriber may not have received the group yet: the network did not lose those notices, but they
 * are missing (M7). */
static void writer_count(struct tb_source *source, uint64_t last, uint64_t number)
{
	uint64_t *counters = source->subscription->counters;

	counters[SUBSCRIPTION_NOTICES]++;
	if (source->noticed_writer && number - last <= LOST_MAX)
		counters[SUBSCRIPTION_NOTICES_LOST] += number - last - 1;
	source->noticed_writer = true;
	loss_window_pass(&source->losses, number - last);
}

/* Counts a datagram once for each subscription that it names. */
static void subscription_count(struct tb_subscription *subscription, uint64_t datagram)
{
	subscription->datagrams_named += subscription->named_in != datagram;
	subscription->named_in = datagram;
}

static void heads_count(struct tb_subscription *subscription, uint64_t datagram)
{
	subscription->counters[SUBSCRIPTION_HEARTBEATS] += subscription->beaten_in != datagram;
	subscription->beaten_in = datagram;
}

/* M6. An honest sender's heads rise with its numbers. */
static void replay_use(struct tb_source *source, const struct last_notice *last, uint64_t head)
{
	source->subscription->counters[SUBSCRIPTION_NOTICES_REPLAYED]++;
	if (head > last->head)
		notices_false(source);
}

/* Uses an entry whose tag is valid. */
static void entry_use(struct tb_source *source, const struct notice *notice, uint64_t head)
{
	const enum notice_sender sender = notice->sender == 0 ? NOTICE_HEADS : NOTICE_WRITER;
	struct last_notice *last = &source->last_notice[sender];
	bool believed;

	if (notice->number <= last->number) {
		replay_use(source, last, head);
		return;
	}
	if (sender == NOTICE_WRITER)
		writer_count(source, last->number, notice->number);
	else
		heads_count(source->subscription, source->subscription->subscriber->datagrams);
	believed = notices_hint(source, head);
	*last = (struct last_notice){ notice->number, believed ? head : source->head };
	if (!believed || (sender == NOTICE_HEADS && head > source->noticed_head))
		source->noticed_ms = 0; /* M2, M4 */
	else if (head >= source->head)
		source->noticed_ms = clock_coarse_ms();
	if (believed && source->noticed_head < head)
		source->noticed_head = head;
}

/* Gives an entry to each source of its topic. Their keys are of the same epoch, so the same.
 * Returns how many sources were visited. */
static unsigned int entry_take(struct tb_subscriber *subscriber, const struct notice *notice,
			       const struct notice_entry *entry)
{
	struct tb_source *source = topic_index_first(subscriber, entry->topic_id);
	bool checked = false, proven = false;
	unsigned int visited = 0;

	if (!source || source->noticed_in == subscriber->datagrams)
		return 0; /* M8: a publisher names a topic once in a datagram */
	source->noticed_in = subscriber->datagrams;
	for (; source; source = source->next_of_id, visited++) {
		if (!is_reading(source, entry))
			continue;
		if (!checked)
			proven = (notice->sender == 0 || notice->sender == entry->topic_id) &&
				 notice_proven(notice, entry, source->mapping.notice_key);
		checked = true;
		subscription_count(source->subscription, subscriber->datagrams);
		if (proven)
			entry_use(source, notice, entry->head);
		else /* M5 */
			source->subscription->counters[SUBSCRIPTION_NOTICES_FORGED]++;
	}
	return visited;
}

/* Returns the work: the entries that the datagram may have, and the sources that it named. */
static unsigned int datagram_take(struct tb_subscriber *subscriber, const uint8_t *bytes,
				  size_t length)
{
	unsigned int work =
		length > NOTICE_HEADER ? (unsigned int)(length - NOTICE_HEADER) / NOTICE_ENTRY : 0;
	struct notice_reader reader;
	struct notice_entry entry;
	struct notice notice;

	subscriber->datagrams++;
	if (notice_open(&reader, bytes, length, &notice) < 0 ||
	    notice.bus_id != subscriber->welcome.bus_id)
		return work;
	while (notice_next(&reader, &entry) == 1)
		work += entry_take(subscriber, &notice, &entry);
	return work;
}

void notices_take(struct tb_subscriber *subscriber)
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	unsigned int work = 0;
	size_t length;

	for (int i = 0; i < DATAGRAMS_PER_POLL && work + ENTRIES_MAX <= WORK_MAX; i++) {
		length = subscriber->ops->datagram(subscriber->link, bytes, sizeof(bytes));
		if (length == 0)
			return;
		work += datagram_take(subscriber, bytes, length);
	}
}

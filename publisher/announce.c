/* SPDX-License-Identifier: Apache-2.0 */
/* Notices. A flush sends one datagram for its topic, however many subscribers listen. Each pulse
 * sends the heads of all topics: this shows that an idle bus is alive.
 *
 * The control thread repeats the last head of a topic that rests, once, two to four milliseconds
 * after its flush. This repairs a lost notice, and a flush that found its sender busy. While a
 * topic is flushed more often, the next flush repairs the last. Repeats are numbered as heads: a
 * sender's numbers belong to one thread.
 *
 * All notices of a topic, heads included, go to one group. A subscriber of the topic receives only
 * that group, and so knows whether notices reach it. A topic has notices only if network clients
 * can read it. */
#include "publisher/announce.h"

#include <assert.h>
#include <string.h>

#include "bus/address.h"
#include "bus/bus_page.h"
#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/error.h"
#include "bus/notice.h"

#define TOPIC_NOTICE_BYTES (NOTICE_HEADER + NOTICE_ENTRY)
#define REPEATS_PER_TICK   256
#define TICK_NS            (UINT64_C(1000000) * ANNOUNCE_TICK_MS)

/* A head and what proves it. */
struct headline {
	const struct tb_topic *topic;
	uint64_t head;
};

/* -- groups -------------------------------------------------------------------------------------
 */

/* Unchecked topics and topics in no realm send no notices: no network client can read them. */
static bool is_announced(const struct tb_topic *topic)
{
	return (topic->shape.flags & REGION_FLAG_CHECKED) && topic->realms;
}

static bool endpoint_announces(const struct endpoint *endpoint)
{
	return endpoint->publisher->notices.kind != FABRIC_NOTICES_NONE;
}

static int notice_group_open(struct notice_group *notice_group, struct endpoint *endpoint)
{
	if (!endpoint_announces(endpoint))
		return 0;
	return endpoint->listener->ops->announcer_open(endpoint->listener, notice_group->where,
						       endpoint->publisher->notices.bytes,
						       &notice_group->announcers[endpoint->index]);
}

static void notice_group_close(struct notice_group *notice_group)
{
	for (uint32_t i = 0; i < BOUND_LISTENERS_MAX; i++) {
		if (notice_group->announcers[i])
			notice_group->announcers[i]->ops->announcer_close(
				notice_group->announcers[i]);
		notice_group->announcers[i] = NULL;
	}
}

int announce_endpoint(struct endpoint *endpoint)
{
	endpoint->publisher->notice_group_count = 1;
	return notice_group_open(&endpoint->publisher->notice_groups[0], endpoint);
}

void announce_end(struct tb_publisher *publisher)
{
	while (publisher->notice_group_count > 0)
		notice_group_close(&publisher->notice_groups[--publisher->notice_group_count]);
}

/* The index of the group's notice group, which is opened if it is new; or -errno. */
static int notice_group_find(struct tb_topic *topic, const char *text)
{
	struct tb_publisher *publisher = topic->publisher;
	struct groups *groups = &publisher->groups;
	const int index =
		groups_take(groups, text, topic->name, topic->shape.flags & REGION_FLAG_CHECKED);
	struct notice_group *notice_group;
	int result = 0;

	if (index < 0)
		return error_prefix(index, "multicast: ");
	if ((uint32_t)index < publisher->notice_group_count)
		return index;
	notice_group = &publisher->notice_groups[index];
	*notice_group = (struct notice_group){ .where = &groups->others[index - 1].where };
	for (uint32_t i = 0; i < publisher->endpoint_count && result == 0; i++)
		result = notice_group_open(notice_group, &publisher->endpoints[i]);
	if (result < 0) {
		notice_group_close(notice_group);
		groups_drop(groups);
		return result;
	}
	publisher->notice_group_count++;
	return index;
}

void announce_describe(const struct endpoint *endpoint, const struct tb_topic *topic,
		       struct fabric_notices *notices)
{
	const struct notice_group *notice_group =
		&endpoint->publisher->notice_groups[topic->notice_group];

	memset(notices, 0, sizeof(*notices));
	if (notice_group->announcers[endpoint->index] && is_announced(topic))
		endpoint->listener->ops->notices(endpoint->listener, notice_group->where, notices);
}

/* -- a topic's ----------------------------------------------------------------------------------
 */

int announce_open(struct tb_topic *topic, const char *multicast)
{
	struct tb_publisher *publisher = topic->publisher;
	const struct notice_group *notice_group;
	int result = multicast ? notice_group_find(topic, multicast) : 0;

	if (result < 0 || !is_announced(topic))
		return result < 0 ? result : 0;
	topic->notice_group = (uint32_t)result;
	notice_group = &publisher->notice_groups[topic->notice_group];
	result = 0;
	for (uint32_t i = 0; i < publisher->endpoint_count && result == 0; i++) {
		struct listener *listener = publisher->endpoints[i].listener;
		struct announcer *announcer = NULL;

		if (!notice_group->announcers[i])
			continue;
		result = listener->ops->announcer_open(listener, notice_group->where,
						       TOPIC_NOTICE_BYTES, &announcer);
		if (announcer)
			topic->announcers[topic->announcer_count++] = announcer;
	}
	return result;
}

void announce_close(struct tb_topic *topic)
{
	while (topic->announcer_count > 0) {
		struct announcer *announcer = topic->announcers[--topic->announcer_count];

		announcer->ops->announcer_close(announcer);
	}
}

void announce_topic(struct tb_topic *topic)
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MIN];
	struct notice_writer writer;
	size_t length;

	counter_add(&topic->notices, 1);
	notice_begin(&writer, bytes, sizeof(bytes), topic->publisher->bus_id, clock_real_ns());
	notice_number(&writer, topic->shape.topic_id,
		      atomic_load_explicit(&topic->notices, memory_order_relaxed));
	notice_entry(&writer, topic->shape.topic_id, topic->shape.epoch, topic->progress.head);
	notice_seal(&writer, topic->notice_key);
	length = notice_finish(&writer);
	for (uint32_t i = 0; i < topic->announcer_count; i++) {
		struct announcer *announcer = topic->announcers[i];
		const int result = announcer->ops->announce(announcer, bytes, length);

		counter_add(result == 0 ? &topic->announced : &topic->unannounced, 1);
	}
}

/* -- heads --------------------------------------------------------------------------------------
 */

/* The number of the last datagram of heads that an endpoint sent to a group. If a topic names the
 * endpoint's own group, both use the same numbers there. */
static uint64_t *heads_number(const struct endpoint *endpoint, struct notice_group *notice_group)
{
	if (notice_group->where && address_same(notice_group->where, endpoint->group))
		notice_group = &endpoint->publisher->notice_groups[0];
	return &notice_group->notices[endpoint->index];
}

static void datagram_send(struct endpoint *endpoint, const struct notice_group *notice_group,
			  struct notice_writer *writer)
{
	struct announcer *announcer = notice_group->announcers[endpoint->index];
	const size_t length = notice_finish(writer);

	if (length && announcer->ops->announce(announcer, writer->bytes, length) == 0)
		counter_add(&endpoint->publisher->counters[BUS_NOTICES], 1);
}

static bool headline_add(struct notice_writer *writer, const struct headline *headline)
{
	const struct tb_topic *topic = headline->topic;

	if (notice_entry(writer, topic->shape.topic_id, topic->shape.epoch, headline->head) < 0)
		return false;
	notice_seal(writer, topic->notice_key);
	return true;
}

/* Sends as many datagrams as the heads need. */
static void heads_send(struct endpoint *endpoint, struct notice_group *notice_group, size_t limit,
		       const struct headline *heads, uint32_t count)
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	struct notice_writer writer = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		if (writer.bytes && headline_add(&writer, &heads[i]))
			continue;
		if (writer.bytes)
			datagram_send(endpoint, notice_group, &writer);
		notice_begin(&writer, bytes, limit, endpoint->publisher->bus_id, clock_real_ns());
		notice_number(&writer, 0, ++*heads_number(endpoint, notice_group));
		headline_add(&writer, &heads[i]);
	}
	if (writer.bytes)
		datagram_send(endpoint, notice_group, &writer);
}

/* Sends these heads, all of topics of one group. */
static void notice_group_send(struct tb_publisher *publisher, uint32_t index,
			      const struct headline *heads, uint32_t count)
{
	struct notice_group *notice_group = &publisher->notice_groups[index];

	for (uint32_t i = 0; i < publisher->endpoint_count; i++) {
		struct endpoint *endpoint = &publisher->endpoints[i];
		struct fabric_notices notices;

		if (!notice_group->announcers[i])
			continue;
		endpoint->listener->ops->notices(endpoint->listener, notice_group->where, &notices);
		if (notices.kind != FABRIC_NOTICES_NONE && notices.bytes >= BOUND_NOTICE_BYTES_MIN)
			heads_send(endpoint, notice_group, notices.bytes, heads, count);
	}
}

void announce_heads(struct tb_publisher *publisher)
{
	struct headline heads[BOUND_TOPICS_MAX];

	for (uint32_t group = 0; group < publisher->notice_group_count; group++) {
		uint32_t count = 0;

		for (uint32_t i = 0; i < publisher->topic_count; i++)
			if (publisher->topics[i]->notice_group == group &&
			    is_announced(publisher->topics[i]))
				heads[count++] =
					(struct headline){ publisher->topics[i],
							   topic_head(publisher->topics[i]) };
		notice_group_send(publisher, group, heads, count);
	}
}

void announce_grant(const struct endpoint *endpoint, const struct tb_topic *topic,
		    struct control_message *message)
{
	struct notice_group *notice_group =
		&endpoint->publisher->notice_groups[topic->notice_group];

	if (message->grant.topic.notices.kind == FABRIC_NOTICES_NONE)
		return;
	memcpy(message->grant.notice_key, topic->notice_key, sizeof(topic->notice_key));
	message->grant.topic_notices = atomic_load_explicit(&topic->notices, memory_order_relaxed);
	message->grant.heads_notices = *heads_number(endpoint, notice_group);
}

/* -- repeats ------------------------------------------------------------------------------------
 */

void announce_begin(struct tb_publisher *publisher)
{
	if (publisher->tick_due_ns == 0)
		publisher->tick_due_ns = clock_ns() + TICK_NS;
}

bool announce_due(struct tb_publisher *publisher)
{
	uint64_t now;

	if (publisher->tick_due_ns == 0)
		return false;
	now = clock_ns();
	if (now < publisher->tick_due_ns)
		return false;
	publisher->tick_due_ns += (now - publisher->tick_due_ns) / TICK_NS * TICK_NS + TICK_NS;
	return true;
}

/* Whether the topic rested since the last tick, and its last flush was not repeated. The line of a
 * topic that no client has joined is left to its writer. */
static bool repeat_due(struct tb_topic *topic, struct headline *headline)
{
	const bool has_readers = is_announced(topic) && topic->joins;
	const uint64_t head = has_readers ? topic_head(topic) : topic->head_repeated;
	const bool rested = head == topic->head_ticked;

	topic->head_ticked = head;
	if (!rested || head == topic->head_repeated)
		return false;
	topic->head_repeated = head;
	*headline = (struct headline){ topic, head };
	return true;
}

void announce_repeat(struct tb_publisher *publisher)
{
	struct headline due[REPEATS_PER_TICK], heads[REPEATS_PER_TICK];
	uint32_t due_count = 0;
	uint64_t groups = 0;

	static_assert(BOUND_NOTICE_GROUPS_MAX <= 64, "a bit for each group");
	for (uint32_t i = 0; i < publisher->topic_count && due_count < REPEATS_PER_TICK; i++) {
		const uint32_t at = publisher->tick_first++ % publisher->topic_count;

		if (!repeat_due(publisher->topics[at], &due[due_count]))
			continue;
		groups |= UINT64_C(1) << publisher->topics[at]->notice_group;
		due_count++;
	}
	for (uint32_t group = 0; group < publisher->notice_group_count; group++) {
		uint32_t count = 0;

		for (uint32_t i = 0; i < due_count && groups >> group & 1; i++)
			if (due[i].topic->notice_group == group)
				heads[count++] = due[i];
		if (count > 0)
			notice_group_send(publisher, group, heads, count);
	}
}

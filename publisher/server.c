/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread: listens, answers, beats the pulse, wakes sleepers, tells ends and restarts.
 *
 * It sleeps in epoll on the listeners, on one eventfd (a flush found a sleeper, a topic ended or
 * began again, the publisher closes) and on a timer of a quarter of the stale bound. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/error.h"
#include "bus/clock.h"
#include "publisher/publisher.h"

#define CLOSING_POLL_MS  20
#define LINES_PER_SECOND 1000

/* -- what listeners call ------------------------------------------------------------------------
 */

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
	if (hello->features != 0) {
		snprintf(reason, FABRIC_REASON_BYTES,
			 "the subscriber needs features 0x%" PRIx64 ", the publisher has none",
			 hello->features);
		return -EPROTO;
	}
	return 0;
}

/* The realm that the hello's ticket leads to: for good, since a peer cannot be moved to another. */
static int realm_choose(const struct tb_publisher *publisher, const struct control_hello *hello,
			const struct realm **realm, char reason[FABRIC_REASON_BYTES])
{
	static const uint8_t none[TB_TICKET_BYTES];
	const char *why = "the subscriber's ticket is not known to the publisher";

	*realm = realms_find(publisher, hello->ticket);
	if (*realm)
		return 0;
	if (memcmp(hello->ticket, none, sizeof(none)) == 0)
		why = "the subscriber shows no ticket, and the publisher asks for one";
	else if (publisher->realm_count == 1 &&
		 memcmp(publisher->realms[0].ticket, none, sizeof(none)) == 0)
		why = "the subscriber shows a ticket, and the bus has no realms that ask for one";
	snprintf(reason, FABRIC_REASON_BYTES, "%s", why);
	return -EACCES;
}

static struct session *session_open(struct endpoint *endpoint, struct peer *peer,
				    const struct realm *realm)
{
	struct tb_publisher *publisher = endpoint->publisher;
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->publisher = publisher;
	session->peer = peer;
	session->realm = realm;
	session->listener = endpoint->index;
	session->next = publisher->sessions;
	session->link = &publisher->sessions;
	if (publisher->sessions)
		publisher->sessions->link = &session->next;
	publisher->sessions = session;
	peer->user = session;
	peer->realm = realm->index;
	counter_add(&publisher->counters[BUS_CONNECTIONS], 1);
	counter_add(&publisher->counters[BUS_SUBSCRIBERS], 1);
	return session;
}

static int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes, void *welcome,
		    size_t *welcome_bytes, struct exposure **given,
		    char reason[FABRIC_REASON_BYTES])
{
	struct endpoint *endpoint = user;
	struct tb_publisher *publisher = endpoint->publisher;
	struct control_hello told;
	struct control_welcome answer = { .bus_id = publisher->bus_id,
					  .stale_ms = publisher->stale_ms,
					  .topics_max = publisher->topics_max };
	const struct realm *realm = NULL;
	int result = control_hello_decode(hello, bytes, &told);

	if (result < 0)
		snprintf(reason, FABRIC_REASON_BYTES, "%s", tb_error());
	else
		result = hello_check(&told, reason);
	if (result == 0)
		result = realm_choose(publisher, &told, &realm, reason);
	if (result == 0 && !session_open(endpoint, peer, realm)) {
		snprintf(reason, FABRIC_REASON_BYTES,
			 "the publisher has no memory for another subscriber");
		result = -EAGAIN;
	}
	if (result < 0)
		return result;
	answer.version =
		told.version_high < CONTROL_VERSION_HIGH ? told.version_high : CONTROL_VERSION_HIGH;
	memcpy(answer.name, publisher->name, sizeof(answer.name));
	*given = endpoint->pages[realm->index];
	answer.key = (*given)->ops->key(*given);
	if (publisher->notice_groups[0].announcers[endpoint->index])
		endpoint->listener->ops->notices(endpoint->listener, NULL, &answer.notices);
	*welcome_bytes = control_welcome_encode(&answer, welcome);
	return 0;
}

static void on_message(void *user, struct peer *peer, const void *bytes, size_t length)
{
	struct tb_publisher *publisher = ((struct endpoint *)user)->publisher;
	struct control_message message;
	int result = control_decode(bytes, length, &message);

	counter_add(&publisher->counters[BUS_MESSAGES], 1);
	if (result == 0)
		result = answers_give(peer->user, &message);
	if (result != -EPROTO)
		return;
	counter_add(&publisher->counters[BUS_MALFORMED], 1);
	session_close(peer->user);
	peer->ops->drop(peer, tb_error());
}

static void on_gone(void *user, struct peer *peer, const char *why)
{
	struct tb_publisher *publisher = ((struct endpoint *)user)->publisher;
	char who[64];

	peer->ops->peer_text(peer, who, sizeof(who));
	publisher_log(publisher, TB_LOG_DEBUG, "%s left: %s", who, why);
	session_close(peer->user);
}

static void endpoint_tell_rest(struct endpoint *endpoint)
{
	if (endpoint->lines > LINES_PER_SECOND)
		publisher_log(endpoint->publisher, TB_LOG_WARNING,
			      "%" PRIu32 " more lines like the last were not written",
			      endpoint->lines - LINES_PER_SECOND);
	endpoint->lines = 0;
}

static void endpoint_second(struct endpoint *endpoint)
{
	const uint64_t second = clock_ms() / 1000;

	if (second != endpoint->second)
		endpoint_tell_rest(endpoint);
	endpoint->second = second;
}

/* Anyone may give reason for lines, and as fast as he likes: they must not fill the disk. */
static void on_log(void *user, enum fabric_log kind, const char *words)
{
	struct endpoint *endpoint = user;
	struct tb_publisher *publisher = endpoint->publisher;

	if (kind != FABRIC_LOG_INFO)
		counter_add(&publisher->counters[kind == FABRIC_LOG_REFUSED ? BUS_REFUSED
									    : BUS_DROPPED],
			    1);
	endpoint_second(endpoint);
	if (endpoint->lines++ < LINES_PER_SECOND)
		publisher_log(publisher, TB_LOG_WARNING, "%s", words);
}

const struct listener_calls server_calls = {
	.hello = on_hello,
	.message = on_message,
	.gone = on_gone,
	.log = on_log,
};

/* -- the pulse ----------------------------------------------------------------------------------
 */

/* Once in a quarter of the bound: whose writer made no call since the last time. */
static void silence_count(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->topic_count; i++) {
		struct tb_topic *topic = publisher->topics[i];

		if (atomic_exchange_explicit(&topic->touched, 0, memory_order_relaxed) ||
		    !(topic->flags & TB_TOPIC_WATCHED) ||
		    atomic_load_explicit(&topic->end_due, memory_order_relaxed))
			topic->silent = 0;
		else
			topic->silent++;
	}
}

/* A silent topic's beat falls behind the count, and the topic is stale to its readers: by quarters
 * of the bound alone, however many pulses tell news between them. */
static void entry_store(struct tb_publisher *publisher, const struct tb_topic *topic,
			uint32_t realms)
{
	struct bus_entry entry = { .epoch = topic->shape.epoch,
				   .head = topic_head(topic),
				   .topic_id = topic->shape.topic_id,
				   .state = TOPIC_LIVE };

	if (atomic_load_explicit(&topic->end_due, memory_order_acquire))
		entry.state = TOPIC_ENDED;
	for (uint32_t i = 0; i < publisher->realm_count; i++) {
		const struct realm *realm = &publisher->realms[i];

		if (!(realms >> i & 1) || !realm_has(realm, topic))
			continue;
		entry.beat = realm->pulse.count - topic->silent;
		bus_page_store_entry(realm->page.base, entry.topic_id - 1, &entry,
				     publisher->bus_id);
	}
}

void server_pulse(struct tb_publisher *publisher, uint32_t realms)
{
	for (uint32_t i = 0; i < publisher->realm_count; i++)
		publisher->realms[i].pulse.count += realms >> i & 1;
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		entry_store(publisher, publisher->topics[i], realms);
	for (uint32_t i = 0; i < publisher->realm_count; i++)
		if (realms >> i & 1)
			bus_page_store_pulse(publisher->realms[i].page.base,
					     &publisher->realms[i].pulse);
	announce_heads(publisher);
}

/* -- what writers signalled ---------------------------------------------------------------------
 */

/* A revoke is for those who have the memory of an epoch that is gone, an ending for the others: who
 * was quick may have joined the new epoch before this. */
static void tell(struct tb_topic *topic, enum control_type type)
{
	for (struct join *join = topic->joins, *next; join; join = next) {
		const bool gone = join->epoch != topic->shape.epoch;
		struct control_message message = { .type = type };

		next = join->next_of_topic;
		if (gone != (type == CONTROL_REVOKE))
			continue;
		message.topic.topic_id = topic->shape.topic_id;
		message.topic.epoch = join->epoch;
		message.topic.head = gone ? 0 : topic_head(topic);
		session_send(join->session, &message, NULL);
	}
}

static void topic_signalled(struct tb_publisher *publisher, struct tb_topic *topic)
{
	const uint64_t restarts = atomic_load_explicit(&topic->restarts, memory_order_relaxed);

	if (restarts != topic->restarts_told) {
		topic->restarts_told = restarts;
		realms_change(publisher, topic);
		server_pulse(publisher, topic->realms);
		tell(topic, CONTROL_REVOKE);
	}
	if (atomic_load_explicit(&topic->end_due, memory_order_acquire) && !topic->end_told) {
		topic->end_told = true;
		server_pulse(publisher, topic->realms);
		tell(topic, CONTROL_ENDING);
	}
	answers_wake(topic);
}

/* What a subscriber says is no reason to look at all topics and all their sleepers. */
static void server_signalled(struct tb_publisher *publisher)
{
	eventfd_t count;

	if (eventfd_read(publisher->event_fd, &count) < 0)
		return;
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		if (wakeup_signalled(&publisher->topics[i]->wakeup))
			topic_signalled(publisher, publisher->topics[i]);
}

/* -- the loop -----------------------------------------------------------------------------------
 */

/* Whether everyone has read to the end and left, or the time for it is over. */
static bool closing_done(const struct tb_publisher *publisher)
{
	if (!atomic_load_explicit(&publisher->closing, memory_order_acquire))
		return false;
	if (clock_ms() >= publisher->close_by_ms)
		return true;
	for (const struct session *session = publisher->sessions; session; session = session->next)
		if (session->joins)
			return false;
	return true;
}

static void closing_tell(struct tb_publisher *publisher)
{
	char who[64];

	for (uint32_t i = 0; i < publisher->endpoint_count; i++)
		endpoint_tell_rest(&publisher->endpoints[i]);
	for (const struct session *session = publisher->sessions; session;
	     session = session->next) {
		if (!session->joins)
			continue;
		session->peer->ops->peer_text(session->peer, who, sizeof(who));
		publisher_log(publisher, TB_LOG_WARNING,
			      "%s had not read to the end of topic %s when the bus closed", who,
			      session->joins->topic->name);
	}
}

static void server_work(struct tb_publisher *publisher, const struct epoll_event *events, int count)
{
	uint64_t ticks;

	for (int i = 0; i < count; i++) {
		struct endpoint *endpoint = events[i].data.ptr;

		if (endpoint)
			endpoint->listener->ops->listener_poll(endpoint->listener);
	}
	server_signalled(publisher);
	if (read(publisher->timer_fd, &ticks, sizeof(ticks)) != sizeof(ticks))
		return;
	silence_count(publisher);
	server_pulse(publisher, REALMS_ALL);
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		answers_wake(publisher->topics[i]);
	for (uint32_t i = 0; i < publisher->endpoint_count; i++)
		endpoint_second(&publisher->endpoints[i]);
}

void *server_run(void *user)
{
	struct tb_publisher *publisher = user;
	struct epoll_event events[16];
	bool done = false;

	while (!done) {
		const bool closing =
			atomic_load_explicit(&publisher->closing, memory_order_acquire);
		int count =
			epoll_wait(publisher->epoll_fd, events, 16, closing ? CLOSING_POLL_MS : -1);

		publisher_lock(publisher);
		server_work(publisher, events, count);
		done = closing_done(publisher);
		if (done)
			closing_tell(publisher);
		publisher_unlock(publisher);
	}
	return NULL;
}

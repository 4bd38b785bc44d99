/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the bus: begun, lost, begun again. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "bus/error.h"
#include "bus/clock.h"
#include "bus/random.h"
#include "subscriber/subscriber.h"

static void gone_keep(struct tb_subscriber *subscriber, int code, const char *words)
{
	subscriber->gone_code = code;
	strncpy(subscriber->gone_words, words, sizeof(subscriber->gone_words) - 1);
}

static void on_welcome(void *user, const void *bytes, size_t length)
{
	struct tb_subscriber *subscriber = user;
	struct control_welcome welcome;
	int result;

	if (control_welcome_decode(bytes, length, &welcome) < 0) {
		gone_keep(subscriber, EPROTO, tb_error());
		return;
	}
	if (welcome.version < CONTROL_VERSION_LOW || welcome.version > CONTROL_VERSION_HIGH) {
		gone_keep(subscriber, EPROTO, "the publisher chose a version we do not speak");
		return;
	}
	subscriber->welcome = welcome;
	subscriber->stale_ms =
		subscriber->stale_asked_ms ? subscriber->stale_asked_ms : welcome.stale_ms;
	result = pulse_open(subscriber, welcome.key);
	if (result < 0) {
		gone_keep(subscriber, -result, tb_error());
		return;
	}
	subscriber->welcomed = true;
	subscriber->gone_code = 0;
	subscriber->refusals = 0;
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription) {
		s->discover = true;
		s->refused = false;
		memset(s->told, 0, sizeof(s->told));
	}
}

static void topic_told(struct tb_subscriber *subscriber, const struct control_message *message)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++) {
		struct tb_source *source = subscriber->table[i];

		if (!source || source->state == SOURCE_DEAD ||
		    source->place.shape.topic_id != message->topic.topic_id ||
		    source->place.shape.epoch != message->topic.epoch)
			continue;
		if (message->type == CONTROL_WAKE)
			source->armed = false;
		if (message->type != CONTROL_WAKE || source->place.view ||
		    !notices_hint(source, message->topic.head))
			source->look = true; /* the progress line decides */
		if (message->type == CONTROL_REVOKE)
			source->subscription->discover = true;
	}
}

static void on_message(void *user, const void *bytes, size_t length)
{
	struct tb_subscriber *subscriber = user;
	struct control_message message;

	if (control_decode(bytes, length, &message) < 0) {
		gone_keep(subscriber, EPROTO, tb_error());
		return;
	}
	switch (message.type) {
	case CONTROL_WAKE:
	case CONTROL_REVOKE:
	case CONTROL_ENDING:
		topic_told(subscriber, &message);
		return;
	default:
		discovery_answer(subscriber, &message);
		return;
	}
}

static void on_gone(void *user, int code, const char *why)
{
	gone_keep(user, code, why);
}

static const struct link_calls calls = {
	.welcome = on_welcome,
	.message = on_message,
	.gone = on_gone,
};

/* One place in the queue is the bus page's: else topics that are caught up would keep it from the
 * publisher's sign of life, and when nothing is answered any more, for good. */
int connection_read(struct tb_source *source, const struct fabric_read *reads, unsigned int count)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const unsigned int places = subscriber->ops->depth(subscriber->link);
	const unsigned int room =
		places > subscriber->under_way + 1 ? places - subscriber->under_way - 1 : 0;
	int posted;

	if (count > room)
		count = room;
	posted = count > 0 ? subscriber->ops->read(subscriber->link, reads, count) : 0;
	if (posted <= 0)
		return posted;
	source->under_way += (unsigned int)posted;
	subscriber->under_way += (unsigned int)posted;
	source->subscription->counters[SUBSCRIPTION_READS] += (uint64_t)posted;
	return posted;
}

void connection_reap(struct tb_subscriber *subscriber)
{
	struct fabric_completion done[READS_MAX];
	int count;

	do {
		count = subscriber->ops->reap(subscriber->link, done, READS_MAX);
		for (int i = 0; i < count; i++) {
			const enum fetch_kind kind = (enum fetch_kind)(done[i].tag & 0xff);
			const unsigned int half = done[i].tag >> 8 & 0xff;
			const uint64_t slot = done[i].tag >> 16;
			struct tb_source *source;

			if (kind == FETCH_PAGE) {
				pulse_fetched(subscriber, done[i].status);
				continue;
			}
			source = slot < subscriber->topics_max ? subscriber->table[slot] : NULL;
			if (!source)
				continue;
			source->under_way--;
			subscriber->under_way--;
			if (kind == FETCH_SLOTS)
				pull_read_landed(source, half, done[i].status);
			else
				source_fetched(source, kind, done[i].status);
		}
	} while (count == READS_MAX);
}

int connection_begin(struct tb_subscriber *subscriber)
{
	struct control_hello hello = { .version_low = CONTROL_VERSION_LOW,
				       .version_high = CONTROL_VERSION_HIGH };
	uint8_t bytes[FABRIC_HELLO_BYTES];
	struct epoll_event event = { .events = EPOLLIN };
	int result;

	subscriber->tried_ms = clock_coarse_ms();
	result = random_u64(&hello.nonce);
	if (result < 0)
		return result;
	memcpy(hello.ticket, subscriber->ticket, sizeof(hello.ticket));
	control_hello_encode(&hello, bytes);
	result = subscriber->ops->connect(&subscriber->link, subscriber->place, bytes,
					  sizeof(bytes), &calls, subscriber);
	if (result < 0) {
		gone_keep(subscriber, -result, tb_error());
		return result;
	}
	subscriber->link_fd = subscriber->ops->link_fd(subscriber->link);
	if (epoll_ctl(subscriber->epoll_fd, EPOLL_CTL_ADD, subscriber->link_fd, &event) < 0) {
		subscriber->link_fd = -1;
		result = error_set(errno, "epoll: %s", strerror(errno));
		connection_close(subscriber);
	}
	return result;
}

void connection_close(struct tb_subscriber *subscriber)
{
	if (!subscriber->link)
		return;
	if (subscriber->link_fd >= 0)
		epoll_ctl(subscriber->epoll_fd, EPOLL_CTL_DEL, subscriber->link_fd, NULL);
	subscriber->link_fd = -1;
	subscriber->ops->link_break(subscriber->link);
	connection_reap(subscriber); /* all of them: nothing is under way after this */
	pulse_close(subscriber);
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i])
			source_orphan(subscriber->table[i]);
	subscriber->ops->link_close(subscriber->link);
	subscriber->link = NULL;
	subscriber->welcomed = false;
	subscriber->group_count = 0; /* they went with the link */
	discovery_reset(subscriber);
}

/* Whether what was received shows that the connection is of no use any more. */
static bool connection_lost(const struct tb_subscriber *subscriber)
{
	return subscriber->gone_code != 0 || pulse_unanswered(subscriber) ||
	       subscriber->ops->link_state(subscriber->link) == LINK_GONE;
}

/* A refusal that waiting does not help against, of a ticket for one, is told once, and again when
 * there was a welcome since. */
static void refusal_tell(struct tb_subscriber *subscriber)
{
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription) {
		if (s->refused || s->closing)
			continue;
		s->refused = true;
		deliver_refused(s, s->pattern, subscriber->gone_code, subscriber->gone_words);
	}
}

/* The publisher is there and has no room, or its socket is closed to us, which may be for a moment
 * of its start: each topic that was told stale is told so once more, with the reason. */
static void kept_out_tell(struct tb_subscriber *subscriber)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i])
			deliver_stale_why(subscriber->table[i], subscriber->gone_code,
					  subscriber->gone_words);
}

/* A publisher that does not want us, or has no room, is asked less and less often. */
static uint64_t pause_ms(const struct tb_subscriber *subscriber)
{
	const uint64_t doubled = (uint64_t)RECONNECT_MS << subscriber->refusals;

	return doubled < REFUSED_MS ? doubled : REFUSED_MS;
}

static void connection_ended(struct tb_subscriber *subscriber)
{
	const bool was_welcomed = subscriber->welcomed;
	const int code = was_welcomed ? 0 : subscriber->gone_code;
	const bool unwanted = code == EACCES || code == EPROTO;
	const bool no_room = code == EUSERS || code == EAGAIN;

	connection_close(subscriber);
	if (was_welcomed)
		pulse_lost(subscriber);
	if (!unwanted && !no_room) {
		subscriber->refusals = 0;
		return;
	}
	if (unwanted)
		refusal_tell(subscriber);
	else
		kept_out_tell(subscriber);
	if (pause_ms(subscriber) < REFUSED_MS)
		subscriber->refusals++;
}

void connection_keep(struct tb_subscriber *subscriber)
{
	if (!subscriber->link) {
		if (clock_coarse_ms() - subscriber->tried_ms < pause_ms(subscriber))
			return;
		subscriber->gone_code = 0;
		if (connection_begin(subscriber) < 0)
			subscriber->refusals = 0;
		if (subscriber->gone_code == EACCES)
			kept_out_tell(subscriber);
		return;
	}
	if (subscriber->gone_code == 0)
		subscriber->ops->link_poll(subscriber->link);
	connection_reap(subscriber);
	if (connection_lost(subscriber))
		connection_ended(subscriber);
}

int connection_send(struct tb_subscriber *subscriber, const struct control_message *message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);

	if (!subscriber->link)
		return error_set(ENOTCONN, "not connected to %s", subscriber->address);
	return subscriber->ops->link_send(subscriber->link, bytes, length);
}

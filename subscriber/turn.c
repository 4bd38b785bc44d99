/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of everything but delivery: messages, completed READs, requests, the pulse, and the
 * connection, which is opened, lost and opened again. */
#include "subscriber/turn.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/barrier.h"
#include "bus/clock.h"
#include "bus/control.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/random.h"
#include "subscriber/advance.h"
#include "subscriber/deliver.h"
#include "subscriber/discovery.h"
#include "subscriber/notices.h"
#include "subscriber/pull_read.h"
#include "subscriber/pulse.h"
#include "subscriber/source.h"
#include "subscriber/tag.h"
#include "subscriber/topic_index.h"

#define RECONNECT_MS 50
#define LOOKS_MAX    64   /* for the next answer */
#define REFUSED_MS   1000 /* longest pause between tries; each refusal doubles the pause */

/* -- messages --------------------------------------------------------------------------------- */

static void gone_keep(struct tb_subscriber *subscriber, int code, const char *text)
{
	subscriber->gone_code = code;
	strncpy(subscriber->gone_text, text, sizeof(subscriber->gone_text) - 1);
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
		gone_keep(subscriber, EPROTO,
			  "the publisher chose a protocol version that this library does not "
			  "support");
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
		memset(s->refusal_hash, 0, sizeof(s->refusal_hash));
	}
}

static void topic_message(struct tb_subscriber *subscriber, const struct control_message *message)
{
	for (struct tb_source *source = topic_index_first(subscriber, message->topic.topic_id);
	     source; source = source->next_of_id) {
		if (source->state == SOURCE_DEAD ||
		    source->mapping.shape.epoch != message->topic.epoch)
			continue;
		if (message->type == CONTROL_WAKE)
			source->armed = false;
		if (message->type != CONTROL_WAKE || source->mapping.view ||
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
		topic_message(subscriber, &message);
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

/* -- completed READs -------------------------------------------------------------------------- */

void turn_reap(struct tb_subscriber *subscriber)
{
	struct fabric_completion done[READS_MAX];
	int count;

	do {
		count = subscriber->ops->reap(subscriber->link, done, READS_MAX);
		for (int i = 0; i < count; i++) {
			const struct tag tag = tag_unpack(done[i].tag);
			struct tb_source *source;

			if (tag.kind == READ_PAGE) {
				pulse_fetched(subscriber, done[i].status);
				continue;
			}
			source = tag.slot < subscriber->topics_max ? subscriber->table[tag.slot]
								   : NULL;
			if (!source)
				continue;
			source->under_way--;
			subscriber->under_way--;
			if (tag.kind == READ_SLOTS)
				pull_read_landed(source, tag.half, done[i].status);
			else
				advance_fetched(source, tag.kind, done[i].status);
		}
	} while (count == READS_MAX);
}

/* -- connecting ------------------------------------------------------------------------------- */

int turn_connect(struct tb_subscriber *subscriber)
{
	struct control_hello hello = { .version_low = CONTROL_VERSION_LOW,
				       .version_high = CONTROL_VERSION_HIGH };
	uint8_t bytes[FABRIC_HELLO_BYTES];
	uint64_t part;
	struct epoll_event event = { .events = EPOLLIN };
	int result;

	subscriber->tried_ms = clock_coarse_ms();
	for (size_t i = 0; i < sizeof(hello.nonce); i += sizeof(part)) {
		result = random_u64(&part);
		if (result < 0)
			return result;
		memcpy(hello.nonce + i, &part, sizeof(part));
	}
	memcpy(hello.ticket, subscriber->ticket, sizeof(hello.ticket));
	control_hello_encode(&hello, bytes);
	result = subscriber->ops->connect(&subscriber->link, subscriber->location, bytes,
					  sizeof(bytes), &calls, subscriber);
	if (result < 0) {
		gone_keep(subscriber, -result, tb_error());
		return result;
	}
	subscriber->link_fd = subscriber->ops->link_fd(subscriber->link);
	if (epoll_ctl(subscriber->epoll_fd, EPOLL_CTL_ADD, subscriber->link_fd, &event) < 0) {
		subscriber->link_fd = -1;
		result = error_set(errno, "subscriber: cannot watch the connection: %s",
				   strerror(errno));
		turn_disconnect(subscriber);
	}
	return result;
}

void turn_disconnect(struct tb_subscriber *subscriber)
{
	if (!subscriber->link)
		return;
	if (subscriber->link_fd >= 0)
		epoll_ctl(subscriber->epoll_fd, EPOLL_CTL_DEL, subscriber->link_fd, NULL);
	subscriber->link_fd = -1;
	subscriber->ops->link_break(subscriber->link);
	turn_reap(subscriber); /* all of them: no READ is outstanding after this */
	pulse_close(subscriber);
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i])
			source_orphan(subscriber->table[i]);
	subscriber->ops->link_close(subscriber->link);
	subscriber->link = NULL;
	subscriber->welcomed = false;
	subscriber->group_count = 0; /* they ended with the link */
	discovery_reset(subscriber);
}

/* Whether the connection is lost. */
static bool link_is_lost(const struct tb_subscriber *subscriber)
{
	return subscriber->gone_code != 0 || pulse_unanswered(subscriber) ||
	       subscriber->ops->link_state(subscriber->link) == LINK_GONE;
}

/* Reports a permanent refusal, of a ticket for example: once, and again after the next welcome. */
static void refusal_report(struct tb_subscriber *subscriber)
{
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription) {
		if (s->refused || s->closing)
			continue;
		s->refused = true;
		deliver_refused(s, s->pattern, subscriber->gone_code, subscriber->gone_text);
	}
}

/* The publisher is alive but has no room, or its socket refuses us, perhaps only while it starts.
 * Reports each stale topic once more, with this reason. */
static void stale_reason_report(struct tb_subscriber *subscriber)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i])
			deliver_stale_reason(subscriber->table[i], subscriber->gone_code,
					     subscriber->gone_text);
}

/* A publisher that refuses is tried less and less often. */
static uint64_t pause_ms(const struct tb_subscriber *subscriber)
{
	const uint64_t doubled = (uint64_t)RECONNECT_MS << subscriber->refusals;

	return doubled < REFUSED_MS ? doubled : REFUSED_MS;
}

static void link_ended(struct tb_subscriber *subscriber)
{
	const bool was_welcomed = subscriber->welcomed;
	const int code = was_welcomed ? 0 : subscriber->gone_code;
	const bool unwanted = code == EACCES || code == EPROTO;
	const bool no_room = code == EUSERS || code == EAGAIN;

	turn_disconnect(subscriber);
	if (was_welcomed)
		pulse_lost(subscriber);
	if (!unwanted && !no_room) {
		subscriber->refusals = 0;
		return;
	}
	if (unwanted)
		refusal_report(subscriber);
	else
		stale_reason_report(subscriber);
	if (pause_ms(subscriber) < REFUSED_MS)
		subscriber->refusals++;
}

static void link_keep(struct tb_subscriber *subscriber)
{
	if (!subscriber->link) {
		if (clock_coarse_ms() - subscriber->tried_ms < pause_ms(subscriber))
			return;
		subscriber->gone_code = 0;
		if (turn_connect(subscriber) < 0)
			subscriber->refusals = 0;
		if (subscriber->gone_code == EACCES)
			stale_reason_report(subscriber);
		return;
	}
	if (subscriber->gone_code == 0)
		subscriber->ops->link_poll(subscriber->link);
	turn_reap(subscriber);
	if (link_is_lost(subscriber))
		link_ended(subscriber);
}

/* -- turns ------------------------------------------------------------------------------------ */

int turn_timer_set(struct tb_subscriber *subscriber, long first_ns)
{
	const long pace_ms = subscriber->welcomed ? (subscriber->stale_ms + 9) / 10 : RECONNECT_MS;
	const struct timespec pace = { pace_ms / 1000, pace_ms % 1000 * 1000000 };
	const struct timespec first = { 0, first_ns };
	const struct itimerspec timer = { pace, first_ns ? first : pace };

	if (timerfd_settime(subscriber->timer_fd, 0, &timer, NULL) < 0)
		return error_set(errno, "subscriber: cannot set the timer: %s", strerror(errno));
	return 0;
}

/* Returns how many messages came. */
static int answers_take(struct tb_subscriber *subscriber)
{
	int count = 0;

	if (subscriber->discovery.outstanding > 0 && subscriber->gone_code == 0 &&
	    !subscriber->closing)
		count = subscriber->ops->link_poll(subscriber->link);
	if (count > 0)
		discovery_step(subscriber);
	return count;
}

int turn_answers(struct tb_subscriber *subscriber)
{
	int taken = answers_take(subscriber), count;

	for (int looks = 0; taken > 0 && taken < TURN_ANSWERS && looks < LOOKS_MAX; looks++) {
		count = answers_take(subscriber);
		taken += count;
		if (count > 0)
			looks = 0;
		else
			barrier_pause();
	}
	return taken;
}

void turn_take(struct tb_subscriber *subscriber)
{
	const bool was_welcomed = subscriber->welcomed;
	uint64_t ticks;

	subscriber->turn_ms = clock_coarse_ms();
	subscriber->woken = false;
	link_keep(subscriber);
	if (subscriber->welcomed != was_welcomed)
		turn_timer_set(subscriber, 0);
	discovery_step(subscriber);
	/* Sooner than the timer's pace: with a coarse clock, a sleeper would otherwise miss a look.
	 */
	if (subscriber->turn_ms - subscriber->page_ms >= subscriber->stale_ms / 16)
		pulse_look(subscriber);
	if (read(subscriber->timer_fd, &ticks, sizeof(ticks)) < 0)
		return; /* not due */
}

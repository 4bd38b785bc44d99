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
#include "bus/bus_page.h"
#include "bus/clock.h"
#include "bus/control.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/random.h"
#include "subscriber/advance.h"
#include "subscriber/completions.h"
#include "subscriber/connection.h"
#include "subscriber/conflate.h"
#include "subscriber/deliver.h"
#include "subscriber/discovery.h"
#include "subscriber/get_read.h"
#include "subscriber/glance.h"
#include "subscriber/notices.h"
#include "subscriber/pull_read.h"
#include "subscriber/pulse.h"
#include "subscriber/source.h"
#include "subscriber/tag.h"
#include "subscriber/topic_index.h"
#include "subscriber/value_reads.h"

#define RECONNECT_MS     50   /* the longest first pause before a try to connect */
#define RECONNECT_MAX_MS 2000 /* each failed try doubles the longest pause, up to this */
#define OPEN_MS          10   /* the longest pause while tb_subscriber_open waits for room */
#define LOOKS_MAX        64   /* for the next answer */

/* -- messages --------------------------------------------------------------------------------- */

static void gone_keep(struct tb_subscriber *subscriber, int code, const char *text)
{
	subscriber->gone_code = code;
	strncpy(subscriber->gone_text, text, sizeof(subscriber->gone_text) - 1);
}

static int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			uint8_t hello[FABRIC_HELLO_BYTES])
{
	struct tb_subscriber *subscriber = user;

	return handshake_answer(&subscriber->handshake, challenge, hello);
}

static void on_welcome(void *user, const void *bytes, size_t length)
{
	struct tb_subscriber *subscriber = user;
	struct control_welcome welcome;
	uid_t listener;
	int result;

	result = handshake_welcome(&subscriber->handshake, bytes, length, &welcome);
	if (result < 0) {
		gone_keep(subscriber, -result, tb_error());
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
	subscriber->user = -1;
	if (!subscriber->ops->network &&
	    subscriber->ops->link_user(subscriber->link, &listener) == 0)
		subscriber->user = (int64_t)listener;
	subscriber->gone_code = 0;
	subscriber->failures = 0;
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
			glance_look(source); /* the progress line decides; L-I3 */
		if (message->type == CONTROL_REVOKE)
			source->subscription->discover = true;
		if (message->type == CONTROL_ENDING && source->mapping.conflate)
			conflate_ended(source->mapping.conflate);
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
	.challenge = on_challenge,
	.welcome = on_welcome,
	.message = on_message,
	.gone = on_gone,
};

/* -- completed READs -------------------------------------------------------------------------- */

static void completion_use(struct tb_subscriber *subscriber, const struct fabric_completion *done)
{
	const struct tag tag = tag_unpack(done->tag);
	struct tb_source *source;

	if (tag.kind == READ_PULSE || tag.kind == READ_ENTRIES) {
		pulse_fetched(subscriber, tag, done->status);
		return;
	}
	source = completions_source(subscriber, tag);
	if (!source)
		return;
	if (tag.kind == READ_SLOTS)
		pull_read_landed(source, tag.half, done->status);
	else if (tag.kind == READ_VALUES)
		value_reads_landed(source, tag.half, done->status);
	else
		advance_fetched(source, tag.kind, done->status);
}

void turn_reap(struct tb_subscriber *subscriber)
{
	struct fabric_completion done;
	bool more;

	do {
		more = completions_reap(subscriber);
		while (completions_next(subscriber, &done))
			completion_use(subscriber, &done);
	} while (more);
}

/* -- connecting ------------------------------------------------------------------------------- */

/* The pause before the next try: half of the longest pause, and a random part of the other half. So
 * the tries of many subscribers that lost one publisher do not meet. */
static void pause_begin(struct tb_subscriber *subscriber)
{
	uint64_t longest_ms = RECONNECT_MAX_MS, chance, pause_ms;

	if (subscriber->opening && subscriber->gone_code == EAGAIN)
		longest_ms = OPEN_MS;
	else if ((uint64_t)RECONNECT_MS << subscriber->failures < RECONNECT_MAX_MS)
		longest_ms = (uint64_t)RECONNECT_MS << subscriber->failures++;
	if (random_u64(&chance) < 0)
		chance = 0;
	pause_ms = longest_ms - chance % (longest_ms / 2 + 1);
	subscriber->retry_ms = clock_coarse_ms() + pause_ms;
	turn_timer_set(subscriber, (long)pause_ms * 1000000);
}

static int link_open(struct tb_subscriber *subscriber)
{
	uint8_t bytes[FABRIC_HELLO_BYTES];
	struct epoll_event event = { .events = EPOLLIN };
	int result;

	result = handshake_begin(&subscriber->handshake, subscriber->ops, subscriber->location,
				 subscriber->ticket, bytes);
	if (result < 0)
		return result;
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

int turn_connect(struct tb_subscriber *subscriber)
{
	const int result = link_open(subscriber);

	if (result < 0)
		pause_begin(subscriber);
	return result;
}

/* Before link_settle closes the descriptor: another thread may get its number. */
static void link_unwatch(struct tb_subscriber *subscriber)
{
	if (subscriber->link_fd >= 0)
		epoll_ctl(subscriber->epoll_fd, EPOLL_CTL_DEL, subscriber->link_fd, NULL);
	subscriber->link_fd = -1;
}

void turn_settle(struct tb_subscriber *subscriber)
{
	if (!subscriber->link)
		return;
	link_unwatch(subscriber);
	subscriber->ops->link_break(subscriber->link);
	subscriber->ops->link_settle(subscriber->link);
}

void turn_disconnect(struct tb_subscriber *subscriber)
{
	if (!subscriber->link)
		return;
	link_unwatch(subscriber);
	subscriber->ops->link_break(subscriber->link);
	connection_drop(subscriber);
	turn_reap(subscriber); /* all of them: no READ is outstanding after this */
	get_close(subscriber);
	pulse_close(subscriber);
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i])
			source_orphan(subscriber->table[i]);
	subscriber->ops->link_close(subscriber->link);
	subscriber->link = NULL;
	subscriber->welcomed = false;
	subscriber->group_count = 0; /* they ended with the link */
	discovery_reset(subscriber);
	source_leaves_forget(subscriber);
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

/* The publisher is alive but has no room or too small an MTU, or its socket refuses us, perhaps
 * only while it starts. Reports each stale topic once more, with this reason. */
static void stale_reason_report(struct tb_subscriber *subscriber)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++)
		if (subscriber->table[i])
			deliver_stale_reason(subscriber->table[i], subscriber->gone_code,
					     subscriber->gone_text);
}

/* Keeps the reason for the stale events: the tries to connect that follow have reasons of their
 * own.
 */
static void lost_keep(struct tb_subscriber *subscriber)
{
	if (subscriber->gone_code == 0)
		gone_keep(subscriber, ETIMEDOUT, "the publisher's memory no longer answers");
	subscriber->lost_code = subscriber->gone_code;
	memcpy(subscriber->lost_text, subscriber->gone_text, sizeof(subscriber->lost_text));
	pulse_lost(subscriber);
}

static void link_ended(struct tb_subscriber *subscriber)
{
	const bool was_welcomed = subscriber->welcomed;
	const int code = was_welcomed ? 0 : subscriber->gone_code;

	turn_disconnect(subscriber);
	if (was_welcomed)
		lost_keep(subscriber);
	if (code == EACCES || code == EPROTO)
		refusal_report(subscriber);
	else if (code == EUSERS || code == EAGAIN || code == EMSGSIZE)
		stale_reason_report(subscriber);
	pause_begin(subscriber);
}

static void link_keep(struct tb_subscriber *subscriber)
{
	if (!subscriber->link) {
		if (clock_coarse_ms() < subscriber->retry_ms)
			return;
		subscriber->gone_code = 0;
		turn_connect(subscriber);
		if (subscriber->gone_code == EACCES || subscriber->gone_code == EAGAIN)
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

/* Looks at the bus page are paced by the stale bound. The caller's own bound may be longer than
 * withdrawn memory is kept. Over a network a look is needed within half of that time (U1). */
static uint32_t pace_bound_ms(const struct tb_subscriber *subscriber)
{
	const uint32_t kept_ms = bus_page_kept_ms(subscriber->welcome.stale_ms);

	return subscriber->page && !subscriber->page_view && kept_ms < subscriber->stale_ms
		       ? kept_ms
		       : subscriber->stale_ms;
}

int turn_timer_set(struct tb_subscriber *subscriber, long first_ns)
{
	const long pace_ms =
		subscriber->welcomed ? (pace_bound_ms(subscriber) + 9) / 10 : RECONNECT_MS;
	const struct timespec pace = { pace_ms / 1000, pace_ms % 1000 * 1000000 };
	const struct timespec first = { first_ns / 1000000000, first_ns % 1000000000 };
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

	subscriber->heard_ms = subscriber->turn_ms;
	subscriber->turn_ms = clock_coarse_ms();
	if (subscriber->turn_ms - subscriber->all_woken_ms >= TURN_MS) {
		glance_wake_all(subscriber); /* L-I3 */
		subscriber->all_woken_ms = subscriber->turn_ms;
	}
	subscriber->woken = false;
	link_keep(subscriber);
	if (subscriber->welcomed && !was_welcomed)
		turn_timer_set(subscriber, 0);
	source_leaves_send(subscriber);
	discovery_step(subscriber);
	/* Sooner than the timer's pace: with a coarse clock, a sleeper would otherwise miss a look.
	 */
	if (subscriber->turn_ms - subscriber->page_ms >= pace_bound_ms(subscriber) / 16)
		pulse_look(subscriber);
	connection_post(subscriber);
	if (read(subscriber->timer_fd, &ticks, sizeof(ticks)) < 0)
		return; /* not due */
}

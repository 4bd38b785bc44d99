/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's public calls, and the order in which its parts get their turn. */
#include "subscriber/subscriber.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/barrier.h"
#include "bus/error.h"
#include "bus/clock.h"
#include "bus/bounds.h"
#include "bus/pattern.h"

#define SOON_NS 1000000

static_assert(READS_MAX * HALVES_MAX == BOUND_READS_OF_A_BATCH, "addresses are held to the same");

/* -- opening ------------------------------------------------------------------------------------
 */

static int range_check(const char *what, uint32_t found, uint32_t low, uint32_t high)
{
	if (found >= low && found <= high)
		return 0;
	return error_set(EINVAL, "%s: found %u, expected %u to %u", what, found, low, high);
}

static uint32_t first_said(uint32_t first, uint32_t second, uint32_t usual)
{
	return first ? first : second ? second : usual;
}

static uint32_t brought_within(uint32_t number, uint32_t low, uint32_t high)
{
	return number < low ? low : number > high ? high : number;
}

static int batch_bytes_take(struct tb_subscriber *subscriber, uint32_t said, uint32_t option)
{
	const uint32_t bytes = first_said(said, option, BOUND_BATCH_BYTES);

	subscriber->batch_bytes = bytes / REGION_PAGE * REGION_PAGE;
	return range_check("batch_bytes", bytes, BOUND_BATCH_BYTES_MIN, BOUND_BATCH_BYTES_MAX);
}

/* Not so few that READS_MAX READs would leave a part of their half empty. A program's own number
 * gives way to an address that says how large a batch is. */
static int read_bytes_take(struct tb_subscriber *subscriber, const struct address *said,
			   uint32_t option)
{
	const uint32_t most = subscriber->batch_bytes, least = most / (READS_MAX * HALVES_MAX);
	const uint32_t usual = brought_within(READ_BYTES, least, most);

	if (said->batch_bytes && option)
		option = brought_within(option, least, most);
	subscriber->read_bytes = first_said(said->read_bytes, option, usual);
	return range_check("read_bytes", subscriber->read_bytes, least, most);
}

/* What an address says of them stands over what a program was written with. One that cannot be read
 * is told of when it is connected to. */
static int sizes_take(struct tb_subscriber *subscriber, const char *place,
		      const struct tb_subscriber_options *options)
{
	struct address said;
	int result;

	if (!subscriber->ops->network || address_parse(place, &said) < 0)
		said.batch_bytes = said.read_bytes = 0;
	result = batch_bytes_take(subscriber, said.batch_bytes, options->batch_bytes);
	if (result < 0)
		return error_prefix(result, "subscriber options: ");
	result = read_bytes_take(subscriber, &said, options->read_bytes);
	if (result < 0 && said.read_bytes)
		return error_prefix(result, "address %s: ", options->address);
	return result < 0 ? error_prefix(result, "subscriber options: ") : 0;
}

static int ranges_check(const struct tb_subscriber *subscriber)
{
	int result = range_check("connect_ms", subscriber->connect_ms, 1, BOUND_CONNECT_MS_MAX);

	if (result == 0 && subscriber->stale_asked_ms)
		result = range_check("stale_ms", subscriber->stale_asked_ms, BOUND_STALE_MS_MIN,
				     BOUND_STALE_MS_MAX);
	if (result == 0)
		result = range_check("topics_max", subscriber->topics_max, 1, BOUND_TOPICS_MAX);
	return result < 0 ? error_prefix(result, "subscriber options: ") : 0;
}

static int options_take(struct tb_subscriber *subscriber,
			const struct tb_subscriber_options *options)
{
	const char *place;
	int result;

	if (!options->address)
		return error_set(EINVAL, "subscriber options: found no address");
	if (options->flags & ~TB_WAIT)
		return error_set(EINVAL,
				 "subscriber options: found flags 0x%x, expected none but 0x%x",
				 options->flags, TB_WAIT);
	subscriber->ops = fabric_find(options->address, &place);
	if (!subscriber->ops)
		return -EINVAL;
	subscriber->flags = options->flags;
	if (options->ticket)
		memcpy(subscriber->ticket, options->ticket, sizeof(subscriber->ticket));
	subscriber->connect_ms = options->connect_ms ? options->connect_ms : BOUND_CONNECT_MS;
	subscriber->stale_ms = subscriber->stale_asked_ms = options->stale_ms;
	subscriber->topics_max = options->topics_max ? options->topics_max : BOUND_TOPICS;
	result = ranges_check(subscriber);
	if (result == 0)
		result = sizes_take(subscriber, place, options);
	if (result < 0)
		return result;
	subscriber->address = strdup(options->address);
	subscriber->place = strdup(place);
	subscriber->table = calloc(subscriber->topics_max, sizeof(*subscriber->table));
	if (!subscriber->address || !subscriber->place || !subscriber->table)
		return error_set(ENOMEM, "subscriber: no memory");
	return discovery_open(subscriber);
}

/* The timer wakes a sleeper for its pulse, and often enough to connect again; the first time after
 * first_ns, if that is not 0. */
static int timer_set(struct tb_subscriber *subscriber, long first_ns)
{
	const long pace_ms = subscriber->welcomed ? (subscriber->stale_ms + 9) / 10 : RECONNECT_MS;
	const struct timespec pace = { pace_ms / 1000, pace_ms % 1000 * 1000000 };
	const struct timespec first = { 0, first_ns };
	const struct itimerspec timer = { pace, first_ns ? first : pace };

	if (timerfd_settime(subscriber->timer_fd, 0, &timer, NULL) < 0)
		return error_set(errno, "subscriber: timer: %s", strerror(errno));
	return 0;
}

static int descriptors_open(struct tb_subscriber *subscriber)
{
	struct epoll_event event = { .events = EPOLLIN };

	subscriber->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	subscriber->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (subscriber->epoll_fd < 0 || subscriber->timer_fd < 0 ||
	    epoll_ctl(subscriber->epoll_fd, EPOLL_CTL_ADD, subscriber->timer_fd, &event) < 0)
		return error_set(errno, "subscriber: no descriptors: %s", strerror(errno));
	return timer_set(subscriber, 0);
}

/* -- turns --------------------------------------------------------------------------------------
 */

/* Everything that is not delivering: messages, requests, the pulse. */
static void housekeep(struct tb_subscriber *subscriber)
{
	const bool was_welcomed = subscriber->welcomed;
	uint64_t ticks;

	subscriber->kept_ms = clock_coarse_ms();
	subscriber->woken = false;
	connection_keep(subscriber);
	if (subscriber->welcomed != was_welcomed)
		timer_set(subscriber, 0);
	discovery_step(subscriber);
	/* Sooner than the timer's pace: the clock is coarse, and must not cost a sleeper a look. */
	if (subscriber->kept_ms - subscriber->page_ms >= subscriber->stale_ms / 16)
		pulse_look(subscriber);
	if (read(subscriber->timer_fd, &ticks, sizeof(ticks)) < 0)
		return; /* not due */
}

/* In the time between two records, but not between a READ and the record that it brings, unless
 * topics wait to be joined: there may be many, and one is asked for at a time. */
static bool housekeep_due(const struct tb_subscriber *subscriber, int count)
{
	const uint64_t since = clock_coarse_ms() - subscriber->kept_ms;

	if (since >= HOUSEKEEP_MS)
		return true;
	if (count == 0 && since > 0 && discovery_waits(subscriber))
		return true;
	return count == 0 && subscriber->under_way == 0 &&
	       (since > 0 || subscriber->woken || subscriber->descriptor_mode);
}

static void subscription_free(struct tb_subscription *subscription)
{
	struct tb_subscriber *subscriber = subscription->subscriber;
	struct tb_subscription **link = &subscriber->subscriptions;

	if (subscriber->discovery.subscription == subscription) {
		subscriber->discovery.phase = DISCOVERY_IDLE;
		subscriber->discovery.subscription = NULL;
	}
	while (*link != subscription)
		link = &(*link)->next_subscription;
	*link = subscription->next_subscription;
	free(subscription);
}

/* Frees what was ended: sources whose READs are done, subscriptions without sources. */
void subscriber_cleanup(struct tb_subscriber *subscriber)
{
	subscriber->untidy = false;
	for (struct tb_subscription *s = subscriber->subscriptions, *next; s; s = next) {
		next = s->next_subscription;
		for (struct tb_source *source = s->sources, *after; source; source = after) {
			after = source->next_source;
			if (s->closing && source->state != SOURCE_DEAD)
				source_leave(source);
			source_reap(source);
		}
		if (s->closing && !s->sources)
			subscription_free(s);
	}
}

static void subscriber_free(struct tb_subscriber *subscriber)
{
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription)
		s->closing = true;
	if (subscriber->table)
		connection_close(subscriber);
	if (subscriber->table)
		for (uint32_t i = 0; i < subscriber->topics_max; i++)
			if (subscriber->table[i])
				subscriber->table[i]->under_way = 0; /* the link is gone */
	subscriber_cleanup(subscriber);
	discovery_close(subscriber);
	if (subscriber->epoll_fd >= 0)
		close(subscriber->epoll_fd);
	if (subscriber->timer_fd >= 0)
		close(subscriber->timer_fd);
	free(subscriber->table);
	free(subscriber->address);
	free(subscriber->place);
	explicit_bzero(subscriber->ticket, sizeof(subscriber->ticket));
	free(subscriber);
}

/* A child that was forked shares the connection, and what sleeps on it: ending something here would
 * end it there. */
static bool in_forked_child(const struct tb_subscriber *subscriber)
{
	return subscriber->process != getpid();
}

TB_API void tb_subscriber_close(struct tb_subscriber *subscriber)
{
	if (!subscriber || in_forked_child(subscriber))
		return;
	subscriber->closing = subscriber->untidy = true;
	if (!subscriber->in_poll)
		subscriber_free(subscriber);
}

static int deliver_all(struct tb_subscriber *subscriber, int records_max)
{
	const uint32_t sources = subscriber->table_used;
	uint32_t at = subscriber->turn + 1 < sources ? subscriber->turn + 1 : 0;
	int count = 0;

	subscriber->turn = at;
	for (uint32_t i = 0; i < sources && count < records_max && !subscriber->closing; i++) {
		struct tb_source *source = subscriber->table[at];

		if (source && source->state != SOURCE_DEAD && !source->subscription->closing)
			count += source_poll(source, records_max - count);
		at = at + 1 < sources ? at + 1 : 0;
	}
	return count;
}

/* A sleeper whom no notice would wake tells the publisher what it has seen of each topic; not while
 * its line is not valid: it would be woken at once for records that it cannot have. */
static void arm_all(struct tb_subscriber *subscriber)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++) {
		struct tb_source *source = subscriber->table[i];
		struct control_message arm = { .type = CONTROL_ARM };

		if (!source || source->armed || source->orphan || source->state != SOURCE_RUNNING ||
		    source->invalid > 0 || notices_alive(source))
			continue;
		arm.topic.topic_id = source->place.shape.topic_id;
		arm.topic.epoch = source->place.shape.epoch;
		arm.topic.head = source->next - 1;
		if (connection_send(subscriber, &arm) == 0)
			source->armed = true;
	}
}

/* Whether what is there already would be slept over. What is unfinished is looked at again soon,
 * but not in a tight loop. */
enum there { THERE_NOTHING, THERE_SOON, THERE_NOW };

static bool unfinished(const struct tb_source *source)
{
	return source->state == SOURCE_RUNNING &&
	       (source->look || source->hint > source->head || source->invalid > 0);
}

static enum there has_work(const struct tb_subscriber *subscriber)
{
	enum there found = THERE_NOTHING;

	for (uint32_t i = 0; i < subscriber->table_used; i++) {
		const struct tb_source *source = subscriber->table[i];

		if (!source || source->state == SOURCE_DEAD)
			continue;
		if (!source->place.view && pull_read_due(source))
			return THERE_NOW;
		if (source->has_successor ||
		    (!source->orphan && (source->state < SOURCE_RUNNING || unfinished(source))))
			found = THERE_SOON;
	}
	return found;
}

/* Before somebody sleeps on the descriptor: what is there already must make it readable. */
static void descriptor_ready(struct tb_subscriber *subscriber)
{
	const enum there there = has_work(subscriber);

	if (there == THERE_NOW ||
	    (subscriber->link && subscriber->ops->sleep(subscriber->link) != 0))
		timer_set(subscriber, 1);
	else if (there == THERE_SOON)
		timer_set(subscriber, SOON_NS);
}

TB_API int tb_poll(struct tb_subscriber *subscriber, int records_max)
{
	int count;

	if (records_max < 1)
		return error_set(EINVAL, "tb_poll: found records_max %d, expected 1 or more",
				 records_max);
	if (subscriber->in_poll)
		return error_set(EBUSY, "tb_poll: called from a handler");
	subscriber->in_poll = true;
	if (subscriber->ops->network && subscriber->link)
		connection_reap(subscriber);
	if (subscriber->group_count > 0 && !subscriber->closing)
		notices_take(subscriber);
	count = deliver_all(subscriber, records_max);
	if (!subscriber->closing) {
		if (housekeep_due(subscriber, count))
			housekeep(subscriber);
		if (count == 0 && subscriber->descriptor_mode) {
			arm_all(subscriber);
			descriptor_ready(subscriber);
		}
	}
	subscriber->in_poll = false;
	if (subscriber->closing) {
		subscriber_free(subscriber);
		return error_set(ECANCELED, "tb_poll: a handler closed the subscriber");
	}
	if (subscriber->untidy)
		subscriber_cleanup(subscriber);
	if (count == 0)
		barrier_pause(); /* a caller that polls again at once, takes the line from the
				    writer */
	return count;
}

/* -- waiting ------------------------------------------------------------------------------------
 */

static int wait_link(struct tb_subscriber *subscriber, int timeout_ms)
{
	struct epoll_event event;
	int count;

	if (subscriber->link && subscriber->ops->sleep(subscriber->link) != 0)
		return 1;
	count = epoll_wait(subscriber->epoll_fd, &event, 1, timeout_ms);
	if (count < 0)
		return errno == EINTR ? -EINTR : error_set(errno, "epoll: %s", strerror(errno));
	return count;
}

TB_API int tb_wait(struct tb_subscriber *subscriber, int timeout_ms)
{
	enum there there;
	int result;

	if (subscriber->in_poll)
		return error_set(EBUSY, "tb_wait: called from a handler");
	arm_all(subscriber);
	there = has_work(subscriber);
	if (there == THERE_NOW)
		return 1;
	if (there == THERE_SOON) {
		result = wait_link(subscriber, timeout_ms < 0 || timeout_ms > 1 ? 1 : timeout_ms);
		return result < 0 ? result : 1;
	}
	result = wait_link(subscriber, timeout_ms);
	if (result > 0)
		subscriber->woken = true;
	return result;
}

TB_API int tb_subscriber_fd(struct tb_subscriber *subscriber)
{
	subscriber->descriptor_mode = true;
	return subscriber->epoll_fd;
}

/* -- what open and subscribe wait for -----------------------------------------------------------
 */

/* Keeps house until `done` or the time is over: 0 or -ETIMEDOUT. */
static int pump(struct tb_subscriber *subscriber, uint64_t until_ms,
		bool (*done)(struct tb_subscriber *, void *), void *what)
{
	subscriber->in_poll = true;
	for (;;) {
		housekeep(subscriber);
		for (uint32_t i = 0; i < subscriber->topics_max; i++) {
			struct tb_source *source = subscriber->table[i];

			if (source &&
			    (source->state == SOURCE_HEADER || source->state == SOURCE_START))
				source_settle(source);
		}
		if (done(subscriber, what) || subscriber->closing)
			break;
		if (clock_coarse_ms() >= until_ms) {
			subscriber->in_poll = false;
			return -ETIMEDOUT;
		}
		wait_link(subscriber, 1);
	}
	subscriber->in_poll = false;
	return 0;
}

/* A connection that was not answered is tried again: what is sent may be lost. */
static bool open_done(struct tb_subscriber *subscriber, void *unused)
{
	(void)unused;
	return subscriber->welcomed ||
	       (subscriber->gone_code != 0 && subscriber->gone_code != ETIMEDOUT);
}

static int open_connect(struct tb_subscriber *subscriber)
{
	int result = connection_begin(subscriber);

	if (result == 0)
		result = pump(subscriber, clock_coarse_ms() + subscriber->connect_ms, open_done,
			      NULL);
	if (result == -ETIMEDOUT)
		return error_set(ETIMEDOUT, "%s: no answer within %u ms", subscriber->address,
				 subscriber->connect_ms);
	if (result == 0 && !subscriber->welcomed)
		return error_set(subscriber->gone_code, "%s: %s", subscriber->address,
				 subscriber->gone_words);
	return result;
}

static bool is_transient(int code)
{
	return code == -ECONNREFUSED || code == -ECONNRESET || code == -ETIMEDOUT ||
	       code == -EAGAIN || code == -EUSERS || code == -ENOENT || code == -EHOSTUNREACH ||
	       code == -ENETUNREACH || code == -ENODEV;
}

TB_API int tb_subscriber_open(struct tb_subscriber **out,
			      const struct tb_subscriber_options *options)
{
	struct tb_subscriber *subscriber;
	int result;

	if (!out)
		return error_set(EINVAL, "subscriber: found no place for it");
	*out = NULL;
	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "subscriber options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	subscriber = calloc(1, sizeof(*subscriber));
	if (!subscriber)
		return error_set(ENOMEM, "subscriber: no memory");
	subscriber->process = getpid();
	subscriber->epoll_fd = subscriber->timer_fd = subscriber->link_fd = -1;
	result = options_take(subscriber, options);
	if (result == 0)
		result = descriptors_open(subscriber);
	if (result == 0)
		result = open_connect(subscriber);
	if (result == 0 && (options->flags & TB_WAIT))
		error_set(0, "%s", ""); /* nothing is waited for */
	if (result < 0 && (options->flags & TB_WAIT) && is_transient(result) &&
	    subscriber->epoll_fd >= 0)
		result = 0; /* the words say why */
	if (result < 0) {
		subscriber_free(subscriber);
		return result;
	}
	*out = subscriber;
	return 0;
}

/* -- subscriptions ------------------------------------------------------------------------------
 */

static int subscription_check(const char *pattern, const struct tb_subscription_options *options)
{
	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL,
				 "subscription options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	if (!options->on_record)
		return error_set(EINVAL, "subscription options: found no on_record");
	if (options->flags & ~(TB_WAIT | TB_STRICT))
		return error_set(EINVAL,
				 "subscription options: found flags 0x%x, expected none but 0x%x",
				 options->flags, TB_WAIT | TB_STRICT);
	if (!pattern)
		return error_set(EINVAL, "subscription: found no pattern");
	if (options->from > TB_FROM_SEQUENCE)
		return error_set(EINVAL, "subscription options: found from %d, expected 0 to %d",
				 (int)options->from, TB_FROM_SEQUENCE);
	if (options->from == TB_FROM_SEQUENCE && options->sequence == 0)
		return error_set(EINVAL,
				 "subscription options: found sequence 0, expected 1 or more");
	return pattern_check(pattern);
}

/* One of a pattern's topics may be refused, which is told by an event; that there is no room for
 * all of them, or a name's only topic is refused for what is not waited for, ends it. */
static bool subscribe_failed(const struct tb_subscription *subscription)
{
	return subscription->error == -ENOSPC ||
	       (subscription->error != 0 && pattern_is_name(subscription->pattern) &&
		!subscription->waits);
}

/* Everything that the catalogue had was joined, and every join knows where it begins. */
static bool subscribe_done(struct tb_subscriber *subscriber, void *what)
{
	const struct tb_subscription *subscription = what;

	if (subscription->closing || subscribe_failed(subscription))
		return true;
	if (subscription->discover || subscriber->discovery.subscription == subscription)
		return false;
	for (const struct tb_source *s = subscription->sources; s; s = s->next_source)
		if (s->state == SOURCE_HEADER || s->state == SOURCE_START)
			return false;
	return true;
}

/* Topics of a realm are not there for others, so a name that is known may want a ticket. */
static int topic_missing(const struct tb_subscriber *subscriber,
			 const struct tb_subscription *subscription)
{
	static const uint8_t none[TB_TICKET_BYTES];
	const bool shown = memcmp(subscriber->ticket, none, sizeof(none)) != 0;
	const bool exact = pattern_is_name(subscription->pattern);

	return error_set(ENOENT, "%s: bus %s has no topic %s%s, or not %s", subscriber->address,
			 subscriber->welcome.name, exact ? "" : "that matches ",
			 subscription->pattern, shown ? "for this ticket" : "without a ticket");
}

/* What a subscription that may wait waits for, or "": where there are topics, and where each of
 * a pattern's was refused, which was told. */
static void wait_tell(const struct tb_subscriber *subscriber,
		      const struct tb_subscription *subscription, int pumped)
{
	if (subscription->waits)
		error_set(0, "%s: %s", subscriber->address, subscription->error_words);
	else if (subscription->sources || subscription->error != 0)
		error_set(0, "%s", "");
	else if (pumped < 0 || !subscriber->welcomed)
		error_set(0, "%s: no answer yet", subscriber->address);
	else
		topic_missing(subscriber, subscription);
}

static int subscribe_result(struct tb_subscriber *subscriber, struct tb_subscription *subscription,
			    int pumped)
{
	const bool exact = pattern_is_name(subscription->pattern);
	const bool patient = subscription->waits || (subscription->options.flags & TB_WAIT) ||
			     (subscriber->flags & TB_WAIT && !subscriber->welcomed);

	if (subscription->closing)
		return error_set(ECANCELED, "tb_subscribe: a handler ended the subscription");
	if (subscribe_failed(subscription))
		return error_set(-subscription->error, "%s", subscription->error_words);
	if (pumped < 0 && !patient)
		return error_set(ETIMEDOUT, "%s: topic %s: no answer within %u ms",
				 subscriber->address, subscription->pattern,
				 subscriber->connect_ms);
	if (exact && !subscription->sources && !patient)
		return topic_missing(subscriber, subscription);
	if (!exact || patient)
		wait_tell(subscriber, subscription, pumped);
	return 0;
}

TB_API int tb_subscribe(struct tb_subscriber *subscriber, const char *pattern,
			const struct tb_subscription_options *options, struct tb_subscription **out)
{
	struct tb_subscription *subscription;
	int result = subscription_check(pattern, options);

	*out = NULL;
	if (result < 0)
		return result;
	if (subscriber->in_poll)
		return error_set(EBUSY, "tb_subscribe: called from a handler");
	subscription = calloc(1, sizeof(*subscription));
	if (!subscription)
		return error_set(ENOMEM, "subscription %s: no memory", pattern);
	subscription->subscriber = subscriber;
	subscription->options = *options;
	strncpy(subscription->pattern, pattern, TB_PATTERN_MAX);
	subscription->discover = subscription->fresh = true;
	subscription->next_subscription = subscriber->subscriptions;
	subscriber->subscriptions = subscription;
	*out = subscription; /* handlers may be called from here on */
	if (subscriber->welcomed || !(subscriber->flags & TB_WAIT))
		result = pump(subscriber, clock_coarse_ms() + subscriber->connect_ms,
			      subscribe_done, subscription);
	subscription->fresh = false;
	result = subscribe_result(subscriber, subscription, result);
	if (subscriber->closing) {
		subscriber_free(subscriber);
		*out = NULL;
		return error_set(ECANCELED, "tb_subscribe: a handler closed the subscriber");
	}
	if (result < 0) {
		subscription->closing = true;
		*out = NULL;
	}
	subscriber_cleanup(subscriber);
	return result;
}

TB_API void tb_unsubscribe(struct tb_subscription *subscription)
{
	if (!subscription || in_forked_child(subscription->subscriber))
		return;
	subscription->closing = subscription->subscriber->untidy = true;
	if (!subscription->subscriber->in_poll)
		subscriber_cleanup(subscription->subscriber);
}

TB_API size_t tb_subscription_counters(const struct tb_subscription *subscription, uint64_t *values,
				       size_t max)
{
	const size_t count = max < SUBSCRIPTION_COUNTERS ? max : SUBSCRIPTION_COUNTERS;

	memcpy(values, subscription->counters, count * sizeof(*values));
	return count;
}

TB_API const char *tb_source_topic(const struct tb_source *source)
{
	return source->name;
}

TB_API const struct tb_schema *tb_source_schema(const struct tb_source *source)
{
	return source->place.schema;
}

TB_API uint64_t tb_source_epoch(const struct tb_source *source)
{
	return source->place.shape.epoch;
}

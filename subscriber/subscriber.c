/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's public calls: open, poll, wait, close. */
#include "subscriber/subscriber.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bus/barrier.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "subscriber/advance.h"
#include "subscriber/call.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/discovery.h"
#include "subscriber/exempt.h"
#include "subscriber/glance.h"
#include "subscriber/merge.h"
#include "subscriber/name_list.h"
#include "subscriber/notices.h"
#include "subscriber/options.h"
#include "subscriber/rest.h"
#include "subscriber/source.h"
#include "subscriber/turn.h"
#include "subscriber/wait.h"
#include "tickbus/error.h"
#include "tickbus/subscriber.h"

/* -- closing ---------------------------------------------------------------------------------- */

static void subscription_free(struct tb_subscription *subscription)
{
	struct tb_subscriber *subscriber = subscription->subscriber;
	struct tb_subscription **link = &subscriber->subscriptions;

	if (subscriber->discovery.subscription == subscription)
		subscriber->discovery.subscription = NULL;
	while (*link != subscription)
		link = &(*link)->next_subscription;
	*link = subscription->next_subscription;
	name_list_close(subscription->list);
	free(subscription->merge);
	exempt_close(subscription->exempt);
	free(subscription);
}

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

void subscriber_free(struct tb_subscriber *subscriber)
{
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription)
		s->closing = true;
	if (subscriber->table)
		turn_disconnect(subscriber);
	if (subscriber->table)
		for (uint32_t i = 0; i < subscriber->topics_max; i++)
			if (subscriber->table[i])
				subscriber->table[i]->under_way = 0; /* the link is closed */
	subscriber_cleanup(subscriber);
	discovery_close(subscriber);
	if (subscriber->epoll_fd >= 0)
		close(subscriber->epoll_fd);
	if (subscriber->timer_fd >= 0)
		close(subscriber->timer_fd);
	glance_close(subscriber);
	free(subscriber->table);
	free(subscriber->address);
	free(subscriber->location);
	explicit_bzero(subscriber->ticket, sizeof(subscriber->ticket));
	free(subscriber);
}

bool subscriber_in_forked_child(const struct tb_subscriber *subscriber)
{
	return subscriber->call.process != getpid();
}

TB_API void tb_subscriber_close(struct tb_subscriber *subscriber)
{
	if (!subscriber || subscriber_in_forked_child(subscriber))
		return;
	subscriber->closing = subscriber->untidy = true;
	if (subscriber->call.running && !call_left(&subscriber->call))
		return; /* the call that runs frees it */
	if (subscriber->call.left && subscriber->link)
		subscriber->ops->link_left(subscriber->link);
	turn_settle(subscriber);
	subscriber_free(subscriber);
}

/* -- opening ---------------------------------------------------------------------------------- */

static int memory_open(struct tb_subscriber *subscriber)
{
	int result;

	subscriber->table = calloc(subscriber->topics_max, sizeof(*subscriber->table));
	if (!subscriber->table)
		return error_set(ENOMEM, "subscriber: no memory");
	result = glance_open(subscriber);
	return result < 0 ? result : discovery_open(subscriber);
}

static int descriptors_open(struct tb_subscriber *subscriber)
{
	struct epoll_event event = { .events = EPOLLIN };

	subscriber->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	subscriber->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (subscriber->epoll_fd < 0 || subscriber->timer_fd < 0 ||
	    epoll_ctl(subscriber->epoll_fd, EPOLL_CTL_ADD, subscriber->timer_fd, &event) < 0)
		return error_set(errno, "subscriber: cannot open descriptors: %s", strerror(errno));
	return turn_timer_set(subscriber, 0);
}

/* An unanswered request to connect is sent again: it may have been lost. So is a request that the
 * publisher has no room for now: many clients may connect at once. A program that waits anyway gets
 * the reason instead. */
static bool open_done(const struct tb_subscriber *subscriber, bool *crowded)
{
	const int code = subscriber->gone_code;

	if (code != 0)
		*crowded = code == EAGAIN && subscriber->opening;
	return subscriber->welcomed || (code != 0 && code != ETIMEDOUT && !*crowded);
}

static int open_connect(struct tb_subscriber *subscriber)
{
	const uint64_t until_ms =
		clock_coarse_ms() + subscriber->connect_ms; /* connecting may block */
	bool crowded = false;
	int result = 0;

	wait_turn(subscriber);
	while (result == 0 && !open_done(subscriber, &crowded))
		result = wait_more(subscriber, until_ms);
	subscriber->opening = false;
	if (result == -ETIMEDOUT && crowded)
		return error_set(EAGAIN, "%s: tried for %u ms: %s", subscriber->address,
				 subscriber->connect_ms, subscriber->gone_text);
	if (result == -ETIMEDOUT)
		return error_set(ETIMEDOUT, "%s: no answer within %u ms", subscriber->address,
				 subscriber->connect_ms);
	if (result == 0 && !subscriber->welcomed)
		return error_set(subscriber->gone_code, "%s: %s", subscriber->address,
				 subscriber->gone_text);
	return result;
}

static bool is_transient(int code)
{
	return code == -ECONNREFUSED || code == -ECONNRESET || code == -ETIMEDOUT ||
	       code == -EAGAIN || code == -EUSERS || code == -ENOENT || code == -EHOSTUNREACH ||
	       code == -ENETUNREACH || code == -ENODEV || code == -EMSGSIZE;
}

TB_API int tb_subscriber_open(struct tb_subscriber **out,
			      const struct tb_subscriber_options *options)
{
	struct tb_subscriber *subscriber;
	bool passing;
	int result;

	if (!out)
		return error_set(EINVAL,
				 "tb_subscriber_open: found no pointer to store the subscriber in");
	*out = NULL;
	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "subscriber options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	subscriber = calloc(1, sizeof(*subscriber));
	if (!subscriber)
		return error_set(ENOMEM, "subscriber: no memory");
	subscriber->call.process = getpid();
	subscriber->user = -1;
	subscriber->epoll_fd = subscriber->timer_fd = subscriber->link_fd = -1;
	result = options_apply(subscriber, options);
	if (result == 0)
		result = memory_open(subscriber);
	if (result == 0)
		result = descriptors_open(subscriber);
	subscriber->opening = !(options->flags & TB_WAIT);
	if (result == 0)
		result = turn_connect(subscriber);
	if (result == -EAGAIN && subscriber->opening)
		result = 0;
	/* Over shared memory, a socket, its folder or the user that listens may change. */
	passing = is_transient(result) || (result == -EACCES && !subscriber->ops->network);
	if (result == 0) {
		result = open_connect(subscriber);
		passing = is_transient(result);
	}
	if (result == 0 && (options->flags & TB_WAIT))
		error_set(0, "%s", ""); /* no reason to wait */
	if (result < 0 && (options->flags & TB_WAIT) && passing && subscriber->epoll_fd >= 0)
		result = 0; /* tb_error() says why */
	if (result < 0) {
		turn_settle(subscriber);
		subscriber_free(subscriber);
		return result;
	}
	*out = subscriber;
	return 0;
}

/* -- polling ---------------------------------------------------------------------------------- */

/* How long periodic work is postponed: the bus page is looked at in it. */
static uint64_t turn_pace_ms(const struct tb_subscriber *subscriber)
{
	const uint64_t look_ms = subscriber->stale_ms / 16;

	return subscriber->stale_ms && look_ms < TURN_MS ? look_ms : TURN_MS;
}

/* Periodic work is postponed while a READ is outstanding, as it always is for a reader that spins.
 * It is not if topics wait to be joined. */
static bool turn_due(const struct tb_subscriber *subscriber, int count)
{
	const uint64_t since = clock_coarse_ms() - subscriber->turn_ms;

	if (since >= turn_pace_ms(subscriber))
		return true;
	if (count == 0 && since > 0 && discovery_waits(subscriber))
		return true;
	return count == 0 && subscriber->under_way == 0 && (since > 0 || subscriber->woken);
}

/* A look at all joined topics takes longer than many answers. While topics are joined, answers come
 * and the last look found no record, the topics are looked at once in TURN_ANSWERS answers. */
static bool answers_first(struct tb_subscriber *subscriber)
{
	int count;

	if (subscriber->discovery.outstanding == 0)
		return false;
	count = turn_answers(subscriber);
	subscriber->answers += (uint32_t)count;
	if (count > 0 && subscriber->quiet && subscriber->answers < TURN_ANSWERS)
		return true;
	subscriber->answers = 0;
	return false;
}

/* Advances the source of a slot that does not rest. Returns how many records came. A free slot
 * rests, too. */
static inline int slot_poll(struct tb_subscriber *subscriber, struct glance *glance, int max)
{
	const uint32_t slot = (uint32_t)(glance - subscriber->glances);
	const bool again = glance_was_in_vain(glance);
	struct tb_source *source = subscriber->table[slot];
	int count = 0;

	if (source) {
		if (deliver_stopped(source))
			return 0;
		glance_wake(glance); /* L-I2 */
		if (__builtin_expect(source->subscription->merge != NULL, 0))
			count = merge_poll(source->subscription, max);
		else
			count = advance_poll(source, max);
	}
	if (count > 0)
		return count;
	if (again)
		rest_begin(subscriber, slot);
	else
		glance_in_vain(glance);
	return 0;
}

static inline int slots_poll(struct tb_subscriber *subscriber, uint32_t first, uint32_t end,
			     int max)
{
	struct glance *const last = subscriber->glances + end;
	int count = 0;

	for (struct glance *glance = subscriber->glances + first; glance < last; glance++) {
		if (glance_rests(glance))
			continue;
		count += slot_poll(subscriber, glance, max - count);
		if (count == max || subscriber->closing)
			break;
	}
	return count;
}

static int deliver_all(struct tb_subscriber *subscriber, int records_max)
{
	const uint32_t end = subscriber->table_used;
	const uint32_t next = subscriber->first_polled + 1, first = next < end ? next : 0;
	int count;

	subscriber->first_polled = first;
	subscriber->rounds++;
	count = slots_poll(subscriber, first, end, records_max);
	if (first > 0 && count < records_max && !subscriber->closing)
		count += slots_poll(subscriber, 0, first, records_max - count);
	return count;
}

/* Completed READs and notices. */
static void arrivals_take(struct tb_subscriber *subscriber)
{
	subscriber->delivers = false;
	if (subscriber->link)
		turn_reap(subscriber);
	if (subscriber->group_count > 0 && !subscriber->closing)
		notices_take(subscriber);
}

/* One turn of tb_poll: all that may call handlers. */
static CALL_FRAME int poll_turn(struct tb_subscriber *subscriber, int records_max)
{
	int count = 0;

	CALL_BEGIN(&subscriber->call);
	subscriber->records_max = (uint32_t)records_max;
	if (__builtin_expect(subscriber->nap.until_ns != 0, 0))
		subscriber->woken |= nap_end(&subscriber->nap, clock_ns());
	if (subscriber->ops->network)
		arrivals_take(subscriber);
	if (!answers_first(subscriber)) {
		count = deliver_all(subscriber, records_max);
		subscriber->quiet = count == 0;
		subscriber->nap.arrived |= (uint32_t)count;
	}
	if (!subscriber->closing) {
		if (subscriber->waiting_count > 0)
			connection_post(subscriber);
		if (turn_due(subscriber, count))
			turn_take(subscriber);
		if (count == 0 && subscriber->descriptor_mode)
			wait_prepare(subscriber);
	}
	call_end(&subscriber->call);
	return count;
}

TB_API int tb_poll(struct tb_subscriber *subscriber, int records_max)
{
	int count;

	if (!subscriber)
		return error_null("subscriber");
	if (records_max < 1)
		return error_set(EINVAL, "tb_poll: found records_max %d, expected 1 or more",
				 records_max);
	if (subscriber->call.running)
		return call_refuse(&subscriber->call, "tb_poll");
	count = poll_turn(subscriber, records_max);
	if (subscriber->closing) {
		subscriber_free(subscriber);
		return error_set(ECANCELED, "tb_poll: a handler closed the subscriber");
	}
	if (subscriber->untidy)
		subscriber_cleanup(subscriber);
	if (count == 0)
		barrier_pause(); /* polling again at once would take the cache line from the writer
				  */
	return count;
}

TB_API int tb_wait(struct tb_subscriber *subscriber, int timeout_ms)
{
	if (!subscriber)
		return error_null("subscriber");
	if (subscriber->call.running)
		return call_refuse(&subscriber->call, "tb_wait");
	return wait_work(subscriber, timeout_ms);
}

TB_API int tb_subscriber_user(const struct tb_subscriber *subscriber, uint32_t *user)
{
	if (!subscriber)
		return error_null("subscriber");
	if (subscriber->ops->network)
		return error_set(EOPNOTSUPP, "%s: a network does not say which user listens",
				 subscriber->address);
	if (!subscriber->welcomed || subscriber->user < 0)
		return error_set(ENOTCONN, "%s: not connected", subscriber->address);
	*user = (uint32_t)subscriber->user;
	return 0;
}

TB_API int tb_subscriber_fd(struct tb_subscriber *subscriber)
{
	if (!subscriber)
		return error_null("subscriber");
	subscriber->descriptor_mode = subscriber->woken = true;
	return subscriber->epoll_fd;
}

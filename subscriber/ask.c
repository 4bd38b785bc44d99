/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls have in common that ask for what a topic's memory holds now. */
#include "subscriber/ask.h"

#include <errno.h>

#include "bus/error.h"
#include "subscriber/call.h"
#include "subscriber/instruments.h"
#include "subscriber/subscriber.h"

/* A READ in a handler is possible, unless a handler was left. In place, nothing is in the way. */
int ask_ready(const struct tb_source *source, const char *call)
{
	struct tb_subscriber *subscriber;

	if (!source)
		return error_null_in(call, "source");
	subscriber = source->subscription->subscriber;
	if (!source->mapping.view && call_left(&subscriber->call))
		return call_refuse(&subscriber->call, call);
	if (source->state == SOURCE_DEAD)
		return error_set(ENOENT, "%s: topic %s was left", call, source->name);
	if (source->state == SOURCE_HEADER)
		return error_set(EAGAIN, "%s: topic %s is being joined: call tb_poll first", call,
				 source->name);
	return 0;
}

int ask_instrument(struct tb_source *source, uint32_t instrument)
{
	const int count = instruments_update(source);

	if (ask_is_known(source, instrument)) /* V-I2 */
		return 0;
	if (count < 0)
		return count;
	return error_set(ENOENT, "topic %s: found instrument number %u, expected a number below %d",
			 source->name, instrument, count);
}

int ask_stopped(const struct tb_source *source, const char *call)
{
	if (!source->subscription->closing && !source->subscription->subscriber->closing)
		return 0;
	return error_set(ECANCELED, "%s: a handler ended the subscription or closed the subscriber",
			 call);
}

int ask_free(const struct tb_source *source, const char *call)
{
	struct tb_subscriber *subscriber;

	if (!source)
		return error_null_in(call, "source");
	subscriber = source->subscription->subscriber;
	return subscriber->get.busy ? call_refuse(&subscriber->call, call) : 0;
}

/* Handlers run: until they return, calls of the subscriber are refused. */
static CALL_FRAME int call_run(struct tb_subscriber *subscriber, int (*run)(void *), void *user)
{
	int result;

	CALL_BEGIN(&subscriber->call);
	result = run(user);
	call_end(&subscriber->call);
	return result;
}

int ask_run(struct tb_source *source, int (*run)(void *), void *user)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const bool in_a_handler = subscriber->call.running;
	int result;

	subscriber->get.busy = true;
	result = in_a_handler ? run(user) : call_run(subscriber, run, user);
	subscriber->get.busy = false;
	if (!in_a_handler && subscriber->closing)
		subscriber_free(subscriber);
	else if (!in_a_handler && subscriber->untidy)
		subscriber_cleanup(subscriber);
	return result;
}

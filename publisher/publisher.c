/* SPDX-License-Identifier: Apache-2.0 */
/* A bus: opening, topics, closing. */
#include "publisher/publisher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/random.h"
#include "publisher/announce.h"
#include "publisher/endpoint.h"
#include "publisher/group.h"
#include "publisher/log.h"
#include "publisher/options.h"
#include "publisher/pin.h"
#include "publisher/pulse.h"
#include "publisher/realm.h"
#include "publisher/server.h"
#include "publisher/session.h"
#include "publisher/topic.h"
#include "publisher/topic_names.h"
#include "publisher/wakeup.h"

void publisher_free(struct tb_publisher *publisher)
{
	if (!publisher)
		return;
	for (uint32_t i = 0; i < publisher->topic_count; i++) {
		announce_close(publisher->topics[i]);
		endpoints_withdraw(&publisher->topics[i]->exposures);
	}
	announce_end(publisher);
	endpoints_close(publisher);
	while (publisher->sessions)
		session_close(publisher->sessions);
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		topic_close(publisher->topics[i]);
	groups_close(publisher);
	free(publisher->topics);
	realms_close(publisher);
	server_close(publisher);
	pthread_mutex_destroy(&publisher->lock);
	pthread_mutex_destroy(&publisher->next);
	explicit_bzero(publisher->secret, sizeof(publisher->secret));
	free(publisher);
}

static int publisher_build(struct tb_publisher *publisher,
			   const struct tb_publisher_options *options)
{
	int result = options_take(publisher, options);

	if (result < 0)
		return result;
	result = random_u64(&publisher->bus_id);
	if (result == 0)
		result = random_bytes(publisher->secret, sizeof(publisher->secret));
	if (result < 0)
		return result;
	publisher->fence_in_flush = wakeup_needs_fence();
	publisher->topics = calloc(publisher->topics_max, sizeof(*publisher->topics));
	if (!publisher->topics)
		return error_set(ENOMEM, "bus %s: no memory", publisher->name);
	result = realms_open(publisher, options);
	if (result < 0)
		return result;
	pulse_write(publisher, REALMS_ALL);
	result = server_open(publisher);
	if (result == 0)
		result = endpoints_open(publisher, options, &server_calls);
	publisher->held = options->flags & TB_PUBLISHER_HELD;
	if (result == 0 && !publisher->held)
		result = endpoints_watch(publisher);
	return result;
}

int publisher_open(struct tb_publisher **out, const struct tb_publisher_options *options)
{
	struct tb_publisher *publisher;
	int result;

	if (!out)
		return error_set(EINVAL,
				 "tb_publisher_open: found no pointer to store the publisher in");
	*out = NULL;
	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "publisher options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	publisher = calloc(1, sizeof(*publisher));
	if (!publisher)
		return error_set(ENOMEM, "publisher: no memory");
	TAILQ_INIT(&publisher->ready);
	TAILQ_INIT(&publisher->full);
	TAILQ_INIT(&publisher->late);
	TAILQ_INIT(&publisher->asking);
	publisher->process = getpid();
	publisher->epoll_fd = publisher->event_fd = publisher->timer_fd = -1;
	pthread_mutex_init(&publisher->lock, NULL);
	pthread_mutex_init(&publisher->next, NULL);
	result = publisher_build(publisher, options);
	if (result < 0) {
		publisher_free(publisher);
		return result;
	}
	*out = publisher;
	return 0;
}

TB_API int tb_publisher_open(struct tb_publisher **out, const struct tb_publisher_options *options)
{
	int result = publisher_open(out, options);

	if (result == 0)
		result = server_start(*out);
	if (result < 0 && out) {
		publisher_free(*out);
		*out = NULL;
	}
	return result;
}

TB_API int tb_publisher_begin(struct tb_publisher *publisher)
{
	if (!publisher)
		return error_null("publisher");
	if (!publisher->held)
		return 0;
	publisher->held = false;
	return endpoints_watch(publisher);
}

/* -- topics -------------------------------------------------------------------------------------
 */

/* One thread at a time adds topics and no thread removes any, so the result stays true. */
static int publisher_room(struct tb_publisher *publisher, const char *name)
{
	if (topic_names_find(publisher, name))
		return error_set(EEXIST, "topic %s: the bus already has a topic of this name",
				 name);
	if (publisher->topic_count == publisher->topics_max)
		return error_set(ENOSPC, "topic %s: the bus already has its maximum of %u topics",
				 name, publisher->topics_max);
	return 0;
}

TB_API int tb_topic_create(struct tb_publisher *publisher, const struct tb_topic_options *options,
			   struct tb_topic **out)
{
	struct tb_topic *topic;
	int result = topic_options_check(options);

	*out = NULL;
	if (!publisher)
		return error_null("publisher");
	if (result == 0)
		result = group_check(publisher, options);
	if (result == 0)
		result = publisher_room(publisher, options->name);
	if (result == 0)
		result = topic_open(&topic, publisher, options, publisher->topic_count + 1,
				    publisher->event_fd, publisher->fence_in_flush);
	if (result < 0)
		return result;
	publisher_lock(publisher);
	topic->realms = realms_of(publisher, topic->name);
	result = endpoints_expose(publisher, &topic->shape, &topic->memory, topic->realms,
				  &topic->exposures);
	if (result == 0)
		result = announce_open(topic, options->multicast);
	if (result == 0 && topic->announcer_count > 0)
		result = server_tick(publisher);
	if (result == 0) {
		pin_memory(publisher, &topic->memory);
		publisher->topics[publisher->topic_count++] = topic;
		topic_names_add(publisher, topic);
		group_add(topic);
		realms_change(publisher, topic);
		pulse_write(publisher, topic->realms);
	} else {
		error_prefix(result, "topic %s: ", topic->name);
		announce_close(topic);
		endpoints_withdraw(&topic->exposures);
	}
	publisher_unlock(publisher);
	if (result == 0 && !topic->realms)
		publisher_log(publisher, TB_LOG_WARNING,
			      "topic %s: no realm includes it, so no client can read it",
			      topic->name);
	if (result < 0)
		topic_close(topic);
	else
		*out = topic;
	return result;
}

TB_API size_t tb_publisher_joins(struct tb_publisher *publisher, struct tb_topic *const *topics,
				 size_t count)
{
	size_t joins = 0;

	if (!publisher) {
		error_null("publisher");
		return 0;
	}
	publisher_lock(publisher);
	if (!topics)
		for (uint32_t i = 0; i < publisher->topic_count; i++)
			joins += publisher->topics[i]->join_count;
	for (size_t i = 0; topics && i < count; i++)
		joins += topics[i]->join_count;
	publisher_unlock(publisher);
	return joins;
}

/* -- closing ------------------------------------------------------------------------------------
 */

void publisher_end(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		tb_topic_end(publisher->topics[i]);
	publisher->close_by_ms = clock_ms() + publisher->exit_wait_ms;
	atomic_store_explicit(&publisher->closing, true, memory_order_release);
	eventfd_write(publisher->event_fd, 1);
}

/* A forked child shares descriptors, memory and names in the file system with its parent, but has
 * no control thread: it must not close them. */
TB_API void tb_publisher_close(struct tb_publisher *publisher)
{
	if (!publisher || publisher->process != getpid())
		return;
	publisher_end(publisher);
	pthread_join(publisher->thread, NULL);
	publisher_free(publisher);
}

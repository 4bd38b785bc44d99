/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: topics that one thread writes, whose records have one order.
 *
 * A message is what was open between two calls of tb_group_message or tb_group_flush. Its records
 * have its stamp, in whatever topics they are. A flush states W, the stamp of the last finished
 * message, in the line of each topic. A topic without new records needs it too: a merge waits there
 * for the news that no record up to W follows.
 *
 * E-I2  Within an era, stamps rise by at least 1 ns from message to message. No two messages have
 *       the same stamp, so the records of a message are exactly those with its stamp.
 * E-I3  While a message is open, no line has a W at or above its stamp. A record that is still to
 *       come is never counted as complete.
 * E-I4  A flush writes all lines before it wakes or notifies anyone. A subscriber that was woken by
 *       a topic of the group finds this flush's W in each other topic too.
 * E-I5  Without a message since the last flush, W and all heads stand in the lines already. Then a
 *       flush writes no line.
 * E-I6  A stamp is at most AHEAD_NS ahead of the clock, however far the clock was set back. If the
 *       next stamp would be further ahead, all topics of the group begin new epochs at once, and
 *       the group a new era. Readers learn the era from the topics' headers.
 *
 * An ended topic keeps its last line, which has W at or above all its records. */
#include "publisher/group.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/error.h"
#include "publisher/epoch.h"
#include "publisher/log.h"
#include "publisher/options.h"
#include "publisher/writer.h"

#define AHEAD_NS UINT64_C(1000000000) /* by which stamps may be ahead of the clock */
#define RETRY_MS 1000                 /* after times could not begin again */

static inline void message_finish(struct tb_group *group)
{
	if (group->open_ns)
		group->done_ns = group->open_ns;
	group->open_ns = 0;
}

TB_API uint64_t tb_group_time(const struct tb_group *group)
{
	if (!group) {
		error_null("group");
		return 0;
	}
	return group->open_ns ? group->open_ns : group->done_ns;
}

/* -- flush --------------------------------------------------------------------------------------
 */

static void lines_write(struct tb_group *group)
{
	for (struct tb_topic *topic = group->topics; topic; topic = topic->next_of_group) {
		topic->moved = topic->progress.head != topic->sequence;
		if (topic->ended)
			continue;
		topic->progress.complete_ns = group->done_ns;
		writer_line(topic);
	}
	group->shown_ns = group->done_ns;
}

TB_API int tb_group_flush(struct tb_group *group)
{
	if (!group)
		return error_null("group");
	for (struct tb_topic *topic = group->topics; topic; topic = topic->next_of_group)
		writer_touch(topic);
	message_finish(group);
	if (group->shown_ns == group->done_ns) /* E-I5 */
		return 0;
	lines_write(group);
	for (struct tb_topic *topic = group->topics; topic; topic = topic->next_of_group)
		if (topic->moved)
			writer_announce(topic);
	return 0;
}

void group_settle(struct tb_group *group)
{
	if (group && (group->open_ns || group->shown_ns != group->done_ns))
		tb_group_flush(group);
}

/* -- times begin again --------------------------------------------------------------------------
 */

static size_t topics_living(const struct tb_group *group)
{
	size_t count = 0;

	for (const struct tb_topic *topic = group->topics; topic; topic = topic->next_of_group)
		count += !topic->ended;
	return count;
}

/* Returns how many were made, all of them if there was no error. */
static size_t epochs_make(const struct tb_group *group, struct epoch *epochs, int *result)
{
	size_t count = 0;

	*result = 0;
	for (struct tb_topic *topic = group->topics; topic && *result == 0;
	     topic = topic->next_of_group) {
		if (topic->ended)
			continue;
		*result = epoch_make(&epochs[count], topic, topic->names.count);
		if (*result < 0)
			break;
		publisher_lock(group->publisher);
		*result = epoch_expose(&epochs[count++], topic);
		publisher_unlock(group->publisher);
	}
	return count;
}

/* E-I6. No client can learn of one new epoch while another old one still grows. */
static void epochs_begin(const struct tb_group *group, struct epoch *epochs)
{
	publisher_lock(group->publisher);
	for (struct tb_topic *topic = group->topics; topic; topic = topic->next_of_group)
		if (!topic->ended)
			epoch_begin(topic, epochs++);
	publisher_unlock(group->publisher);
}

static void epochs_drop(const struct tb_group *group, struct epoch *epochs, size_t count)
{
	while (count > 0) {
		publisher_lock(group->publisher);
		epoch_drop(&epochs[--count]);
		publisher_unlock(group->publisher);
	}
	free(epochs);
}

/* A topic that was not good says so in its first record. */
static void topics_go_on(const struct tb_group *group, const struct epoch *epochs)
{
	for (struct tb_topic *topic = group->topics; topic; topic = topic->next_of_group) {
		if (topic->ended)
			continue;
		tb_topic_quality(topic, epochs->quality.state, epochs->quality.cause);
		epochs++;
		wakeup_signal(&topic->wakeup);
	}
}

/* The open message has the time now_ns. On an error all is as before. */
static int begin_again(struct tb_group *group, uint64_t now_ns)
{
	const uint64_t done_ns = group->done_ns;
	const uint32_t id = group->id;
	struct epoch *epochs;
	size_t count;
	int result;

	if (region_group_era(id) == REGION_ERA_MAX)
		return error_set(EOVERFLOW, "its times have begun again %u times, the maximum",
				 REGION_ERA_MAX);
	epochs = calloc(topics_living(group) + 1, sizeof(*epochs));
	if (!epochs)
		return error_set(ENOMEM, "no memory");
	group->id += 1u << REGION_GROUP_BITS;
	group->done_ns = 0;
	count = epochs_make(group, epochs, &result);
	if (result == 0) {
		epochs_begin(group, epochs);
		group->shown_ns = 0;
		group->clock_ns = group->open_ns = now_ns;
		topics_go_on(group, epochs);
	} else {
		group->id = id;
		group->done_ns = done_ns;
	}
	epochs_drop(group, epochs, count);
	return result;
}

/* Stamps are ahead of the clock. Whether the message has begun, with times that begin again. */
static __attribute__((noinline)) bool clock_is_behind(struct tb_group *group, uint64_t now_ns)
{
	const uint64_t ahead_ms = (group->done_ns - now_ns) / 1000000;
	int result;

	if (now_ns + AHEAD_NS < group->clock_ns)
		counter_add(&group->set_back, 1);
	if (group->retry_ms != 0 && clock_coarse_ms() < group->retry_ms)
		return false;
	group_settle(group);
	result = begin_again(group, now_ns);
	group->retry_ms = result < 0 ? clock_coarse_ms() + RETRY_MS : 0;
	publisher_log(group->publisher, TB_LOG_WARNING,
		      "group %s: the clock was set back: times are %" PRIu64 ".%03" PRIu64
		      " s ahead of it; %s%s",
		      group->name, ahead_ms / 1000, ahead_ms % 1000,
		      result < 0 ? "its topics cannot begin new epochs, will retry: "
				 : "its topics begin new epochs",
		      result < 0 ? tb_error() : "");
	return result == 0;
}

TB_API int tb_group_message(struct tb_group *group)
{
	const uint64_t now_ns = clock_real_ns();

	if (!group)
		return error_null("group");
	message_finish(group);
	if (__builtin_expect(now_ns + AHEAD_NS < group->done_ns, 0) &&
	    clock_is_behind(group, now_ns))
		return 1;
	group->clock_ns = now_ns;
	group->open_ns = now_ns > group->done_ns ? now_ns : group->done_ns + 1; /* E-I2 */
	return 0;
}

/* -- making and ending --------------------------------------------------------------------------
 */

static int options_check(const struct tb_publisher *publisher,
			 const struct tb_group_options *options)
{
	int result;

	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "group options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	result = options_name_check("group options: name", options->name);
	if (result < 0)
		return result;
	for (const struct tb_group *group = publisher->topic_groups; group; group = group->next)
		if (strcmp(group->name, options->name) == 0)
			return error_set(EEXIST,
					 "group %s: the bus already has a group of this name",
					 options->name);
	return 0;
}

TB_API int tb_group_create(struct tb_publisher *publisher, const struct tb_group_options *options,
			   struct tb_group **out)
{
	struct tb_group *group;
	uint32_t id = 1;
	int result;

	*out = NULL;
	if (!publisher)
		return error_null("publisher");
	result = options_check(publisher, options);
	if (result < 0)
		return result;
	for (group = publisher->topic_groups; group; group = group->next)
		id++; /* numbers have no gaps */
	if (id > BOUND_GROUPS_MAX)
		return error_set(ENOSPC, "group %s: the bus already has its maximum of %d groups",
				 options->name, BOUND_GROUPS_MAX);
	group = calloc(1, sizeof(*group));
	if (!group)
		return error_set(ENOMEM, "group %s: no memory", options->name);
	group->publisher = publisher;
	group->id = id;
	memcpy(group->name, options->name, strlen(options->name));
	publisher_lock(publisher);
	group->next = publisher->topic_groups;
	publisher->topic_groups = group;
	publisher_unlock(publisher);
	*out = group;
	return 0;
}

int group_check(const struct tb_publisher *publisher, const struct tb_topic_options *options)
{
	if (!options->group || options->group->publisher == publisher)
		return 0;
	return error_set(EINVAL,
			 "topic %s: found group %s of another bus, expected a group of "
			 "bus %s",
			 options->name, options->group->name, publisher->name);
}

void group_add(struct tb_topic *topic)
{
	struct tb_topic **link;

	if (!topic->group)
		return;
	for (link = &topic->group->topics; *link; link = &(*link)->next_of_group)
		;
	*link = topic;
}

uint64_t groups_set_back(const struct tb_publisher *publisher)
{
	uint64_t count = 0;

	for (const struct tb_group *group = publisher->topic_groups; group; group = group->next)
		count += atomic_load_explicit(&group->set_back, memory_order_relaxed);
	return count;
}

void groups_close(struct tb_publisher *publisher)
{
	struct tb_group *group;

	while ((group = publisher->topic_groups)) {
		publisher->topic_groups = group->next;
		free(group);
	}
}

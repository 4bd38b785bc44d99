/* SPDX-License-Identifier: Apache-2.0 */
/* T of a merge, and the topics that may join it. */
#include "subscriber/merge_state.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "tests/support/clock.h"
#include "tickbus/error.h"

#define TOPICS 3

static struct tb_subscriber subscriber;
static struct tb_subscription subscription;
static struct tb_source *sources[TOPICS];

static void enter(void)
{
	clock_stop();
	subscriber.welcomed = true;
	subscriber.stale_ms = 1000;
	subscriber.welcome.bus_id = 7;
	subscription.subscriber = &subscriber;
	subscription.merge = merge_state_new(TOPICS);
	subscription.merge->begun = true;
	for (unsigned int i = 0; i < TOPICS; i++) {
		sources[i] = calloc(1, sizeof(*sources[i]));
		sources[i]->subscription = &subscription;
		sources[i]->state = SOURCE_RUNNING;
		sources[i]->next = 1;
		sources[i]->next_source = subscription.sources;
		subscription.sources = sources[i];
	}
}

static void leave(void)
{
	for (unsigned int i = 0; i < TOPICS; i++)
		free(sources[i]);
	free(subscription.merge);
}

TestSuite(merge_state, .init = enter, .fini = leave, .timeout = 60);

static void line(unsigned int topic, uint64_t head, uint64_t complete_ns)
{
	const struct progress progress = { .head = head, .complete_ns = complete_ns };

	merge_state_line(sources[topic], &progress);
	sources[topic]->head = head;
	merge_state_update(&subscription);
}

static uint64_t now(void)
{
	return subscription.merge->time_ns;
}

/* Its W lies in the future of the others, which would seem to stand still. */
Test(merge_state, line_of_an_older_era_is_not_the_newest)
{
	subscription.merge->group = 2u << REGION_GROUP_BITS | 1;
	sources[0]->mapping.shape.group = 1u << REGION_GROUP_BITS | 1;
	sources[1]->mapping.shape.group = sources[2]->mapping.shape.group =
		subscription.merge->group;
	line(0, 0, 3600);
	line(1, 0, 5);
	line(2, 0, 5);
	cr_expect_eq(subscription.merge->newest_ns, 5);
	subscription.merge->draining = true;
	merge_state_update(&subscription);
	cr_expect_eq(subscription.merge->newest_ns, 3600);
}

Test(merge_state, time_is_the_least_of_all_lines)
{
	line(0, 1, 30);
	line(1, 1, 20);
	cr_expect_eq(now(), 0);
	line(2, 1, 25);
	cr_expect_eq(now(), 20);
	line(1, 1, 40);
	cr_expect_eq(now(), 25);
}

Test(merge_state, time_never_goes_back)
{
	for (unsigned int i = 0; i < TOPICS; i++)
		line(i, 0, 50);
	line(1, 0, 10);
	cr_expect_eq(now(), 50);
	cr_expect_eq(subscription.merge->limit_ns, 50);
}

Test(merge_state, topic_that_is_over_does_not_bound_the_time)
{
	line(0, 0, 10);
	line(1, 0, 60);
	line(2, 0, 70);
	sources[0]->finished = true; /* and read to its head */
	merge_state_update(&subscription);
	cr_expect_eq(now(), 60);
	sources[1]->leaving = sources[1]->orphan = true;
	merge_state_update(&subscription);
	cr_expect_eq(now(), 70);
}

/* Its memory may hold records that no line has counted yet. */
Test(merge_state, topic_that_leaves_bounds_the_time_until_its_last_line)
{
	line(0, 0, 10);
	line(1, 0, 60);
	line(2, 0, 60);
	merge_state_refused(sources[0], EINVAL);
	merge_state_update(&subscription);
	cr_expect_eq(now(), 10);
	sources[0]->final = true;
	merge_state_update(&subscription);
	cr_expect_eq(now(), 60);
}

Test(merge_state, topic_joins_at_a_line_that_the_merge_has_not_passed)
{
	struct progress progress = { .head = 3, .complete_ns = 49 };

	for (unsigned int i = 0; i < TOPICS; i++)
		line(i, 0, 50);
	cr_expect_not(merge_state_may_start(sources[0], &progress));
	progress.complete_ns = 50;
	cr_expect(merge_state_may_start(sources[0], &progress));
	cr_expect_eq(sources[0]->skip_ns, 50);
	subscription.merge->draining = true;
	cr_expect_not(merge_state_may_start(sources[0], &progress));
}

Test(merge_state, line_that_stands_still_lags_after_the_bound)
{
	for (unsigned int i = 0; i < TOPICS; i++)
		line(i, 0, 50);
	clock_pass(2000);
	merge_state_update(&subscription);
	cr_expect_not(merge_state_lags(sources[0]), "all lines stand still");
	line(1, 0, 60);
	line(2, 0, 60);
	clock_pass(700);
	cr_expect_not(merge_state_lags(sources[0]));
	clock_pass(60);
	cr_expect(merge_state_lags(sources[0]));
	cr_expect_not(merge_state_lags(sources[1]));
	line(0, 0, 60);
	cr_expect_not(merge_state_lags(sources[0]));
}

Test(merge_state, time_away_counts_while_there_is_a_connection)
{
	for (unsigned int i = 0; i < TOPICS; i++)
		line(i, 0, 50);
	sources[0]->orphan = true;
	subscriber.welcomed = false;
	merge_state_update(&subscription);
	clock_pass(5000);
	merge_state_update(&subscription);
	subscriber.welcomed = true;
	merge_state_update(&subscription);
	cr_expect_not(sources[0]->leaving);
	clock_pass(740);
	merge_state_update(&subscription);
	cr_expect_not(sources[0]->leaving);
	clock_pass(20);
	merge_state_update(&subscription);
	cr_expect(sources[0]->leaving);
	sources[0]->orphan = false;
	merge_state_update(&subscription);
	cr_expect(sources[0]->leaving, "T may be past it, so it joins again");
}

Test(merge_state, time_away_of_a_leaving_topic_begins_once)
{
	uint64_t since_ms;

	for (unsigned int i = 0; i < TOPICS; i++)
		line(i, 0, 50);
	merge_state_refused(sources[0], EINVAL);
	merge_state_update(&subscription);
	cr_expect_eq(sources[0]->away_ms, 0, "its memory can be read");
	sources[0]->entry_lost_ms = 1;
	merge_state_update(&subscription);
	since_ms = sources[0]->away_ms;
	cr_expect_neq(since_ms, 0);
	clock_pass(100);
	line(0, 0, 60); /* its last line */
	cr_expect_eq(sources[0]->away_ms, since_ms);
}

static int fits(const char *name, uint32_t group)
{
	struct control_topic topic = { .shape = { .group = group } };

	strcpy(topic.name, name);
	return merge_state_fits(&subscription, &topic);
}

Test(merge_state, first_topic_decides_the_group)
{
	subscription.merge->begun = false;
	for (unsigned int i = 0; i < TOPICS; i++)
		sources[i]->state = SOURCE_ENDED;
	merge_state_catalogue(&subscription);
	cr_expect_eq(fits("loner", 0), -EOPNOTSUPP);
	cr_expect_eq(fits("a", 2), 0);
	cr_expect_eq(fits("b", 3), -EINVAL);
	cr_expect(strstr(tb_error(), "topic b: found group 3, expected group 2 of topic a"), "%s",
		  tb_error());
	cr_expect_eq(fits("c", 2), 0);
	merge_state_catalogue(&subscription); /* all topics have ended */
	cr_expect_eq(fits("b", 3), 0);
	cr_expect_not(subscription.merge->draining);
}

Test(merge_state, new_publisher_has_groups_of_its_own)
{
	merge_state_catalogue(&subscription);
	cr_expect_eq(fits("a", 2), 0);
	subscription.merge->draining = false;
	subscriber.welcome.bus_id = 8;
	merge_state_catalogue(&subscription);
	cr_expect_eq(fits("a", 1), 0);
	cr_expect(subscription.merge->draining, "the old rings come first");
	cr_expect_eq(fits("b", 2), -EINVAL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A turn holds the lock, so its work is bounded beside any number of joins. The sessions here have
 * no connection: the test counts what is offered to them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "bus/clock.h"
#include "publisher/offers.h"
#include "publisher/publisher.h"
#include "publisher/server.h"
#include "publisher/session.h"
#include "tests/unit/publisher/client.h"

#define STALE_MS   400
#define QUARTER_MS 100
#define TOPICS     64
#define SESSIONS   600 /* more than a turn has offers */
#define JOINS      (TOPICS * SESSIONS)

static_assert(JOINS > 2 * JOINS_OF_A_TURN && SESSIONS > OFFERS_OF_A_TURN, "more than a turn's");

static uint64_t now_ms;
static struct tb_topic *topics[TOPICS];
static struct fabric_ops unconnected;
static struct peer peers[SESSIONS];
static struct session *sessions[SESSIONS];
static uint32_t offered;
static int offer_result;

static int read_clock(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = (time_t)(now_ms / 1000);
	now->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

static int offer(struct peer *peer, const void *message, size_t bytes)
{
	(void)peer;
	(void)message;
	(void)bytes;
	offered += offer_result == 0;
	return offer_result;
}

static void enter(void)
{
	const struct tb_publisher_options options = {
		.size = sizeof(options), .name = "test", .stale_ms = STALE_MS, .topics_max = TOPICS
	};
	char name[16];

	scene_enter();
	unconnected = *fabric_find("shm:test", &address);
	unconnected.offer = offer;
	now_ms = 1000000;
	clock_replace(read_clock);
	cr_assert_eq(publisher_open(&publisher, &options), 0, "%s", tb_error());
	for (uint32_t i = 0; i < TOPICS; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		topics[i] = scene_topic(publisher, name, 64, 0);
	}
	for (uint32_t i = 0; i < SESSIONS; i++) {
		peers[i] = (struct peer){ .ops = &unconnected };
		sessions[i] =
			session_open(&publisher->endpoints[0], &peers[i], &publisher->realms[0]);
		cr_assert_not_null(sessions[i]);
	}
}

static void leave(void)
{
	publisher_free(publisher);
	clock_replace(NULL);
	scene_leave();
}

TestSuite(turn_bounds, .init = enter, .fini = leave, .timeout = 60);

static void join_all(uint32_t topic_count)
{
	for (uint32_t s = 0; s < SESSIONS; s++)
		for (uint32_t t = 0; t < topic_count; t++) {
			struct join *join = session_join(sessions[s], topics[t]);

			cr_assert_not_null(join);
			join->epoch = topics[t]->shape.epoch;
		}
}

/* Joins with something due, whether or not it was offered. */
static uint32_t joins_seen(void)
{
	uint32_t seen = offered;

	for (uint32_t t = 0; t < TOPICS; t++)
		for (const struct join *join = topics[t]->joins; join; join = join->next_of_topic)
			seen += join->is_owed && (join->armed || join->sent == JOIN_SENT_NOTHING);
	return seen;
}

/* Takes turns until no more is due, and expects that no turn sees more joins than it may. */
static void expect_bounded_turns(void)
{
	uint32_t before, seen = 0;

	do {
		before = seen;
		cr_assert_not(server_turn(publisher));
		seen = joins_seen();
		cr_assert_leq(seen - before, JOINS_OF_A_TURN + SESSIONS,
			      "a turn looked at %u joins", seen - before);
	} while (seen > before || offers_left(publisher));
	cr_expect_eq(offered, JOINS, "some clients learn nothing");
}

Test(turn_bounds, restart_of_all_topics_takes_several_turns)
{
	join_all(TOPICS);
	for (uint32_t t = 0; t < TOPICS; t++)
		cr_assert_eq(tb_topic_restart(topics[t]), 0);
	expect_bounded_turns();
	cr_expect_not(publisher->signals_left);
}

/* The sleepers have something to read, and no signal came. */
Test(turn_bounds, pulse_looks_at_all_sleepers_in_several_turns)
{
	join_all(TOPICS);
	for (uint32_t s = 0; s < SESSIONS; s++)
		for (uint32_t t = 0; t < TOPICS; t++) {
			struct join *join = session_find(sessions[s], topics[t]);

			join_arm(join, true);
			join->epoch++;
			join->sent = JOIN_SENT_REVOKE;
		}
	cr_expect_eq(topics[0]->sleepers, SESSIONS);
	now_ms += QUARTER_MS;
	expect_bounded_turns();
	cr_expect_eq(topics[0]->sleepers, 0);
	cr_expect_eq(publisher->sleepers_left, 0);
}

Test(turn_bounds, joins_that_leave_sleep_no_longer)
{
	join_all(1);
	for (uint32_t s = 0; s < SESSIONS; s++)
		join_arm(session_find(sessions[s], topics[0]), true);
	join_arm(session_find(sessions[0], topics[0]), true);
	cr_expect_eq(topics[0]->sleepers, SESSIONS);
	session_leave(session_find(sessions[0], topics[0]));
	cr_expect_eq(topics[0]->sleepers, SESSIONS - 1);
	session_leave(session_find(sessions[1], topics[0]));
	cr_expect_eq(topics[0]->sleepers, SESSIONS - 2);
}

/* Else the control thread would try their queues again and again until the exit wait is over. */
Test(turn_bounds, closing_bus_rests_beside_many_full_clients)
{
	int turns = 0;

	join_all(1);
	offer_result = -EAGAIN;
	publisher_end(publisher);
	do
		cr_assert_not(server_turn(publisher));
	while (offers_left(publisher) && ++turns < SESSIONS);
	cr_expect_lt(turns, SESSIONS, "the control thread does not rest");
	offer_result = 0;
	do
		cr_assert_not(server_turn(publisher));
	while (offers_left(publisher));
	cr_expect_eq(offered, SESSIONS);
}

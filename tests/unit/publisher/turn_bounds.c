/* SPDX-License-Identifier: Apache-2.0 */
/* A turn holds the lock, so its work is bounded beside any number of joins. The sessions here have
 * no connection: the test counts what is offered to them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "bus/clock.h"
#include "publisher/answers.h"
#include "publisher/catalogue.h"
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

/* Answers, by session. */
static uint32_t answered[SESSIONS], answers;
static int send_result;

static int count_answer(struct peer *peer, const void *message, size_t bytes,
			struct exposure *given)
{
	(void)message;
	(void)bytes;
	(void)given;
	answered[peer - peers]++;
	answers++;
	return send_result;
}

static void count_drop(struct peer *peer, const char *why)
{
	(void)peer;
	(void)why;
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
	unconnected.send = count_answer;
	unconnected.drop = count_drop;
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

/* -- the catalogue ----------------------------------------------------------------------------- */

/* Asks for the catalogue. Returns the request's result. */
static int ask(uint32_t s, const char *pattern)
{
	struct control_message asked = { .type = CONTROL_CATALOGUE, .request = 1 };

	snprintf(asked.catalogue.pattern, sizeof(asked.catalogue.pattern), "%s", pattern);
	return answers_give(sessions[s], &asked);
}

/* Takes turns until all is answered. No turn has more answers than `most`. */
static void expect_answers(uint32_t most, uint32_t all)
{
	uint32_t before;

	do {
		before = answers;
		cr_assert_not(server_turn(publisher));
		cr_assert_leq(answers - before, most, "a turn has %u answers", answers - before);
	} while (catalogue_left(publisher));
	cr_expect_eq(answers, all);
}

Test(turn_bounds, catalogue_is_looked_through_in_several_turns)
{
	for (uint32_t s = 0; s < SESSIONS; s++)
		cr_assert_eq(ask(s, "*z"), 0, "%s", tb_error());
	expect_answers(CATALOGUE_TOPICS / TOPICS, SESSIONS);
}

Test(turn_bounds, requests_for_single_topics_are_answered_in_several_turns)
{
	for (uint32_t s = 0; s < SESSIONS; s++)
		cr_assert_eq(ask(s, "t7"), 0, "%s", tb_error());
	expect_answers(CATALOGUE_ANSWERS, SESSIONS);
}

/* CA1. The first has as many requests as it may have, and the others two. */
Test(turn_bounds, client_that_asks_much_waits_for_itself)
{
	for (int i = 0; i < FABRIC_UNANSWERED; i++)
		cr_assert_eq(ask(0, "*z"), 0, "%s", tb_error());
	for (uint32_t s = 1; s < SESSIONS; s++)
		for (int i = 0; i < 2; i++)
			cr_assert_eq(ask(s, "*z"), 0, "%s", tb_error());
	while (answered[SESSIONS - 1] == 0)
		cr_assert_not(server_turn(publisher));
	cr_expect_leq(answered[0], 2, "%u answers to the first", answered[0]);
	expect_answers(SESSIONS, 2 * SESSIONS + FABRIC_UNANSWERED - 2);
	cr_expect_eq(answered[0], FABRIC_UNANSWERED);
}

Test(turn_bounds, too_many_waiting_requests_are_refused)
{
	for (int i = 0; i < FABRIC_UNANSWERED; i++)
		cr_assert_eq(ask(0, "*z"), 0, "%s", tb_error());
	cr_expect_eq(ask(0, "*z"), -EPROTO);
	cr_expect_str_eq(tb_error(), "found 9 requests for the catalogue, expected at most 8 that "
				     "wait for an answer");
}

/* The third and the last of those that wait. The second fails at its answer. */
Test(turn_bounds, requests_of_clients_that_left_are_forgotten)
{
	for (uint32_t s = 0; s < 4; s++)
		for (int i = 0; i < 3; i++)
			cr_assert_eq(ask(s, "*z"), 0, "%s", tb_error());
	session_close(sessions[2]);
	session_close(sessions[3]);
	expect_answers(SESSIONS, 6);
	for (uint32_t s = 0; s < 2; s++)
		for (int i = 0; i < 3; i++)
			cr_assert_eq(ask(s, "*z"), 0, "%s", tb_error());
	send_result = -EAGAIN;
	expect_answers(SESSIONS, 8);
}

/* The clock stands. */
Test(turn_bounds, requests_of_a_second_are_bounded)
{
	const struct control_message asked = { .type = CONTROL_SCHEMA, .request = 1 };
	const struct control_message leave = { .type = CONTROL_LEAVE };

	for (int i = 0; i < REQUESTS_OF_A_SECOND; i++)
		cr_assert_eq(answers_give(sessions[0], &asked), 0, "%s", tb_error());
	cr_expect_eq(answers_give(sessions[0], &asked), -EPROTO);
	cr_expect_str_eq(tb_error(),
			 "found more than 32768 requests within a second, expected fewer");
	cr_expect_eq(answers_give(sessions[0], &leave), 0);
	cr_expect_eq(answers_give(sessions[1], &asked), 0);
	now_ms += 1000;
	cr_expect_eq(answers_give(sessions[0], &asked), 0, "%s", tb_error());
}

/* -- the lock ---------------------------------------------------------------------------------- */

static _Atomic bool had_lock;

static void *lock_once(void *user)
{
	(void)user;
	publisher_lock(publisher);
	had_lock = true;
	publisher_unlock(publisher);
	return NULL;
}

static bool someone_waits(void)
{
	if (pthread_mutex_trylock(&publisher->next) == EBUSY)
		return true;
	pthread_mutex_unlock(&publisher->next);
	sched_yield();
	return false;
}

/* The control thread gives the lock away and wants it back at once. */
Test(turn_bounds, thread_that_waits_for_the_lock_is_next)
{
	for (int i = 0; i < 1000; i++) {
		const uint64_t late_ms = scene_now_ms() + deadline_ms();
		pthread_t thread;

		had_lock = false;
		publisher_lock(publisher);
		cr_assert_eq(pthread_create(&thread, NULL, lock_once, NULL), 0);
		while (!someone_waits())
			cr_assert_lt(scene_now_ms(), late_ms, "no thread waits at the lock");
		publisher_unlock(publisher);
		publisher_lock(publisher);
		cr_expect(had_lock, "round %d", i);
		publisher_unlock(publisher);
		pthread_join(thread, NULL);
	}
}

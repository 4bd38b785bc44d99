/* SPDX-License-Identifier: Apache-2.0 */
/* A bus without its control thread: the test takes the turns, and its clock alone passes time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>

#include "bus/clock.h"
#include "bus/words.h"
#include "publisher/interrupts.h"
#include "publisher/offers.h"
#include "publisher/publisher.h"
#include "publisher/server.h"
#include "publisher/sleepers.h"
#include "tests/unit/publisher/client.h"

#define STALE_MS     400
#define QUARTER_MS   100
#define EXIT_WAIT_MS 1000
#define CROWD_TOPICS 600 /* more messages than a socket queues */
#define SLEEPERS     6
#define BEYOND       "interrupts beyond the bound"

static uint64_t now_ms;
static struct tb_topic *topics[CROWD_TOPICS];
static struct client sleepers[SLEEPERS];

static int read_clock(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = (time_t)(now_ms / 1000);
	now->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

static void take_turn(void)
{
	cr_assert_not(server_turn(publisher));
}

static void enter(void)
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .stale_ms = STALE_MS,
						      .topics_max = CROWD_TOPICS,
						      .exit_wait_ms = EXIT_WAIT_MS,
						      .log = keep_log };

	scene_enter();
	ops = fabric_find("shm:test", &address);
	now_ms = 1000000;
	clock_replace(read_clock);
	cr_assert_eq(publisher_open(&publisher, &options), 0, "%s", tb_error());
	client_meanwhile = take_turn;
}

static void leave(void)
{
	client_close(&client);
	for (size_t i = 0; i < SLEEPERS; i++)
		client_close(&sleepers[i]);
	publisher_free(publisher);
	clock_replace(NULL);
	scene_leave();
}

TestSuite(turns, .init = enter, .fini = leave, .timeout = 60);

static uint64_t pulses(void)
{
	return publisher->realms[0].pulse.count;
}

/* The pulses of one turn after this much time. */
static uint64_t pulses_after(uint64_t ms)
{
	const uint64_t before = pulses();

	now_ms += ms;
	take_turn();
	return pulses() - before;
}

Test(turns, pulse_beats_each_quarter_of_the_clock)
{
	cr_expect_eq(pulses_after(0), 0);
	cr_expect_eq(pulses_after(QUARTER_MS - 1), 0);
	cr_expect_eq(pulses_after(1), 1);
	cr_expect_eq(pulses_after(0), 0);
	for (int quarter = 0; quarter < 10; quarter++)
		cr_expect_eq(pulses_after(QUARTER_MS), 1);
}

Test(turns, missed_quarters_make_one_pulse)
{
	cr_expect_eq(pulses_after(10 * QUARTER_MS + 10), 1);
	cr_expect_eq(pulses_after(QUARTER_MS - 11), 0);
	cr_expect_eq(pulses_after(1), 1);
}

/* Ticks repeat notices, and shared memory has no notices: an idle bus rests. */
Test(turns, bus_at_shared_memory_alone_has_no_ticks)
{
	struct itimerspec pace;

	scene_topic(publisher, "t", 64, 0);
	cr_assert_eq(timerfd_gettime(publisher->timer_fd, &pace), 0);
	cr_expect_eq(pace.it_interval.tv_sec, 0);
	cr_expect_eq(pace.it_interval.tv_nsec, QUARTER_MS * 1000000);
}

Test(turns, silence_is_counted_by_quarters)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, TB_TOPIC_WATCHED);

	tb_flush(topic);
	pulses_after(QUARTER_MS);
	cr_expect_eq(topic->silent, 0, "it was flushed in that quarter");
	take_turn();
	cr_expect_eq(topic->silent, 0);
	pulses_after(QUARTER_MS);
	pulses_after(QUARTER_MS);
	cr_expect_eq(topic->silent, 2);
	tb_flush(topic);
	pulses_after(QUARTER_MS);
	cr_expect_eq(topic->silent, 0);
}

Test(turns, join_is_answered_and_sleeper_woken)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch;

	client_open(&client);
	epoch = epoch_of("t");
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	arm = topic_message(CONTROL_ARM, 1, epoch, 0);
	client_send(&client, &arm);
	cr_assert_eq(epoch_of("t"), epoch); /* the arm was handled */
	scene_publish(topic, 1, 1);
	cr_assert_eq(client.wakes, 0);
	UNTIL(&client, client.wakes == 1);
}

Test(turns, end_comes_when_all_clients_left)
{
	scene_topic(publisher, "t", 64, 0);
	client_open(&client);
	cr_assert_eq(join(&client, 1, epoch_of("t"))->type, CONTROL_GRANT);
	publisher_end(publisher);
	UNTIL(&client, client.endings == 1);
	client_close(&client);
	for (int turn = 0; turn < 10 && publisher->sessions; turn++)
		server_turn(publisher);
	cr_expect(server_turn(publisher));
}

Test(turns, end_waits_at_most_the_exit_wait)
{
	scene_topic(publisher, "t", 64, 0);
	client_open(&client);
	cr_assert_eq(join(&client, 1, epoch_of("t"))->type, CONTROL_GRANT);
	publisher_end(publisher);
	pulses_after(EXIT_WAIT_MS - 1);
	now_ms++;
	cr_expect(server_turn(publisher));
	cr_expect(was_logged("had not read to the end of topic t when the bus closed"));
}

/* -- a client that reads nothing for a while ----------------------------------------------------
 */

static void topics_make(uint32_t count)
{
	char name[16];

	for (uint32_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		topics[i] = scene_topic(publisher, name, 64, 0);
	}
}

static void join_all(struct client *at, uint32_t count)
{
	client_open(at);
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(join(at, i + 1, topics[i]->shape.epoch)->type, CONTROL_GRANT);
}

static void take_quarter(void)
{
	now_ms += QUARTER_MS;
	take_turn();
}

/* The client's queue fills while it reads nothing. */
static void restart_all_unread(void)
{
	topics_make(CROWD_TOPICS);
	join_all(&client, CROWD_TOPICS);
	for (uint32_t i = 0; i < CROWD_TOPICS; i++)
		cr_assert_eq(tb_topic_restart(topics[i]), 0);
	for (int quarter = 0; quarter < 10; quarter++)
		take_quarter();
	cr_assert_not(TAILQ_EMPTY(&publisher->full), "its queue took all revokes");
}

Test(turns, full_client_learns_of_every_restart_by_pulses)
{
	restart_all_unread();
	client_meanwhile = take_quarter;
	UNTIL(&client, client.revokes == CROWD_TOPICS || client.gones);
	cr_expect_eq(client.gones, 0, "%s", client.why);
	cr_expect_eq(client.revokes, CROWD_TOPICS);
}

Test(turns, full_client_learns_of_every_restart_by_messages)
{
	restart_all_unread();
	for (uint32_t asked = 0; asked < CROWD_TOPICS && client.revokes < CROWD_TOPICS; asked++)
		catalogue("t0", 0);
	cr_expect_eq(client.revokes, CROWD_TOPICS);
	cr_expect(TAILQ_EMPTY(&publisher->full));
}

/* A quick client joins before it has read the revokes, which it no longer needs. */
Test(turns, full_client_that_joins_again_gets_no_late_revoke)
{
	uint32_t first;

	restart_all_unread();
	for (uint32_t i = CROWD_TOPICS; i > 0; i--)
		cr_assert_eq(join(&client, i, topics[i - 1]->shape.epoch)->type, CONTROL_GRANT);
	first = client.revokes;
	cr_expect_lt(first, CROWD_TOPICS);
	client_meanwhile = take_quarter;
	catalogue("t0", 0);
	catalogue("t0", 0);
	cr_expect_eq(client.revokes, first);
}

Test(turns, full_client_learns_of_every_end_before_the_close)
{
	topics_make(CROWD_TOPICS);
	join_all(&client, CROWD_TOPICS);
	publisher_end(publisher);
	for (int turn = 0; turn < 10; turn++)
		take_turn();
	cr_assert_not(TAILQ_EMPTY(&publisher->full), "its queue took all endings");
	UNTIL(&client, client.endings == CROWD_TOPICS || client.gones);
	cr_expect_eq(client.endings, CROWD_TOPICS);
	client_close(&client);
	for (int turn = 0; turn < 10 && publisher->sessions; turn++)
		server_turn(publisher);
	cr_expect(server_turn(publisher));
}

Test(turns, turn_makes_a_bounded_number_of_offers)
{
	const uint32_t count = 100;
	uint32_t revokes = 0;

	topics_make(count);
	for (size_t i = 0; i < SLEEPERS; i++)
		join_all(&sleepers[i], count);
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(tb_topic_restart(topics[i]), 0);
	take_turn();
	cr_assert(offers_left(publisher));
	client_meanwhile = NULL;
	for (size_t i = 0; i < SLEEPERS; i++) {
		while (ops->link_poll(sleepers[i].link) > 0)
			;
		revokes += sleepers[i].revokes;
	}
	cr_expect_gt(revokes, 0);
	cr_expect_leq(revokes, OFFERS_OF_A_TURN);
	client_meanwhile = take_turn;
	for (size_t i = 0; i < SLEEPERS; i++)
		UNTIL(&sleepers[i], sleepers[i].revokes == count);
	cr_expect_not(offers_left(publisher));
}

/* Its head is of the old memory, and higher than what the new memory reserves. */
Test(turns, arm_that_crosses_a_restart_is_valid)
{
	struct control_message arm;

	topics_make(1);
	join_all(&client, 1);
	scene_publish(topics[0], 1, 50);
	arm = topic_message(CONTROL_ARM, 1, topics[0]->shape.epoch, 50);
	cr_assert_eq(tb_topic_restart(topics[0]), 0);
	client_send(&client, &arm);
	UNTIL(&client, (client.revokes == 1 && client.wakes == 1) || client.gones);
	cr_expect_eq(client.gones, 0, "%s", client.why);
}

/* -- how often sleepers interrupt ---------------------------------------------------------------
 */

static uint64_t interrupts(void)
{
	return publisher->counters[BUS_INTERRUPTS];
}

/* The client sleeps at the topic's head, and the publisher knows it. */
static void sleep_at_head(struct client *at, uint32_t topic_id, uint64_t head)
{
	struct control_message arm =
		topic_message(CONTROL_ARM, topic_id, topics[topic_id - 1]->shape.epoch, head);

	client_send(at, &arm);
	client_ask(at, (struct control_message){ .type = CONTROL_CATALOGUE,
						 .catalogue = { .pattern = "t" } });
}

/* It arms and is woken, as often as it can, while the clock stands still. */
static void sleep_often(struct client *at, uint32_t topic_id, int times)
{
	struct tb_topic *topic = topics[topic_id - 1];

	for (int i = 0; i < times; i++) {
		const uint64_t head = tb_topic_sequence(topic);

		sleep_at_head(at, topic_id, head);
		scene_publish(topic, head + 1, head + 1);
		take_turn();
	}
}

Test(turns, session_interrupts_a_bounded_number_of_times)
{
	unsigned int woken;
	uint64_t head;

	topics_make(1);
	join_all(&client, 1);
	sleep_often(&client, 1, 5 * INTERRUPTS_OF_SESSION);
	cr_expect_eq(interrupts(), INTERRUPTS_OF_SESSION, BEYOND);
	cr_expect_leq(topics[0]->wakeup.signals, INTERRUPTS_OF_SESSION);
	catalogue("t", 0); /* reads the wakes */
	head = tb_topic_sequence(topics[0]);
	sleep_at_head(&client, 1, head);
	scene_publish(topics[0], head + 1, head + 1);
	woken = client.wakes;
	now_ms += LATE_MAX_NS / 1000000;
	take_turn();
	catalogue("t", 0);
	cr_assert_gt(client.wakes, woken, "a late sleeper was forgotten");
	cr_expect_eq(interrupts(), INTERRUPTS_OF_SESSION, "a late sleeper needs no interrupt");
	cr_expect(TAILQ_EMPTY(&publisher->late));
	now_ms += INTERRUPTS_WINDOW_MS;
	sleep_often(&client, 1, 1);
	cr_expect_eq(interrupts(), INTERRUPTS_OF_SESSION + 1, "the next window has its own");
}

Test(turns, all_sessions_interrupt_a_bounded_number_of_times)
{
	topics_make(SLEEPERS);
	for (uint32_t i = 0; i < SLEEPERS; i++) {
		join_all(&sleepers[i], SLEEPERS);
		sleep_often(&sleepers[i], i + 1, INTERRUPTS_OF_SESSION);
	}
	cr_assert_gt(SLEEPERS * INTERRUPTS_OF_SESSION, INTERRUPTS_IN_ALL);
	cr_expect_eq(interrupts(), INTERRUPTS_IN_ALL, BEYOND);
}

/* Each flush signals while a sleeper waits for a record that is reserved and far away. */
Test(turns, sleeper_far_ahead_interrupts_a_bounded_number_of_times)
{
	const int flushes = 2 * INTERRUPTS_OF_SESSION;

	topics[0] = scene_topic(publisher, "t0", 1024, 0);
	join_all(&client, 1);
	scene_publish(topics[0], 1, 1);
	sleep_at_head(&client, 1, 128);
	for (int i = 2; i <= flushes; i++) {
		scene_publish(topics[0], (uint64_t)i, (uint64_t)i);
		take_turn();
	}
	cr_expect_eq(client.wakes, 0);
	cr_expect_eq(interrupts(), INTERRUPTS_OF_SESSION, BEYOND);
	cr_expect_leq(topics[0]->wakeup.signals, INTERRUPTS_OF_SESSION);
	scene_publish(topics[0], (uint64_t)flushes + 1, 129);
	now_ms += LATE_MAX_NS / 1000000;
	UNTIL(&client, client.wakes == 1);
}

static void look_at_late(void)
{
	publisher->late_due_ns = 1; /* the clock, whose windows count, stands still */
	take_turn();
}

/* Late sleepers without news are looked at less and less often, and often again with news. */
Test(turns, looks_at_late_sleepers_have_a_pace)
{
	struct client *quiet = &sleepers[0];
	unsigned int woken;

	topics_make(2);
	join_all(&client, 2);
	join_all(quiet, 2);
	sleep_often(&client, 1, INTERRUPTS_OF_SESSION);
	sleep_often(quiet, 2, INTERRUPTS_IN_ALL - INTERRUPTS_OF_SESSION);
	cr_assert_eq(interrupts(), INTERRUPTS_IN_ALL);
	sleep_at_head(quiet, 2, tb_topic_sequence(topics[1]));
	sleep_at_head(&client, 1, tb_topic_sequence(topics[0]));
	for (uint64_t pause_ns = LATE_MIN_NS; pause_ns < LATE_MAX_NS; pause_ns += pause_ns / 4) {
		cr_assert_eq(publisher->late_pause_ns, pause_ns, "a pause that does not grow");
		cr_expect_eq(sleepers_wait_ns(publisher), (int64_t)pause_ns);
		look_at_late();
	}
	cr_expect_eq(publisher->late_pause_ns, LATE_MAX_NS);
	scene_publish(topics[0], tb_topic_sequence(topics[0]) + 1,
		      tb_topic_sequence(topics[0]) + 1);
	woken = client.wakes;
	look_at_late();
	cr_expect_eq(publisher->late_pause_ns, LATE_MIN_NS, "a pause that stays long");
	UNTIL(&client, client.wakes > woken);
	scene_publish(topics[1], tb_topic_sequence(topics[1]) + 1,
		      tb_topic_sequence(topics[1]) + 1);
	look_at_late();
	cr_expect(TAILQ_EMPTY(&publisher->late));
	cr_expect_eq(sleepers_wait_ns(publisher), -1);
}

/* When the bound allows it again, the word of a late sleeper is set, and no more looks are needed.
 */
Test(turns, late_sleeper_is_armed_in_the_next_window)
{
	topics_make(INTERRUPTS_OF_SESSION + 1);
	join_all(&client, INTERRUPTS_OF_SESSION + 1);
	for (uint32_t i = 0; i <= INTERRUPTS_OF_SESSION; i++)
		sleep_at_head(&client, i + 1, 0);
	cr_expect_eq(topics[INTERRUPTS_OF_SESSION]->wakeup.armed, 0);
	cr_expect_not(TAILQ_EMPTY(&publisher->late));
	now_ms += INTERRUPTS_WINDOW_MS;
	take_turn();
	cr_expect_eq(topics[INTERRUPTS_OF_SESSION]->wakeup.armed, 1);
	cr_expect(TAILQ_EMPTY(&publisher->late));
	scene_publish(topics[INTERRUPTS_OF_SESSION], 1, 1);
	UNTIL(&client, client.wakes == 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A bus without its control thread: the test takes the turns, and its clock alone passes time. */
#include <criterion/criterion.h>
#include <time.h>

#include "bus/clock.h"
#include "bus/words.h"
#include "publisher/publisher.h"
#include "publisher/server.h"
#include "tests/unit/publisher/client.h"

#define STALE_MS     400
#define QUARTER_MS   100
#define EXIT_WAIT_MS 1000

static uint64_t now_ms;

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

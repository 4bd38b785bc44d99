/* SPDX-License-Identifier: Apache-2.0 */
/* Single calls: a descriptor is readable while work is pending, and a poll ends. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>

#include "bus/bounds.h"
#include "bus/clock.h"
#include "bus/fabric.h"
#include "bus/notice.h"
#include "publisher/state.h"
#include "subscriber/notices.h"
#include "subscriber/reader.h"
#include "subscriber/state.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"
#include "tickbus/inspect.h"

TestSuite(polls, .init = net_enter, .fini = net_leave, .timeout = 60);

#define STILL_MS 60000               /* stale bound of a publisher with a pulse every 15 s */
#define SOON_MS  (deadline_ms() / 2) /* before that */

/* Waits by the descriptor, while the publisher is idle. */
static void wait_for_records(uint64_t records)
{
	struct pollfd ready = { .fd = tb_subscriber_fd(subscriber), .events = POLLIN };

	for (int turns = 0; turns < 1000; turns++) {
		int count;

		while ((count = tb_poll(subscriber, 100)) > 0)
			;
		cr_assert_eq(count, 0, "%s", tb_error());
		if (notes.records >= records)
			return;
		cr_assert_eq(poll(&ready, 1, (int)SOON_MS), 1, "slept with something there: %s",
			     notes.text);
	}
	cr_assert(false, "turned round and round: %s", notes.text);
}

Test(polls, descriptor_is_readable_for_a_new_epoch)
{
	struct tb_topic *topic;

	net_publisher_again(STILL_MS);
	topic = scene_topic(net.publisher, "t", 64, 0);
	net_read_on(true);
	for (uint64_t round = 1; round <= 5; round++) {
		scene_publish(topic, 1, 1);
		wait_for_records(round);
		cr_assert_eq(tb_topic_restart(topic), 0);
	}
}

Test(polls, descriptor_is_readable_for_landed_records)
{
	struct tb_topic *topic;
	struct tb_source *source;

	net_publisher_again(STILL_MS);
	topic = scene_topic(net.publisher, "t", 64, 0);
	source = net_read_on(false);
	for (uint64_t round = 1; round <= 5; round++) {
		scene_publish(topic, round, round);
		source->noticed_ms = clock_coarse_ms(); /* so that no wake-up is requested */
		cr_assert(notices_hint(source, round));
		wait_for_records(round);
	}
}

/* A publisher that damages its records costs a sleeper a few short pauses for each. */
Test(polls, pauses_between_failed_copies_do_not_grow)
{
	struct tb_topic *topic;
	struct tb_source *source;

	net_publisher_again(STILL_MS);
	topic = scene_topic(net.publisher, "t", 64, 0);
	source = net_read_on(false);
	scene_publish(topic, 1, 1);
	wait_for_records(1);
	clock_stop(); /* the next look is not due */
	source->fetched_ns = clock_ns();
	UNTIL(source->under_way == 0 && !source->page_under_way, 100);
	source->armed = true;                      /* as if its wake-up were lost */
	source->look = source->copy_failed = true; /* of a record ahead of its line */
	for (int i = 0; i < 8; i++) {
		cr_assert_eq(tb_wait(subscriber, (int)SOON_MS), 1, "%s", tb_error());
		cr_assert_leq(subscriber->soon, 1, "the pause grew");
	}
	clock_go();
	scene_publish(topic, 2, 2);
	UNTIL(notes.records == 2, 100);
	cr_expect_eq(notes.lost, 0, "%s", notes.text);
}

/* A strict reader READs no record on a hint alone, but reads the progress line at once. */
Test(polls, hint_makes_strict_reader_read_the_line)
{
	const struct tb_subscription_options strict = { .size = sizeof(strict),
							.on_record = notes_record,
							.on_event = notes_event,
							.user = &notes,
							.from = TB_FROM_OLDEST,
							.flags = TB_STRICT };
	struct tb_subscription *subscription;
	struct tb_topic *topic;

	net_publisher_again(STILL_MS);
	topic = scene_topic(net.publisher, "t", 64, 0);
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &strict, &subscription), 0, "%s", tb_error());
	for (uint64_t round = 1; round <= 5; round++) {
		scene_publish(topic, round, round);
		subscription->sources->noticed_ms = clock_coarse_ms();
		cr_assert(notices_hint(subscription->sources, round));
		wait_for_records(round);
	}
	/* The line refutes a false hint, which then has no effect. */
	cr_assert(notices_hint(subscription->sources, 20));
	UNTIL(subscription->sources->hint == 0 && subscription->sources->under_way == 0, 100);
	cr_expect_eq(subscription->sources->head, 5);
	cr_expect_eq(notes.events, 1, "%s", notes.text);
}

/* Sends the topic's notice of this number. False: the queue is full. */
static bool notice_send(const struct tb_source *source, uint64_t number, uint64_t head)
{
	const unsigned int at = (net.first_notice + net.notice_count) % NET_QUEUE;
	struct notice_writer writer;

	if (net.notice_count == NET_QUEUE)
		return false;
	notice_begin(&writer, net.notices[at], BOUND_NOTICE_BYTES_MAX, subscriber->welcome.bus_id,
		     number);
	notice_number(&writer, source->mapping.shape.topic_id, number);
	notice_entry(&writer, source->mapping.shape.topic_id, source->mapping.shape.epoch, head);
	notice_seal(&writer, source->mapping.notice_key);
	net.notice_bytes[at] = notice_finish(&writer);
	net.notice_count++;
	return true;
}

Test(polls, notices_beyond_the_queue_cost_only_time)
{
	const struct fabric_notices notices = { .kind = FABRIC_NOTICES_UDP };
	struct tb_topic *topic = scene_topic(net.publisher, "t", 1024, 0);
	struct tb_source *source = net_read_on(false);
	uint64_t received = 0, lost = 0, burst = 0, n = 0;

	notices_join(source, &notices);
	for (int bursts = 0; bursts < 5; bursts++) {
		lost += burst;
		burst = 0;
		for (int i = 0; i < 100; i++) {
			n++;
			scene_publish(topic, n, n);
			if (notice_send(source, n, n))
				received++;
			else
				burst++;
		}
		cr_assert_gt(burst, 0);
		UNTIL(notes.last == n, 100);
	}
	cr_expect_eq(notes.records, n);
	cr_expect(notes.lost == 0 && notes.wrong == 0, "%s", notes.text);
	cr_expect_eq(net_counted(source->subscription, SUBSCRIPTION_NOTICES), received);
	cr_expect_eq(net_counted(source->subscription, SUBSCRIPTION_NOTICES_LOST), lost,
		     "seen by their numbers");
	cr_expect_eq(net_counted(source->subscription, SUBSCRIPTION_FALSE_HINTS), 0);
}

static struct tb_topic *lapping;
static unsigned int laps;

/* In the handler of a gap, the writer laps the reader again. */
static void lap_in_handler(void *user, const struct tb_event *event)
{
	const uint64_t head = event->kind == TB_EVENT_GAP ? tb_topic_sequence(lapping) : 0;

	notes_event(user, event);
	if (head > 0 && laps++ < 100)
		scene_publish(lapping, head + 1, head + 100);
}

Test(polls, poll_returns_while_handlers_let_the_reader_be_lapped)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = lap_in_handler,
						     .user = &notes,
						     .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;

	lapping = scene_topic(net.publisher, "t", 64, 0);
	net.viewed = true;
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	scene_publish(lapping, 1, 200);
	cr_assert_geq(tb_poll(subscriber, 1000), 0);
	cr_expect_leq(laps, 8, "%u gaps in one call", laps);
	tb_topic_end(lapping);
	laps = 100;
	UNTIL(notes.ended, 1000);
	cr_expect_eq(notes.records + notes.lost, tb_topic_sequence(lapping));
	cr_expect_eq(notes.wrong, 0);
}

Test(polls, large_batch_uses_its_whole_landing)
{
	const uint32_t bytes = 1 << 20;
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "net:test",
						       .batch_bytes = bytes,
						       .connect_ms = deadline_ms() };

	notes.quiet = true;
	scene_publish(scene_topic(net.publisher, "t", 32768, 0), 1, 20000);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	UNTIL(notes.last == 20000, 1000);
	cr_expect_gt(net.landed, bytes - subscriber->read_bytes, "%zu bytes", net.landed);
	cr_expect_leq(net.landed, bytes);
}

Test(polls, unwritten_slot_does_not_count_as_busy)
{
	const struct tb_source *source;

	scene_topic(net.publisher, "t", 64, 0);
	source = net_read_on(true);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(net_counted(source->subscription, SUBSCRIPTION_BUSY), 0);
}

Test(polls, hole_resets_the_tries_of_a_slot_and_raises_the_head)
{
	const struct tb_update hole = { .size = sizeof(hole), .kind = TB_KIND_HOLE, .time_ns = 1 };
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);
	struct tb_source *source = net_read_on(true);

	scene_publish(topic, 1, 1);
	UNTIL(source->next == 2, 100);
	source->tries = TRIES_MAX - 1;
	cr_assert_eq(tb_publish(topic, &hole), 0, "%s", tb_error());
	UNTIL(source->next == 3, 100);
	cr_expect_eq(source->tries, 0);
	cr_expect_eq(source->head, 2);
}

static unsigned int shown;

static void show(void *user, const struct tb_topic_info *info)
{
	(void)user;
	shown++;
	cr_expect_eq(info->head, 0, "it could not be read");
}

Test(polls, inspection_sleeps_until_its_page_arrives)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = "net:test",
						    .timeout_ms = 2000 };

	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 3);
	net.unanswered = true;
	cr_expect_eq(tb_inspect_topics(&options, NULL, NULL, show, NULL), 1, "%s", tb_error());
	cr_expect_eq(shown, 1);
	cr_expect_lt(net.reaps, 100, "looked %u times", net.reaps);
}

/* An arm beyond `reserved` would end the connection. */
Test(polls, sleeper_for_a_later_sequence_keeps_its_connection)
{
	const struct tb_subscription_options later = { .size = sizeof(later),
						       .on_record = notes_record,
						       .on_event = notes_event,
						       .user = &notes,
						       .from = TB_FROM_SEQUENCE,
						       .sequence = 20 };
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);
	struct tb_subscription *subscription;

	scene_publish(topic, 1, 5);
	net.viewed = true;
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &later, &subscription), 0, "%s", tb_error());
	scene_topic(net.publisher, "u", 64, 0);
	while (!subscription->sources->armed) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_geq(tb_wait(subscriber, 1), 0, "%s", tb_error());
	}
	scene_subscribe(subscriber, "u", TB_FROM_NEWEST, &notes); /* answered after the arm */
	scene_publish(topic, 6, 20);
	UNTIL(notes.last == 20, 100);
	cr_expect_eq(net.tries, 1, "%u connections", net.tries);
	cr_expect_eq(notes.lost, 0);
}

static void on_alarm(int number)
{
	(void)number;
}

/* Signals come until the wait has ended. */
Test(polls, interrupted_wait_replaces_the_error_text)
{
	const struct sigaction action = { .sa_handler = on_alarm };
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	int result;

	net_publisher_again(STILL_MS);
	scene_topic(net.publisher, "t", 64, 0);
	net_read_on(true);
	sigaction(SIGALRM, &action, NULL);
	cr_expect_eq(tb_poll(subscriber, 0), -EINVAL);
	setitimer(ITIMER_REAL, &often, NULL);
	do
		result = tb_wait(subscriber, -1);
	while (result >= 0);
	setitimer(ITIMER_REAL, &never, NULL);
	cr_expect_eq(result, -EINTR);
	cr_expect_str_eq(tb_error(),
			 "subscriber: a signal interrupted the wait: Interrupted system call");
}

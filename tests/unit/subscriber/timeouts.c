/* SPDX-License-Identifier: Apache-2.0 */
/* Timeouts and TB_WAIT, and what tb_error() says of them. The fabric "lossy:NAME" loses requests to
 * connect. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/shm/shm.h"
#include "publisher/state.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

static struct fabric_ops lossy;
static unsigned int to_lose, asked;
static int code; /* the error of a lost request, and its text */
static const char *lost_words;
static bool refuses_connects;
static unsigned int crowded; /* connects that find the publisher's queue full */
static struct link_calls calls;
static void *calls_user;

static int lossy_connect(struct link **link, const char *address, const void *hello, size_t bytes,
			 const struct link_calls *given, void *user)
{
	asked++;
	if (refuses_connects)
		return error_set(EACCES, "no permission to connect");
	if (crowded > 0) {
		crowded--;
		return error_set(EAGAIN, "the queue is full");
	}
	calls = *given;
	calls_user = user;
	return shm_connect(link, address, hello, bytes, given, user);
}

static int lossy_poll(struct link *link)
{
	if (to_lose == 0)
		return shm_link_poll(link);
	to_lose--;
	calls.gone(calls_user, code, lost_words);
	return 1;
}

static struct tb_publisher *publisher;

static void enter(void)
{
	scene_enter();
	lossy = shm_ops;
	lossy.scheme = "lossy";
	lossy.connect = lossy_connect;
	lossy.link_poll = lossy_poll;
	cr_assert_eq(fabric_add(&lossy), 0);
	code = ETIMEDOUT;
	lost_words = "no answer from there";
	publisher = scene_publisher("shm");
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 2);
}

static void leave(void)
{
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(timeouts, .init = enter, .fini = leave, .timeout = 60);

static int look(uint32_t timeout_ms)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = "lossy:test",
						    .timeout_ms = timeout_ms };

	return tb_inspect_topics(&options, NULL, NULL, NULL, NULL);
}

static int open_within(uint32_t connect_ms, uint32_t flags)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "lossy:test",
						       .connect_ms = connect_ms,
						       .flags = flags };
	struct tb_subscriber *subscriber;
	int result = tb_subscriber_open(&subscriber, &options);

	tb_subscriber_close(subscriber);
	return result;
}

Test(timeouts, unanswered_connect_is_repeated_until_the_timeout)
{
	to_lose = 3;
	cr_expect_eq(look(deadline_ms()), 1, "%s", tb_error());
	cr_expect_eq(asked, 4);
	to_lose = 3;
	cr_expect_eq(open_within(deadline_ms(), 0), 0, "%s", tb_error());
	cr_expect_eq(asked, 8);
}

Test(timeouts, timeout_message_states_the_timeout)
{
	to_lose = 1000000000;
	cr_expect_eq(look(130), -ETIMEDOUT);
	cr_expect_str_eq(tb_error(), "lossy:test: no answer within 130 ms");
	cr_expect_eq(open_within(140, 0), -ETIMEDOUT);
	cr_expect_str_eq(tb_error(), "lossy:test: no answer within 140 ms");
}

Test(timeouts, refused_connect_is_not_repeated)
{
	code = ECONNREFUSED;
	to_lose = 1;
	cr_expect_eq(look(deadline_ms()), -ECONNREFUSED);
	to_lose = 1;
	cr_expect_eq(open_within(deadline_ms(), 0), -ECONNREFUSED);
	cr_expect_eq(asked, 2);
}

/* A full queue, and a publisher that refuses because it has no descriptor left. */
Test(timeouts, publisher_without_room_is_asked_again)
{
	crowded = 3;
	cr_expect_eq(look(deadline_ms()), 1, "%s", tb_error());
	cr_expect_eq(asked, 4);
	crowded = 3;
	cr_expect_eq(open_within(deadline_ms(), 0), 0, "%s", tb_error());
	cr_expect_eq(asked, 8);
	code = EAGAIN;
	to_lose = 3;
	cr_expect_eq(look(deadline_ms()), 1, "%s", tb_error());
	cr_expect_eq(asked, 12);
	to_lose = 3;
	cr_expect_eq(open_within(deadline_ms(), 0), 0, "%s", tb_error());
	cr_expect_eq(asked, 16);
}

Test(timeouts, publisher_without_room_is_asked_for_the_timeout)
{
	code = EAGAIN;
	to_lose = 1000000000;
	cr_expect_eq(look(130), -EAGAIN);
	cr_expect_str_eq(tb_error(), "lossy:test: no answer from there");
	cr_expect_geq(asked, 2);
	asked = 0;
	cr_expect_eq(open_within(140, 0), -EAGAIN);
	cr_expect_str_eq(tb_error(), "lossy:test: tried for 140 ms: no answer from there");
	cr_expect_geq(asked, 2);
}

Test(timeouts, timeout_above_one_minute_is_refused)
{
	cr_expect_eq(look(60001), -EINVAL);
	cr_expect_str_eq(tb_error(),
			 "tb_inspect_options: timeout_ms: found 60001, expected at most 60000");
	cr_expect_eq(open_within(60001, 0), -EINVAL);
	cr_expect_eq(asked, 0);
}

Test(timeouts, inspection_names_the_size_that_it_found_and_expected)
{
	const struct tb_inspect_options how = { .size = 8 };
	char expected[128];

	cr_expect_eq(tb_inspect_topics(&how, NULL, NULL, NULL, NULL), -EINVAL);
	snprintf(expected, sizeof(expected),
		 "tb_inspect_options: found size 8, expected %zu or more", sizeof(how));
	cr_expect_str_eq(tb_error(), expected);
}

/* -- TB_WAIT ---------------------------------------------------------------------------------- */

static void expect_text(struct tb_subscriber *subscriber, const char *pattern, const char *text)
{
	struct notes notes = { 0 };
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = notes_record,
							 .on_event = notes_event,
							 .user = &notes,
							 .flags = TB_WAIT };
	struct tb_subscription *subscription;

	cr_assert_eq(tb_subscribe(subscriber, pattern, &options, &subscription), 0);
	cr_expect_str_eq(tb_error(), text);
	tb_unsubscribe(subscription);
	notes_free(&notes);
}

Test(timeouts, waiting_subscribe_returns_its_reason)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "lossy:test",
						       .connect_ms = deadline_ms(),
						       .flags = TB_WAIT };
	struct tb_subscriber *subscriber;

	cr_expect_eq(look(60001), -EINVAL, "some text");
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0);
	cr_expect_str_empty(tb_error());
	expect_text(subscriber, "t", "");
	expect_text(subscriber, "u", "lossy:test: bus test has no topic u");
	expect_text(subscriber, "u.*", "lossy:test: bus test has no topic that matches u.*");
	tb_subscriber_close(subscriber);
}

Test(timeouts, waiting_open_returns_its_reason)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "lossy:test",
						       .connect_ms = 120,
						       .flags = TB_WAIT };
	struct tb_subscriber *subscriber;

	to_lose = 1000000000;
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0);
	cr_expect_str_eq(tb_error(), "lossy:test: no answer within 120 ms");
	expect_text(subscriber, "t", "lossy:test: no answer yet");
	tb_subscriber_close(subscriber);
}

/* Between five refusals are pauses of at least half of 50, 100, 200 and 400 ms; a slow machine only
 * makes them longer. */
static void expect_less_and_less(int why)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "lossy:test",
						       .connect_ms = deadline_ms(),
						       .flags = TB_WAIT };
	const uint64_t began_ms = scene_now_ms(), until_ms = began_ms + deadline_ms();
	struct notes notes = { 0 };
	struct tb_subscriber *subscriber;

	code = why;
	asked = 0;
	to_lose = 1000000000;
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0);
	cr_expect_str_eq(tb_error(), "lossy:test: no answer from there");
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	while (asked < 5) {
		cr_assert_lt(scene_now_ms(), until_ms, "it does not ask again");
		cr_assert_geq(tb_poll(subscriber, 1), 0);
	}
	cr_expect_geq(scene_now_ms(), began_ms + 375);
	to_lose = 0;
	cr_expect(scene_poll_until(subscriber, &notes.records, 2), "%s", notes.text);
	tb_subscriber_close(subscriber);
	notes_free(&notes);
}

Test(timeouts, full_publisher_is_asked_less_often_until_it_has_room)
{
	expect_less_and_less(EUSERS);
	expect_less_and_less(EAGAIN);
}

static void poll_until_told(struct tb_subscriber *subscriber, const struct notes *notes,
			    const char *told)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (!notes->text || !strstr(notes->text, told)) {
		cr_assert_lt(scene_now_ms(), until_ms, "waited for %s: %s", told, notes->text);
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	}
}

/* The connection is lost for lack of room, and there is no room for a new connection. */
Test(timeouts, stale_topic_reports_a_full_publisher_once)
{
	struct notes notes = { 0 };
	struct tb_subscriber *subscriber;
	unsigned int enough;

	scene_publish(scene_topic(publisher, "u", 64, 0), 1, 2);
	subscriber = scene_subscriber("lossy", 0);
	scene_subscribe(subscriber, "u", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 2));
	for (int times = 0; times < 2; times++) {
		code = EUSERS;
		lost_words = "it has as many as it may have";
		to_lose = 1000000000;
		poll_until_told(subscriber, &notes, "stale 87 it has as many as it may have\n");
		lost_words = "it has one more by now";
		for (enough = asked + 3; asked < enough;)
			cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		code = EAGAIN;
		lost_words = "it has no descriptor left";
		poll_until_told(subscriber, &notes, "stale 11 it has no descriptor left\n");
		to_lose = 0;
		poll_until_told(subscriber, &notes, "live\n");
		cr_expect_str_eq(strstr(notes.text, "stale"),
				 "stale 87 it has as many as it may have\n"
				 "stale 11 it has no descriptor left\nlive\n");
		notes_free(&notes);
	}
	tb_subscriber_close(subscriber);
}

/* As with a socket that only its owner may connect to. */
Test(timeouts, stale_topic_reports_lost_permission)
{
	struct notes notes = { 0 };
	struct tb_subscriber *subscriber;

	scene_publish(scene_topic(publisher, "u", 64, 0), 1, 2);
	subscriber = scene_subscriber("lossy", 0);
	scene_subscribe(subscriber, "u", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 2));
	refuses_connects = true;
	code = ECONNRESET;
	to_lose = 1;
	poll_until_told(subscriber, &notes, "stale 13 no permission to connect\n");
	refuses_connects = false;
	poll_until_told(subscriber, &notes, "live\n");
	cr_expect_str_eq(strstr(notes.text, "stale"),
			 "stale 104 no answer from there\nstale 13 no permission to connect\n"
			 "live\n");
	tb_subscriber_close(subscriber);
	notes_free(&notes);
}

/* -- shortages -------------------------------------------------------------------------------- */

/* How many requests the publisher got. */
static uint64_t requests(void)
{
	return atomic_load(&publisher->counters[BUS_MESSAGES]);
}

static struct rlimit limit;

/* Memory gets no descriptor below 3, so a join fails. */
static void limit_descriptors(void)
{
	struct rlimit none;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 4, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

/* Criterion needs descriptors. */
static void unlimit_descriptors(void)
{
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* No descriptor is left for the join of either topic, which is requested with each pulse. */
Test(timeouts, shortage_is_reported_once_per_topic)
{
	static const char text[] =
		"refused t 24 topic t: at the publisher: no descriptor for shared memory: Too many "
		"open files\n"
		"refused u 24 topic u: at the publisher: no descriptor for shared memory: Too many "
		"open files\n";
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct tb_subscriber *subscriber;
	struct notes notes = { 0 };
	uint64_t enough;

	tb_publisher_close(publisher);
	publisher = scene_publisher_of("shm", SCENE_HASTY_MS);
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 2);
	scene_publish(scene_topic(publisher, "u", 64, 0), 1, 2);
	subscriber = scene_subscriber("shm", 0);
	limit_descriptors();
	scene_subscribe(subscriber, ">", TB_FROM_OLDEST, &notes);
	enough = requests() + 20; /* three with each pulse, after a request for the schema */
	while (requests() < enough && scene_now_ms() < until_ms)
		tb_poll(subscriber, 1);
	unlimit_descriptors();
	cr_expect_geq(requests(), enough, "the joins are not asked for again");
	cr_expect_str_eq(notes.text, text);
	cr_expect(scene_poll_until(subscriber, &notes.records, 4), "%s", notes.text);
	tb_subscriber_close(subscriber);
	notes_free(&notes);
}

#define NONE_LEFT "topic t: at the publisher: no descriptor for shared memory: Too many open files"

/* Subscribes to t by its name while the publisher has no descriptor for the join. */
static void subscribe_to_none(uint32_t flags, uint32_t subscription_flags)
{
	struct notes notes = { 0 };
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = notes_record,
							 .on_event = notes_event,
							 .user = &notes,
							 .from = TB_FROM_OLDEST,
							 .flags = subscription_flags };
	struct tb_subscriber *subscriber = scene_subscriber("shm", flags);
	const bool waits = flags || subscription_flags;
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct tb_subscription *subscription;
	char text[256];
	uint64_t enough;
	int result;

	limit_descriptors();
	result = tb_subscribe(subscriber, "t", &options, &subscription);
	snprintf(text, sizeof(text), "%s", tb_error());
	enough = requests() + (result == 0 ? 6 : 0); /* it is requested again, three times */
	while (requests() < enough && scene_now_ms() < until_ms)
		tb_poll(subscriber, 1);
	unlimit_descriptors();
	cr_assert_eq(result, waits ? 0 : -EMFILE);
	cr_expect_str_eq(text, waits ? "shm:test: " NONE_LEFT : NONE_LEFT);
	cr_expect_geq(requests(), enough, "the join is not asked for again");
	if (waits) {
		cr_expect(scene_poll_until(subscriber, &notes.records, 2), "%s", notes.text);
		cr_expect_str_eq(notes.text, "appeared t 1\n1 A update 1\n2 B update 2\n");
	}
	tb_subscriber_close(subscriber);
	notes_free(&notes);
}

Test(timeouts, publisher_shortage_is_waited_out_with_tb_wait)
{
	static const uint32_t flags[][2] = { { TB_WAIT, 0 }, { 0, TB_WAIT }, { 0, 0 } };

	for (int i = 0; i < 3; i++) {
		tb_publisher_close(publisher);
		publisher = scene_publisher_of("shm", SCENE_HASTY_MS);
		scene_publish(scene_topic(publisher, "t", 64, 0), 1, 2);
		subscribe_to_none(flags[i][0], flags[i][1]);
	}
}

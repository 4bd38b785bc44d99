/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers that are left by a jump, which is forbidden: the next call says so, and closing frees
 * the subscriber. A handler that only closes its subscriber keeps its meaning. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/scene.h"

static struct tb_publisher *publisher;
static jmp_buf out;

static void enter(void)
{
	scene_enter();
	faulty_add(scene_seed());
	if (!scene_has(SCHEME))
		cr_skip_test("set TICKBUS_TEST_RDMA to the address of an RDMA device");
	publisher = scene_publisher(SCHEME);
}

static void leave(void)
{
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(jumps, .init = enter, .fini = leave, .timeout = 60);

static void jump_from_record(void *user, const struct tb_source *source,
			     const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
	longjmp(out, 1);
}

static void jump_from_event(void *user, const struct tb_event *event)
{
	(void)user;
	(void)event;
	longjmp(out, 1);
}

static void ignore(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
}

static struct tb_subscriber *subscribed(tb_record_handler *handler, void *user)
{
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = handler,
							 .user = user ? user : subscriber,
							 .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;

	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	return subscriber;
}

/* Polls until a handler jumps. False: none did. */
static __attribute__((noinline)) bool poll_into_jump(struct tb_subscriber *subscriber)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	if (setjmp(out))
		return true;
	while (scene_now_ms() < until_ms)
		tb_poll(subscriber, 100);
	return false;
}

static __attribute__((noinline)) void close_deep(struct tb_subscriber *subscriber, int depth)
{
	volatile char untouched[512];

	if (depth > 0)
		close_deep(subscriber, depth - 1);
	else
		tb_subscriber_close(subscriber);
	untouched[0] = 0;
	(void)untouched[0];
}

/* What subscribers hold in this process: each has a timer, memory that it was handed, and mappings
 * to read it. What the publisher holds does not change. */
static int held(void)
{
	DIR *folder = opendir("/proc/self/fd");
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	struct dirent *entry;
	int count = 0;

	cr_assert(folder && maps);
	while ((entry = readdir(folder))) {
		const ssize_t length =
			readlinkat(dirfd(folder), entry->d_name, line, sizeof(line) - 1);

		line[length > 0 ? length : 0] = '\0';
		count += strcmp(line, "anon_inode:[timerfd]") == 0 ||
			 strncmp(line, "/memfd:", 7) == 0;
	}
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, " r--s ") && strstr(line, "/memfd:");
	fclose(maps);
	closedir(folder);
	return count;
}

/* After a first join, for which the publisher opens a descriptor. */
static int held_before(void)
{
	tb_subscriber_close(subscribed(ignore, NULL));
	return held();
}

static void expect_freed(int before)
{
	cr_assert_eq(held(), before);
}

Test(jumps, calls_after_a_jump_name_it)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = ignore };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscription *subscription;
	struct tb_subscriber *subscriber;

	scene_publish(topic, 1, 5);
	subscriber = subscribed(jump_from_record, NULL);
	cr_assert(poll_into_jump(subscriber));
	cr_expect_eq(tb_poll(subscriber, 1), -EDEADLK);
	cr_expect(strstr(tb_error(), "tb_poll: a handler of this subscriber was left"), "%s",
		  tb_error());
	cr_expect_eq(tb_wait(subscriber, 0), -EDEADLK);
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EDEADLK);
	tb_subscriber_close(subscriber);
}

Test(jumps, close_after_a_jump_frees_at_any_depth)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();

	scene_publish(topic, 1, 5);
	for (int depth = 0; depth < 100; depth = depth * 2 + 1) {
		struct tb_subscriber *subscriber = subscribed(jump_from_record, NULL);

		cr_assert(poll_into_jump(subscriber));
		close_deep(subscriber, depth);
		expect_freed(before);
	}
}

/* The event comes while the fabric takes a message. */
Test(jumps, jump_out_of_tb_subscribe_leaves_a_closable_subscriber)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = ignore,
							 .on_event = jump_from_event };
	struct tb_subscription *subscription;

	scene_publish(topic, 1, 1);
	if (setjmp(out) == 0) {
		tb_subscribe(subscriber, "t", &options, &subscription);
		cr_assert_fail("no event came");
	}
	cr_expect_eq(tb_poll(subscriber, 1), -EDEADLK);
	close_deep(subscriber, 3);
	expect_freed(before);
}

static void close_and_jump(void *user, const struct tb_source *source,
			   const struct tb_record *record)
{
	(void)source;
	(void)record;
	tb_subscriber_close(user);
	longjmp(out, 1);
}

Test(jumps, second_close_frees_what_the_handler_had_closed)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();
	struct tb_subscriber *subscriber;

	scene_publish(topic, 1, 5);
	subscriber = subscribed(close_and_jump, NULL);
	cr_assert(poll_into_jump(subscriber));
	cr_expect_eq(tb_poll(subscriber, 1), -EDEADLK);
	close_deep(subscriber, 3);
	expect_freed(before);
}

/* -- calls that are inside a handler ---------------------------------------------------------- */

static struct tb_subscriber *broken; /* left by a jump earlier */

static void close_broken(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)source;
	(void)record;
	if (broken)
		close_deep(broken, 2);
	broken = NULL;
	cr_expect_eq(tb_poll(user, 1), -EBUSY);
}

/* The second call has the place on the stack that the first call had. */
Test(jumps, handler_closes_another_broken_subscriber)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();
	struct tb_subscriber *all[2];

	scene_publish(topic, 1, 5);
	all[0] = broken = subscribed(jump_from_record, NULL);
	all[1] = subscribed(close_broken, NULL);
	for (int i = 0; i < 2; i++)
		while (setjmp(out) == 0 && broken && tb_poll(all[i], 100) >= 0)
			;
	for (int i = 0; broken && i < 1000000; i++)
		tb_poll(all[1], 100);
	cr_expect_null(broken);
	tb_subscriber_close(all[1]);
	expect_freed(before);
}

static uint64_t seen;

static void close_and_read_on(void *user, const struct tb_source *source,
			      const struct tb_record *record)
{
	(void)source;
	close_deep(user, 3);
	memcpy(&seen, record->data, sizeof(seen));
	cr_expect_eq(tb_poll(user, 1), -EBUSY);
	cr_expect(strstr(tb_error(), "called from a handler"), "%s", tb_error());
}

Test(jumps, close_in_a_handler_waits_for_its_return)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();
	struct tb_subscriber *subscriber;
	int result;

	scene_publish(topic, 1, 1);
	subscriber = subscribed(close_and_read_on, NULL);
	do
		result = tb_poll(subscriber, 100);
	while (result == 0);
	cr_expect_eq(result, -ECANCELED);
	cr_expect_eq(seen, 1);
	expect_freed(before);
}

static void *close_it(void *subscriber)
{
	tb_subscriber_close(subscriber);
	return NULL;
}

static void close_by_thread(void *user, const struct tb_source *source,
			    const struct tb_record *record)
{
	pthread_t thread;

	(void)source;
	cr_assert_eq(pthread_create(&thread, NULL, close_it, user), 0);
	pthread_join(thread, NULL);
	memcpy(&seen, record->data, sizeof(seen));
}

Test(jumps, close_by_a_thread_of_the_handler_waits_too)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();
	struct tb_subscriber *subscriber;
	int result;

	scene_publish(topic, 1, 1);
	subscriber = subscribed(close_by_thread, NULL);
	do
		result = tb_poll(subscriber, 100);
	while (result == 0);
	cr_expect_eq(result, -ECANCELED);
	cr_expect_eq(seen, 1);
	expect_freed(before);
}

#define COROUTINE_BYTES 65536

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) ||                               \
	__has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static ucontext_t handler_context, coroutine_context;
static struct tb_subscriber *closed_there;
static char *coroutine_stack;

static void close_in_coroutine(void)
{
	tb_subscriber_close(closed_there);
}

static void run_coroutine(void *user, const struct tb_source *source,
			  const struct tb_record *record)
{
	(void)source;
	closed_there = user;
	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = coroutine_stack;
	coroutine_context.uc_stack.ss_size = COROUTINE_BYTES;
	coroutine_context.uc_link = &handler_context;
	makecontext(&coroutine_context, close_in_coroutine, 0);
	swapcontext(&handler_context, &coroutine_context);
	memcpy(&seen, record->data, sizeof(seen));
}

static void *poll_to_the_end(void *subscriber)
{
	static int result;

	do
		result = tb_poll(subscriber, 100);
	while (result == 0);
	return &result;
}

/* The coroutine's stack is above the stack of the thread that polls: it is in the frame of main. */
Test(jumps, close_in_a_coroutine_of_the_handler_waits_too)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();
	char stack[COROUTINE_BYTES];
	struct tb_subscriber *subscriber;
	pthread_t thread;
	void *result;

	if (SANITIZED)
		cr_skip_test("sanitizers do not know coroutines");
	coroutine_stack = stack;
	scene_publish(topic, 1, 1);
	subscriber = subscribed(run_coroutine, NULL);
	cr_assert_eq(pthread_create(&thread, NULL, poll_to_the_end, subscriber), 0);
	pthread_join(thread, &result);
	cr_expect_eq(*(int *)result, -ECANCELED);
	cr_expect_eq(seen, 1);
	expect_freed(before);
}

static void *jump_in_a_thread(void *subscriber)
{
	return poll_into_jump(subscriber) ? subscriber : NULL;
}

/* Often: the thread may exist for a moment after it was joined. */
Test(jumps, close_after_the_thread_ended_frees)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const int before = held_before();

	scene_publish(topic, 1, 1);
	for (int round = 0; round < 20; round++) {
		struct tb_subscriber *subscriber = subscribed(jump_from_record, NULL);
		pthread_t thread;
		void *jumped;

		cr_assert_eq(pthread_create(&thread, NULL, jump_in_a_thread, subscriber), 0);
		pthread_join(thread, &jumped);
		cr_assert(jumped);
		tb_subscriber_close(subscriber);
		expect_freed(before);
	}
}

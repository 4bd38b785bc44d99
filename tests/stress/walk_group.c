/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a group's topics in place: "all records with a time up to W are counted by head". The
 * line is read between any two stores of the writer, and the writer goes on between any two loads
 * of the reader. Built for steps, and with WEAK for a machine that keeps the order of barriers
 * only. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

#include "bus/progress.h"
#include "publisher/state.h"
#include "tests/support/scene.h"
#ifdef WEAK_MACHINE
#include "tests/stress/weak.h"
#else
#include "tests/stress/steps.h"
#endif

#define SLOTS    64 /* a step of 8 records */
#define TOPICS   2
#define MESSAGES 65536

/* What was written: the stamp of each message, and each topic's last sequence after it. */
struct truth {
	uint64_t stamp[MESSAGES];
	uint64_t last[MESSAGES][TOPICS];
	size_t count;
};

static struct tb_publisher *publisher;
static struct tb_group *group;
static struct tb_topic *topics[TOPICS];
static char *views[TOPICS]; /* the readers' mappings */
static struct truth truth;
static uint64_t complete_ns[TOPICS]; /* W as seen last */
static uint64_t state;               /* of draw() */
static char wrong[256];

static uint64_t draw(uint64_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (state >> 33) % below;
}

static void enter(void)
{
	scene_enter();
	publisher = scene_publisher("shm");
	group = scene_group(publisher, "g");
	state = scene_seed();
#ifdef WEAK_MACHINE
	weak_seed(state);
#endif
}

static void leave(void)
{
	for (size_t t = 0; t < TOPICS; t++)
		munmap(views[t], topics[t]->memory.bytes);
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(group, .init = enter, .fini = leave, .timeout = 100);

static void topics_make(uint32_t flags)
{
	for (size_t t = 0; t < TOPICS; t++) {
		char name[] = "t0";

		name[1] = (char)('0' + t);
		topics[t] = scene_grouped(publisher, name, SLOTS, flags, group);
		cr_assert_eq(tb_instrument(topics[t], "A"), 0);
		views[t] = mmap(NULL, topics[t]->memory.bytes, PROT_READ, MAP_SHARED,
				topics[t]->memory.fd, 0);
		cr_assert_neq(views[t], MAP_FAILED);
	}
}

/* -- the reader ---------------------------------------------------------------------------------
 */

static void line_read(size_t t, struct progress *line)
{
	const ptrdiff_t at = (const char *)topics[t]->line - (const char *)topics[t]->memory.base;

	progress_load((const struct progress_line *)(const void *)(views[t] + at), line);
}

static void line_judge(size_t t, const struct progress *line, bool rises)
{
	uint64_t last = 0;

	for (size_t m = truth.count; m > 0 && last == 0; m--)
		if (truth.stamp[m - 1] <= line->complete_ns)
			last = truth.last[m - 1][t];
	if (line->head < last)
		snprintf(wrong, sizeof(wrong),
			 "topic %zu: a line with head %" PRIu64 " and W %" PRIu64
			 " leaves out record %" PRIu64,
			 t, line->head, line->complete_ns, last);
	if (rises && line->complete_ns < complete_ns[t])
		snprintf(wrong, sizeof(wrong), "topic %zu: W goes back", t);
	complete_ns[t] = line->complete_ns;
}

/* A line of the topic that was loaded now, or while the writer went on. */
static void line_check(size_t t, struct progress *line, bool rises)
{
	if (progress_verify(line, &topics[t]->shape, topics[t]->progress_salt) == 0)
		line_judge(t, line, rises);
}

static void lines_check(void)
{
	for (size_t t = 0; t < TOPICS; t++) {
		struct progress line;

		line_read(t, &line);
		line_check(t, &line, true);
	}
}

/* -- the writer ---------------------------------------------------------------------------------
 */

static void message(void)
{
	const size_t m = truth.count;

	cr_assert_lt(m, MESSAGES);
	tb_group_message(group);
	truth.stamp[m] = tb_group_time(group);
	for (size_t t = 0; t < TOPICS; t++)
		truth.last[m][t] = tb_topic_sequence(topics[t]);
	truth.count++;
}

static void publish(size_t t, uint64_t count)
{
	for (; count > 0; count--) {
		const uint64_t x = tb_topic_sequence(topics[t]) + 1;
		const struct tb_update update = { .size = sizeof(update),
						  .kind = TB_KIND_UPDATE,
						  .length = sizeof(x),
						  .data = &x };

		truth.last[truth.count - 1][t] = x;
		cr_assert_eq(tb_publish(topics[t], &update), 0, "%s", tb_error());
	}
}

static void flush(void)
{
	cr_assert_eq(tb_group_flush(group), 0);
}

/* Messages with records in any topic, more than a step of them in a few. */
static void messages(void)
{
	const uint64_t count = draw(3) + 1;

	for (uint64_t m = 0; m < count; m++) {
		message();
		for (size_t t = 0; t < TOPICS; t++)
			publish(t, draw(8) ? draw(3) : 10);
	}
}

static void write_all(void)
{
	messages();
	flush();
}

#ifndef WEAK_MACHINE

/* -- steps --------------------------------------------------------------------------------------
 */

_Thread_local unsigned int steps_left;
static void (*inside)(void);
static uint64_t steps;

void steps_due(void)
{
	steps++;
	inside();
}

static bool step(unsigned int k, void (*call)(void))
{
	bool taken;

	steps_left = k;
	call();
	taken = steps_left == 0;
	steps_left = 0;
	return taken;
}

/* Calls differ in their number of steps, so the step is drawn. */
static void interrupt(void (*call)(void), void (*by)(void), uint64_t most)
{
	inside = by;
	for (int round = 0; round < 10000; round++) {
		step((unsigned int)draw(most) + 1, call);
		lines_check();
		cr_assert_str_empty(wrong, "round %d: %s", round, wrong);
	}
	cr_assert_gt(steps, 5000, "found %" PRIu64 " steps", steps);
}

Test(group, line_at_any_store_of_a_checked_topic_counts_all)
{
	topics_make(0);
	interrupt(write_all, lines_check, 200);
}

Test(group, line_at_any_store_of_an_unchecked_topic_counts_all)
{
	topics_make(TB_TOPIC_UNCHECKED);
	interrupt(write_all, lines_check, 200);
}

static void read_first(void)
{
	struct progress line;

	line_read(0, &line);
	line_check(0, &line, false);
}

Test(group, writer_between_any_two_loads_leaves_nothing_out)
{
	topics_make(TB_TOPIC_UNCHECKED);
	interrupt(read_first, write_all, 9);
}

static uint64_t signals_before[TOPICS];

/* A sleeper that a topic of the group wakes finds the flush in the lines of all others. */
static void woken_check(void)
{
	for (size_t t = 0; t < TOPICS; t++) {
		struct progress line;

		if (atomic_load(&topics[t]->wakeup.signals) == signals_before[t])
			continue;
		for (size_t other = 0; other < TOPICS; other++) {
			line_read(other, &line);
			if (line.complete_ns != truth.stamp[truth.count - 1])
				snprintf(wrong, sizeof(wrong),
					 "topic %zu woke its sleepers before the line of topic %zu",
					 t, other);
		}
	}
}

Test(group, all_lines_come_before_the_first_wake)
{
	uint64_t signals = 0;

	topics_make(0);
	inside = woken_check;
	for (unsigned int k = 1, taken = 1; taken; k++) {
		for (size_t t = 0; t < TOPICS; t++)
			signals_before[t] = atomic_load(&topics[t]->wakeup.signals);
		message();
		publish(0, 1);
		publish(1, 1);
		atomic_store(&topics[0]->wakeup.armed, 1);
		atomic_store(&topics[1]->wakeup.armed, 1);
		taken = step(k, flush);
		woken_check();
		signals = atomic_load(&topics[0]->wakeup.signals) +
			  atomic_load(&topics[1]->wakeup.signals);
		cr_assert_eq(signals, 2 * k);
		cr_assert_str_empty(wrong, "step %u: %s", k, wrong);
	}
}

/* -- threads ------------------------------------------------------------------------------------
 */

#define SEEN_MAX 1000000
#define FLUSHES  5000
#define BETWEEN  20 /* flushes between two lines that the reader has seen */

static struct seen {
	size_t topic;
	uint64_t head, complete_ns;
} seen[SEEN_MAX];
static _Atomic size_t seen_count;
static _Atomic bool written;

/* Notes each line that differs from the last. The truth is complete only afterwards. */
static void *reader_run(void *user)
{
	struct seen before[TOPICS] = { { 0 } };

	(void)user;
	while (!atomic_load(&written))
		for (size_t t = 0; t < TOPICS && seen_count < SEEN_MAX; t++) {
			struct progress line;

			line_read(t, &line);
			if (progress_verify(&line, &topics[t]->shape, topics[t]->progress_salt) < 0)
				continue;
			if (line.head == before[t].head &&
			    line.complete_ns == before[t].complete_ns)
				continue;
			before[t] = (struct seen){ t, line.head, line.complete_ns };
			seen[seen_count] = before[t];
			atomic_fetch_add(&seen_count, 1);
		}
	return NULL;
}

static void concurrent_reader(uint32_t flags)
{
	pthread_t thread;

	topics_make(flags);
	cr_assert_eq(pthread_create(&thread, NULL, reader_run, NULL), 0);
	for (int flushes = 0; flushes < FLUSHES; flushes++) {
		const size_t before = atomic_load(&seen_count);

		write_all();
		while (flushes % BETWEEN == 0 && atomic_load(&seen_count) == before)
			sched_yield();
	}
	atomic_store(&written, true);
	pthread_join(thread, NULL);
	cr_assert_geq(seen_count, FLUSHES / BETWEEN);
	for (size_t i = 0; i < seen_count; i++) {
		struct progress line = { .head = seen[i].head, .complete_ns = seen[i].complete_ns };

		line_judge(seen[i].topic, &line, true);
		cr_assert_str_empty(wrong, "line %zu: %s", i, wrong);
	}
}

Test(group, lines_of_a_checked_topic_beside_its_writer_count_all)
{
	concurrent_reader(0);
}

Test(group, lines_of_an_unchecked_topic_beside_its_writer_count_all)
{
	concurrent_reader(TB_TOPIC_UNCHECKED);
}

#else

/* -- weak ---------------------------------------------------------------------------------------
 */

static void weak_lines(uint32_t flags, bool loads_too)
{
	topics_make(flags);
	for (int round = 0; round < 5000; round++) {
		weak_begin(topics[0]->memory.base, views[0], topics[0]->memory.bytes, loads_too);
		write_all();
		do {
			struct progress line;

			line_read(0, &line);
			line_check(0, &line, false);
		} while (weak_apply());
		weak_end();
		lines_check();
		cr_assert_str_empty(wrong, "round %d: %s", round, wrong);
	}
}

Test(group, reordered_stores_of_a_checked_line_leave_nothing_out)
{
	weak_lines(0, false);
}

Test(group, reordered_stores_of_an_unchecked_line_leave_nothing_out)
{
	weak_lines(TB_TOPIC_UNCHECKED, false);
}

Test(group, reordered_loads_of_an_unchecked_line_leave_nothing_out)
{
	weak_lines(TB_TOPIC_UNCHECKED, true);
}

#endif

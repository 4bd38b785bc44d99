/* SPDX-License-Identifier: Apache-2.0 */
/* What subscribers that are stopped cost one that sleeps beside them: nothing that can be counted.
 *
 * The control thread, which wakes it, is followed (ptrace) from one sleep of its own to the next:
 * when it hears that the subscriber sleeps, and when a flush has something for it. Beside stopped
 * ones it makes the same system calls, one by one: as many turns, as many sends, and waits for
 * nothing. And it has sent the wake after as many instructions, but for a look at each of them: a
 * measure of their pace that is the same on any machine.
 *
 * To a publisher, stopped is who joined and is not heard of: so they are subscribers that nobody
 * polls. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "publisher/publisher.h"
#include "subscriber/subscriber.h"
#include "tests/faults/trace.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define SLOTS       8192  /* so that no record of these takes a step, and each is one flush */
#define STALE_MS    60000 /* nobody does anything by itself */
#define STOPPED_MAX 4
#define CALLS_MAX   64
#define STEPS_MAX   4000000
#define WARM        2 /* rounds, in which symbols are bound and who was asleep is woken */
#define PERCENT     5 /* of the instructions: what each that is stopped may cost at most */

static pid_t process, control;
static int go; /* a byte: publish one more record */

/* -- the publisher ------------------------------------------------------------------------------
 */

static void publisher_live(int orders, int ready)
{
	struct tb_publisher *publisher = scene_publisher_of("shm", STALE_MS);
	struct tb_topic *topic = scene_topic(publisher, "t", SLOTS, 0);
	const struct itimerspec never = { .it_value = { 0, 0 } };
	uint64_t sequence = 1;
	char byte;

	scene_publish(topic, 1, 1);
	/* A pulse in the middle would be counted, too. */
	if (timerfd_settime(publisher->timer_fd, 0, &never, NULL) < 0 || write(ready, "r", 1) != 1)
		_exit(1);
	for (; read(orders, &byte, 1) == 1; sequence++)
		scene_publish(topic, sequence + 1, sequence + 1);
	pause();
}

/* The one thread that is not the first. */
static pid_t other_thread(pid_t of)
{
	char path[64];
	struct dirent *entry;
	DIR *folder;
	pid_t found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", of);
	folder = opendir(path);
	cr_assert_not_null(folder);
	while ((entry = readdir(folder)) != NULL) {
		const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

		if (thread > 0 && thread != of) {
			cr_assert_eq(found, 0, "expected one control thread");
			found = thread;
		}
	}
	closedir(folder);
	cr_assert_neq(found, 0);
	return found;
}

static void enter(void)
{
	int orders[2], ready[2];
	char byte;

	scene_enter();
	if (!trace_may())
		cr_skip("this user may not follow its own processes (ptrace)");
	cr_assert(pipe(orders) == 0 && pipe(ready) == 0);
	process = fork();
	cr_assert_geq(process, 0);
	if (process == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(orders[1]);
		close(ready[0]);
		publisher_live(orders[0], ready[1]);
		_exit(0);
	}
	close(orders[0]);
	close(ready[1]);
	go = orders[1];
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	control = other_thread(process);
}

static void leave(void)
{
	if (process > 0) {
		kill(process, SIGKILL);
		waitpid(control, NULL, __WALL); /* where the test ended while it was followed */
		waitpid(process, NULL, 0);
		close(go);
	}
	scene_leave();
}

TestSuite(neighbour_cost, .init = enter, .fini = leave, .timeout = 60);

/* -- subscribers --------------------------------------------------------------------------------
 */

struct reader {
	struct tb_subscriber *subscriber;
	struct notes notes;
};

static bool was_sent_something(const struct reader *reader)
{
	struct pollfd link = { .fd = reader->subscriber->ops->link_fd(reader->subscriber->link),
			       .events = POLLIN };

	return poll(&link, 1, 0) == 1;
}

/* Records and messages; without a sleep in between, which would be heard of. */
static void read_to(struct reader *reader, uint64_t last)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (reader->notes.last < last || was_sent_something(reader)) {
		cr_assert_geq(tb_poll(reader->subscriber, 1000), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms);
	}
}

static void reader_join(struct reader *reader, uint64_t last, bool sleeps)
{
	reader->notes.quiet = true;
	reader->subscriber = scene_subscriber("shm", 0);
	scene_subscribe(reader->subscriber, "t", TB_FROM_OLDEST, &reader->notes);
	read_to(reader, last);
	if (sleeps)
		cr_assert_geq(tb_wait(reader->subscriber, 0), 0, "%s", tb_error());
}

static void reader_leave(struct reader *reader)
{
	tb_subscriber_close(reader->subscriber);
	notes_free(&reader->notes);
}

/* -- the control thread -------------------------------------------------------------------------
 */

struct calls {
	uint64_t number[CALLS_MAX];
	unsigned int count;
};

/* Looking whether there is something is no sleep. */
static bool sleeps(uint64_t call, const uint64_t given[6])
{
#ifdef SYS_epoll_wait
	if (call == SYS_epoll_wait)
		return (int)given[3] != 0;
#endif
	return call == SYS_epoll_pwait && (int)given[3] != 0;
}

/* Up to where it is about to sleep again. */
static void follow(struct calls *calls)
{
	uint64_t call, given[6];

	do {
		call = trace_call(control, given);
		cr_assert_lt(calls->count, CALLS_MAX, "it never sleeps");
		calls->number[calls->count++] = call;
	} while (!sleeps(call, given));
}

static void expect_same(const struct calls *a, const struct calls *b, const char *when)
{
	char words[CALLS_MAX * 8] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < b->count; i++)
		used += (size_t)snprintf(words + used, sizeof(words) - used, " %" PRIu64,
					 b->number[i]);
	cr_expect(a->count == b->count &&
			  memcmp(a->number, b->number, a->count * sizeof(a->number[0])) == 0,
		  "other system calls %s: %u, alone %u:%s", when, b->count, a->count, words);
}

/* What a round took: the calls of either turn; the steps of the second until the wake was sent,
 * where they are counted instead of its calls. */
struct round {
	struct calls hears, wakes;
	unsigned int steps;
};

static void publish(void)
{
	cr_assert_eq(write(go, "p", 1), 1);
}

/* The one that is not stopped sleeps, is woken, and reads what there is. */
static void go_round(struct reader *reader, bool stepped, struct round *round)
{
	const uint64_t next = reader->notes.last + 1;

	*round = (struct round){ .steps = 0 };
	cr_assert_geq(tb_wait(reader->subscriber, 0), 0, "%s", tb_error());
	follow(&round->hears);
	cr_assert_not(was_sent_something(reader), "woken for nothing");
	publish();
	if (stepped) {
		trace_called(control);
		for (; !was_sent_something(reader) && round->steps < STEPS_MAX; round->steps++)
			trace_step(control);
	}
	follow(&round->wakes);
	cr_assert(was_sent_something(reader), "it was not woken in this turn");
	read_to(reader, next);
}

/* With these subscribers and no others; the last of rounds with calls, then one with steps. */
static void go_rounds(struct reader *reader, struct round *called, struct round *stepped)
{
	struct calls first = { .count = 0 };

	trace_begin(control);
	follow(&first); /* it was asleep when it was interrupted */
	for (int i = 0; i <= WARM; i++)
		go_round(reader, false, called);
	go_round(reader, true, stepped);
	trace_end(control, 0);
}

/* -- what holds ---------------------------------------------------------------------------------
 */

struct stopped {
	unsigned int awake, asleep; /* when they were stopped */
};

ParameterizedTestParameters(neighbour_cost, stopped_neighbours_add_no_turns_or_sends_to_a_wake)
{
	static struct stopped stopped[] = { { 1, 0 }, { 0, 1 }, { 2, 2 } };

	return cr_make_param_array(struct stopped, stopped, 3);
}

ParameterizedTest(struct stopped *stopped, neighbour_cost,
		  stopped_neighbours_add_no_turns_or_sends_to_a_wake)
{
	const unsigned int count = stopped->awake + stopped->asleep;
	struct reader reader = { .subscriber = NULL }, others[STOPPED_MAX] = { 0 };
	struct round alone, alone_stepped, beside, stepped;

	reader_join(&reader, 1, false);
	go_rounds(&reader, &alone, &alone_stepped);
	for (unsigned int i = 0; i < count; i++)
		reader_join(&others[i], reader.notes.last, i < stopped->asleep);
	go_rounds(&reader, &beside, &stepped);
	expect_same(&alone.hears, &beside.hears, "when it hears of the sleeper");
	expect_same(&alone.wakes, &beside.wakes, "when it wakes it");
	cr_expect_leq(stepped.steps * 100, alone_stepped.steps * (100 + PERCENT * count),
		      "%u instructions to the wake, alone %u", stepped.steps, alone_stepped.steps);
	for (unsigned int i = 0; i < count; i++)
		reader_leave(&others[i]);
	reader_leave(&reader);
}

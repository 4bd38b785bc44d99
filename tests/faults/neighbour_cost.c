/* SPDX-License-Identifier: Apache-2.0 */
/* What stopped subscribers cost a sleeping neighbour: no system call, and few instructions.
 *
 * The control thread wakes sleepers. The test follows it (ptrace) from one sleep to the next: when
 * the subscriber announces its sleep, and when a flush has records for it. With stopped neighbours
 * the control thread makes the same system calls in the same order: as many turns and sends. It
 * sends the wake after as many instructions, plus a look at each neighbour. Instructions are a
 * measure of pace that is the same on any machine.
 *
 * The publisher sees a stopped subscriber as a subscriber that joined and stays silent. So the
 * stopped subscribers here are never polled. */
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

#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/faults/trace.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define SLOTS       8192  /* so many that no record here reserves a step: each is one flush */
#define STALE_MS    60000 /* so long that no timer runs meanwhile */
#define STOPPED_MAX 4
#define CALLS_MAX   64
#define TURNS_MAX   20
#define STEPS_MAX   4000000
#define TRIES       5
#define WARM        2 /* first rounds, not counted: symbols are bound, sleepers woken */
#define PERCENT     5 /* of the instructions: what a stopped neighbour may cost at most */

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
	/* Without pulses: their system calls would be counted. */
	if (timerfd_settime(publisher->timer_fd, 0, &never, NULL) < 0 || write(ready, "r", 1) != 1)
		_exit(1);
	for (; read(orders, &byte, 1) == 1; sequence++)
		scene_publish(topic, sequence + 1, sequence + 1);
	pause();
}

/* The control thread: a process's only other thread. */
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
			cr_assert_eq(found, 0, "found two threads, expected one control thread");
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
		waitpid(control, NULL, __WALL); /* needed if the test ended while following it */
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

static bool has_message(const struct reader *reader)
{
	struct pollfd link = { .fd = reader->subscriber->ops->link_fd(reader->subscriber->link),
			       .events = POLLIN };

	return poll(&link, 1, 0) == 1;
}

/* Reads records and messages without sleeping: a sleep would send a message. */
static void read_to(struct reader *reader, uint64_t last)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (reader->notes.last < last || has_message(reader)) {
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

/* A wait with timeout 0 is no sleep. */
static bool sleeps(uint64_t call, const uint64_t arguments[6])
{
#ifdef SYS_epoll_wait
	if (call == SYS_epoll_wait)
		return (int)arguments[3] != 0;
#endif
	return call == SYS_epoll_pwait && (int)arguments[3] != 0;
}

/* Follows the control thread until it is about to sleep. */
static void follow(struct calls *calls)
{
	uint64_t call, arguments[6];

	do {
		call = trace_call(control, arguments);
		cr_assert_lt(calls->count, CALLS_MAX, "the control thread never sleeps");
		calls->number[calls->count++] = call;
	} while (!sleeps(call, arguments));
}

static bool same(const struct calls *a, const struct calls *b)
{
	return a->count == b->count &&
	       memcmp(a->number, b->number, a->count * sizeof(a->number[0])) == 0;
}

/* On a busy machine a turn with another cause may fall into a round, and adds calls to it. */
static void keep_fewer(struct calls *kept, const struct calls *again)
{
	if (again->count < kept->count)
		*kept = *again;
}

static void expect_same(const struct calls *a, const struct calls *b, const char *when)
{
	char found[CALLS_MAX * 8] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < b->count; i++)
		used += (size_t)snprintf(found + used, sizeof(found) - used, " %" PRIu64,
					 b->number[i]);
	cr_expect(same(a, b), "found other system calls %s: %u, %u without neighbours:%s", when,
		  b->count, a->count, found);
}

/* The system calls of the two turns of a round. In a stepped round, the instructions of the second
 * turn until the wake is sent. */
struct round {
	struct calls arms, wakes;
	unsigned int steps;
};

static void publish(void)
{
	cr_assert_eq(write(go, "p", 1), 1);
}

/* The reader goes to sleep. On a busy machine the wake for a record may come after the reader has
 * read it. Then turns follow until no message is left, and the reader goes to sleep again. */
static void go_to_sleep(struct reader *reader, struct calls *arms)
{
	struct calls rest;

	for (unsigned int turns = 0; turns < TURNS_MAX; turns++) {
		arms->count = 0;
		cr_assert_geq(tb_wait(reader->subscriber, 0), 0, "%s", tb_error());
		follow(arms);
		if (!has_message(reader))
			return;
		do {
			read_to(reader, reader->notes.last);
			rest.count = 0;
			follow(&rest);
		} while (has_message(reader));
	}
	cr_assert_fail("woken without a record in %u turns", TURNS_MAX);
}

/* The reader sleeps, is woken, and reads. */
static void go_round(struct reader *reader, bool stepped, struct round *round)
{
	const uint64_t next = reader->notes.last + 1;

	*round = (struct round){ .steps = 0 };
	go_to_sleep(reader, &round->arms);
	publish();
	if (stepped) {
		trace_called(control);
		for (; !has_message(reader) && round->steps < STEPS_MAX; round->steps++)
			trace_step(control);
	}
	follow(&round->wakes);
	/* On a busy machine the record may come after a turn that had another cause. */
	for (unsigned int turns = 0; turns < TURNS_MAX && !has_message(reader); turns++) {
		round->wakes.count = 0;
		follow(&round->wakes);
	}
	cr_assert(has_message(reader), "the reader was not woken in %u turns", TURNS_MAX);
	read_to(reader, next);
}

/* Rounds with the present subscribers: the last of those that count calls, then a stepped round. */
static void go_rounds(struct reader *reader, struct round *called, struct round *stepped)
{
	struct calls first = { .count = 0 };

	trace_begin(control);
	follow(&first); /* the sleep that the trace interrupted */
	for (int i = 0; i <= WARM; i++)
		go_round(reader, false, called);
	go_round(reader, true, stepped);
	trace_end(control, 0);
}

/* -- what must hold -----------------------------------------------------------------------------
 */

/* How many neighbours are stopped while awake, and while asleep. */
struct stopped {
	unsigned int awake, asleep;
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
	struct round alone, again, alone_stepped, neighboured, stepped;
	unsigned int bound;

	reader_join(&reader, 1, false);
	go_rounds(&reader, &alone, &alone_stepped);
	for (int tries = 1; tries < TRIES; tries++) {
		go_rounds(&reader, &again, &alone_stepped);
		keep_fewer(&alone.arms, &again.arms);
		keep_fewer(&alone.wakes, &again.wakes);
	}
	for (unsigned int i = 0; i < count; i++)
		reader_join(&others[i], reader.notes.last, i < stopped->asleep);
	bound = alone_stepped.steps * (100 + PERCENT * count) / 100;
	for (int tries = 0; tries < TRIES; tries++) {
		go_rounds(&reader, &neighboured, &stepped);
		if (same(&alone.arms, &neighboured.arms) &&
		    same(&alone.wakes, &neighboured.wakes) && stepped.steps <= bound)
			break;
	}
	expect_same(&alone.arms, &neighboured.arms, "when a subscriber sleeps");
	expect_same(&alone.wakes, &neighboured.wakes, "when it is woken");
	cr_expect_leq(stepped.steps, bound,
		      "found %u instructions to the wake, %u without neighbours", stepped.steps,
		      alone_stepped.steps);
	for (unsigned int i = 0; i < count; i++)
		reader_leave(&others[i]);
	reader_leave(&reader);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A join costs the same beside many joins as beside few: it walks no list of joins or topics.
 *
 * A child has both sides in one thread. The test steps it, instruction by instruction, from the
 * request for a topic's description to the grant. */
#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "publisher/publisher.h"
#include "publisher/server.h"
#include "tests/faults/trace.h"
#include "tests/unit/publisher/client.h"

#define FEW       8
#define MANY      1000
#define PERCENT   5 /* that may be more */
#define TRIES     3
#define STEPS_MAX 4000000

enum phase { BEFORE, READY, JOINING, DONE };

static _Atomic int *phase; /* shared with the child */

TestSuite(join, .init = scene_enter, .fini = scene_leave, .timeout = 240);

static void take_turn(void)
{
	server_turn(publisher);
}

static void join_named(uint32_t id)
{
	char name[16];

	snprintf(name, sizeof(name), "t%03u", id);
	cr_assert_eq(join(&client, id, epoch_of(name))->type, CONTROL_GRANT);
}

/* Joins all topics but the last, says that it is ready, and then joins the last. */
static void child_run(uint32_t topics)
{
	const struct tb_publisher_options options = {
		.size = sizeof(options), .name = "test", .stale_ms = 60000, .topics_max = MANY
	};
	char name[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ops = fabric_find("shm:test", &address);
	if (publisher_open(&publisher, &options) < 0)
		_exit(1);
	client_meanwhile = take_turn;
	client_open(&client);
	for (uint32_t id = 1; id <= topics; id++) {
		snprintf(name, sizeof(name), "t%03u", id);
		scene_topic(publisher, name, 64, 0);
	}
	for (uint32_t id = 1; id < topics; id++)
		join_named(id);
	*phase = READY;
	while (*phase == READY)
		;
	join_named(topics);
	*phase = DONE;
	for (;;)
		pause();
}

static long steps_of_a_join(uint32_t topics)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	long steps = 0;
	pid_t child;

	*phase = BEFORE;
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0)
		child_run(topics);
	while (*phase == BEFORE) {
		cr_assert_lt(scene_now_ms(), late_ms, "%u topics were not joined", topics);
		cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the child ended");
		usleep(1000);
	}
	trace_begin(child);
	*phase = JOINING;
	for (; *phase != DONE && steps < STEPS_MAX; steps++)
		trace_step(child);
	kill(child, SIGKILL);
	waitpid(child, NULL, __WALL);
	return steps;
}

Test(join, costs_the_same_beside_many_joins)
{
	long few, many = LONG_MAX, bound;

	if (!trace_may())
		cr_skip("this user may not follow its own processes (ptrace)");
	phase = mmap(NULL, sizeof(*phase), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	cr_assert_neq(phase, MAP_FAILED);
	few = steps_of_a_join(FEW);
	cr_assert_gt(few, 1000, "a join of %ld instructions was not seen", few);
	bound = few + few * PERCENT / 100;
	/* On a busy machine a pulse that is due may fall into the steps. */
	for (int tries = 0; tries < TRIES && many > bound; tries++)
		many = steps_of_a_join(MANY);
	cr_expect_leq(many, bound, "%ld instructions beside %d joins, %ld beside %d", many, MANY,
		      few, FEW);
	munmap(phase, sizeof(*phase));
}

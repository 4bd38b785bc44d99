/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher that is stopped, or killed, between two given instructions of a publish: in the
 * middle of a slot, or of the progress line. It is stepped there, and the shared memory is looked
 * at after each step, so the moment is exact.
 *
 * Stopped: stale within the bound, live when it goes on, nothing lost. Killed: what was published
 * is delivered, stale, and its successor is found with a restart. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subscriber/subscriber.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define RECORDS     300 /* all of which the ring holds */
#define SLOTS       512
#define STEPS_MAX   4000000
#define STALE_MS    400  /* scene_publisher's */
#define REPORTED_MS 1000 /* stale has to be told by then, on a busy machine too */
#define TIMES       4    /* each place, at random sequences */

enum place_in_publish { IN_SLOT, IN_LINE };

static uint64_t state;

static void enter(void)
{
	scene_enter();
	state = random_seed();
}

TestSuite(hung, .init = enter, .fini = scene_leave, .timeout = 120);

/* -- the publisher ------------------------------------------------------------------------------
 */

struct victim {
	pid_t pid;
	int go;    /* a byte: publish; closed: end */
	int ready; /* a byte: the topic is there */
};

static void victim_live(int go, int ready)
{
	struct tb_publisher *publisher = scene_publisher("shm");
	struct tb_topic *topic = scene_topic(publisher, "t", SLOTS, 0);
	char byte = 'r';

	if (write(ready, &byte, 1) != 1)
		_exit(1);
	while (read(go, &byte, 1) == 1)
		scene_publish(topic, 1, RECORDS);
	tb_topic_end(topic);
	pause(); /* until it is killed: the subscriber reads to the end first */
}

static void victim_begin(struct victim *victim)
{
	int go[2], ready[2];
	char byte;

	cr_assert(pipe(go) == 0 && pipe(ready) == 0);
	victim->pid = fork();
	cr_assert_geq(victim->pid, 0);
	if (victim->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* an assertion may end the test before us */
		close(go[1]);
		close(ready[0]);
		victim_live(go[0], ready[1]);
		_exit(0);
	}
	close(go[0]);
	close(ready[1]);
	victim->go = go[1];
	victim->ready = ready[0];
	cr_assert_eq(read(victim->ready, &byte, 1), 1);
}

static void victim_end(struct victim *victim)
{
	kill(victim->pid, SIGKILL);
	waitpid(victim->pid, NULL, 0);
	if (victim->go >= 0)
		close(victim->go);
	close(victim->ready);
}

/* -- stepping -----------------------------------------------------------------------------------
 */

static const struct place *place_of(const struct tb_subscriber *subscriber)
{
	cr_assert_not_null(subscriber->table[0], "nothing was joined");
	return &subscriber->table[0]->place;
}

/* Whether the line says `head` or more; *broken: it is being written. */
static bool line_reached(const struct place *place, uint64_t head, bool *broken)
{
	struct progress progress;

	progress_load(
		(const struct progress_line *)(const void *)(place->view + place->layout.progress),
		&progress);
	*broken = progress_verify(&progress, place->shape.epoch, place->shape.slots,
				  place->shape.capacity, true, place->progress_salt) < 0;
	return progress.head >= head;
}

static const _Atomic uint64_t *slot_words(const struct place *place, uint64_t sequence)
{
	return (const _Atomic uint64_t *)(const void *)(place->view + place->layout.ring +
							(sequence & (SLOTS - 1)) *
								place->shape.slot_bytes);
}

/* Whether a slot behind `head` has a part of its body and no sequence yet. */
static bool slot_is_busy(const struct place *place, uint64_t head)
{
	for (uint64_t n = head + 1; n < head + 3; n++)
		if (slot_words(place, n)[0] == 0 && slot_words(place, n)[1] != 0)
			return true;
	return false;
}

static void step(pid_t pid)
{
	int status;

	cr_assert_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	cr_assert_eq(waitpid(pid, &status, __WALL), pid);
	cr_assert(WIFSTOPPED(status), "the publisher ended under the test");
}

/* Steps the publishing thread until it is in the middle of writing, at a random sequence. */
static void step_into(const struct victim *victim, const struct place *place,
		      enum place_in_publish where)
{
	const uint64_t from = 1 + random_below(&state, 20);
	bool broken = false, there = false;

	cr_assert_eq(ptrace(PTRACE_SEIZE, victim->pid, NULL, NULL), 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, victim->pid, NULL, NULL), 0);
	cr_assert_eq(waitpid(victim->pid, NULL, __WALL), victim->pid);
	cr_assert_eq(write(victim->go, "g", 1), 1);
	for (int i = 0; i < STEPS_MAX && !there; i++) {
		step(victim->pid);
		if (line_reached(place, from, &broken))
			there = where == IN_LINE ? broken : slot_is_busy(place, from);
	}
	cr_assert(there, "no such moment in %d steps", STEPS_MAX);
}

/* The last record whose slot is whole. */
static uint64_t whole_slots(const struct place *place)
{
	uint64_t n = 0;

	while (n < RECORDS && slot_words(place, n + 1)[0] == n + 1)
		n++;
	return n;
}

static bool may_trace(void)
{
	const pid_t pid = fork();
	int status;
	bool may;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	may = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
	kill(pid, SIGKILL);
	waitpid(pid, &status, __WALL);
	return may;
}

/* Polls until the flag is set; the time it took. */
static uint64_t poll_while(struct tb_subscriber *subscriber, const bool *flag)
{
	const uint64_t began_ms = scene_now_ms();

	cr_assert(scene_poll_while(subscriber, flag));
	return scene_now_ms() - began_ms;
}

static struct tb_subscriber *join(struct notes *notes)
{
	struct tb_subscriber *subscriber = scene_subscriber("shm", 0);

	notes->quiet = true;
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, notes);
	return subscriber;
}

/* -- what holds ---------------------------------------------------------------------------------
 */

static void stop_and_go_on(enum place_in_publish where)
{
	struct notes notes = { 0 };
	struct victim victim;
	struct tb_subscriber *subscriber;
	int status;

	victim_begin(&victim);
	subscriber = join(&notes);
	step_into(&victim, place_of(subscriber), where);
	/* It stops before its next instruction, and its other thread with it. */
	cr_assert_eq(ptrace(PTRACE_DETACH, victim.pid, NULL, SIGSTOP), 0);
	cr_assert_eq(waitpid(victim.pid, &status, WUNTRACED), victim.pid);
	cr_assert(WIFSTOPPED(status));
	cr_expect_leq(poll_while(subscriber, &notes.stale), REPORTED_MS);
	kill(victim.pid, SIGCONT);
	poll_while(subscriber, &notes.live);
	close(victim.go);
	victim.go = -1;
	poll_while(subscriber, &notes.ended);
	cr_expect_eq(notes.records, RECORDS);
	cr_expect_eq(notes.lost + notes.wrong, 0);
	tb_subscriber_close(subscriber);
	victim_end(&victim);
	notes_free(&notes);
}

static void kill_and_begin_again(enum place_in_publish where)
{
	struct notes notes = { 0 };
	struct victim victim, successor;
	struct tb_subscriber *subscriber;
	uint64_t whole;

	victim_begin(&victim);
	subscriber = join(&notes);
	step_into(&victim, place_of(subscriber), where);
	whole = whole_slots(place_of(subscriber));
	victim_end(&victim);
	cr_expect_leq(poll_while(subscriber, &notes.stale), REPORTED_MS);
	cr_expect_eq(notes.records, whole);
	victim_begin(&successor);
	poll_while(subscriber, &notes.restarted);
	cr_assert_eq(write(successor.go, "g", 1), 1);
	cr_assert(scene_poll_until(subscriber, &notes.records, whole + RECORDS));
	cr_expect_eq(notes.lost + notes.wrong, 0);
	tb_subscriber_close(subscriber);
	victim_end(&successor);
	notes_free(&notes);
}

ParameterizedTestParameters(hung, in_the_middle_of_a_publish_is_stale_then_live_and_nothing_is_lost)
{
	static enum place_in_publish where[] = { IN_SLOT, IN_LINE };

	return cr_make_param_array(enum place_in_publish, where, 2);
}

ParameterizedTest(enum place_in_publish *where, hung,
		  in_the_middle_of_a_publish_is_stale_then_live_and_nothing_is_lost)
{
	if (!may_trace())
		cr_skip("this user may not step its own processes (ptrace)");
	for (int i = 0; i < TIMES; i++)
		stop_and_go_on(*where);
}

ParameterizedTestParameters(hung, killed_in_the_middle_of_a_publish_its_successor_is_found)
{
	static enum place_in_publish where[] = { IN_SLOT, IN_LINE };

	return cr_make_param_array(enum place_in_publish, where, 2);
}

ParameterizedTest(enum place_in_publish *where, hung,
		  killed_in_the_middle_of_a_publish_its_successor_is_found)
{
	if (!may_trace())
		cr_skip("this user may not step its own processes (ptrace)");
	for (int i = 0; i < TIMES; i++)
		kill_and_begin_again(*where);
}

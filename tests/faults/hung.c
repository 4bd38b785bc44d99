/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher that is stopped or killed while it writes a slot, a slot that still holds an older
 * record, or the progress line. The test steps the publisher instruction by instruction and reads
 * the shared memory after each step, so the moment is exact.
 *
 * Stopped: the topic is stale within the bound and live afterwards; no record that the ring holds
 * is lost. Killed: published records are delivered, the topic is stale, and the successor's records
 * follow a restart. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/progress.h"
#include "bus/words.h"
#include "subscriber/state.h"
#include "tests/faults/trace.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define RECORDS    300 /* fit in the ring */
#define SLOTS      512
#define LAP        64 /* slots of a small ring */
#define LATER      24 /* records of its second lap */
#define LOOKS      1000
#define STEPS_MAX  4000000
#define STALE_MS   1000 /* the bound, for a reader that polls in time */
#define SLOT_WORDS (SLOT_BYTES_MIN / 8)
#define TIMES      4 /* rounds for each position, at random sequences */

enum position { IN_SLOT, IN_LINE };

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
	int go;    /* a number: publish up to it; closed: end */
	int ready; /* a byte: the topic exists */
};

static void victim_live(int go, int ready, uint32_t slots)
{
	struct tb_publisher *publisher = scene_publisher_of("shm", STALE_MS);
	struct tb_topic *topic = scene_topic(publisher, "t", slots, 0);
	uint64_t published = 0, to;

	if (write(ready, "r", 1) != 1)
		_exit(1);
	for (; read(go, &to, sizeof(to)) == sizeof(to); published = to)
		scene_publish(topic, published + 1, to);
	tb_topic_end(topic);
	pause(); /* until it is killed: the subscriber reads to the end first */
}

static void victim_begin(struct victim *victim, uint32_t slots)
{
	int go[2], ready[2];
	char byte;

	cr_assert(pipe(go) == 0 && pipe(ready) == 0);
	victim->pid = fork();
	cr_assert_geq(victim->pid, 0);
	if (victim->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* an assertion may end the test first */
		close(go[1]);
		close(ready[0]);
		victim_live(go[0], ready[1], slots);
		_exit(0);
	}
	close(go[0]);
	close(ready[1]);
	victim->go = go[1];
	victim->ready = ready[0];
	cr_assert_eq(read(victim->ready, &byte, 1), 1);
}

static void victim_publish(const struct victim *victim, uint64_t to)
{
	cr_assert_eq(write(victim->go, &to, sizeof(to)), (ssize_t)sizeof(to));
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

static const struct mapping *mapping_of(const struct tb_subscriber *subscriber)
{
	cr_assert_not_null(subscriber->table[0], "no topic was joined");
	return &subscriber->table[0]->mapping;
}

/* Whether the progress line's head is `head` or more. *broken: the line is being written. */
static bool line_reached(const struct mapping *mapping, uint64_t head, bool *broken)
{
	struct progress progress;

	progress_load((const struct progress_line *)(const void *)(mapping->view +
								   mapping->layout.progress),
		      &progress);
	*broken = progress_verify(&progress, &mapping->shape, mapping->progress_salt) < 0;
	return progress.head >= head;
}

static const _Atomic uint64_t *slot_words(const struct mapping *mapping, uint64_t sequence)
{
	return (const _Atomic uint64_t *)(const void *)(mapping->view + mapping->layout.ring +
							(sequence & (mapping->shape.slots - 1)) *
								mapping->shape.slot_bytes);
}

/* Whether a slot behind `head` has part of a record but no sequence yet. */
static bool slot_is_busy(const struct mapping *mapping, uint64_t head)
{
	for (uint64_t n = head + 1; n < head + 3; n++)
		if (slot_words(mapping, n)[0] == 0 && slot_words(mapping, n)[1] != 0)
			return true;
	return false;
}

/* How many 8-byte words of a busy slot's record differ from what the slot held. UINT32_MAX: the
 * slot is not busy. */
static unsigned int slot_words_new(const struct mapping *mapping, uint64_t sequence,
				   const uint64_t held[SLOT_WORDS])
{
	const _Atomic uint64_t *words = slot_words(mapping, sequence);
	unsigned int count = 0;

	for (size_t i = 1; i < SLOT_WORDS && words[0] == 0; i++)
		count += words[i] != held[i];
	return words[0] == 0 ? count : UINT32_MAX;
}

static void step_begin(const struct victim *victim, uint64_t to)
{
	trace_begin(victim->pid);
	victim_publish(victim, to);
}

/* Steps the publishing thread into the middle of a write, at a random sequence. */
static void step_into(const struct victim *victim, const struct mapping *mapping,
		      enum position where)
{
	const uint64_t from = 1 + random_below(&state, 20);
	bool broken = false, reached = false;

	step_begin(victim, RECORDS);
	for (int i = 0; i < STEPS_MAX && !reached; i++) {
		trace_step(victim->pid);
		if (line_reached(mapping, from, &broken))
			reached = where == IN_LINE ? broken : slot_is_busy(mapping, from);
	}
	cr_assert(reached, "the publisher was not in the middle of a write in %d steps", STEPS_MAX);
}

/* Steps the publishing thread into the overwriting of a slot, until `words` words of it are new.
 * `reads` polls after each step, so that it reaches that slot and not the end of an earlier batch.
 */
static void step_over(const struct victim *victim, struct tb_subscriber *reads, uint64_t sequence,
		      unsigned int words)
{
	const struct mapping *mapping = mapping_of(reads);
	uint64_t held[SLOT_WORDS];
	bool reached = false;

	words_load(held, slot_words(mapping, sequence), sizeof(held));
	cr_assert_eq(held[0], sequence - LAP);
	step_begin(victim, LAP + LATER);
	for (int i = 0; i < STEPS_MAX && !reached; i++) {
		trace_step(victim->pid);
		cr_assert_geq(tb_poll(reads, 1), 0);
		reached = slot_words_new(mapping, sequence, held) == words;
	}
	cr_assert(reached, "the slot did not have %u new words in %d steps", words, STEPS_MAX);
}

/* Both threads of the publisher stop. */
static void stop(const struct victim *victim)
{
	int status;

	trace_end(victim->pid, SIGSTOP);
	cr_assert_eq(waitpid(victim->pid, &status, WUNTRACED), victim->pid);
	cr_assert(WIFSTOPPED(status));
}

/* The publisher finishes what it was asked to publish, and ends the topic. */
static void victim_finish(struct victim *victim)
{
	close(victim->go);
	victim->go = -1;
}

/* The last record whose slot is complete. */
static uint64_t whole_slots(const struct mapping *mapping)
{
	uint64_t n = 0;

	while (n < RECORDS && slot_words(mapping, n + 1)[0] == n + 1)
		n++;
	return n;
}

static struct tb_subscriber *join(struct notes *notes)
{
	struct tb_subscriber *subscriber = scene_subscriber("shm", 0);

	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, notes);
	return subscriber;
}

/* Called just after the publisher was stopped. One poll sees the last pulse, a later poll finds
 * that the pulse has stopped. Each is late by at most the longest time between two polls. */
static void expect_stale_in_time(struct tb_subscriber *subscriber, const struct notes *notes)
{
	const uint64_t since_ms = scene_now_ms();
	uint64_t now_ms = since_ms, gap_ms = 0;

	while (!notes->stale && now_ms < since_ms + deadline_ms()) {
		const uint64_t polled_ms = now_ms;

		cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
		now_ms = scene_now_ms();
		if (gap_ms < now_ms - polled_ms)
			gap_ms = now_ms - polled_ms;
	}
	cr_assert(notes->stale);
	cr_expect_leq(now_ms - since_ms, STALE_MS + 2 * gap_ms,
		      "stale after %" PRIu64 " ms, longest time between two polls %" PRIu64 " ms",
		      now_ms - since_ms, gap_ms);
}

/* -- stopped or killed while writing ------------------------------------------------------------
 */

static void stop_and_go_on(enum position where)
{
	struct notes notes = { .quiet = true };
	struct victim victim;
	struct tb_subscriber *subscriber;

	victim_begin(&victim, SLOTS);
	subscriber = join(&notes);
	step_into(&victim, mapping_of(subscriber), where);
	stop(&victim);
	expect_stale_in_time(subscriber, &notes);
	kill(victim.pid, SIGCONT);
	cr_assert(scene_poll_while(subscriber, &notes.live));
	victim_finish(&victim);
	cr_assert(scene_poll_while(subscriber, &notes.ended));
	cr_expect_eq(notes.records, RECORDS);
	cr_expect_eq(notes.lost + notes.wrong, 0);
	tb_subscriber_close(subscriber);
	victim_end(&victim);
	notes_free(&notes);
}

static void kill_and_begin_again(enum position where)
{
	struct notes notes = { .quiet = true };
	struct victim victim, successor;
	struct tb_subscriber *subscriber;
	uint64_t whole;

	victim_begin(&victim, SLOTS);
	subscriber = join(&notes);
	step_into(&victim, mapping_of(subscriber), where);
	whole = whole_slots(mapping_of(subscriber));
	victim_end(&victim);
	expect_stale_in_time(subscriber, &notes);
	cr_expect_eq(notes.records, whole);
	victim_begin(&successor, SLOTS);
	cr_assert(scene_poll_while(subscriber, &notes.restarted));
	victim_publish(&successor, RECORDS);
	cr_assert(scene_poll_until(subscriber, &notes.records, whole + RECORDS));
	cr_expect_eq(notes.lost + notes.wrong, 0);
	tb_subscriber_close(subscriber);
	victim_end(&successor);
	notes_free(&notes);
}

/* -- over an older record -----------------------------------------------------------------------
 */

struct reader {
	struct notes notes;
	struct tb_subscriber *subscriber;
};

static void reader_join(struct reader *reader, uint64_t read)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	*reader = (struct reader){ .subscriber = NULL };
	reader->subscriber = join(&reader->notes);
	while (reader->notes.records < read) {
		cr_assert_geq(tb_poll(reader->subscriber, (int)(read - reader->notes.records)), 0);
		cr_assert_lt(scene_now_ms(), until_ms);
	}
}

static void reader_leave(struct reader *reader)
{
	tb_subscriber_close(reader->subscriber);
	notes_free(&reader->notes);
}

/* Expects every record from 1 to `to` in order, with one gap in place of the records `first` to
 * `last`. Leaves the stale event out: its position depends on time. */
static void expect_notes(const struct reader *reader, uint64_t first, uint64_t last, uint64_t to)
{
	char *expected = NULL, *found = strdup(reader->notes.text), *stale;
	size_t bytes;
	FILE *stream = open_memstream(&expected, &bytes);

	cr_assert(stream && found);
	fprintf(stream, "appeared t 1\n");
	for (uint64_t n = 1; n <= to; n++) {
		if (n < first || n > last)
			fprintf(stream, "%" PRIu64 " %c update %" PRIu64 "\n", n, "BA"[n % 2], n);
		else if (n == last)
			fprintf(stream, "gap %" PRIu64 " %" PRIu64 " overrun\n", first, last);
	}
	fclose(stream);
	stale = strstr(found, "stale");
	if (stale) {
		const char *after = strchr(stale, '\n') + 1;

		memmove(stale, after, strlen(after) + 1);
	}
	cr_expect_str_eq(found, expected);
	free(expected);
	free(found);
}

/* The oldest record that is left. Reserved slots are given up too: at most a step beyond the record
 * that is being overwritten. */
static uint64_t oldest(const struct mapping *mapping, uint64_t busy)
{
	struct progress progress;

	progress_load((const struct progress_line *)(const void *)(mapping->view +
								   mapping->layout.progress),
		      &progress);
	cr_assert_eq(progress_verify(&progress, &mapping->shape, mapping->progress_salt), 0);
	cr_assert_eq(progress.head, busy - 1);
	cr_assert(progress.reserved >= busy && progress.reserved < busy + LAP / 8);
	return progress.reserved - LAP + 1;
}

/* `wants` waits for the record whose slot is being overwritten. `reads` has read up to the head. */
struct overwritten {
	struct victim victim;
	struct reader wants, reads;
	uint64_t old, busy, gap_last;
};

/* Polls until the topic is stale, and then many times more. */
static void reader_looks(struct reader *reader, uint64_t last)
{
	cr_assert(scene_poll_until(reader->subscriber, &reader->notes.last, last));
	cr_assert(scene_poll_while(reader->subscriber, &reader->notes.stale));
	for (int i = 0; i < LOOKS; i++)
		cr_assert_geq(tb_poll(reader->subscriber, 1000), 0);
}

/* Stops or kills the publisher while it overwrites a slot, and lets both readers read what is left.
 */
static void overwrite(struct overwritten *over, unsigned int words, bool killed)
{
	victim_begin(&over->victim, LAP);
	over->old = 2 + random_below(&state, LATER - 4);
	over->busy = over->old + LAP;
	victim_publish(&over->victim, LAP);
	reader_join(&over->reads, LAP);
	reader_join(&over->wants, over->old - 1);
	step_over(&over->victim, over->reads.subscriber, over->busy, words);
	over->gap_last = oldest(mapping_of(over->reads.subscriber), over->busy) - 1;
	if (killed)
		victim_end(&over->victim);
	else
		stop(&over->victim);
	reader_looks(&over->wants, over->busy - 1);
	reader_looks(&over->reads, over->busy - 1);
	expect_notes(&over->wants, over->old, over->gap_last, over->busy - 1);
	expect_notes(&over->reads, 0, 0, over->busy - 1);
}

static void reader_sees_the_end(struct reader *reader, uint64_t lost)
{
	cr_assert(scene_poll_while(reader->subscriber, &reader->notes.ended));
	cr_expect_eq(reader->notes.lost, lost);
	cr_expect_eq(reader->notes.records + lost, LAP + LATER);
	cr_expect_eq(reader->notes.wrong, 0);
	reader_leave(reader);
}

static void reader_sees_the_successor(struct reader *reader, uint64_t lost)
{
	cr_assert(scene_poll_while(reader->subscriber, &reader->notes.restarted));
	cr_expect_eq(reader->notes.lost, lost);
	reader_leave(reader);
}

ParameterizedTestParameters(hung, publisher_stopped_in_publish_is_stale_then_live)
{
	static enum position where[] = { IN_SLOT, IN_LINE };

	return cr_make_param_array(enum position, where, 2);
}

ParameterizedTest(enum position *where, hung, publisher_stopped_in_publish_is_stale_then_live)
{
	if (!trace_may())
		cr_skip("this user may not step its own processes (ptrace)");
	for (int i = 0; i < TIMES; i++)
		stop_and_go_on(*where);
}

ParameterizedTestParameters(hung, publisher_killed_in_publish_is_succeeded)
{
	static enum position where[] = { IN_SLOT, IN_LINE };

	return cr_make_param_array(enum position, where, 2);
}

ParameterizedTest(enum position *where, hung, publisher_killed_in_publish_is_succeeded)
{
	if (!trace_may())
		cr_skip("this user may not step its own processes (ptrace)");
	for (int i = 0; i < TIMES; i++)
		kill_and_begin_again(*where);
}

/* How many of the two words in which the records differ, payload and check, are written. */
ParameterizedTestParameters(hung, publisher_stopped_while_overwriting_loses_old_records_only)
{
	static unsigned int words[] = { 0, 1, 2 };

	return cr_make_param_array(unsigned int, words, 3);
}

ParameterizedTest(unsigned int *words, hung,
		  publisher_stopped_while_overwriting_loses_old_records_only)
{
	struct overwritten over;

	if (!trace_may())
		cr_skip("this user may not step its own processes (ptrace)");
	for (int i = 0; i < TIMES / 2; i++) {
		overwrite(&over, *words, false);
		kill(over.victim.pid, SIGCONT);
		cr_assert(scene_poll_while(over.wants.subscriber, &over.wants.notes.live));
		cr_assert(scene_poll_while(over.reads.subscriber, &over.reads.notes.live));
		victim_finish(&over.victim);
		reader_sees_the_end(&over.wants, over.gap_last - over.old + 1);
		reader_sees_the_end(&over.reads, 0);
		victim_end(&over.victim);
	}
}

ParameterizedTestParameters(hung, publisher_killed_while_overwriting_loses_old_records_only)
{
	static unsigned int words[] = { 0, 1, 2 };

	return cr_make_param_array(unsigned int, words, 3);
}

ParameterizedTest(unsigned int *words, hung,
		  publisher_killed_while_overwriting_loses_old_records_only)
{
	struct overwritten over;
	struct victim successor;

	if (!trace_may())
		cr_skip("this user may not step its own processes (ptrace)");
	for (int i = 0; i < TIMES / 2; i++) {
		overwrite(&over, *words, true);
		victim_begin(&successor, LAP);
		reader_sees_the_successor(&over.wants, over.gap_last - over.old + 1);
		reader_sees_the_successor(&over.reads, 0);
		victim_end(&successor);
	}
}

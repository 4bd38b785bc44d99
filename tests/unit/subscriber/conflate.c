/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of conflation against a model. Its writer has a small ring, and slots that are torn
 * while they are written. Its reader does what pull_conflate.c does, step by step.
 *
 * A history is a row of choices. All small histories are tried, larger histories are drawn. After
 * each step the model compares the accounts with what was delivered. At the end of each interval it
 * looks for the newest value of each instrument. */
#include "subscriber/conflate.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "subscriber/reader.h"
#include "tests/support/random.h"
#include "tests/support/tape.h"

#define INSTRUMENTS 3
#define RECORDS     60
#define SLOTS       8 /* of the ring */
#define DRAWN       100000
#define STEPS       90  /* of a drawn history */
#define TAPE        17  /* choices of a small history */
#define REST        600 /* steps in which all is delivered once nothing disturbs it */

static struct tape tape = { .length = TAPE };

static unsigned int choose(unsigned int bound)
{
	return tape_choose(&tape, bound);
}

/* -- the writer ------------------------------------------------------------------------------- */

static struct {
	struct record record[RECORDS + 1]; /* header only */
	uint64_t begun;              /* the last record that was begun: its ring slot may be torn */
	uint64_t ring;               /* the last record that is whole in the ring */
	uint64_t head;               /* of the line */
	uint64_t value[INSTRUMENTS]; /* sequence in the slot; 0: never written */
	bool torn[INSTRUMENTS], corrupt[INSTRUMENTS];
	bool owed; /* the slot of the last record's value was not touched yet */
} writer;

static bool is_value(uint64_t n)
{
	return record_is_value(writer.record[n].kind, writer.record[n].flags);
}

static void record_begin(uint32_t instrument, uint8_t kind)
{
	struct record *record = &writer.record[++writer.begun];

	record->sequence = writer.begun;
	record->instrument = instrument;
	record->kind = kind;
	writer.owed = is_value(writer.begun);
}

/* The writer comes to the value behind the ring. */
static void value_begin(void)
{
	if (writer.owed)
		writer.torn[writer.record[writer.begun].instrument] = true;
	writer.owed = false;
}

static void value_end(void)
{
	const uint32_t i = writer.record[writer.begun].instrument;

	value_begin();
	if (writer.torn[i])
		writer.value[i] = writer.begun;
	writer.torn[i] = false;
}

static void record_end(void)
{
	value_end();
	writer.ring = writer.begun;
}

/* Record by record. The ring may show a record before its value is begun, or whole. The line comes
 * later, or much later. */
static void write_any(void)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_CLEAR, TB_KIND_CANCEL,
					 TB_KIND_USER, TB_KIND_HOLE };

	if (writer.begun > writer.ring && choose(2)) {
		writer.ring = writer.begun;
	} else if (writer.owed && choose(2)) {
		value_begin();
	} else if (writer.owed || writer.begun > writer.ring ||
		   writer.torn[writer.record[writer.begun].instrument]) {
		record_end();
	} else if (choose(3) == 0) {
		writer.head = writer.ring;
	} else if (writer.begun < RECORDS - 10) {
		record_begin(choose(tape.drawn ? INSTRUMENTS : 2),
			     kinds[choose(tape.drawn ? sizeof(kinds) : 2)]);
		if (choose(2) == 0)
			record_end();
	}
}

static void write_whole(uint32_t instrument, uint8_t kind)
{
	if (writer.begun > 0)
		record_end();
	record_begin(instrument, kind);
	record_end();
	writer.head = writer.ring;
}

/* The writer may be in the slot of the record behind `begun`. */
static uint64_t oldest(void)
{
	return writer.begun >= SLOTS ? writer.begun - SLOTS + 1 : 1;
}

/* -- the reader ------------------------------------------------------------------------------- */

static uint64_t exempt[EXEMPT_KIND_WORDS];

static struct {
	struct conflate *conflate;
	uint64_t position, floor, now_ns;
	uint64_t records, skipped, lost; /* the accounts */
	bool delivered[RECORDS + 1];     /* not as an image record */
	bool imaged[RECORDS + 1];
	uint64_t last[INSTRUMENTS]; /* value that the program has */
	bool known[INSTRUMENTS];    /* some record of it was delivered */
	unsigned int in_interval[INSTRUMENTS];
	uint32_t at;                    /* the pass goes on with this slot */
	uint64_t cleared[INSTRUMENTS];  /* a copy was a clear of an unknown instrument */
	uint64_t exempted[INSTRUMENTS]; /* a copy was ahead, and waits for the ring */
	uint64_t ends_at;               /* the position or head that the interval covers */
	unsigned int deliveries, images, ahead, jumps, gaps, failed;
	char wrong[160];
} reader;

#define WRONG(...)                                                                                 \
	do {                                                                                       \
		if (!reader.wrong[0])                                                              \
			snprintf(reader.wrong, sizeof(reader.wrong), __VA_ARGS__);                 \
	} while (0)

static bool is_exempt(uint64_t n)
{
	const uint8_t kind = writer.record[n].kind;

	return exempt[kind / 64] >> kind % 64 & 1;
}

static void deliver(uint64_t n, bool image)
{
	const uint32_t i = writer.record[n].instrument;

	if (reader.delivered[n] || reader.imaged[n])
		WRONG("record %" PRIu64 " is delivered twice", n);
	if (is_value(n) && n <= reader.last[i])
		WRONG("I%u: found %" PRIu64 " after %" PRIu64, i, n, reader.last[i]);
	if (writer.record[n].kind == TB_KIND_CLEAR && !is_exempt(n) && !reader.known[i])
		WRONG("found a clear of I%u, which the program does not know", i);
	if (!is_exempt(n) && ++reader.in_interval[i] > 1)
		WRONG("I%u: found a second record, %" PRIu64 ", in an interval", i, n);
	if (image && n > reader.position)
		WRONG("found image record %" PRIu64 " ahead of %" PRIu64, n, reader.position);
	if (n <= reader.floor)
		WRONG("found %" PRIu64 ", which was there before %" PRIu64, n, reader.floor);
	reader.deliveries++;
	reader.images += image;
	reader.ahead += n > reader.position;
	reader.known[i] = true;
	if (is_value(n) && reader.last[i] < n)
		reader.last[i] = n;
	(image ? reader.imaged : reader.delivered)[n] = true;
}

static void account(void)
{
	const uint64_t sum =
		reader.records + reader.skipped + reader.lost + reader.conflate->held_count;
	uint64_t records = 0;

	if (sum != reader.position - reader.floor)
		WRONG("position %" PRIu64 ": found %" PRIu64 " delivered, %" PRIu64
		      " skipped, %" PRIu64 " lost, %u held",
		      reader.position, reader.records, reader.skipped, reader.lost,
		      reader.conflate->held_count);
	for (uint64_t n = 1; n <= reader.position; n++)
		records += reader.delivered[n];
	if (records != reader.records)
		WRONG("position %" PRIu64 ": found %" PRIu64 " records, expected %" PRIu64,
		      reader.position, reader.records, records);
}

/* As deliver_gap() and reader.c count it. */
static void gap(uint64_t last)
{
	const uint64_t first = reader.position + 1;
	const uint64_t kept = conflate_delivered_in(reader.conflate, first, last);

	conflate_lapped(reader.conflate);
	reader.records += kept;
	reader.lost += last - first + 1 - kept;
	reader.position = last;
	reader.gaps++;
}

/* False: the ring does not have the next record. */
static bool ring_read(void)
{
	const uint64_t n = reader.position + 1;
	const struct record *record = &writer.record[n];
	struct conflate_verdict verdict;

	if (n > writer.ring)
		return false;
	if (n < oldest()) {
		if (!conflate_overtaken(reader.conflate))
			gap(oldest() - 1);
		return true;
	}
	reader.position = n;
	if (record->kind == TB_KIND_HOLE) {
		reader.lost++;
		return true;
	}
	verdict = conflate_passes(reader.conflate, record);
	reader.records += verdict.records + verdict.deliver;
	reader.skipped += verdict.skipped;
	if (is_exempt(n) && !verdict.deliver)
		WRONG("record %" PRIu64 " of an exempt kind is left out", n);
	if (verdict.deliver)
		deliver(n, false);
	return true;
}

/* A clear was left out if the program did not know the instrument. The ring brings a value of an
 * exempt kind. */
static bool is_left_out(uint32_t i, uint64_t newest)
{
	return reader.cleared[i] >= newest || reader.exempted[i] > reader.position;
}

/* The newest value up to `last` that the program is to know. */
static void newest_check(uint64_t last)
{
	const struct conflate *conflate = reader.conflate;
	uint64_t newest[INSTRUMENTS] = { 0 };

	for (uint64_t n = reader.floor + 1; n <= last; n++)
		if (is_value(n))
			newest[writer.record[n].instrument] = n;
	for (uint32_t i = 0; i < INSTRUMENTS; i++)
		if (reader.last[i] < newest[i] && !conflate_is_due(conflate, i) &&
		    !conflate->held[i] && !is_left_out(i, newest[i]))
			WRONG("I%u: found %" PRIu64 " at the end of an interval up to %" PRIu64
			      ", expected %" PRIu64 ", slot %" PRIu64,
			      i, reader.last[i], last, newest[i], writer.value[i]);
}

static void pass_end(void)
{
	struct conflate *conflate = reader.conflate;
	uint64_t kept;

	if (!conflate_pass_ends(conflate))
		return;
	if (conflate->jumps) {
		kept = conflate_delivered_in(conflate, reader.position + 1, conflate->target);
		reader.records += kept;
		reader.skipped += conflate->target - reader.position - kept;
		reader.position = conflate->target;
		conflate->replaced = 0;
		conflate->jumps = false;
		reader.jumps++;
	}
	newest_check(reader.ends_at);
}

static void copy_take(uint32_t i)
{
	struct conflate_verdict verdict;

	if (writer.torn[i] || writer.corrupt[i]) {
		reader.failed++;
		return;
	}
	if (writer.value[i] == 0) {
		conflate_empty(reader.conflate, i);
		return;
	}
	if (writer.record[writer.value[i]].kind == TB_KIND_CLEAR && !reader.known[i])
		reader.cleared[i] = writer.value[i];
	if (is_exempt(writer.value[i]) || exempt[TB_KIND_USER / 64] != 0)
		reader.exempted[i] = writer.value[i];
	verdict = conflate_takes(reader.conflate, &writer.record[writer.value[i]], reader.position);
	reader.records += verdict.records;
	reader.skipped += verdict.skipped;
	if (verdict.deliver)
		deliver(writer.value[i], verdict.image);
}

static void pass_step(void)
{
	struct conflate *conflate = reader.conflate;
	if (conflate->pass_due)
		reader.at = 0;
	conflate->pass_due = false;
	while (reader.at < INSTRUMENTS && !conflate_is_due(conflate, reader.at))
		reader.at++;
	if (reader.at == INSTRUMENTS)
		pass_end();
	else
		copy_take(reader.at++);
}

static void line_step(void)
{
	conflate_counts(reader.conflate, INSTRUMENTS);
	conflate_line(reader.conflate, writer.head, INSTRUMENTS, reader.position);
	reader.ends_at = reader.conflate->target;
}

/* Most steps are inside an interval, and the clock makes no difference. */
static void interval_step(void)
{
	struct conflate *conflate = reader.conflate;

	if (choose(2) == 0 && !conflate_interval_ends(conflate, ++reader.now_ns))
		return;
	memset(reader.in_interval, 0, sizeof(reader.in_interval));
	if (!conflate->exempts) {
		conflate->phase = CONFLATE_LINE;
	} else if (conflate_owes(conflate)) {
		conflate_counts(conflate, INSTRUMENTS);
		conflate_pass_begins(conflate);
		reader.ends_at = reader.position;
	}
}

static void read_step(void)
{
	struct conflate *conflate = reader.conflate;

	switch (conflate->phase) {
	case CONFLATE_SLEEPS:
		if (!conflate->exempts || !ring_read() || choose(3) == 0)
			interval_step();
		break;
	case CONFLATE_LINE:
		line_step();
		break;
	case CONFLATE_WALK:
		if (reader.position >= conflate->target)
			conflate_pass_begins(conflate);
		else
			ring_read();
		break;
	case CONFLATE_PASS:
		pass_step();
		break;
	}
}

/* -- histories -------------------------------------------------------------------------------- */

enum exempts { NOTHING, CANCELS, OWN_KINDS, EXEMPTS };

static void history_begin(enum exempts what)
{
	const struct region_shape shape = { .capacity = INSTRUMENTS };

	memset(&writer, 0, sizeof(writer));
	memset(&reader, 0, sizeof(reader));
	memset(exempt, 0, sizeof(exempt));
	if (what != NOTHING)
		exempt[0] |= UINT64_C(1) << TB_KIND_CANCEL;
	if (what == OWN_KINDS)
		exempt[TB_KIND_USER / 64] |= UINT64_C(1) << TB_KIND_USER % 64;
	reader.conflate = conflate_new(&shape, exempt, 1, 0);
	cr_assert_not_null(reader.conflate);
}

/* The reader joins behind the head. */
static void join(void)
{
	reader.position = reader.floor = writer.head;
	conflate_begin(reader.conflate, reader.floor, false);
	for (uint32_t i = 0; i < INSTRUMENTS; i++) /* as far as the checks go, it knows them */
		reader.last[i] = 0;
}

static void history_end(void)
{
	conflate_free(reader.conflate);
	reader.conflate = NULL;
	cr_assert_str_empty(reader.wrong, "%s", reader.wrong);
}

static void step(void)
{
	if (choose(2) == 0)
		read_step();
	else
		write_any();
	if (tape.drawn && choose(40) == 0)
		writer.corrupt[choose(INSTRUMENTS)] ^= true;
	account();
}

static void history(enum exempts what, unsigned int steps)
{
	const unsigned int before = choose(3);

	history_begin(what);
	for (unsigned int i = 0; i < before; i++)
		write_whole(choose(2), choose(2) ? TB_KIND_CLEAR : TB_KIND_UPDATE);
	join();
	for (unsigned int i = 0; i < steps && !reader.wrong[0]; i++)
		step();
}

/* Nothing disturbs the reader any more: its table must become the writer's. */
static void rest(void)
{
	struct conflate *conflate = reader.conflate;
	unsigned int steps = 0;

	tape.drawn = false;
	tape.used = tape.length;
	record_end();
	writer.head = writer.ring;
	memset(writer.corrupt, 0, sizeof(writer.corrupt));
	for (; steps < REST && !reader.wrong[0] &&
	       (reader.position < writer.head || conflate_owes(conflate) ||
		conflate->phase != CONFLATE_SLEEPS);
	     steps++) {
		read_step();
		account();
	}
	if (steps == REST)
		WRONG("not at rest in %u steps, at %" PRIu64 " of %" PRIu64 ", in phase %d", steps,
		      reader.position, writer.head, (int)conflate->phase);
	newest_check(writer.head);
	for (uint32_t i = 0; i < INSTRUMENTS; i++)
		if (conflate_is_due(conflate, i) || conflate->held[i])
			WRONG("I%u is owed at the end", i);
}

static unsigned int total[6];

static void total_add(void)
{
	total[0] += reader.deliveries;
	total[1] += reader.images;
	total[2] += reader.ahead;
	total[3] += reader.jumps;
	total[4] += reader.gaps;
	total[5] += reader.failed;
}

Test(conflate, drawn_histories_deliver_the_newest_with_exact_accounts, .timeout = 120)
{
	static const char *const what[] = { "deliveries", "image records", "values ahead",
					    "jumps",      "gaps",          "failed copies" };
	uint64_t seed = random_seed();

	for (unsigned int i = 0; i < DRAWN; i++) {
		tape.drawn = true;
		tape.random = random_draw(&seed);
		history(i % EXEMPTS, STEPS);
		rest();
		total_add();
		history_end();
	}
	for (unsigned int i = 0; i < 6; i++) /* only exempt kinds have gaps, and their images */
		cr_expect_gt(total[i], DRAWN / 100, "found %u %s", total[i], what[i]);
}

Test(conflate, all_small_histories_deliver_the_newest_with_exact_accounts, .timeout = 120)
{
	uint64_t count = 0;
	unsigned int used;

	do {
		tape.drawn = false;
		tape.used = 0;
		history(NOTHING, TAPE);
		used = tape.used;
		rest();
		tape.used = used;
		history_end();
		count++;
	} while (tape_next(&tape));
	cr_expect_gt(count, 1000, "found %" PRIu64 " histories", count);
	fprintf(stderr, "%" PRIu64 " histories\n", count);
}

/* -- single cases ----------------------------------------------------------------------------- */

static void scene_begin(enum exempts what)
{
	tape.drawn = false;
	tape.used = tape.length;
	history_begin(what);
	join();
}

static void steps_until(enum conflate_phase phase)
{
	for (int i = 0; reader.conflate->phase != phase; i++) {
		cr_assert_lt(i, REST, "waits in phase %d", (int)reader.conflate->phase);
		read_step();
	}
}

Test(conflate, copy_that_fails_is_left_to_the_next_interval)
{
	scene_begin(NOTHING);
	write_whole(1, TB_KIND_UPDATE);
	writer.corrupt[1] = true;
	steps_until(CONFLATE_PASS);
	steps_until(CONFLATE_SLEEPS);
	cr_expect_eq(reader.failed, TRIES_MAX, "found %u copies", reader.failed);
	cr_expect(conflate_owes(reader.conflate));
	cr_expect_eq(reader.lost, 0);
	writer.corrupt[1] = false;
	rest();
	cr_expect_eq(reader.records, 1);
	history_end();
}

Test(conflate, intervals_keep_their_phase)
{
	struct conflate *conflate;
	const struct region_shape shape = { .capacity = INSTRUMENTS };

	memset(exempt, 0, sizeof(exempt));
	conflate = conflate_new(&shape, exempt, 100, 1000);
	cr_assert_not_null(conflate);
	cr_expect_not(conflate_interval_ends(conflate, 1099));
	cr_expect(conflate_interval_ends(conflate, 1100));
	cr_expect_not(conflate_interval_ends(conflate, 1199));
	cr_expect(conflate_interval_ends(conflate, 1450), "some intervals later");
	cr_expect_not(conflate_interval_ends(conflate, 1499));
	cr_expect(conflate_interval_ends(conflate, 1500));
	conflate_free(conflate);
}

Test(conflate, held_values_that_are_given_up_are_counted)
{
	uint64_t first, last;

	scene_begin(CANCELS);
	write_whole(0, TB_KIND_UPDATE);
	write_whole(1, TB_KIND_UPDATE);
	write_whole(2, TB_KIND_UPDATE);
	write_whole(1, TB_KIND_UPDATE);
	while (ring_read())
		continue;
	cr_expect_eq(conflate_give_up(reader.conflate, &first, &last), 3);
	cr_expect_eq(first, 1);
	cr_expect_eq(last, 4);
	cr_expect_eq(reader.conflate->held_count, 0);
	history_end();
}

Test(conflate, instrument_that_is_left_out_is_forgotten)
{
	const uint64_t left[] = { 1 << 1 };

	scene_begin(CANCELS);
	write_whole(0, TB_KIND_UPDATE);
	write_whole(1, TB_KIND_UPDATE);
	while (ring_read())
		continue;
	cr_expect_eq(conflate_leave(reader.conflate, left), 1);
	cr_expect_not(conflate_is_due(reader.conflate, 1));
	cr_expect(conflate_is_due(reader.conflate, 0));
	history_end();
}

/* Otherwise a value that is replaced in each interval would never come. */
Test(conflate, value_that_is_ahead_comes_with_the_ring)
{
	scene_begin(OWN_KINDS);
	write_whole(0, TB_KIND_UPDATE);
	ring_read();
	write_whole(0, TB_KIND_USER);
	write_whole(0, TB_KIND_UPDATE);
	copy_take(0);
	cr_expect_eq(reader.deliveries, 0, "record 3 is ahead of record 2");
	cr_expect_eq(reader.skipped, 1);
	ring_read();
	ring_read();
	cr_expect_eq(reader.deliveries, 2);
	cr_expect_eq(reader.last[0], 3);
	write_whole(0, TB_KIND_UPDATE);
	ring_read();
	cr_expect_eq(reader.deliveries, 2, "it is late no more");
	account();
	history_end();
}

/* Only a hostile publisher stores two values with the same sequence. */
static void take_same(uint64_t sequence, uint32_t values)
{
	for (uint32_t i = 0; i < values; i++) {
		const struct record copy = { .sequence = sequence,
					     .instrument = i,
					     .kind = TB_KIND_UPDATE };

		cr_assert(conflate_takes(reader.conflate, &copy, reader.position).deliver);
	}
}

Test(conflate, values_with_the_same_sequence_are_passed_once)
{
	scene_begin(NOTHING);
	take_same(5, INSTRUMENTS);
	cr_expect_eq(conflate_delivered_in(reader.conflate, 1, 4), 0);
	cr_expect_eq(conflate_delivered_in(reader.conflate, 5, 5), 1);
	cr_expect_eq(conflate_delivered_in(reader.conflate, 4, 5), 2);
	history_end();
}

Test(conflate, values_that_a_jump_replaced_are_passed_once)
{
	scene_begin(NOTHING);
	reader.conflate->jumps = true;
	reader.conflate->target = 1;
	take_same(1, INSTRUMENTS);
	take_same(2, INSTRUMENTS);
	cr_expect_eq(reader.conflate->replaced, INSTRUMENTS);
	cr_expect_eq(conflate_delivered_in(reader.conflate, 1, 1), 1);
	history_end();
}

/* Its slot holds a newer value, so it needs no copy. */
Test(conflate, value_older_than_a_delivered_value_is_skipped_at_once)
{
	const struct record older = { .sequence = 4, .instrument = 1, .kind = TB_KIND_UPDATE };
	struct conflate_verdict verdict;

	scene_begin(NOTHING);
	take_same(5, INSTRUMENTS);
	verdict = conflate_passes(reader.conflate, &older);
	cr_expect_eq(verdict.skipped, 1);
	cr_expect_eq(reader.conflate->held_count, 0);
	cr_expect_not(conflate_is_due(reader.conflate, 1));
	history_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of images against a model. It has a writer, a ring, slots that are torn while they are
 * written, and a reader whose READs land late.
 *
 * A history is a row of choices. All small histories are tried, larger histories are drawn. At each
 * completion the model compares the reader's table with the table that the records give. */
#include "subscriber/image.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "subscriber/fetch.h"
#include "subscriber/reader.h"
#include "tests/support/random.h"
#include "tests/support/tape.h"

#define INSTRUMENTS 3
#define RECORDS     40
#define COPIES      2 /* that wait to be judged */
#define DRAWN       200000
#define STEPS       60  /* of a drawn history */
#define TAPE        11  /* choices of a small history */
#define REST        600 /* steps in which an image completes once nothing disturbs it */

/* -- choices ---------------------------------------------------------------------------------- */

static struct tape tape = { .length = TAPE };

static unsigned int choose(unsigned int bound)
{
	return tape_choose(&tape, bound);
}

/* -- the writer ------------------------------------------------------------------------------- */

static struct {
	struct {
		uint32_t instrument;
		uint8_t kind, flags;
	} record[RECORDS + 1];
	uint64_t ring;     /* the last record that the ring shows */
	uint64_t begun;    /* the last record that was begun */
	uint64_t reserved; /* of the line */
	uint64_t head;     /* of the line */
	uint32_t named;
	uint64_t value[INSTRUMENTS]; /* sequence in the slot; 0: never written */
	bool torn[INSTRUMENTS];
	bool corrupt[INSTRUMENTS]; /* every copy fails */
	bool marks;
} writer;

static bool record_changes(uint64_t n)
{
	return record_is_value(writer.record[n].kind, writer.record[n].flags);
}

static void value_end(void)
{
	const uint32_t instrument = writer.record[writer.begun].instrument;

	if (writer.torn[instrument])
		writer.value[instrument] = writer.begun;
	writer.torn[instrument] = false;
}

/* The last value is whole by then. A line comes before any slot of record n is touched (P-I2). */
static void record_begin(uint32_t instrument, uint8_t kind, uint8_t flags)
{
	uint64_t n;

	value_end();
	n = ++writer.begun;
	writer.record[n].instrument = instrument;
	writer.record[n].kind = kind;
	writer.record[n].flags = flags;
	if (writer.reserved < n) {
		writer.reserved = n + choose(2);
		writer.head = writer.ring;
	}
	if (record_changes(n))
		writer.torn[instrument] = true;
}

static void record_end(void)
{
	value_end();
	writer.ring = writer.begun;
	if (choose(2) == 0)
		writer.head = writer.ring;
}

static void write_any(void)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_CLEAR, TB_KIND_CANCEL,
					 TB_KIND_CORRECTION };
	uint8_t flags = 0, kind;

	if (writer.begun == writer.ring && writer.begun < RECORDS - 4) {
		kind = kinds[choose(tape.drawn ? 4 : 2)];
		if (writer.marks && choose(2) == 0)
			flags = TB_FLAG_LAST;
		if (kind == TB_KIND_CORRECTION && choose(2) == 0)
			flags |= TB_FLAG_PAST;
		record_begin(choose(writer.named), kind, flags);
	} else if (writer.begun > writer.ring) {
		if (choose(2) == 0)
			record_end();
		else if (choose(2) == 0)
			value_end(); /* before the ring shows the record */
		else
			writer.ring = writer.begun; /* before the value is whole */
	} else {
		writer.head = writer.ring;
	}
}

/* Finishes what was begun. The next record is whole at once. */
static void write_whole(uint32_t instrument, uint8_t kind)
{
	writer.ring = writer.begun;
	if (writer.begun == RECORDS)
		return;
	record_begin(instrument, kind, TB_FLAG_LAST);
	value_end();
	writer.ring = writer.head = writer.begun;
}

static struct progress line_now(void)
{
	struct progress line = { .head = writer.head,
				 .reserved = writer.reserved > writer.head ? writer.reserved
									   : writer.head,
				 .instruments = writer.named };

	for (uint64_t n = 1; writer.marks && n <= writer.head; n++)
		if (writer.record[n].flags & TB_FLAG_LAST)
			line.whole = n;
	return line;
}

/* -- the reader ------------------------------------------------------------------------------- */

struct copy {
	uint32_t instrument;
	int result; /* 1 valid, 0 never written, -1 failed */
	uint64_t sequence;
};

static struct {
	struct image *image;
	uint64_t position, now_ns;
	bool line_under_way, line_loaded;
	struct progress line;
	struct copy copies[COPIES];
	unsigned int copy_count;
	uint64_t value[INSTRUMENTS], last[INSTRUMENTS];
	bool known[INSTRUMENTS]; /* some record of it was delivered */
	bool no_value[INSTRUMENTS];
	unsigned int completes, values, given_up;
	char wrong[160];
} reader;

#define WRONG(...)                                                                                 \
	do {                                                                                       \
		if (!reader.wrong[0])                                                              \
			snprintf(reader.wrong, sizeof(reader.wrong), __VA_ARGS__);                 \
	} while (0)

static void table_change(uint64_t n)
{
	const uint32_t i = writer.record[n].instrument;

	if (n <= reader.last[i])
		WRONG("found value %" PRIu64 " of I%u after %" PRIu64, n, i, reader.last[i]);
	reader.last[i] = n;
	reader.value[i] = writer.record[n].kind == TB_KIND_CLEAR ? 0 : n;
	reader.no_value[i] = false;
}

static void value_deliver(uint64_t n)
{
	const uint32_t i = writer.record[n].instrument;

	reader.values++;
	if (n > reader.image->base)
		WRONG("found value %" PRIu64 " in an image up to %" PRIu64, n, reader.image->base);
	if (writer.record[n].kind == TB_KIND_CLEAR && !reader.known[i])
		WRONG("found a clear of I%u, which the program does not know", i);
	reader.known[i] = true;
	table_change(n);
}

static void compare(void)
{
	uint64_t expected[INSTRUMENTS] = { 0 };
	const uint64_t position = reader.position;

	for (uint64_t n = 1; n <= position; n++)
		if (record_changes(n))
			expected[writer.record[n].instrument] =
				writer.record[n].kind == TB_KIND_CLEAR ? 0 : n;
	for (uint32_t i = 0; i < INSTRUMENTS; i++)
		if (reader.value[i] != expected[i] && !reader.no_value[i])
			WRONG("complete at %" PRIu64 ": I%u: found %" PRIu64 ", expected %" PRIu64,
			      position, i, reader.value[i], expected[i]);
	if (writer.marks && position > 0 && !(writer.record[position].flags & TB_FLAG_LAST))
		WRONG("complete at %" PRIu64 ", inside a message", position);
}

static void complete(void)
{
	if (!image_may_complete(reader.image, reader.position))
		return;
	image_completes(reader.image);
	reader.completes++;
	compare();
}

static void ring_read(void)
{
	const uint64_t n = reader.position + 1;

	if (n > writer.ring)
		return;
	reader.position = n;
	image_passed(reader.image, n, writer.record[n].instrument, writer.record[n].kind,
		     writer.record[n].flags);
	reader.known[writer.record[n].instrument] = true;
	if (record_changes(n))
		table_change(n);
	complete();
}

static void begin(uint64_t base)
{
	reader.position = base;
	reader.copy_count = 0; /* of the base before (I4) */
	image_begin(reader.image, base);
}

/* A request, the load and the arrival of a line are steps of their own. */
static void line_step(void)
{
	if (!reader.line_under_way) {
		image_line_asked(reader.image);
		reader.line_under_way = true;
		reader.line_loaded = false;
	} else if (!reader.line_loaded) {
		reader.line = line_now();
		reader.line_loaded = true;
	} else {
		reader.line_under_way = false;
		if (choose(8) == 7)
			image_line_invalid(reader.image);
		else
			image_line(reader.image, &reader.line);
	}
}

static void copy_make(uint32_t i)
{
	struct copy *copy = &reader.copies[reader.copy_count++];

	*copy = (struct copy){ .instrument = i, .result = 1, .sequence = writer.value[i] };
	if (writer.corrupt[i])
		copy->result = -1;
	else if (writer.torn[i])
		copy->result = writer.value[i] == 0 && choose(2) ? 0 : -1;
	else if (writer.value[i] == 0)
		copy->result = 0;
}

static void copy_judge(void)
{
	const struct copy copy = reader.copies[0];
	struct record record = { .sequence = copy.sequence, .instrument = copy.instrument };

	reader.copies[0] = reader.copies[--reader.copy_count];
	if (copy.result < 0 || !image_is_open(reader.image, copy.instrument))
		return;
	if (copy.result == 0) {
		image_settle(reader.image, copy.instrument);
		return;
	}
	record.kind = writer.record[copy.sequence].kind;
	record.flags = writer.record[copy.sequence].flags;
	if (image_takes(reader.image, &record))
		value_deliver(copy.sequence);
}

static void pass_step(void)
{
	struct image *image = reader.image;
	const uint32_t next = image_next_open(image, image->at);

	if (next < image->range && reader.copy_count < COPIES &&
	    (reader.copy_count == 0 || choose(2) == 0)) {
		image->at = next + 1;
		copy_make(next);
	} else if (reader.copy_count > 0) {
		copy_judge();
	} else {
		image_pass_ends(image, false);
	}
}

static void give_up(void)
{
	struct image *image = reader.image;

	for (uint32_t i = 0; i < image->range; i++) {
		if (!image_is_open(image, i))
			continue;
		if (!writer.corrupt[i])
			WRONG("I%u is given up, but its slot is only being written", i);
		if (reader.last[i] > image->base)
			WRONG("I%u is given up, but the ring has its value", i);
		reader.no_value[i] = true;
		reader.given_up++;
		image_settle(image, i);
	}
	image_pass_ends(image, false);
}

static void image_step(void)
{
	struct image *image = reader.image;

	reader.now_ns += RETRY_NS;
	if (image_wants_line(image) || reader.line_under_way)
		line_step();
	else if (image->phase == IMAGE_PASS)
		pass_step();
	else if (image->phase == IMAGE_BEHIND)
		image_judge(image, reader.position, reader.now_ns);
	else if (image->phase == IMAGE_GIVE_UP)
		give_up();
	complete();
}

static void step(void)
{
	switch (choose(tape.drawn ? 12 : 5)) {
	case 0:
	case 5:
	case 6:
		image_step();
		break;
	case 1:
	case 7:
	case 8:
		write_any();
		break;
	case 2:
	case 9:
		ring_read();
		break;
	case 3: /* an unasked line */
		line_step();
		break;
	case 4:
		if (reader.position < writer.head)
			begin(reader.position + 1 +
			      choose((unsigned int)(writer.head - reader.position)));
		break;
	case 10:
		if (writer.named < INSTRUMENTS)
			writer.named++;
		break;
	default:
		if (choose(4) == 0) {
			reader.copy_count = 0;
			reader.line_under_way = false;
			image_interrupted(reader.image);
		}
		break;
	}
}

/* -- histories -------------------------------------------------------------------------------- */

static void history_begin(bool marks)
{
	const struct region_shape shape = { .capacity = INSTRUMENTS,
					    .flags = marks ? REGION_FLAG_MARKS_MESSAGES : 0 };

	memset(&writer, 0, sizeof(writer));
	memset(&reader, 0, sizeof(reader));
	writer.marks = marks;
	writer.named = tape.drawn ? 2 : 1;
	reader.image = image_new(&shape);
	cr_assert_not_null(reader.image);
}

static void history_end(void)
{
	image_free(reader.image);
	reader.image = NULL;
	cr_assert_str_empty(reader.wrong, "%s", reader.wrong);
}

/* Nothing disturbs the reader any more. Its image must complete. */
static void rest(void)
{
	unsigned int steps = 0;

	tape.drawn = false;
	tape.used = TAPE;
	value_end();
	writer.ring = writer.head = writer.begun;
	for (; steps < REST && image_is_busy(reader.image) && !reader.wrong[0]; steps++) {
		if (steps % 50 == 49)
			write_whole(0, TB_KIND_UPDATE);
		ring_read();
		image_step();
	}
	if (image_is_busy(reader.image))
		WRONG("no completion in %u steps, in phase %d", steps, (int)reader.image->phase);
}

static void history(bool marks, unsigned int steps)
{
	const unsigned int before = choose(3);

	history_begin(marks);
	for (unsigned int i = 0; i < before; i++)
		write_whole(choose(writer.named), choose(2) ? TB_KIND_CLEAR : TB_KIND_UPDATE);
	begin(writer.head);
	for (unsigned int i = 0; i < steps && !reader.wrong[0]; i++)
		step();
}

Test(image, drawn_histories_complete_with_the_publishers_table, .timeout = 120)
{
	uint64_t seed = random_seed(), completes = 0, values = 0;

	for (unsigned int i = 0; i < DRAWN; i++) {
		tape.drawn = true;
		tape.random = random_draw(&seed);
		history(i % 2, STEPS);
		rest();
		completes += reader.completes;
		values += reader.values;
		history_end();
	}
	cr_expect_gt(completes, DRAWN);
	cr_expect_gt(values, DRAWN / 4, "found %" PRIu64 " values", values);
}

Test(image, all_small_histories_complete_with_the_publishers_table, .timeout = 120)
{
	uint64_t count = 0;
	unsigned int used;

	do {
		tape.drawn = false;
		tape.used = 0;
		history(false, TAPE);
		used = tape.used;
		rest();
		tape.used = used;
		history_end();
		count++;
	} while (tape_next(&tape));
	cr_expect_gt(count, 1000000, "found %" PRIu64 " histories", count);
}

/* -- single cases ----------------------------------------------------------------------------- */

static void steps_until(enum image_phase phase)
{
	for (int i = 0; reader.image->phase != phase; i++) {
		cr_assert_lt(i, REST, "waits in phase %d", (int)reader.image->phase);
		image_step();
	}
}

/* The range of an image with a value each. */
static void scene_begin(void)
{
	tape.drawn = false;
	tape.used = TAPE;
	history_begin(false);
	writer.named = INSTRUMENTS;
	for (uint32_t i = 0; i < INSTRUMENTS; i++)
		write_whole(i, TB_KIND_UPDATE);
	begin(writer.head);
}

Test(image, value_that_is_being_written_for_long_is_not_given_up)
{
	scene_begin();
	record_begin(1, TB_KIND_UPDATE, 0);
	for (int pass = 0; pass < 3 * TRIES_MAX; pass++) {
		steps_until(IMAGE_BEHIND);
		steps_until(IMAGE_PASS);
	}
	cr_expect_eq(reader.image->open, 1);
	record_end();
	ring_read();
	rest();
	cr_expect_eq(reader.values, 2);
	history_end();
}

/* It may be older than the copies. */
Test(image, line_that_was_requested_in_the_pass_does_not_judge_it)
{
	scene_begin();
	writer.corrupt[1] = true;
	steps_until(IMAGE_PASS);
	line_step();
	line_step();
	while (reader.image->phase == IMAGE_PASS)
		pass_step();
	line_step();
	cr_expect_eq(reader.image->phase, IMAGE_JUDGE);
	cr_expect(image_wants_line(reader.image));
	history_end();
}

Test(image, corrupt_slot_is_given_up_after_the_proofs)
{
	unsigned int passes = 0;

	scene_begin();
	writer.corrupt[1] = true;
	writer.reserved = writer.head + 1;
	for (int pass = 0; pass < 2 * TRIES_MAX; pass++) { /* no proof: reserved is ahead */
		steps_until(IMAGE_BEHIND);
		steps_until(IMAGE_PASS);
	}
	write_whole(0, TB_KIND_UPDATE);
	ring_read();
	for (; reader.given_up == 0; passes++) {
		cr_assert_lt(passes, 2 * TRIES_MAX);
		steps_until(IMAGE_BEHIND);
		while (reader.image->phase == IMAGE_BEHIND)
			image_step();
		if (reader.image->phase == IMAGE_GIVE_UP)
			image_step();
	}
	cr_expect_eq(passes, TRIES_MAX, "found %u passes", passes);
	cr_expect_eq(reader.completes, 1);
	cr_expect(reader.no_value[1]);
	history_end();
}

/* The writer is one record ahead of each line. Once the reader has come to the line, a pass begins
 * at once. */
Test(image, corrupt_slot_is_given_up_beside_a_writer_that_stays_ahead)
{
	scene_begin();
	writer.corrupt[1] = true;
	for (int records = 0; reader.completes == 0; records++) {
		cr_assert_lt(records, 2 * TRIES_MAX + 2, "found %u proofs", reader.image->tries);
		write_whole(0, TB_KIND_UPDATE);
		writer.reserved = writer.head + 1;
		while (reader.image->phase != IMAGE_BEHIND)
			image_step();
		ring_read();
		while (reader.image->phase == IMAGE_BEHIND)
			image_step();
		if (reader.image->phase == IMAGE_GIVE_UP)
			image_step();
	}
	cr_expect_eq(reader.given_up, 1);
	cr_expect(reader.no_value[1]);
	history_end();
}

/* What it had reserved will never be written. */
Test(image, corrupt_slot_of_a_topic_that_ended_is_given_up)
{
	scene_begin();
	writer.corrupt[1] = true;
	writer.reserved = writer.head + 1;
	steps_until(IMAGE_BEHIND);
	steps_until(IMAGE_PASS);
	writer.reserved = writer.head;
	for (int i = 0; i < REST; i++)
		image_step();
	cr_expect_eq(reader.completes, 1, "found %u proofs", reader.image->tries);
	cr_expect(reader.no_value[1]);
	history_end();
}

/* A slot that was corrupt for a while is delivered. */
Test(image, proofs_of_an_earlier_base_do_not_count)
{
	scene_begin();
	writer.corrupt[1] = true;
	for (int pass = 1; pass < TRIES_MAX; pass++) {
		steps_until(IMAGE_BEHIND);
		steps_until(IMAGE_PASS);
	}
	begin(reader.position);
	for (int pass = 1; pass < TRIES_MAX; pass++) {
		steps_until(IMAGE_BEHIND);
		steps_until(IMAGE_PASS);
	}
	writer.corrupt[1] = false;
	steps_until(IMAGE_IDLE);
	cr_expect_eq(reader.given_up, 0);
	cr_expect_eq(reader.values, INSTRUMENTS);
	history_end();
}

/* The ring may have lost the value that its copies met. */
Test(image, pass_that_waits_for_its_proof_belongs_to_its_base)
{
	scene_begin();
	writer.corrupt[1] = true;
	writer.reserved = writer.head + 1;
	steps_until(IMAGE_BEHIND);
	steps_until(IMAGE_PASS);
	write_whole(0, TB_KIND_UPDATE);
	begin(writer.head);
	steps_until(IMAGE_PASS);
	image_pass_ends(reader.image, true); /* its READ failed */
	steps_until(IMAGE_BEHIND);
	steps_until(IMAGE_PASS);
	cr_expect_eq(reader.image->tries, 0, "found %u proofs", reader.image->tries);
	writer.corrupt[1] = false;
	steps_until(IMAGE_IDLE);
	history_end();
}

/* The reader began behind the record that ended it. */
Test(image, line_shows_the_end_of_a_message)
{
	tape.drawn = false;
	tape.used = TAPE;
	history_begin(true);
	write_whole(0, TB_KIND_UPDATE);
	begin(writer.head);
	for (int i = 0; i < REST; i++)
		image_step();
	cr_expect_eq(reader.completes, 1);
	history_end();
}

Test(image, value_of_the_ring_settles_its_slot)
{
	scene_begin();
	writer.corrupt[1] = true;
	steps_until(IMAGE_BEHIND);
	write_whole(1, TB_KIND_CLEAR);
	ring_read();
	cr_expect_eq(reader.image->open, 0);
	image_step();
	cr_expect_eq(reader.completes, 1);
	cr_expect_eq(reader.given_up, 0);
	history_end();
}

/* Before the range is known. */
Test(image, early_value_of_the_ring_settles_its_slot)
{
	scene_begin();
	writer.corrupt[1] = true;
	write_whole(1, TB_KIND_UPDATE);
	ring_read();
	steps_until(IMAGE_IDLE);
	cr_expect_eq(reader.values, 2);
	cr_expect_eq(reader.given_up, 0);
	history_end();
}

Test(image, failed_copies_wait_for_the_ring_at_a_pace)
{
	struct image *image;

	scene_begin();
	image = reader.image;
	writer.corrupt[1] = true;
	write_whole(0, TB_KIND_UPDATE);
	steps_until(IMAGE_BEHIND);
	image_judge(image, reader.position, reader.now_ns + RETRY_NS);
	cr_expect_eq(image->phase, IMAGE_BEHIND, "the ring was not read up to the line");
	ring_read();
	image_judge(image, reader.position, image->pass_ns + RETRY_NS - 1);
	cr_expect_eq(image->phase, IMAGE_BEHIND, "the pause is not over");
	image_judge(image, reader.position, image->pass_ns + RETRY_NS);
	cr_expect_eq(image->phase, IMAGE_PASS);
	rest();
	history_end();
}

Test(image, image_that_begins_again_and_again_is_reported)
{
	scene_begin();
	for (int lap = 1; lap < IMAGE_LAPS; lap++)
		cr_expect_not(image_begin(reader.image, 3));
	cr_expect(image_begin(reader.image, 3));
	cr_expect_not(image_begin(reader.image, 3));
	steps_until(IMAGE_IDLE);
	for (int lap = 0; lap < IMAGE_LAPS; lap++)
		cr_expect_not(image_begin(reader.image, 3), "lap %d of a new image", lap);
	history_end();
}

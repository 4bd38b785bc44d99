/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of an image, step by step, without a publisher. */
#include "subscriber/image.h"

#include <criterion/criterion.h>

#include "subscriber/fetch.h"
#include "subscriber/reader.h"

#define CAPACITY 100
#define BASE     10

static struct image *image;
static uint64_t now_ns;

static void leave(void)
{
	image_free(image);
}

static void enter_with(uint32_t flags)
{
	const struct region_shape shape = { .capacity = CAPACITY, .flags = flags };

	leave();
	image = image_new(&shape);
	cr_assert_not_null(image);
}

static void enter(void)
{
	enter_with(0);
}

TestSuite(image, .init = enter, .fini = leave);

static struct progress line_of(uint64_t head, uint64_t reserved, uint32_t instruments)
{
	return (struct progress){ .head = head, .reserved = reserved, .instruments = instruments };
}

static void line(uint64_t head, uint64_t reserved, uint32_t instruments)
{
	const struct progress progress = line_of(head, reserved, instruments);

	cr_assert(image_wants_line(image));
	image_line_asked(image);
	image_line(image, &progress);
}

static void begin(uint32_t instruments)
{
	image_begin(image, BASE);
	line(BASE, BASE, instruments);
}

static bool copied(uint32_t instrument, uint64_t sequence, uint8_t kind)
{
	const struct record copy = { .instrument = instrument, .sequence = sequence, .kind = kind };

	return image_takes(image, &copy);
}

static void passed(uint32_t instrument, uint64_t sequence, uint8_t kind)
{
	image_passed(image, sequence, instrument, kind, 0);
}

/* A pass whose copies all failed, up to a line, which is judged at this position. */
static void pass_fails(uint64_t head, uint64_t reserved, uint64_t position)
{
	cr_assert_eq(image->phase, IMAGE_PASS);
	image_pass_ends(image);
	line(head, reserved, CAPACITY);
	now_ns += RETRY_NS;
	image_judge(image, position, now_ns);
}

Test(image, line_that_was_asked_for_before_base_gives_no_range)
{
	const struct progress before = line_of(BASE, BASE, 3);

	image_begin(image, BASE);
	image_line(image, &before);
	cr_expect_eq(image->phase, IMAGE_RANGE);
	image_line_asked(image);
	image_begin(image, BASE + 1);
	image_line(image, &before);
	cr_expect_eq(image->phase, IMAGE_RANGE);
	line(BASE, BASE, 3);
	cr_expect_eq(image->phase, IMAGE_PASS);
}

Test(image, line_that_was_not_valid_is_asked_for_again)
{
	image_begin(image, BASE);
	image_line_asked(image);
	cr_expect_not(image_wants_line(image));
	image_line_invalid(image);
	cr_expect(image_wants_line(image));
	image_line_asked(image);
	image_interrupted(image);
	cr_expect(image_wants_line(image), "its READ was lost with the connection");
}

Test(image, each_base_takes_the_range_again)
{
	begin(3);
	cr_expect_eq(image->open, 3);
	image_begin(image, BASE + 5);
	line(BASE + 5, BASE + 5, 7);
	cr_expect_eq(image->range, 7);
	cr_expect_eq(image->open, 7);
	image_begin(image, BASE + 6);
	line(BASE + 6, BASE + 6, 2);
	cr_expect_eq(image->open, 2, "a false line counts fewer");
	cr_expect_eq(image_next_open(image, 2), 2);
	image_settle(image, 6);
	cr_expect_eq(image->open, 2);
}

Test(image, copy_is_taken_above_seen_and_up_to_base)
{
	passed(0, 5, TB_KIND_UPDATE);
	begin(4);
	cr_expect_not(copied(0, 5, TB_KIND_UPDATE));
	cr_expect(copied(1, BASE, TB_KIND_UPDATE));
	cr_expect_not(copied(1, BASE, TB_KIND_UPDATE));
	cr_expect_not(copied(2, BASE + 1, TB_KIND_UPDATE));
	cr_expect_eq(image->open, 1, "each of them is settled");
	cr_expect_eq(image->largest, BASE + 1);
}

Test(image, value_of_the_ring_settles_its_slot)
{
	begin(3);
	passed(0, BASE + 1, TB_KIND_CANCEL);
	cr_expect(image_is_open(image, 0), "a cancel is no value");
	passed(0, BASE + 2, TB_KIND_UPDATE);
	cr_expect_not(image_is_open(image, 0));
	image_begin(image, BASE + 2);
	passed(1, BASE + 3, TB_KIND_UPDATE); /* before the line that gives the range */
	line(BASE + 3, BASE + 3, 3);
	cr_expect(image_is_open(image, 0));
	cr_expect_not(image_is_open(image, 1));
}

Test(image, failed_copies_are_judged_behind_the_head)
{
	begin(1);
	image_pass_ends(image);
	line(BASE + 4, BASE + 4, 1);
	now_ns += RETRY_NS;
	image_judge(image, BASE + 3, now_ns);
	cr_expect_eq(image->phase, IMAGE_BEHIND);
	image_judge(image, BASE + 4, now_ns);
	cr_expect_eq(image->phase, IMAGE_PASS);
	cr_expect_eq(image->tries, 1);
}

Test(image, failed_copies_are_repeated_at_a_pace)
{
	begin(1);
	pass_fails(BASE, BASE, BASE);
	image_pass_ends(image);
	line(BASE, BASE, 1);
	image_judge(image, BASE, now_ns + RETRY_NS - 1);
	cr_expect_eq(image->phase, IMAGE_BEHIND);
	image_judge(image, BASE, now_ns + RETRY_NS);
	cr_expect_eq(image->phase, IMAGE_PASS);
}

Test(image, copy_that_the_writer_may_explain_is_no_try)
{
	begin(1);
	for (int i = 0; i < 2 * TRIES_MAX; i++)
		pass_fails(BASE, BASE + 1, BASE);
	cr_expect_eq(image->tries, 0);
	cr_expect_eq(image->phase, IMAGE_PASS);
}

Test(image, slot_is_given_up_after_eight_tries)
{
	begin(1);
	for (int i = 1; i < TRIES_MAX; i++)
		pass_fails(BASE, BASE, BASE);
	cr_expect_eq(image->phase, IMAGE_PASS);
	pass_fails(BASE, BASE, BASE);
	cr_expect_eq(image->phase, IMAGE_GIVE_UP);
	cr_expect_eq(image_next_open(image, image->at), 0);
}

Test(image, tries_begin_again_with_each_base)
{
	begin(1);
	for (int i = 1; i < TRIES_MAX; i++)
		pass_fails(BASE, BASE, BASE);
	image_begin(image, BASE + 1);
	line(BASE + 1, BASE + 1, 1);
	pass_fails(BASE + 1, BASE + 1, BASE + 1);
	cr_expect_eq(image->phase, IMAGE_PASS);
}

Test(image, pass_begins_again_after_a_lost_connection)
{
	begin(5);
	image->at = 4;
	image->chunks[0] = (struct image_chunk){ .count = 4, .reads = 1, .posted = 1 };
	image_interrupted(image);
	cr_expect_eq(image->at, 0);
	cr_expect_eq(image->chunks[0].count, 0);
}

Test(image, completes_at_or_above_each_copy)
{
	begin(1);
	copied(0, BASE + 3, TB_KIND_UPDATE);
	image_pass_ends(image);
	cr_expect_eq(image->phase, IMAGE_SETTLED);
	cr_expect_not(image_may_complete(image, BASE + 2));
	cr_expect(image_may_complete(image, BASE + 3));
}

Test(image, completes_at_the_end_of_a_message)
{
	struct progress whole = line_of(BASE + 3, BASE + 3, 1);

	enter_with(REGION_FLAG_MARKS_MESSAGES);
	begin(0);
	cr_expect_not(image_may_complete(image, BASE));
	image_passed(image, BASE + 1, 0, TB_KIND_UPDATE, TB_FLAG_LAST);
	cr_expect(image_may_complete(image, BASE + 1));
	passed(0, BASE + 2, TB_KIND_UPDATE);
	cr_expect_not(image_may_complete(image, BASE + 2));
	whole.whole = BASE + 2;
	image_line(image, &whole);
	cr_expect(image_may_complete(image, BASE + 2));
	image_passed(image, BASE + 3, 0, TB_KIND_HOLE, TB_FLAG_LAST);
	cr_expect(image_may_complete(image, BASE + 3));
}

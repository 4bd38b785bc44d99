/* SPDX-License-Identifier: Apache-2.0 */
/* Copies last-value slots, in place or by READ, and delivers them as an image. image.c has the
 * rules, value_reads.c copies. */
#include "subscriber/pull_image.h"

#include "bus/clock.h"
#include "subscriber/choice_scan.h"
#include "subscriber/deliver.h"
#include "subscriber/image.h"
#include "subscriber/names.h"
#include "subscriber/pull_view.h"

#define SLOTS_MAX 512 /* slots that one call gives up */

/* The result of a copy. Returns 1 if its value was delivered. */
static int slot_taken(struct tb_source *source, uint32_t instrument, int result)
{
	struct image *image = source->mapping.image;

	if (source->mapping.names[instrument][0] && !choice_has(source, instrument))
		result = 0; /* it was removed from the list meanwhile */
	if (result == 0)
		image_settle(image, instrument);
	if (result != 1 || !image_takes(image, &source->record))
		return 0;
	deliver_value(source, &source->record);
	return 1;
}

/* With a list of names, every instrument of the range is judged first. Only chosen instruments
 * need a copy. Neither a change of the list nor a new instrument makes the image wait again. */
static bool names_judged(struct tb_source *source)
{
	struct image *image = source->mapping.image;
	struct choice *choice = source->mapping.choice;

	if (!choice)
		return true;
	choice_scan_want(choice, image->range);
	if (!choice_scan_covers(choice, image->range))
		return false;
	if (image->pass_due)
		image_leave(image, choice->left);
	return true;
}

static int pass(struct tb_source *source, int max)
{
	struct value_reads *reads = &source->value_reads;
	struct image *image = source->mapping.image;
	int count;

	if (!names_judged(source))
		return 0;
	if (image->pass_due)
		value_reads_begin(reads, image->open_slots, image->range, true); /* I4 */
	image->pass_due = false;
	count = value_reads_pass(source, max, slot_taken);
	if (!deliver_stopped(source) && value_reads_over(reads))
		image_pass_ends(image, reads->unread);
	return count;
}

/* -- the image -------------------------------------------------------------------------------- */

static void line_fetch(struct tb_source *source)
{
	struct image *image = source->mapping.image;
	struct progress line;

	if (!source->mapping.view) {
		source->look = true; /* pull_read() requests it */
		return;
	}
	image_line_asked(image);
	if (pull_view_line(source, &line))
		image_line(image, &line);
	else
		image_line_invalid(image);
}

/* Reports the slots that failed every copy. */
static void give_up(struct tb_source *source)
{
	struct image *image = source->mapping.image;

	for (int looked = 0; looked < SLOTS_MAX; looked++) {
		const uint32_t at = image_next_open(image, image->at);

		if (at >= image->range) {
			image_pass_ends(image, false);
			return;
		}
		image->at = at + 1;
		image_settle(image, at);
		if (source->mapping.view)
			names_fetch(source, at);
		deliver_no_value(source, at);
		if (deliver_stopped(source))
			return;
	}
}

static bool image_may_go_on(const struct tb_source *source)
{
	const struct image *image = source->mapping.image;

	return image && image->phase != IMAGE_IDLE && source->state == SOURCE_RUNNING &&
	       !source->has_successor && source->mapping.remote;
}

int pull_image(struct tb_source *source, int max)
{
	struct image *image = source->mapping.image;
	int count = 0;

	if (!image_may_go_on(source))
		return 0;
	source->held = false; /* values are copied to the same place */
	if (image_wants_line(image))
		line_fetch(source);
	if (image->phase == IMAGE_BEHIND)
		image_judge(image, source->next - 1, clock_ns());
	if (image->phase == IMAGE_PASS)
		count = pass(source, max);
	else if (image->phase == IMAGE_GIVE_UP)
		give_up(source);
	if (!deliver_stopped(source))
		deliver_complete(source);
	return count;
}

enum value_work pull_image_work(const struct tb_source *source)
{
	const struct image *image = source->mapping.image;

	if (!image_may_go_on(source))
		return VALUE_WORK_NONE;
	switch (image->phase) {
	case IMAGE_PASS:
		if (!choice_scan_covers(source->mapping.choice, image->range))
			return VALUE_WORK_NONE; /* the names come first: choice_scan_work() */
		return value_reads_work(source);
	case IMAGE_GIVE_UP:
		return VALUE_WORK_NOW;
	case IMAGE_RANGE:
	case IMAGE_JUDGE:
		return source->mapping.view && source->invalid == 0 ? VALUE_WORK_NOW
								    : VALUE_WORK_SOON;
	case IMAGE_BEHIND:
		return source->next - 1 < image->judged_head ? VALUE_WORK_NONE : VALUE_WORK_SOON;
	default:
		return VALUE_WORK_NONE;
	}
}

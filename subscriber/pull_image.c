/* SPDX-License-Identifier: Apache-2.0 */
/* Copies last-value slots, in place or by READ, and delivers them as an image. image.c has the
 * rules.
 *
 * By READ the directory entries come first, for names that are not known, then the values. Several
 * READs are outstanding. READs of records come first: an image takes at most half of the queue's
 * places.
 *
 * I9  A value is copied, checked and shown like a record. In place it is copied under the sequence
 *     lock. After a READ it is copied out of the landing before its check. */
#include "subscriber/pull_image.h"

#include <errno.h>

#include "bus/clock.h"
#include "bus/directory.h"
#include "bus/fabric.h"
#include "bus/record.h"
#include "bus/region.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/image.h"
#include "subscriber/landing.h"
#include "subscriber/names.h"
#include "subscriber/pull_view.h"
#include "subscriber/tag.h"

#define SLOTS_MAX 512 /* slots that one call looks at */

/* -- chunks ----------------------------------------------------------------------------------- */

static struct fabric_read chunk_read(const struct tb_source *source, unsigned int at)
{
	const struct mapping *mapping = &source->mapping;
	const struct image_chunk *chunk = &mapping->image->chunks[at];
	const uint64_t offset =
		chunk->names ? mapping->layout.directory : mapping->layout.last_value;
	const uint32_t each = chunk->names ? DIRECTORY_ENTRY_BYTES : mapping->shape.slot_bytes;

	return (struct fabric_read){ .remote = mapping->remote,
				     .tag = tag_pack(READ_IMAGE, source->slot, at),
				     .offset = offset + (uint64_t)chunk->first * each,
				     .bytes = chunk->count * each,
				     .into = landing_chunk(source, at) };
}

/* How many entries or slots of these bytes a READ brings. */
static uint32_t chunk_most(const struct tb_source *source, uint32_t bytes)
{
	const uint32_t read_bytes = source->subscription->subscriber->read_bytes;

	return read_bytes > bytes ? read_bytes / bytes : 1;
}

/* Takes the next names that are not known into a free chunk. False: the pass has no more. */
static bool names_begin(struct tb_source *source, struct image_chunk *chunk)
{
	const uint32_t each = chunk_most(source, DIRECTORY_ENTRY_BYTES);
	struct image *image = source->mapping.image;
	uint32_t first = image->names_at;

	while (first < image->range && source->mapping.names[first][0])
		first++;
	image->names_at = first;
	if (first == image->range)
		return false;
	*chunk = (struct image_chunk){ .first = first, .names = true, .number = image->number };
	chunk->count = image->range - first < each ? image->range - first : each;
	image->names_at = first + chunk->count;
	return true;
}

/* The same for open slots. */
static bool values_begin(struct tb_source *source, struct image_chunk *chunk)
{
	const uint32_t each = chunk_most(source, source->mapping.shape.slot_bytes);
	struct image *image = source->mapping.image;
	const uint32_t first = image_next_open(image, image->at);

	if (first >= image->range)
		return false;
	*chunk = (struct image_chunk){ .first = first, .number = image->number };
	chunk->count = image->range - first < each ? image->range - first : each;
	image->at = first + chunk->count;
	while (!image_is_open(image, first + chunk->count - 1))
		chunk->count--;
	return true;
}

static unsigned int image_under_way(const struct image *image)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < IMAGE_CHUNKS; i++)
		count += image->chunks[i].under_way;
	return count;
}

/* READs that leave room for those of records. */
static unsigned int queue_room(const struct tb_source *source)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;
	const unsigned int depth = subscriber->ops->depth(subscriber->link);
	const unsigned int most = depth > 3 ? depth / 2 : 1;
	const unsigned int under_way = image_under_way(source->mapping.image);

	return under_way < most ? most - under_way : 0;
}

/* One call for all of them: a call may be a system call. */
static void chunks_post(struct tb_source *source)
{
	struct fabric_read reads[IMAGE_CHUNKS];
	struct image_chunk *posting[IMAGE_CHUNKS];
	struct image *image = source->mapping.image;
	const unsigned int room = queue_room(source);
	unsigned int count = 0;
	int posted;

	for (unsigned int at = 0; at < IMAGE_CHUNKS && count < room; at++) {
		struct image_chunk *chunk = &image->chunks[at];

		if (chunk->count == 0 && !names_begin(source, chunk) &&
		    !values_begin(source, chunk))
			continue; /* a later chunk may lack its READ */
		if (chunk->posted || chunk->number != image->number)
			continue;
		reads[count] = chunk_read(source, at);
		posting[count++] = chunk;
	}
	posted = count > 0 ? connection_read(source, reads, count) : 0;
	for (int i = 0; i < posted; i++)
		posting[i]->posted = posting[i]->under_way = true;
}

void pull_image_landed(struct tb_source *source, unsigned int at, int status)
{
	struct image *image = source->mapping.image;

	if (!image || at >= IMAGE_CHUNKS)
		return;
	image->chunks[at].under_way = false;
	if (status < 0)
		image->chunks[at].failed = true;
}

static bool chunk_is_landed(const struct image_chunk *chunk)
{
	return chunk->count > 0 && chunk->posted && !chunk->under_way;
}

/* -- slots ------------------------------------------------------------------------------------ */

/* A valid copy in source->record. Returns 1 if it was delivered, 0 if not. A value without a name
 * counts as failed. */
static int value_take(struct tb_source *source)
{
	struct image *image = source->mapping.image;
	const struct record *copy = &source->record;

	if (!record_is_value(copy->kind, copy->flags) ||
	    (source->mapping.view && names_fetch(source, copy->instrument) != 1) ||
	    !source->mapping.names[copy->instrument][0])
		return 0;
	if (!image_takes(image, copy))
		return 0;
	deliver_value(source, &source->record);
	return 1;
}

/* `result` is that of the copy: 1 valid, 0 never written, -EAGAIN failed. */
static int slot_result(struct tb_source *source, uint32_t instrument, int result)
{
	if (result == 1)
		return value_take(source);
	if (result == 0)
		image_settle(source->mapping.image, instrument);
	else
		source->subscription->counters[SUBSCRIPTION_TORN]++;
	return 0;
}

static int pass_view(struct tb_source *source, int max)
{
	const struct mapping *mapping = &source->mapping;
	struct image *image = mapping->image;
	const uint64_t *salt = mapping->checked ? &mapping->record_salt : NULL;
	int count = 0;

	for (int looked = 0; looked < SLOTS_MAX && count < max; looked++) {
		const uint32_t at = image_next_open(image, image->at);
		const char *slot = mapping->view + mapping->layout.last_value +
				   (size_t)at * mapping->shape.slot_bytes;

		image->at = at + 1;
		if (at >= image->range) {
			image_pass_ends(image);
			break;
		}
		count += slot_result(source, at,
				     record_take_value((const struct slot *)(const void *)slot,
						       mapping->shape.slot_bytes, at,
						       &source->record, salt));
		if (deliver_stopped(source))
			break;
	}
	return count;
}

/* Delivers what a landed chunk has; frees it at its end. */
static int chunk_take(struct tb_source *source, unsigned int at, int max, int *looked)
{
	const struct mapping *mapping = &source->mapping;
	struct image *image = mapping->image;
	struct image_chunk *chunk = &image->chunks[at];
	int count = 0;

	for (; chunk->taken < chunk->count && count < max && *looked < SLOTS_MAX; (*looked)++) {
		const uint32_t i = chunk->taken++, instrument = chunk->first + i;
		const char *landed =
			landing_chunk(source, at) + (size_t)i * mapping->shape.slot_bytes;

		if (!image_is_open(image, instrument))
			continue;
		count += slot_result(source, instrument,
				     record_take_landed_value(landed, mapping->shape.slot_bytes,
							      instrument, &source->record,
							      mapping->record_salt));
		if (deliver_stopped(source))
			return count;
	}
	if (chunk->taken == chunk->count)
		chunk->count = 0;
	return count;
}

static bool chunks_are_free(const struct image *image)
{
	for (unsigned int i = 0; i < IMAGE_CHUNKS; i++)
		if (image->chunks[i].count > 0)
			return false;
	return true;
}

/* Keeps the names that have landed. Returns whether more are to come. */
static bool names_come(struct tb_source *source)
{
	struct image *image = source->mapping.image;
	bool come = false;

	for (unsigned int at = 0; at < IMAGE_CHUNKS; at++) {
		struct image_chunk *chunk = &image->chunks[at];

		if (!chunk->names || chunk->count == 0)
			continue;
		if (chunk_is_landed(chunk)) {
			names_take_run(source, chunk->first, chunk->count,
				       landing_chunk(source, at));
			chunk->count = 0;
		} else {
			come = true;
		}
	}
	return come;
}

/* Values wait for all names of the pass. */
static int pass_read(struct tb_source *source, int max)
{
	struct image *image = source->mapping.image;
	int count = 0, looked = 0;

	chunks_post(source);
	if (!names_come(source))
		for (unsigned int at = 0; at < IMAGE_CHUNKS && !deliver_stopped(source); at++)
			if (chunk_is_landed(&image->chunks[at]))
				count += chunk_take(source, at, max - count, &looked);
	if (deliver_stopped(source))
		return count;
	chunks_post(source);
	if (chunks_are_free(image) && image_next_open(image, image->at) >= image->range)
		image_pass_ends(image);
	return count;
}

/* Frees landed chunks that failed, or that belong to an earlier base (I4). Their slots stay open.
 */
static void chunks_sort_out(struct image *image)
{
	for (unsigned int i = 0; i < IMAGE_CHUNKS; i++) {
		struct image_chunk *chunk = &image->chunks[i];

		if (chunk->number != image->number && !chunk->under_way)
			chunk->count = 0;
		if (chunk->failed && chunk_is_landed(chunk)) {
			chunk->count = 0;
			image_unread(image);
		}
	}
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
			image_pass_ends(image);
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
	chunks_sort_out(image);
	if (image_wants_line(image))
		line_fetch(source);
	if (image->phase == IMAGE_BEHIND)
		image_judge(image, source->next - 1, clock_ns());
	if (image->phase == IMAGE_PASS)
		count = source->mapping.view ? pass_view(source, max) : pass_read(source, max);
	else if (image->phase == IMAGE_GIVE_UP)
		give_up(source);
	if (!deliver_stopped(source))
		deliver_complete(source);
	return count;
}

static enum image_work pass_work(const struct tb_source *source)
{
	const struct image *image = source->mapping.image;

	if (source->mapping.view)
		return IMAGE_WORK_NOW;
	for (unsigned int i = 0; i < IMAGE_CHUNKS; i++)
		if (chunk_is_landed(&image->chunks[i]))
			return IMAGE_WORK_NOW;
	return image_under_way(image) > 0 ? IMAGE_WORK_NONE : IMAGE_WORK_SOON;
}

enum image_work pull_image_work(const struct tb_source *source)
{
	const struct image *image = source->mapping.image;

	if (!image_may_go_on(source))
		return IMAGE_WORK_NONE;
	switch (image->phase) {
	case IMAGE_PASS:
		return pass_work(source);
	case IMAGE_GIVE_UP:
		return IMAGE_WORK_NOW;
	case IMAGE_RANGE:
	case IMAGE_JUDGE:
		return source->mapping.view && source->invalid == 0 ? IMAGE_WORK_NOW
								    : IMAGE_WORK_SOON;
	case IMAGE_BEHIND:
		return source->next - 1 < image->judged_head ? IMAGE_WORK_NONE : IMAGE_WORK_SOON;
	default:
		return IMAGE_WORK_NONE;
	}
}

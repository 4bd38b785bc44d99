/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that read the ring's past: a record by its time, the last records of an instrument.
 *
 * H-I3  The ring is read in place or by READs whatever the position is, and the position does not
 *       move. What these calls show is neither delivered nor lost.
 * H-I4  tb_read_back looks at each slot once, from newer to older. A record that was overwritten
 *       ends it: all older records were. A corrupt record is left out.
 * H-I5  Only instruments of the directory, with a known name, are shown (V-I2). A record of another
 *       instrument counts as corrupt. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "bus/error.h"
#include "bus/region.h"
#include "subscriber/ask.h"
#include "subscriber/find.h"
#include "subscriber/get_read.h"
#include "subscriber/ring_get.h"
#include "subscriber/state.h"
#include "tickbus/subscriber.h"

#define SECOND_NS UINT64_C(1000000000)
#define TIME_TEXT 48

/* As tickbus cat prints it. */
static const char *time_text(uint64_t time_ns, char text[TIME_TEXT])
{
	const time_t second = (time_t)(time_ns / SECOND_NS);
	struct tm day;
	size_t used;

	gmtime_r(&second, &day);
	used = strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &day);
	snprintf(text + used, TIME_TEXT - used, ".%09" PRIu64 "Z", time_ns % SECOND_NS);
	return text;
}

/* Loads a line that counts records which are held. */
static int records_line(struct tb_source *source, struct progress *line)
{
	int result = source->mapping.view ? 0 : get_open(source);

	if (result == 0)
		result = get_line(source, line);
	if (result < 0)
		return result;
	if (line->head < line->first)
		return error_set(ENODATA, "topic %s: it has no record yet", source->name);
	if (progress_oldest(line, source->mapping.shape.slots) > line->head)
		return error_set(EAGAIN, "topic %s: all its records are being overwritten now",
				 source->name);
	return 0;
}

/* -- by time ---------------------------------------------------------------------------------- */

/* The writer goes on, so what was held may be overwritten already. */
static int find_refused(const struct tb_source *source, const struct find *find, int result)
{
	char asked[TIME_TEXT], oldest[TIME_TEXT];

	if (result == -ERANGE)
		return error_set(ERANGE,
				 "topic %s: found time %s, expected %s or later: record %" PRIu64
				 " had that time, and was the oldest that was held",
				 source->name, time_text(find->time_ns, asked),
				 time_text(find->above_ns, oldest), find->above);
	return error_set(EAGAIN,
			 "topic %s: no record up to time %s was found in %u copies of slots: they "
			 "were overwritten or not whole",
			 source->name, time_text(find->time_ns, asked), find->copies);
}

TB_API int tb_find_time(const struct tb_source *source, uint64_t time_ns, uint64_t *sequence)
{
	struct progress line;
	struct find find;
	int result = ask_ready(source, "tb_find_time");

	if (result < 0)
		return result;
	if (!(source->mapping.shape.flags & REGION_FLAG_TIME_RISES))
		return error_set(EOPNOTSUPP,
				 "topic %s: its times need not rise, because it belongs to no "
				 "group, so no time finds a record",
				 source->name);
	result = records_line(ask_own(source), &line);
	if (result < 0)
		return result;
	find_begin(&find, time_ns, &line, source->mapping.shape.slots);
	result = ring_get_find(ask_own(source), &find);
	if (result < 0)
		return result;
	result = find_result(&find, sequence);
	return result < 0 ? find_refused(source, &find, result) : 0;
}

/* -- backwards -------------------------------------------------------------------------------- */

struct past {
	struct tb_source *source;
	uint32_t instrument;
	uint32_t count; /* records that are still wanted */
	tb_past_handler *handler;
	void *user;
	struct record *copy;
	uint64_t at;     /* the record to be looked at next */
	uint64_t oldest; /* the last to be looked at */
	int records;     /* shown */
	int result;      /* why it ended: an error, or what the handler returned */
};

/* Whether the record is wanted. -errno: its name could not be copied. */
static int past_wants(const struct past *past)
{
	const struct record *copy = past->copy;
	int result;

	if (copy->kind == TB_KIND_HOLE || copy->kind == TB_KIND_QUALITY)
		return 0; /* of the topic, not of an instrument */
	if (past->instrument != TB_ALL_INSTRUMENTS)
		return copy->instrument == past->instrument;
	if (ask_is_known(past->source, copy->instrument))
		return 1;
	result = ask_instrument(past->source, copy->instrument);
	return result == -ENOENT ? 0 : result < 0 ? result : 1; /* H-I5 */
}

static void past_show(struct past *past)
{
	const struct mapping *mapping = &past->source->mapping;
	const struct record *copy = past->copy;
	const struct tb_record shown = { .size = sizeof(shown),
					 .epoch = mapping->shape.epoch,
					 .sequence = copy->sequence,
					 .time_ns = copy->time_ns,
					 .instrument = copy->instrument,
					 .length = copy->length,
					 .kind = copy->kind,
					 .flags = copy->flags,
					 .name = mapping->names[copy->instrument],
					 .data = copy->payload };

	past->records++;
	past->count--;
	past->result = past->handler(past->user, past->source, &shown);
	if (ask_stopped(past->source, "tb_read_back") < 0)
		past->result = -ECANCELED;
}

/* Takes what was found in the slot of record `at`. Returns whether to go on. */
static bool past_take(struct past *past, int found)
{
	int wanted = 0;

	if (found == RING_GET_WHOLE)
		wanted = past_wants(past);
	past->result = found < 0 ? found : wanted < 0 ? wanted : 0;
	if (past->result < 0 || found == RING_GET_OVERWRITTEN)
		return false;
	past->at--;
	if (wanted == 1)
		past_show(past);
	return past->result == 0 && past->count > 0;
}

static void past_view(struct past *past)
{
	bool more = true;

	while (more && past->at >= past->oldest)
		more = past_take(past,
				 ring_get(past->source, past->at, RING_GET_COPIES, past->copy));
}

/* The first record of the run that ends at the position. The landing bounds the run. So does the
 * count, if records of all instruments are wanted. */
static uint64_t run_first(const struct past *past)
{
	const struct tb_source *source = past->source;
	uint64_t most =
		get_half_bytes(source->subscription->subscriber) / source->mapping.shape.slot_bytes;

	if (past->instrument == TB_ALL_INSTRUMENTS && past->count < most)
		most = past->count;
	return past->at - past->oldest < most ? past->oldest : past->at - most + 1;
}

static char *run_landed(const struct past *past, uint64_t first, uint64_t sequence)
{
	return get_half(past->source, GET_LIST) +
	       (sequence - first) * past->source->mapping.shape.slot_bytes;
}

/* READs records first to at. A READ ends where the ring does. */
static int run_read(const struct past *past, uint64_t first)
{
	const struct mapping *mapping = &past->source->mapping;
	const uint32_t slot_bytes = mapping->shape.slot_bytes;
	const uint32_t read_bytes = past->source->subscription->subscriber->read_bytes;
	const uint64_t each = read_bytes > slot_bytes ? read_bytes / slot_bytes : 1;
	struct fabric_read reads[FABRIC_DEPTH_MAX];
	unsigned int filled = 0;
	int result = 0;

	for (uint64_t at = first, number; at <= past->at && result == 0; at += number) {
		const uint64_t to_wrap = mapping->shape.slots - (at & (mapping->shape.slots - 1));

		number = past->at + 1 - at;
		number = number < each ? number : each;
		number = number < to_wrap ? number : to_wrap;
		reads[filled++] =
			get_part(past->source, ring_get_offset(mapping, at),
				 (uint32_t)number * slot_bytes, run_landed(past, first, at));
		if (filled == FABRIC_DEPTH_MAX) {
			result = get_reads(past->source, reads, filled);
			filled = 0;
		}
	}
	return result == 0 && filled > 0 ? get_reads(past->source, reads, filled) : result;
}

static void past_remote(struct past *past)
{
	bool more = true;

	while (more && past->at >= past->oldest) {
		const uint64_t first = run_first(past);
		uint64_t proven;
		int result = run_read(past, first);

		if (result == 0)
			result = ring_get_proof(past->source, &proven);
		if (result < 0) {
			past->result = result;
			return;
		}
		while (more && past->at >= first)
			more = past_take(past, ring_get_landed(past->source, past->at,
							       run_landed(past, first, past->at),
							       proven, past->copy));
	}
}

static int past_run(void *user)
{
	struct past *past = user;

	if (past->source->mapping.view)
		past_view(past);
	else
		past_remote(past);
	return past->result;
}

/* -- the call --------------------------------------------------------------------------------- */

static int back_check(const struct tb_source *source, uint32_t count, tb_past_handler *handler)
{
	int result = ask_free(source, "tb_read_back");

	if (result == 0)
		result = ask_ready(source, "tb_read_back");
	if (result < 0)
		return result;
	if (!handler)
		return error_set(EINVAL,
				 "tb_read_back: found no handler, expected a handler of records");
	if (count == 0)
		return error_set(EINVAL, "tb_read_back: found count 0, expected 1 or more");
	return 0;
}

/* Bounds the records to look at by the line. */
static int back_bounds(struct past *past, uint64_t sequence)
{
	struct tb_source *source = past->source;
	struct progress line;
	const int result = records_line(source, &line);

	if (result < 0)
		return result;
	past->oldest = progress_oldest(&line, source->mapping.shape.slots);
	past->at = sequence == 0 ? line.head : sequence;
	if (past->at > line.head)
		return error_set(EINVAL,
				 "tb_read_back: topic %s: found sequence %" PRIu64
				 ", expected at most %" PRIu64 ", the newest record",
				 source->name, sequence, line.head);
	if (past->at < past->oldest)
		return error_set(ERANGE,
				 "topic %s: found sequence %" PRIu64 ", expected %" PRIu64
				 " or more: that was the oldest record that was held",
				 source->name, sequence, past->oldest);
	return 0;
}

TB_API int tb_read_back(const struct tb_source *source, uint64_t sequence, uint32_t instrument,
			uint32_t count, tb_past_handler *handler, void *user, uint64_t *oldest)
{
	struct past past = { .source = ask_own(source),
			     .instrument = instrument,
			     .count = count,
			     .handler = handler,
			     .user = user };
	int result = back_check(source, count, handler);

	if (result < 0)
		return result;
	past.copy = &source->subscription->subscriber->get.listed;
	result = back_bounds(&past, sequence);
	if (result == 0 && instrument != TB_ALL_INSTRUMENTS && !ask_is_known(source, instrument))
		result = ask_instrument(past.source, instrument);
	if (result < 0)
		return result;
	result = ask_run(past.source, past_run, &past);
	if (oldest)
		*oldest = past.at + 1;
	return result != 0 ? result : past.records;
}

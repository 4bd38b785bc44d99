/* SPDX-License-Identifier: Apache-2.0 */
/* READs that their caller waits for, perhaps inside a handler.
 *
 * G-I1  Waiting calls no handler. Completions of other READs are kept for the next turn.
 * G-I2  A READ is posted only while the topic's memory is certainly readable (U1). If the last look
 *       at the bus page is too old, the topic's entry is READ first. It keeps the places of U2.
 * G-I3  A READ that outlives its caller's wait still lands. So the landing is used again only when
 *       no READ into it is outstanding. */
#include "subscriber/get_read.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include "bus/barrier.h"
#include "bus/bus_page.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "bus/words.h"
#include "subscriber/completions.h"
#include "subscriber/connection.h"

#define LOOKS_MAX 64 /* in a row that find nothing, before other threads may run */

size_t get_half_bytes(const struct tb_subscriber *subscriber)
{
	return subscriber->batch_bytes;
}

int get_open(struct tb_source *source)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	struct get *get = &subscriber->get;

	if (!subscriber->link || !source->mapping.remote || source->orphan)
		return error_set(ENOTCONN, "topic %s: not connected to %s", source->name,
				 subscriber->address);
	if (!get->landing)
		get->landing =
			subscriber->ops->landing(subscriber->link, 2 * get_half_bytes(subscriber));
	return get->landing ? 0 : -ENOMEM;
}

void get_close(struct tb_subscriber *subscriber)
{
	struct get *get = &subscriber->get;

	if (get->landing)
		subscriber->ops->landing_free(subscriber->link, get->landing,
					      2 * get_half_bytes(subscriber));
	get->landing = NULL;
	get->under_way = 0;
}

char *get_half(const struct tb_source *source, enum get_half half)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;

	return subscriber->get.landing + half * get_half_bytes(subscriber);
}

struct fabric_read get_part(const struct tb_source *source, uint64_t offset, uint32_t bytes,
			    char *into)
{
	return (struct fabric_read){ .remote = source->mapping.remote,
				     .offset = offset,
				     .bytes = bytes,
				     .into = into,
				     .tag = tag_pack(READ_GET, source->slot, 0) };
}

/* -- waiting ---------------------------------------------------------------------------------- */

static int too_late(const struct tb_source *source)
{
	return error_set(ETIMEDOUT, "topic %s: the publisher's memory was not READ within %u ms",
			 source->name, source->subscription->subscriber->connect_ms);
}

static int failed(const struct tb_source *source)
{
	return error_set(ENOTCONN, "topic %s: a READ failed: the connection to %s is lost",
			 source->name, source->subscription->subscriber->address);
}

/* Takes what has completed (G-I1). -ETIMEDOUT if that is nothing and until_ms has passed. */
static int look(struct tb_source *source, uint64_t until_ms, unsigned int *looks)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const unsigned int before = subscriber->under_way - subscriber->completions.count;

	completions_reap(subscriber);
	if (subscriber->under_way - subscriber->completions.count != before) {
		*looks = 0;
		return 0;
	}
	if (clock_coarse_ms() >= until_ms)
		return too_late(source);
	if (++*looks % LOOKS_MAX == 0)
		sched_yield();
	else
		barrier_pause();
	return 0;
}

/* Posts what there is room for. */
static int post(struct tb_source *source, const struct fabric_read *reads, unsigned int count)
{
	struct get *get = &source->subscription->subscriber->get;
	const int posted = connection_read_now(source, reads, count);

	if (posted > 0)
		get->under_way += (unsigned int)posted;
	return posted;
}

/* Waits for all that is outstanding (G-I3), posting the rest meanwhile. */
static int finish(struct tb_source *source, const struct fabric_read *reads, unsigned int count,
		  uint64_t until_ms)
{
	struct get *get = &source->subscription->subscriber->get;
	unsigned int posted = 0, looks = 0;
	int result = 0;

	get->failed = false;
	while (get->under_way > 0 || (posted < count && !get->failed)) {
		if (posted < count && !get->failed) {
			result = post(source, reads + posted, count - posted);
			if (result < 0)
				return error_prefix(result, "topic %s: ", source->name);
			posted += (unsigned int)result;
		}
		result = look(source, until_ms, &looks);
		if (result < 0)
			return result;
	}
	return get->failed ? failed(source) : 0;
}

/* -- U1 --------------------------------------------------------------------------------------- */

/* The entry of the topic, READ from the bus page. It takes one of the places that topics have. */
static int entry_read(struct tb_source *source, uint64_t until_ms, struct bus_entry *entry)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const uint32_t index = source->mapping.shape.topic_id - 1;
	struct fabric_read read = get_part(source, bus_page_entry_offset(index), sizeof(*entry),
					   get_half(source, GET_SINGLE));
	int result = 0;
	unsigned int looks = 0;

	read.remote = subscriber->page;
	while (result == 0 && (result = connection_read_page(source, &read)) == 0)
		result = look(source, until_ms, &looks);
	if (result < 0)
		return error_prefix(result, "topic %s: ", source->name);
	subscriber->get.under_way++;
	result = finish(source, NULL, 0, until_ms);
	if (result == 0)
		words_load(entry, get_half(source, GET_SINGLE), sizeof(*entry));
	return result;
}

static int page_look(struct tb_source *source, uint64_t until_ms)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;
	const uint32_t topic_id = source->mapping.shape.topic_id;
	const uint64_t asked_ms = clock_coarse_ms();
	struct bus_entry entry;
	int result;

	if (!subscriber->page || topic_id > subscriber->welcome.topics_max)
		return failed(source);
	result = entry_read(source, until_ms, &entry);
	if (result < 0)
		return result;
	if (bus_page_verify_entry(&entry, topic_id - 1, subscriber->welcome.bus_id) == 0)
		connection_shown(source, entry.epoch, asked_ms);
	if (connection_may_read(source))
		return 0;
	return error_set(EAGAIN, "topic %s: the bus page does not show its epoch now: call tb_poll",
			 source->name);
}

int get_reads(struct tb_source *source, const struct fabric_read *reads, unsigned int count)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const uint64_t until_ms = clock_coarse_ms() + subscriber->connect_ms;
	int result;

	result = finish(source, NULL, 0, until_ms);
	if (result == 0 && !connection_may_read(source))
		result = page_look(source, until_ms);
	return result == 0 ? finish(source, reads, count, until_ms) : result;
}

/* -- the line --------------------------------------------------------------------------------- */

static int line_copy(struct tb_source *source, struct progress *progress)
{
	const struct mapping *mapping = &source->mapping;
	struct fabric_read read;
	int result;

	if (mapping->view) {
		progress_load(
			(const struct progress_line *)(const void *)(mapping->view +
								     mapping->layout.progress),
			progress);
		atomic_thread_fence(memory_order_acquire); /* R3, R5 */
		return 0;
	}
	read = get_part(source, mapping->layout.progress, sizeof(*progress),
			get_half(source, GET_SINGLE));
	result = get_reads(source, &read, 1);
	if (result == 0)
		words_load(progress, get_half(source, GET_SINGLE), sizeof(*progress));
	return result;
}

int get_line(struct tb_source *source, struct progress *progress)
{
	const struct mapping *mapping = &source->mapping;
	int result;

	for (int i = 0; i < GET_LINE_TRIES; i++) {
		result = line_copy(source, progress);
		if (result < 0)
			return result;
		if (progress_verify(progress, &mapping->shape, mapping->progress_salt) == 0)
			return 0;
		barrier_pause();
	}
	return error_set(EAGAIN, "topic %s: its progress line is not valid now", source->name);
}

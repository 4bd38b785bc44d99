/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a topic.
 *
 * N-I1  The line is copied first, then the entries that it counts (R5). So each entry is whole, and
 *       a copy of it that fails its check was damaged on its way.
 * N-I2  A name never changes within an epoch: names that are known are not copied again. */
#include "subscriber/instruments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/directory.h"
#include "bus/error.h"
#include "bus/progress.h"
#include "bus/words.h"
#include "subscriber/get_read.h"

#define READS_MAX 16

/* -- names ------------------------------------------------------------------------------------ */

static int name_take(struct mapping *mapping, const void *shared, uint32_t instrument)
{
	struct directory_entry entry;

	if (mapping->names[instrument][0])
		return 0;
	words_load(&entry, shared, sizeof(entry));
	if (directory_verify(&entry, instrument, mapping->directory_salt,
			     mapping->names[instrument]) == 0)
		return 0;
	mapping->names[instrument][0] = '\0';
	return -EAGAIN;
}

/* Takes names from names_known on; `entries` begins there. Stops at an entry that is not valid. */
static void names_take_all(struct mapping *mapping, const char *entries, uint32_t end)
{
	while (mapping->names_known < end &&
	       name_take(mapping, entries, mapping->names_known) == 0) {
		mapping->names_known++;
		entries += DIRECTORY_ENTRY_BYTES;
	}
}

static uint64_t entry_offset(const struct mapping *mapping, uint32_t instrument)
{
	return mapping->layout.directory + (uint64_t)instrument * DIRECTORY_ENTRY_BYTES;
}

/* READs as many entries as the landing takes, from names_known on. */
static int names_read(struct tb_source *source, uint32_t end)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;
	const uint32_t from = source->mapping.names_known;
	const uint32_t each = subscriber->read_bytes / DIRECTORY_ENTRY_BYTES;
	const uint32_t room = (uint32_t)(get_half_bytes(subscriber) / DIRECTORY_ENTRY_BYTES);
	const uint32_t last = end - from < room ? end : from + room;
	struct fabric_read reads[READS_MAX];
	unsigned int count = 0;
	uint32_t at = from, number;
	int result;

	for (; at < last && count < READS_MAX; at += number) {
		number = last - at < each ? last - at : each;
		reads[count++] = get_part(
			source, entry_offset(&source->mapping, at), number * DIRECTORY_ENTRY_BYTES,
			get_half(source, GET_SINGLE) + (size_t)(at - from) * DIRECTORY_ENTRY_BYTES);
	}
	result = get_reads(source, reads, count);
	if (result == 0)
		names_take_all(&source->mapping, get_half(source, GET_SINGLE), at);
	return result;
}

static int names_copy(struct tb_source *source, uint32_t end)
{
	struct mapping *mapping = &source->mapping;
	uint32_t before;
	int tries = 0, result = 0;

	while (mapping->names_known < end && tries < INSTRUMENTS_TRIES && result == 0) {
		before = mapping->names_known;
		if (mapping->view)
			names_take_all(mapping, mapping->view + entry_offset(mapping, before), end);
		else
			result = names_read(source, end);
		tries = mapping->names_known == before ? tries + 1 : 0;
	}
	if (result == 0 && mapping->names_known < end)
		result = error_set(EAGAIN,
				   "topic %s: the directory has no valid name of instrument %u",
				   source->name, mapping->names_known);
	return result;
}

int instruments_update(struct tb_source *source)
{
	struct mapping *mapping = &source->mapping;
	struct progress line;
	int result = 0;

	if (!mapping->view)
		result = get_open(source);
	if (result == 0)
		result = get_line(source, &line);
	if (result < 0)
		return result;
	result = names_copy(source, line.instruments);
	return result < 0 ? result : (int)mapping->names_known;
}

/* -- by name ---------------------------------------------------------------------------------- */

static int index_open(const struct tb_source *source, struct mapping *mapping)
{
	const uint32_t capacity = mapping->shape.capacity;
	const int result = name_index_open(&mapping->name_index, mapping->names[0],
					   sizeof(mapping->names[0]), capacity);

	if (result == 0)
		return 0;
	name_index_close(&mapping->name_index);
	return result == -ENOMEM ? error_set(ENOMEM, "topic %s: no memory for an index of %u names",
					     source->name, capacity)
				 : result;
}

int instruments_find(struct tb_source *source, const char *name)
{
	struct mapping *mapping = &source->mapping;
	struct name_index *index = &mapping->name_index;
	int64_t found;
	int result = 0;

	if (!index->buckets)
		result = index_open(source, mapping);
	if (result < 0)
		return result;
	for (; mapping->names_indexed < mapping->names_known; mapping->names_indexed++)
		/* of two instruments with a name, the first has it */
		if (name_index_find(index, mapping->names[mapping->names_indexed]) < 0)
			name_index_add(index, mapping->names_indexed);
	found = name_index_find(index, name);
	return found < 0 ? -ENOENT : (int)found;
}

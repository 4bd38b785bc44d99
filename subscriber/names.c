/* SPDX-License-Identifier: Apache-2.0 */
/* Names of instruments: from the cache, else from the directory in the topic's memory. */
#include "subscriber/names.h"

#include <errno.h>
#include <string.h>

#include "bus/directory.h"
#include "bus/region.h"
#include "bus/words.h"
#include "subscriber/fetch.h"
#include "subscriber/landing.h"
#include "subscriber/tag.h"

void names_take_run(struct tb_source *source, uint32_t first, uint32_t count, const char *landed)
{
	struct mapping *mapping = &source->mapping;
	struct directory_entry entry;

	for (uint32_t i = 0; i < count && first + i < mapping->shape.capacity; i++) {
		char *const name = mapping->names[first + i];

		words_load(&entry, landed + (size_t)i * sizeof(entry), sizeof(entry));
		if (!name[0] &&
		    directory_verify(&entry, first + i, mapping->directory_salt, name) < 0)
			name[0] = '\0';
	}
}

bool names_take(struct tb_source *source)
{
	const struct mapping *mapping = &source->mapping;

	names_take_run(source, source->names_from,
		       mapping->view ? 1 : REGION_PAGE / DIRECTORY_ENTRY_BYTES,
		       landing_page(source));
	return mapping->names[source->name_wanted][0] != '\0';
}

static int name_fetch(struct tb_source *source, uint32_t instrument, enum read_kind kind)
{
	const uint32_t capacity = source->mapping.shape.capacity;
	const uint32_t page = REGION_PAGE / DIRECTORY_ENTRY_BYTES;
	uint32_t from, entries;
	int result;

	if (instrument >= capacity)
		return -EAGAIN;
	if (source->mapping.names[instrument][0])
		return 1;
	from = source->mapping.view ? instrument : instrument / page * page;
	entries = source->mapping.view ? 1 : capacity - from < page ? capacity - from : page;
	source->names_from = from;
	source->name_wanted = instrument;
	result = fetch(source, kind,
		       source->mapping.layout.directory + (uint64_t)from * DIRECTORY_ENTRY_BYTES,
		       entries * DIRECTORY_ENTRY_BYTES);
	if (result != 1) /* a READ is outstanding, or the queue is full: try the record again */
		return 0;
	return names_take(source) ? 1 : -EAGAIN;
}

int names_fetch(struct tb_source *source, uint32_t instrument)
{
	return name_fetch(source, instrument, READ_NAMES);
}

int names_fetch_all(struct tb_source *source, uint32_t instrument)
{
	return name_fetch(source, instrument, READ_DIRECTORY);
}

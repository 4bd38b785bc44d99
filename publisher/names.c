/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing, at most half full; entries are never removed. */
#include "publisher/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

int names_open(struct names *names, uint32_t capacity)
{
	uint32_t buckets = 16;
	int result;

	while (buckets < capacity * 2)
		buckets *= 2;
	*names = (struct names){ .capacity = capacity, .mask = buckets - 1 };
	names->entries = calloc(capacity, sizeof(*names->entries));
	names->buckets = calloc(buckets, sizeof(*names->buckets));
	if (!names->entries || !names->buckets) {
		names_close(names);
		return error_set(ENOMEM, "no memory for %u names", capacity);
	}
	result = keyed_open(&names->key);
	if (result < 0)
		names_close(names);
	return result;
}

void names_close(struct names *names)
{
	free(names->entries);
	free(names->buckets);
	*names = (struct names){ 0 };
}

void names_clear(struct names *names)
{
	memset(names->buckets, 0, (names->mask + 1) * sizeof(*names->buckets));
	names->count = 0;
}

static uint32_t place_of(const struct names *names, const char *name)
{
	return (uint32_t)keyed_hash(&names->key, name, strlen(name)) & names->mask;
}

int64_t names_find(const struct names *names, const char *name)
{
	for (uint32_t at = place_of(names, name); names->buckets[at]; at = (at + 1) & names->mask) {
		const uint32_t index = names->buckets[at] - 1;

		if (strcmp(names->entries[index].name, name) == 0)
			return index;
	}
	return -1;
}

int64_t names_add(struct names *names, const char *name, uint64_t value)
{
	uint32_t at = place_of(names, name);

	if (names->count == names->capacity)
		return -1;
	while (names->buckets[at])
		at = (at + 1) & names->mask;
	strncpy(names->entries[names->count].name, name, TB_INSTRUMENT_NAME_MAX);
	names->entries[names->count].value = value;
	names->buckets[at] = ++names->count;
	return names->count - 1;
}

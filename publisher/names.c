/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/names.h"

#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "bus/sparse.h"

int names_open(struct names *names, uint32_t capacity)
{
	int result = -ENOMEM;

	*names = (struct names){ .capacity = capacity };
	names->entries = sparse_new(capacity, sizeof(*names->entries));
	if (names->entries)
		result = name_index_open(&names->index, names->entries[0].name,
					 sizeof(*names->entries), capacity);
	if (result < 0)
		names_close(names);
	return result == -ENOMEM ? error_set(ENOMEM, "no memory for %u names", capacity) : result;
}

void names_close(struct names *names)
{
	name_index_close(&names->index);
	sparse_free(names->entries, names->capacity, sizeof(*names->entries));
	*names = (struct names){ 0 };
}

void names_clear(struct names *names)
{
	name_index_clear(&names->index);
	names->count = 0;
}

int64_t names_find(const struct names *names, const char *name)
{
	return name_index_find(&names->index, name);
}

int64_t names_add(struct names *names, const char *name, uint64_t value)
{
	struct names_entry *entry = &names->entries[names->count];

	if (names->count == names->capacity)
		return -1;
	strncpy(entry->name, name, TB_INSTRUMENT_NAME_MAX);
	entry->value = value;
	if (!name_index_add(&names->index, names->count))
		return -1;
	return names->count++;
}

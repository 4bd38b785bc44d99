/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a topic's directory.
 *
 * W5  entry, then the progress line that counts it (progress_store's W3 is the barrier between).
 * R5  a progress line (R3), then the entries that it counts. */
#include "bus/directory.h"

#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "bus/words.h"

/* Without the index, entries with equal names would be interchangeable. */
static uint64_t directory_salt(uint64_t salt, uint32_t index)
{
	return salt ^ (UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)index + 1));
}

int directory_name_check(const char *name)
{
	const size_t length = strnlen(name, TB_INSTRUMENT_NAME_MAX + 1);

	if (length == 0)
		return error_set(EINVAL, "instrument name: found \"\", expected 1 to %d bytes",
				 TB_INSTRUMENT_NAME_MAX);
	if (length > TB_INSTRUMENT_NAME_MAX)
		return error_set(EINVAL,
				 "instrument name: found \"%.*s...\", expected at most %d bytes",
				 TB_INSTRUMENT_NAME_MAX, name, TB_INSTRUMENT_NAME_MAX);
	for (size_t i = 0; i < length; i++)
		if (name[i] < ' ' || name[i] > '~')
			return error_set(EINVAL,
					 "instrument name: found byte 0x%02x at %zu, expected "
					 "printable ASCII",
					 (unsigned int)(unsigned char)name[i], i);
	if (name[0] == ' ' || name[length - 1] == ' ')
		return error_set(EINVAL,
				 "instrument name: found \"%s\", expected no space at either end",
				 name);
	return 0;
}

void directory_store(void *base, uint32_t index, const char *name, uint64_t salt)
{
	struct directory_entry entry = { .check = 0 };

	memcpy(entry.name, name, strnlen(name, sizeof(entry.name)));
	entry.check = record_hash(&entry, sizeof(entry), offsetof(struct directory_entry, check),
				  directory_salt(salt, index));
	words_store((char *)base + (size_t)index * sizeof(entry), &entry, sizeof(entry));
}

int directory_verify(struct directory_entry *copy, uint32_t index, uint64_t salt,
		     char name[TB_INSTRUMENT_NAME_MAX + 1])
{
	if (record_hash(copy, sizeof(*copy), offsetof(struct directory_entry, check),
			directory_salt(salt, index)) != copy->check)
		return -EAGAIN;
	memcpy(name, copy->name, sizeof(copy->name));
	name[sizeof(copy->name)] = '\0';
	return directory_name_check(name) == 0 ? 0 : -EAGAIN;
}

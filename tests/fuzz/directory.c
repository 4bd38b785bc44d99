/* SPDX-License-Identifier: Apache-2.0 */
/* A valid directory entry has a printable name, at its own index. */
#include <string.h>

#include "bus/directory.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(data, size)
{
	const uint64_t salt = record_salt(7, 1, TAG_DIRECTORY);
	struct directory_entry entry, stored[3];
	char name[TB_INSTRUMENT_NAME_MAX + 1], again[TB_INSTRUMENT_NAME_MAX + 1];
	uint8_t as_stored;

	fuzz_take(&data, &size, &as_stored, 1);
	fuzz_take(&data, &size, &entry, sizeof(entry));
	memcpy(name, entry.name, sizeof(entry.name));
	name[sizeof(entry.name)] = '\0';
	if (as_stored & 1) { /* makes the check valid for any name */
		directory_store(stored, 2, name, salt);
		entry = stored[2];
		FUZZ_EXPECT(directory_verify(&entry, 1, salt, again) < 0);
	}
	if (directory_verify(&entry, 2, salt, again) < 0)
		return 0;
	fuzz_deep = true;
	FUZZ_EXPECT(directory_name_check(again) == 0);
	FUZZ_EXPECT(strlen(again) >= 1 && strlen(again) <= TB_INSTRUMENT_NAME_MAX);
	FUZZ_EXPECT(strcmp(name, again) == 0);
	return 0;
}

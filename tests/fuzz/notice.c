/* SPDX-License-Identifier: Apache-2.0 */
/* A forged datagram is used only if all of it is within its bounds. */
#include <string.h>

#include "bus/notice.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(data, size)
{
	struct notice_reader reader, skipping;
	struct notice_entry entry;
	struct notice notice;
	struct record record;
	size_t used = NOTICE_HEADER, entries = 0, skipped = 0;

	if (notice_open(&reader, data, size, &notice) < 0)
		return 0;
	fuzz_deep = true;
	skipping = reader;
	while (notice_next(&reader, &entry) == 1) {
		size_t records = 0;

		used += NOTICE_ENTRY;
		entries++;
		while (notice_next_record(&reader, &record) == 1) {
			FUZZ_EXPECT(record.length <= TB_PAYLOAD_MAX);
			used += RECORD_HEADER_BYTES + (record.length + 7u) / 8 * 8;
			records++;
			(void)record_verify(&record, SLOT_BYTES_MAX, 0, true, 1);
		}
		FUZZ_EXPECT(records == entry.records);
	}
	FUZZ_EXPECT(entries == notice.count && used == size);
	while (notice_next(&skipping, &entry) == 1)
		skipped++;
	FUZZ_EXPECT(skipped == entries);
	return 0;
}

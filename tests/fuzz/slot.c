/* SPDX-License-Identifier: Apache-2.0 */
/* A slot may hold any bytes: a copy stays within the slot, and an accepted record is valid. */
#include <string.h>

#include "bus/quality.h"
#include "bus/record.h"
#include "tests/fuzz/fuzz.h"

#define EPOCH 7

enum { ASK_FOR_ITS_OWN = 1, SEAL = 2, CHECKED = 4 };

static void seal(uint8_t *slot, size_t slot_bytes, uint64_t salt)
{
	struct record record = { 0 };

	memcpy(&record, slot, slot_bytes);
	if (record.length > slot_bytes - RECORD_HEADER_BYTES)
		return;
	record.check = record_hash(&record, RECORD_HEADER_BYTES + record.length,
				   offsetof(struct record, check), salt);
	memcpy(slot + offsetof(struct record, check), &record.check, sizeof(record.check));
}

/* What a reader takes from a copy of kind quality is within its bounds. */
static void expect_quality(const struct record *record)
{
	struct quality quality;

	if (quality_take(record, &quality) < 0)
		return;
	FUZZ_EXPECT(record->instrument == QUALITY_INSTRUMENT);
	FUZZ_EXPECT(quality.state <= TB_QUALITY_REBUILDING && quality.cause <= 255);
}

/* A copy that was accepted as record `sequence` must be valid. */
static void expect_record(const struct record *record, const uint8_t *slot, size_t slot_bytes,
			  uint64_t sequence)
{
	fuzz_deep = true;
	FUZZ_EXPECT(record->sequence != 0 && record->kind != 0);
	FUZZ_EXPECT(sequence == 0 || record->sequence == sequence);
	FUZZ_EXPECT(record->length <= slot_bytes - RECORD_HEADER_BYTES);
	FUZZ_EXPECT(memcmp(record, slot, RECORD_HEADER_BYTES + record->length) == 0);
	expect_quality(record);
}

FUZZ_TARGET(data, size)
{
	const uint64_t salt = record_salt(EPOCH, 1, TAG_RECORD);
	struct record record;
	uint8_t code[2];
	uint64_t sequence = 7, found;
	uint32_t instrument;
	size_t slot_bytes;
	uint8_t *slot;

	fuzz_take(&data, &size, code, sizeof(code));
	slot_bytes = 64 * (size_t)(code[0] % 64 + 1);
	slot = aligned_alloc(64, slot_bytes);
	FUZZ_EXPECT(slot);
	fuzz_take(&data, &size, slot, slot_bytes);
	if (code[1] & SEAL)
		seal(slot, slot_bytes, salt);
	if (code[1] & ASK_FOR_ITS_OWN)
		memcpy(&sequence, slot, sizeof(sequence));

	memset(&record, 0, sizeof(record));
	if (record_copy((const struct slot *)(const void *)slot, slot_bytes, sequence, &record,
			&found) == 0 &&
	    record_verify(&record, slot_bytes, sequence, code[1] & CHECKED, salt) == 0)
		expect_record(&record, slot, slot_bytes, sequence);

	/* The same slot as a last-value slot, in place and landed. */
	memcpy(&instrument, slot + offsetof(struct record, instrument), sizeof(instrument));
	memset(&record, 0, sizeof(record));
	if (record_take_value((const struct slot *)(const void *)slot, slot_bytes, instrument,
			      &record, code[1] & CHECKED ? &salt : NULL) == 1)
		expect_record(&record, slot, slot_bytes, 0);
	FUZZ_EXPECT(record_take_value((const struct slot *)(const void *)slot, slot_bytes,
				      instrument + 1, &record, &salt) != 1);
	memset(&record, 0, sizeof(record));
	if (record_take_landed_value(slot, slot_bytes, instrument, &record, salt) == 1)
		expect_record(&record, slot, slot_bytes, 0);
	FUZZ_EXPECT(record_take_landed_value(slot, slot_bytes, instrument + 1, &record, salt) != 1);

	/* A copy as a READ delivers it. */
	memcpy(&record, slot, slot_bytes);
	if (record_verify(&record, slot_bytes, sequence, true, salt) == 0) {
		expect_record(&record, slot, slot_bytes, sequence);
		seal(slot, slot_bytes, salt);
		FUZZ_EXPECT(memcmp(&record.check, slot + offsetof(struct record, check), 8) == 0);
	}
	free(slot);
	return 0;
}

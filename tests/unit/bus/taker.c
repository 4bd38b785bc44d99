/* SPDX-License-Identifier: Apache-2.0 */
/* The function that takes records of one length takes and refuses what record_take does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "bus/record.h"

#define SALT     0x1122334455667788u
#define SLOT     256
#define SEQUENCE 77
#define LONGEST  104 /* beyond the lengths that have code of their own */

static _Alignas(64) _Atomic uint64_t memory[SLOT_WORDS_MAX];
static struct slot *const slot = (struct slot *)memory;

static struct record make(uint16_t length, uint8_t kind)
{
	struct record record = { .sequence = SEQUENCE,
				 .time_ns = 1577716500000155705,
				 .instrument = 13,
				 .length = length,
				 .kind = kind };

	for (size_t i = 0; i < length; i++)
		record.payload[i] = (uint8_t)(i * 7 + 1);
	return record;
}

static int take(uint16_t usual, bool checked, struct record *copy)
{
	const uint64_t salt = SALT;
	uint64_t found = 0;
	int result;

	memset(copy, 0x5a, sizeof(*copy));
	result = record_taker_of(usual, checked)(slot, SLOT, SEQUENCE, copy, &found,
						 checked ? &salt : NULL);
	cr_assert_eq(found, memory[0]);
	return result;
}

Test(taker, taker_of_each_length_takes_records_of_any_length)
{
	for (uint16_t usual = 0; usual <= LONGEST; usual++)
		for (uint16_t length = 0; length <= LONGEST; length++) {
			const struct record record = make(length, TB_KIND_UPDATE);
			struct record copy;

			for (unsigned int checked = 0; checked < 2; checked++) {
				record_store(slot, &record, checked, SALT);
				cr_assert_eq(take(usual, checked, &copy), 0, "%u of %u", length,
					     usual);
				cr_assert_eq(memcmp(&copy, &record, offsetof(struct record, check)),
					     0);
				cr_assert_eq(memcmp(copy.payload, record.payload, length), 0,
					     "%u of %u", length, usual);
			}
		}
}

Test(taker, taker_of_each_length_refuses_a_changed_bit)
{
	struct record copy;

	for (uint16_t length = 0; length <= LONGEST; length++) {
		const struct record record = make(length, TB_KIND_UPDATE);

		for (unsigned int bit = 0; bit < (RECORD_HEADER_BYTES + length) * 8u; bit++) {
			record_store(slot, &record, true, SALT);
			((unsigned char *)memory)[bit / 8] ^= (unsigned char)(1u << bit % 8);
			cr_assert_eq(take(length, true, &copy), -EAGAIN, "length %u, bit %u",
				     length, bit);
		}
	}
}

Test(taker, taker_of_each_length_refuses_kind_zero_and_other_sequences)
{
	struct record copy;

	for (uint16_t length = 0; length <= LONGEST; length++)
		for (unsigned int checked = 0; checked < 2; checked++) {
			struct record record = make(length, 0);

			record_store(slot, &record, checked, SALT);
			cr_assert_eq(take(length, checked, &copy), -EAGAIN, "kind 0");
			record = make(length, TB_KIND_UPDATE);
			record.sequence++;
			record_store(slot, &record, checked, SALT);
			cr_assert_eq(take(length, checked, &copy), -EAGAIN, "another sequence");
		}
}

Test(taker, taker_of_each_length_bounds_the_length_in_the_slot)
{
	struct record copy;

	for (uint16_t length = 0; length <= LONGEST; length += 8)
		for (unsigned int checked = 0; checked < 2; checked++) {
			const struct record record = make(SLOT, TB_KIND_UPDATE);

			record_store(slot, &record, checked, SALT);
			cr_assert_eq(take(length, checked, &copy), -EAGAIN);
			for (size_t i = 0; i < sizeof(record.payload); i++)
				cr_assert_eq(copy.payload[i], 0x5a, "nothing was copied");
		}
}

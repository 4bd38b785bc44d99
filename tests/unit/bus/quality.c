/* SPDX-License-Identifier: Apache-2.0 */
/* The payload of a record of kind quality: what is read from it, and what is refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "bus/quality.h"

static struct record a_record(uint32_t state, uint32_t cause)
{
	const struct quality quality = { state, cause };
	struct record record = { .sequence = 7,
				 .instrument = QUALITY_INSTRUMENT,
				 .length = sizeof(quality),
				 .kind = TB_KIND_QUALITY };

	memcpy(record.payload, &quality, sizeof(quality));
	return record;
}

Test(quality, every_state_and_cause_in_range_is_read)
{
	for (uint32_t state = 0; state < 5; state++)
		for (uint32_t cause = 0; cause < 300; cause++) {
			const struct record record = a_record(state, cause);
			const bool valid = state <= TB_QUALITY_REBUILDING && cause <= 255;
			struct quality quality = { 9, 9 };

			cr_assert_eq(quality_take(&record, &quality), valid ? 0 : -EAGAIN,
				     "state %u, cause %u", state, cause);
			cr_assert_eq(quality.state, state);
			cr_assert_eq(quality.cause, cause);
		}
}

Test(quality, high_bits_of_state_and_cause_are_refused)
{
	for (unsigned int bit = 2; bit < 32; bit++) {
		const struct record record = a_record(1u << bit, 0);
		struct quality quality;

		cr_expect_eq(quality_take(&record, &quality), -EAGAIN, "state, bit %u", bit);
	}
	for (unsigned int bit = 8; bit < 32; bit++) {
		const struct record record = a_record(1, 1u << bit);
		struct quality quality;

		cr_expect_eq(quality_take(&record, &quality), -EAGAIN, "cause, bit %u", bit);
	}
}

Test(quality, another_length_or_an_instrument_is_refused)
{
	struct quality quality;

	for (uint16_t length = 0; length < 64; length++) {
		struct record record = a_record(1, 1);

		record.length = length;
		cr_expect_eq(quality_take(&record, &quality), length == 8 ? 0 : -EAGAIN,
			     "length %u", length);
	}
	for (unsigned int bit = 0; bit < 32; bit++) {
		struct record record = a_record(1, 1);

		record.instrument ^= 1u << bit;
		cr_expect_eq(quality_take(&record, &quality), -EAGAIN, "instrument, bit %u", bit);
	}
}

/* The bytes of the layout, as other programs read them. */
Test(quality, payload_has_state_then_cause)
{
	const struct record record = a_record(2, 0x81);
	static const uint8_t bytes[] = { 2, 0, 0, 0, 0x81, 0, 0, 0 };

	cr_expect_arr_eq(record.payload, bytes, sizeof(bytes));
}

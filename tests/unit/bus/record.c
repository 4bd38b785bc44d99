/* SPDX-License-Identifier: Apache-2.0 */
/* A stored record is read back; other bytes are refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "bus/record.h"
#include "tests/support/guard.h"

#define EPOCH 0x1122334455667788u

static struct record make(uint64_t sequence, uint16_t length)
{
	struct record record = {
		.sequence = sequence,
		.time_ns = 1577716500000155705,
		.instrument = 13,
		.length = length,
		.kind = TB_KIND_UPDATE,
		.flags = TB_FLAG_LAST,
	};

	for (size_t i = 0; i < length; i++)
		record.payload[i] = (uint8_t)(i * 7 + sequence);
	return record;
}

static _Alignas(64) _Atomic uint64_t memory[SLOT_WORDS_MAX];
static struct slot *const slot = (struct slot *)memory;

static struct record stored_copy(uint64_t sequence, uint16_t length)
{
	struct record record = make(sequence, length), copy;
	uint64_t found;

	memset((void *)memory, 0xa5, sizeof(memory));
	record_store(slot, &record, true, record_salt(EPOCH, 1, TAG_RECORD));
	memset(&copy, 0x5a, sizeof(copy));
	cr_assert_eq(record_copy(slot, SLOT_BYTES_MAX, sequence, &copy, &found), 0);
	cr_assert_eq(found, sequence);
	return copy;
}

Test(record, record_of_any_length_reads_back_whole)
{
	for (unsigned int length = 0; length <= TB_PAYLOAD_MAX; length++) {
		struct record copy = stored_copy(length + 1, (uint16_t)length);
		struct record expected = make(length + 1, (uint16_t)length);

		cr_assert_eq(record_verify(&copy, SLOT_BYTES_MAX, length + 1, true,
					   record_salt(EPOCH, 1, TAG_RECORD)),
			     0);
		cr_assert_eq(copy.time_ns, expected.time_ns);
		cr_assert_eq(copy.instrument, 13);
		cr_assert_eq(copy.length, length);
		cr_assert_eq(copy.kind, TB_KIND_UPDATE);
		cr_assert_eq(copy.flags, TB_FLAG_LAST);
		cr_assert_eq(memcmp(copy.payload, expected.payload, length), 0);
	}
}

Test(record, layout_in_memory_is_the_published_layout)
{
	const unsigned char *bytes = (const unsigned char *)memory;
	struct record record = make(0x0807060504030201, 2);

	record_store(slot, &record, true, 0);
	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(bytes[i], i + 1);
	cr_assert_eq(bytes[16], 13);
	cr_assert_eq(bytes[20], 2);
	cr_assert_eq(bytes[22], TB_KIND_UPDATE);
	cr_assert_eq(bytes[23], TB_FLAG_LAST);
	cr_assert_eq(bytes[32], record.payload[0]);
	for (unsigned int i = 34; i < 40; i++)
		cr_assert_eq(bytes[i], 0, "padding up to the word is zero");
}

Test(record, record_with_a_changed_bit_fails_its_check)
{
	const uint64_t salt = record_salt(EPOCH, 1, TAG_RECORD);

	for (unsigned int bit = 0; bit < (RECORD_HEADER_BYTES + 40) * 8; bit++) {
		struct record copy = stored_copy(77, 40);

		((unsigned char *)&copy)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		cr_assert_eq(record_verify(&copy, 128, 77, true, salt), -EAGAIN, "bit %u", bit);
		cr_assert_eq(record_verify(&copy, 128, 0, true, salt), -EAGAIN, "bit %u", bit);
	}
}

Test(record, check_of_another_epoch_topic_or_tag_fails)
{
	struct record copy = stored_copy(5, 32);

	cr_assert_eq(record_verify(&copy, 64, 5, true, record_salt(EPOCH, 1, TAG_RECORD)), 0);
	cr_assert_eq(record_verify(&copy, 64, 5, true, record_salt(EPOCH + 1, 1, TAG_RECORD)),
		     -EAGAIN);
	cr_assert_eq(record_verify(&copy, 64, 5, true, record_salt(EPOCH, 2, TAG_RECORD)), -EAGAIN);
	cr_assert_eq(record_verify(&copy, 64, 5, true, record_salt(EPOCH, 1, TAG_PROGRESS)),
		     -EAGAIN);
}

Test(record, length_beyond_the_slot_is_refused_before_use)
{
	struct record copy;
	uint64_t found;

	stored_copy(9, 33);
	cr_assert_eq(record_copy(slot, 64, 9, &copy, &found), -EAGAIN);
	copy = stored_copy(9, 33);
	cr_assert_eq(record_verify(&copy, 64, 9, true, record_salt(EPOCH, 1, TAG_RECORD)), -EAGAIN);
	cr_assert_eq(record_verify(&copy, 64, 9, false, 0), -EAGAIN);
}

/* The landing ends where the slot ends: a longer copy would fault. */
Test(record, length_of_a_landed_record_is_bounded_before_use)
{
	struct record copy = stored_copy(9, 32), taken;
	const uint64_t salt = record_salt(EPOCH, 1, TAG_RECORD);
	struct guard guard;

	guard_open(&guard, 64);
	cr_expect_eq(record_take_landed(guard_copy(&guard, &copy, 64), 64, 9, &taken, salt), 0);
	cr_expect_eq(memcmp(&taken, &copy, 64), 0);
	cr_expect_eq(record_take_landed(guard_copy(&guard, &copy, 64), 64, 10, &taken, salt),
		     -EAGAIN);
	copy.payload[5] ^= 1;
	cr_expect_eq(record_take_landed(guard_copy(&guard, &copy, 64), 64, 9, &taken, salt),
		     -EAGAIN);
	copy.length = TB_PAYLOAD_MAX;
	cr_expect_eq(record_take_landed(guard_copy(&guard, &copy, 64), 64, 9, &taken, salt),
		     -EAGAIN);
	guard_close(&guard);
}

Test(record, slot_with_another_sequence_is_not_copied)
{
	struct record copy;
	uint64_t found;

	stored_copy(41, 8);
	cr_assert_eq(record_copy(slot, 64, 42, &copy, &found), -EAGAIN);
	cr_assert_eq(found, 41);
}

Test(record, record_of_kind_or_sequence_zero_is_refused)
{
	struct record copy = make(1, 8);

	copy.kind = 0;
	cr_assert_eq(record_verify(&copy, 64, 1, false, 0), -EAGAIN);
	copy = make(0, 8);
	cr_assert_eq(record_verify(&copy, 64, 0, false, 0), -EAGAIN);
}

Test(record, unchecked_record_has_no_check)
{
	struct record record = make(3, 32), copy;
	uint64_t found;

	record_store(slot, &record, false, 12345);
	cr_assert_eq(record_copy(slot, 64, 3, &copy, &found), 0);
	cr_assert_eq(copy.check, 0);
	cr_assert_eq(record_verify(&copy, 64, 3, false, 0), 0);
}

/* -- values ----------------------------------------------------------------------------------- */

static int value_of(uint32_t instrument, size_t slot_bytes, struct record *copy)
{
	const uint64_t salt = record_salt(EPOCH, 1, TAG_RECORD);

	memset(copy, 0x5a, sizeof(*copy));
	return record_take_value(slot, slot_bytes, instrument, copy, &salt);
}

/* As a READ delivers it, in a landing that ends where the slot ends. */
static int landed_value_of(const void *slot_of_64, uint32_t instrument, struct record *copy)
{
	const uint64_t salt = record_salt(EPOCH, 1, TAG_RECORD);
	struct guard guard;
	int result;

	guard_open(&guard, 64);
	memset(copy, 0x5a, sizeof(*copy));
	result = record_take_landed_value(guard_copy(&guard, slot_of_64, 64), 64, instrument, copy,
					  salt);
	guard_close(&guard);
	return result;
}

Test(value, value_with_any_sequence_is_taken)
{
	static const uint64_t sequences[] = { 1, 77, UINT64_C(1) << 60 };
	struct record copy;

	for (unsigned int i = 0; i < 3; i++)
		for (uint16_t length = 0; length <= 32; length++) {
			const struct record expected = stored_copy(sequences[i], length);

			cr_expect_eq(value_of(13, 64, &copy), 1);
			cr_expect_eq(memcmp(&copy, &expected, RECORD_HEADER_BYTES + length), 0);
			cr_expect_eq(landed_value_of((const void *)memory, 13, &copy), 1);
			cr_expect_eq(memcmp(&copy, &expected, RECORD_HEADER_BYTES + length), 0);
		}
}

Test(value, slot_never_written_is_empty)
{
	struct record copy;

	memset((void *)memory, 0, sizeof(memory));
	cr_expect_eq(value_of(13, 64, &copy), 0);
	cr_expect_eq(landed_value_of((const void *)memory, 13, &copy), 0);
}

/* A READ may bring any words of the first write, but not its kind: then the slot was empty. */
Test(value, landed_slot_of_kind_zero_has_no_value_whatever_else_it_holds)
{
	struct record copy = stored_copy(5, 32), taken;

	copy.kind = 0;
	cr_expect_eq(landed_value_of(&copy, 13, &taken), 0);
	copy.length = TB_PAYLOAD_MAX;
	cr_expect_eq(landed_value_of(&copy, 13, &taken), 0);
}

Test(value, slot_that_is_being_written_again_is_tried_again)
{
	struct record copy = stored_copy(5, 32), taken;

	atomic_store(&slot->word[0], 0);
	cr_expect_eq(value_of(13, 64, &taken), -EAGAIN);
	copy.sequence = 0;
	cr_expect_eq(landed_value_of(&copy, 13, &taken), -EAGAIN);
}

Test(value, value_of_another_instrument_is_refused)
{
	const struct record copy = stored_copy(5, 32);
	struct record taken;

	cr_expect_eq(value_of(12, 64, &taken), -EAGAIN);
	cr_expect_eq(landed_value_of(&copy, 12, &taken), -EAGAIN);
	cr_expect_eq(record_take_value(slot, 64, 12, &taken, NULL), -EAGAIN);
}

/* A whole record without a kind: no writer writes it. */
Test(value, value_of_kind_zero_in_place_is_refused)
{
	struct record record = make(5, 32), copy;
	const uint64_t salt = record_salt(EPOCH, 1, TAG_RECORD);

	record.kind = 0;
	record_store(slot, &record, true, salt);
	cr_expect_eq(value_of(13, 64, &copy), -EAGAIN);
	cr_expect_eq(record_take_value(slot, 64, 13, &copy, NULL), -EAGAIN);
}

Test(value, length_of_a_value_is_bounded_before_use)
{
	struct record copy = stored_copy(9, 33), taken;

	cr_expect_eq(value_of(13, 64, &taken), -EAGAIN);
	cr_expect_eq(record_take_value(slot, 64, 13, &taken, NULL), -EAGAIN);
	cr_expect_eq(landed_value_of(&copy, 13, &taken), -EAGAIN);
	copy.length = TB_PAYLOAD_MAX;
	cr_expect_eq(landed_value_of(&copy, 13, &taken), -EAGAIN);
}

Test(value, value_with_a_changed_bit_fails_its_check)
{
	struct record taken;

	for (unsigned int bit = 0; bit < 64 * 8; bit++) {
		struct record copy = stored_copy(77, 32);
		const uint64_t flip = UINT64_C(1) << bit % 64;

		((unsigned char *)&copy)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		atomic_fetch_xor(&slot->word[bit / 64], flip);
		cr_expect_eq(value_of(13, 64, &taken), -EAGAIN, "bit %u", bit);
		cr_expect_eq(landed_value_of(&copy, 13, &taken), copy.kind ? -EAGAIN : 0, "bit %u",
			     bit);
	}
}

Test(value, unchecked_value_has_no_check)
{
	struct record record = make(3, 32), copy;

	record_store(slot, &record, false, 12345);
	cr_expect_eq(record_take_value(slot, 64, 13, &copy, NULL), 1);
	cr_expect_eq(copy.sequence, 3);
	cr_expect_eq(value_of(13, 64, &copy), -EAGAIN, "the check of a checked topic is missing");
}

/* -- torn copies ------------------------------------------------------------------------------ */

/* The writer overwrites one slot again and again. Each payload repeats its sequence, so a torn copy
 * shows. */
#define COPIES 200000

static _Atomic bool enough;

static void *lap(void *user)
{
	struct record record = make(1, 24);

	(void)user;
	for (uint64_t n = 1; !atomic_load_explicit(&enough, memory_order_relaxed); n++) {
		record.sequence = n;
		record.time_ns = n;
		for (size_t i = 0; i < 3; i++)
			memcpy(record.payload + i * 8, &n, 8);
		record_store(slot, &record, false, 0);
	}
	return NULL;
}

Test(record, sequence_lock_alone_detects_torn_copies)
{
	struct record copy;
	uint64_t found, words[3];
	pthread_t writer;

	memset((void *)memory, 0, sizeof(memory));
	pthread_create(&writer, NULL, lap, NULL);
	for (unsigned int copies = 0; copies < COPIES;) {
		uint64_t now = atomic_load(&slot->word[0]);

		if (now == 0 || record_copy(slot, 64, now, &copy, &found) < 0)
			continue;
		copies++;
		memcpy(words, copy.payload, sizeof(words));
		cr_assert_eq(copy.time_ns, now);
		cr_assert(words[0] == now && words[1] == now && words[2] == now);
	}
	atomic_store(&enough, true);
	pthread_join(writer, NULL);
}

Test(value, sequence_lock_alone_detects_torn_values)
{
	uint64_t words[3], last = 0;
	struct record copy;
	pthread_t writer;

	memset((void *)memory, 0, sizeof(memory));
	pthread_create(&writer, NULL, lap, NULL);
	for (unsigned int copies = 0; copies < COPIES;) {
		const int result = record_take_value(slot, 64, 13, &copy, NULL);

		if (result != 1) {
			cr_assert(result == -EAGAIN || last == 0, "a value was there before");
			continue;
		}
		copies++;
		memcpy(words, copy.payload, sizeof(words));
		cr_assert_geq(copy.sequence, last);
		last = copy.sequence;
		cr_assert_eq(copy.time_ns, last);
		cr_assert(words[0] == last && words[1] == last && words[2] == last);
	}
	atomic_store(&enough, true);
	pthread_join(writer, NULL);
}

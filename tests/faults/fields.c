/* SPDX-License-Identifier: Apache-2.0 */
/* Each byte of a region's header and each bit of a last-value slot is changed. A raw change makes
 * the check fail; a sealed change has a valid check, as by a faulty publisher. A header that
 * differs from the grant is refused with a reason. A last value is read as bus/record.c does it: a
 * value that was not written is rejected, and no read goes past the slot. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "bus/words.h"
#include "publisher/state.h"
#include "tests/support/bytewise.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define SLOTS   64
#define RECORDS 10
#define ROOM    (SLOT_BYTES_MIN - RECORD_HEADER_BYTES) /* bytes for a payload */

static const char *const schemes[] = { "shm", "bytewise" };

static uint64_t state;
static struct tb_publisher *publisher;
static struct tb_topic *topic;

static void enter(void)
{
	scene_enter();
	state = random_seed();
	bytewise_add(state);
}

TestSuite(fields, .init = enter, .fini = scene_leave, .timeout = 120);

static void begin(const char *scheme)
{
	publisher = scene_publisher(scheme);
	topic = scene_topic(publisher, "t", SLOTS, 0);
	scene_publish(topic, 1, RECORDS);
}

/* -- the header ---------------------------------------------------------------------------------
 */

#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct region_header, name),                                       \
			sizeof(((struct region_header *)0)->name)                                  \
	}

static const struct field {
	const char *name;
	size_t offset, bytes;
} header_fields[] = {
	FIELD(magic),
	FIELD(layout_version),
	FIELD(flags),
	FIELD(epoch),
	FIELD(topic_id),
	FIELD(slot_bytes),
	FIELD(slots),
	FIELD(capacity),
	FIELD(group),
	FIELD(fingerprint),
	FIELD(progress_offset),
	FIELD(directory_offset),
	FIELD(last_value_offset),
	FIELD(ring_offset),
	FIELD(region_bytes),
	FIELD(name),
	FIELD(check),
};
#define HEADER_FIELDS (sizeof(header_fields) / sizeof(header_fields[0]))

static void header_seal(struct region_header *header)
{
	header->check =
		record_hash(header, sizeof(*header), offsetof(struct region_header, check),
			    record_salt(topic->shape.epoch, topic->shape.topic_id, TAG_HEADER));
}

static void expect_refused(const char *scheme, const struct region_header *damaged,
			   const struct field *field)
{
	struct tb_subscriber *subscriber = scene_subscriber(scheme, 0);
	struct notes notes = { .quiet = true };
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = notes_event,
						   .user = &notes };
	struct tb_subscription *subscription;

	words_store(topic->memory.base, damaged, sizeof(*damaged));
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EPROTO, "%s",
		     field->name);
	cr_expect_eq(strncmp(tb_error(), "topic t: ", 9), 0, "%s: %s", field->name, tb_error());
	cr_expect_not_null(strstr(tb_error(), "memory"), "%s: %s", field->name, tb_error());
	cr_expect_eq(notes.records, 0);
	tb_subscriber_close(subscriber);
}

static void expect_read(const char *scheme)
{
	struct tb_subscriber *subscriber = scene_subscriber(scheme, 0);
	struct notes notes = { .quiet = true };

	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, RECORDS));
	cr_expect_eq(notes.wrong + notes.lost, 0);
	tb_subscriber_close(subscriber);
}

static void attack(const char *scheme, const struct field *field)
{
	struct region_header kept, damaged;

	words_load(&kept, topic->memory.base, sizeof(kept));
	for (size_t i = 0; i < field->bytes; i++) {
		damaged = kept;
		((uint8_t *)&damaged)[field->offset + i] ^=
			(uint8_t)(1 + random_below(&state, 255));
		expect_refused(scheme, &damaged, field);
		header_seal(&damaged);
		if (memcmp(&damaged, &kept, sizeof(kept)) !=
		    0) /* sealing repairs the check itself */
			expect_refused(scheme, &damaged, field);
	}
	words_store(topic->memory.base, &kept, sizeof(kept));
	expect_read(scheme);
}

ParameterizedTestParameters(fields, header_with_any_changed_byte_is_refused)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, fields, header_with_any_changed_byte_is_refused)
{
	size_t bytes = 0;

	begin(schemes[*which]);
	for (size_t i = 0; i < HEADER_FIELDS; i++) {
		cr_assert_eq(header_fields[i].offset, bytes, "a field is left out");
		bytes += header_fields[i].bytes;
		attack(schemes[*which], &header_fields[i]);
	}
	cr_assert_eq(bytes, sizeof(struct region_header));
	tb_publisher_close(publisher);
}

ParameterizedTestParameters(fields, bytes_after_the_header_are_ignored)
{
	static size_t which[] = { 0, 1 };

	return cr_make_param_array(size_t, which, 2);
}

ParameterizedTest(size_t *which, fields, bytes_after_the_header_are_ignored)
{
	begin(schemes[*which]);
	random_fill(&state, (char *)topic->memory.base + sizeof(struct region_header),
		    REGION_PAGE - sizeof(struct region_header));
	expect_read(schemes[*which]);
	tb_publisher_close(publisher);
}

/* -- last values --------------------------------------------------------------------------------
 */

/* Where a READ puts the slot. The bytes behind it keep their values. */
static struct record landing;

/* Reads a last value both ways: in place by its sequence, and from a copy by its check. Both must
 * agree. */
static bool value_take(const struct slot *slot, struct record *copy)
{
	const uint64_t sequence = atomic_load(&slot->word[0]);
	uint64_t found;
	const bool in_place =
		record_take(slot, SLOT_BYTES_MIN, sequence, copy, &found, &topic->salt) == 0;
	bool by_read;

	words_load(&landing, slot, SLOT_BYTES_MIN);
	by_read = record_verify(&landing, SLOT_BYTES_MIN, 0, true, topic->salt) == 0;
	cr_assert_eq(in_place, by_read);
	cr_assert(!in_place ||
		  memcmp(copy, &landing, RECORD_HEADER_BYTES + (size_t)copy->length) == 0);
	return in_place;
}

static struct slot *value_slot(uint32_t instrument)
{
	return (struct slot *)(void *)(topic->last_value + (size_t)instrument * topic->slot_bytes);
}

static void flip(struct slot *slot, size_t bit)
{
	slot->word[bit / 64] ^= UINT64_C(1) << bit % 64;
}

Test(fields, last_value_with_any_flipped_bit_is_rejected)
{
	const size_t bits = 8 * (RECORD_HEADER_BYTES + sizeof(uint64_t));
	struct record copy;
	struct slot *slot;
	uint64_t x;

	begin("shm");
	cr_assert_eq(topic->slot_bytes, SLOT_BYTES_MIN);
	for (uint32_t instrument = 0; instrument < 2; instrument++) {
		slot = value_slot(instrument);
		for (size_t bit = 0; bit < 8 * SLOT_BYTES_MIN; bit++) {
			flip(slot, bit);
			cr_assert_eq(value_take(slot, &copy), bit >= bits, "bit %zu", bit);
			flip(slot, bit);
			cr_assert(value_take(slot, &copy));
			memcpy(&x, copy.payload, sizeof(x));
			cr_assert(x == RECORDS - 1 + instrument && copy.sequence == x &&
				  copy.instrument == instrument);
		}
	}
	cr_expect_not(value_take(value_slot(2), &copy),
		      "found a last value of an unused instrument");
	tb_publisher_close(publisher);
}

/* Puts a record with a valid check in the last slot before a guard page, and reads it. */
static bool sealed_is_taken(struct guard *guard, struct record *record, struct record *copy)
{
	const struct slot *slot;

	if (record->length <= TB_PAYLOAD_MAX)
		record->check = record_hash(record, RECORD_HEADER_BYTES + (size_t)record->length,
					    offsetof(struct record, check), topic->salt);
	landing = *record;
	slot = (const struct slot *)(const void *)guard_copy(guard, record, SLOT_BYTES_MIN);
	return value_take(slot, copy);
}

Test(fields, sealed_last_value_with_any_fields_is_bounded)
{
	struct record record = { .sequence = 9, .time_ns = 1, .kind = TB_KIND_UPDATE };
	struct record copy;
	struct guard guard;

	begin("shm");
	guard_open(&guard, SLOT_BYTES_MIN);
	random_fill(&state, record.payload, sizeof(record.payload));
	for (uint32_t length = 0; length <= UINT16_MAX; length++) {
		record.length = (uint16_t)length;
		cr_assert_eq(sealed_is_taken(&guard, &record, &copy), length <= ROOM, "length %u",
			     length);
	}
	record.length = sizeof(uint64_t);
	for (uint32_t kind = 0; kind <= UINT8_MAX; kind++) {
		record.kind = (uint8_t)kind;
		cr_assert_eq(sealed_is_taken(&guard, &record, &copy), kind != 0, "kind %u", kind);
	}
	record.kind = TB_KIND_UPDATE;
	record.sequence = 0;
	cr_expect_not(sealed_is_taken(&guard, &record, &copy), "a busy slot was read");
	record.sequence = UINT64_MAX;
	cr_expect(sealed_is_taken(&guard, &record, &copy));
	guard_close(&guard);
	tb_publisher_close(publisher);
}

/* Without checks, only the bounds are verified. */
Test(fields, last_value_of_unchecked_topic_is_bounded)
{
	struct record record = { .sequence = 9, .kind = TB_KIND_UPDATE };
	struct record copy;
	struct guard guard;
	uint64_t found;

	guard_open(&guard, SLOT_BYTES_MIN);
	for (uint32_t length = 0; length <= UINT16_MAX; length++) {
		const struct slot *slot;

		record.length = (uint16_t)length;
		slot = (const struct slot *)(const void *)guard_copy(&guard, &record,
								     SLOT_BYTES_MIN);
		cr_assert_eq(record_take(slot, SLOT_BYTES_MIN, 9, &copy, &found, NULL) == 0,
			     length <= ROOM, "length %u", length);
	}
	guard_close(&guard);
}

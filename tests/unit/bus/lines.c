/* SPDX-License-Identifier: Apache-2.0 */
/* Progress, directory and bus page: stored bytes verify, changed bytes do not. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "bus/bus_page.h"
#include "bus/directory.h"
#include "bus/progress.h"
#include "bus/words.h"
#include "bus/bounds.h"
#include "tickbus/error.h"

#define EPOCH 0xabcdef0123456789u

static _Alignas(64) struct progress_line line;

static struct progress live(uint64_t head, uint64_t reserved)
{
	return (struct progress){ .head = head,
				  .reserved = reserved,
				  .first = 1,
				  .epoch = EPOCH,
				  .instruments = 3,
				  .state = TOPIC_LIVE };
}

static struct progress stored(struct progress progress)
{
	struct progress copy;

	progress_store(&line, &progress, true, 99);
	progress_load(&line, &copy);
	return copy;
}

static int verified(struct progress *copy, uint64_t epoch, uint32_t capacity, bool checked)
{
	const struct region_shape shape = { .epoch = epoch,
					    .slots = 64,
					    .capacity = capacity,
					    .flags = checked ? REGION_FLAG_CHECKED : 0 };

	return progress_verify(copy, &shape, 99);
}

Test(progress, line_reads_back)
{
	struct progress copy = stored(live(10, 14));

	cr_assert_eq(verified(&copy, EPOCH, 8, true), 0);
	cr_assert_eq(copy.head, 10);
	cr_assert_eq(copy.reserved, 14);
	cr_assert_eq(copy.instruments, 3);
}

Test(progress, line_with_a_changed_bit_fails)
{
	for (unsigned int bit = 0; bit < 512; bit++) {
		struct progress copy = stored(live(10, 14));

		((unsigned char *)&copy)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		cr_assert_eq(verified(&copy, EPOCH, 8, true), -EAGAIN, "bit %u", bit);
	}
}

Test(progress, contradictions_fail_even_with_a_right_check)
{
	struct progress copy;

	copy = stored(live(15, 14));
	cr_assert_eq(verified(&copy, EPOCH, 8, true), -EAGAIN, "head > reserved");
	copy = stored(live(10, 75));
	cr_assert_eq(verified(&copy, EPOCH, 8, true), -EAGAIN, "reserved too far");
	copy = stored(live(10, 74));
	cr_assert_eq(verified(&copy, EPOCH, 8, true), 0);
	cr_assert_eq(verified(&copy, EPOCH, 2, true), -EAGAIN, "instruments");
	cr_assert_eq(verified(&copy, EPOCH + 1, 8, true), -EAGAIN, "epoch");
}

/* Readers add up to two rings to a line's counts: the sums must not wrap. */
Test(progress, counts_that_could_wrap_fail)
{
	const uint64_t last = UINT64_MAX - 2 * 64;

	for (int checked = 0; checked < 2; checked++) {
		struct progress copy = stored(live(last, last));

		cr_expect_eq(verified(&copy, EPOCH, 8, checked), 0);
		copy = stored(live(last, last + 1));
		cr_expect_eq(verified(&copy, EPOCH, 8, checked), -EAGAIN, "reserved, checked %d",
			     checked);
		copy = stored(live(last + 1, last + 1));
		cr_expect_eq(verified(&copy, EPOCH, 8, checked), -EAGAIN);
		copy = stored(live(UINT64_MAX, UINT64_MAX));
		cr_expect_eq(verified(&copy, EPOCH, 8, checked), -EAGAIN);
		copy = stored(live(last + 1, 10));
		cr_expect_eq(verified(&copy, EPOCH, 8, checked), -EAGAIN, "head, checked %d",
			     checked);
		copy = stored(live(last, last));
		copy.first = last + 1;
		cr_expect_eq(verified(&copy, EPOCH, 8, checked), -EAGAIN, "first, checked %d",
			     checked);
	}
}

Test(progress, values_at_their_bounds_pass)
{
	struct progress copy, made = live(14, 14);

	made.state = TOPIC_ENDED;
	made.first = 15; /* an empty ring, as after a relay's begin */
	copy = stored(made);
	cr_assert_eq(verified(&copy, EPOCH, 3, true), 0);
	made.first = 16;
	copy = stored(made);
	cr_assert_eq(verified(&copy, EPOCH, 3, true), -EAGAIN, "first too far");
	made.first = 0;
	copy = stored(made);
	cr_assert_eq(verified(&copy, EPOCH, 3, true), -EAGAIN, "first is none");
	made.first = 1;
	for (uint8_t state = 0; state < 4; state++) {
		made.state = state;
		copy = stored(made);
		cr_assert_eq(verified(&copy, EPOCH, 3, true),
			     state == TOPIC_LIVE || state == TOPIC_ENDED ? 0 : -EAGAIN, "state %u",
			     state);
	}
}

Test(progress, field_without_a_meaning_must_be_zero)
{
	for (int checked = 0; checked < 2; checked++)
		for (int field = 0; field < 3; field++) {
			struct progress copy, made = live(14, 14);

			made.zero = field == 1;
			made.complete_ns = field == 2;
			copy = stored(made);
			cr_expect_eq(verified(&copy, EPOCH, 8, checked), field == 0 ? 0 : -EAGAIN,
				     "field %d, checked %d", field, checked);
		}
}

Test(progress, a_time_passes_in_topics_of_groups_only)
{
	struct region_shape shape = { .epoch = EPOCH, .slots = 64, .capacity = 8 };

	for (uint32_t group = 0; group < 2; group++)
		for (int checked = 0; checked < 2; checked++) {
			struct progress copy, made = live(14, 14);

			made.complete_ns = UINT64_MAX;
			copy = stored(made);
			cr_expect_eq(copy.complete_ns, UINT64_MAX);
			shape.group = group;
			shape.flags = checked ? REGION_FLAG_CHECKED : 0;
			cr_expect_eq(progress_verify(&copy, &shape, 99), group ? 0 : -EAGAIN,
				     "group %u, checked %d", group, checked);
		}
}

/* The words of an unchecked line need not belong together. */
Test(progress, whole_beyond_head_fails_in_a_checked_line)
{
	for (int checked = 0; checked < 2; checked++)
		for (uint64_t whole = 13; whole < 16; whole++) {
			struct progress copy, made = live(14, 14);

			made.whole = whole;
			copy = stored(made);
			cr_expect_eq(copy.whole, whole);
			cr_expect_eq(verified(&copy, EPOCH, 8, checked),
				     !checked || whole <= 14 ? 0 : -EAGAIN);
		}
}

Test(progress, only_known_qualities_pass)
{
	for (int checked = 0; checked < 2; checked++)
		for (unsigned int quality = 0; quality < 256; quality++) {
			struct progress copy, made = live(14, 14);

			made.quality = (uint8_t)quality;
			copy = stored(made);
			cr_expect_eq(copy.quality, quality);
			cr_expect_eq(verified(&copy, EPOCH, 8, checked),
				     quality <= TB_QUALITY_REBUILDING ? 0 : -EAGAIN,
				     "quality %u, checked %d", quality, checked);
		}
}

Test(progress, oldest_follows_reserved_and_first)
{
	struct progress copy = live(0, 4);

	cr_assert_eq(progress_oldest(&copy, 64), 1);
	copy.reserved = 64;
	cr_assert_eq(progress_oldest(&copy, 64), 1);
	copy.reserved = 65;
	cr_assert_eq(progress_oldest(&copy, 64), 2);
	copy.first = 50;
	cr_assert_eq(progress_oldest(&copy, 64), 50);
}

Test(directory, name_reads_back_only_at_its_index)
{
	static _Alignas(64) unsigned char base[4 * DIRECTORY_ENTRY_BYTES];
	struct directory_entry copy;
	char name[TB_INSTRUMENT_NAME_MAX + 1];

	directory_store(base, 2, "AAPL", 7);
	memcpy(&copy, base + 2 * DIRECTORY_ENTRY_BYTES, sizeof(copy));
	cr_assert_eq(directory_verify(&copy, 2, 7, name), 0);
	cr_assert_str_eq(name, "AAPL");
	cr_assert_eq(directory_verify(&copy, 1, 7, name), -EAGAIN);
	cr_assert_eq(directory_verify(&copy, 2, 8, name), -EAGAIN);
	directory_store(base, 3, "ABCDEFGHIJKLMNOPQRSTUVWX", 7);
	memcpy(&copy, base + 3 * DIRECTORY_ENTRY_BYTES, sizeof(copy));
	cr_assert_eq(directory_verify(&copy, 3, 7, name), 0);
	cr_assert_str_eq(name, "ABCDEFGHIJKLMNOPQRSTUVWX");
}

Test(directory, bad_name_is_refused_with_message)
{
	cr_assert_eq(directory_name_check(""), -EINVAL);
	cr_assert_str_eq(tb_error(), "instrument name: found \"\", expected 1 to 24 bytes");
	cr_assert_eq(directory_name_check("ABCDEFGHIJKLMNOPQRSTUVWXY"), -EINVAL);
	cr_assert_eq(directory_name_check("A\tB"), -EINVAL);
	cr_assert_str_eq(tb_error(), "instrument name: found byte 0x09 at 1, expected printable "
				     "ASCII");
	cr_assert_eq(directory_name_check("A "), -EINVAL);
	cr_assert_eq(directory_name_check("BRK A"), 0);
	cr_assert_eq(directory_name_check("~"), 0);
	cr_assert_eq(directory_name_check("\x7f"), -EINVAL);
}

Test(bus_page, pulse_and_entries_verify_only_unchanged)
{
	static _Alignas(64) unsigned char page[4096];
	struct bus_pulse pulse = { .count = 5, .bus_id = 77, .topics = 2, .changes = 2 };
	struct bus_entry entry = { .epoch = EPOCH, .head = 9, .topic_id = 2, .state = TOPIC_LIVE };

	bus_page_store_entry(page, 1, &entry, 77);
	bus_page_store_pulse(page, &pulse);
	words_load(&pulse, page, sizeof(pulse));
	cr_assert_eq(bus_page_verify_pulse(&pulse, 77, 16), 0);
	cr_assert_eq(bus_page_verify_pulse(&pulse, 78, 16), -EAGAIN);
	cr_assert_eq(bus_page_verify_pulse(&pulse, 77, 2), 0);
	cr_assert_eq(bus_page_verify_pulse(&pulse, 77, 1), -EAGAIN,
		     "more entries than the page has");
	for (unsigned int bit = 0; bit < sizeof(pulse) * 8; bit++) {
		struct bus_pulse copy = pulse;

		((unsigned char *)&copy)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		cr_assert_eq(bus_page_verify_pulse(&copy, 77, 16), -EAGAIN, "pulse, bit %u", bit);
	}
	words_load(&entry, page + sizeof(pulse) + sizeof(entry), sizeof(entry));
	cr_assert_eq(bus_page_verify_entry(&entry, 1, 77), 0);
	cr_assert_eq(bus_page_verify_entry(&entry, 0, 77), -EAGAIN, "an entry of another topic");
	for (unsigned int bit = 0; bit < sizeof(entry) * 8; bit++) {
		struct bus_entry copy = entry;

		((unsigned char *)&copy)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		cr_assert_eq(bus_page_verify_entry(&copy, 1, 77), -EAGAIN, "entry, bit %u", bit);
	}
}

Test(bus_page, entry_with_unknown_state_is_refused)
{
	static _Alignas(64) unsigned char page[4096];

	for (uint32_t state = 0; state < 4; state++) {
		struct bus_entry entry = { .epoch = EPOCH, .topic_id = 2, .state = state };

		bus_page_store_entry(page, 1, &entry, 77);
		words_load(&entry, page + sizeof(struct bus_pulse) + sizeof(entry), sizeof(entry));
		cr_assert_eq(bus_page_verify_entry(&entry, 1, 77),
			     state == TOPIC_LIVE || state == TOPIC_ENDED ? 0 : -EAGAIN, "state %u",
			     state);
	}
}

Test(bus_page, page_bytes_are_whole_pages_for_all_entries)
{
	cr_expect_eq(bus_page_bytes(1), 4096);
	cr_expect_eq(bus_page_bytes(100), 4096, "64 + 4,000 bytes");
	cr_expect_eq(bus_page_bytes(101), 8192);
	cr_expect_eq(bus_page_bytes(BOUND_TOPICS_MAX), 45056);
}

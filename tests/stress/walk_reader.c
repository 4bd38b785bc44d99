/* SPDX-License-Identifier: Apache-2.0 */
/* The writer runs between any two loads of the reader: by one record, a few, exactly one lap, more.
 * The reader delivers only right records, and accounts for all of them. Where the writer writes
 * what no publisher would, no access goes past the slot. */
#include <criterion/criterion.h>
#include <string.h>

#include "bus/words.h"
#include "publisher/state.h"
#include "tests/stress/walk.h"
#include "tests/support/scene.h"

static struct walk walk;

static void leave(void)
{
	walk_close(&walk);
	scene_leave();
}

TestSuite(reader, .init = scene_enter, .fini = leave, .timeout = 60);

static void read_some(struct walk *w)
{
	cr_assert_geq(tb_poll(w->subscriber, 8), 0, "%s", tb_error());
}

static void write_burst(struct walk *w)
{
	walk_publish(w, w->burst);
}

static void write_and_end(struct walk *w)
{
	walk_publish(w, w->burst);
	cr_assert_eq(tb_topic_end(w->topic), 0);
}

/* For each lead that the writer may have when the reader polls. */
static void overtake(uint64_t lead, uint64_t burst, bool hinted)
{
	bool taken = true;

	walk.burst = burst;
	for (unsigned int k = 1; taken; k++) {
		walk_publish(&walk, lead);
		if (hinted)
			walk_hint(&walk);
		taken = walk_step(&walk, k, read_some);
		walk_drain(&walk);
		walk_check(&walk, hinted ? "hinted, lead and burst" : "lead and burst", lead, burst,
			   k);
	}
}

static void overtake_all(uint32_t flags)
{
	static const uint64_t leads[] = { 0, 1, 3 }, bursts[] = { 1, 2, 60, 63, 64, 65, 130 };

	walk_open(&walk, "shm", flags, 1);
	walk.inside = write_burst;
	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++)
		for (size_t j = 0; j < sizeof(bursts) / sizeof(bursts[0]); j++) {
			overtake(leads[i], bursts[j], false);
			overtake(leads[i], bursts[j], true);
		}
	walk_was_stepped(&walk);
}

Test(reader, lapped_at_any_load_of_unchecked_topic_stays_exact)
{
	overtake_all(TB_TOPIC_UNCHECKED);
}

Test(reader, lapped_at_any_load_of_checked_topic_stays_exact)
{
	overtake_all(0);
}

Test(reader, lapped_at_any_load_by_unflushed_records_stays_exact)
{
	overtake_all(TB_TOPIC_UNCHECKED | TB_TOPIC_MANUAL_FLUSH);
}

/* The end comes after the last records, at whatever load they are written. */
static void end_at_any_load(uint32_t flags)
{
	walk_open(&walk, "shm", flags, 1);
	walk.inside = write_and_end;
	for (walk.burst = 0; walk.burst < 3; walk.burst++) {
		bool taken = true;

		for (unsigned int k = 1; taken; k++) {
			walk_hint(&walk);
			taken = walk_step(&walk, k, read_some);
			if (taken)
				walk_revive(&walk);
			walk_check(&walk, "burst before the end", walk.burst, 0, k);
		}
	}
	walk_was_stepped(&walk);
}

Test(reader, gets_end_after_last_record_of_unchecked_topic)
{
	end_at_any_load(TB_TOPIC_UNCHECKED | TB_TOPIC_MANUAL_FLUSH);
}

Test(reader, gets_end_after_last_record_of_checked_topic)
{
	end_at_any_load(TB_TOPIC_MANUAL_FLUSH);
}

/* -- a word of the slot changes between any two loads -------------------------------------------
 */

static struct {
	struct slot *slot;
	size_t word;
	uint64_t value;
} change;

static void make_change(struct walk *w)
{
	(void)w;
	atomic_store(&change.slot->word[change.word], change.value);
}

/* With a check, the record is refused; without, it may be delivered. Then the word is restored. */
static void change_at_any_load(size_t word, uint64_t bits, bool checked)
{
	const size_t slot_bytes = walk.topic->slot_bytes;
	uint64_t held[SLOT_BYTES_MIN / 8];
	bool taken = true;

	for (unsigned int k = 1; taken; k++) {
		char *slot = walk.topic->ring + (walk.tally.next & (WALK_SLOTS - 1)) * slot_bytes;

		walk_publish(&walk, 1);
		words_load(held, slot, sizeof(held));
		change.slot = (struct slot *)(void *)slot;
		change.word = word;
		change.value = held[word] ^ bits;
		taken = walk_step(&walk, k, read_some);
		words_store(slot, held, sizeof(held));
		if (!checked)
			walk.tally.wrong[0] = '\0';
		walk_drain(&walk);
		walk_check(&walk, "word and bits", word, bits, k);
	}
}

static void change_any_word(uint32_t flags)
{
	static const uint64_t bits[] = { UINT64_MAX, UINT64_C(0xffff) << 32, UINT64_C(0xff) << 48,
					 UINT32_MAX, 1 };

	walk_open(&walk, "shm", flags, 1);
	walk.inside = make_change;
	for (size_t word = 0; word < SLOT_BYTES_MIN / 8; word++)
		for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
			change_at_any_load(word, bits[i], !(flags & TB_TOPIC_UNCHECKED));
	walk_was_stepped(&walk);
	walk_close(&walk); /* frees memory, which finds writes past a copy, while the test can still
			      fail */
	memset(&walk, 0, sizeof(walk));
}

Test(reader, word_changed_at_any_load_of_checked_topic_is_harmless)
{
	change_any_word(0);
}

Test(reader, word_changed_at_any_load_of_unchecked_topic_is_harmless)
{
	change_any_word(TB_TOPIC_UNCHECKED);
}

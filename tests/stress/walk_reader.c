/* SPDX-License-Identifier: Apache-2.0 */
/* The writer runs between any two loads of the reader: one record, a few, exactly one lap, more.
 * Whatever it does there, the reader delivers only what is right, and accounts for all of it. */
#include <criterion/criterion.h>

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

/* From each lead that the writer may have when the reader looks. */
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

Test(reader, is_overtaken_at_any_load_of_an_unchecked_topic)
{
	overtake_all(TB_TOPIC_UNCHECKED);
}

Test(reader, is_overtaken_at_any_load_of_a_checked_topic)
{
	overtake_all(0);
}

Test(reader, is_overtaken_at_any_load_by_records_not_flushed)
{
	overtake_all(TB_TOPIC_UNCHECKED | TB_TOPIC_MANUAL_FLUSH);
}

/* The end must not be told before the last records, wherever the reader is when they come. */
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

Test(reader, is_told_the_end_after_the_last_record_of_an_unchecked_topic)
{
	end_at_any_load(TB_TOPIC_UNCHECKED | TB_TOPIC_MANUAL_FLUSH);
}

Test(reader, is_told_the_end_after_the_last_record_of_a_checked_topic)
{
	end_at_any_load(TB_TOPIC_MANUAL_FLUSH);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The reader polls between any two stores of the writer, once or until it gives up. It delivers
 * only right records, and accounts for all of them. Built once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/stress/walk.h"
#include "tests/support/bytewise.h"
#include "tests/support/scene.h"

static struct walk walk;
static uint64_t seed;

static void enter(void)
{
	scene_enter();
	seed = scene_seed();
	bytewise_add(seed);
}

static void leave(void)
{
	walk_close(&walk);
	scene_leave();
}

TestSuite(writer, .init = enter, .fini = leave, .timeout = 100);

static void write_one(struct walk *w)
{
	walk_publish(w, 1);
}

static void flush(struct walk *w)
{
	cr_assert_eq(tb_flush(w->topic), 0);
}

static void end(struct walk *w)
{
	cr_assert_eq(tb_topic_end(w->topic), 0);
}

static void read_inside(struct walk *w)
{
	walk_values(w);
	walk_values_begin(w);
	walk_hint(w);
	for (unsigned int i = 0; i < w->polls; i++)
		cr_assert_geq(tb_poll(w->subscriber, 1000), 0, "%s", tb_error());
}

/* The reader is `lag` records behind when the writer makes this call. */
static void interrupt(uint64_t lag, unsigned int polls, void (*call)(struct walk *))
{
	bool taken = true;

	walk.polls = polls;
	for (unsigned int k = 1; taken; k++) {
		walk_publish(&walk, lag);
		tb_flush(walk.topic);
		walk_know_head(&walk);
		if (call == flush)
			walk_publish(&walk, 1);
		walk_values_begin(&walk);
		taken = walk_step(&walk, k, call);
		walk_values_finish(&walk);
		walk_drain(&walk);
		walk_check(&walk, "lag and polls", lag, polls, k);
	}
}

static void interrupt_all(uint32_t flags)
{
	static const uint64_t lags[] = { 0, 1, 2, 59, 60, 61, 63, 64, 65, 66 };

	walk_open(&walk, SCHEME, flags, seed);
	walk.inside = read_inside;
	for (size_t i = 0; i < sizeof(lags) / sizeof(lags[0]); i++) {
		/* A single poll begins a copy inside and finishes it after. 60 polls give up. */
		interrupt(lags[i], 1, write_one);
		interrupt(lags[i], 60, write_one);
		if (flags & TB_TOPIC_MANUAL_FLUSH)
			interrupt(lags[i], 1, flush);
	}
	walk_was_stepped(&walk);
}

Test(writer, reader_at_any_store_of_checked_topic_stays_exact)
{
	interrupt_all(0);
}

Test(writer, reader_at_any_store_between_flushes_stays_exact)
{
	interrupt_all(TB_TOPIC_MANUAL_FLUSH);
}

Test(writer, reader_at_any_store_of_unchecked_topic_stays_exact)
{
	if (strcmp(SCHEME, "shm") == 0) /* other fabrics serve checked topics only */
		interrupt_all(TB_TOPIC_UNCHECKED);
	else
		interrupt_all(TB_TOPIC_NO_LAST_VALUE);
}

/* Every record that the reader knows of is overwritten before it fetches it. */
Test(writer, reader_lapped_after_learning_the_head_stays_exact)
{
	walk_open(&walk, SCHEME, 0, seed);
	for (uint64_t burst = 50; burst < 200; burst++) {
		walk_publish(&walk, 10);
		walk_know_head(&walk);
		walk_publish(&walk, burst);
		walk_drain(&walk);
		walk_check(&walk, "burst", burst, 0, 0);
	}
}

/* The end, with unflushed records before it. */
static void end_at_any_store(uint32_t flags)
{
	walk_open(&walk, SCHEME, flags | TB_TOPIC_MANUAL_FLUSH, seed);
	walk.inside = read_inside;
	walk.polls = 1;
	for (uint64_t unflushed = 0; unflushed < 3; unflushed++) {
		bool taken = true;

		for (unsigned int k = 1; taken; k++) {
			walk_publish(&walk, unflushed);
			taken = walk_step(&walk, k, end);
			walk_revive(&walk);
			walk_check(&walk, "unflushed before the end", unflushed, 0, k);
		}
	}
	walk_was_stepped(&walk);
}

Test(writer, reader_at_any_store_of_end_stays_exact)
{
	end_at_any_store(0);
}

Test(writer, reader_at_any_store_of_unchecked_end_stays_exact)
{
	end_at_any_store(strcmp(SCHEME, "shm") == 0 ? TB_TOPIC_UNCHECKED : 0);
}

/* -- a change of the quality --------------------------------------------------------------------
 */

static void look_inside(struct walk *w)
{
	walk_line(w);
	walk_hint(w);
	cr_assert_geq(tb_poll(w->subscriber, 1000), 0, "%s", tb_error());
}

static void quality_at_any_store(uint32_t flags)
{
	walk_open(&walk, SCHEME, flags | TB_TOPIC_NO_LAST_VALUE, seed);
	walk.inside = look_inside;
	for (uint64_t lag = 0; lag < 3; lag++) {
		bool taken = true;

		for (unsigned int k = 1; taken; k++) {
			walk_publish(&walk, lag);
			tb_flush(walk.topic);
			walk_know_head(&walk);
			taken = walk_step(&walk, k, walk_state);
			walk_drain(&walk);
			if (walk.tally.quality != walk.quality)
				tally_complain(&walk.tally, "found quality %u, expected %u",
					       walk.tally.quality, walk.quality);
			walk_check(&walk, "a change of the quality, lag", lag, 0, k);
		}
	}
	walk_was_stepped(&walk);
}

Test(writer, reader_at_any_store_of_a_quality_learns_it)
{
	quality_at_any_store(0);
}

Test(writer, reader_at_any_store_of_an_unchecked_quality_learns_it)
{
	quality_at_any_store(strcmp(SCHEME, "shm") == 0 ? TB_TOPIC_UNCHECKED : 0);
}

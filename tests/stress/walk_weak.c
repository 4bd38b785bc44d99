/* SPDX-License-Identifier: Apache-2.0 */
/* Writer and reader on a machine that keeps only the order of barriers (weak.h). Built once per
 * fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "bus/shm/shm.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/stress/walk.h"
#include "tests/stress/weak.h"
#include "tests/support/bytewise.h"
#include "tests/support/scene.h"

#define IN_PLACE (strcmp(SCHEME, "shm") == 0)
#define GIVE_UP  (IN_PLACE ? 20 : 200) /* polls after which it gives a slot up */

static struct walk walk;
static uint64_t seed;

static void enter(void)
{
	scene_enter();
	seed = scene_seed();
	bytewise_add(seed);
	weak_seed(seed);
}

static void leave(void)
{
	walk_close(&walk);
	scene_leave();
}

TestSuite(weak, .init = enter, .fini = leave, .timeout = 100);

static uint64_t draw(uint64_t below)
{
	walk.random = walk.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (walk.random >> 33) % below;
}

static void begin(bool loads_too)
{
	weak_begin(walk.topic->memory.base, shm_view(walk.tally.source->mapping.remote),
		   walk.topic->memory.bytes, loads_too);
}

static void read_once(void)
{
	if (draw(2))
		walk_hint(&walk);
	cr_assert_geq(tb_poll(walk.subscriber, 8), 0, "%s", tb_error());
}

static void lag_behind(uint64_t records)
{
	walk_publish(&walk, records);
	tb_flush(walk.topic);
	walk_know_head(&walk);
}

/* From a random store on, the reader polls after each store that becomes visible. */
static void write_weakly(uint64_t records, unsigned int polls)
{
	const uint64_t from = draw(16);
	uint64_t stores = 0;

	begin(false);
	walk_publish(&walk, records);
	tb_flush(walk.topic);
	for (; weak_apply(); stores++) {
		walk_values(&walk);
		for (unsigned int i = 0; i < polls && stores >= from; i++)
			read_once();
	}
	weak_end();
	cr_assert_geq(stores, records, "found %" PRIu64 " stores", stores);
	walk_drain(&walk);
}

/* The reader polls once after each store, or until it gives up. */
static void weak_stores(uint32_t flags, unsigned int rounds)
{
	walk_open(&walk, SCHEME, flags, seed);
	for (unsigned int round = 0; round < rounds; round++) {
		const uint64_t lag = draw(2) ? draw(4) : 56 + draw(12);
		const unsigned int polls = draw(8) ? 1 : GIVE_UP;

		lag_behind(lag);
		write_weakly(1 + draw(3), polls);
		walk_check(&walk, "stores in any order, lag and polls", lag, polls, round);
	}
}

Test(weak, reordered_stores_of_checked_topic_stay_exact)
{
	weak_stores(0, IN_PLACE ? 700 : 300);
}

Test(weak, reordered_stores_of_manually_flushed_topic_stay_exact)
{
	weak_stores(TB_TOPIC_MANUAL_FLUSH | (IN_PLACE ? TB_TOPIC_UNCHECKED : 0),
		    IN_PLACE ? 700 : 300);
}

/* The reader wants the slot that the next record takes, which no progress line has reserved yet. */
Test(weak, reordered_stores_of_next_step_stay_exact)
{
	walk_open(&walk, SCHEME, 0, seed);
	for (unsigned int round = 0; round < 60; round++) {
		while (walk.topic->progress.reserved != walk.topic->sequence)
			walk_publish(&walk, 1);
		walk_drain(&walk);
		lag_behind(WALK_SLOTS);
		write_weakly(1, GIVE_UP);
		walk_check(&walk, "stores of the next step", 0, 0, round);
	}
}

/* The reader wants the record being written, and gives it up if the progress line precedes it. */
Test(weak, reordered_stores_of_flush_stay_exact)
{
	walk_open(&walk, SCHEME, TB_TOPIC_NO_LAST_VALUE, seed);
	for (unsigned int round = 0; round < 60; round++) {
		write_weakly(1, GIVE_UP);
		walk_check(&walk, "stores of a flush", 0, 0, round);
	}
}

/* The end comes with unflushed records before it. */
static void weak_end_of_topic(uint32_t flags, bool loads_too)
{
	walk_open(&walk, SCHEME, flags | TB_TOPIC_MANUAL_FLUSH | TB_TOPIC_NO_LAST_VALUE, seed);
	for (unsigned int round = 0; round < (IN_PLACE ? 3000 : 300); round++) {
		begin(loads_too);
		walk_publish(&walk, draw(3));
		cr_assert_eq(tb_topic_end(walk.topic), 0);
		do
			read_once();
		while (weak_apply());
		weak_end();
		walk_revive(&walk);
		walk_check(&walk, "the end in any order", 0, 0, round);
	}
}

Test(weak, reordered_stores_of_end_stay_exact)
{
	weak_end_of_topic(IN_PLACE ? TB_TOPIC_UNCHECKED : 0, false);
}

static void weak_quality(uint32_t flags, bool loads_too)
{
	walk_open(&walk, SCHEME, flags | TB_TOPIC_NO_LAST_VALUE, seed);
	for (unsigned int round = 0; round < (IN_PLACE ? 3000 : 300); round++) {
		begin(loads_too);
		walk_state(&walk);
		do {
			walk_line(&walk);
			read_once();
		} while (weak_apply());
		weak_end();
		walk_drain(&walk);
		if (walk.tally.quality != walk.quality)
			tally_complain(&walk.tally, "found quality %u, expected %u",
				       walk.tally.quality, walk.quality);
		walk_check(&walk, "a quality in any order", 0, 0, round);
	}
}

Test(weak, reordered_stores_of_quality_are_learnt)
{
	weak_quality(IN_PLACE ? TB_TOPIC_UNCHECKED : 0, false);
}

#ifdef LOADS /* where the reader loads words from the region itself */

/* Loads find earlier values while stores become visible. */
static void weak_loads(uint32_t flags)
{
	walk_open(&walk, SCHEME, flags, seed);
	for (unsigned int round = 0; round < 10000; round++) {
		const uint64_t lag = draw(2) ? draw(4) : 56 + draw(12);

		lag_behind(lag);
		begin(true);
		walk_publish(&walk, 1 + draw(5));
		do {
			walk_values(&walk);
			read_once();
		} while (weak_apply());
		weak_end();
		walk_drain(&walk);
		walk_check(&walk, "loads and stores in any order, lag", lag, 0, round);
	}
}

Test(weak, reordered_loads_of_unchecked_topic_stay_exact)
{
	weak_loads(TB_TOPIC_UNCHECKED);
}

Test(weak, reordered_loads_of_checked_topic_stay_exact)
{
	weak_loads(0);
}

/* Takes record n again and again while it is written, then while its successor replaces it. */
static void take_while_written(uint64_t n)
{
	const struct mapping *mapping = &walk.tally.source->mapping;
	const struct slot *slot =
		(const struct slot *)(const void *)(mapping->view + mapping->layout.ring +
						    (n & (WALK_SLOTS - 1)) * SLOT_BYTES_MIN);
	struct tb_record record = { .size = sizeof(record) };
	struct record copy;
	uint64_t found;
	const char *wrong;

	do {
		if (mapping->take(slot, SLOT_BYTES_MIN, n, &copy, &found, NULL) < 0)
			continue;
		record.data = copy.payload;
		record.sequence = copy.sequence;
		record.time_ns = copy.time_ns;
		memcpy(&record.instrument, &copy.instrument, sizeof(uint64_t));
		wrong = truth_wrong(&walk.tally.truth, n, &record);
		cr_assert_null(wrong, "record %" PRIu64 ": %s", n, wrong);
	} while (weak_apply());
}

/* A whole poll has more barriers, which hide that a barrier of the take is missing. */
Test(weak, reordered_loads_of_a_single_slot_stay_exact)
{
	walk_open(&walk, SCHEME, TB_TOPIC_UNCHECKED | TB_TOPIC_NO_LAST_VALUE, seed);
	for (unsigned int round = 0; round < 3000; round++) {
		const uint64_t n = walk.topic->sequence + 1;

		begin(true);
		walk_publish(&walk, 1);
		take_while_written(n);
		weak_end();
		walk_publish(&walk, WALK_SLOTS - 1);
		begin(true);
		walk_publish(&walk, 1);
		take_while_written(n);
		weak_end();
		walk_drain(&walk);
	}
}

Test(weak, reordered_loads_of_end_stay_exact)
{
	weak_end_of_topic(TB_TOPIC_UNCHECKED, true);
}

Test(weak, reordered_loads_of_quality_are_learnt)
{
	weak_quality(TB_TOPIC_UNCHECKED, true);
}

#endif

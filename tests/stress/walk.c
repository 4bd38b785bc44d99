/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/walk.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "bus/shm/shm.h"
#include "publisher/state.h"
#include "subscriber/glance.h"
#include "subscriber/notices.h"
#include "subscriber/reader.h"
#include "subscriber/state.h"
#include "tests/stress/steps.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#ifndef STRICT
#define STRICT 0 /* 1: the subscription is */
#endif
#ifndef BATCHES
#define BATCHES 0 /* 1: records come by on_batch */
#endif

_Thread_local unsigned int steps_left;
static struct walk *walking;

void steps_due(void)
{
	walking->inside(walking);
}

static uint64_t draw(struct walk *walk)
{
	walk->random = walk->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return walk->random >> 33;
}

void walk_open(struct walk *walk, const char *scheme, uint32_t flags, uint64_t seed)
{
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = BATCHES ? NULL : tally_record,
						   .on_batch = BATCHES ? tally_batch : NULL,
						   .on_event = tally_event,
						   .user = &walk->tally,
						   .from = TB_FROM_OLDEST,
						   .flags = STRICT ? TB_STRICT : 0 };
	struct tb_subscription *subscription;

	memset(walk, 0, sizeof(*walk));
	walking = walk;
	walk->random = seed;
	walk->tally.truth = (struct truth){ .topic = 1, .payload_max = TRUTH_PAYLOAD_SMALL };
	walk->tally.slots = WALK_SLOTS;
	walk->tally.written = &walk->written;
	walk->publisher = scene_publisher(scheme);
	if (STRICT) /* strict subscriptions do not read last values */
		flags |= TB_TOPIC_NO_LAST_VALUE;
	cr_assert_eq(truth_topic(walk->publisher, "t", TRUTH_PAYLOAD_SMALL, WALK_SLOTS, flags,
				 &walk->topic),
		     0, "%s", tb_error());
	walk->subscriber = scene_subscriber(scheme, 0);
	cr_assert_eq(tb_subscribe(walk->subscriber, "t", &options, &subscription), 0, "%s",
		     tb_error());
	walk_publish(walk, WALK_SLOTS + 1);
	walk_drain(walk);
}

void walk_close(struct walk *walk)
{
	tb_subscriber_close(walk->subscriber);
	tb_publisher_close(walk->publisher);
}

void walk_publish(struct walk *walk, uint64_t count)
{
	struct tb_update update;

	for (; count > 0; count--) {
		const uint64_t n = atomic_load(&walk->written) + 1;

		truth_update(&walk->tally.truth, n, &update, walk->words);
		cr_assert_eq(tb_publish(walk->topic, &update), 0, "%s", tb_error());
		atomic_store(&walk->written, n);
	}
}

void walk_state(struct walk *walk)
{
	walk->changed = atomic_load(&walk->written) + 1;
	walk->quality ^= TB_QUALITY_SUSPECT;
	cr_assert_eq(tb_topic_quality(walk->topic, walk->quality, TB_QUALITY_USER), 0, "%s",
		     tb_error());
	atomic_store(&walk->written, walk->changed);
}

static void poll_until(struct walk *walk, bool (*done)(const struct walk *))
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (!done(walk) && !walk->tally.wrong[0]) {
		const int count = tb_poll(walk->subscriber, 1000);

		cr_assert_geq(count, 0, "%s", tb_error());
		if (count == 0 && walk->tally.source)
			walk_hint(walk);
		cr_assert_lt(scene_now_ms(), until_ms,
			     "%" PRIu64 " records were written, only %" PRIu64 " accounted for",
			     atomic_load(&walk->written), walk->tally.next - 1);
	}
}

static bool drained(const struct walk *walk)
{
	return walk->tally.next > atomic_load(&walk->written);
}

void walk_drain(struct walk *walk)
{
	tb_flush(walk->topic);
	poll_until(walk, drained);
}

void walk_know_head(struct walk *walk)
{
	struct tb_source *source = walk->tally.source;

	if (!source->mapping.view)
		reader_head(source, atomic_load(&walk->written));
}

static bool has_ended(const struct walk *walk)
{
	return walk->tally.ended;
}

void walk_revive(struct walk *walk)
{
	poll_until(walk, has_ended);
	walk->tally.ended = walk->topic->ended = false;
	walk->topic->progress.state = TOPIC_LIVE;
	walk->tally.source->state = SOURCE_RUNNING;
	walk_publish(walk, 1);
	walk_drain(walk);
}

void walk_hint(struct walk *walk)
{
	struct tb_source *source = walk->tally.source;

	glance_look(source);
	source->fetched_ns = source->hint_after_ns = 0;
	notices_hint(source, atomic_load(&walk->written) + 1);
}

bool walk_step(struct walk *walk, unsigned int k, void (*call)(struct walk *))
{
	bool taken;

	steps_left = k;
	call(walk);
	taken = steps_left == 0;
	steps_left = 0;
	walk->steps += taken;
	return taken;
}

void walk_was_stepped(const struct walk *walk)
{
	cr_assert_gt(walk->steps, 10, "found %" PRIu64 " steps, expected more than 10",
		     walk->steps);
}

void walk_check(const struct walk *walk, const char *where, uint64_t a, uint64_t b, unsigned int k)
{
	cr_assert_str_empty(walk->tally.wrong, "%s %" PRIu64 " %" PRIu64 ", step %u: %s", where, a,
			    b, k, walk->tally.wrong);
}

/* -- last values --------------------------------------------------------------------------------
 */

static void value_check(struct walk *walk, uint32_t instrument, const struct record *copy)
{
	const struct tb_record record = { .sequence = copy->sequence,
					  .time_ns = copy->time_ns,
					  .instrument = copy->instrument,
					  .length = copy->length,
					  .kind = copy->kind,
					  .flags = copy->flags,
					  .data = copy->payload };
	const char *wrong = truth_wrong(&walk->tally.truth, copy->sequence, &record);

	if (wrong)
		tally_complain(&walk->tally, "last value %" PRIu64 " of I%" PRIu32 ": %s",
			       copy->sequence, instrument, wrong);
	else if (copy->instrument != instrument || !truth_is_value(copy->sequence))
		tally_complain(&walk->tally,
			       "last value of I%" PRIu32 ": record %" PRIu64 " of I%" PRIu32
			       " and kind %u is not its last value",
			       instrument, copy->sequence, copy->instrument, copy->kind);
}

static char *value_slot(const struct walk *walk, uint32_t instrument)
{
	return walk->topic->last_value + (size_t)instrument * walk->topic->slot_bytes;
}

/* An address of the writer's mapping, in the readers' mapping. */
static const void *for_readers(const struct walk *walk, const void *address)
{
	const char *view = shm_view(walk->tally.source->mapping.remote);

	return view + ((const char *)address - (const char *)walk->topic->memory.base);
}

static uint64_t head_seen(const struct walk *walk)
{
	struct progress progress;

	progress_load(for_readers(walk, walk->topic->line), &progress);
	return progress.head;
}

void walk_line(struct walk *walk)
{
	struct progress progress;

	progress_load(for_readers(walk, walk->topic->line), &progress);
	if (progress_verify(&progress, &walk->topic->shape, walk->topic->progress_salt) == 0 &&
	    progress.head >= walk->changed && progress.quality != walk->quality)
		tally_complain(&walk->tally,
			       "a line with head %" PRIu64 " has quality %u, but record %" PRIu64
			       " stated %u",
			       progress.head, progress.quality, walk->changed, walk->quality);
}

void walk_values(struct walk *walk)
{
	const uint64_t head = head_seen(walk);

	for (uint32_t i = 0; i < TRUTH_INSTRUMENTS && walk->topic->last_value; i++) {
		const struct slot *slot = for_readers(walk, value_slot(walk, i));
		struct record copy;
		uint64_t now, found;

		record_copy(slot, walk->topic->slot_bytes, 0, &copy, &now);
		if (now == 0) /* being written, or not written yet */
			continue;
		if (now < truth_last_value(head, i))
			tally_complain(&walk->tally,
				       "last value of I%" PRIu32 ": found %" PRIu64
				       ", but head %" PRIu64 " promises %" PRIu64,
				       i, now, head, truth_last_value(head, i));
		if (record_copy(slot, walk->topic->slot_bytes, now, &copy, &found) == 0 &&
		    record_verify(&copy, walk->topic->slot_bytes, 0, walk->topic->checked,
				  walk->topic->salt) == 0)
			value_check(walk, i, &copy);
	}
}

static void value_bytes(struct walk *walk, uint32_t instrument, uint64_t bytes)
{
	const volatile uint8_t *slot = (const volatile uint8_t *)value_slot(walk, instrument);

	for (unsigned int at = 0; at < 64; at++)
		if (bytes >> at & 1)
			walk->value[instrument][at] = slot[at];
}

void walk_values_begin(struct walk *walk)
{
	for (uint32_t i = 0; i < TRUTH_INSTRUMENTS && walk->topic->last_value; i++) {
		walk->taken[i] = draw(walk) << 33 ^ draw(walk);
		value_bytes(walk, i, walk->taken[i]);
	}
}

void walk_values_finish(struct walk *walk)
{
	for (uint32_t i = 0; i < TRUTH_INSTRUMENTS && walk->topic->last_value; i++) {
		struct record copy = { .sequence = 0 };

		value_bytes(walk, i, ~walk->taken[i]);
		memcpy(&copy, walk->value[i], sizeof(walk->value[i]));
		if (record_verify(&copy, walk->topic->slot_bytes, 0, true, walk->topic->salt) == 0)
			value_check(walk, i, &copy);
	}
}

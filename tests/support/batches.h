/* SPDX-License-Identifier: Apache-2.0 */
/* A handler of batches that writes down records as notes_record() does. It also writes down the
 * form of the batches: "2 1 | 3 " are three batches with an event between the last two. A batch
 * that ends inside a message has a minus behind its size. */
#ifndef TICKBUS_TESTS_BATCHES_H
#define TICKBUS_TESTS_BATCHES_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/batch_record.h"
#include "tests/support/scene.h"

struct batches {
	struct notes notes;
	uint64_t count, cut, most; /* batches; that end inside a message; records of the largest */
	char form[2048];
	bool marked; /* the topic marks messages */
	bool quiet;  /* writes down no form */
};

static inline void batches_note(struct batches *batches, const char *word)
{
	const size_t used = strlen(batches->form);

	if (!batches->quiet)
		snprintf(batches->form + used, sizeof(batches->form) - used, "%s ", word);
}

static inline void batches_take(void *user, const struct tb_source *source,
				const struct tb_batch *batch)
{
	struct batches *batches = user;
	const struct tb_slot *slot = NULL;
	char word[32];
	bool cut;

	cr_assert_eq(batch->size, sizeof(*batch));
	cr_assert_gt(batch->count, 0);
	cr_assert_eq(batch->epoch, tb_source_epoch(source));
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct tb_record record = batch_record(source, batch, i);

		slot = tb_batch_record(batch, i);
		cr_assert_eq((uintptr_t)slot % 8, 0);
		cr_assert_not_null(record.name);
		notes_record(&batches->notes, source, &record);
	}
	cut = batches->marked && !(slot->flags & TB_FLAG_LAST);
	batches->count++;
	batches->cut += cut;
	if (batches->most < batch->count)
		batches->most = batch->count;
	snprintf(word, sizeof(word), "%" PRIu32 "%s", batch->count, cut ? "-" : "");
	batches_note(batches, word);
}

static inline void batches_event(void *user, const struct tb_event *event)
{
	struct batches *batches = user;

	notes_event(&batches->notes, event);
	if (event->kind != TB_EVENT_APPEARED)
		batches_note(batches, "|");
}

static inline struct tb_subscription *batches_subscribe(struct tb_subscriber *subscriber,
							const char *pattern, uint32_t flags,
							struct batches *batches)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_batch = batches_take,
							 .on_event = batches_event,
							 .user = batches,
							 .from = TB_FROM_OLDEST,
							 .flags = TB_WAIT | flags };
	struct tb_subscription *subscription = NULL;

	cr_assert_eq(tb_subscribe(subscriber, pattern, &options, &subscription), 0, "%s",
		     tb_error());
	return subscription;
}

/* Publishes x from..to as scene_publish() does, with kind and flags in each record, and
 * TB_FLAG_LAST in the last if it ends a message. */
static inline void batches_publish(struct tb_topic *topic, uint64_t from, uint64_t to, uint8_t kind,
				   bool whole)
{
	for (uint64_t x = from; x <= to; x++) {
		const int instrument = tb_instrument(topic, x % 2 ? "A" : "B");
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = (uint32_t)instrument,
						  .kind = kind,
						  .flags = whole && x == to ? TB_FLAG_LAST : 0,
						  .length = sizeof(x),
						  .time_ns = 1,
						  .data = &x };

		cr_assert_geq(instrument, 0, "%s", tb_error());
		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	}
}

#endif

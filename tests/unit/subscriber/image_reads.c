/* SPDX-License-Identifier: Apache-2.0 */
/* READs of images that fail, or that were lost with the connection. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "subscriber/image.h"
#include "subscriber/notices.h"
#include "tests/unit/subscriber/late.h"

#define INSTRUMENTS 100 /* in several chunks */

TestSuite(image_reads, .init = late_enter, .fini = late_leave, .timeout = 60);

static void topic_fill(void)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "t",
						  .schema = schema,
						  .slots = 256,
						  .instruments = INSTRUMENTS };
	char name[16];

	cr_assert_eq(tb_topic_create(late.publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	for (uint64_t x = 1; x <= INSTRUMENTS; x++) {
		struct tb_update update = { .size = sizeof(update),
					    .kind = TB_KIND_UPDATE,
					    .length = sizeof(x),
					    .time_ns = 1,
					    .data = &x };

		snprintf(name, sizeof(name), "I%" PRIu64, x);
		update.instrument = (uint32_t)tb_instrument(topic, name);
		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	}
}

/* READs of the image are held. */
static void join(void)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "late:test",
						       .connect_ms = deadline_ms(),
						       .batch_bytes = BATCH_BYTES,
						       .read_bytes = SLOTS_OF_READ * 64 };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_IMAGE };

	late.images_held = true;
	topic_fill();
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	source = subscription->sources;
	UNTIL(late_held(READ_VALUES) > 0);
}

static void expect_complete(void)
{
	late.images_held = false;
	UNTIL(notes.complete);
	cr_expect_eq(notes.values, INSTRUMENTS, "found %" PRIu64 " values", notes.values);
	cr_expect_eq(notes.wrong, 0);
}

/* The memory that it should have filled is as before. */
Test(image_reads, failed_chunk_is_read_again)
{
	join();
	while (late.count > 0) {
		memset(late.held[0].into, 0, late.held[0].bytes);
		late_land(0, -EIO);
	}
	late_poll_once();
	cr_expect_eq(notes.values, 0);
	expect_complete();
}

/* A part of a chunk was used. The next landing begins empty. */
Test(image_reads, chunks_of_a_lost_connection_are_read_again)
{
	join();
	while (notes.values < 2) {
		while (late.count > 0)
			late_land(0, 0);
		cr_assert_geq(tb_poll(subscriber, 1), 0, "%s", tb_error());
	}
	late.cut = true;
	subscriber->page_ms = subscriber->turn_ms = 0;
	cr_assert_geq(tb_poll(subscriber, 1), 0, "%s", tb_error());
	cr_assert_not(late.cut);
	cr_assert_leq(notes.values, 3);
	UNTIL(!late.cut && subscriber->welcomed && !source->orphan);
	expect_complete();
}

static unsigned int slots_at_value;

static void count_slots(void *user, const struct tb_source *of, const struct tb_record *record)
{
	notes_record(user, of, record);
	if (notes.values == 1)
		slots_at_value = late_slots_held();
}

/* Names come first. */
static bool values_are_under_way(void)
{
	for (unsigned int i = 0; i < VALUE_CHUNKS; i++)
		if (source->value_reads.chunks[i].under_way && !source->value_reads.chunks[i].names)
			return true;
	return false;
}

Test(image_reads, reads_of_records_go_out_before_values_are_delivered)
{
	const uint64_t x = INSTRUMENTS + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(x),
					  .time_ns = 1,
					  .data = &x };

	join();
	subscription->options.on_record = count_slots;
	while (!values_are_under_way()) {
		while (late.count > 0)
			late_land(0, 0);
		late_poll_once();
	}
	cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	while (late.count > 0)
		late_land(0, 0);
	cr_assert(notices_hint(source, INSTRUMENTS + 1));
	late_poll_once();
	cr_assert_gt(notes.values, 0);
	cr_expect_eq(slots_at_value, 1, "the READ of a record waits for the handlers of values");
	late.at_once = true;
	UNTIL(notes.complete && notes.last == INSTRUMENTS + 1);
}

/* READs of records always have a place. */
Test(image_reads, image_takes_at_most_half_of_the_queue)
{
	late.places = 6;
	join();
	for (int i = 0; i < 20; i++)
		late_poll_once();
	cr_expect_eq(late_held(READ_VALUES), late.places / 2, "found %u READs",
		     late_held(READ_VALUES));
	expect_complete();
}

/* The values of a conflation. Their READs fail until the topic is over. */
Test(image_reads, values_that_could_not_be_read_are_lost_by_an_overrun)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_NEWEST,
						     .conflate_us = TB_CONFLATE_POLL };
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	late_two_read(0);
	tb_unsubscribe(subscription);
	topic = scene_topic(late.publisher, "u", 64, 0);
	scene_publish(topic, 1, 2);
	late.at_once = true;
	cr_assert_eq(tb_subscribe(subscriber, "u", &how, &subscription), 0, "%s", tb_error());
	source = subscription->sources;
	notes.records = 0;
	UNTIL(source->state == SOURCE_RUNNING);
	scene_publish(topic, 3, 4);
	UNTIL(notes.records >= 2);
	late.at_once = false;
	late.images_held = true;
	scene_publish(topic, 5, 6);
	cr_assert_eq(tb_topic_end(topic), 0);
	while (!notes.ended) {
		cr_assert_lt(scene_now_ms(), until_ms, "%s", notes.text);
		for (unsigned int at = late_find(READ_VALUES); at < late.count;
		     at = late_find(READ_VALUES))
			late_land(at, -EIO);
		while (late.count > 0)
			late_land(0, 0);
		late_poll_once();
	}
	cr_expect_eq(late_counted(SUBSCRIPTION_LOST_CORRUPT), 0);
	cr_expect_gt(late_counted(SUBSCRIPTION_LOST_OVERRUN), 0, "%s", notes.text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A record of any length, in a topic of any payload, is in the ring as record_store writes it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bus/record.h"
#include "publisher/state.h"
#include "tests/support/scene.h"

#define LONGEST 104 /* beyond the lengths that have code of their own */

static struct tb_publisher *publisher;

static void enter(void)
{
	scene_enter();
	publisher = scene_publisher("shm");
}

static void leave(void)
{
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(lengths, .init = enter, .fini = leave, .timeout = 60);

static struct tb_topic *topic_of(unsigned int bytes, struct tb_group *group, uint32_t flags)
{
	char fields[64], name[16];
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = name,
					    .slots = 64,
					    .instruments = 16,
					    .group = group,
					    .flags = flags | TB_TOPIC_NO_LAST_VALUE };
	struct tb_schema *schema;
	struct tb_topic *topic = NULL;

	snprintf(name, sizeof(name), "t%u-%u", bytes, flags);
	snprintf(fields, sizeof(fields), "- {name: x, type: 'u8[%u]', doc: d}\n", bytes);
	schema = scene_schema("x", 1, fields);
	options.schema = schema;
	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	cr_assert_eq(tb_instrument(topic, "A"), 0);
	return topic;
}

static void expect_stored(const struct tb_topic *topic, const struct tb_update *update,
			  uint64_t time_ns)
{
	static _Alignas(64) _Atomic uint64_t expected[SLOT_WORDS_MAX];
	const uint64_t sequence = topic->sequence;
	struct record record = { .sequence = sequence,
				 .time_ns = time_ns,
				 .instrument = update->instrument,
				 .length = update->length,
				 .kind = update->kind,
				 .flags = update->flags };

	memcpy(record.payload, update->data, update->length);
	record_store((struct slot *)expected, &record, topic->checked, topic->salt);
	cr_assert_eq(memcmp(topic->ring + (sequence & topic->slot_mask) * topic->slot_bytes,
			    (const void *)expected,
			    RECORD_HEADER_BYTES + (update->length + 7u) / 8 * 8),
		     0, "%u bytes of %u", update->length, topic->payload_max);
}

/* Each second record has the usual length. */
static void publish_lengths(struct tb_topic *topic, uint64_t time_ns)
{
	uint8_t payload[LONGEST];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 3 + 1);
	for (unsigned int i = 0; i <= 2 * topic->payload_max; i++) {
		const struct tb_update update = { .size = sizeof(update),
						  .kind = TB_KIND_CORRECTION,
						  .length = (uint16_t)(i % 2 ? i / 2
									     : topic->payload_max),
						  .flags = i % 3 == 0 ? TB_FLAG_PAST : 0,
						  .time_ns = topic->group ? 0 : time_ns,
						  .data = payload };

		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
		expect_stored(topic, &update, time_ns);
	}
}

Test(lengths, record_of_each_length_is_stored_whole)
{
	static const uint32_t flags[] = { 0, TB_TOPIC_UNCHECKED };

	for (unsigned int bytes = 1; bytes <= LONGEST; bytes++)
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			struct tb_topic *topic = topic_of(bytes, NULL, flags[i]);

			publish_lengths(topic, 5);
			cr_assert_eq(tb_topic_end(topic), 0, "%s", tb_error());
		}
}

Test(lengths, record_of_each_length_in_a_group_has_the_stamp)
{
	static const uint32_t flags[] = { 0, TB_TOPIC_UNCHECKED };
	const struct tb_group_options options = { .size = sizeof(options), .name = "g" };
	struct tb_group *group;

	cr_assert_eq(tb_group_create(publisher, &options, &group), 0, "%s", tb_error());
	for (unsigned int bytes = 1; bytes <= LONGEST; bytes += 3)
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			struct tb_topic *topic = topic_of(bytes, group, flags[i]);

			cr_assert_eq(tb_group_message(group), 0, "%s", tb_error());
			publish_lengths(topic, group->open_ns);
			cr_assert_eq(tb_topic_end(topic), 0, "%s", tb_error());
		}
}

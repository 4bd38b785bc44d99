/* SPDX-License-Identifier: Apache-2.0 */
/* Topics that mark messages: which record the progress line calls the end of the last message. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "bus/progress.h"
#include "bus/record.h"
#include "publisher/state.h"
#include "tests/support/scene.h"

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

TestSuite(messages, .init = enter, .fini = leave, .timeout = 60);

static int publish(struct tb_topic *topic, uint8_t kind, uint8_t flags)
{
	const uint64_t x = tb_topic_sequence(topic) + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .kind = kind,
					  .flags = flags,
					  .length = sizeof(x),
					  .time_ns = 1,
					  .data = &x };

	cr_assert_geq(tb_instrument(topic, "A"), 0, "%s", tb_error());
	return tb_publish(topic, &update);
}

/* The line must prove itself. */
static struct progress line_of(const struct tb_topic *topic)
{
	struct progress line;

	progress_load(topic->line, &line);
	cr_assert_eq(progress_verify(&line, &topic->shape, topic->progress_salt), 0);
	return line;
}

static void marked(const struct tb_topic *topic, uint64_t head, uint64_t whole)
{
	const struct progress line = line_of(topic);

	cr_expect_eq(line.head, head);
	cr_expect_eq(line.whole, whole, "found whole %lu, expected %lu", line.whole, whole);
}

static void step_through(struct tb_topic *topic)
{
	marked(topic, 0, 0);
	publish(topic, TB_KIND_UPDATE, 0);
	marked(topic, 1, 0);
	publish(topic, TB_KIND_UPDATE, TB_FLAG_LAST);
	marked(topic, 2, 2);
	publish(topic, TB_KIND_CORRECTION, TB_FLAG_PAST);
	publish(topic, TB_KIND_CANCEL, 0);
	marked(topic, 4, 2);
	publish(topic, TB_KIND_CORRECTION, TB_FLAG_PAST | TB_FLAG_LAST);
	marked(topic, 5, 5);
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, 0), 0, "%s", tb_error());
	marked(topic, 6, 6);
	publish(topic, TB_KIND_UPDATE, 0);
}

Test(messages, whole_is_the_last_record_that_ends_a_message)
{
	static const uint32_t flags[] = { 0, TB_TOPIC_UNCHECKED, TB_TOPIC_NO_LAST_VALUE };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		char name[] = "t0";
		struct tb_topic *topic;

		name[1] = (char)('0' + i);
		topic = scene_topic(publisher, name, 64, flags[i] | TB_TOPIC_MARKS_MESSAGES);
		step_through(topic);
		marked(topic, 7, 6);
		cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
		step_through(topic);
		marked(topic, 7, 6);
		cr_assert_eq(tb_topic_end(topic), 0, "%s", tb_error());
		marked(topic, 7, 7);
	}
}

/* Readers that still map the memory of an epoch find its end there. */
Test(messages, restart_ends_the_open_message_in_the_old_memory)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, TB_TOPIC_MARKS_MESSAGES);
	const struct region_shape old = topic->shape;
	const uint64_t salt = topic->progress_salt;
	const size_t bytes = topic->memory.mapped;
	const ptrdiff_t at = (const char *)topic->line - (const char *)topic->memory.base;
	char *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, topic->memory.fd, 0);
	struct progress line;

	cr_assert_neq(base, MAP_FAILED);
	publish(topic, TB_KIND_UPDATE, TB_FLAG_LAST);
	publish(topic, TB_KIND_UPDATE, 0);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	progress_load((const struct progress_line *)(base + at), &line);
	cr_assert_eq(progress_verify(&line, &old, salt), 0);
	cr_expect_eq(line.head, 2);
	cr_expect_eq(line.whole, 2);
	cr_expect_eq(line.reserved, 2);
	marked(topic, 0, 0);
	munmap(base, bytes);
}

/* A flush in the middle of a message moves head alone. */
Test(messages, full_step_inside_a_message_leaves_whole)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64,
					     TB_TOPIC_MANUAL_FLUSH | TB_TOPIC_NO_LAST_VALUE |
						     TB_TOPIC_MARKS_MESSAGES);

	publish(topic, TB_KIND_UPDATE, TB_FLAG_LAST);
	for (int i = 0; i < 64; i++)
		publish(topic, TB_KIND_UPDATE, 0);
	cr_expect_gt(line_of(topic).head, 50);
	cr_expect_eq(line_of(topic).whole, 1);
	publish(topic, TB_KIND_UPDATE, TB_FLAG_LAST);
	tb_flush(topic);
	marked(topic, 66, 66);
}

Test(messages, topic_without_marks_states_no_whole)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	publish(topic, TB_KIND_UPDATE, TB_FLAG_LAST);
	marked(topic, 1, 0);
	tb_topic_end(topic);
	marked(topic, 1, 0);
}

Test(messages, flags_that_do_not_fit_the_kind_are_refused)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	for (unsigned int kind = 1; kind < 256; kind++)
		for (unsigned int flags = 0; flags < 256; flags++) {
			const bool known = kind <= TB_KIND_HOLE || kind >= TB_KIND_USER;
			const bool right =
				flags <= TB_FLAG_LAST || (kind == TB_KIND_CORRECTION && flags <= 3);

			cr_assert_eq(publish(topic, (uint8_t)kind, (uint8_t)flags),
				     known && right ? 0 : -EINVAL, "kind %u, flags %u", kind,
				     flags);
		}
	cr_expect_eq(publish(topic, TB_KIND_UPDATE, TB_FLAG_PAST), -EINVAL);
	cr_expect_str_eq(tb_error(), "topic t: found flags 0x02, expected TB_FLAG_LAST or 0, and "
				     "TB_FLAG_PAST in corrections only");
}

/* The value that the publisher stores; kind 0: none. */
static struct record value_of(const struct tb_topic *topic)
{
	struct record value;

	memcpy(&value, topic->last_value, topic->slot_bytes);
	return value;
}

Test(messages, correction_of_the_past_leaves_the_value)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	publish(topic, TB_KIND_CORRECTION, TB_FLAG_PAST);
	cr_expect_eq(value_of(topic).kind, 0);
	publish(topic, TB_KIND_CORRECTION, 0);
	cr_expect_eq(value_of(topic).sequence, 2);
	publish(topic, TB_KIND_CORRECTION, TB_FLAG_PAST);
	cr_expect_eq(value_of(topic).sequence, 2);
	publish(topic, TB_KIND_CLEAR, 0);
	cr_expect_eq(value_of(topic).sequence, 4);
}

/* The record's time, length and place in the ring decide which way it is written. */
Test(messages, past_correction_leaves_the_value_in_each_way_of_writing)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_update past = { .size = sizeof(past),
				  .kind = TB_KIND_CORRECTION,
				  .flags = TB_FLAG_PAST | TB_FLAG_LAST,
				  .data = "" };

	publish(topic, TB_KIND_UPDATE, 0);
	for (unsigned int i = 0; i < 100; i++) {
		past.time_ns = i % 3;
		past.length = i % 2;
		cr_assert_eq(tb_publish(topic, &past), 0, "%s", tb_error());
		cr_expect_eq(value_of(topic).sequence, 1, "record %u", i);
	}
	publish(topic, TB_KIND_CORRECTION, 0);
	cr_expect_eq(value_of(topic).sequence, 102);
}

Test(messages, kinds_that_are_no_values_leave_the_value)
{
	static const uint8_t kinds[] = { TB_KIND_CANCEL, TB_KIND_STATUS, TB_KIND_HOLE };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	publish(topic, TB_KIND_UPDATE, 0);
	for (size_t i = 0; i < sizeof(kinds); i++) {
		cr_assert_eq(publish(topic, kinds[i], 0), 0, "%s", tb_error());
		cr_expect_eq(value_of(topic).sequence, 1, "kind %u", kinds[i]);
	}
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, 0), 0, "%s", tb_error());
	cr_expect_eq(value_of(topic).sequence, 1);
	for (unsigned int kind = TB_KIND_USER; kind < 256; kind++) {
		publish(topic, (uint8_t)kind, 0);
		cr_expect_eq(value_of(topic).sequence, topic->sequence);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: stamps of messages, and W in the lines. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bus/directory.h"
#include "bus/progress.h"
#include "bus/record.h"
#include "publisher/counters.h"
#include "publisher/group.h"
#include "publisher/state.h"
#include "tests/support/clock.h"
#include "tests/support/scene.h"

#define SECOND UINT64_C(1000000000)
#define HOUR   (3600 * SECOND)
#define NOON   (UINT64_C(20000) * 24 * HOUR + 12 * HOUR)
#define SLOTS  64 /* a step of 8 records */

static struct tb_publisher *publisher;
static struct tb_group *group;
static struct tb_topic *quote, *trade;
static char log_text[1024];

static void log_note(void *user, enum tb_log_level level, const char *text)
{
	const size_t used = strlen(log_text);

	(void)user;
	snprintf(log_text + used, sizeof(log_text) - used, "%d %s\n", (int)level, text);
}

static void enter(void)
{
	scene_enter();
	clock_real_set(NOON);
	publisher = scene_publisher("shm");
	publisher->log = log_note;
	group = scene_group(publisher, "nasdaq");
	quote = scene_grouped(publisher, "quote", SLOTS, 0, group);
	trade = scene_grouped(publisher, "trade", SLOTS, TB_TOPIC_UNCHECKED, group);
}

static void leave(void)
{
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(group, .init = enter, .fini = leave, .timeout = 60);

static int publish_at(struct tb_topic *topic, uint64_t time_ns)
{
	const uint64_t x = tb_topic_sequence(topic) + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(x),
					  .time_ns = time_ns,
					  .data = &x };
	const int instrument = tb_instrument(topic, "A");

	cr_assert(instrument == 0 || instrument == -ESHUTDOWN, "%s", tb_error());
	return tb_publish(topic, &update);
}

static void publish(struct tb_topic *topic, unsigned int count)
{
	for (; count > 0; count--)
		cr_assert_eq(publish_at(topic, 0), 0, "%s", tb_error());
}

static void message(void)
{
	cr_assert_eq(tb_group_message(group), 0, "%s", tb_error());
}

static void flush(void)
{
	cr_assert_eq(tb_group_flush(group), 0, "%s", tb_error());
}

/* The line must prove itself. */
static void shows(const struct tb_topic *topic, uint64_t head, uint64_t complete_ns, int where)
{
	struct progress line;

	progress_load(topic->line, &line);
	cr_assert_eq(progress_verify(&line, &topic->shape, topic->progress_salt), 0);
	cr_expect_eq(line.head, head, "line %d: found head %" PRIu64 ", expected %" PRIu64, where,
		     line.head, head);
	cr_expect_eq(line.complete_ns, complete_ns,
		     "line %d: found W %" PRIu64 ", expected %" PRIu64, where, line.complete_ns,
		     complete_ns);
}

static uint64_t time_of(const struct tb_topic *topic, uint64_t sequence)
{
	struct record record;
	uint64_t found;

	cr_assert_eq(record_take((const struct slot *)(const void *)(topic->ring +
								     (sequence & topic->slot_mask) *
									     topic->slot_bytes),
				 topic->slot_bytes, sequence, &record, &found,
				 topic->checked ? &topic->salt : NULL),
		     0);
	return record.time_ns;
}

static void refused(int result, int expected, const char *words)
{
	cr_expect_eq(result, expected);
	cr_expect(strstr(tb_error(), words), "found \"%s\", expected it to say \"%s\"", tb_error(),
		  words);
}

Test(group, all_records_of_a_message_have_its_stamp)
{
	cr_expect_eq(tb_group_time(group), 0);
	message();
	cr_expect_eq(tb_group_time(group), NOON);
	publish(quote, 2);
	clock_real_set(NOON + 5);
	publish(trade, 1);
	message();
	publish(quote, 1);
	flush();
	cr_expect_eq(tb_group_time(group), NOON + 5, "the last message's");
	cr_expect_eq(time_of(quote, 1), NOON);
	cr_expect_eq(time_of(quote, 2), NOON);
	cr_expect_eq(time_of(trade, 1), NOON);
	cr_expect_eq(time_of(quote, 3), NOON + 5);
}

Test(group, a_clock_that_stands_still_gives_rising_stamps)
{
	for (uint64_t i = 0; i < 5; i++) {
		message();
		cr_expect_eq(tb_group_time(group), NOON + i);
		if (i % 2)
			flush();
	}
}

Test(group, a_flush_states_the_last_finished_message_in_each_line)
{
	shows(quote, 0, 0, __LINE__);
	message();
	publish(quote, 3);
	shows(quote, 0, 0, __LINE__);
	message();
	publish(quote, 1);
	flush();
	shows(quote, 4, NOON + 1, __LINE__);
	shows(trade, 0, NOON + 1, __LINE__);
	flush();
	shows(quote, 4, NOON + 1, __LINE__);
	message();
	flush();
	shows(quote, 4, NOON + 2, __LINE__);
	shows(trade, 0, NOON + 2, __LINE__);
}

Test(group, a_full_step_inside_a_message_keeps_the_old_time)
{
	message();
	publish(quote, 1);
	flush();
	message();
	publish(quote, 8);
	shows(quote, 8, NOON, __LINE__);
	message();
	publish(quote, 8);
	shows(quote, 16, NOON, __LINE__);
	flush();
	shows(quote, 17, NOON + 2, __LINE__);
}

/* A head that a new instrument moved would not move again in the flush, which then woke no sleeper.
 */
Test(group, a_new_instrument_inside_a_message_keeps_head_and_time)
{
	struct progress line;

	message();
	publish(quote, 1);
	flush();
	message();
	publish(quote, 1);
	cr_assert_eq(tb_instrument(quote, "B"), 1, "%s", tb_error());
	shows(quote, 1, NOON, __LINE__);
	progress_load(quote->line, &line);
	cr_expect_eq(line.instruments, 2);
	flush();
	shows(quote, 2, NOON + 1, __LINE__);
}

Test(group, a_new_instrument_keeps_the_end_of_the_last_flushed_message)
{
	struct tb_topic *marked =
		scene_grouped(publisher, "marked", SLOTS, TB_TOPIC_MARKS_MESSAGES, group);
	struct tb_update update = { .size = sizeof(update),
				    .kind = TB_KIND_UPDATE,
				    .flags = TB_FLAG_LAST };
	struct progress line;

	message();
	cr_assert_eq(tb_instrument(marked, "A"), 0);
	cr_assert_eq(tb_publish(marked, &update), 0, "%s", tb_error());
	flush();
	message();
	cr_assert_eq(tb_publish(marked, &update), 0, "%s", tb_error());
	message();
	cr_assert_eq(tb_instrument(marked, "B"), 1);
	shows(marked, 1, NOON, 1);
	progress_load(marked->line, &line);
	cr_expect_eq(line.whole, 1);
	flush();
	shows(marked, 2, tb_group_time(group), 2);
	progress_load(marked->line, &line);
	cr_expect_eq(line.whole, 2);
}

Test(group, a_quality_is_of_its_message_and_does_not_flush)
{
	struct progress line;

	message();
	publish(quote, 1);
	clock_real_set(NOON + 7);
	cr_assert_eq(tb_topic_quality(quote, TB_QUALITY_SUSPECT, 0), 0, "%s", tb_error());
	cr_assert_eq(tb_topic_quality(trade, TB_QUALITY_SUSPECT, 0), 0, "%s", tb_error());
	cr_expect_eq(time_of(quote, 2), NOON);
	cr_expect_eq(time_of(trade, 1), NOON);
	shows(quote, 1, 0, __LINE__);
	shows(trade, 0, 0, __LINE__);
	cr_assert_eq(tb_topic_quality(quote, TB_QUALITY_SUSPECT, 0), 0, "%s", tb_error());
	cr_expect_eq(tb_topic_sequence(quote), 2, "the state that it has");
	shows(quote, 1, 0, __LINE__);
	flush();
	shows(quote, 2, NOON, __LINE__);
	shows(trade, 1, NOON, __LINE__);
	progress_load(trade->line, &line);
	cr_expect_eq(line.quality, TB_QUALITY_SUSPECT);
}

Test(group, calls_that_break_the_order_are_refused)
{
	const char *const closed = "group nasdaq has no open message; call tb_group_message first";

	refused(publish_at(quote, 0), -EINVAL, closed);
	refused(tb_topic_quality(quote, TB_QUALITY_SUSPECT, 0), -EINVAL, closed);
	message();
	refused(publish_at(quote, 1), -EINVAL,
		"found time_ns 1, expected 0: its group nasdaq stamps its records");
	refused(tb_flush(quote), -EINVAL, "it belongs to group nasdaq, so call tb_group_flush");
	publish(quote, 1);
	refused(tb_flush(quote), -EINVAL, "so call tb_group_flush");
	shows(quote, 0, 0, __LINE__);
	flush();
	refused(publish_at(quote, 0), -EINVAL, closed);
	cr_expect_eq(tb_topic_sequence(quote), 1);
}

Test(group, what_any_topic_refuses_is_refused_too)
{
	const uint64_t x[2] = { 1, 2 };
	struct tb_update update = {
		.size = sizeof(update), .kind = TB_KIND_UPDATE, .length = sizeof(x[0]), .data = x
	};

	message();
	refused(tb_publish(quote, &update), -EINVAL, "found instrument 0");
	cr_assert_eq(tb_instrument(quote, "A"), 0);
	update.length = sizeof(x);
	refused(tb_publish(quote, &update), -EINVAL, "found a payload of 16 bytes");
	update.length = sizeof(x[0]);
	update.kind = 0;
	refused(tb_publish(quote, &update), -EINVAL, "found kind 0");
	update.kind = TB_KIND_UPDATE;
	update.flags = TB_FLAG_PAST;
	refused(tb_publish(quote, &update), -EINVAL, "found flags 0x02");
	update.flags = 0;
	cr_assert_eq(tb_topic_end(quote), 0);
	message();
	refused(tb_publish(quote, &update), -ESHUTDOWN, "has ended");
	refused(tb_topic_quality(quote, TB_QUALITY_SUSPECT, 0), -ESHUTDOWN, "has ended");
}

/* Neither the length of a record nor its kind leads past the group's stamp. */
Test(group, each_kind_and_length_gets_the_stamp_and_its_value)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_CLEAR, TB_KIND_CORRECTION, 200 };
	const uint64_t x = 1;
	struct record value;

	cr_assert_eq(tb_instrument(quote, "A"), 0);
	message();
	for (uint64_t i = 1; i <= 4; i++) {
		const struct tb_update update = { .size = sizeof(update),
						  .kind = kinds[i - 1],
						  .length = (uint16_t)(i % 2 * sizeof(x)),
						  .flags = TB_FLAG_LAST,
						  .data = &x };

		cr_assert_eq(tb_publish(quote, &update), 0, "%s", tb_error());
		cr_expect_eq(time_of(quote, i), NOON);
		cr_assert_eq(record_take_value((const struct slot *)(const void *)quote->last_value,
					       quote->slot_bytes, 0, &value, &quote->salt),
			     1);
		cr_expect_eq(value.sequence, i);
	}
	cr_assert_eq(tb_publish(quote, &(struct tb_update){ .size = sizeof(struct tb_update),
							    .kind = TB_KIND_CORRECTION,
							    .flags = TB_FLAG_PAST,
							    .length = 8,
							    .data = &x }),
		     0, "%s", tb_error());
	cr_expect_eq(time_of(quote, 5), NOON);
	record_take_value((const struct slot *)(const void *)quote->last_value, quote->slot_bytes,
			  0, &value, &quote->salt);
	cr_expect_eq(value.sequence, 4, "a correction of the past is no value");
}

/* As `tickbus stat` shows it. */
static uint64_t set_back_count(void)
{
	const struct session session = { .publisher = publisher, .realm = &publisher->realms[0] };
	struct counters_block block;

	cr_assert(counters_fill(&session, TB_SCOPE_BUS, 0, &block));
	cr_assert_str_eq(block.table[BUS_CLOCK_SET_BACK].name, "clock_set_back");
	return block.value[BUS_CLOCK_SET_BACK];
}

static void message_of_a_new_era(void)
{
	cr_assert_eq(tb_group_message(group), 1, "%s", tb_error());
}

Test(group, a_clock_set_back_an_hour_begins_a_new_era)
{
	const uint64_t epochs[] = { quote->shape.epoch, trade->shape.epoch };

	message();
	publish(quote, 3);
	cr_assert_eq(tb_topic_quality(trade, TB_QUALITY_SUSPECT, TB_QUALITY_USER), 0);
	cr_assert_eq(tb_instrument(quote, "B"), 1);
	clock_real_set(NOON - HOUR);
	message_of_a_new_era();
	cr_expect_eq(tb_group_time(group), NOON - HOUR);
	cr_expect_neq(quote->shape.epoch, epochs[0]);
	cr_expect_neq(trade->shape.epoch, epochs[1]);
	cr_expect_eq(quote->shape.group, 0x10001);
	cr_expect_eq(trade->shape.group, 0x10001);
	shows(quote, 0, 0, __LINE__);
	cr_expect_eq(quote->names.count, 2, "instruments keep their numbers");
	cr_expect_eq(tb_instrument(quote, "B"), 1);
	cr_expect_eq(trade->progress.quality, TB_QUALITY_SUSPECT);
	cr_expect_eq(trade->quality_cause, TB_QUALITY_USER);
	publish(quote, 1);
	flush();
	cr_expect_eq(time_of(quote, 1), NOON - HOUR);
	cr_expect_eq(time_of(trade, 1), NOON - HOUR, "the quality is its first record");
	shows(quote, 1, NOON - HOUR, __LINE__);
	shows(trade, 1, NOON - HOUR, __LINE__);
	cr_expect_eq(set_back_count(), 1);
	cr_expect_str_eq(log_text, "2 group nasdaq: the clock was set back: times are 3600.000 s "
				   "ahead of it; its topics begin new epochs\n");
	message();
	cr_expect_eq(tb_group_time(group), NOON - HOUR + 1);
}

/* The old memory has all records, its directory the names. */
Test(group, a_new_era_shows_all_records_and_names)
{
	const struct region_shape old = quote->shape;
	const uint64_t salt = quote->progress_salt;
	const size_t bytes = quote->memory.mapped;
	const ptrdiff_t at = (const char *)quote->line - (const char *)quote->memory.base;
	char *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, quote->memory.fd, 0);
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	struct directory_entry entry;
	struct progress line;

	cr_assert_neq(base, MAP_FAILED);
	message();
	publish(quote, 2);
	clock_real_set(NOON - HOUR);
	message_of_a_new_era();
	progress_load((const struct progress_line *)(base + at), &line);
	cr_assert_eq(progress_verify(&line, &old, salt), 0);
	cr_expect_eq(line.head, 2);
	cr_expect_eq(line.complete_ns, NOON);
	munmap(base, bytes);
	progress_load(quote->line, &line);
	cr_expect_eq(line.instruments, 1);
	memcpy(&entry, quote->directory, sizeof(entry));
	cr_expect_eq(directory_verify(&entry, 0, quote->directory_salt, name), 0);
	cr_expect_str_eq(name, "A");
}

Test(group, an_ended_topic_keeps_its_era)
{
	const struct region_shape old = quote->shape;

	message();
	cr_assert_eq(tb_topic_end(quote), 0, "%s", tb_error());
	clock_real_set(NOON - HOUR);
	message_of_a_new_era();
	cr_expect_eq(quote->shape.epoch, old.epoch);
	cr_expect_eq(quote->shape.group, 1);
	cr_assert_eq(tb_topic_restart(quote), 0, "%s", tb_error());
	cr_expect_eq(quote->shape.group, 0x10001);
	cr_expect_eq(scene_group(publisher, "other")->id, 2, "a number of its own");
}

/* The 65,535 eras of a group are used up. Each second it is tried again. */
Test(group, times_that_cannot_begin_again_rise_by_1_ns)
{
	const uint64_t epoch = quote->shape.epoch;

	clock_stop();
	group->id |= REGION_ERA_MAX << REGION_GROUP_BITS;
	message();
	clock_real_set(NOON - HOUR);
	for (uint64_t i = 1; i < 10; i++) {
		message();
		cr_expect_eq(tb_group_time(group), NOON + i);
	}
	cr_expect_eq(quote->shape.epoch, epoch);
	cr_expect_str_eq(log_text, "2 group nasdaq: the clock was set back: times are 3600.000 s "
				   "ahead of it; its topics cannot begin new epochs, will retry: "
				   "its times have begun again 65535 times, the maximum\n");
	cr_expect_eq(set_back_count(), 1);
	group->id = 1;
	clock_pass(1000);
	message_of_a_new_era();
	cr_expect_eq(tb_group_time(group), NOON - HOUR);
	clock_go();
}

Test(group, a_clock_set_back_by_a_second_goes_on_by_1_ns)
{
	message();
	clock_real_set(NOON - SECOND);
	message();
	cr_expect_eq(tb_group_time(group), NOON + 1);
	cr_expect_eq(set_back_count(), 0);
	cr_expect_str_eq(log_text, "");
	clock_real_set(NOON - SECOND - 1);
	message_of_a_new_era();
	cr_expect_eq(set_back_count(), 0, "it was set back by less, twice");
	clock_real_set(NOON - 2 * SECOND - 2);
	message_of_a_new_era();
	cr_expect_eq(set_back_count(), 1);
}

/* Readers that still map the memory of an epoch find its last line there. */
Test(group, restart_flushes_the_group_and_keeps_the_time)
{
	const struct region_shape old = quote->shape;
	const uint64_t salt = quote->progress_salt;
	const size_t bytes = quote->memory.mapped;
	const ptrdiff_t at = (const char *)quote->line - (const char *)quote->memory.base;
	char *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, quote->memory.fd, 0);
	struct progress line;

	cr_assert_neq(base, MAP_FAILED);
	message();
	publish(quote, 2);
	publish(trade, 3);
	cr_assert_eq(tb_topic_restart(quote), 0, "%s", tb_error());
	progress_load((const struct progress_line *)(base + at), &line);
	cr_assert_eq(progress_verify(&line, &old, salt), 0);
	cr_expect_eq(line.head, 2);
	cr_expect_eq(line.complete_ns, NOON);
	munmap(base, bytes);
	shows(quote, 0, NOON, __LINE__);
	shows(trade, 3, NOON, __LINE__);
	refused(publish_at(trade, 0), -EINVAL, "no open message");
	message();
	publish(quote, 1);
	flush();
	shows(quote, 1, NOON + 1, __LINE__);
	shows(trade, 3, NOON + 1, __LINE__);
	cr_expect_eq(quote->shape.group, 1);
	cr_expect(quote->shape.flags & REGION_FLAG_TIME_RISES);
}

Test(group, end_flushes_the_group_and_its_line_stays)
{
	message();
	publish(quote, 2);
	publish(trade, 3);
	cr_assert_eq(tb_topic_end(quote), 0, "%s", tb_error());
	shows(quote, 2, NOON, __LINE__);
	shows(trade, 3, NOON, __LINE__);
	refused(publish_at(trade, 0), -EINVAL, "no open message");
	message();
	publish(trade, 1);
	flush();
	shows(quote, 2, NOON, __LINE__);
	shows(trade, 4, NOON + 1, __LINE__);
	cr_assert_eq(tb_topic_restart(quote), 0, "%s", tb_error());
	shows(quote, 0, NOON + 1, __LINE__);
}

Test(group, a_new_topic_begins_at_the_last_finished_message)
{
	struct tb_topic *status;

	message();
	message();
	publish(quote, 1);
	status = scene_grouped(publisher, "status", SLOTS, 0, group);
	shows(status, 0, NOON, __LINE__);
	publish(status, 2);
	flush();
	shows(quote, 1, NOON + 1, __LINE__);
	shows(status, 2, NOON + 1, __LINE__);
}

Test(group, closing_the_publisher_flushes_each_group)
{
	const size_t bytes = trade->memory.mapped;
	const ptrdiff_t at = (const char *)trade->line - (const char *)trade->memory.base;
	char *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, trade->memory.fd, 0);
	struct progress line;

	cr_assert_neq(base, MAP_FAILED);
	message();
	publish(quote, 2);
	publish(trade, 3);
	tb_publisher_close(publisher);
	publisher = NULL;
	progress_load((const struct progress_line *)(base + at), &line);
	cr_expect_eq(line.head, 3);
	cr_expect_eq(line.complete_ns, NOON);
	cr_expect_eq(line.state, TOPIC_ENDED);
	munmap(base, bytes);
}

/* A topic without new records lives as long as its group is flushed. */
Test(group, a_flush_is_a_sign_of_life_of_each_topic)
{
	for (int round = 0; round < 2; round++) {
		if (round == 0)
			message();
		atomic_store(&quote->touched, 0);
		atomic_store(&trade->touched, 0);
		flush();
		cr_expect_eq(atomic_load(&quote->touched), 1, "round %d", round);
		cr_expect_eq(atomic_load(&trade->touched), 1, "round %d", round);
	}
}

Test(group, a_flush_without_a_message_writes_no_line)
{
	const uint64_t flushes = quote->flushes;

	message();
	flush();
	cr_expect_eq(quote->flushes, flushes + 1);
	flush();
	flush();
	cr_expect_eq(quote->flushes, flushes + 1);
}

Test(group, options_are_checked)
{
	struct tb_group_options options = { .size = sizeof(options), .name = "a" };
	struct tb_publisher_options bus = { .size = sizeof(bus),
					    .name = "other",
					    .exit_wait_ms = UINT32_MAX };
	struct tb_topic_options of_another = { .size = sizeof(of_another),
					       .name = "u",
					       .schema = quote->schema };
	struct tb_topic *topic;
	struct tb_publisher *other;
	struct tb_group *made;

	refused(tb_group_create(publisher, NULL, &made), -EINVAL, "group options: found size 0");
	options.size--;
	refused(tb_group_create(publisher, &options, &made), -EINVAL, "group options: found size");
	options.size++;
	options.name = NULL;
	refused(tb_group_create(publisher, &options, &made), -EINVAL,
		"group options: name: found \"\"");
	options.name = "a/b";
	refused(tb_group_create(publisher, &options, &made), -EINVAL,
		"group options: name: found \"a/b\"");
	options.name = "nasdaq";
	refused(tb_group_create(publisher, &options, &made), -EEXIST,
		"group nasdaq: the bus already has a group of this name");
	cr_expect_null(made);
	cr_assert_eq(tb_publisher_open(&other, &bus), 0, "%s", tb_error());
	of_another.group = scene_group(other, "nasdaq");
	refused(tb_topic_create(publisher, &of_another, &topic), -EINVAL,
		"found group nasdaq of another bus, expected a group of bus test");
	tb_publisher_close(other);
}

Test(group, a_bus_has_at_most_1024_groups)
{
	struct tb_group_options options = { .size = sizeof(options) };
	struct tb_group *made;
	char name[16];

	options.name = name;
	for (int i = 2; i <= 1024; i++) {
		snprintf(name, sizeof(name), "g%d", i);
		cr_assert_eq(tb_group_create(publisher, &options, &made), 0, "%s", tb_error());
		cr_expect_eq(made->id, (uint32_t)i);
	}
	strcpy(name, "more");
	refused(tb_group_create(publisher, &options, &made), -ENOSPC,
		"the bus already has its maximum of 1024 groups");
}

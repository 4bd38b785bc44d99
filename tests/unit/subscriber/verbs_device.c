/* SPDX-License-Identifier: Apache-2.0 */
/* A device refuses a single READ of a subscriber, in the middle of a list too. */
#include <criterion/criterion.h>
#include <sched.h>

#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/reading_device.h"

#define RECORDS 300

static struct tb_publisher *publisher;
static struct notes notes;

static void enter(void)
{
	scene_enter();
	reading_device_open();
	publisher = scene_publisher("shm");
	scene_publish(scene_topic(publisher, "t", 512, 0), 1, RECORDS);
}

static void leave(void)
{
	tb_publisher_close(publisher);
	reading_device_close();
	notes_free(&notes);
	scene_leave();
}

TestSuite(verbs_device, .init = enter, .fini = leave, .timeout = 120);

/* A new subscriber reads all records, each once. Returns whether a READ of it was refused. */
static bool read_all(uint32_t flags)
{
	const uint64_t end_ms = scene_now_ms() + deadline_ms();
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "rdma:" READING_PLACE,
						       .connect_ms = deadline_ms(),
						       .batch_bytes = 8192,
						       .read_bytes = 1024 };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_OLDEST,
						     .flags = flags };
	struct tb_subscription *subscription;
	struct tb_subscriber *subscriber;

	notes_free(&notes);
	reading.reads = reading.refusals = reading.connections = 0;
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "READ %u refused: %s",
		     reading.refused_read, tb_error());
	/* The refused READ may be of the bus page, after all records have come. */
	while (notes.last < RECORDS || reading.connections < 1 + reading.refusals) {
		cr_assert_lt(scene_now_ms(), end_ms, "READ %u refused, then nothing came: %s",
			     reading.refused_read, notes.text);
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		sched_yield();
	}
	tb_subscriber_close(subscriber);
	cr_expect(notes.records == RECORDS && notes.lost == 0 && notes.wrong == 0,
		  "READ %u refused: %s", reading.refused_read, notes.text);
	cr_expect_eq(reading.connections, 1 + reading.refusals, "READ %u refused: %u connections",
		     reading.refused_read, reading.connections);
	reading_expect_nothing_left();
	return reading.refusals > 0;
}

/* Each READ in turn: of the bus page, the header, the line, names and records. The refused READ may
 * begin a list, stand inside it, or follow outstanding READs. */
static void refuse_each(uint32_t flags)
{
	cr_assert_not(read_all(flags));
	do
		reading.refused_read++;
	while (read_all(flags));
	cr_expect_gt(reading.refused_read, RECORDS / 16);
}

Test(verbs_device, refused_read_costs_one_connection_and_no_record)
{
	refuse_each(0);
}

Test(verbs_device, refused_strict_read_costs_one_connection_and_no_record)
{
	refuse_each(TB_STRICT);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Topics of a group: every subscriber gets every record with the stamp of its message, whatever
 * happens between. Built once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "subscriber/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/clock.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/scene.h"

#define HOUR    (UINT64_C(3600) * 1000000000)
#define NOON    (UINT64_C(20000) * 24 * HOUR + 12 * HOUR)
#define TOPICS  3
#define SLOTS   1024 /* a step of 128 records */
#define RECORDS 65536
#define ROUNDS  400

struct written {
	struct tb_topic *topic;
	uint32_t instruments;
	uint64_t sequence[RECORDS], stamp[RECORDS];
	uint64_t count, read; /* records written and delivered, over all epochs */
	uint64_t restarts, restarts_read;
	bool ended;
};

static struct tb_publisher *publisher;
static struct tb_group *group;
static struct written topics[TOPICS];
static struct tb_subscriber *subscriber;
static uint64_t state, last_stamp, now_ns;
static char wrong[256];

static uint64_t draw(uint64_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (state >> 33) % below;
}

static struct written *written_of(const char *name)
{
	return &topics[name[1] - '0'];
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct written *w = written_of(source->name);

	(void)user;
	if (w->read == w->count || record->sequence != w->sequence[w->read] ||
	    record->time_ns != w->stamp[w->read])
		snprintf(wrong, sizeof(wrong),
			 "topic %s: found record %" PRIu64 " of %" PRIu64 ", expected %" PRIu64
			 " of %" PRIu64,
			 source->name, record->sequence, record->time_ns, w->sequence[w->read],
			 w->stamp[w->read]);
	w->read++;
}

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	if (event->kind == TB_EVENT_RESTART)
		written_of(event->topic)->restarts_read++;
	else if (event->kind == TB_EVENT_ENDED)
		written_of(event->topic)->ended = true;
	else if (event->kind != TB_EVENT_APPEARED && event->kind != TB_EVENT_STALE &&
		 event->kind != TB_EVENT_LIVE)
		snprintf(wrong, sizeof(wrong), "topic %s: event %d", event->topic,
			 (int)event->kind);
}

static void enter(void)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = on_record,
							 .on_event = on_event,
							 .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;

	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	faulty_add(state = scene_seed());
	now_ns = NOON;
	clock_real_set(now_ns);
	publisher = scene_publisher(SCHEME);
	group = scene_group(publisher, "g");
	for (int t = 0; t < TOPICS; t++) {
		char name[] = "t0";

		name[1] = (char)('0' + t);
		topics[t].topic = scene_grouped(publisher, name, SLOTS, 0, group);
	}
	subscriber = scene_subscriber(SCHEME, 0);
	cr_assert_eq(tb_subscribe(subscriber, ">", &options, &subscription), 0, "%s", tb_error());
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(order, .init = enter, .fini = leave, .timeout = 100);

static void read_all(void)
{
	for (int t = 0; t < TOPICS; t++) {
		cr_assert(scene_poll_until(subscriber, &topics[t].read, topics[t].count),
			  "topic %d: %" PRIu64 " of %" PRIu64 " records; %s", t, topics[t].read,
			  topics[t].count, wrong);
		cr_assert(
			scene_poll_until(subscriber, &topics[t].restarts_read, topics[t].restarts),
			"topic %d: a restart; %s", t, wrong);
	}
	cr_assert_str_empty(wrong, "%s", wrong);
}

static void publish(struct written *w, uint64_t count)
{
	static const char *const names[] = { "A", "B", "C", "D", "E", "F", "G", "H" };

	for (; count > 0; count--) {
		const int instrument = tb_instrument(w->topic, names[draw(8)]);
		const uint64_t x = tb_topic_sequence(w->topic) + 1;
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = (uint32_t)instrument,
						  .kind = draw(4) ? TB_KIND_UPDATE : 200,
						  .length = sizeof(x),
						  .data = &x };

		cr_assert_geq(instrument, 0, "%s", tb_error());
		cr_assert_lt(w->count, RECORDS);
		w->sequence[w->count] = x;
		w->stamp[w->count++] = tb_group_time(group);
		cr_assert_eq(tb_publish(w->topic, &update), 0, "%s", tb_error());
	}
}

/* Records in all topics or none, seldom more than a step of them; new instruments in between. */
static void message(void)
{
	int again;

	now_ns += draw(4) ? draw(1000) : 0;
	if (draw(20) == 0) {
		now_ns += draw(2) ? HOUR : -HOUR;
		cr_assert_eq(tb_group_flush(group), 0, "%s", tb_error());
		read_all();
	}
	clock_real_set(now_ns);
	again = tb_group_message(group);
	cr_assert_eq(again, now_ns < last_stamp && last_stamp - now_ns >= HOUR / 2, "%s",
		     tb_error());
	cr_assert(again ? tb_group_time(group) == now_ns : tb_group_time(group) > last_stamp);
	for (int t = 0; t < TOPICS; t++)
		topics[t].restarts += (uint64_t)again;
	if (again)
		read_all(); /* no epoch is missed */
	last_stamp = tb_group_time(group);
	for (int t = 0; t < TOPICS; t++)
		publish(&topics[t], draw(60) ? draw(3) : 150);
}

Test(order, each_record_has_the_stamp_of_its_message)
{
	const int rounds = scene_rounds(ROUNDS);
	uint64_t before;

	for (int round = 0; round < rounds; round++) {
		struct written *w = &topics[draw(TOPICS)];

		for (uint64_t messages = draw(4); messages > 0; messages--)
			message();
		if (draw(30) == 0) {
			before = tb_group_time(group);
			cr_assert_eq(tb_topic_restart(w->topic), 0, "%s", tb_error());
			cr_assert_eq(tb_group_time(group), before);
			w->restarts++;
			read_all(); /* the restart flushed; and no epoch is missed */
		} else if (draw(3)) {
			cr_assert_eq(tb_group_flush(group), 0, "%s", tb_error());
		}
		if (draw(2))
			cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		if (draw(8) == 0) {
			cr_assert_eq(tb_group_flush(group), 0, "%s", tb_error());
			read_all();
		}
	}
	cr_assert_eq(tb_group_flush(group), 0, "%s", tb_error());
	read_all();
}

/* The end of a topic shows the open message in all topics. */
Test(order, end_of_a_topic_shows_the_open_message_everywhere)
{
	for (int t = 0; t < TOPICS; t++) {
		cr_assert_eq(tb_group_message(group), 0, "%s", tb_error());
		for (int i = t; i < TOPICS; i++)
			publish(&topics[i], 2);
		cr_assert_eq(tb_topic_end(topics[t].topic), 0, "%s", tb_error());
		read_all();
		cr_assert(scene_poll_while(subscriber, &topics[t].ended), "%s", wrong);
	}
}

/* The subscriber has read what a full step showed, and sleeps until the message is flushed. */
Test(order, a_sleeper_is_woken_by_the_flush_after_a_step)
{
	const uint64_t step = SLOTS / 8;

	for (int round = 0; round < 10; round++) {
		cr_assert_eq(tb_group_message(group), 0, "%s", tb_error());
		publish(&topics[0], step + 1);
		cr_assert(scene_poll_until(subscriber, &topics[0].read,
					   topics[0].count - topics[0].count % step),
			  "%s", wrong);
		cr_assert_eq(tb_group_flush(group), 0, "%s", tb_error());
		read_all();
	}
}

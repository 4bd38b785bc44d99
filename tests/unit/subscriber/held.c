/* SPDX-License-Identifier: Apache-2.0 */
/* Records of an open message that are held for on_batch: what a lost connection does to them. */
#include <criterion/criterion.h>
#include <string.h>

#include "publisher/state.h"
#include "tests/support/batches.h"
#include "tests/unit/subscriber/net.h"

static struct tb_topic *topic;
static struct tb_source *source;
static struct batches got;

static void leave(void)
{
	net_leave();
	notes_free(&got.notes);
}

TestSuite(held, .init = net_enter, .fini = leave, .timeout = 60);

/* Reads the first two records of a message that goes on. */
static void hold_two(bool viewed)
{
	topic = scene_topic(net.publisher, "t", 64, TB_TOPIC_MARKS_MESSAGES);
	net.viewed = viewed;
	got.marked = true;
	subscriber = scene_subscriber("net", 0);
	source = batches_subscribe(subscriber, "t", 0, &got)->sources;
	batches_publish(topic, 1, 2, TB_KIND_UPDATE, false);
	UNTIL(source->next == 3, 100);
	cr_assert_eq(got.count, 0);
}

/* Removes the lines that begin with a word. */
static void without(char *text, const char *word)
{
	for (char *at = text; (at = strstr(at, word));) {
		const char *after = strchr(at, '\n') + 1;

		memmove(at, after, strlen(after) + 1);
	}
}

/* A busy machine may be late with the new connection, and this is reported. */
static void expect(const char *text, const char *form)
{
	char *got_form = got.form;

	without(got.notes.text, "stale");
	without(got.notes.text, "live");
	cr_expect_str_eq(got.notes.text, text);
	while (got_form[0] == '|')
		got_form += strlen("| ");
	cr_expect_str_eq(got_form, form);
}

static void connect_again(bool viewed)
{
	hold_two(viewed);
	net_reconnect();
	cr_expect_eq(got.count, 0);
	batches_publish(topic, 3, 3, TB_KIND_UPDATE, true);
	UNTIL(got.notes.last == 3, 100);
	expect("appeared t 1\n1 A update 1\n2 B update 2\n3 A update 3\n", "3 ");
}

Test(held, message_in_place_goes_on_over_a_new_connection)
{
	connect_again(true);
}

Test(held, message_by_read_goes_on_over_a_new_connection)
{
	connect_again(false);
}

/* The new connection reads no record that would bring the names back. */
Test(held, records_keep_their_names_over_a_new_connection)
{
	hold_two(false);
	net_reconnect();
	tb_topic_end(topic);
	UNTIL(got.notes.ended, 100);
	expect("appeared t 1\n1 A update 1\n2 B update 2\nended 2\n", "2- | ");
}

Test(held, records_come_before_a_refusal)
{
	hold_two(false);
	((char *)topic->memory.base)[offsetof(struct region_header, name)] ^= 1;
	net.cut = true;
	UNTIL(got.notes.refused, 100);
	cr_expect(strstr(got.notes.text, "1 A update 1\n2 B update 2\nrefused t "), "%s",
		  got.notes.text);
	cr_expect_str_eq(got.form, "2- | ");
}

static uint64_t delivered_when_stale = UINT64_MAX;

static void on_event(void *user, const struct tb_event *event)
{
	batches_event(user, event);
	if (event->kind == TB_EVENT_STALE)
		delivered_when_stale = event->delivered;
}

/* Stale comes between records of a message. The event leaves out what is held. */
Test(held, records_are_not_delivered_for_a_stale_event)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_batch = batches_take,
							 .on_event = on_event,
							 .user = &got,
							 .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;

	net_publisher_again(SCENE_HASTY_MS);
	topic = scene_topic(net.publisher, "t", 64, TB_TOPIC_MARKS_MESSAGES);
	net.viewed = got.marked = true;
	batches_publish(topic, 1, 1, TB_KIND_UPDATE, true);
	batches_publish(topic, 2, 3, TB_KIND_UPDATE, false);
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	UNTIL(subscription->sources->next == 4, 100);
	net.away = net.cut = true;
	UNTIL(got.notes.stale, 100);
	cr_expect_eq(delivered_when_stale, 1);
	cr_expect_eq(got.notes.records, 1);
	net.away = false;
	UNTIL(net_served(), 100);
	batches_publish(topic, 4, 4, TB_KIND_UPDATE, true);
	UNTIL(got.notes.last == 4, 100);
	cr_expect_eq(got.cut, 0, "%s", got.form);
}

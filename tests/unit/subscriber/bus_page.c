/* SPDX-License-Identifier: Apache-2.0 */
/* What of the bus page is READ, and when. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "bus/bus_page.h"
#include "bus/words.h"
#include "subscriber/entries.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/guard.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"
#include "tickbus/error.h"

TestSuite(bus_page, .init = net_enter, .fini = net_leave, .timeout = 60);

#define LOOKS 20

/* Topics a.1, b.1 to b.others, a.2, and so on. */
static void topics_make(int count, int others)
{
	char name[16];
	int other = 0;

	for (int i = 1; i <= count; i++) {
		snprintf(name, sizeof(name), "a.%d", i);
		scene_topic(net.publisher, name, 64, 0);
		for (int j = 0; j < others && i < count; j++) {
			snprintf(name, sizeof(name), "b.%d", ++other);
			scene_topic(net.publisher, name, 64, 0);
		}
	}
}

static bool looked(void)
{
	return subscriber->page_asked_ms == 0 && subscriber->entries_under_way == 0;
}

static void subscribe_to(const char *pattern)
{
	subscriber = scene_subscriber("net", 0);
	scene_subscribe(subscriber, pattern, TB_FROM_NEWEST, &notes);
}

/* Counts what LOOKS looks READ of the page, once these topics are joined. */
static void expect_reads_of_a_look(unsigned int topics, uint64_t reads, uint64_t bytes)
{
	UNTIL(net_joined(topics) && net_served() && subscriber->pulse_topics >= topics, 100);
	clock_stop();
	clock_pass(subscriber->stale_ms / 10);
	cr_assert_geq(tb_poll(subscriber, 100), 0);
	UNTIL(looked(), 100);
	memset(net.reads, 0, sizeof(net.reads));
	memset(net.read_bytes, 0, sizeof(net.read_bytes));
	for (uint64_t look = 1; look <= LOOKS; look++) {
		clock_pass(subscriber->stale_ms / 10);
		UNTIL(net.reads[READ_PULSE] == look && looked(), 100);
	}
	cr_expect_eq(net.read_bytes[READ_PULSE], LOOKS * sizeof(struct bus_pulse));
	cr_expect_eq(net.reads[READ_ENTRIES], LOOKS * reads, "%lu READs",
		     (unsigned long)net.reads[READ_ENTRIES]);
	cr_expect_eq(net.read_bytes[READ_ENTRIES], LOOKS * bytes, "%lu bytes",
		     (unsigned long)net.read_bytes[READ_ENTRIES]);
}

Test(bus_page, reader_of_a_topic_reads_pulse_and_its_entry)
{
	net_publisher_for(BOUND_TOPICS_MAX);
	topics_make(3, 0);
	subscribe_to("a.2");
	expect_reads_of_a_look(1, 1, sizeof(struct bus_entry));
}

Test(bus_page, entries_of_neighbours_are_one_read)
{
	topics_make(200, 0);
	subscribe_to(">");
	expect_reads_of_a_look(200, 1, 200 * sizeof(struct bus_entry));
}

/* Topics that came after a look are READ along with the others. */
Test(bus_page, later_neighbours_are_in_the_same_read)
{
	topics_make(3, 0);
	subscribe_to(">");
	UNTIL(net_joined(3) && net.reads[READ_ENTRIES] > 0 && looked(), 100);
	scene_topic(net.publisher, "b.1", 64, 0);
	scene_topic(net.publisher, "b.2", 64, 0);
	expect_reads_of_a_look(5, 1, 5 * sizeof(struct bus_entry));
}

Test(bus_page, entries_across_small_holes_are_one_read)
{
	topics_make(5, ENTRIES_HOLE_MAX);
	subscribe_to("a.*");
	expect_reads_of_a_look(5, 1, (5 + 4 * ENTRIES_HOLE_MAX) * sizeof(struct bus_entry));
}

Test(bus_page, scattered_entries_are_read_in_several_lists)
{
	topics_make(40, ENTRIES_HOLE_MAX + 1);
	subscribe_to("a.*");
	expect_reads_of_a_look(40, 40, 40 * sizeof(struct bus_entry));
}

/* The view has a guard behind its first page, where entries of other topics would be. */
Test(bus_page, reader_in_place_copies_pulse_and_joined_entries)
{
	struct guard guard;
	const void *view;
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint64_t seen;

	net_publisher_for(BOUND_TOPICS_MAX);
	topics_make(3, 0);
	net.viewed = true;
	subscriber = scene_subscriber("net", 0);
	scene_subscribe(subscriber, "a.2", TB_FROM_NEWEST, &notes);
	guard_open(&guard, GUARD_PAGE);
	view = subscriber->page_view;
	subscriber->page_view = (const char *)guard.base;
	seen = subscriber->pulse_count;
	do {
		words_load(guard.base, view, GUARD_PAGE);
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms, "the bus page was not read");
	} while (subscriber->pulse_count < seen + 2);
	cr_expect_eq(subscriber->table[0]->entry_count, subscriber->pulse_count);
}

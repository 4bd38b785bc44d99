/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: the bus page, the progress line, and when a topic goes stale. */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "bus/clock.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"

TestSuite(liveness, .init = net_enter, .fini = net_leave, .timeout = 60);

Test(liveness, reader_away_for_the_bound_looks_before_stale)
{
	uint64_t moved_ms;

	scene_topic(net.publisher, "t", 64, 0);
	net_read_on(false);
	UNTIL(subscriber->pulse_known && !subscriber->pulse_under_way, 100);
	/* As if its last look was ten seconds ago. */
	subscriber->pulse_count--;
	moved_ms = subscriber->pulse_ms -= 10000;
	subscriber->page_ms = subscriber->turn_ms = 0;
	UNTIL(subscriber->pulse_ms != moved_ms, 100);
	cr_expect_eq(net_counted(subscriber->subscriptions, SUBSCRIPTION_STALES), 0, "%s",
		     notes.text);
}

Test(liveness, late_bus_page_is_a_sign_of_life)
{
	uint64_t moved_ms;

	scene_topic(net.publisher, "t", 64, 0);
	net_read_on(false);
	UNTIL(subscriber->pulse_known && !subscriber->pulse_under_way, 100);
	net.unanswered = true;
	subscriber->page_ms = subscriber->turn_ms = 0;
	UNTIL(subscriber->pulse_under_way, 100);
	subscriber->page_asked_ms -= 10;
	subscriber->pulse_count--; /* so that the page is new */
	moved_ms = subscriber->pulse_ms -= 20;
	net.unanswered = false;
	UNTIL(subscriber->pulse_ms != moved_ms, 100);
	cr_expect_eq(net_counted(subscriber->subscriptions, SUBSCRIPTION_STALES), 0, "%s",
		     notes.text);
}

Test(liveness, unanswered_bus_page_goes_stale_before_disconnect)
{
	net_publisher_again(SCENE_HASTY_MS);
	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 1);
	net_read_on(false);
	UNTIL(notes.records == 1 && subscriber->pulse_known, 100);
	net.unanswered = true;
	UNTIL(notes.stale, 100);
	cr_expect(subscriber->pulse_under_way && subscriber->welcomed && !subscriber->lost);
	net.unanswered = false;
	UNTIL(notes.live, 100);
}

Test(liveness, unreadable_pulse_after_reconnect_goes_stale)
{
	net_publisher_again(SCENE_HASTY_MS);
	scene_topic(net.publisher, "t", 64, 0);
	net_read_on(true);
	subscriber->page_ms = clock_coarse_ms(); /* so that it connects before it reads the page */
	net.landless = net.cut = true;
	UNTIL(notes.stale, 100);
	net.landless = false;
	UNTIL(notes.live, 100);
}

/* The line shows record 9 but is invalid, while the pulse goes on. */
static void damage_line(bool viewed)
{
	struct tb_topic *topic;

	net_publisher_again(SCENE_HASTY_MS);
	topic = scene_topic(net.publisher, "t", 64, 0);
	scene_publish(topic, 1, 8);
	net_read_on(viewed);
	UNTIL(notes.last == 8, 100);
	atomic_store(&topic->line->word[0], 9);
	UNTIL(notes.stale, 100);
	scene_publish(topic, 9, 9); /* writes the line again */
	UNTIL(notes.live && notes.last == 9, 100);
	cr_expect_eq(notes.lost, 0);
}

Test(liveness, invalid_line_in_place_goes_stale)
{
	damage_line(true);
}

/* A reader of batches reads slots and the head alone, and knows already what the page shows. */
Test(liveness, line_once_invalid_does_not_keep_batch_reader_stale)
{
	struct tb_topic *topic;

	net_publisher_again(SCENE_HASTY_MS);
	topic = scene_topic(net.publisher, "t", 64, 0);
	scene_publish(topic, 1, 8);
	net_read_on(true);
	UNTIL(notes.last == 8, 100);
	atomic_fetch_xor(&topic->line->word[7], 1);
	UNTIL(notes.stale, 100);
	scene_publish(topic, 9, 60);
	UNTIL(notes.live && notes.last == 60, 100);
	cr_expect_eq(subscriber->table[0]->invalid, 0, "it would never sleep");
}

Test(liveness, invalid_line_by_read_goes_stale)
{
	damage_line(false);
}

/* The pulse goes on, and the topic's entry of the bus page stays invalid. */
Test(liveness, invalid_entry_goes_stale)
{
	struct tb_topic *topic;

	net_publisher_again(SCENE_HASTY_MS);
	topic = scene_topic(net.publisher, "t", 64, 0);
	scene_publish(topic, 1, 8);
	net_read_on(false);
	UNTIL(notes.last == 8, 100);
	net.entries_damaged = true;
	UNTIL(notes.stale, 100);
	net.entries_damaged = false;
	scene_publish(topic, 9, 9);
	UNTIL(notes.live && notes.last == 9, 100);
	cr_expect_eq(notes.lost, 0);
}

/* The page has fewer topics than were granted. */
Test(liveness, missing_entry_goes_stale)
{
	net_publisher_again(SCENE_HASTY_MS);
	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 8);
	net_read_on(true);
	UNTIL(notes.last == 8, 100);
	publisher_lock(net.publisher);
	net.publisher->realms[0].pulse.topics = 0;
	publisher_unlock(net.publisher);
	UNTIL(notes.stale, 100);
	publisher_lock(net.publisher);
	net.publisher->realms[0].pulse.topics = 1;
	publisher_unlock(net.publisher);
	UNTIL(notes.live, 100);
}

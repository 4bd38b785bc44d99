/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "bus/counters.h"
#include "publisher/state.h"
#include "tests/stress/stress.h"

#define END_MS 60000 /* the time in which a reader must reach the end */

static bool in_place(const struct stress *stress)
{
	return strcmp(stress->variant->scheme, "shm") == 0;
}

static void looked(struct party *party)
{
	counter_add(&party->looks, 1);
}

static void set_content(struct party *party)
{
	if (!atomic_exchange(&party->content, true))
		atomic_fetch_add(&party->stress->content, 1);
}

/* -- records ------------------------------------------------------------------------------------
 */

static void pause_after(struct party *party, struct tb_subscriber *subscriber, int count)
{
	const uint64_t slots = party->stress->variant->slots;
	const uint64_t lag = atomic_load(&party->stress->late) ? slots / 2 : 3 * slots;

	if (party->manner == LAGGING)
		stress_await(party, party->tally.next + stress_draw(party) % lag);
	else if (count > 0)
		return;
	else if (party->manner == SLEEPING)
		tb_wait(subscriber, 1);
	else
		sched_yield();
}

/* Shows the writer how far the reader is. */
static void show_state(struct party *party, const struct tb_subscription *subscription)
{
	uint64_t counter[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, counter, SUBSCRIPTION_COUNTERS);
	atomic_store(&party->refused, counter[SUBSCRIPTION_TORN] + counter[SUBSCRIPTION_BUSY]);
	atomic_store(&party->next, party->tally.next);
	looked(party);
	if (party->tally.delivered >= DELIVERED_MIN && !atomic_load(&party->stress->over))
		set_content(party);
}

static void read_records(struct party *party, struct tb_subscriber *subscriber,
			 const struct tb_subscription *subscription)
{
	struct tally *tally = &party->tally;
	uint64_t end_by_ms = 0;

	while (!tally->ended && !tally->wrong[0]) {
		const int max =
			party->manner == LAGGING ? (int)(stress_draw(party) % 200) + 1 : 1000;
		const int count = tb_poll(subscriber, max);

		if (count < 0)
			tally_complain(tally, "tb_poll: %s", tb_error());
		show_state(party, subscription);
		pause_after(party, subscriber, count);
		if (!atomic_load(&party->stress->over))
			continue;
		if (end_by_ms == 0)
			end_by_ms = stress_now_ms() + END_MS;
		else if (stress_now_ms() > end_by_ms)
			tally_complain(tally, "stopped at %" PRIu64 " of %" PRIu64 " records",
				       tally->next - 1, atomic_load(tally->written));
	}
}

static void account(struct party *party, const struct tb_subscription *subscription)
{
	const struct tally *tally = &party->tally;
	const uint64_t written = atomic_load(tally->written);
	uint64_t counter[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, counter, SUBSCRIPTION_COUNTERS);
	if (tally->delivered + tally->lost != written)
		tally_complain(&party->tally,
			       "%" PRIu64 " delivered and %" PRIu64 " lost of %" PRIu64 " written",
			       tally->delivered, tally->lost, written);
	if (counter[SUBSCRIPTION_RECORDS] != tally->delivered ||
	    counter[SUBSCRIPTION_LOST_OVERRUN] != tally->lost)
		tally_complain(&party->tally,
			       "found counters of %" PRIu64 " delivered and %" PRIu64
			       " lost, expected %" PRIu64 " and %" PRIu64,
			       counter[SUBSCRIPTION_RECORDS], counter[SUBSCRIPTION_LOST_OVERRUN],
			       tally->delivered, tally->lost);
	if (!atomic_load(&party->content))
		tally_complain(&party->tally,
			       "found %" PRIu64 " records delivered in all, expected %d or more "
			       "while records are written",
			       tally->delivered, DELIVERED_MIN);
}

static void subscribe_and_read(struct party *party)
{
	struct tb_subscriber_options options = { .size = sizeof(options),
						 .address = party->stress->address,
						 .connect_ms = 60000 };
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = tally_record,
					       .on_event = tally_event,
					       .user = &party->tally,
					       .from = TB_FROM_OLDEST,
					       .flags = party->stress->variant->subscribe };
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription = NULL;

	if (tb_subscriber_open(&subscriber, &options) < 0 ||
	    tb_subscribe(subscriber, "t", &how, &subscription) < 0)
		tally_complain(&party->tally, "%s", tb_error());
	else if (!in_place(party->stress))
		tb_subscriber_fd(subscriber); /* after this, each idle poll collects READs */
	pthread_barrier_wait(&party->stress->joined);
	stress_stall(party);
	if (subscription)
		read_records(party, subscriber, subscription);
	if (subscription && !party->tally.wrong[0])
		account(party, subscription);
	tb_subscriber_close(subscriber);
}

/* -- last values --------------------------------------------------------------------------------
 */

/* Copies byte by byte in a random order, as a device may. */
__attribute__((no_sanitize_thread)) static void copy_bytewise(struct party *party, const void *slot,
							      struct record *copy, uint32_t bytes)
{
	const volatile uint8_t *from = slot;
	const uint32_t step = (uint32_t)stress_draw(party) | 1; /* bytes is a power of two */
	uint32_t at = (uint32_t)stress_draw(party);

	for (uint32_t i = 0; i < bytes; i++, at += step)
		((uint8_t *)copy)[at % bytes] = from[at % bytes];
}

static bool value_copy(struct party *party, const struct slot *slot, struct record *copy)
{
	const struct tb_topic *topic = party->stress->topic;
	uint64_t found = 0;

	if (in_place(party->stress)) {
		found = atomic_load_explicit(&slot->word[0], memory_order_relaxed);
		if (found == 0 || record_copy(slot, topic->slot_bytes, found, copy, &found) < 0)
			return false;
	} else {
		copy_bytewise(party, slot, copy, topic->slot_bytes);
	}
	return record_verify(copy, topic->slot_bytes, 0, topic->checked, topic->salt) == 0;
}

static void value_check(struct party *party, uint32_t instrument, uint64_t least,
			const struct record *copy)
{
	const struct tb_record record = { .sequence = copy->sequence,
					  .time_ns = copy->time_ns,
					  .instrument = copy->instrument,
					  .length = copy->length,
					  .kind = copy->kind,
					  .flags = copy->flags,
					  .data = copy->payload };
	const char *wrong = truth_wrong(&party->tally.truth, copy->sequence, &record);

	if (wrong)
		tally_complain(&party->tally, "last value %" PRIu64 ": %s", copy->sequence, wrong);
	else if (copy->instrument != instrument || !truth_is_value(copy->sequence))
		tally_complain(&party->tally, "record %" PRIu64 " is not a last value of I%" PRIu32,
			       copy->sequence, instrument);
	else if (copy->sequence < least)
		tally_complain(&party->tally,
			       "last value of I%" PRIu32 ": found %" PRIu64 ", expected %" PRIu64
			       " or later",
			       instrument, copy->sequence, least);
}

/* The last value is at least as new as the head seen before, and never gets older. */
static void read_value(struct party *party, uint32_t instrument, uint64_t *seen)
{
	const struct tb_topic *topic = party->stress->topic;
	const struct slot *slot =
		(const struct slot *)(void *)(topic->last_value +
					      (size_t)instrument * topic->slot_bytes);
	const uint64_t promised = truth_last_value(topic_head(topic), instrument);
	struct record copy;

	looked(party);
	if (!value_copy(party, slot, &copy)) {
		counter_add(&party->refused, 1);
		return;
	}
	value_check(party, instrument, promised > *seen ? promised : *seen, &copy);
	party->fresh += *seen != 0 && copy.sequence > *seen && !atomic_load(&party->stress->over);
	*seen = copy.sequence;
	if (party->fresh == FRESH_MIN)
		set_content(party);
	party->values++;
}

static void read_values(struct party *party)
{
	struct stress *stress = party->stress;
	uint64_t seen[TRUTH_INSTRUMENTS] = { 0 };
	bool over;

	pthread_barrier_wait(&stress->joined);
	stress_stall(party);
	do {
		over = atomic_load(&stress->over);
		for (uint32_t i = 0; i < TRUTH_INSTRUMENTS; i++)
			read_value(party, i, &seen[i]);
	} while (!over && !party->tally.wrong[0]);
	if (party->fresh < FRESH_MIN)
		tally_complain(&party->tally,
			       "found %" PRIu64 " last values while records are written, expected "
			       "%d or more",
			       party->fresh, FRESH_MIN);
	for (uint32_t i = 0; i < TRUTH_INSTRUMENTS && !party->tally.wrong[0]; i++)
		if (seen[i] != truth_last_value(atomic_load(&stress->written), i))
			tally_complain(&party->tally,
				       "the final last value of I%" PRIu32 " is %" PRIu64, i,
				       seen[i]);
}

void *stress_read(void *user)
{
	struct party *party = user;

	stress_me = party;
	if (party->manner == VALUES)
		read_values(party);
	else
		subscribe_and_read(party);
	stress_stall_no_more();
	set_content(party); /* so that the writer does not wait for it */
	atomic_fetch_add(&party->stress->finished, 1);
	return NULL;
}

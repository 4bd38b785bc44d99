/* SPDX-License-Identifier: Apache-2.0 */
/* A subscriber whose connection has every fault that the decorator knows delivers each record once,
 * in order, or reports it lost. Built once per fabric below, with SCHEME. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/fault/fault.h"
#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define FAULTS                                                                                     \
	"drop=0.05,dup=0.05,reorder=0.05,delay=0.05,tear=0.2,fail=0.01,disconnect=0.002,"          \
	"stall=0.002,freeze=0.05"
#define RECORDS 5000 /* at least */
#define SLOTS   256
#define BURST   64 /* records between two polls, at most */
#define WAITS   64 /* the writer overtakes a reader that is behind after so many turns */

struct account {
	uint64_t next, records, lost, images;
	uint64_t value[2]; /* of instrument B, of A: the payload's parity */
	bool ended, complete;
	bool conflates;  /* values come; some records are skipped */
	char wrong[128]; /* the first breach */
};

static struct tb_publisher *publisher;
static struct tb_subscriber *subscriber;
static uint64_t seed;

static void enter(void)
{
	scene_enter();
	seed = scene_seed();
	faulty_add(seed);
	publisher = scene_publisher_of(SCHEME, SCENE_HASTY_MS);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(faults, .init = enter, .fini = leave, .timeout = 120);

static void expect_next(struct account *account, const char *what, uint64_t first, uint64_t last)
{
	if (first != account->next && account->wrong[0] == '\0')
		snprintf(account->wrong, sizeof(account->wrong),
			 "%s %" PRIu64 " to %" PRIu64 ", expected %" PRIu64, what, first, last,
			 account->next);
	account->next = last + 1;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct account *account = user;
	uint64_t x;

	(void)source;
	memcpy(&x, record->data, sizeof(x));
	if (account->conflates) {
		if (x <= account->value[x % 2] && account->wrong[0] == '\0')
			snprintf(account->wrong, sizeof(account->wrong),
				 "value %" PRIu64 " after %" PRIu64, x, account->value[x % 2]);
		account->next = x + 1;
	}
	account->value[x % 2] = x;
	if (account->conflates)
		account->records += !(record->flags & TB_FLAG_IMAGE);
	else if (!(record->flags & TB_FLAG_IMAGE)) {
		expect_next(account, "record", record->sequence, record->sequence);
		account->records++;
	}
	if (x != record->sequence && account->wrong[0] == '\0')
		snprintf(account->wrong, sizeof(account->wrong),
			 "record %" PRIu64 " has the payload of %" PRIu64, record->sequence, x);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct account *account = user;

	if (event->kind == TB_EVENT_GAP) {
		if (!account->conflates)
			expect_next(account, "gap", event->first, event->last);
		account->lost += event->lost;
	} else if (event->kind == TB_EVENT_RESTART || event->kind == TB_EVENT_REFUSED) {
		snprintf(account->wrong, sizeof(account->wrong), "event %d", event->kind);
	}
	if (event->kind == TB_EVENT_IMAGE) {
		account->images++;
		account->complete = false;
		if (account->next == 0)
			account->next = event->first + 1;
	}
	account->complete |= event->kind == TB_EVENT_COMPLETE;
	account->ended |= event->kind == TB_EVENT_ENDED;
}

/* Whether each fault happened that the fabric below allows. A reader that conflates takes no
 * notices, so they are not lost. */
static bool all_happened(const struct account *account)
{
	const bool notices = strcmp(SCHEME, "multicast") == 0 && !account->conflates;
	const enum fault_kind first = notices ? FAULT_DROP : FAULT_DELAY;

	for (enum fault_kind kind = first; kind < FAULT_KINDS; kind++)
		if (fault_count(kind) == 0)
			return false;
	return true;
}

static struct tb_subscription *subscribe(struct account *account, enum tb_from from,
					 enum tb_gap gap)
{
	char address[256];
	const struct tb_subscriber_options options = {
		.size = sizeof(options), .address = address, .flags = TB_WAIT, .connect_ms = 20000
	};
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = on_record,
						     .on_event = on_event,
						     .user = account,
						     .from = from,
						     .gap = gap,
						     .conflate_us = account->conflates ? 3000 : 0 };
	struct tb_subscription *subscription;

	snprintf(address, sizeof(address), "fault:seed=%" PRIu64 "," FAULTS "/%s:test", seed,
		 SCHEME);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	return subscription;
}

/* Polls, and waits if nothing came. The faults of a sleeper lose no wake-up. */
static void turn(uint64_t until_ms)
{
	const int count = tb_poll(subscriber, 1000);

	cr_assert_geq(count, 0, "%s", tb_error());
	if (count == 0)
		cr_assert_geq(tb_wait(subscriber, 1), 0, "%s", tb_error());
	cr_assert_lt(scene_now_ms(), until_ms);
}

/* Publishes until each fault has happened and the reader was lapped, which loses nothing of a
 * conflation. Then ends the topic. Returns how many records were written. */
static uint64_t run(struct tb_topic *topic, struct account *account)
{
	const uint64_t until_ms = scene_now_ms() + 2 * deadline_ms();
	uint64_t state = seed, written = tb_topic_sequence(topic);

	while (written < RECORDS || (account->lost == 0 && !account->conflates) ||
	       !all_happened(account)) {
		const bool behind = written >= account->next + SLOTS / 2;
		const uint64_t burst =
			behind && random_below(&state, WAITS) ? 0 : random_below(&state, BURST + 1);

		scene_publish(topic, written + 1, written + burst);
		written += burst;
		turn(until_ms);
	}
	tb_topic_end(topic);
	while (!account->ended)
		turn(until_ms);
	fprintf(stderr, "%" PRIu64 " records, %" PRIu64 " lost, %" PRIu64 " images\n",
		account->records, account->lost, account->images);
	return written;
}

Test(faults, every_record_is_delivered_once_or_reported_lost)
{
	struct account account = { .next = 1 };
	struct tb_topic *topic = scene_topic(publisher, "t", SLOTS, 0);
	uint64_t written;

	subscribe(&account, TB_FROM_OLDEST, TB_GAP_OLDEST);
	written = run(topic, &account);
	cr_expect_str_eq(account.wrong, "");
	cr_expect_eq(account.next, written + 1);
	cr_expect_eq(account.records + account.lost, written);
	cr_expect_gt(account.records, RECORDS / 10, "hardly a record is delivered");
}

Test(faults, images_end_with_the_values_of_the_writer)
{
	struct account account = { .next = 0 };
	struct tb_topic *topic = scene_topic(publisher, "t", SLOTS, 0);
	uint64_t written;

	scene_publish(topic, 1, SLOTS);
	subscribe(&account, TB_FROM_IMAGE, TB_GAP_IMAGE);
	written = run(topic, &account);
	cr_expect_str_eq(account.wrong, "");
	cr_expect_gt(account.images, 1, "no gap was repaired");
	cr_expect(account.complete);
	cr_expect_eq(account.next, written + 1);
	cr_expect_eq(account.value[written % 2], written);
	cr_expect_eq(account.value[1 - written % 2], written - 1);
}

/* Whatever was delivered ahead of the position, at the end it was passed. */
Test(faults, conflated_accounts_are_exact)
{
	struct account account = { .conflates = true };
	struct tb_topic *topic = scene_topic(publisher, "t", SLOTS, 0);
	const struct tb_subscription *subscription =
		subscribe(&account, TB_FROM_OLDEST, TB_GAP_OLDEST);
	uint64_t values[SUBSCRIPTION_COUNTERS], lost;
	const uint64_t written = run(topic, &account);

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	lost = values[SUBSCRIPTION_LOST_OVERRUN] + values[SUBSCRIPTION_LOST_BEFORE_JOIN] +
	       values[SUBSCRIPTION_LOST_CORRUPT];
	cr_expect_str_eq(account.wrong, "");
	cr_expect_eq(values[SUBSCRIPTION_RECORDS] + values[SUBSCRIPTION_SKIPPED] + lost, written);
	cr_expect_eq(values[SUBSCRIPTION_RECORDS], account.records);
	cr_expect_eq(lost, account.lost);
	cr_expect_eq(values[SUBSCRIPTION_LOST_OVERRUN], 0);
	cr_expect_eq(account.value[written % 2], written);
	cr_expect_eq(account.value[1 - written % 2], written - 1);
	cr_expect_gt(values[SUBSCRIPTION_SKIPPED], written / 2);
}

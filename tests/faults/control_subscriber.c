/* SPDX-License-Identifier: Apache-2.0 */
/* The control subscriber of the fault tests: accounts for every record.
 *
 *   control_subscriber ADDRESS TOPIC[,TOPIC...] oldest|newest wait|spin [MORE]
 *
 * Prints each event as a line of JSON, with CLOCK_MONOTONIC in milliseconds and the accounts:
 * - records, lost: of this epoch
 * - wrong: records whose sequence was not the next sequence
 * - before, after: the last record before the latest gap, and the first record after it
 * - age_ms, age_at: the greatest age of a record, and when it arrived
 * - first_ns, last_ns: when the first and the last record arrived, by CLOCK_REALTIME
 * - gap_ms: the longest time between two polls
 *
 * The last three lines count from the previous SIGUSR1 on. An age is meaningful only where the
 * publisher has the same clock. SIGUSR1 prints the accounts alone. Ends at the topic's end or with
 * SIGTERM. MORE is a number of further subscribers to the topic, which are never polled.
 * With CONTROL_WATCH=NAME[,NAME...] it watches the values of these instruments, at most once in 20
 * ms; then sequences do not follow each other. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tickbus/counters.h"
#include "tickbus/subscriber.h"

#define MORE_MAX 64

struct account {
	uint64_t next; /* the sequence that must come next in this epoch; 0: not known yet */
	uint64_t records, lost, wrong, total;
	uint64_t newest, before, after; /* the last record, and those around the latest gap */
	int64_t age_ns;                 /* of the oldest */
	uint64_t age_at_ms;
	int64_t first_ns, last_ns;
	uint64_t polled_ms, gap_ms; /* the last poll, the longest time between two */
	uint64_t epoch;
	bool ended, silent;
	struct tb_subscription *subscription; /* NULL: not subscribed yet */
};

/* The topics after the first: their events are not printed, but `lost` and `wrong` count for them
 * too. */
#define OTHERS_MAX  8
#define WATCHED_MAX 256
static struct account others[OTHERS_MAX];
static const char *watched[WATCHED_MAX];
static size_t watched_count; /* 0: all records are read */
static int unended;          /* topics */

static volatile sig_atomic_t asked, stopped;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		asked = 1;
	else
		stopped = 1;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* All counters of the subscription, by name. */
static void counters_print(const struct tb_subscription *subscription)
{
	uint64_t values[64];
	size_t count;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);

	count = tb_subscription_counters(subscription, values, count < 64 ? count : 64);
	printf(",\"counters\":{");
	for (size_t i = 0; i < count; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", table[i].name, values[i]);
	putchar('}');
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Called at each poll and each event. */
static void polled(struct account *account)
{
	const uint64_t now = now_ms();

	if (account->polled_ms && account->gap_ms < now - account->polled_ms)
		account->gap_ms = now - account->polled_ms;
	account->polled_ms = now;
}

static void print(struct account *account, const char *event, const struct tb_event *more)
{
	polled(account);
	printf("{\"event\":\"%s\",\"ms\":%" PRIu64 ",\"epoch\":\"%016" PRIx64 "\",\"next\":%" PRIu64
	       ",\"records\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"wrong\":%" PRIu64
	       ",\"total\":%" PRIu64 ",\"before\":%" PRIu64 ",\"after\":%" PRIu64
	       ",\"age_ms\":%.1f,\"age_at\":%" PRIu64 ",\"first_ns\":%" PRId64
	       ",\"last_ns\":%" PRId64 ",\"gap_ms\":%" PRIu64,
	       event, now_ms(), account->epoch, account->next, account->records, account->lost,
	       account->wrong, account->total, account->before, account->after,
	       (double)account->age_ns / 1e6, account->age_at_ms, account->first_ns,
	       account->last_ns, account->gap_ms);
	if (more)
		printf(",\"first\":%" PRIu64 ",\"last\":%" PRIu64 ",\"head\":%" PRIu64
		       ",\"old_epoch\":\"%016" PRIx64 "\"",
		       more->first, more->last, more->head, more->old_epoch);
	if (account->subscription)
		counters_print(account->subscription);
	puts("}");
	fflush(stdout);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct account *account = user;
	const int64_t now = now_ns(), age_ns = now - (int64_t)record->time_ns;

	(void)source;
	if (account->age_ns < age_ns) {
		account->age_ns = age_ns;
		account->age_at_ms = now_ms();
	}
	if (account->first_ns == 0)
		account->first_ns = now;
	account->last_ns = now;
	account->wrong += watched_count == 0 &&
			  (record->sequence != account->next || record->epoch != account->epoch);
	account->next = record->sequence + 1;
	account->newest = record->sequence;
	if (account->after == 0)
		account->after = record->sequence;
	account->records++;
	account->total++;
}

static void on_event(void *user, const struct tb_event *event)
{
	static const char *const names[] = { "",        "appeared", "gap",     "stale",  "live",
					     "restart", "ended",    "refused", "quality" };
	struct account *account = user;

	switch (event->kind) {
	case TB_EVENT_APPEARED:
		account->next = event->first;
		account->epoch = event->epoch;
		break;
	case TB_EVENT_GAP:
		account->wrong += event->first != account->next || event->last < event->first;
		account->before = account->newest;
		account->after = 0;
		account->lost += event->last - event->first + 1;
		account->next = event->last + 1;
		break;
	case TB_EVENT_RESTART:
		account->wrong +=
			event->delivered != account->next - 1 || event->old_epoch != account->epoch;
		account->next = 1;
		account->epoch = event->epoch;
		account->records = account->lost = 0;
		break;
	case TB_EVENT_ENDED:
		account->wrong += event->head != account->next - 1;
		unended -= !account->ended;
		account->ended = true;
		break;
	case TB_EVENT_QUALITY:
		account->wrong += event->first > 0 && event->first != account->next;
		account->next += event->first > 0;
		break;
	default:
		break;
	}
	if (!account->silent)
		print(account, names[event->kind], event);
}

static void on_record_of_more(void *user, const struct tb_source *source,
			      const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
}

static int fail(const char *what)
{
	fprintf(stderr, "control_subscriber: %s: %s\n", what, tb_error());
	return 1;
}

static void sum(struct account *account)
{
	for (int i = 0; i < OTHERS_MAX; i++) {
		account->lost += others[i].lost;
		account->wrong += others[i].wrong;
		others[i].lost = others[i].wrong = 0;
	}
	print(account, "sum", NULL);
	account->age_ns = account->first_ns = 0;
	account->gap_ms = 0;
}

static void watch_names(struct tb_subscription_options *what)
{
	char *names = getenv("CONTROL_WATCH");

	if (!names)
		return;
	for (char *name = strtok(names, ","); name && watched_count < WATCHED_MAX;
	     name = strtok(NULL, ","))
		watched[watched_count++] = name;
	what->names = watched;
	what->name_count = watched_count;
	what->flags |= TB_WATCH;
	what->look_us = 20000;
	what->from = TB_FROM_NEWEST;
}

static int subscribe(struct tb_subscriber *subscriber, char *topics,
		     struct tb_subscription_options *what)
{
	struct account *first = what->user;
	char *topic = strtok(topics, ",");

	for (int i = 0; topic && i <= OTHERS_MAX; i++, topic = strtok(NULL, ",")) {
		struct account *account = i == 0 ? first : &others[i - 1];

		account->silent = i > 0;
		what->user = account;
		if (tb_subscribe(subscriber, topic, what, &account->subscription) < 0)
			return -1;
		unended += !account->ended;
	}
	return 0;
}

static int watch(struct tb_subscriber *subscriber, struct account *account, bool spin)
{
	int count = 0;

	while (!stopped && unended > 0) {
		polled(account);
		count = tb_poll(subscriber, 4096);
		if (count == 0 && !spin)
			count = tb_wait(subscriber, 200);
		if (count < 0 && count != -EINTR)
			return fail("poll");
		if (asked) {
			asked = 0;
			sum(account);
		}
	}
	sum(account);
	return 0;
}

static struct tb_subscriber *further[MORE_MAX];

static int further_open(const struct tb_subscriber_options *how, const char *topic, size_t count)
{
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record_of_more,
						      .flags = TB_WAIT };
	struct tb_subscription *subscription;

	for (size_t i = 0; i < count && i < MORE_MAX; i++)
		if (tb_subscriber_open(&further[i], how) < 0 ||
		    tb_subscribe(further[i], topic, &what, &subscription) < 0)
			return fail("further subscriber");
	return 0;
}

static void further_close(void)
{
	for (size_t i = 0; i < MORE_MAX; i++)
		tb_subscriber_close(further[i]);
}

int main(int argc, char **argv)
{
	struct account account = { 0 };
	struct tb_subscriber_options how = { .size = sizeof(how), .flags = TB_WAIT };
	struct tb_subscription_options what = { .size = sizeof(what),
						.on_record = on_record,
						.on_event = on_event,
						.user = &account,
						.flags = TB_WAIT };
	struct tb_subscriber *subscriber;
	int status;

	if (argc < 5 || argc > 6)
		return 2;
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	print(&account, "ready", NULL); /* signals are handled from here on */
	how.address = argv[1];
	what.from = strcmp(argv[3], "oldest") ? TB_FROM_NEWEST : TB_FROM_OLDEST;
	watch_names(&what);
	if (argc == 6 && further_open(&how, argv[2], strtoul(argv[5], NULL, 10)) != 0)
		return 1;
	if (tb_subscriber_open(&subscriber, &how) < 0)
		return fail("open");
	if (subscribe(subscriber, argv[2], &what) < 0) {
		status = fail("subscribe");
	} else {
		status = watch(subscriber, &account, !strcmp(argv[4], "spin"));
	}
	tb_subscriber_close(subscriber);
	further_close();
	return status;
}

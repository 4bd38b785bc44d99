/* SPDX-License-Identifier: Apache-2.0 */
/* A subscriber that keeps the books, for the tests of faults.
 *
 *   witness ADDRESS TOPIC oldest|newest wait|spin [MORE]
 *
 * Prints each event as a line of JSON, with the milliseconds of CLOCK_MONOTONIC and the books so
 * far: records delivered and lost in this epoch, and how many sequences were not the one that had
 * to come next; the last record before the latest gap and the first one after; of those
 * delivered since SIGUSR1 came before, how old the oldest was, and when it came: where the
 * publisher has the same clock, that means something; when the first and the last of them came, in
 * ns of CLOCK_REALTIME; and the longest time between two polls since then. SIGUSR1 prints the books
 * alone. Ends at the topic's end or with SIGTERM. MORE: so many further subscribers of the same,
 * which nobody polls.
 */
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

struct books {
	uint64_t next; /* what has to come next in this epoch; 0: not known yet */
	uint64_t records, lost, wrong, total;
	uint64_t newest, before, after; /* delivered: at all, around the latest gap */
	int64_t age_ns;                 /* of the oldest */
	uint64_t age_at_ms;
	int64_t first_ns, last_ns;
	uint64_t polled_ms, gap_ms; /* the last poll, the longest time between two */
	uint64_t epoch;
	bool ended, silent;
	struct tb_subscription *subscription; /* NULL: none yet */
};

/* TOPIC may be several, with a comma between them. Of those behind the first nothing is printed,
 * but what was lost or out of place in them is counted, too. */
#define OTHERS_MAX 8
static struct books others[OTHERS_MAX];
static int unended; /* topics */

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

/* All of the subscription's, by their names. */
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

/* At each poll, and where it tells something. */
static void polled(struct books *books)
{
	const uint64_t now = now_ms();

	if (books->polled_ms && books->gap_ms < now - books->polled_ms)
		books->gap_ms = now - books->polled_ms;
	books->polled_ms = now;
}

static void print(struct books *books, const char *event, const struct tb_event *more)
{
	polled(books);
	printf("{\"event\":\"%s\",\"ms\":%" PRIu64 ",\"epoch\":\"%016" PRIx64 "\",\"next\":%" PRIu64
	       ",\"records\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"wrong\":%" PRIu64
	       ",\"total\":%" PRIu64 ",\"before\":%" PRIu64 ",\"after\":%" PRIu64
	       ",\"age_ms\":%.1f,\"age_at\":%" PRIu64 ",\"first_ns\":%" PRId64
	       ",\"last_ns\":%" PRId64 ",\"gap_ms\":%" PRIu64,
	       event, now_ms(), books->epoch, books->next, books->records, books->lost,
	       books->wrong, books->total, books->before, books->after, (double)books->age_ns / 1e6,
	       books->age_at_ms, books->first_ns, books->last_ns, books->gap_ms);
	if (more)
		printf(",\"first\":%" PRIu64 ",\"last\":%" PRIu64 ",\"head\":%" PRIu64
		       ",\"old_epoch\":\"%016" PRIx64 "\"",
		       more->first, more->last, more->head, more->old_epoch);
	if (books->subscription)
		counters_print(books->subscription);
	puts("}");
	fflush(stdout);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct books *books = user;
	const int64_t now = now_ns(), age_ns = now - (int64_t)record->time_ns;

	(void)source;
	if (books->age_ns < age_ns) {
		books->age_ns = age_ns;
		books->age_at_ms = now_ms();
	}
	if (books->first_ns == 0)
		books->first_ns = now;
	books->last_ns = now;
	books->wrong += record->sequence != books->next || record->epoch != books->epoch;
	books->next = record->sequence + 1;
	books->newest = record->sequence;
	if (books->after == 0)
		books->after = record->sequence;
	books->records++;
	books->total++;
}

static void on_event(void *user, const struct tb_event *event)
{
	static const char *const names[] = { "",     "appeared", "gap",   "stale",
					     "live", "restart",  "ended", "refused" };
	struct books *books = user;

	switch (event->kind) {
	case TB_EVENT_APPEARED:
		books->next = event->first;
		books->epoch = event->epoch;
		break;
	case TB_EVENT_GAP:
		books->wrong += event->first != books->next || event->last < event->first;
		books->before = books->newest;
		books->after = 0;
		books->lost += event->last - event->first + 1;
		books->next = event->last + 1;
		break;
	case TB_EVENT_RESTART:
		books->wrong +=
			event->delivered != books->next - 1 || event->old_epoch != books->epoch;
		books->next = 1;
		books->epoch = event->epoch;
		books->records = books->lost = 0;
		break;
	case TB_EVENT_ENDED:
		books->wrong += event->head != books->next - 1;
		unended -= !books->ended;
		books->ended = true;
		break;
	default:
		break;
	}
	if (!books->silent)
		print(books, names[event->kind], event);
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
	fprintf(stderr, "witness: %s: %s\n", what, tb_error());
	return 1;
}

static void sum(struct books *books)
{
	for (int i = 0; i < OTHERS_MAX; i++) {
		books->lost += others[i].lost;
		books->wrong += others[i].wrong;
		others[i].lost = others[i].wrong = 0;
	}
	print(books, "sum", NULL);
	books->age_ns = books->first_ns = 0;
	books->gap_ms = 0;
}

static int subscribe(struct tb_subscriber *subscriber, char *topics,
		     struct tb_subscription_options *what)
{
	struct books *first = what->user;
	char *topic = strtok(topics, ",");

	for (int i = 0; topic && i <= OTHERS_MAX; i++, topic = strtok(NULL, ",")) {
		struct books *books = i == 0 ? first : &others[i - 1];

		books->silent = i > 0;
		what->user = books;
		if (tb_subscribe(subscriber, topic, what, &books->subscription) < 0)
			return -1;
		unended += !books->ended;
	}
	return 0;
}

static int watch(struct tb_subscriber *subscriber, struct books *books, bool spin)
{
	int count = 0;

	while (!stopped && unended > 0) {
		polled(books);
		count = tb_poll(subscriber, 4096);
		if (count == 0 && !spin)
			count = tb_wait(subscriber, 200);
		if (count < 0 && count != -EINTR)
			return fail("poll");
		if (asked) {
			asked = 0;
			sum(books);
		}
	}
	sum(books);
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
			return fail("further");
	return 0;
}

static void further_close(void)
{
	for (size_t i = 0; i < MORE_MAX; i++)
		tb_subscriber_close(further[i]);
}

int main(int argc, char **argv)
{
	struct books books = { 0 };
	struct tb_subscriber_options how = { .size = sizeof(how), .flags = TB_WAIT };
	struct tb_subscription_options what = { .size = sizeof(what),
						.on_record = on_record,
						.on_event = on_event,
						.user = &books,
						.flags = TB_WAIT };
	struct tb_subscriber *subscriber;
	int status;

	if (argc < 5 || argc > 6)
		return 2;
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	print(&books, "ready", NULL); /* for signals */
	how.address = argv[1];
	what.from = strcmp(argv[3], "oldest") ? TB_FROM_NEWEST : TB_FROM_OLDEST;
	if (argc == 6 && further_open(&how, argv[2], strtoul(argv[5], NULL, 10)) != 0)
		return 1;
	if (tb_subscriber_open(&subscriber, &how) < 0)
		return fail("open");
	if (subscribe(subscriber, argv[2], &what) < 0) {
		status = fail("subscribe");
	} else {
		status = watch(subscriber, &books, !strcmp(argv[4], "spin"));
	}
	tb_subscriber_close(subscriber);
	further_close();
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* stress_images [--records N]
 *
 * A writer at full speed, and readers that join with an image again and again, each on its own
 * thread. Slots are torn for real. A quarter of the records are of a single instrument. The writer
 * stays half a ring ahead of two readers, and laps the third.
 *
 * Every field of record n follows from n. So each reader knows the publisher's table at any
 * position. It compares its own table with it at each completion. Reports in TAP. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bus/counters.h"
#include "tests/support/bytewise.h"
#include "tests/support/random.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define SLOTS       1024
#define INSTRUMENTS 600
#define NAMES       (INSTRUMENTS + 40) /* some lack a value */
#define WORDS       4
#define READERS     3
#define PACED       2  /* readers that the writer waits for */
#define JOINS_MIN   40 /* of each reader */
#define TORN_MIN    20 /* copies refused, by all readers */
#define LATE_MS     60000
#define LAG_POLLS   60         /* of a reader that is lapped, on average */
#define NOBODY      UINT64_MAX /* the position of a reader between two joins */

struct variant {
	const char *name, *scheme;
	uint32_t flags;
	uint32_t share; /* of all records, in percent */
};

static const struct variant variants[] = {
	{ "shm-unchecked", "shm", TB_TOPIC_UNCHECKED, 30 },
	{ "shm-checked-marks", "shm", TB_TOPIC_MARKS_MESSAGES, 30 },
	{ "shm-unchecked-marks-batches", "shm",
	  TB_TOPIC_UNCHECKED | TB_TOPIC_MARKS_MESSAGES | TB_TOPIC_MANUAL_FLUSH, 20 },
	{ "bytewise", "bytewise", 0, 10 },
	{ "bytewise-marks", "bytewise", TB_TOPIC_MARKS_MESSAGES, 10 },
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

struct reader {
	pthread_t thread;
	bool paced;
	uint64_t random;
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	/* The program's table, from its handlers. */
	uint64_t value[NAMES], last[NAMES];
	uint64_t next, base;
	bool imaging, complete;
	/* The publisher's table at `known`. */
	uint64_t expected[NAMES], known;
	uint64_t completes, values, gaps;
	char wrong[192];
	_Alignas(64) _Atomic uint64_t position, joins, torn;
	_Atomic bool done; /* after a complaint, or when the writer is through */
};

static const struct variant *variant;
static struct tb_topic *topic;
static struct reader readers[READERS];
static _Alignas(64) _Atomic uint64_t written;
static _Alignas(64) _Atomic bool over;

/* -- record n --------------------------------------------------------------------------------- */

static uint64_t bits_of(uint64_t n)
{
	return random_draw(&n);
}

static struct tb_update record_of(uint64_t n, uint64_t *words)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_UPDATE, TB_KIND_UPDATE,
					 TB_KIND_CANCEL, TB_KIND_CLEAR,  TB_KIND_CORRECTION,
					 TB_KIND_STATUS, TB_KIND_USER };
	const uint64_t bits = bits_of(n);
	struct tb_update update = { .size = sizeof(update),
				    .kind = kinds[bits % 8],
				    .instrument = bits >> 8 & 3
							  ? (uint32_t)((bits >> 16) % INSTRUMENTS)
							  : 7,
				    .length = WORDS * 8,
				    .time_ns = n,
				    .data = words };

	if ((bits >> 3 & 3) == 0)
		update.flags = TB_FLAG_LAST;
	if (update.kind == TB_KIND_CORRECTION && (bits >> 5 & 1))
		update.flags |= TB_FLAG_PAST;
	for (uint64_t i = 0; i < WORDS; i++)
		words[i] = bits + i;
	return update;
}

static bool changes_value(const struct tb_update *update)
{
	return update->kind == TB_KIND_UPDATE || update->kind == TB_KIND_CLEAR ||
	       update->kind == TB_KIND_USER ||
	       (update->kind == TB_KIND_CORRECTION && !(update->flags & TB_FLAG_PAST));
}

static void table_put(uint64_t *table, const struct tb_update *update, uint64_t n)
{
	if (changes_value(update))
		table[update->instrument] = update->kind == TB_KIND_CLEAR ? 0 : n;
}

/* -- the reader ------------------------------------------------------------------------------- */

static void complain(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void complain(struct reader *reader, const char *format, ...)
{
	va_list args;

	if (reader->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(reader->wrong, sizeof(reader->wrong), format, args);
	va_end(args);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const uint64_t n = record->sequence;
	const uint8_t flags = (uint8_t)(record->flags & ~TB_FLAG_IMAGE);
	struct reader *reader = user;
	uint64_t words[WORDS];
	const struct tb_update update = record_of(n, words);

	(void)source;
	if (record->instrument != update.instrument || record->kind != update.kind ||
	    flags != update.flags || record->time_ns != n || record->length != sizeof(words) ||
	    memcmp(record->data, words, sizeof(words)) != 0 || record->name[0] != 'I' ||
	    strtoul(record->name + 1, NULL, 10) != update.instrument) {
		complain(reader, "record %" PRIu64 " is wrong", n);
		return;
	}
	if (record->flags & TB_FLAG_IMAGE) {
		reader->values++;
		if (!reader->imaging || n > reader->base || !changes_value(&update))
			complain(reader, "value %" PRIu64 " of an image up to %" PRIu64, n,
				 reader->base);
	} else {
		if (n != reader->next)
			complain(reader, "record %" PRIu64 ", expected %" PRIu64, n, reader->next);
		reader->next = n + 1;
		atomic_store_explicit(&reader->position, n, memory_order_relaxed);
	}
	if (!changes_value(&update))
		return;
	if (n <= reader->last[update.instrument])
		complain(reader, "value %" PRIu64 " of I%u after %" PRIu64, n, update.instrument,
			 reader->last[update.instrument]);
	reader->last[update.instrument] = n;
	table_put(reader->value, &update, n);
}

static void compare(struct reader *reader, uint64_t position)
{
	uint64_t words[WORDS];
	struct tb_update update = { 0 };

	while (reader->known < position) {
		update = record_of(++reader->known, words);
		table_put(reader->expected, &update, reader->known);
	}
	for (uint32_t i = 0; i < NAMES; i++)
		if (reader->value[i] != reader->expected[i])
			complain(reader,
				 "complete at %" PRIu64 ": I%u: found %" PRIu64
				 ", expected %" PRIu64,
				 position, i, reader->value[i], reader->expected[i]);
	update = record_of(position, words);
	if (position > 0 && (variant->flags & TB_TOPIC_MARKS_MESSAGES) &&
	    !(update.flags & TB_FLAG_LAST))
		complain(reader, "complete at %" PRIu64 ", inside a message", position);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct reader *reader = user;

	switch (event->kind) {
	case TB_EVENT_APPEARED:
		reader->next = event->first;
		if (reader->paced)
			atomic_store(&reader->position, event->first - 1);
		break;
	case TB_EVENT_GAP:
		if (event->first != reader->next || event->cause != TB_CAUSE_OVERRUN)
			complain(reader, "gap from %" PRIu64 ", expected %" PRIu64, event->first,
				 reader->next);
		reader->gaps++;
		reader->next = event->delivered + 1;
		break;
	case TB_EVENT_IMAGE:
		reader->imaging = true;
		reader->base = event->first;
		if (event->first != reader->next - 1)
			complain(reader, "image up to %" PRIu64 " at %" PRIu64, event->first,
				 reader->next - 1);
		break;
	case TB_EVENT_COMPLETE:
		if (event->delivered != reader->next - 1)
			complain(reader, "complete at %" PRIu64 ", the position is %" PRIu64,
				 event->delivered, reader->next - 1);
		reader->imaging = false;
		reader->complete = true;
		reader->completes++;
		compare(reader, event->delivered);
		break;
	case TB_EVENT_STALE:
	case TB_EVENT_LIVE:
		break; /* a machine under load may delay the pulse */
	default:
		complain(reader, "event %d: %s", (int)event->kind,
			 event->words ? event->words : "");
		break;
	}
}

/* Lets the writer lap this reader. */
static void lag(void)
{
	const uint64_t until = atomic_load(&written) + 2 * SLOTS;

	while (atomic_load(&written) < until && !atomic_load(&over))
		sched_yield();
}

static void poll(struct reader *reader)
{
	const int count = tb_poll(reader->subscriber, 1 + (int)random_below(&reader->random, 64));

	if (count < 0)
		complain(reader, "tb_poll: %s", tb_error());
	if (count == 0)
		sched_yield();
	if (!reader->paced && random_below(&reader->random, LAG_POLLS) == 0)
		lag();
}

/* Reads on after the completion, through further images if it is lapped. */
static void join(struct reader *reader)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = on_record,
							 .on_event = on_event,
							 .user = reader,
							 .from = TB_FROM_IMAGE,
							 .gap = TB_GAP_IMAGE };
	uint64_t counters[SUBSCRIPTION_COUNTERS];

	memset(reader->value, 0, sizeof(reader->value));
	memset(reader->last, 0, sizeof(reader->last));
	reader->imaging = reader->complete = false;
	if (tb_subscribe(reader->subscriber, "t", &options, &reader->subscription) < 0) {
		complain(reader, "tb_subscribe: %s", tb_error());
		return;
	}
	while (!reader->complete && !reader->wrong[0])
		poll(reader);
	for (size_t more = random_below(&reader->random, 100); more > 0; more--)
		poll(reader);
	tb_subscription_counters(reader->subscription, counters, SUBSCRIPTION_COUNTERS);
	atomic_fetch_add(&reader->torn, counters[SUBSCRIPTION_TORN]);
	atomic_store(&reader->position, NOBODY);
	tb_unsubscribe(reader->subscription);
	atomic_fetch_add(&reader->joins, 1);
}

static void *read_all(void *user)
{
	struct reader *reader = user;
	char address[32];
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = LATE_MS,
						       .poll_us = TB_POLL_SPIN };

	snprintf(address, sizeof(address), "%s:images", variant->scheme);
	if (tb_subscriber_open(&reader->subscriber, &options) < 0)
		complain(reader, "%s", tb_error());
	while (!reader->wrong[0] && !atomic_load(&over))
		join(reader);
	tb_subscriber_close(reader->subscriber);
	atomic_store(&reader->position, NOBODY);
	atomic_store(&reader->done, true);
	return NULL;
}

/* -- the writer ------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Whether the readers have met enough. Joins and torn copies come by chance. */
static bool enough(void)
{
	uint64_t torn = 0;
	bool joined = true;

	for (unsigned int i = 0; i < READERS; i++) {
		torn += atomic_load_explicit(&readers[i].torn, memory_order_relaxed);
		joined &=
			atomic_load_explicit(&readers[i].joins, memory_order_relaxed) >= JOINS_MIN;
	}
	return joined && torn >= TORN_MIN;
}

/* A reader that was lapped has no position below n - SLOTS, and is not waited for. */
static void keep_pace(uint64_t n)
{
	for (unsigned int i = 0; i < READERS; i++) {
		uint64_t at;

		if (!readers[i].paced)
			continue;
		while ((at = atomic_load_explicit(&readers[i].position, memory_order_relaxed)) !=
			       NOBODY &&
		       n > at + SLOTS / 2)
			sched_yield();
	}
}

static const char *write_all(uint64_t records)
{
	const bool batches = variant->flags & TB_TOPIC_MANUAL_FLUSH;
	uint64_t words[WORDS], until_ms = 0;

	for (uint64_t n = 1; n <= records || !enough(); n++) {
		const struct tb_update update = record_of(n, words);

		keep_pace(n);
		if (tb_publish(topic, &update) < 0)
			return tb_error();
		atomic_store_explicit(&written, n, memory_order_release);
		if (batches && n % 16 == 0)
			tb_flush(topic);
		if (n > records && until_ms == 0)
			until_ms = now_ms() + LATE_MS;
		if (n > records && n % 1024 == 0 && now_ms() > until_ms)
			return "found too few joins or torn copies";
		for (unsigned int i = 0; i < READERS; i++)
			if (atomic_load_explicit(&readers[i].done, memory_order_relaxed))
				return NULL; /* it says why */
	}
	return NULL;
}

static bool all_done(void)
{
	bool done = true;

	for (unsigned int i = 0; i < READERS; i++)
		done &= atomic_load(&readers[i].done);
	return done;
}

/* Further records complete the last images. */
static void write_rest(void)
{
	uint64_t words[WORDS], n = tb_topic_sequence(topic);
	struct tb_update update;

	atomic_store(&over, true);
	while (!all_done()) {
		update = record_of(++n, words);
		tb_publish(topic, &update);
		tb_flush(topic);
		usleep(100);
	}
}

static int topic_make(struct tb_publisher **publisher)
{
	static const char text[] = "name: x\nversion: 1\nfields:\n"
				   "- {name: x, type: \"u64[4]\", doc: d}\n";
	char address[32], name[16];
	const char *listen = address;
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "images",
						      .listen = &listen,
						      .listen_count = 1,
						      .stale_ms = LATE_MS,
						      .exit_wait_ms = UINT32_MAX };
	struct tb_topic_options how = { .size = sizeof(how),
					.name = "t",
					.slots = SLOTS,
					.instruments = NAMES,
					.flags = variant->flags };
	struct tb_schema *schema = NULL;
	int result;

	snprintf(address, sizeof(address), "%s:images", variant->scheme);
	result = tb_publisher_open(publisher, &options);
	if (result == 0)
		result = tb_schema_parse(&schema, text, strlen(text), "images");
	how.schema = schema;
	if (result == 0)
		result = tb_topic_create(*publisher, &how, &topic);
	tb_schema_free(schema);
	for (uint32_t i = 0; i < NAMES && result >= 0; i++) {
		snprintf(name, sizeof(name), "I%u", i);
		result = tb_instrument(topic, name);
	}
	return result;
}

/* -- a variant -------------------------------------------------------------------------------- */

static void reader_begin(unsigned int i, uint64_t seed)
{
	struct reader *reader = &readers[i];

	memset(reader, 0, sizeof(*reader));
	reader->random = seed + i;
	reader->paced = i < PACED;
	atomic_store(&reader->position, NOBODY);
	if (pthread_create(&reader->thread, NULL, read_all, reader))
		abort();
}

/* The first complaint, or NULL. */
static const char *run(uint64_t records, uint64_t seed)
{
	const char *wrong;

	atomic_store(&written, 0);
	atomic_store(&over, false);
	for (unsigned int i = 0; i < READERS; i++)
		reader_begin(i, seed);
	wrong = write_all(records);
	write_rest();
	for (unsigned int i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
	for (unsigned int i = 0; i < READERS; i++)
		if (readers[i].wrong[0])
			wrong = readers[i].wrong;
	return wrong;
}

static bool run_variant(unsigned int at, uint64_t records, uint64_t seed)
{
	struct tb_publisher *publisher = NULL;
	const char *wrong;

	variant = &variants[at];
	if (topic_make(&publisher) < 0)
		wrong = tb_error();
	else
		wrong = run(records * variant->share / 100, seed);
	printf("%sok %u - %s\n", wrong ? "not " : "", at + 1, variant->name);
	if (wrong)
		printf("# %s\n", wrong);
	for (unsigned int i = 0; i < READERS; i++)
		printf("# %s %6" PRIu64 " joins, %6" PRIu64 " completions, %8" PRIu64
		       " values, %6" PRIu64 " gaps, %6" PRIu64 " copies refused\n",
		       readers[i].paced ? "paced " : "lapped", atomic_load(&readers[i].joins),
		       readers[i].completes, readers[i].values, readers[i].gaps,
		       atomic_load(&readers[i].torn));
	printf("# %" PRIu64 " records\n", tb_topic_sequence(topic));
	fflush(stdout);
	tb_publisher_close(publisher);
	return wrong == NULL;
}

int main(int argc, char **argv)
{
	const uint64_t seed = random_seed();
	uint64_t records = 1000000;
	char folder[] = "/tmp/tickbus-images-XXXXXX", lock[64];
	bool good = true;

	if (argc == 3 && strcmp(argv[1], "--records") == 0)
		records = strtoull(argv[2], NULL, 0);
	if (!mkdtemp(folder) || setenv("TICKBUS_RUNTIME_DIR", folder, 1) < 0)
		return 1;
	printf("1..%zu\n", VARIANTS);
	bytewise_add(seed);
	for (unsigned int i = 0; i < VARIANTS; i++)
		good &= run_variant(i, records, seed);
	snprintf(lock, sizeof(lock), "%s/images.lock", folder);
	unlink(lock);
	rmdir(folder);
	return good ? 0 : 1;
}

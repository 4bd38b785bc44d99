/* SPDX-License-Identifier: Apache-2.0 */
/* A writer at full speed into a ring so small that it laps its readers, and a reader that checks
 * every byte. Every byte of a record follows from its sequence.
 *
 *   torn publish SLOT_BYTES ADDRESS...
 *   torn read READ_BYTES BATCH_BYTES READS ADDRESS...
 *
 * The writer ends with SIGTERM. It sends no notices, so that it only writes. The reader ends after
 * READS completed READs of records, or when it has a wrong record over each address. It prints its
 * account as a line of JSON for each address. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lab/seen.h"
#include "tickbus/counters.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define RING_BYTES    (1 << 20)
#define HEADER        32
#define WORDS_MAX     ((4096 - HEADER) / 8)
#define COUNTS_MAX    64
#define ADDRESSES_MAX 8

struct account {
	uint64_t next; /* the sequence that must come next; 0: not known yet */
	uint64_t records, wrong, lost, astray;
};

/* A subscriber over an address. */
struct reader {
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	struct account account;
	struct seen seen;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static int fail(const char *what)
{
	fprintf(stderr, "torn: %s: %s\n", what, tb_error());
	return 1;
}

/* Adjacent words of a slot differ in every byte, and so do two records of the same slot. */
static uint64_t word_of(uint64_t sequence, unsigned int index)
{
	uint64_t x = sequence * UINT64_C(0x9e3779b97f4a7c15) + index;

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static int topic_open(struct tb_publisher *publisher, unsigned int words, struct tb_topic **topic)
{
	char text[128];
	struct tb_schema *schema = NULL;
	struct tb_topic_options how = { .size = sizeof(how), .name = "torn", .instruments = 1 };
	int result;

	snprintf(text, sizeof(text),
		 "name: torn\nversion: 1\nfields:\n- {name: w, type: 'u64[%u]', doc: d}\n", words);
	result = tb_schema_parse(&schema, text, strlen(text), "torn");
	how.schema = schema;
	how.slots = RING_BYTES / (HEADER + words * 8);
	if (result == 0)
		result = tb_topic_create(publisher, &how, topic);
	tb_schema_free(schema);
	return result;
}

static int publish(unsigned int words, char **addresses, int count)
{
	const char *listen[ADDRESSES_MAX];
	struct tb_publisher_options bus = { .size = sizeof(bus),
					    .name = "torn",
					    .notice = TB_NOTICE_NONE };
	struct tb_publisher *publisher = NULL;
	struct tb_topic *topic;
	uint64_t payload[WORDS_MAX];
	int result;

	for (int i = 0; i < count; i++)
		listen[i] = addresses[i];
	bus.listen = listen;
	bus.listen_count = (size_t)count;
	result = tb_publisher_open(&publisher, &bus);
	if (result == 0)
		result = topic_open(publisher, words, &topic);
	if (result == 0)
		result = tb_instrument(topic, "X");
	if (result < 0) {
		tb_publisher_close(publisher);
		return fail("publish");
	}
	puts("publishing");
	fflush(stdout);
	for (uint64_t sequence = 1; !stopped && result >= 0; sequence++) {
		const struct tb_update update = { .size = sizeof(update),
						  .kind = TB_KIND_UPDATE,
						  .length = (uint16_t)(words * 8),
						  .time_ns = word_of(sequence, WORDS_MAX),
						  .data = payload };

		for (unsigned int i = 0; i < words; i++)
			payload[i] = word_of(sequence, i);
		result = tb_publish(topic, &update);
	}
	printf("%" PRIu64 " records\n", tb_topic_sequence(topic));
	tb_publisher_close(publisher);
	return result < 0 ? fail("publish") : 0;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct account *account = user;
	const uint64_t *payload = record->data;
	bool right = record->time_ns == word_of(record->sequence, WORDS_MAX) &&
		     record->instrument == 0 && record->kind == TB_KIND_UPDATE &&
		     record->length == tb_schema_bytes(tb_source_schema(source));

	for (unsigned int i = 0; right && i < record->length / 8; i++)
		right = payload[i] == word_of(record->sequence, i);
	account->records++;
	account->wrong += !right;
	account->astray += record->sequence != account->next;
	account->next = record->sequence + 1;
}

static void on_event(void *user, const struct tb_event *event)
{
	struct account *account = user;

	if (event->kind == TB_EVENT_APPEARED)
		account->next = event->first;
	if (event->kind != TB_EVENT_GAP)
		return;
	account->astray += event->first != account->next || event->last < event->first;
	account->lost += event->last - event->first + 1;
	account->next = event->last + 1;
}

static uint64_t counter(const struct tb_subscription *subscription, const char *name)
{
	uint64_t values[COUNTS_MAX];
	size_t count;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);
	const size_t filled = tb_subscription_counters(subscription, values, COUNTS_MAX);

	for (size_t i = 0; i < count && i < filled; i++)
		if (strcmp(table[i].name, name) == 0)
			return values[i];
	fprintf(stderr, "torn: no counter %s\n", name);
	exit(1);
}

static int reader_open(struct reader *reader, char **sizes, const char *address)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = address,
						   .read_bytes = (uint32_t)atoi(sizes[0]),
						   .batch_bytes = (uint32_t)atoi(sizes[1]),
						   .flags = TB_WAIT };
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record,
						      .on_event = on_event,
						      .user = &reader->account,
						      .flags = TB_WAIT };
	int result = tb_subscriber_open(&reader->subscriber, &how);

	if (result == 0)
		result = tb_subscribe(reader->subscriber, "torn", &what, &reader->subscription);
	return result;
}

static void reader_print(const struct reader *reader)
{
	static const char *const shown[] = { "torn", "lost_corrupt" };
	const struct account *account = &reader->account;

	printf("{\"reads\":%" PRIu64 ",\"records\":%" PRIu64 ",\"wrong\":%" PRIu64
	       ",\"lost\":%" PRIu64 ",\"astray\":%" PRIu64 ",\"mixed\":%" PRIu64,
	       reader->seen.reads, account->records, account->wrong, account->lost, account->astray,
	       reader->seen.mixed);
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		printf(",\"%s\":%" PRIu64, shown[i], counter(reader->subscription, shown[i]));
	puts("}");
}

static bool over(const struct reader *readers, int count, uint64_t reads_max)
{
	uint64_t reads = 0;
	int wrong = 0;

	for (int i = 0; i < count; i++) {
		reads += readers[i].seen.reads;
		wrong += readers[i].account.wrong > 0;
	}
	return stopped || reads >= reads_max || wrong == count;
}

static int read_on(char **sizes, uint64_t reads, char **addresses, int count)
{
	struct reader readers[ADDRESSES_MAX] = { 0 };
	int result = 0;

	for (int i = 0; i < count && result >= 0; i++)
		result = reader_open(&readers[i], sizes, addresses[i]);
	while (result >= 0 && !over(readers, count, reads))
		for (int i = 0; i < count && result >= 0; i++) {
			seen = &readers[i].seen;
			result = tb_poll(readers[i].subscriber, 4096);
		}
	if (result < 0)
		fail("read");
	for (int i = 0; i < count; i++) {
		if (result >= 0)
			reader_print(&readers[i]);
		tb_subscriber_close(readers[i].subscriber);
	}
	return result < 0;
}

static int usage(void)
{
	fputs("usage: torn publish SLOT_BYTES ADDRESS... |\n"
	      "            read READ_BYTES BATCH_BYTES READS ADDRESS...\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	unsigned long bytes;

	signal(SIGTERM, on_signal);
	if (argc > 5 && argc <= 5 + ADDRESSES_MAX && strcmp(argv[1], "read") == 0)
		return read_on(argv + 2, strtoull(argv[4], NULL, 10), argv + 5, argc - 5);
	if (argc <= 3 || argc > 3 + ADDRESSES_MAX || strcmp(argv[1], "publish") != 0)
		return usage();
	bytes = strtoul(argv[2], NULL, 10);
	if (bytes < 64 || bytes > 4096 || bytes & (bytes - 1))
		return usage();
	return publish((unsigned int)(bytes - HEADER) / 8, argv + 3, argc - 3);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-images: what an image over shared memory costs. Prints a line of JSON.
 *
 *   tickbus-bench-images INSTRUMENTS ROUNDS
 *
 * Each round has these processor times of the reading thread, in us:
 *
 * - bare: the yardstick. As many values and directory entries in a memfd that was just mapped: each
 *   is copied and hashed, and the names are kept.
 * - image: from the begin of an image until its completion, while no records flow.
 * - alone: a backlog of records is read.
 * - beside: the same while an image is made. `values` came meanwhile.
 *
 * The publisher is a process of its own, on the second core. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bus/hash.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define SLOT_BYTES    64
#define ENTRY_BYTES   32 /* of the directory */
#define PAYLOAD_BYTES 32
#define RING          65536
#define BACKLOG       (RING / 2)
#define POLL_RECORDS  1024

/* The thread's own: the times of others on its processor do not count. */
static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

/* -- the publisher's process ------------------------------------------------------------------ */

static struct tb_topic *bus_open(unsigned int instruments, struct tb_publisher **publisher)
{
	static const char text[] = "name: bench\nversion: 1\n"
				   "fields:\n- {name: words, type: \"u64[4]\", doc: words}\n";
	const struct tb_publisher_options bus = { .size = sizeof(bus),
						  .name = "bench-images",
						  .exit_wait_ms = UINT32_MAX };
	struct tb_topic_options how = {
		.size = sizeof(how), .name = "t", .slots = RING, .instruments = instruments
	};
	struct tb_schema *schema;
	struct tb_topic *topic;

	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	expect(tb_publisher_open(publisher, &bus), "publisher");
	how.schema = schema;
	expect(tb_topic_create(*publisher, &how, &topic), "topic");
	tb_schema_free(schema);
	return topic;
}

static void publish(struct tb_topic *topic, unsigned int instruments, unsigned int count)
{
	const uint64_t words[PAYLOAD_BYTES / 8] = { 1, 2, 3, 4 };
	struct tb_update update = { .size = sizeof(update),
				    .kind = TB_KIND_UPDATE,
				    .length = sizeof(words),
				    .data = words };

	for (unsigned int i = 0; i < count; i++) {
		update.instrument = instruments - 1 - i % instruments;
		expect(tb_publish(topic, &update), "publish");
	}
	expect(tb_flush(topic), "flush");
}

/* Publishes a backlog for each byte that comes, of the last instruments: the image begins with the
 * first. Ends with its parent. */
static _Noreturn void publisher_main(int orders, unsigned int instruments)
{
	struct tb_publisher *publisher;
	struct tb_topic *topic;
	char name[16], order = 'o';

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	machine_pin(1);
	topic = bus_open(instruments, &publisher);
	for (unsigned int i = 0; i < instruments; i++) {
		snprintf(name, sizeof(name), "I%u", i);
		expect(tb_instrument(topic, name), "instrument");
	}
	publish(topic, instruments, instruments);
	while (write(orders, &order, 1) == 1 && read(orders, &order, 1) == 1)
		publish(topic, instruments, BACKLOG);
	tb_publisher_close(publisher);
	_exit(0);
}

static int publisher_start(unsigned int instruments, pid_t *child)
{
	int sockets[2];
	char opened;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		machine_fail("socketpair: %s", strerror(errno));
	*child = fork();
	if (*child < 0)
		machine_fail("fork: %s", strerror(errno));
	if (*child == 0) {
		close(sockets[0]);
		publisher_main(sockets[1], instruments);
	}
	close(sockets[1]);
	if (read(sockets[0], &opened, 1) != 1)
		machine_fail("the publisher ended before it was ready");
	return sockets[0];
}

static void backlog_make(int orders)
{
	char done = 'b';

	if (write(orders, &done, 1) != 1 || read(orders, &done, 1) != 1)
		machine_fail("the publisher ended");
}

/* -- the yardstick ---------------------------------------------------------------------------- */

static int memfd_make(size_t bytes)
{
	const int fd = memfd_create("bench", MFD_CLOEXEC);
	char *base;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		machine_fail("memfd: %s", strerror(errno));
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		machine_fail("mmap: %s", strerror(errno));
	for (size_t i = 0; i < bytes; i++)
		base[i] = (char)i;
	munmap(base, bytes);
	return fd;
}

static uint64_t hashed(const char *from, size_t bytes, char *copy)
{
	memcpy(copy, from, bytes);
	__asm__ volatile("" ::: "memory"); /* the copy is hashed, not the original */
	return XXH3_64bits(copy, bytes);
}

/* Mapping and unmapping are not counted; page faults are. */
static double bare_take(int fd, unsigned int instruments)
{
	const size_t bytes = (size_t)instruments * (SLOT_BYTES + ENTRY_BYTES);
	char *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0), copy[SLOT_BYTES];
	char *names = calloc(instruments, ENTRY_BYTES);
	const char *directory;
	volatile uint64_t sink = 0;
	double from, us;

	if (base == MAP_FAILED || !names)
		machine_fail("no memory");
	directory = base + (size_t)instruments * SLOT_BYTES;
	from = now_us();
	for (size_t i = 0; i < instruments; i++) {
		sink ^= hashed(base + i * SLOT_BYTES, SLOT_BYTES, copy);
		sink ^= hashed(directory + i * ENTRY_BYTES, ENTRY_BYTES, names + i * ENTRY_BYTES);
	}
	us = now_us() - from;
	munmap(base, bytes);
	free(names);
	return us;
}

/* -- the subscriber's process ----------------------------------------------------------------- */

static struct {
	uint64_t records, values;
	double begun_us, complete_us;
	bool appeared, complete;
} seen;

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	if (record->flags & TB_FLAG_IMAGE)
		seen.values++;
	else
		seen.records++;
}

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	if (event->kind == TB_EVENT_APPEARED) {
		seen.appeared = true;
	} else if (event->kind == TB_EVENT_IMAGE) {
		seen.begun_us = now_us();
	} else if (event->kind == TB_EVENT_COMPLETE) {
		seen.complete_us = now_us();
		seen.complete = true;
	} else if (event->kind == TB_EVENT_GAP || event->kind == TB_EVENT_NO_VALUE) {
		machine_fail("found event %d, expected records and an image", (int)event->kind);
	}
}

static struct tb_subscriber *subscriber_open(void)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:bench-images",
						   .connect_ms = 60000 };
	struct tb_subscriber *subscriber;

	expect(tb_subscriber_open(&subscriber, &how), "subscriber");
	return subscriber;
}

static struct tb_subscription *subscribe(struct tb_subscriber *subscriber, enum tb_from from)
{
	const struct tb_subscription_options how = {
		.size = sizeof(how), .on_record = on_record, .on_event = on_event, .from = from
	};
	struct tb_subscription *subscription;

	memset(&seen, 0, sizeof(seen));
	expect(tb_subscribe(subscriber, "t", &how, &subscription), "subscribe");
	return subscription;
}

static void poll(struct tb_subscriber *subscriber)
{
	expect(tb_poll(subscriber, POLL_RECORDS), "poll");
}

static void image_take(struct tb_subscriber *subscriber, unsigned int instruments)
{
	struct tb_subscription *subscription = subscribe(subscriber, TB_FROM_IMAGE);

	while (!seen.complete)
		poll(subscriber);
	if (seen.values != instruments)
		machine_fail("found %llu values, expected %u", (unsigned long long)seen.values,
			     instruments);
	printf("\"image\": %.1f", seen.complete_us - seen.begun_us);
	tb_unsubscribe(subscription);
}

/* us until the backlog is read. */
static double backlog_take(struct tb_subscriber *subscriber, int orders, enum tb_from from)
{
	struct tb_subscription *subscription = subscribe(subscriber, from);
	double begun, us;

	while (!seen.appeared)
		expect(tb_poll(subscriber, 1), "poll");
	backlog_make(orders);
	seen.values = 0;
	begun = now_us();
	while (seen.records < BACKLOG)
		poll(subscriber);
	us = now_us() - begun;
	tb_unsubscribe(subscription);
	return us;
}

static void images(unsigned int instruments, unsigned int rounds)
{
	const int fd = memfd_make((size_t)instruments * (SLOT_BYTES + ENTRY_BYTES));
	pid_t child;
	const int orders = publisher_start(instruments, &child);
	struct tb_subscriber *subscriber;

	machine_pin(0);
	subscriber = subscriber_open();
	printf("{\"rounds\": [");
	for (unsigned int i = 0; i < rounds; i++) {
		printf("%s{\"bare\": %.1f, ", i ? ", " : "", bare_take(fd, instruments));
		image_take(subscriber, instruments);
		printf(", \"alone\": %.1f", backlog_take(subscriber, orders, TB_FROM_NEWEST));
		printf(", \"beside\": %.1f", backlog_take(subscriber, orders, TB_FROM_IMAGE));
		printf(", \"values\": %llu, \"bare_after\": %.1f}", (unsigned long long)seen.values,
		       bare_take(fd, instruments));
	}
	printf("]}\n");
	tb_subscriber_close(subscriber);
	close(orders);
	waitpid(child, NULL, 0);
}

static unsigned int number(const char *text, unsigned int least, unsigned int most)
{
	char *end;
	const unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value < least || value > most)
		machine_fail("found %s, expected a number from %u to %u", text, least, most);
	return (unsigned int)value;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		machine_fail("expected INSTRUMENTS ROUNDS");
	images(number(argv[1], 1000, 1000000), number(argv[2], 1, 1000));
	return 0;
}

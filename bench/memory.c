/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-memory: the resident memory that topics cost. Prints a line of JSON.
 *
 *   tickbus-bench-memory TOPICS NAMES USED
 *
 * A publisher has TOPICS topics, each with room for NAMES names. USED of these are added and have a
 * value. A subscriber in another process has joined all topics, begun with an image and looked a
 * name up. Then the publisher is opened again, and the subscriber does the same once more: memory
 * that was freed may be used otherwise than new memory. Printed are the KiB that each topic adds to
 * a process, in the end. `private` are its own, `shared` are pages of the topics' memory that it
 * has touched. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define SLOTS 64

static unsigned int topics, names, used;

struct resident {
	double private, shared; /* KiB */
};

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

static struct resident resident(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	struct resident found = { 0 };
	char line[256];

	if (!file)
		machine_fail("cannot read /proc/self/status");
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "RssAnon: %lf", &found.private);
		sscanf(line, "RssShmem: %lf", &found.shared);
	}
	fclose(file);
	return found;
}

static void print(const char *who, struct resident before, const char *end)
{
	const struct resident now = resident();

	printf("\"%s\": {\"private\": %.1f, \"shared\": %.1f}%s", who,
	       (now.private - before.private) / topics, (now.shared - before.shared) / topics, end);
}

static void topic_fill(struct tb_topic *topic)
{
	const uint64_t word = 1;
	struct tb_update update = { .size = sizeof(update),
				    .kind = TB_KIND_UPDATE,
				    .length = sizeof(word),
				    .data = &word };
	char name[32];

	for (unsigned int i = 0; i < used; i++) {
		snprintf(name, sizeof(name), "NAME%u", i);
		update.instrument = (uint32_t)tb_instrument(topic, name);
		expect((int)update.instrument, "instrument");
		expect(tb_publish(topic, &update), "publish");
	}
	expect(tb_flush(topic), "flush");
}

static struct tb_publisher *bus_open(void)
{
	static const char text[] = "name: bench\nversion: 1\n"
				   "fields:\n- {name: word, type: u64, doc: word}\n";
	const struct tb_publisher_options bus = { .size = sizeof(bus),
						  .name = "bench-memory",
						  .topics_max = topics,
						  .exit_wait_ms = UINT32_MAX };
	struct tb_topic_options how = { .size = sizeof(how), .slots = SLOTS, .instruments = names };
	struct tb_schema *schema;
	struct tb_publisher *publisher;
	struct tb_topic *topic;
	char name[32];

	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	how.schema = schema;
	expect(tb_publisher_open(&publisher, &bus), "publisher");
	for (unsigned int i = 0; i < topics; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		how.name = name;
		expect(tb_topic_create(publisher, &how, &topic), "topic");
		topic_fill(topic);
	}
	tb_schema_free(schema);
	return publisher;
}

static unsigned int completes;

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	if (event->kind != TB_EVENT_COMPLETE)
		return;
	completes++;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
}

/* Until `count` images are complete. */
static void read_to(struct tb_subscriber *subscriber, unsigned int count)
{
	while (completes < count) {
		const int found = tb_poll(subscriber, 4096);

		expect(found, "poll");
		if (found == 0)
			expect(tb_wait(subscriber, 100), "wait");
	}
}

static void names_look_up(struct tb_subscription *subscription)
{
	char name[32];

	for (unsigned int i = 0; i < topics; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		expect(tb_source_instrument(tb_subscription_source(subscription, name), "NAME0"),
		       "instrument");
	}
}

static void read_all(int done)
{
	const struct tb_subscriber_options bus = { .size = sizeof(bus),
						   .address = "shm:bench-memory",
						   .topics_max = topics };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = on_record,
						     .on_event = on_event,
						     .from = TB_FROM_IMAGE };
	struct tb_subscription *subscription;
	struct tb_subscriber *subscriber;
	struct resident before;

	expect(tb_subscriber_open(&subscriber, &bus), "subscriber");
	before = resident();
	expect(tb_subscribe(subscriber, ">", &how, &subscription), "subscribe");
	read_to(subscriber, topics);
	names_look_up(subscription);
	if (write(done, "", 1) != 1)
		machine_fail("the publisher failed");
	read_to(subscriber, 2 * topics);
	names_look_up(subscription);
	print("subscriber", before, "}\n");
	tb_subscriber_close(subscriber);
}

int main(int argc, char **argv)
{
	struct tb_publisher *publisher;
	struct resident before;
	int ready[2], done[2], status;
	char byte = 0;
	pid_t child;

	if (argc != 4)
		machine_fail("usage: %s TOPICS NAMES USED", argv[0]);
	topics = (unsigned int)strtoul(argv[1], NULL, 10);
	names = (unsigned int)strtoul(argv[2], NULL, 10);
	used = (unsigned int)strtoul(argv[3], NULL, 10);
	if (topics == 0 || used == 0 || used > names || pipe(ready) < 0 || pipe(done) < 0)
		machine_fail("%s: wrong arguments", argv[0]);
	printf("{");
	fflush(stdout);
	child = fork(); /* before the library has threads */
	if (child < 0)
		machine_fail("cannot start a subscriber");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(ready[0], &byte, 1) == 1)
			read_all(done[1]);
		exit(0);
	}
	close(done[1]);
	before = resident();
	publisher = bus_open();
	if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1)
		machine_fail("the subscriber failed");
	tb_publisher_close(publisher);
	publisher = bus_open();
	print("publisher", before, ", ");
	fflush(stdout);
	if (wait(&status) < 0 || status != 0)
		machine_fail("the subscriber failed");
	tb_publisher_close(publisher);
	return 0;
}

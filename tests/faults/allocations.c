/* SPDX-License-Identifier: Apache-2.0 */
/* allocations FABRIC|fault
 *
 * fault: shm, and the subscriber has faults on purpose.
 *
 * Resources run out during open, subscribe and join. Each allocation fails once, then all from
 * there on, then each descriptor. Every failure is an error with a message, nothing leaks, and the
 * next attempt works. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "config/settings.h"
#include "tests/faults/scarce.h"
#include "tests/support/bytewise.h"
#include "tests/support/random.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define ATTEMPTS_MAX 20000
#define DEADLINE_S   20

/* -- attempts -----------------------------------------------------------------------------------
 */

static const char schema_text[] = "name: pair\n"
				  "version: 1\n"
				  "fields:\n"
				  "  - { name: x, type: u64, doc: One. }\n"
				  "  - name: more\n"
				  "    type: group[2]\n"
				  "    doc: Two.\n"
				  "    fields:\n"
				  "      - { name: y, type: u64, doc: Another. }\n";

static char folder[] = "/tmp/tickbus-allocations-XXXXXX";
static char settings_path[64];
static FILE *nowhere;
static char own_address[32], standing_address[32], dialled_address[96];
static struct tb_publisher *standing; /* for attempts to subscribe */

static int settings_attempt(void)
{
	struct settings *settings;
	int result = settings_load(&settings, settings_path, nowhere);

	if (result == 0)
		settings_free(settings);
	return result;
}

static int schema_attempt(void)
{
	struct tb_schema *schema;
	int result = tb_schema_parse(&schema, schema_text, strlen(schema_text), "text");

	tb_schema_free(schema);
	return result;
}

static int publish(struct tb_publisher *publisher, const struct tb_schema *schema)
{
	const struct tb_group_options group_options = { .size = sizeof(group_options),
							.name = "g" };
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = "t.pair",
					    .schema = schema,
					    .slots = 64,
					    .instruments = 16 };
	const uint64_t pair[3] = { 1, 2, 3 };
	struct tb_update update = {
		.size = sizeof(update), .kind = TB_KIND_UPDATE, .length = sizeof(pair), .data = pair
	};
	struct tb_topic *topic;
	int result = tb_group_create(publisher, &group_options, &options.group), instrument;

	if (result == 0)
		result = tb_topic_create(publisher, &options, &topic);
	if (result < 0)
		return result;
	instrument = tb_instrument(topic, "A");
	if (instrument < 0)
		return instrument;
	update.instrument = (uint32_t)instrument;
	for (int i = 0; i < 5 && result == 0; i++) {
		tb_group_message(options.group);
		result = tb_publish(topic, &update);
	}
	tb_group_flush(options.group);
	return result;
}

/* A publisher with one topic of a group, and five records in it. */
static int publisher_make(const char *name, const char *address, struct tb_publisher **publisher)
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = name,
						      .listen = &address,
						      .listen_count = 1,
						      .exit_wait_ms = UINT32_MAX };
	struct tb_schema *schema;
	int result = tb_schema_parse(&schema, schema_text, strlen(schema_text), "text");

	if (result == 0)
		result = tb_publisher_open(publisher, &options);
	if (result == 0) {
		result = publish(*publisher, schema);
		if (result < 0) {
			tb_publisher_close(*publisher);
			*publisher = NULL;
		}
	}
	tb_schema_free(schema);
	return result;
}

static int publisher_attempt(void)
{
	struct tb_publisher *publisher = NULL;
	int result = publisher_make("own", own_address, &publisher);

	tb_publisher_close(publisher);
	return result;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)source;
	(void)record;
	++*(int *)user;
}

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	(void)event;
}

static void on_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	(void)source;
	*(int *)user += (int)batch->count;
}

/* Until so many records came. */
static int subscribe_with(struct tb_subscription_options what, int expected)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = dialled_address,
						   .connect_ms = 20000 };
	const time_t until = time(NULL) + DEADLINE_S;
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	int records = 0, result = tb_subscriber_open(&subscriber, &how);

	what.size = sizeof(what);
	what.on_event = on_event;
	what.user = &records;
	if (result == 0)
		result = tb_subscribe(subscriber, "t.pair", &what, &subscription);
	while (result >= 0 && records < expected)
		result = time(NULL) > until ? -ETIMEDOUT : tb_poll(subscriber, 100);
	tb_subscriber_close(subscriber);
	return result < 0 ? result : 0;
}

static int subscriber_attempt(void)
{
	return subscribe_with(
		(struct tb_subscription_options){ .on_record = on_record, .from = TB_FROM_OLDEST },
		5);
}

static int batches_attempt(void)
{
	return subscribe_with(
		(struct tb_subscription_options){ .on_batch = on_batch, .from = TB_FROM_OLDEST },
		5);
}

static const char *const names[] = { "A", "B*" };

static int merge_attempt(void)
{
	return subscribe_with((struct tb_subscription_options){ .on_record = on_record,
								.from = TB_FROM_IMAGE,
								.flags = TB_MERGE,
								.names = names,
								.name_count = 2 },
			      1);
}

static int watch_attempt(void)
{
	return subscribe_with((struct tb_subscription_options){ .on_record = on_record,
								.flags = TB_WATCH,
								.names = names,
								.name_count = 2 },
			      1);
}

static int conflate_attempt(void)
{
	static const char *const exempt[] = { "other" };

	return subscribe_with((struct tb_subscription_options){ .on_record = on_record,
								.from = TB_FROM_OLDEST,
								.conflate_us = TB_CONFLATE_POLL,
								.exempt_topics = exempt,
								.exempt_topic_count = 1 },
			      1);
}

/* -- what must hold -----------------------------------------------------------------------------
 */

struct attempt {
	const char *name;
	int (*run)(void);
	bool only_enomem; /* the only error for lack of memory is -ENOMEM */
};

/* An attempt may also succeed without the memory: libc can read a file without a buffer. */
static void fail_allocations(const struct attempt *attempt, bool all_after)
{
	const char *how = all_after ? "all allocations from" : "allocation";
	struct held before = held_now();
	long errors = 0;
	int result;
	bool failed;

	for (long number = 0; number < ATTEMPTS_MAX; number++) {
		scarce_from(number, all_after);
		result = attempt->run();
		scarce_no_more();
		failed = scarce_failures() > 0;
		held_as_before(&before, attempt->name, how, number);
		if (!failed && result == 0) {
			printf("%s: %ld errors of %ld failed %s\n", attempt->name, errors, number,
			       all_after ? "with all that follow" : "one at a time");
			if (errors == 0)
				wrong(attempt->name, how, number);
			return;
		}
		errors += result < 0;
		if (!failed)
			wrong(attempt->name, "found an error without a failed allocation,", number);
		if (result < 0 && attempt->only_enomem && result != -ENOMEM)
			wrong(attempt->name, "expected -ENOMEM, allocation", number);
		if (result < 0 && !*tb_error())
			wrong(attempt->name, "found no error message, allocation", number);
	}
	wrong(attempt->name, "fails at any allocation, up to", ATTEMPTS_MAX);
}

/* Raises the limit of descriptors until the attempt works. */
static void fail_descriptors(const struct attempt *attempt)
{
	struct held before = held_now();
	struct rlimit whole, limit;
	int result = -1;

	getrlimit(RLIMIT_NOFILE, &whole);
	limit = whole;
	for (long number = 0; result < 0; number++) {
		limit.rlim_cur = 3 + (rlim_t)number;
		setrlimit(RLIMIT_NOFILE, &limit);
		result = attempt->run();
		setrlimit(RLIMIT_NOFILE, &whole);
		held_as_before(&before, attempt->name, "limit of descriptors", number);
		if (result == 0)
			printf("%s: %ld times too few descriptors\n", attempt->name, number);
		else if (number > ATTEMPTS_MAX || !*tb_error() ||
			 (result != -EMFILE && result != -ENOMEM && result != -EAGAIN))
			wrong(attempt->name, "limit of descriptors", number);
	}
}

/* -- running ------------------------------------------------------------------------------------
 */

static void begin(const char *fabric)
{
	static const char text[] =
		"bus: { name: b, listen: [ \"shm:\" ] }\n"
		"schemas: [ quote, trade ]\n"
		"feeds: [ { name: f, type: synthetic, messages: 10 } ]\n"
		"topics: [ { name: t, feed: f, select: quote, schema: quote } ]\n";
	const char *faults = "";
	FILE *file;

	scarce_mine();
	bytewise_add(random_seed());
	if (strcmp(fabric, "fault") == 0) {
		faults = "fault:seed=1,tear=0.1,freeze=0.1/";
		fabric = "shm";
	}
	snprintf(own_address, sizeof(own_address), "%s:own", fabric);
	snprintf(standing_address, sizeof(standing_address), "%s:standing", fabric);
	snprintf(dialled_address, sizeof(dialled_address), "%s%s", faults, standing_address);
	nowhere = fopen("/dev/null", "w");
	if (!nowhere || setvbuf(nowhere, NULL, _IONBF, 0) != 0 || !mkdtemp(folder))
		exit(1);
	setenv("TICKBUS_RUNTIME_DIR", folder, 1);
	snprintf(settings_path, sizeof(settings_path), "%s/pubd.yaml", folder);
	file = fopen(settings_path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		exit(1);
}

static void end(void)
{
	fclose(nowhere);
	unlink(settings_path);
	rmdir(folder);
}

static void others_fail(const struct attempt *attempt)
{
	scarce_others();
	fail_allocations(attempt, false);
	scarce_mine();
}

int main(int argc, char **argv)
{
	static const struct attempt settings = { "settings", settings_attempt, false };
	static const struct attempt schema = { "schema", schema_attempt, true };
	static const struct attempt publisher = { "publisher", publisher_attempt, true };
	static const struct attempt subscriber = { "subscriber", subscriber_attempt, true };
	static const struct attempt served = { "subscriber, served without memory",
					       subscriber_attempt, false };
	static const struct attempt batches = { "subscriber of batches", batches_attempt, true };
	static const struct attempt merge = { "merge", merge_attempt, true };
	static const struct attempt watch = { "watch list", watch_attempt, true };
	static const struct attempt conflation = { "conflation", conflate_attempt, true };
	static const struct attempt *const all[] = { &settings, &schema, &publisher, &subscriber,
						     &batches,  &merge,  &watch,     &conflation };

	if (argc != 2)
		return 2;
	begin(argv[1]);
	if (publisher_make("standing", standing_address, &standing) < 0)
		wrong("standing publisher", "attempt", 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->run() < 0) /* once first, as libc keeps some memory */
			wrong(all[i]->name, "attempt", 0);
		fail_allocations(all[i], false);
		fail_allocations(all[i], true);
	}
	others_fail(&served);
	fail_descriptors(&publisher);
	fail_descriptors(&subscriber);
	tb_publisher_close(standing);
	end();
	return 0;
}

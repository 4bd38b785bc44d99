/* SPDX-License-Identifier: Apache-2.0 */
/* Every single allocation of open, subscribe and join fails once, then from there on all of them;
 * then every descriptor: an error with words comes back, nothing leaks, and the next attempt works.
 *
 * The program brings its own malloc over that of libc, so the allocations of the libraries below us
 * are in it too. It counts what is live in the whole process. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "config/settings.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define NEVER        (-1)
#define ATTEMPTS_MAX 20000
#define DEADLINE_S   10

/* -- an allocator that fails when it is told to -------------------------------------------------
 */

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static _Atomic long live;
static _Atomic long countdown = NEVER; /* allocations until one fails */
static bool for_good;                  /* and all after it */
static _Atomic bool failed;
static bool of_others; /* the library's own thread, instead of ours */
static pthread_t ours;

/* The libraries below us use them too. */
#define OPEN __attribute__((visibility("default")))

static bool may_have(void)
{
	long left;

	if (atomic_load(&countdown) == NEVER || (pthread_self() == ours) == of_others)
		return true;
	left = atomic_load(&countdown);
	if (left > 0) {
		atomic_store(&countdown, left - 1);
		return true;
	}
	if (!for_good)
		atomic_store(&countdown, NEVER);
	atomic_store(&failed, true);
	errno = ENOMEM;
	return false;
}

static void *count_in(void *memory)
{
	if (memory)
		atomic_fetch_add(&live, 1);
	return memory;
}

OPEN void *malloc(size_t size)
{
	return may_have() ? count_in(__libc_malloc(size)) : NULL;
}

OPEN void *calloc(size_t count, size_t size)
{
	return may_have() ? count_in(__libc_calloc(count, size)) : NULL;
}

OPEN void *realloc(void *old, size_t size)
{
	if (!old)
		return malloc(size);
	return may_have() ? __libc_realloc(old, size) : NULL;
}

OPEN void *aligned_alloc(size_t alignment, size_t size)
{
	return may_have() ? count_in(__libc_memalign(alignment, size)) : NULL;
}

OPEN void free(void *memory)
{
	if (memory)
		atomic_fetch_sub(&live, 1);
	__libc_free(memory);
}

/* -- what is attempted --------------------------------------------------------------------------
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
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "t.pair",
						  .schema = schema,
						  .slots = 64,
						  .instruments = 16 };
	const uint64_t pair[3] = { 1, 2, 3 };
	struct tb_update update = {
		.size = sizeof(update), .kind = TB_KIND_UPDATE, .length = sizeof(pair), .data = pair
	};
	struct tb_topic *topic;
	int result = tb_topic_create(publisher, &options, &topic), instrument;

	if (result < 0)
		return result;
	instrument = tb_instrument(topic, "A");
	if (instrument < 0)
		return instrument;
	update.instrument = (uint32_t)instrument;
	for (int i = 0; i < 5 && result == 0; i++)
		result = tb_publish(topic, &update);
	return result;
}

/* A publisher with one topic and five records in it. */
static int publisher_make(const char *name, struct tb_publisher **publisher)
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = name,
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
	int result = publisher_make("own", &publisher);

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

static int subscriber_attempt(void)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:standing",
						   .connect_ms = 20000 };
	struct tb_subscription_options what = { .size = sizeof(what),
						.on_record = on_record,
						.on_event = on_event,
						.from = TB_FROM_OLDEST };
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	int records = 0, result = tb_subscriber_open(&subscriber, &how);

	what.user = &records;
	if (result == 0)
		result = tb_subscribe(subscriber, "t.pair", &what, &subscription);
	while (result >= 0 && records < 5)
		result = tb_poll(subscriber, 100);
	tb_subscriber_close(subscriber);
	return result < 0 ? result : 0;
}

/* -- what must hold -----------------------------------------------------------------------------
 */

struct held {
	long allocations;
	int descriptors, mappings;
};

/* Mappings of memory that is handed over, not those that libc keeps for threads. */
static int mappings(void)
{
	char line[512];
	int count = 0;
	FILE *file = fopen("/proc/self/maps", "r");

	while (file && fgets(line, sizeof(line), file))
		count += strstr(line, "memfd:") != NULL;
	if (file)
		fclose(file);
	return count;
}

static int descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	int count = 0;

	while (list && readdir(list))
		count++;
	if (list)
		closedir(list);
	return count;
}

static struct held held_now(void)
{
	const int open_now = descriptors(), mapped = mappings();

	return (struct held){ atomic_load(&live), open_now, mapped };
}

__attribute__((noreturn)) static void wrong(const char *what, const char *how, long number)
{
	fprintf(stderr, "%s, %s number %ld: %s\n", what, how, number, tb_error());
	exit(1);
}

static bool same(const struct held *before, const struct held *now)
{
	return now->allocations == before->allocations && now->descriptors == before->descriptors &&
	       now->mappings == before->mappings;
}

/* The standing publisher frees a session when it learns that its subscriber went. */
static void expect_same(const struct held *before, const char *what, const char *how, long number)
{
	const time_t until = time(NULL) + DEADLINE_S;
	struct held now = held_now();

	while (!same(before, &now) && time(NULL) < until) {
		sched_yield();
		now = held_now();
	}
	if (same(before, &now))
		return;
	fprintf(stderr,
		"leaks: %ld allocations, %d descriptors, %d mappings before, %ld, %d, %d after\n",
		before->allocations, before->descriptors, before->mappings, now.allocations,
		now.descriptors, now.mappings);
	wrong(what, how, number);
}

struct attempt {
	const char *name;
	int (*run)(void);
	bool no_memory_is_told; /* by -ENOMEM and nothing else */
};

/* An attempt may also do without the memory (libc reads a file without a buffer, if it must); then
 * all of it has to have worked. */
static void fail_allocations(const struct attempt *attempt, bool all_after)
{
	const char *how = all_after ? "all allocations from" : "allocation";
	const struct held before = held_now();
	long errors = 0;
	int result;

	for_good = all_after;
	for (long number = 0; number < ATTEMPTS_MAX; number++) {
		atomic_store(&failed, false);
		atomic_store(&countdown, number);
		result = attempt->run();
		atomic_store(&countdown, NEVER);
		expect_same(&before, attempt->name, how, number);
		if (!failed && result == 0) {
			printf("%s: %ld errors of %ld failed %s\n", attempt->name, errors, number,
			       all_after ? "from one on" : "one by one");
			if (errors == 0)
				wrong(attempt->name, how, number);
			return;
		}
		errors += result < 0;
		if (!failed)
			wrong(attempt->name, "an error without a failed", number);
		if (result < 0 && attempt->no_memory_is_told && result != -ENOMEM)
			wrong(attempt->name, "expected ENOMEM of failed", number);
		if (result < 0 && !*tb_error())
			wrong(attempt->name, "no words for failed", number);
	}
	wrong(attempt->name, "never without a failure up to", ATTEMPTS_MAX);
}

/* The same with a limit of descriptors that goes up until the attempt works. */
static void fail_descriptors(const struct attempt *attempt)
{
	const struct held before = held_now();
	struct rlimit whole, limit;
	int result = -1;

	getrlimit(RLIMIT_NOFILE, &whole);
	limit = whole;
	for (long number = 0; result < 0; number++) {
		limit.rlim_cur = 3 + (rlim_t)number;
		setrlimit(RLIMIT_NOFILE, &limit);
		result = attempt->run();
		setrlimit(RLIMIT_NOFILE, &whole);
		expect_same(&before, attempt->name, "limit of descriptors", number);
		if (result == 0)
			printf("%s: %ld times too few descriptors\n", attempt->name, number);
		else if (number > ATTEMPTS_MAX || !*tb_error() ||
			 (result != -EMFILE && result != -ENOMEM && result != -EAGAIN))
			wrong(attempt->name, "limit of descriptors", number);
	}
}

/* -- running ------------------------------------------------------------------------------------
 */

static void begin(void)
{
	static const char text[] =
		"bus: { name: b, listen: [ \"shm:\" ] }\n"
		"schemas: [ quote, trade ]\n"
		"feeds: [ { name: f, type: synthetic, messages: 10 } ]\n"
		"topics: [ { name: t, feed: f, select: quote, schema: quote } ]\n";
	FILE *file;

	ours = pthread_self();
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
	of_others = true;
	fail_allocations(attempt, false);
	of_others = false;
}

int main(void)
{
	static const struct attempt settings = { "settings", settings_attempt, false };
	static const struct attempt schema = { "schema", schema_attempt, true };
	static const struct attempt publisher = { "publisher", publisher_attempt, true };
	static const struct attempt subscriber = { "subscriber", subscriber_attempt, true };
	static const struct attempt served = { "subscriber, served without memory",
					       subscriber_attempt, false };
	static const struct attempt *const all[] = { &settings, &schema, &publisher, &subscriber };

	begin();
	if (publisher_make("standing", &standing) < 0)
		wrong("standing publisher", "attempt", 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->run() < 0) /* once, for what libc keeps */
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

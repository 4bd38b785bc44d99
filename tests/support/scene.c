/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/scene.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/deadline.h"
#include "tests/support/random.h"

static char folder[64];

void scene_enter(void)
{
	snprintf(folder, sizeof(folder), "/tmp/tickbus-test-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("TICKBUS_RUNTIME_DIR", folder, 1);
}

void scene_leave(void)
{
	DIR *list = opendir(folder);
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(list), entry->d_name, 0);
	if (list)
		closedir(list);
	rmdir(folder);
}

const char *scene_folder(void)
{
	return folder;
}

uint64_t scene_seed(void)
{
	return random_seed();
}

uint64_t scene_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void scene_log(void *user, enum tb_log_level level, const char *text)
{
	(void)user;
	if (getenv("TICKBUS_TEST_LOG"))
		fprintf(stderr, "log %d: %s\n", level, text);
}

int scene_rounds(int usual)
{
	const char *given = getenv("TICKBUS_TEST_ROUNDS");
	const int percent = given ? atoi(given) : 100;

	cr_assert(percent > 0 && percent <= 100, "TICKBUS_TEST_ROUNDS: found %s, expected 1 to 100",
		  given);
	return usual * percent / 100 > 0 ? usual * percent / 100 : 1;
}

bool scene_has(const char *scheme)
{
	return strcmp(scheme, "rdma") != 0 || getenv("TICKBUS_TEST_RDMA");
}

/* Tests run side by side, so each process uses a port of its own. */
void scene_address(const char *scheme, char *address, size_t bytes)
{
	if (strcmp(scheme, "rdma") == 0)
		snprintf(address, bytes, "rdma:%s:%d", getenv("TICKBUS_TEST_RDMA"),
			 20000 + (int)getpid() % 40000);
	else
		snprintf(address, bytes, "%s:test", scheme);
}

struct tb_publisher *scene_publisher_of(const char *scheme, uint32_t stale_ms)
{
	char address[64];
	const char *listen[] = { address };
	struct tb_publisher_options options = { .size = sizeof(options),
						.name = "test",
						.listen = listen,
						.listen_count = 1,
						.stale_ms = stale_ms,
						.exit_wait_ms = UINT32_MAX,
						.log = scene_log };
	struct tb_publisher *publisher = NULL;

	scene_address(scheme, address, sizeof(address));
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	return publisher;
}

struct tb_publisher *scene_publisher(const char *scheme)
{
	return scene_publisher_of(scheme, SCENE_STALE_MS);
}

struct tb_schema *scene_schema(const char *name, unsigned int version, const char *fields)
{
	char text[1024];
	struct tb_schema *schema = NULL;

	snprintf(text, sizeof(text), "name: %s\nversion: %u\nfields:\n%s", name, version, fields);
	cr_assert_eq(tb_schema_parse(&schema, text, strlen(text), "test"), 0, "%s", tb_error());
	return schema;
}

struct tb_group *scene_group(struct tb_publisher *publisher, const char *name)
{
	const struct tb_group_options options = { .size = sizeof(options), .name = name };
	struct tb_group *group = NULL;

	cr_assert_eq(tb_group_create(publisher, &options, &group), 0, "%s", tb_error());
	return group;
}

struct tb_topic *scene_topic(struct tb_publisher *publisher, const char *name, uint32_t slots,
			     uint32_t flags)
{
	return scene_grouped(publisher, name, slots, flags, NULL);
}

struct tb_topic *scene_grouped(struct tb_publisher *publisher, const char *name, uint32_t slots,
			       uint32_t flags, struct tb_group *group)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = name,
					    .schema = schema,
					    .slots = slots,
					    .instruments = 16,
					    .flags = flags,
					    .group = group };
	struct tb_topic *topic = NULL;

	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	return topic;
}

void scene_publish(struct tb_topic *topic, uint64_t from, uint64_t to)
{
	const int odd = tb_instrument(topic, "A"), even = tb_instrument(topic, "B");
	struct tb_update update = {
		.size = sizeof(update), .kind = TB_KIND_UPDATE, .length = sizeof(from), .time_ns = 1
	};

	cr_assert(odd >= 0 && even >= 0, "%s", tb_error());
	for (uint64_t x = from; x <= to; x++) {
		update.instrument = (uint32_t)(x % 2 ? odd : even);
		update.data = &x;
		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	}
}

static void note(struct notes *notes, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void note(struct notes *notes, const char *format, ...)
{
	va_list args;

	if (notes->quiet)
		return;
	if (notes->size - notes->used < 512) {
		notes->size = notes->size ? 2 * notes->size : 4096;
		notes->text = realloc(notes->text, notes->size);
		cr_assert_not_null(notes->text);
	}
	va_start(args, format);
	notes->used += (size_t)vsnprintf(notes->text + notes->used, 512, format, args);
	va_end(args);
}

void notes_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct notes *notes = user;
	uint64_t x = 0;

	(void)source;
	if (record->length >= sizeof(x))
		memcpy(&x, record->data, sizeof(x));
	if (record->flags & TB_FLAG_IMAGE) {
		notes->values++;
		notes->wrong += x != record->sequence;
		note(notes, "value %" PRIu64 " %s %s\n", record->sequence, record->name,
		     tb_kind_name(record->kind) ? tb_kind_name(record->kind) : "?");
		return;
	}
	notes->records++;
	notes->wrong += x != record->sequence;
	notes->last = record->sequence;
	note(notes, "%" PRIu64 " %s %s %" PRIu64 "\n", record->sequence, record->name,
	     tb_kind_name(record->kind) ? tb_kind_name(record->kind) : "?", x);
}

void notes_event(void *user, const struct tb_event *event)
{
	static const char *const causes[] = { "", "overrun", "before_join", "upstream", "corrupt" };
	struct notes *notes = user;

	notes->events++;
	notes->skipped += event->skipped;
	cr_expect_leq(event->delivered, event->head, "event %d is beyond its head",
		      (int)event->kind);
	switch (event->kind) {
	case TB_EVENT_APPEARED:
		note(notes, "appeared %s %" PRIu64 "\n", event->topic, event->first);
		break;
	case TB_EVENT_GAP:
		notes->lost += event->last - event->first + 1;
		notes->last = event->last;
		note(notes, "gap %" PRIu64 " %" PRIu64 " %s\n", event->first, event->last,
		     causes[event->cause]);
		break;
	case TB_EVENT_STALE:
		notes->stale = true;
		if (event->words)
			note(notes, "stale %d %s\n", event->code, event->words);
		else
			note(notes, "stale\n");
		break;
	case TB_EVENT_LIVE:
		notes->live = true;
		note(notes, "live\n");
		break;
	case TB_EVENT_RESTART:
		notes->restarted = true;
		notes->last = 0;
		note(notes, "restart %" PRIu64 " %" PRIu64 "%s\n", event->delivered, event->head,
		     event->old_epoch != event->epoch ? "" : " of the same epoch");
		break;
	case TB_EVENT_ENDED:
		notes->ended = true;
		note(notes, "ended %" PRIu64 "\n", event->head);
		break;
	case TB_EVENT_REFUSED:
		notes->refused = true;
		note(notes, "refused %s %d %s\n", event->topic, event->code, event->words);
		break;
	case TB_EVENT_QUALITY:
		notes->quality = event->quality;
		notes->changes++;
		if (event->first > 0)
			notes->last = event->first;
		note(notes, "quality %u %u at %" PRIu64 "\n", event->quality, event->quality_cause,
		     event->first);
		break;
	case TB_EVENT_IMAGE:
		notes->images++;
		notes->complete = false;
		note(notes, "image %" PRIu64 "%s\n", event->first, event->words ? " lapped" : "");
		break;
	case TB_EVENT_COMPLETE:
		notes->complete = true;
		note(notes, "complete %" PRIu64 "\n", event->delivered);
		break;
	case TB_EVENT_NO_VALUE:
		note(notes, "no_value %s\n", event->words);
		break;
	case TB_EVENT_NO_INSTRUMENT:
		note(notes, "no_instrument %s %s\n", event->topic, event->words);
		break;
	case TB_EVENT_LEFT:
		note(notes, "left %s %d %s\n", event->topic, event->code, event->words);
		break;
	}
}

void notes_free(struct notes *notes)
{
	free(notes->text);
	*notes = (struct notes){ 0 };
}

struct tb_subscriber *scene_subscriber(const char *scheme, uint32_t flags)
{
	char address[64];
	struct tb_subscriber_options options = {
		.size = sizeof(options), .address = address, .flags = flags, .connect_ms = 20000
	};
	struct tb_subscriber *subscriber = NULL;

	scene_address(scheme, address, sizeof(address));
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	return subscriber;
}

struct tb_subscription *scene_subscribe(struct tb_subscriber *subscriber, const char *pattern,
					enum tb_from from, struct notes *notes)
{
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = notes_event,
						   .user = notes,
						   .from = from,
						   .flags = TB_WAIT };
	struct tb_subscription *subscription = NULL;

	cr_assert_eq(tb_subscribe(subscriber, pattern, &options, &subscription), 0, "%s",
		     tb_error());
	return subscription;
}

static bool poll_once(struct tb_subscriber *subscriber, uint64_t until_ms)
{
	const int count = tb_poll(subscriber, 1000);

	cr_assert_geq(count, 0, "%s", tb_error());
	if (count == 0)
		cr_assert_geq(tb_wait(subscriber, 100), 0, "%s", tb_error());
	return scene_now_ms() < until_ms;
}

bool scene_poll_until(struct tb_subscriber *subscriber, const uint64_t *value, uint64_t least)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (*value < least)
		if (!poll_once(subscriber, until_ms))
			return false;
	return true;
}

bool scene_poll_while(struct tb_subscriber *subscriber, const bool *flag)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (!*flag)
		if (!poll_once(subscriber, until_ms))
			return false;
	return true;
}

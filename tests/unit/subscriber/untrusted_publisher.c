/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher with a false message, or false memory. The subscriber refuses it with an error, ends
 * its wait and delivers no record. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/directory.h"
#include "bus/fabric.h"
#include "tests/support/deadline.h"
#include "bus/bounds.h"
#include "tests/support/prover.h"
#include "tests/support/scene.h"

#define EPOCH      UINT64_C(0x1122334455667788)
#define BUS_ID     77
#define TOPICS_MAX 4
#define CUT_MS     3000 /* how long a cut message is awaited */

enum fault {
	NO_FAULT,
	WELCOME_CUT,
	WELCOME_VERSION,
	WELCOME_NO_PAGE,
	WELCOME_PAGE_SHORT,
	TOPICS_CUT,
	TOPICS_EMPTY_AND_MORE,
	TOPICS_ENDLESS,
	TOPICS_REPEATED,
	SCHEMA_OF_ANOTHER_TOPIC,
	SCHEMA_OTHER_OFFSET,
	SCHEMA_OTHER_TOTAL,
	SCHEMA_EMPTY_PART,
	SCHEMA_ANOTHER,
	SCHEMA_GARBAGE,
	GRANT_ANOTHER_NAME,
	GRANT_ANOTHER_EPOCH,
	GRANT_ANOTHER_FINGERPRINT,
	GRANT_SLOTS,
	GRANT_CAPACITY,
	GRANT_SLOT_BYTES,
	GRANT_FLAGS,
	GRANT_GROUP,
	GRANT_TIME_RISES,
	GRANT_BYTES,
	GRANT_NO_MEMORY,
	GRANT_SHORT_MEMORY,
	GRANT_KEY,
	GRANT_ANSWERED_TOPICS,
	HEADER_ANOTHER_NAME,
	HEADER_GARBAGE,
	TOPIC_ANOTHER_LAYOUT,
	NEWS_UNREQUESTED,
	FAULTS
};

static struct fake {
	enum fault fault;
	const struct fabric_ops *ops;
	const char *place;
	struct listener *listener;
	struct memory page, region, scrap;
	struct exposure *page_given, *region_given, *scrap_given;
	struct control_topic topic;
	struct bus_pulse pulse;
	char schema[256];
	pthread_t thread;
	_Atomic bool stop;
	unsigned int asked; /* for the catalogue */
	_Atomic int joined; /* grants without a leave */
} fake;

/* -- messages --------------------------------------------------------------------------------- */

static int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes,
		    struct fabric_answer *said)
{
	struct control_welcome answer = { .version = CONTROL_VERSION_HIGH,
					  .bus_id = BUS_ID,
					  .stale_ms = 1000,
					  .topics_max = TOPICS_MAX,
					  .name = "fake" };

	(void)user;
	(void)peer;
	if (prover_is_first(hello, bytes))
		return 1; /* the challenge is zeros */
	said->given = fake.page_given;
	if (fake.fault == WELCOME_VERSION)
		answer.version = 9;
	if (fake.fault == WELCOME_NO_PAGE)
		said->given = NULL;
	if (fake.fault == WELCOME_PAGE_SHORT)
		answer.topics_max = BOUND_TOPICS_MAX;
	said->welcome_bytes = control_welcome_encode(&answer, said->welcome);
	prover_signs(hello, "test", NULL, said->welcome, said->welcome_bytes);
	if (fake.fault == WELCOME_CUT)
		said->welcome_bytes = 4; /* its magic number alone */
	return 0;
}

static void catalogue_fill(const struct control_message *asked, struct control_message *answer)
{
	answer->type = CONTROL_TOPICS;
	answer->topics.topic[0] = fake.topic;
	answer->topics.count = asked->catalogue.after == 0;
	if (fake.fault == TOPICS_EMPTY_AND_MORE) {
		answer->topics.count = 0;
		answer->topics.more = 1;
	} else if (fake.fault == TOPICS_ENDLESS) {
		strcpy(answer->topics.topic[0].name, "another");
		answer->topics.topic[0].shape.topic_id = 1 + fake.asked++ % BOUND_TOPICS_MAX;
		answer->topics.count = answer->topics.more = 1;
	} else if (fake.fault == TOPICS_REPEATED) {
		answer->topics.count = answer->topics.more = 1;
	}
}

static void schema_fill(const struct control_message *asked, struct control_message *answer)
{
	const uint32_t total = (uint32_t)strlen(fake.schema);

	answer->type = CONTROL_SCHEMA_BYTES;
	answer->schema_bytes.topic_id =
		asked->schema.topic_id + (fake.fault == SCHEMA_OF_ANOTHER_TOPIC);
	answer->schema_bytes.total = total + (fake.fault == SCHEMA_OTHER_TOTAL);
	answer->schema_bytes.offset = asked->schema.offset + (fake.fault == SCHEMA_OTHER_OFFSET);
	answer->schema_bytes.bytes =
		fake.fault == SCHEMA_EMPTY_PART ? 0 : total - answer->schema_bytes.offset;
	memcpy(answer->schema_bytes.part, fake.schema + answer->schema_bytes.offset,
	       answer->schema_bytes.bytes);
}

/* The memory that is handed over with a message. */
static struct exposure *grant_fill(struct control_message *answer)
{
	struct region_layout layout;

	answer->type = CONTROL_GRANT;
	answer->grant.topic = fake.topic;
	switch (fake.fault) {
	case GRANT_ANOTHER_NAME:
		strcpy(answer->grant.topic.name, "u");
		break;
	case GRANT_ANOTHER_EPOCH:
		answer->grant.topic.shape.epoch++;
		break;
	case GRANT_ANOTHER_FINGERPRINT:
		answer->grant.topic.shape.fingerprint++;
		break;
	case GRANT_SLOTS:
		answer->grant.topic.shape.slots = 65;
		break;
	case GRANT_CAPACITY:
		answer->grant.topic.shape.capacity = UINT32_MAX;
		break;
	case GRANT_SLOT_BYTES:
		answer->grant.topic.shape.slot_bytes = 128;
		break;
	case GRANT_FLAGS:
		answer->grant.topic.shape.flags |= 0x100;
		break;
	case GRANT_GROUP:
		answer->grant.topic.shape.group = 7;
		break;
	case GRANT_TIME_RISES:
		answer->grant.topic.shape.flags |= REGION_FLAG_TIME_RISES;
		break;
	case GRANT_KEY:
		answer->grant.key.rkey = 1;
		break;
	case GRANT_ANSWERED_TOPICS:
		answer->type = CONTROL_TOPICS;
		memset(&answer->topics, 0, sizeof(answer->topics));
		return NULL;
	default:
		break;
	}
	if (region_layout(&answer->grant.topic.shape, &layout) == 0)
		answer->grant.region_bytes = layout.bytes;
	if (fake.fault == GRANT_BYTES)
		answer->grant.region_bytes += 8;
	if (fake.fault == GRANT_NO_MEMORY)
		return NULL;
	return fake.fault == GRANT_SHORT_MEMORY ? fake.scrap_given : fake.region_given;
}

/* Messages about topics that were not joined, and answers without a request. */
static void gossip(struct peer *peer)
{
	static const enum control_type types[] = { CONTROL_WAKE,   CONTROL_REVOKE, CONTROL_ENDING,
						   CONTROL_TOPICS, CONTROL_VALUES, CONTROL_LEAVE };
	uint8_t bytes[FABRIC_MESSAGE_BYTES];

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct control_message message = { .type = types[i], .request = 12345 };

		if (types[i] != CONTROL_TOPICS && types[i] != CONTROL_VALUES) {
			message.topic.topic_id = (uint32_t)(i * 1000);
			message.topic.epoch = EPOCH + i % 2;
			message.topic.head = UINT64_MAX;
		}
		fake.ops->send(peer, bytes, control_encode(&message, bytes), fake.scrap_given);
	}
}

static void on_message(void *user, struct peer *peer, const void *message, size_t length)
{
	static struct control_message asked, answer;
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	struct exposure *given = NULL;

	(void)user;
	if (control_decode(message, length, &asked) < 0)
		abort();
	memset(&answer, 0, sizeof(answer));
	answer.request = asked.request;
	if (asked.type == CONTROL_CATALOGUE)
		catalogue_fill(&asked, &answer);
	else if (asked.type == CONTROL_SCHEMA)
		schema_fill(&asked, &answer);
	else if (asked.type == CONTROL_JOIN)
		given = grant_fill(&answer);
	if (asked.type == CONTROL_LEAVE)
		atomic_fetch_sub(&fake.joined, 1);
	if (answer.type == CONTROL_GRANT)
		atomic_fetch_add(&fake.joined, 1);
	if (answer.type == 0)
		return;
	if (fake.fault == NEWS_UNREQUESTED)
		gossip(peer);
	length = control_encode(&answer, bytes);
	if (fake.fault == TOPICS_CUT)
		length--;
	fake.ops->send(peer, bytes, length, given);
}

static void on_gone(void *user, struct peer *peer, const char *why)
{
	(void)user;
	(void)peer;
	(void)why;
}

static void on_log(void *user, enum fabric_log kind, const char *text)
{
	(void)kind;
	(void)user;
	(void)text;
}

static const struct listener_calls calls = {
	.hello = on_hello, .message = on_message, .gone = on_gone, .log = on_log
};

static void *lie_on(void *user)
{
	struct pollfd ready = { .fd = fake.ops->listener_fd(fake.listener), .events = POLLIN };

	while (!atomic_load(&fake.stop)) {
		fake.pulse.count++;
		bus_page_store_pulse(fake.page.base, &fake.pulse);
		if (fake.ops->listener_poll(fake.listener) == 0)
			poll(&ready, 1, 5);
	}
	return user;
}

/* -- memory ----------------------------------------------------------------------------------- */

static void record_add(uint64_t sequence)
{
	const struct region_shape *shape = &fake.topic.shape;
	struct progress progress = { .head = sequence,
				     .reserved = 4,
				     .first = 1,
				     .epoch = EPOCH,
				     .instruments = 1,
				     .state = TOPIC_LIVE };
	struct record record = {
		.sequence = sequence, .time_ns = 1, .length = 8, .kind = TB_KIND_UPDATE
	};
	struct region_layout layout;
	char *base = fake.region.base;

	cr_assert_eq(region_layout(shape, &layout), 0, "%s", tb_error());
	record.payload[0] = (uint8_t)sequence;
	record_store((struct slot *)(base + layout.ring + sequence * shape->slot_bytes), &record,
		     true, record_salt(EPOCH, shape->topic_id, TAG_RECORD));
	progress_store((struct progress_line *)(base + layout.progress), &progress, true,
		       record_salt(EPOCH, shape->topic_id, TAG_PROGRESS));
}

/* A region with one record, as an honest publisher would write it. */
static void region_make(void)
{
	const struct region_shape *shape = &fake.topic.shape;
	struct region_layout layout;
	char *base;

	cr_assert_eq(region_layout(shape, &layout), 0, "%s", tb_error());
	cr_assert_eq(memory_create(&fake.region, "fake", layout.bytes), 0);
	base = fake.region.base;
	region_header_write(base, shape, fake.fault == HEADER_ANOTHER_NAME ? "u" : "t");
	directory_store(base + layout.directory, 0, "A",
			record_salt(EPOCH, shape->topic_id, TAG_DIRECTORY));
	record_add(1);
	if (fake.fault == HEADER_GARBAGE)
		memset(base, 0x5a, sizeof(struct region_header));
}

static void topic_make(void)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	struct tb_schema *another = scene_schema("x", 1, "- {name: y, type: u64, doc: d}\n");
	size_t length;
	const char *text = tb_schema_text(fake.fault == SCHEMA_ANOTHER ? another : schema, &length);

	snprintf(fake.schema, sizeof(fake.schema), "%s",
		 fake.fault == SCHEMA_GARBAGE ? "this: is\nnot: one\n" : text);
	fake.topic = (struct control_topic){
		.shape = { .epoch = EPOCH,
			   .fingerprint = tb_schema_fingerprint(schema),
			   .slots = fake.fault == TOPIC_ANOTHER_LAYOUT ? 128 : 64,
			   .slot_bytes = 64,
			   .capacity = 16,
			   .topic_id = 1,
			   .flags = REGION_FLAG_CHECKED | REGION_FLAG_LAST_VALUE },
		.state = TOPIC_LIVE,
		.name = "t",
		.schema = "x",
		.schema_version = 1,
		.schema_bytes = (uint32_t)strlen(fake.schema),
	};
	tb_schema_free(schema);
	tb_schema_free(another);
}

static void fake_open(enum fault fault)
{
	struct fabric_listen how = { .peers_max = 8 };

	memset(&fake, 0, sizeof(fake));
	fake.fault = fault;
	fake.ops = fabric_find("shm:test", &fake.place);
	how.address = fake.place;
	topic_make();
	region_make();
	cr_assert_eq(memory_create(&fake.page, "page", bus_page_bytes(TOPICS_MAX)), 0);
	cr_assert_eq(memory_create(&fake.scrap, "scrap", 4096), 0);
	fake.pulse = (struct bus_pulse){ .bus_id = BUS_ID };
	bus_page_store_pulse(fake.page.base, &fake.pulse);
	cr_assert_eq(fake.ops->listen(&fake.listener, &how, &calls, NULL), 0, "%s", tb_error());
	cr_assert_eq(fake.ops->expose(fake.listener, &fake.page, 0, &fake.page_given), 0);
	cr_assert_eq(fake.ops->expose(fake.listener, &fake.region, 0, &fake.region_given), 0);
	cr_assert_eq(fake.ops->expose(fake.listener, &fake.scrap, 0, &fake.scrap_given), 0);
	cr_assert_eq(pthread_create(&fake.thread, NULL, lie_on, NULL), 0);
}

static void fake_close(void)
{
	atomic_store(&fake.stop, true);
	pthread_join(fake.thread, NULL);
	fake.ops->withdraw(fake.page_given);
	fake.ops->withdraw(fake.region_given);
	fake.ops->withdraw(fake.scrap_given);
	fake.ops->listener_close(fake.listener);
	memory_free(&fake.page);
	memory_free(&fake.region);
	memory_free(&fake.scrap);
}

/* -- tests ------------------------------------------------------------------------------------ */

TestSuite(untrusted_publisher, .init = scene_enter, .fini = scene_leave, .timeout = 60);

/* Opens, subscribes to "t" and polls for these many records. Returns the first error, or 0; events
 * are in notes. */
static int attempt(struct notes *notes, uint64_t records)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "shm:test",
						       .connect_ms = fake.fault == TOPICS_CUT
									     ? CUT_MS
									     : deadline_ms() };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = notes,
						     .from = TB_FROM_OLDEST };
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription = NULL;
	int result = tb_subscriber_open(&subscriber, &options);

	if (result == 0)
		result = tb_subscribe(subscriber, "t", &how, &subscription);
	if (result == 0)
		scene_poll_until(subscriber, &notes->records, records);
	if (subscriber)
		tb_subscriber_close(subscriber);
	return result;
}

/* Waits until the subscriber has left what it joined. */
static bool all_left(void)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (atomic_load(&fake.joined) != 0 && scene_now_ms() < until_ms)
		sched_yield();
	return atomic_load(&fake.joined) == 0;
}

/* The same, of a subscriber that goes on: the first pulse makes it ask for the topic once more. */
static bool all_left_by(struct tb_subscriber *subscriber)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (atomic_load(&fake.joined) != 0 && scene_now_ms() < until_ms)
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	return atomic_load(&fake.joined) == 0;
}

#define PART    "the publisher sent a different part of the schema than requested"
#define ANOTHER "topic t: the publisher granted a different topic than requested"

static const struct {
	enum fault fault;
	int code;
	const char *text;
} cases[] = {
	{ WELCOME_CUT, EPROTO, "shm:test: welcome message of 4 bytes: expected 84 to 192" },
	{ WELCOME_VERSION, EPROTO,
	  "shm:test: the publisher chose protocol version 9, expected 2 to 2 as this library "
	  "supports" },
	{ WELCOME_NO_PAGE, EPROTO,
	  "shm:test: bus page: memory handed over: found no descriptor with the message" },
	{ WELCOME_PAGE_SHORT, EPROTO,
	  "shm:test: bus page: memory handed over: found 4096 bytes, expected at least 45056" },
	{ TOPICS_CUT, ETIMEDOUT, "shm:test: topic t: no answer within 3000 ms" },
	{ TOPICS_EMPTY_AND_MORE, ENOENT, "shm:test: bus fake has no topic t" },
	{ TOPICS_ENDLESS, ENOENT, "shm:test: bus fake has no topic t" },
	{ SCHEMA_OF_ANOTHER_TOPIC, EPROTO, PART },
	{ SCHEMA_OTHER_OFFSET, EPROTO, PART },
	{ SCHEMA_OTHER_TOTAL, EPROTO, PART },
	{ SCHEMA_EMPTY_PART, EPROTO, PART },
	{ SCHEMA_ANOTHER, EPROTO,
	  "topic t: found a schema with fingerprint 24f80b5fa5b51878, expected 0fcffaaa7f874599" },
	{ SCHEMA_GARBAGE, EPROTO,
	  "schema of topic t:1:1: this: found an unknown key\nschema of topic t:2:1: not: found an "
	  "unknown key\nschema of topic t:1:1: name: found nothing, expected the schema's "
	  "name\nschema of topic t:1:1: version: found nothing, expected a whole number from 1 to "
	  "65535\nschema of topic t:1:1: fields: found nothing, expected a list of fields" },
	{ GRANT_ANOTHER_NAME, EPROTO, ANOTHER },
	{ GRANT_ANOTHER_EPOCH, EPROTO, ANOTHER },
	{ GRANT_ANOTHER_FINGERPRINT, EPROTO, ANOTHER },
	{ GRANT_SLOTS, EPROTO,
	  "topic t: the publisher's grant: slots: found 65, expected a power of two from 64 to "
	  "16777216" },
	{ GRANT_CAPACITY, EPROTO,
	  "topic t: the publisher's grant: instruments: found 4294967295, expected 1 to 1048576" },
	{ GRANT_SLOT_BYTES, EPROTO,
	  "topic t: the publisher's grant: found slots of 128 bytes, expected 64 for schema x" },
	{ GRANT_FLAGS, EPROTO,
	  "topic t: the publisher's grant: flags: found 0x103, expected none but 0xf" },
	{ GRANT_GROUP, EPROTO,
	  "topic t: the publisher's grant: group: found 7 with flags 0x3, expected a group above 0 "
	  "with flag 0x8, or 0 without it" },
	{ GRANT_TIME_RISES, EPROTO,
	  "topic t: the publisher's grant: group: found 0 with flags 0xb, expected a group above 0 "
	  "with flag 0x8, or 0 without it" },
	{ GRANT_BYTES, EPROTO,
	  "topic t: the publisher's grant: found 20488 bytes of memory, expected 20480" },
	{ GRANT_NO_MEMORY, EPROTO,
	  "topic t: memory handed over: found no descriptor with the message" },
	{ GRANT_SHORT_MEMORY, EPROTO,
	  "topic t: memory handed over: found 4096 bytes, expected at least 20480" },
	{ GRANT_KEY, EPROTO, "topic t: memory handed over: found an rkey, expected none over shm" },
	{ GRANT_ANSWERED_TOPICS, EPROTO, "the publisher's answer does not match the request" },
	{ HEADER_ANOTHER_NAME, EPROTO,
	  "topic t: the memory's header contradicts the grant. Found epoch 1122334455667788, 64 "
	  "slots of 64 bytes, 20480 bytes in all. Expected epoch 1122334455667788, 64 slots of 64 "
	  "bytes, 20480 bytes in all" },
	{ HEADER_GARBAGE, EPROTO,
	  "topic t: memory begins with 0x5a5a5a5a5a5a5a5a, expected the magic of a tickbus topic" },
};

Test(untrusted_publisher, false_answer_is_refused_and_delivers_nothing)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct notes notes = { 0 };
		int result;

		fake_open(cases[i].fault);
		result = attempt(&notes, 0);
		cr_expect_eq(result, -cases[i].code, "fault %d: %d", cases[i].fault, result);
		cr_expect_str_eq(tb_error(), cases[i].text);
		cr_expect_eq(notes.records, 0);
		cr_expect(result == 0 || all_left(), "fault %d: a declined join is still counted",
			  cases[i].fault);
		fake_close();
		notes_free(&notes);
	}
}

static const struct {
	enum fault fault;
	const char *text;
} later[] = {
	{ TOPIC_ANOTHER_LAYOUT, "refused t 71 topic t: the publisher grants epoch 1122334455667788 "
				"with a different layout "
				"than before" },
	{ HEADER_ANOTHER_NAME,
	  "refused t 71 topic t: the memory's header contradicts the grant. Found epoch " },
	{ HEADER_GARBAGE, "refused t 71 topic t: memory begins with 0x5a5a5a5a5a5a5a5a, " },
};

/* The first connection was honest. The next connection's messages and memory are checked again,
 * even for the same epoch. */
Test(untrusted_publisher, false_answer_after_reconnect_is_refused)
{
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		const uint64_t until_ms = scene_now_ms() + deadline_ms();
		struct notes notes = { 0 };
		struct tb_subscriber *subscriber;

		fake_open(NO_FAULT);
		subscriber = scene_subscriber("shm", 0);
		scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
		cr_assert(scene_poll_until(subscriber, &notes.records, 1));
		fake_close();
		fake_open(later[i].fault);
		record_add(2);
		while (!notes.refused) {
			cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
			cr_assert_eq(notes.records, 1, "fault %d is believed", later[i].fault);
			cr_assert_lt(scene_now_ms(), until_ms);
		}
		cr_expect(strstr(notes.text, later[i].text), "%s", notes.text);
		cr_expect(all_left_by(subscriber));
		tb_subscriber_close(subscriber);
		fake_close();
		notes_free(&notes);
	}
}

/* The same memory and messages are accepted if they are true: so the tests above refuse what is
 * false. */
Test(untrusted_publisher, true_answers_deliver_the_record)
{
	const enum fault harmless[] = { NO_FAULT, TOPICS_REPEATED, NEWS_UNREQUESTED };

	for (size_t i = 0; i < 3; i++) {
		struct notes notes = { 0 };

		fake_open(harmless[i]);
		cr_expect_eq(attempt(&notes, 1), 0, "%s", tb_error());
		cr_expect_str_eq(notes.text, "appeared t 1\n1 A update 1\n");
		fake_close();
		notes_free(&notes);
	}
}

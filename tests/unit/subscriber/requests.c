/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are outstanding at the same time. The publisher is this test: it answers each join
 * when the test says so, in the test's own thread. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/fabric.h"
#include "subscriber/state.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/prover.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define TOPICS 20
#define PAGE   6 /* topics in a page of the catalogue */
#define BUS_ID 77
#define EPOCH  UINT64_C(0x1122334455667788)

static struct {
	const struct fabric_ops *ops;
	struct listener *listener;
	struct peer *peer;
	struct memory page, regions[TOPICS];
	struct exposure *page_given, *given[TOPICS];
	struct control_topic topics[TOPICS];
	struct bus_pulse pulse;
	const char *schema;
	bool prompt;                     /* joins are answered at once */
	struct control_message asked[8]; /* joins without an answer */
	struct control_message schema_asked;
	uint32_t schema_held; /* topic whose schema the test sends itself */
	unsigned int open, requests, leaves;
	uint32_t left[2 * TOPICS]; /* topics */
} fake;

static struct tb_schema *schema;
static struct tb_subscriber *subscriber;
static struct notes notes;

static int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes,
		    struct fabric_answer *said)
{
	const struct control_welcome welcome = { .version = CONTROL_VERSION_HIGH,
						 .bus_id = BUS_ID,
						 .stale_ms = 60000,
						 .topics_max = TOPICS,
						 .name = "fake" };

	(void)user;
	if (prover_is_first(hello, bytes))
		return 1; /* the challenge is zeros */
	fake.peer = peer;
	fake.open = 0;
	said->given = fake.page_given;
	said->welcome_bytes = control_welcome_encode(&welcome, said->welcome);
	prover_signs(hello, "test", NULL, said->welcome, said->welcome_bytes);
	return 0;
}

static void answer(const struct control_message *message, struct exposure *given)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];

	cr_assert_eq(fake.ops->send(fake.peer, bytes, control_encode(message, bytes), given), 0,
		     "%s", tb_error());
}

/* Answers request `number` with a grant of this topic. */
static void grant(uint32_t number, uint32_t topic_id)
{
	struct control_message message = { .type = CONTROL_GRANT, .request = number };
	struct region_layout layout;

	message.grant.topic = fake.topics[topic_id - 1];
	cr_assert_eq(region_layout(&message.grant.topic.shape, &layout), 0);
	message.grant.region_bytes = layout.bytes;
	answer(&message, fake.given[topic_id - 1]);
}

static void refuse(uint32_t number, uint32_t topic_id, int code)
{
	struct control_message message = { .type = CONTROL_REFUSE, .request = number };

	message.refuse.topic_id = topic_id;
	message.refuse.code = (uint32_t)code;
	strcpy(message.refuse.text, "not now");
	answer(&message, NULL);
}

/* Takes the join out of those without an answer. */
static struct control_message take(unsigned int index)
{
	const struct control_message asked = fake.asked[index];

	cr_assert_lt(index, fake.open);
	fake.asked[index] = fake.asked[--fake.open];
	return asked;
}

static void grant_open(unsigned int index)
{
	const struct control_message asked = take(index);

	grant(asked.request, asked.join.topic_id);
}

static void catalogue_answer(const struct control_message *asked)
{
	static struct control_message message;

	message = (struct control_message){ .type = CONTROL_TOPICS, .request = asked->request };
	for (uint32_t i = asked->catalogue.after; i < TOPICS && message.topics.count < PAGE; i++)
		message.topics.topic[message.topics.count++] = fake.topics[i];
	message.topics.more = asked->catalogue.after + PAGE < TOPICS;
	answer(&message, NULL);
}

static void schema_answer(const struct control_message *asked)
{
	struct control_message message = { .type = CONTROL_SCHEMA_BYTES,
					   .request = asked->request };

	message.schema_bytes.topic_id = asked->schema.topic_id;
	message.schema_bytes.total = message.schema_bytes.bytes = (uint32_t)strlen(fake.schema);
	memcpy(message.schema_bytes.part, fake.schema, strlen(fake.schema));
	answer(&message, NULL);
}

static void on_message(void *user, struct peer *peer, const void *bytes, size_t length)
{
	static struct control_message asked;

	(void)user;
	(void)peer;
	cr_assert_eq(control_decode(bytes, length, &asked), 0, "%s", tb_error());
	if (asked.type == CONTROL_LEAVE) {
		fake.left[fake.leaves++ % (2 * TOPICS)] = asked.topic.topic_id;
	} else if (asked.type != CONTROL_ARM) {
		fake.requests++;
		cr_assert_lt(fake.open, FABRIC_UNANSWERED, "a ninth request is outstanding");
	}
	if (asked.type == CONTROL_CATALOGUE)
		catalogue_answer(&asked);
	else if (asked.type == CONTROL_SCHEMA && asked.schema.topic_id == fake.schema_held)
		fake.schema_asked = asked;
	else if (asked.type == CONTROL_SCHEMA)
		schema_answer(&asked);
	else if (asked.type == CONTROL_JOIN && fake.prompt)
		grant(asked.request, asked.join.topic_id);
	else if (asked.type == CONTROL_JOIN)
		fake.asked[fake.open++] = asked;
}

static void on_gone(void *user, struct peer *peer, const char *why)
{
	(void)user;
	(void)peer;
	(void)why;
}

static void on_log(void *user, enum fabric_log kind, const char *text)
{
	(void)user;
	(void)kind;
	(void)text;
}

static const struct listener_calls calls = {
	.hello = on_hello, .message = on_message, .gone = on_gone, .log = on_log
};

static void region_make(uint32_t index, uint64_t epoch)
{
	struct control_topic *topic = &fake.topics[index];
	struct region_layout layout;
	struct progress progress = {
		.reserved = 0, .first = 1, .epoch = epoch, .state = TOPIC_LIVE
	};

	*topic = (struct control_topic){ .shape = { .epoch = epoch,
						    .fingerprint = tb_schema_fingerprint(schema),
						    .slots = 64,
						    .slot_bytes = 64,
						    .capacity = 16,
						    .topic_id = index + 1,
						    .flags = REGION_FLAG_CHECKED },
					 .state = TOPIC_LIVE,
					 .schema = "x",
					 .schema_version = 1,
					 .schema_bytes = (uint32_t)strlen(fake.schema) };
	snprintf(topic->name, sizeof(topic->name), "t%u", index + 1);
	fake.ops->withdraw(fake.given[index]);
	memory_free(&fake.regions[index]);
	cr_assert_eq(region_layout(&topic->shape, &layout), 0, "%s", tb_error());
	cr_assert_eq(memory_create(&fake.regions[index], "fake", layout.bytes), 0);
	region_header_write(fake.regions[index].base, &topic->shape, topic->name);
	progress_store((void *)((char *)fake.regions[index].base + layout.progress), &progress,
		       true, record_salt(epoch, topic->shape.topic_id, TAG_PROGRESS));
	cr_assert_eq(fake.ops->expose(fake.listener, &fake.regions[index], 0, &fake.given[index]),
		     0);
}

static void enter(void)
{
	struct fabric_listen how = { .peers_max = 8 };
	size_t length;

	scene_enter();
	memset(&fake, 0, sizeof(fake));
	schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	fake.schema = tb_schema_text(schema, &length);
	fake.ops = fabric_find("shm:test", &how.address);
	fake.pulse = (struct bus_pulse){ .bus_id = BUS_ID, .count = 1 };
	cr_assert_eq(memory_create(&fake.page, "page", bus_page_bytes(TOPICS)), 0);
	bus_page_store_pulse(fake.page.base, &fake.pulse);
	cr_assert_eq(fake.ops->listen(&fake.listener, &how, &calls, NULL), 0, "%s", tb_error());
	cr_assert_eq(fake.ops->expose(fake.listener, &fake.page, 0, &fake.page_given), 0);
	for (uint32_t i = 0; i < TOPICS; i++)
		region_make(i, EPOCH + i);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	for (uint32_t i = 0; i < TOPICS; i++) {
		fake.ops->withdraw(fake.given[i]);
		memory_free(&fake.regions[i]);
	}
	fake.ops->withdraw(fake.page_given);
	fake.ops->listener_close(fake.listener);
	memory_free(&fake.page);
	tb_schema_free(schema);
	notes_free(&notes);
	scene_leave();
}

TestSuite(requests, .init = enter, .fini = leave, .timeout = 60);

/* -- the two sides in turn -------------------------------------------------------------------- */

/* Memory comes through another process, which needs time of the machine's clock. */
static void pump(void)
{
	struct pollfd link = { .fd = subscriber->link_fd, .events = POLLIN };

	if (link.fd >= 0)
		poll(&link, 1, 1);
	cr_assert_geq(fake.ops->listener_poll(fake.listener), 0, "%s", tb_error());
	cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
}

/* The clock goes on, which only connecting and pulses need. */
#define PUMP_UNTIL(condition)                                                                      \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition ": %s",     \
				     notes.text ? notes.text : "");                                \
			clock_pass(1);                                                             \
			pump();                                                                    \
		}                                                                                  \
	} while (0)

static void pump_idle(void)
{
	for (int i = 0; i < 20; i++) {
		clock_pass(1);
		pump();
	}
}

static struct tb_subscription *subscribe_more(const char *pattern)
{
	return scene_subscribe(subscriber, pattern, TB_FROM_OLDEST, &notes);
}

/* Connects only when the test pumps. */
static struct tb_subscription *subscribe_to(const char *pattern)
{
	const struct tb_subscriber_options how = {
		.size = sizeof(how), .address = "shm:test", .flags = TB_WAIT, .connect_ms = 1
	};

	subscriber = NULL;
	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
	clock_stop();
	return subscribe_more(pattern);
}

static struct tb_subscription *subscribe(void)
{
	return subscribe_to("t*");
}

static unsigned int times(const char *text)
{
	unsigned int count = 0;

	for (const char *at = notes.text; at && (at = strstr(at, text)); at++)
		count++;
	return count;
}

static bool is_served(void)
{
	return subscriber->welcomed && !subscriber->discovery.subscription &&
	       !subscriber->subscriptions->discover;
}

/* -- tests ------------------------------------------------------------------------------------ */

Test(requests, eight_are_outstanding_and_answers_come_in_any_order)
{
	uint64_t seed = scene_seed();

	subscribe();
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	pump_idle();
	cr_expect_eq(fake.open, FABRIC_UNANSWERED);
	for (int i = 0; i < 100 * TOPICS && times("appeared") < TOPICS; i++) {
		if (fake.open > 0)
			grant_open((unsigned int)random_below(&seed, fake.open));
		pump();
	}
	PUMP_UNTIL(is_served());
	cr_expect_eq(fake.requests, TOPICS + (TOPICS + PAGE - 1) / PAGE + 1,
		     "%u: a join for each topic, the pages, a schema", fake.requests);
	cr_expect_eq(fake.leaves, 0);
	cr_expect_eq(times("refused"), 0, "%s", notes.text);
}

/* The clock stands still from the first answer on. */
Test(requests, joins_do_not_wait_for_the_clock)
{
	fake.prompt = true;
	subscribe();
	PUMP_UNTIL(fake.requests > 0);
	for (const uint64_t late_ms = scene_now_ms() + deadline_ms(); times("appeared") < TOPICS;) {
		cr_assert_lt(scene_now_ms(), late_ms, "%u appeared", times("appeared"));
		pump();
	}
}

Test(requests, refused_topic_among_others_is_left_out)
{
	struct control_message asked;

	subscribe();
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	asked = take(3);
	refuse(asked.request, asked.join.topic_id, ENOENT);
	fake.prompt = true;
	while (fake.open > 0)
		grant_open(0);
	PUMP_UNTIL(is_served());
	cr_expect_eq(times("appeared"), TOPICS - 1, "%s", notes.text);
	cr_expect_eq(times("refused"), 1, "%s", notes.text);
	cr_expect_eq(times("refused t4 2 not now"), 1, "%s", notes.text);
}

Test(requests, restarted_topic_among_others_is_asked_for_again)
{
	struct control_message asked;

	subscribe();
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	asked = take(2);
	region_make(asked.join.topic_id - 1, EPOCH + 1000);
	refuse(asked.request, asked.join.topic_id, ESTALE);
	fake.prompt = true;
	while (fake.open > 0)
		grant_open(0);
	PUMP_UNTIL(times("appeared") == TOPICS);
	PUMP_UNTIL(is_served());
	cr_expect_eq(times("refused"), 0, "%s", notes.text);
	cr_expect_eq(fake.leaves, 0);
}

Test(requests, lost_connection_asks_again_for_all)
{
	subscribe();
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	for (int i = 0; i < 3; i++)
		grant_open(0);
	PUMP_UNTIL(times("appeared") == 3);
	fake.ops->drop(fake.peer, "for this test");
	fake.prompt = true;
	fake.requests = 0;
	PUMP_UNTIL(times("appeared") == TOPICS);
	PUMP_UNTIL(is_served());
	cr_expect_eq(fake.requests, TOPICS + (TOPICS + PAGE - 1) / PAGE, "%u", fake.requests);
	for (struct tb_source *s = subscriber->subscriptions->sources; s; s = s->next_source)
		cr_expect(!s->orphan, "%s", s->name);
}

/* Memory that is mapped already is kept. */
Test(requests, same_memory_is_not_mapped_again)
{
	const char *view;

	fake.prompt = true;
	subscribe();
	PUMP_UNTIL(times("appeared") == TOPICS);
	PUMP_UNTIL(is_served());
	view = subscriber->table[0]->mapping.view;
	fake.ops->drop(fake.peer, "for this test");
	PUMP_UNTIL(!subscriber->link);
	PUMP_UNTIL(is_served());
	cr_expect(!subscriber->table[0]->orphan);
	cr_expect_eq(subscriber->table[0]->mapping.view, view);
}

/* Requests of an ended subscription count until they are answered. What they are granted is given
 * back. */
Test(requests, ended_subscription_keeps_the_bound_and_returns_grants)
{
	struct tb_subscription *subscription;

	subscribe();
	subscription = subscribe_more("t*");
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	cr_assert_eq(subscriber->discovery.subscription, subscription);
	tb_unsubscribe(subscription);
	fake.requests = 0;
	pump_idle();
	cr_expect_eq(fake.requests, 0, "%u", fake.requests);
	fake.prompt = true;
	while (fake.open > 0)
		grant_open(0);
	PUMP_UNTIL(times("appeared") == TOPICS);
	PUMP_UNTIL(is_served());
	cr_expect_eq(fake.leaves, FABRIC_UNANSWERED, "%u joins were left", fake.leaves);
}

/* Two subscriptions ask for the same join, and the first ends. */
Test(requests, ended_request_does_not_end_the_join_of_the_next)
{
	struct tb_subscription *first;

	subscribe_to("t1");
	first = subscribe_more("t1");
	PUMP_UNTIL(fake.open == 1);
	tb_unsubscribe(first);
	PUMP_UNTIL(fake.open == 2);
	grant_open(0);
	grant_open(0);
	PUMP_UNTIL(times("appeared") == 1);
	PUMP_UNTIL(is_served());
	cr_expect_eq(fake.leaves, 0, "the join is in use");
}

/* The first subscription has joined the topic, and ends while the next asks for the join. */
static void end_first_of_two(void)
{
	struct tb_subscription *first;

	subscribe_to("t1");
	first = subscribe_more("t1");
	PUMP_UNTIL(fake.open == 1);
	grant_open(0);
	PUMP_UNTIL(times("appeared") == 1 && fake.open == 1);
	tb_unsubscribe(first);
	pump_idle();
	cr_expect_eq(fake.leaves, 0, "it would end the join that is asked for");
}

Test(requests, ended_subscription_does_not_end_a_join_that_is_asked_for)
{
	end_first_of_two();
	grant_open(0);
	PUMP_UNTIL(times("appeared") == 2);
	PUMP_UNTIL(is_served());
	cr_expect_eq(fake.leaves, 0, "the join is in use");
}

Test(requests, refused_join_ends_the_join_of_the_ended_subscription)
{
	struct control_message asked;

	end_first_of_two();
	asked = take(0);
	refuse(asked.request, asked.join.topic_id, EACCES);
	PUMP_UNTIL(fake.leaves == 1);
	cr_expect_eq(fake.left[0], 1);
}

Test(requests, leaves_that_meet_a_full_queue_are_sent_later)
{
	struct control_message arm = { .type = CONTROL_ARM };
	struct tb_subscription *first;
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(&arm, bytes);

	fake.prompt = true;
	subscribe_to("z");
	first = subscribe_more("t*");
	PUMP_UNTIL(times("appeared") == TOPICS);
	PUMP_UNTIL(is_served());
	while (fake.ops->link_send(subscriber->link, bytes, length) == 0)
		;
	tb_unsubscribe(first);
	PUMP_UNTIL(fake.leaves == TOPICS);
	pump_idle();
	cr_expect_eq(fake.leaves, TOPICS, "%u", fake.leaves);
}

/* -- an untrusted publisher ------------------------------------------------------------------- */

Test(requests, second_answer_changes_nothing)
{
	struct control_message asked;

	subscribe();
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	asked = take(0);
	grant(asked.request, asked.join.topic_id);
	grant(asked.request, asked.join.topic_id);
	refuse(asked.request, asked.join.topic_id, ENOENT);
	fake.prompt = true;
	while (fake.open > 0)
		grant_open(0);
	PUMP_UNTIL(is_served());
	cr_expect_eq(times("appeared"), TOPICS, "%s", notes.text);
	cr_expect_eq(times("refused"), 0, "%s", notes.text);
	cr_expect_eq(fake.leaves, 0, "the join is in use");
}

Test(requests, answer_to_unknown_request_is_given_back)
{
	subscribe();
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	grant(fake.asked[0].request + 1000, TOPICS);
	grant(0, TOPICS);
	PUMP_UNTIL(fake.leaves == 2);
	cr_expect_eq(fake.left[0], TOPICS);
	cr_expect_eq(times("appeared"), 0, "%s", notes.text);
	cr_expect_eq(fake.open, FABRIC_UNANSWERED);
}

Test(requests, grant_of_another_request_is_refused)
{
	struct control_message first, second;

	subscribe();
	PUMP_UNTIL(fake.open == FABRIC_UNANSWERED);
	first = take(0);
	second = take(0);
	grant(first.request, second.join.topic_id);
	grant(second.request, first.join.topic_id);
	PUMP_UNTIL(fake.leaves == 2);
	cr_expect_eq(times("appeared"), 0, "%s", notes.text);
	cr_expect_eq(times("the publisher granted a different topic than requested"), 2, "%s",
		     notes.text);
}

/* Two topics of the catalogue have the same name. While the schema of the second is awaited, the
 * first is granted, so the second needs neither. */
Test(requests, schema_of_a_topic_that_was_passed_is_ignored)
{
	for (uint32_t i = 2; i < TOPICS - 1; i++)
		fake.topics[i].name[0] = 'z';
	strcpy(fake.topics[TOPICS - 1].name, "t1");
	fake.topics[TOPICS - 1].shape.epoch = fake.topics[0].shape.epoch;
	fake.topics[TOPICS - 1].shape.fingerprint++;
	fake.schema_held = TOPICS;
	subscribe();
	PUMP_UNTIL(fake.open == 2 && fake.schema_asked.request != 0);
	grant_open(0);
	PUMP_UNTIL(times("appeared") == 1);
	schema_answer(&fake.schema_asked);
	pump_idle();
	grant_open(0);
	PUMP_UNTIL(is_served());
	cr_expect_eq(times("appeared"), 2, "%s", notes.text);
	cr_expect_eq(times("refused"), 0, "%s", notes.text);
}

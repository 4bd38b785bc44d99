/* SPDX-License-Identifier: Apache-2.0 */
/* What a publisher answers, message by message, to a subscriber that speaks the protocol by hand:
 * each request, right and wrong; what only a publisher may say; garbage, replays, floods. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/words.h"
#include "publisher/publisher.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"
#include "tickbus/inspect.h"

#define SLEEPER_TOPICS 600

static struct tb_publisher *publisher;
static const struct fabric_ops *ops;
static const char *place;

/* What the publisher logged last, and how much. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char logged[1024];
static unsigned int warnings;

struct guest {
	struct link *link;
	struct remote *page, *region;
	struct control_welcome welcome;
	struct control_message last, answer; /* answer or news */
	unsigned int welcomes, gones, messages, wakes, revokes, endings;
	uint32_t request;
	int code;
	char why[256];
	const struct control_hello *hello;
};

static struct guest guest, other;
static bool woken[SLEEPER_TOPICS + 1]; /* by topic id */
static unsigned int woken_count;

static void keep_log(void *user, enum tb_log_level level, const char *words)
{
	(void)user;
	if (level > TB_LOG_WARNING)
		return;
	pthread_mutex_lock(&log_lock);
	snprintf(logged, sizeof(logged), "%s", words);
	warnings++;
	pthread_mutex_unlock(&log_lock);
}

static bool was_logged(const char *words)
{
	bool found;

	pthread_mutex_lock(&log_lock);
	found = strstr(logged, words) != NULL;
	pthread_mutex_unlock(&log_lock);
	return found;
}

static void on_welcome(void *user, const void *bytes, size_t length)
{
	struct guest *at = user;

	cr_assert_eq(control_welcome_decode(bytes, length, &at->welcome), 0, "%s", tb_error());
	cr_assert_eq(ops->remote_open(at->link, at->welcome.key,
				      bus_page_bytes(at->welcome.topics_max), &at->page),
		     0, "%s", tb_error());
	at->welcomes++;
}

static void on_message(void *user, const void *bytes, size_t length)
{
	struct guest *at = user;

	cr_assert_eq(control_decode(bytes, length, &at->last), 0, "%s", tb_error());
	at->messages++;
	at->revokes += at->last.type == CONTROL_REVOKE;
	at->endings += at->last.type == CONTROL_ENDING;
	if (at->request && at->last.request == at->request)
		at->answer = at->last; /* a wake may come right behind it */
	if (at->last.type == CONTROL_WAKE) {
		const uint32_t id = at->last.topic.topic_id;

		at->wakes++;
		cr_assert_leq(id, SLEEPER_TOPICS);
		woken_count += !woken[id];
		woken[id] = true;
	}
	if (at->last.type != CONTROL_GRANT)
		return;
	ops->remote_close(at->region);
	cr_assert_eq(ops->remote_open(at->link, at->last.grant.key, at->last.grant.region_bytes,
				      &at->region),
		     0, "%s", tb_error());
}

static void on_gone(void *user, int code, const char *why)
{
	struct guest *at = user;

	at->gones++;
	at->code = code;
	snprintf(at->why, sizeof(at->why), "%s", why);
}

static const struct link_calls calls = { .welcome = on_welcome,
					 .message = on_message,
					 .gone = on_gone };

#define UNTIL(at, condition)                                                                       \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition ": %s",     \
				     (at)->why);                                                   \
			turn(at);                                                                  \
		}                                                                                  \
	} while (0)

static void turn(struct guest *at)
{
	struct pollfd ready = { .fd = ops->link_fd(at->link), .events = POLLIN };

	if (ops->link_poll(at->link) == 0)
		poll(&ready, 1, ops->link_state(at->link) == LINK_GONE ? 0 : 10);
}

static void greet(struct guest *at, const void *hello, size_t bytes)
{
	cr_assert_eq(ops->connect(&at->link, place, hello, bytes, &calls, at), 0, "%s", tb_error());
	UNTIL(at, at->welcomes || at->gones);
}

static void join_bus(struct guest *at)
{
	const struct control_hello hello = { .version_low = 1, .version_high = 1 };
	uint8_t bytes[FABRIC_HELLO_BYTES];

	greet(at, bytes, control_hello_encode(&hello, bytes));
	cr_assert_eq(at->welcomes, 1, "%s", at->why);
}

static void leave_bus(struct guest *at)
{
	if (!at->link)
		return;
	ops->link_break(at->link);
	ops->remote_close(at->page);
	ops->remote_close(at->region);
	ops->link_close(at->link);
	*at = (struct guest){ 0 };
}

static void say(struct guest *at, struct control_message *message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);

	cr_assert_gt(length, 0);
	cr_assert_eq(ops->link_send(at->link, bytes, length), 0, "%s", tb_error());
}

/* The answer to a request. */
static const struct control_message *ask(struct guest *at, struct control_message message)
{
	message.request = ++at->request;
	say(at, &message);
	UNTIL(at, at->answer.request == at->request || at->gones);
	cr_assert_eq(at->gones, 0, "%s", at->why);
	return &at->answer;
}

static void expect_refusal(const struct control_message *answer, uint32_t topic_id, int code,
			   const char *words)
{
	cr_assert_eq(answer->type, CONTROL_REFUSE, "type %d", answer->type);
	cr_expect_eq(answer->refuse.code, (uint32_t)code, "%u", answer->refuse.code);
	cr_expect_eq(answer->refuse.topic_id, topic_id);
	cr_expect_str_eq(answer->refuse.text, words);
}

static const struct control_message *catalogue(const char *pattern, uint32_t after)
{
	struct control_message message = { .type = CONTROL_CATALOGUE };

	message.catalogue.after = after;
	strcpy(message.catalogue.pattern, pattern);
	return ask(&guest, message);
}

static const struct control_message *join(struct guest *at, uint32_t topic_id, uint64_t epoch)
{
	return ask(at,
		   (struct control_message){ .type = CONTROL_JOIN,
					     .join = { .topic_id = topic_id, .epoch = epoch } });
}

static uint64_t epoch_of(const char *name)
{
	const struct control_message *answer = catalogue(name, 0);

	cr_assert_eq(answer->topics.count, 1);
	return answer->topics.topic[0].shape.epoch;
}

static struct control_message about(enum control_type type, uint32_t topic_id, uint64_t epoch,
				    uint64_t head)
{
	return (struct control_message){
		.type = type, .topic = { .topic_id = topic_id, .epoch = epoch, .head = head }
	};
}

/* A counter of the bus, asked for by the other guest: so it lives, too. */
static uint64_t counter(enum bus_counter index)
{
	const struct control_message *answer =
		ask(&other, (struct control_message){ .type = CONTROL_COUNTERS,
						      .counters = { .scope = TB_SCOPE_BUS } });

	cr_assert_eq(answer->type, CONTROL_VALUES);
	cr_assert_lt(index, answer->values.count);
	return answer->values.entry[index].value;
}

static void enter(void)
{
	static const char *const listen[] = { "shm:test" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = listen,
						      .listen_count = 1,
						      .topics_max = 1024,
						      .stale_ms = 400,
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log };

	scene_enter();
	ops = fabric_find(listen[0], &place);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
}

static void leave(void)
{
	leave_bus(&guest);
	leave_bus(&other);
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(answers, .init = enter, .fini = leave, .timeout = 60);

/* -- hello --------------------------------------------------------------------------------------
 */

static void expect_sent_away(struct control_hello hello, int code, const char *words)
{
	uint8_t bytes[FABRIC_HELLO_BYTES];

	greet(&guest, bytes, control_hello_encode(&hello, bytes));
	cr_expect_eq(guest.gones, 1);
	cr_expect_eq(guest.code, code);
	cr_expect_str_eq(guest.why, words);
	UNTIL(&guest, was_logged(words));
	leave_bus(&guest);
}

Test(answers, a_hello_that_cannot_be_served_is_refused_with_both_sides_values)
{
	expect_sent_away((struct control_hello){ .version_low = 2, .version_high = 7 }, EPROTO,
			 "no common version: the subscriber speaks 2 to 7, the publisher 1 to 1");
	expect_sent_away(
		(struct control_hello){ .version_low = 1, .version_high = 1, .features = 0x10 },
		EPROTO, "the subscriber needs features 0x10, the publisher has none");
	expect_sent_away(
		(struct control_hello){ .version_low = 1, .version_high = 1, .ticket = { 0, 1 } },
		EACCES,
		"the subscriber shows a ticket, and the bus has no realms that ask for one");
	greet(&guest, "hello", 5);
	cr_expect_eq(guest.code, EPROTO);
	cr_expect_str_eq(guest.why, "hello message of 5 bytes: has no tickbus magic at byte 0");
	leave_bus(&guest);
	join_bus(&other);
	cr_expect_eq(counter(BUS_REFUSED), 4);
	cr_expect_eq(counter(BUS_SUBSCRIBERS), 1);
}

Test(answers, a_wider_range_of_versions_is_served_with_the_common_one)
{
	const struct control_hello hello = { .version_low = 1, .version_high = 200 };
	uint8_t bytes[FABRIC_HELLO_BYTES];
	struct bus_pulse pulse;

	greet(&guest, bytes, control_hello_encode(&hello, bytes));
	cr_assert_eq(guest.welcomes, 1, "%s", guest.why);
	cr_expect_eq(guest.welcome.version, 1);
	cr_expect_eq(guest.welcome.stale_ms, 400);
	cr_expect_eq(guest.welcome.topics_max, 1024);
	cr_expect_str_eq(guest.welcome.name, "test");
	do
		words_load(&pulse, ops->view(guest.page), sizeof(pulse));
	while (bus_page_verify_pulse(&pulse, guest.welcome.bus_id, 1024) < 0);
	cr_expect_eq(pulse.topics, 0);
}

/* -- realms -------------------------------------------------------------------------------------
 */

static const uint8_t desk[TB_TICKET_BYTES] = { [0] = 1 }, risk[TB_TICKET_BYTES] = { [31] = 1 };

static void enter_realms(void)
{
	static const char *const quotes = "*.quote", *const all[] = { "a.*", ">" };
	const struct tb_realm realms[] = {
		{ sizeof(*realms), .name = "desk", .ticket = desk, .topics = &quotes,
		  .topic_count = 1 },
		{ sizeof(*realms), .name = "risk", .ticket = risk, .topics = all,
		  .topic_count = 2 },
	};
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .stale_ms = 400,
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log,
						      .realms = realms,
						      .realm_count = 2 };
	static const struct tb_counter table[] = { { "messages", "messages", "read" } };
	static const uint64_t messages = 7;

	scene_enter();
	ops = fabric_find("shm:test", &place);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	scene_topic(publisher, "a.trade", 64, 0);
	scene_topic(publisher, "a.quote", 64, 0);
	scene_topic(publisher, "b.trade", 64, 0);
	cr_assert_eq(tb_publisher_count(publisher, "a", table, &messages, 1), 0);
}

TestSuite(realms, .init = enter_realms, .fini = leave, .timeout = 60);

static void join_realm(struct guest *at, const uint8_t ticket[TB_TICKET_BYTES])
{
	struct control_hello hello = { .version_low = 1, .version_high = 1 };
	uint8_t bytes[FABRIC_HELLO_BYTES];

	memcpy(hello.ticket, ticket, TB_TICKET_BYTES);
	greet(at, bytes, control_hello_encode(&hello, bytes));
	cr_assert_eq(at->welcomes, 1, "%s", at->why);
}

Test(realms, who_shows_no_ticket_or_a_wrong_one_is_refused_in_words)
{
	struct control_hello hello = { .version_low = 1, .version_high = 1 };

	expect_sent_away(hello, EACCES,
			 "the subscriber shows no ticket, and the publisher asks for one");
	for (size_t bit = 1; bit < 8 * TB_TICKET_BYTES; bit += 17) {
		memcpy(hello.ticket, desk, TB_TICKET_BYTES);
		hello.ticket[bit / 8] ^= (uint8_t)(1 << bit % 8);
		expect_sent_away(hello, EACCES,
				 "the subscriber's ticket is not known to the publisher");
	}
}

/* The same words and the same code, whatever it is that cannot be had. */
static void expect_nothing(uint32_t id, uint64_t epoch)
{
	const struct control_message asks[] = {
		{ .type = CONTROL_JOIN, .join = { .topic_id = id, .epoch = epoch } },
		{ .type = CONTROL_SCHEMA, .schema = { .topic_id = id } },
		{ .type = CONTROL_UNPUBLISHED, .unpublished = { .topic_id = id } },
	};
	char words[128];

	snprintf(words, sizeof(words),
		 "bus test: found topic id %u, expected one that the catalogue tells", id);
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
		expect_refusal(ask(&guest, asks[i]), id, ENOENT, words);
}

Test(realms, topics_of_others_are_as_topics_that_are_not_there)
{
	const struct control_message *answer;
	struct control_message arm;
	uint64_t epochs[3];

	join_realm(&other, risk);
	answer = ask(&other, (struct control_message){ .type = CONTROL_CATALOGUE,
						       .catalogue = { .pattern = ">" } });
	cr_assert_eq(answer->topics.count, 3);
	for (size_t i = 0; i < 3; i++)
		epochs[i] = answer->topics.topic[i].shape.epoch;
	join_realm(&guest, desk);
	answer = catalogue(">", 0);
	cr_assert_eq(answer->topics.count, 1);
	cr_expect_str_eq(answer->topics.topic[0].name, "a.quote");
	cr_expect_eq(answer->topics.more, 0);
	cr_expect_eq(catalogue("a.trade", 0)->topics.count, 0);
	cr_expect_eq(catalogue(">", 2)->topics.count, 0);
	expect_nothing(1, epochs[0]);
	expect_nothing(3, epochs[2]);
	expect_nothing(4, epochs[2]);
	arm = about(CONTROL_ARM, 1, epochs[0], 0);
	say(&guest, &arm);
	cr_expect_eq(join(&guest, 2, epochs[1])->type, CONTROL_GRANT);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 1);
	cr_expect_eq(guest.wakes, 0);
}

static const struct control_message *block(struct guest *at, uint32_t scope, uint32_t index)
{
	return ask(at, (struct control_message){ .type = CONTROL_COUNTERS,
						 .counters = { .scope = scope, .index = index } });
}

Test(realms, counters_are_those_of_what_is_seen)
{
	join_realm(&guest, desk);
	join_realm(&other, risk);
	cr_expect_str_eq(block(&guest, TB_SCOPE_TOPIC, 0)->values.name, "a.quote");
	cr_expect_eq(guest.answer.values.blocks, 1);
	expect_refusal(block(&guest, TB_SCOPE_TOPIC, 1), 0, ENOENT,
		       "no block 1 of counters in scope 2");
	expect_refusal(block(&guest, TB_SCOPE_FEED, 0), 0, ENOENT,
		       "no block 0 of counters in scope 3");
	cr_expect_str_eq(block(&other, TB_SCOPE_TOPIC, 2)->values.name, "b.trade");
	cr_expect_eq(other.answer.values.blocks, 3);
	cr_expect_str_eq(block(&other, TB_SCOPE_FEED, 0)->values.name, "a");
}

/* The entry of a topic on a guest's page, read while it is written: whether there is one. */
static bool entry_on_page(struct guest *at, uint32_t index, struct bus_entry *entry)
{
	static const struct bus_entry none;
	const char *from = (const char *)ops->view(at->page) + sizeof(struct bus_pulse) +
			   index * sizeof(*entry);

	do
		words_load(entry, from, sizeof(*entry));
	while (memcmp(entry, &none, sizeof(none)) != 0 &&
	       bus_page_verify_entry(entry, index, at->welcome.bus_id) < 0);
	return entry->topic_id != 0;
}

static void pulse_on_page(struct guest *at, struct bus_pulse *pulse)
{
	do
		words_load(pulse, ops->view(at->page), sizeof(*pulse));
	while (bus_page_verify_pulse(pulse, at->welcome.bus_id, at->welcome.topics_max) < 0);
}

/* How much farther the second's count is than the first's: time raises both. */
static uint64_t pulses_ahead(void)
{
	struct bus_pulse pulse, others;
	struct bus_entry entry;

	publisher_lock(publisher);
	pulse_on_page(&guest, &pulse);
	pulse_on_page(&other, &others);
	cr_expect(entry_on_page(&guest, 1, &entry) && entry.beat == pulse.count);
	cr_expect(entry_on_page(&other, 1, &entry) && entry.beat == others.count);
	publisher_unlock(publisher);
	return others.count - pulse.count;
}

Test(realms, each_has_a_bus_page_of_its_own_topics)
{
	struct bus_pulse before, after, others;
	uint64_t ahead;
	struct bus_entry entry;

	join_realm(&guest, desk);
	join_realm(&other, risk);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(entry_on_page(&guest, i, &entry), i == 1, "entry %u", i);
		cr_assert(entry_on_page(&other, i, &entry), "entry %u", i);
	}
	pulse_on_page(&guest, &before);
	pulse_on_page(&other, &others);
	cr_expect_eq(before.topics, 2, "found %u, expected the highest id that is seen",
		     before.topics);
	cr_expect_eq(others.topics, 3);
	ahead = pulses_ahead();
	scene_topic(publisher, "c.trade", 64, 0);
	cr_expect_eq(pulses_ahead(), ahead + 1, "others' topic appeared");
	pulse_on_page(&other, &others);
	cr_assert_eq(tb_topic_restart(publisher->topics[2]), 0);
	do
		pulse_on_page(&other, &after);
	while (after.changes == others.changes);
	pulse_on_page(&guest, &after);
	cr_expect_eq(after.changes, before.changes, "it was a topic of others");
	cr_expect_eq(after.topics, 2);
	cr_expect_eq(pulses_ahead(), ahead + 2, "others' topic began again");
	tb_topic_end(publisher->topics[2]);
	do
		cr_assert(entry_on_page(&other, 2, &entry));
	while (entry.state != TOPIC_ENDED);
	cr_expect_eq(pulses_ahead(), ahead + 3, "others' topic ended");
	cr_assert_eq(tb_topic_restart(publisher->topics[1]), 0);
	do
		pulse_on_page(&guest, &after);
	while (after.changes == before.changes);
	cr_expect_eq(pulses_ahead(), ahead + 3, "a topic of both began again");
	cr_expect_eq(after.changes, before.changes + 1, "changes of others were told");
	cr_expect_eq(after.topics, 2);
}

Test(realms, a_topic_in_none_of_them_is_told_in_the_log)
{
	static const char *const one = "x";
	const struct tb_realm lonely = { sizeof(lonely), .name = "anonymous", .topics = &one,
					 .topic_count = 1 };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "lonely",
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log,
						      .realms = &lonely,
						      .realm_count = 1 };
	struct tb_publisher *bus;

	cr_assert_eq(tb_publisher_open(&bus, &options), 0, "%s", tb_error());
	scene_topic(bus, "x", 64, 0);
	cr_expect_not(was_logged("it is in no realm"));
	scene_topic(bus, "y", 64, 0);
	cr_expect(was_logged("topic y: it is in no realm: nobody can read it"));
	tb_publisher_close(bus);
}

/* -- requests -----------------------------------------------------------------------------------
 */

Test(answers, the_catalogue_comes_in_pages_of_what_matches)
{
	const struct control_message *answer;
	uint32_t after = 0, seen = 0;
	char name[32];

	for (unsigned int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%s.t%u", i % 2 ? "odd" : "even", i);
		scene_topic(publisher, name, 64, 0);
	}
	join_bus(&guest);
	do {
		answer = catalogue("odd.*", after);
		cr_assert_eq(answer->type, CONTROL_TOPICS);
		for (uint32_t i = 0; i < answer->topics.count; i++, seen++) {
			const struct control_topic *topic = &answer->topics.topic[i];

			snprintf(name, sizeof(name), "odd.t%u", 2 * seen + 1);
			cr_expect_str_eq(topic->name, name);
			cr_expect_str_eq(topic->schema, "x");
			cr_expect_eq(topic->shape.topic_id, 2 * seen + 2);
			cr_expect_eq(topic->shape.slots, 64);
			cr_expect_eq(topic->state, TOPIC_LIVE);
			after = topic->shape.topic_id;
		}
		cr_expect_eq(answer->topics.more, seen < 5);
	} while (answer->topics.more);
	cr_expect_eq(seen, 5);
	cr_expect_eq(catalogue("none.*", 0)->topics.count, 0);
	cr_expect_eq(catalogue(">", 10)->topics.count, 0);
	cr_expect_eq(catalogue(">", UINT32_MAX)->topics.count, 0);
	expect_refusal(catalogue("UPPER", 0), 0, EINVAL,
		       "topic pattern: found \"UPPER\", expected parts of a-z, 0-9, '_', '-', '*' "
		       "(or '>' as the last part) with single dots between");
}

Test(answers, a_schema_comes_in_parts_and_is_the_one_given)
{
	struct tb_schema *schema = NULL;
	struct tb_topic_options options = { .size = sizeof(options), .name = "deep", .slots = 64 };
	struct control_message message = { .type = CONTROL_SCHEMA, .schema = { .topic_id = 1 } };
	const struct control_message *answer;
	struct tb_topic *topic;
	char text[CONTROL_SCHEMA_MAX];
	const char *expected;
	size_t length;

	cr_assert_eq(tb_schema_load(&schema, "depth10"), 0);
	options.schema = schema;
	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	expected = tb_schema_text(schema, &length);
	cr_assert_gt(length, CONTROL_SCHEMA_PART, "it needs parts");
	join_bus(&guest);
	do {
		answer = ask(&guest, message);
		cr_assert_eq(answer->type, CONTROL_SCHEMA_BYTES);
		cr_assert_eq(answer->schema_bytes.offset, message.schema.offset);
		cr_assert_eq(answer->schema_bytes.total, length);
		cr_assert_gt(answer->schema_bytes.bytes, 0);
		memcpy(text + message.schema.offset, answer->schema_bytes.part,
		       answer->schema_bytes.bytes);
		message.schema.offset += answer->schema_bytes.bytes;
	} while (message.schema.offset < length);
	cr_expect_arr_eq(text, expected, length);
	cr_expect_eq(ask(&guest, message)->schema_bytes.bytes, 0, "at the end there is no more");
	message.schema.offset = (uint32_t)length + 1;
	snprintf(text, sizeof(text),
		 "topic deep: found offset %zu, expected at most the schema's %zu bytes",
		 length + 1, length);
	expect_refusal(ask(&guest, message), 1, ERANGE, text);
	message.schema.topic_id = 2;
	expect_refusal(ask(&guest, message), 2, ENOENT,
		       "bus test: found topic id 2, expected one that the catalogue tells");
	tb_schema_free(schema);
}

Test(answers, a_join_gives_the_memory_once_and_a_leave_takes_it_back)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const struct control_message *answer;
	struct region_header header;
	struct control_message message;
	uint64_t epoch;
	char words[200];

	join_bus(&guest);
	epoch = epoch_of("t");
	expect_refusal(join(&guest, 0, epoch), 0, ENOENT,
		       "bus test: found topic id 0, expected one that the catalogue tells");
	expect_refusal(join(&guest, 2, epoch), 2, ENOENT,
		       "bus test: found topic id 2, expected one that the catalogue tells");
	snprintf(words, sizeof(words),
		 "topic t: found epoch %016" PRIx64 ", expected %016" PRIx64
		 ": it began again meanwhile",
		 epoch + 1, epoch);
	expect_refusal(join(&guest, 1, epoch + 1), 1, ESTALE, words);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0);
	for (int times = 0; times < 3; times++) {
		answer = join(&guest, 1, epoch);
		cr_assert_eq(answer->type, CONTROL_GRANT);
		cr_expect_str_eq(answer->grant.topic.name, "t");
		memcpy(&header, ops->view(guest.region), sizeof(header));
		cr_expect_eq(region_header_verify(&header, &answer->grant.topic.shape, "t"), 0,
			     "%s", tb_error());
		cr_expect_eq(tb_publisher_joins(publisher, &topic, 1), 1, "again is still once");
	}
	message = about(CONTROL_LEAVE, 1, epoch + 1, 0);
	say(&guest, &message);
	message = about(CONTROL_LEAVE, 7, epoch, 0);
	say(&guest, &message);
	cr_expect_eq(epoch_of("t"), epoch); /* all before it was worked off */
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 1);
	for (int times = 0; times < 3; times++) {
		message = about(CONTROL_LEAVE, 1, epoch, 0);
		say(&guest, &message);
	}
	cr_expect_eq(epoch_of("t"), epoch);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0);
}

#define NONE_LEFT "topic t: at the publisher: no descriptor for shared memory: Too many open files"

/* Memory gets no descriptor below 3, so the publisher has none for the join. */
static void expect_none_left(uint64_t epoch, int times)
{
	struct rlimit limit, none;
	bool refused = true;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 4, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (times-- > 0)
		refused = join(&guest, 1, epoch)->type == CONTROL_REFUSE && refused;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0); /* Criterion needs some itself */
	cr_expect(refused);
	expect_refusal(&guest.answer, 1, EMFILE, NONE_LEFT);
}

Test(answers, a_join_that_is_refused_is_logged_once_until_it_works)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	char words[256];
	uint64_t epoch;

	join_bus(&guest);
	epoch = epoch_of("t");
	join(&guest, 1, epoch + 1); /* as of one that began again meanwhile */
	cr_expect_eq(warnings, 0, "%s", logged);
	expect_none_left(epoch, 3);
	snprintf(words, sizeof(words), "pid %d of user %u was refused a join: " NONE_LEFT,
		 (int)getpid(), (unsigned int)getuid());
	cr_expect_str_eq(logged, words);
	cr_expect_eq(warnings, 1);
	cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	expect_none_left(epoch_of("t"), 2);
	cr_expect_eq(warnings, 2);
	join(&guest, 9, epoch);
	join(&guest, 9, epoch);
	cr_expect(was_logged("was refused a join: bus test: found topic id 9, "), "%s", logged);
	cr_expect_eq(warnings, 3);
}

Test(answers, joins_of_what_no_topic_can_be_are_logged_once_whatever_works_meanwhile)
{
	uint64_t epoch;

	scene_topic(publisher, "t", 64, 0);
	join_bus(&guest);
	epoch = epoch_of("t");
	for (int i = 0; i < 10; i++) {
		cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT);
		for (uint32_t times = 1; times < 4; times++)
			cr_assert_eq(join(&guest, 1 + times * 1024, epoch)->type, CONTROL_REFUSE);
	}
	cr_expect_eq(warnings, 1, "%u lines", warnings);
}

Test(answers, a_sleeper_is_woken_once_when_head_moved_and_at_once_when_it_had)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch;

	join_bus(&guest);
	epoch = epoch_of("t");
	arm = about(CONTROL_ARM, 1, epoch, 0);
	say(&guest, &arm); /* not joined: nothing comes of it */
	cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT);
	for (uint64_t head = 1; head <= 100; head++) {
		arm.topic.head = head - 1;
		if (head % 2)
			say(&guest, &arm);
		scene_publish(topic, head, head);
		if (head % 2 == 0)
			say(&guest, &arm);
		UNTIL(&guest, guest.wakes == head);
		cr_assert_eq(guest.last.topic.topic_id, 1);
		cr_assert_eq(guest.last.topic.epoch, epoch);
		cr_assert_eq(guest.last.topic.head, head);
		cr_assert_eq(guest.last.request, 0);
	}
	scene_publish(topic, 101, 110);
	cr_expect_eq(epoch_of("t"), epoch);
	cr_expect_eq(guest.wakes, 100, "who is not armed is not woken");
	arm.topic.head = 110;
	say(&guest, &arm);
	cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT); /* another reader of its own */
	scene_publish(topic, 111, 111);
	UNTIL(&guest, guest.wakes == 101);
	arm.topic.head = 120;
	say(&guest, &arm);
	cr_assert_eq(tb_topic_restart(topic), 0);
	epoch = epoch_of("t");
	cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT);
	scene_publish(topic, 1, 2);
	cr_expect_eq(epoch_of("t"), epoch);
	cr_expect_leq(guest.wakes, 102, "who has joined the next epoch begins anew, awake");
}

/* Two readers of one subscriber: one has read a record before its flush. */
Test(answers, of_two_sleepers_that_share_a_join_the_one_that_has_read_less_is_woken)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch;

	scene_publish(topic, 1, 5);
	join_bus(&guest);
	epoch = epoch_of("t");
	cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT);
	for (uint64_t head = 5; head <= 6; head++) {
		arm = about(CONTROL_ARM, 1, epoch, head);
		say(&guest, &arm);
	}
	cr_assert_eq(epoch_of("t"), epoch); /* both were taken */
	cr_assert_eq(guest.wakes, 0);
	scene_publish(topic, 6, 6);
	UNTIL(&guest, guest.wakes == 1);
}

/* A word that is set needs no second interruption of the publishing thread; a 2, which a flush
 * takes like a 1, shows whether it was set again. */
Test(answers, one_more_sleeper_does_not_arm_what_is_armed)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch;

	join_bus(&guest);
	join_bus(&other);
	epoch = epoch_of("t");
	cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT);
	cr_assert_eq(join(&other, 1, epoch)->type, CONTROL_GRANT);
	arm = about(CONTROL_ARM, 1, epoch, 0);
	say(&guest, &arm);
	cr_assert_eq(epoch_of("t"), epoch);
	cr_assert_eq(atomic_load(&topic->wakeup.armed), 1);
	atomic_store(&topic->wakeup.armed, 2);
	say(&other, &arm);
	counter(BUS_WAKES);
	cr_expect_eq(atomic_load(&topic->wakeup.armed), 2);
	scene_publish(topic, 1, 1);
	UNTIL(&guest, guest.wakes == 1);
	UNTIL(&other, other.wakes == 1);
}

/* More at once than its socket holds: it reads some, sleeps again, and is told of the rest. */
Test(answers, a_sleeper_of_very_many_topics_is_woken_and_not_dropped)
{
	static struct tb_topic *topics[SLEEPER_TOPICS];
	uint64_t epochs[SLEEPER_TOPICS];
	char name[32];

	join_bus(&guest);
	for (uint32_t i = 0; i < SLEEPER_TOPICS; i++) {
		struct control_message arm;

		snprintf(name, sizeof(name), "t%u", i);
		topics[i] = scene_topic(publisher, name, 64, 0);
		epochs[i] = epoch_of(name);
		cr_assert_eq(join(&guest, i + 1, epochs[i])->type, CONTROL_GRANT);
		arm = about(CONTROL_ARM, i + 1, epochs[i], 0);
		say(&guest, &arm);
		cr_assert_eq(epoch_of(name), epochs[i]); /* it was taken */
	}
	for (uint32_t i = 0; i < SLEEPER_TOPICS; i++)
		scene_publish(topics[i], 1, 1);
	UNTIL(&guest, woken_count == SLEEPER_TOPICS || guest.gones);
	cr_expect_eq(guest.gones, 0, "%s", guest.why);
	cr_expect_eq(warnings, 0, "%s", logged);
}

Test(answers, counters_come_with_names_and_units_page_by_page)
{
	const struct control_message *answer;
	const struct tb_counter *table;
	size_t count;
	struct control_message message = { .type = CONTROL_COUNTERS,
					   .counters = { .scope = TB_SCOPE_TOPIC } };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	scene_publish(topic, 1, 5);
	tb_topic_unpublished(topic, "X");
	table = tb_counters(TB_SCOPE_TOPIC, &count);
	join_bus(&guest);
	answer = ask(&guest, message);
	cr_assert_eq(answer->type, CONTROL_VALUES);
	cr_expect_eq(answer->values.blocks, 1);
	cr_expect_eq(answer->values.total, count);
	cr_expect_str_eq(answer->values.name, "t");
	for (uint32_t i = 0; i < answer->values.count; i++) {
		cr_expect_str_eq(answer->values.entry[i].name, table[i].name);
		cr_expect_str_eq(answer->values.entry[i].unit, table[i].unit);
	}
	cr_expect_eq(answer->values.entry[TOPIC_RECORDS].value, 5);
	cr_expect_eq(answer->values.entry[TOPIC_INSTRUMENTS].value, 2);
	cr_expect_eq(answer->values.entry[TOPIC_UNPUBLISHED].value, 1);
	cr_expect_eq(answer->values.entry[TOPIC_CAPACITY].value, 16);
	cr_expect_eq(answer->values.entry[TOPIC_SUBSCRIBERS].value, 0);
	cr_expect_eq(answer->values.entry[TOPIC_RESTARTS].value, 0);
	cr_expect_gt(answer->values.entry[TOPIC_FLUSHES].value, 5);
	cr_assert_eq(tb_topic_restart(topic), 0);
	cr_assert_eq(join(&guest, 1, epoch_of("t"))->type, CONTROL_GRANT);
	answer = ask(&guest, message);
	cr_expect_eq(answer->values.entry[TOPIC_SUBSCRIBERS].value, 1);
	cr_expect_eq(answer->values.entry[TOPIC_RESTARTS].value, 1);
	cr_expect_eq(answer->values.entry[TOPIC_RECORDS].value, 0);
	message.counters.after = (uint32_t)count - 1;
	answer = ask(&guest, message);
	cr_expect_eq(answer->values.count, 1);
	cr_expect_str_eq(answer->values.entry[0].name, table[count - 1].name);
	message.counters.after = UINT32_MAX;
	cr_expect_eq(ask(&guest, message)->values.count, 0);
	message.counters.index = 1;
	expect_refusal(ask(&guest, message), 0, ENOENT, "no block 1 of counters in scope 2");
	message.counters.scope = 77;
	expect_refusal(ask(&guest, message), 0, ENOENT, "no block 1 of counters in scope 77");
}

Test(answers, counters_of_feeds_are_shown_as_their_tables_say)
{
	static const struct tb_counter table[] = { { "eaten", "apples", "apples that were eaten" },
						   { "left", "apples", "apples that are left" } };
	static uint64_t values[2] = { 3, 4 };
	struct control_message message = { .type = CONTROL_COUNTERS,
					   .counters = { .scope = TB_SCOPE_FEED, .index = 1 } };
	const struct control_message *answer;

	cr_assert_eq(tb_publisher_count(publisher, "first", table, values, 1), 0);
	cr_assert_eq(tb_publisher_count(publisher, "second", table, values, 2), 0);
	join_bus(&guest);
	answer = ask(&guest, message);
	cr_assert_eq(answer->type, CONTROL_VALUES);
	cr_expect_eq(answer->values.blocks, 2);
	cr_expect_eq(answer->values.index, 1);
	cr_expect_eq(answer->values.total, 2);
	cr_expect_str_eq(answer->values.name, "second");
	for (uint32_t i = 0; i < 2; i++) {
		cr_expect_str_eq(answer->values.entry[i].name, table[i].name);
		cr_expect_str_eq(answer->values.entry[i].unit, table[i].unit);
		cr_expect_eq(answer->values.entry[i].value, values[i]);
	}
	message.counters.index = 2;
	expect_refusal(ask(&guest, message), 0, ENOENT, "no block 2 of counters in scope 3");
}

Test(answers, names_left_out_come_page_by_page)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message message = { .type = CONTROL_UNPUBLISHED,
					   .unpublished = { .topic_id = 1 } };
	const struct control_message *answer;
	uint32_t seen = 0;
	char name[32];

	for (unsigned int i = 0; i < 50; i++)
		for (unsigned int times = 0; times <= i; times++) {
			snprintf(name, sizeof(name), "N%u", i);
			tb_topic_unpublished(topic, name);
		}
	join_bus(&guest);
	do {
		answer = ask(&guest, message);
		cr_assert_eq(answer->type, CONTROL_UNPUBLISHED_NAMES);
		cr_expect_eq(answer->unpublished_names.total, 50);
		for (uint32_t i = 0; i < answer->unpublished_names.count; i++, seen++) {
			snprintf(name, sizeof(name), "N%u", seen);
			cr_expect_str_eq(answer->unpublished_names.entry[i].name, name);
			cr_expect_eq(answer->unpublished_names.entry[i].records, seen + 1);
		}
		message.unpublished.after = seen;
	} while (answer->unpublished_names.count > 0);
	cr_expect_eq(seen, 50);
	message.unpublished.after = UINT32_MAX;
	cr_expect_eq(ask(&guest, message)->unpublished_names.count, 0);
	message.unpublished.topic_id = 9;
	expect_refusal(ask(&guest, message), 9, ENOENT,
		       "bus test: found topic id 9, expected one that the catalogue tells");
}

static void keep_unpublished(void *user, const struct tb_unpublished *unpublished)
{
	snprintf(user, 32, "%s", unpublished->instrument);
}

/* Any name may be left out, since it was no name for the directory. */
Test(answers, a_name_that_is_not_ascii_is_counted_and_all_can_be_looked_at)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = "shm:test" };
	char name[32] = "";

	cr_assert_eq(tb_instrument(topic, "M\xc3\x9cLLER"), -EINVAL);
	tb_topic_unpublished(topic, "M\xc3\x9cLLER");
	cr_assert_geq(tb_inspect_counters(&options, NULL, keep_unpublished, name), 0, "%s",
		      tb_error());
	cr_expect_str_eq(name, "M??LLER");
}

Test(answers, who_joined_is_told_of_a_new_epoch_and_of_the_end)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	uint64_t epoch, next;

	join_bus(&guest);
	join_bus(&other);
	epoch = epoch_of("t");
	cr_assert_eq(join(&other, 1, epoch)->type, CONTROL_GRANT);
	cr_assert_eq(join(&guest, 1, epoch)->type, CONTROL_GRANT);
	cr_expect_eq(counter(BUS_JOINS), 2);
	scene_publish(topic, 1, 3);
	cr_assert_eq(tb_topic_restart(topic), 0);
	UNTIL(&other, other.last.type == CONTROL_REVOKE);
	cr_expect_eq(other.last.topic.epoch, epoch);
	UNTIL(&guest, guest.last.type == CONTROL_REVOKE);
	cr_expect_eq(guest.last.topic.topic_id, 1);
	cr_expect_eq(guest.last.topic.epoch, epoch);
	cr_expect_eq(guest.last.topic.head, 0, "how far it went says its memory");
	next = epoch_of("t");
	cr_expect_neq(next, epoch);
	cr_assert_eq(join(&guest, 1, next)->type, CONTROL_GRANT);
	scene_publish(topic, 1, 2);
	tb_topic_end(topic);
	UNTIL(&guest, guest.last.type == CONTROL_ENDING);
	cr_expect_eq(guest.last.topic.epoch, next);
	cr_expect_eq(guest.last.topic.head, 2);
	cr_expect_eq(counter(BUS_JOINS), 2);
	cr_expect_eq(other.endings, 0, "the memory that it was given did not end");
	cr_expect_eq(catalogue("t", 0)->topics.topic[0].state, TOPIC_ENDED);
	leave_bus(&guest);
	UNTIL(&other, counter(BUS_JOINS) == 1);
}

/* -- what is no request -------------------------------------------------------------------------
 */

static void expect_dropped(const char *words)
{
	UNTIL(&guest, guest.gones == 1 && was_logged(words));
	cr_expect_eq(guest.code, ECONNRESET);
	cr_expect(was_logged("was dropped: "), "%s", logged);
	leave_bus(&guest);
}

Test(answers, what_only_a_publisher_may_say_ends_the_connection)
{
	const enum control_type types[] = { CONTROL_TOPICS, CONTROL_SCHEMA_BYTES,
					    CONTROL_GRANT,  CONTROL_REFUSE,
					    CONTROL_WAKE,   CONTROL_VALUES,
					    CONTROL_REVOKE, CONTROL_UNPUBLISHED_NAMES,
					    CONTROL_ENDING };
	const size_t count = sizeof(types) / sizeof(types[0]);
	char words[100];

	scene_topic(publisher, "t", 64, 0);
	join_bus(&other);
	for (size_t i = 0; i < count; i++) {
		struct control_message message = { .type = types[i] };

		join_bus(&guest);
		cr_assert_eq(join(&guest, 1, epoch_of("t"))->type, CONTROL_GRANT);
		if (types[i] == CONTROL_SCHEMA_BYTES)
			message.schema_bytes.total = 1;
		if (types[i] == CONTROL_REFUSE)
			message.refuse.code = 1;
		if (types[i] == CONTROL_GRANT)
			message.grant.topic = guest.last.grant.topic;
		say(&guest, &message);
		snprintf(words, sizeof(words), "found a message of type %d, expected a request",
			 types[i]);
		expect_dropped(words);
		cr_expect_eq(counter(BUS_MALFORMED), i + 1);
		cr_expect_eq(counter(BUS_DROPPED), i + 1);
		cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0);
		cr_expect_eq(counter(BUS_SUBSCRIBERS), 1);
	}
}

Test(answers, a_message_that_cannot_be_read_ends_the_connection_and_is_told)
{
	join_bus(&other);
	join_bus(&guest);
	cr_assert_eq(ops->link_send(guest.link, "\1\0\0", 3), 0);
	expect_dropped("control message of 3 bytes: ends too early at byte 2");
	join_bus(&guest);
	cr_assert_eq(ops->link_send(guest.link, "\x7f\0\0\0\0\0\0\0", 8), 0);
	expect_dropped("control message of 8 bytes: has an unknown type at byte 0");
	cr_expect_eq(counter(BUS_MALFORMED), 2);
}

/* A request of a subscriber with random numbers, often right ones. */
static void say_random(uint64_t *state, uint64_t epoch)
{
	static const enum control_type types[] = { CONTROL_CATALOGUE,  CONTROL_SCHEMA,
						   CONTROL_JOIN,       CONTROL_LEAVE,
						   CONTROL_ARM,        CONTROL_COUNTERS,
						   CONTROL_UNPUBLISHED };
	static const char *const patterns[] = { "t", "*", ">", "t.*", "", "T", "t*t*t*" };
	struct control_message message = { .type = types[random_below(state, 7)] };
	const uint32_t small = (uint32_t)random_below(state, 4);
	const uint32_t any = random_below(state, 4) ? small : (uint32_t)random_draw(state);

	message.request = (uint32_t)random_draw(state);
	switch (message.type) {
	case CONTROL_CATALOGUE:
		message.catalogue.after = any;
		strcpy(message.catalogue.pattern, patterns[random_below(state, 7)]);
		break;
	case CONTROL_SCHEMA:
		message.schema.topic_id = small;
		message.schema.offset = any % (CONTROL_SCHEMA_MAX + 1);
		break;
	case CONTROL_COUNTERS:
		message.counters.scope = small + 1;
		message.counters.index = any;
		message.counters.after = (uint32_t)random_below(state, 20);
		break;
	case CONTROL_UNPUBLISHED:
		message.unpublished.topic_id = small;
		message.unpublished.after = any;
		break;
	case CONTROL_JOIN:
		message.join.topic_id = small;
		message.join.epoch = random_below(state, 4) ? epoch : random_draw(state);
		break;
	default: /* LEAVE, ARM */
		message.topic.topic_id = small;
		message.topic.epoch = random_below(state, 4) ? epoch : random_draw(state);
		message.topic.head = any;
		break;
	}
	say(&guest, &message);
}

Test(answers, random_requests_and_replays_harm_nobody)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	uint64_t state = random_seed(), epoch;

	join_bus(&guest);
	join_bus(&other);
	epoch = epoch_of("t");
	for (uint64_t round = 1; round <= 20000; round++) {
		say_random(&state, epoch);
		if (round % 8 == 0) {
			scene_publish(topic, round / 8, round / 8);
			cr_assert_eq(epoch_of("t"), epoch);
			cr_assert_leq(tb_publisher_joins(publisher, NULL, 0), 1);
		}
	}
	cr_expect_eq(guest.gones, 0, "%s", guest.why);
	cr_expect_eq(counter(BUS_MALFORMED), 0);
	cr_expect_gt(counter(BUS_REFUSALS), 100);
	leave_bus(&guest);
	UNTIL(&other, counter(BUS_SUBSCRIBERS) == 1);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0, "a join went with its connection");
}

Test(answers, who_asks_and_does_not_listen_is_dropped_and_nobody_else)
{
	struct control_message message = { .type = CONTROL_CATALOGUE,
					   .catalogue = { .pattern = ">" } };
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(&message, bytes);
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	int result;

	for (unsigned int i = 0; i < 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%u", i);
		scene_topic(publisher, name, 64, 0);
	}
	join_bus(&other);
	join_bus(&guest);
	do /* its own queue may be full now and then */
		result = ops->link_send(guest.link, bytes, length);
	while ((result == 0 || result == -EAGAIN) && scene_now_ms() < late_ms);
	cr_assert_eq(result, -ECONNRESET);
	cr_expect(was_logged("was dropped: it does not take its messages"), "%s", logged);
	cr_expect_eq(counter(BUS_DROPPED), 1);
	cr_expect_eq(counter(BUS_SUBSCRIBERS), 1);
	leave_bus(&guest);
	join_bus(&guest);
	cr_expect_eq(catalogue(">", 0)->topics.count, 4);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to each request, valid and invalid; to malformed messages, replays and floods. */

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/random.h"
#include "tests/unit/publisher/client.h"

TestSuite(answers, .init = client_enter, .fini = client_leave, .timeout = 60);

/* -- requests -----------------------------------------------------------------------------------
 */

Test(answers, catalogue_is_filtered_and_paged)
{
	const struct control_message *answer;
	uint32_t after = 0, seen = 0;
	char name[32];

	for (unsigned int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%s.t%u", i % 2 ? "odd" : "even", i);
		scene_topic(publisher, name, 64, 0);
	}
	client_open(&client);
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

Test(answers, catalogue_with_adjacent_stars_is_refused)
{
	char pattern[TB_PATTERN_MAX + 1] = "", expected[sizeof(pattern) + 128];

	memset(pattern, '*', 120);
	strcat(pattern, "z");
	snprintf(expected, sizeof(expected),
		 "topic pattern: found \"%s\", expected a single '*' where \"**\" stands: both "
		 "match "
		 "the same names",
		 pattern);
	client_open(&client);
	expect_refusal(catalogue(pattern, 0), 0, EINVAL, expected);
}

Test(answers, schema_comes_in_parts_unchanged)
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
	client_open(&client);
	do {
		answer = client_ask(&client, message);
		cr_assert_eq(answer->type, CONTROL_SCHEMA_BYTES);
		cr_assert_eq(answer->schema_bytes.offset, message.schema.offset);
		cr_assert_eq(answer->schema_bytes.total, length);
		cr_assert_gt(answer->schema_bytes.bytes, 0);
		memcpy(text + message.schema.offset, answer->schema_bytes.part,
		       answer->schema_bytes.bytes);
		message.schema.offset += answer->schema_bytes.bytes;
	} while (message.schema.offset < length);
	cr_expect_arr_eq(text, expected, length);
	cr_expect_eq(client_ask(&client, message)->schema_bytes.bytes, 0,
		     "at the end there is no more");
	message.schema.offset = (uint32_t)length + 1;
	snprintf(text, sizeof(text),
		 "topic deep: found offset %zu, expected at most the schema's %zu bytes",
		 length + 1, length);
	expect_refusal(client_ask(&client, message), 1, ERANGE, text);
	message.schema.topic_id = 2;
	expect_refusal(client_ask(&client, message), 2, ENOENT,
		       "bus test: found topic id 2, expected an id from the catalogue");
	tb_schema_free(schema);
}

Test(answers, repeated_join_counts_once_until_leave)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const struct control_message *answer;
	struct region_header header;
	struct control_message message;
	uint64_t epoch;
	char text[200];

	client_open(&client);
	epoch = epoch_of("t");
	expect_refusal(join(&client, 0, epoch), 0, ENOENT,
		       "bus test: found topic id 0, expected an id from the catalogue");
	expect_refusal(join(&client, 2, epoch), 2, ENOENT,
		       "bus test: found topic id 2, expected an id from the catalogue");
	snprintf(text, sizeof(text),
		 "topic t: found epoch %016" PRIx64 ", expected %016" PRIx64
		 ": the topic was restarted",
		 epoch + 1, epoch);
	expect_refusal(join(&client, 1, epoch + 1), 1, ESTALE, text);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0);
	for (int times = 0; times < 3; times++) {
		answer = join(&client, 1, epoch);
		cr_assert_eq(answer->type, CONTROL_GRANT);
		cr_expect_str_eq(answer->grant.topic.name, "t");
		memcpy(&header, ops->view(client.region), sizeof(header));
		cr_expect_eq(region_header_verify(&header, &answer->grant.topic.shape, "t"), 0,
			     "%s", tb_error());
		cr_expect_eq(tb_publisher_joins(publisher, &topic, 1), 1, "again is still once");
	}
	message = topic_message(CONTROL_LEAVE, 1, epoch + 1, 0);
	client_send(&client, &message);
	message = topic_message(CONTROL_LEAVE, 7, epoch, 0);
	client_send(&client, &message);
	cr_expect_eq(epoch_of("t"), epoch); /* all messages before it were handled */
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 1);
	for (int times = 0; times < 3; times++) {
		message = topic_message(CONTROL_LEAVE, 1, epoch, 0);
		client_send(&client, &message);
	}
	cr_expect_eq(epoch_of("t"), epoch);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0);
}

#define NONE_LEFT "topic t: at the publisher: no descriptor for shared memory: Too many open files"

/* Memory's descriptors are above 2, so the join gets no descriptor. */
static void expect_none_left(uint64_t epoch, int times)
{
	struct rlimit limit, none;
	bool refused = true;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 4, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (times-- > 0)
		refused = join(&client, 1, epoch)->type == CONTROL_REFUSE && refused;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0); /* Criterion needs some itself */
	cr_expect(refused);
	expect_refusal(&client.answer, 1, EMFILE, NONE_LEFT);
}

Test(answers, refused_join_is_logged_once_until_granted)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	char text[256];
	uint64_t epoch;

	client_open(&client);
	epoch = epoch_of("t");
	join(&client, 1, epoch + 1); /* as after a restart */
	cr_expect_eq(warnings, 0, "%s", logged);
	expect_none_left(epoch, 3);
	snprintf(text, sizeof(text), "pid %d of user %u was refused a join: " NONE_LEFT,
		 (int)getpid(), (unsigned int)getuid());
	cr_expect_str_eq(logged, text);
	cr_expect_eq(warnings, 1);
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	expect_none_left(epoch_of("t"), 2);
	cr_expect_eq(warnings, 2);
	join(&client, 9, epoch);
	join(&client, 9, epoch);
	cr_expect(was_logged("was refused a join: bus test: found topic id 9, "), "%s", logged);
	cr_expect_eq(warnings, 3);
}

Test(answers, joins_of_impossible_topics_are_logged_once)
{
	uint64_t epoch;

	scene_topic(publisher, "t", 64, 0);
	client_open(&client);
	epoch = epoch_of("t");
	for (int i = 0; i < 10; i++) {
		cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
		for (uint32_t times = 1; times < 4; times++)
			cr_assert_eq(join(&client, 1 + times * 1024, epoch)->type, CONTROL_REFUSE);
	}
	cr_expect_eq(warnings, 1, "%u lines", warnings);
}

Test(answers, joined_clients_get_revoke_and_ending)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	uint64_t epoch, next;

	client_open(&client);
	client_open(&other);
	epoch = epoch_of("t");
	cr_assert_eq(join(&other, 1, epoch)->type, CONTROL_GRANT);
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	cr_expect_eq(bus_counter(BUS_JOINS), 2);
	scene_publish(topic, 1, 3);
	cr_assert_eq(tb_topic_restart(topic), 0);
	UNTIL(&other, other.last.type == CONTROL_REVOKE);
	cr_expect_eq(other.last.topic.epoch, epoch);
	UNTIL(&client, client.last.type == CONTROL_REVOKE);
	cr_expect_eq(client.last.topic.topic_id, 1);
	cr_expect_eq(client.last.topic.epoch, epoch);
	cr_expect_eq(client.last.topic.head, 0, "how far it went says its memory");
	next = epoch_of("t");
	cr_expect_neq(next, epoch);
	cr_assert_eq(join(&client, 1, next)->type, CONTROL_GRANT);
	scene_publish(topic, 1, 2);
	tb_topic_end(topic);
	UNTIL(&client, client.last.type == CONTROL_ENDING);
	cr_expect_eq(client.last.topic.epoch, next);
	cr_expect_eq(client.last.topic.head, 2);
	cr_expect_eq(bus_counter(BUS_JOINS), 2);
	cr_expect_eq(other.endings, 0, "the memory that it was given did not end");
	cr_expect_eq(catalogue("t", 0)->topics.topic[0].state, TOPIC_ENDED);
	client_close(&client);
	UNTIL(&other, bus_counter(BUS_JOINS) == 1);
}

/* -- what is no request -------------------------------------------------------------------------
 */

static void expect_dropped(const char *text)
{
	UNTIL(&client, client.gones == 1 && was_logged(text));
	cr_expect_eq(client.code, ECONNRESET);
	cr_expect(was_logged("was dropped: "), "%s", logged);
	client_close(&client);
}

Test(answers, publisher_message_from_client_ends_connection)
{
	const enum control_type types[] = { CONTROL_TOPICS, CONTROL_SCHEMA_BYTES,
					    CONTROL_GRANT,  CONTROL_REFUSE,
					    CONTROL_WAKE,   CONTROL_VALUES,
					    CONTROL_REVOKE, CONTROL_UNPUBLISHED_NAMES,
					    CONTROL_ENDING };
	const size_t count = sizeof(types) / sizeof(types[0]);
	char text[100];

	scene_topic(publisher, "t", 64, 0);
	client_open(&other);
	for (size_t i = 0; i < count; i++) {
		struct control_message message = { .type = types[i] };

		client_open(&client);
		cr_assert_eq(join(&client, 1, epoch_of("t"))->type, CONTROL_GRANT);
		if (types[i] == CONTROL_SCHEMA_BYTES)
			message.schema_bytes.total = 1;
		if (types[i] == CONTROL_REFUSE)
			message.refuse.code = 1;
		if (types[i] == CONTROL_GRANT)
			message.grant.topic = client.last.grant.topic;
		client_send(&client, &message);
		snprintf(text, sizeof(text), "found a message of type %d, expected a request",
			 types[i]);
		expect_dropped(text);
		cr_expect_eq(bus_counter(BUS_MALFORMED), i + 1);
		cr_expect_eq(bus_counter(BUS_DROPPED), i + 1);
		cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0);
		cr_expect_eq(bus_counter(BUS_SUBSCRIBERS), 1);
	}
}

Test(answers, malformed_message_ends_connection_and_is_logged)
{
	client_open(&other);
	client_open(&client);
	cr_assert_eq(ops->link_send(client.link, "\1\0\0", 3), 0);
	expect_dropped("control message of 3 bytes: ends too early at byte 2");
	client_open(&client);
	cr_assert_eq(ops->link_send(client.link, "\x7f\0\0\0\0\0\0\0", 8), 0);
	expect_dropped("control message of 8 bytes: has an unknown type at byte 0");
	cr_expect_eq(bus_counter(BUS_MALFORMED), 2);
}

/* A random request, often valid. */
static void send_random(uint64_t *state, uint64_t epoch, uint64_t head)
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
		message.topic.head = random_below(state, head + 1);
		break;
	}
	client_send(&client, &message);
}

Test(answers, random_and_replayed_requests_do_no_harm)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	uint64_t state = random_seed(), epoch;

	client_open(&client);
	client_open(&other);
	epoch = epoch_of("t");
	for (uint64_t round = 1; round <= 20000; round++) {
		send_random(&state, epoch, (round - 1) / 8);
		if (round % 8 == 0) {
			scene_publish(topic, round / 8, round / 8);
			cr_assert_eq(epoch_of("t"), epoch);
			cr_assert_leq(tb_publisher_joins(publisher, NULL, 0), 1);
		}
	}
	cr_expect_eq(client.gones, 0, "%s", client.why);
	cr_expect_eq(bus_counter(BUS_MALFORMED), 0);
	cr_expect_gt(bus_counter(BUS_REFUSALS), 100);
	client_close(&client);
	UNTIL(&other, bus_counter(BUS_SUBSCRIBERS) == 1);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0, "a join went with its connection");
}

Test(answers, client_that_reads_nothing_is_dropped_alone)
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
	client_open(&other);
	client_open(&client);
	do /* the client's own queue may be full at times */
		result = ops->link_send(client.link, bytes, length);
	while ((result == 0 || result == -EAGAIN) && scene_now_ms() < late_ms);
	cr_assert_eq(result, -ECONNRESET);
	cr_expect(was_logged("was dropped: it does not read its messages"), "%s", logged);
	cr_expect_eq(bus_counter(BUS_DROPPED), 1);
	cr_expect_eq(bus_counter(BUS_SUBSCRIBERS), 1);
	client_close(&client);
	client_open(&client);
	cr_expect_eq(catalogue(">", 0)->topics.count, 4);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of creating, restarting and counting; messages after a restart; silence in the pulse.
 * Over a test network, "net:NAME", that can refuse memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "bus/error.h"
#include "bus/shm/shm.h"
#include "bus/words.h"
#include "bus/bus_page.h"
#include "publisher/state.h"
#include "subscriber/handshake.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

static struct fabric_ops net_ops;
static bool full; /* the device takes no more memory */
static void (*exposing)(const struct memory *);
static struct tb_publisher *publisher;

static int net_listen(struct listener **listener, const struct fabric_listen *how,
		      const struct listener_calls *calls, void *user)
{
	const int result = shm_listen(listener, how, calls, user);

	if (result == 0)
		(*listener)->ops = &net_ops;
	return result;
}

static int net_expose(struct listener *listener, const struct memory *memory, uint32_t realm,
		      struct exposure **exposure)
{
	if (full)
		return error_set(ENOMEM, "the device takes no more than it has");
	if (exposing)
		exposing(memory);
	return shm_expose(listener, memory, realm, exposure);
}

static void enter(void)
{
	static const char *const listen[] = { "shm:test", "net:other" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = listen,
						      .listen_count = 2,
						      .stale_ms = 60000,
						      .topics_max = 21,
						      .exit_wait_ms = UINT32_MAX };

	scene_enter();
	net_ops = shm_ops;
	net_ops.scheme = "net";
	net_ops.network = true;
	net_ops.listen = net_listen;
	net_ops.expose = net_expose;
	cr_assert_eq(fabric_add(&net_ops), 0);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
}

static void leave(void)
{
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(topic, .init = enter, .fini = leave, .timeout = 60);

Test(topic, duplicate_or_surplus_topic_allocates_nothing)
{
	char text[32768];
	size_t used = (size_t)snprintf(text, sizeof(text), "name: wide\nversion: 1\nfields:\n");
	struct tb_topic_options options = { .size = sizeof(options), .name = "t" };
	struct tb_schema *schema;
	struct tb_topic *topic;

	for (int i = 0; i < 500; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "- {name: f%d, type: u64, doc: d}\n", i);
	cr_assert_eq(tb_schema_parse(&schema, text, used, "wide"), 0, "%s", tb_error());
	options.schema = schema;
	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	options.slots = 1u << 24; /* 64 GiB */
	cr_expect_eq(tb_topic_create(publisher, &options, &topic), -EEXIST);
	cr_expect_str_eq(tb_error(), "topic t: the bus already has a topic of this name");
	cr_expect_null(topic);
	for (int i = 1; i < 21; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%d", i);
		scene_topic(publisher, name, 64, 0);
	}
	options.name = "one-more";
	cr_expect_eq(tb_topic_create(publisher, &options, &topic), -ENOSPC);
	cr_expect_str_eq(tb_error(),
			 "topic one-more: the bus already has its maximum of 21 topics");
	tb_schema_free(schema);
}

/* A program whose header is older than the schema file would publish a struct of another layout. */
Test(topic, schema_with_another_fingerprint_is_refused)
{
	static const char text[] = "name: moved\nversion: 1\nfields:\n- {name: x, type: u64}\n";
	struct tb_topic_options options = { .size = sizeof(options), .name = "t" };
	struct tb_schema *schema;
	struct tb_topic *topic;
	char expected[256];

	cr_assert_eq(tb_schema_parse(&schema, text, sizeof(text) - 1, "moved"), 0, "%s",
		     tb_error());
	options.schema = schema;
	options.fingerprint = tb_schema_fingerprint(schema) ^ 1;
	cr_expect_eq(tb_topic_create(publisher, &options, &topic), -EINVAL);
	snprintf(expected, sizeof(expected),
		 "topic t: found schema moved with fingerprint %016" PRIx64 ", expected %016" PRIx64
		 ", that of the program's struct: print the schema's header again (tickbus schema "
		 "header) and compile",
		 tb_schema_fingerprint(schema), options.fingerprint);
	cr_expect_str_eq(tb_error(), expected);
	options.fingerprint = tb_schema_fingerprint(schema);
	cr_expect_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	options.name = "unchecked";
	options.fingerprint = 0;
	cr_expect_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
}

Test(topic, held_bus_answers_only_after_begin)
{
	struct tb_publisher_options options = { .size = sizeof(options),
						.name = "held",
						.exit_wait_ms = UINT32_MAX,
						.flags = TB_PUBLISHER_HELD << 1 };
	struct tb_subscriber_options how = { .size = sizeof(how),
					     .address = "shm:held",
					     .connect_ms = 50 };
	struct tb_subscriber *subscriber;
	struct tb_publisher *held;

	cr_expect_eq(tb_publisher_open(&held, &options), -EINVAL);
	cr_expect_str_eq(tb_error(), "publisher options: flags: found 2, expected 0 to 1");
	options.flags = TB_PUBLISHER_HELD;
	cr_assert_eq(tb_publisher_open(&held, &options), 0, "%s", tb_error());
	scene_topic(held, "t", 64, 0);
	cr_expect_lt(tb_subscriber_open(&subscriber, &how), 0); /* its hello is read later */
	cr_assert_eq(tb_publisher_begin(held), 0, "%s", tb_error());
	cr_expect_eq(tb_publisher_begin(held), 0, "%s", tb_error());
	scene_topic(held, "u", 64, 0);
	how.connect_ms = deadline_ms();
	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
	tb_subscriber_close(subscriber);
	tb_publisher_close(held);
	cr_assert_eq(tb_publisher_open(&held, &options), 0, "%s", tb_error());
	tb_publisher_close(held); /* without tb_publisher_begin */
}

Test(topic, failed_restart_leaves_the_topic_unchanged)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct notes notes = { 0 };
	struct tb_subscriber *subscriber = scene_subscriber("shm", 0);
	const uint64_t epoch = topic->shape.epoch;
	const struct exposure *before = topic->exposures.of[1][0];

	scene_publish(topic, 1, 3);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	full = true;
	cr_expect_eq(tb_topic_restart(topic), -ENOMEM);
	cr_expect_str_eq(tb_error(), "topic t: the device takes no more than it has");
	cr_expect_eq(topic->shape.epoch, epoch);
	cr_expect_eq(topic->exposures.of[1][0], before);
	scene_publish(topic, 4, 5);
	cr_assert(scene_poll_until(subscriber, &notes.last, 5), "%s", notes.text);
	cr_expect_not(notes.restarted);
	full = false;
	cr_expect_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	cr_expect_not_null(topic->exposures.of[1][0], "networks expose it at once");
	scene_publish(topic, 1, 2);
	cr_assert(scene_poll_until(subscriber, &notes.records, 7), "%s", notes.text);
	cr_expect(strstr(notes.text, "5 A update 5\nrestart 5 5\n1 A update 1\n"), "%s",
		  notes.text);
	tb_subscriber_close(subscriber);
	notes_free(&notes);
}

/* -- messages after a restart -------------------------------------------------------------------
 */

static struct {
	struct link *link;
	struct handshake handshake;
	unsigned int welcomes, grants, revokes, answers;
	uint64_t revoked;
} client;

static void on_welcome(void *user, const void *bytes, size_t length)
{
	(void)user;
	(void)bytes;
	(void)length;
	client.welcomes++;
}

static void on_message(void *user, const void *bytes, size_t length)
{
	struct control_message message;

	(void)user;
	cr_assert_eq(control_decode(bytes, length, &message), 0, "%s", tb_error());
	client.grants += message.type == CONTROL_GRANT;
	client.revokes += message.type == CONTROL_REVOKE;
	client.answers += message.type == CONTROL_TOPICS;
	if (message.type == CONTROL_REVOKE)
		client.revoked = message.topic.epoch;
}

static void on_gone(void *user, int code, const char *why)
{
	(void)user;
	cr_assert(false, "gone: %d %s", code, why);
}

static int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			uint8_t hello[FABRIC_HELLO_BYTES])
{
	(void)user;
	return handshake_answer(&client.handshake, challenge, hello);
}

static const struct link_calls calls = {
	.challenge = on_challenge, .welcome = on_welcome, .message = on_message, .gone = on_gone
};

static void client_send(struct control_message message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];

	cr_assert_eq(shm_link_send(client.link, bytes, control_encode(&message, bytes)), 0);
}

static void client_wait(const unsigned int *count, unsigned int least)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();

	while (*count < least) {
		cr_assert_lt(scene_now_ms(), late_ms);
		if (shm_link_poll(client.link) == 0)
			sched_yield();
	}
}

static uint64_t epoch_in(const struct memory *memory)
{
	struct region_header header;

	memcpy(&header, memory->base, sizeof(header));
	return header.epoch;
}

/* Under the lock, so that the control thread finds this join first. */
static void join_at_once(const struct memory *memory)
{
	client_send((struct control_message){
		.type = CONTROL_JOIN, .join = { .topic_id = 1, .epoch = epoch_in(memory) } });
}

Test(topic, join_of_a_new_epoch_gets_no_revoke)
{
	static const uint8_t no_ticket[TB_TICKET_BYTES];
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const uint64_t epoch = topic->shape.epoch;
	uint8_t bytes[FABRIC_HELLO_BYTES];

	cr_assert_eq(handshake_begin(&client.handshake, &shm_ops, "test", no_ticket, bytes), 0);
	cr_assert_eq(shm_connect(&client.link, "test", bytes, sizeof(bytes), &calls, NULL), 0);
	client_wait(&client.welcomes, 1);
	exposing = join_at_once;
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	exposing = NULL;
	client_wait(&client.grants, 1);
	client_send((struct control_message){ .type = CONTROL_CATALOGUE,
					      .catalogue = { .pattern = ">" } });
	client_wait(&client.answers, 1);
	cr_expect_eq(client.revokes, 0);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	client_wait(&client.revokes, 1);
	cr_expect(client.revoked != epoch && client.revoked != topic->shape.epoch);
	shm_link_break(client.link);
	shm_link_close(client.link);
}

/* -- the pulse ----------------------------------------------------------------------------------
 */

/* The pulses since the topic's writer was last seen active. */
static uint64_t silence(uint32_t topic_id)
{
	struct bus_pulse pulse;
	struct bus_entry entry;

	words_load(&pulse, publisher->realms[0].page.base, sizeof(pulse));
	words_load(&entry,
		   (const char *)publisher->realms[0].page.base + sizeof(pulse) +
			   (topic_id - 1) * sizeof(entry),
		   sizeof(entry));
	cr_assert_eq(bus_page_verify_pulse(&pulse, publisher->bus_id, 21), 0);
	cr_assert_eq(bus_page_verify_entry(&entry, topic_id - 1, publisher->bus_id), 0);
	return pulse.count - entry.beat;
}

static uint64_t restarts_sent(const struct tb_topic *topic)
{
	uint64_t restarts;

	publisher_lock(publisher);
	restarts = topic->restarts_sent;
	publisher_unlock(publisher);
	return restarts;
}

/* Pulses for changes come at any rate; only a quarter of the stale bound counts as time. */
Test(topic, changes_of_others_make_no_watched_topic_stale)
{
	struct tb_topic *watched = scene_topic(publisher, "watched", 64, TB_TOPIC_WATCHED);
	struct tb_topic *other = scene_topic(publisher, "other", 64, 0);
	const uint64_t before = publisher->realms[0].pulse.count;
	char name[16];

	cr_assert_eq(tb_flush(watched), 0);
	for (uint64_t i = 1; i <= 20; i++) {
		const uint64_t late_ms = scene_now_ms() + deadline_ms();

		cr_assert_eq(tb_topic_restart(other), 0, "%s", tb_error());
		while (restarts_sent(other) < i)
			cr_assert_lt(scene_now_ms(), late_ms);
	}
	for (int i = 2; i < 21; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		scene_topic(publisher, name, 64, 0);
	}
	publisher_lock(publisher);
	cr_expect_geq(publisher->realms[0].pulse.count, before + 39);
	cr_expect_eq(silence(1), 0);
	cr_expect_eq(silence(2), 0);
	publisher_unlock(publisher);
}

/* -- counters -----------------------------------------------------------------------------------
 */

Test(topic, only_a_new_head_wakes_a_sleeper)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, TB_TOPIC_MANUAL_FLUSH);
	const _Atomic uint64_t *signals = &topic->wakeup.signals;

	scene_publish(topic, 1, 1);
	scene_publish(topic, 2, topic->progress.reserved);
	tb_flush(topic);
	wakeup_arm(&topic->wakeup);
	cr_assert_geq(tb_instrument(topic, "C"), 0);
	scene_publish(topic, 1, 1);
	cr_expect_gt(topic->progress.reserved, topic->sequence, "the next step is reserved");
	cr_expect_eq(*signals, 0, "there is a name and a step, and no record that is known");
	tb_flush(topic);
	cr_expect_eq(*signals, 1);
}

Test(topic, counters_that_no_message_can_carry_are_refused)
{
	const struct tb_counter good = { "eaten", "apples", "apples that were eaten" };
	const struct tb_counter bad[] = { { "gel\xc3\xb6st", "apples", "" },
					  { "eaten", "\xc3\x84pfel", "" },
					  { "ea\nten", "apples", "" },
					  { "0123456789012345678901234567890123456789", "", "" },
					  { "eaten", "012345678901", "" } };
	const char *names[] = {
		"", "b\xc3\xb6rse", "a\tb",
		"0123456789012345678901234567890123456789012345678901234567890123"
	};
	static uint64_t value;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(tb_publisher_count(publisher, "feed", &bad[i], &value, 1), -EINVAL,
			     "counter %zu", i);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_expect_eq(tb_publisher_count(publisher, names[i], &good, &value, 1), -EINVAL,
			     "name %zu", i);
	cr_expect_str_eq(tb_error(), "counters: found the name "
				     "\"01234567890123456789012345678901234567890123456789012345678"
				     "90123\", expected 1 to 63 bytes of printable ASCII");
	cr_expect_eq(tb_publisher_count(publisher, "feed 1", &good, &value, 1), 0, "%s",
		     tb_error());
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/publisher/client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tickbus/error.h"

struct tb_publisher *publisher;
const struct fabric_ops *ops;
const char *address;
struct client client, other;
void (*client_meanwhile)(void);
void (*client_hello)(struct client *, uint8_t hello[FABRIC_HELLO_BYTES]);
char logged[1024];
unsigned int warnings;

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

void keep_log(void *user, enum tb_log_level level, const char *text)
{
	(void)user;
	if (level > TB_LOG_WARNING)
		return;
	pthread_mutex_lock(&log_lock);
	snprintf(logged, sizeof(logged), "%s", text);
	warnings++;
	pthread_mutex_unlock(&log_lock);
}

bool was_logged(const char *text)
{
	bool found;

	pthread_mutex_lock(&log_lock);
	found = strstr(logged, text) != NULL;
	pthread_mutex_unlock(&log_lock);
	return found;
}

static void on_welcome(void *user, const void *bytes, size_t length)
{
	struct client *at = user;

	cr_assert_eq(handshake_welcome(&at->handshake, bytes, length, &at->welcome), 0, "%s",
		     tb_error());
	cr_assert_eq(ops->remote_open(at->link, at->welcome.key,
				      bus_page_bytes(at->welcome.topics_max), &at->page),
		     0, "%s", tb_error());
	at->welcomes++;
}

static void on_message(void *user, const void *bytes, size_t length)
{
	struct client *at = user;

	cr_assert_eq(control_decode(bytes, length, &at->last), 0, "%s", tb_error());
	at->messages++;
	at->revokes += at->last.type == CONTROL_REVOKE;
	at->endings += at->last.type == CONTROL_ENDING;
	if (at->request && at->last.request == at->request)
		at->answer = at->last; /* a wake may follow at once */
	if (at->last.type == CONTROL_WAKE) {
		const uint32_t id = at->last.topic.topic_id;

		at->wakes++;
		cr_assert_leq(id, CLIENT_TOPICS_MAX);
		at->woken_count += !at->woken[id];
		at->woken[id] = true;
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
	struct client *at = user;

	at->gones++;
	at->code = code;
	snprintf(at->why, sizeof(at->why), "%s", why);
}

/* The second hello, which a test may change or replace. */
static int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			uint8_t hello[FABRIC_HELLO_BYTES])
{
	struct client *at = user;

	memcpy(at->challenge, challenge, sizeof(at->challenge));
	if (handshake_answer(&at->handshake, challenge, hello) < 0)
		return -EIO;
	if (client_hello)
		client_hello(at, hello);
	memcpy(at->hello, hello, sizeof(at->hello));
	return 0;
}

static const struct link_calls calls = {
	.challenge = on_challenge, .welcome = on_welcome, .message = on_message, .gone = on_gone
};

void client_turn(struct client *at)
{
	struct pollfd ready = { .fd = ops->link_fd(at->link), .events = POLLIN };

	if (client_meanwhile)
		client_meanwhile();
	if (ops->link_poll(at->link) == 0)
		poll(&ready, 1, ops->link_state(at->link) == LINK_GONE ? 0 : 10);
}

void client_connect(struct client *at, const void *hello, size_t bytes)
{
	cr_assert_eq(ops->connect(&at->link, address, hello, bytes, &calls, at), 0, "%s",
		     tb_error());
	UNTIL(at, at->welcomes || at->gones);
}

void client_try_realm(struct client *at, const uint8_t ticket[TB_TICKET_BYTES])
{
	uint8_t hello[FABRIC_HELLO_BYTES];

	cr_assert_eq(handshake_begin(&at->handshake, ops, address, ticket, hello), 0, "%s",
		     tb_error());
	client_connect(at, hello, sizeof(hello));
}

void client_open_realm(struct client *at, const uint8_t ticket[TB_TICKET_BYTES])
{
	client_try_realm(at, ticket);
	cr_assert_eq(at->welcomes, 1, "%s", at->why);
}

void client_open(struct client *at)
{
	static const uint8_t none[TB_TICKET_BYTES];

	client_open_realm(at, none);
}

void client_close(struct client *at)
{
	if (!at->link)
		return;
	ops->link_break(at->link);
	ops->remote_close(at->page);
	ops->remote_close(at->region);
	ops->link_close(at->link);
	*at = (struct client){ 0 };
}

void client_send(struct client *at, struct control_message *message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);

	cr_assert_gt(length, 0);
	cr_assert_eq(ops->link_send(at->link, bytes, length), 0, "%s", tb_error());
}

const struct control_message *client_ask(struct client *at, struct control_message message)
{
	message.request = ++at->request;
	client_send(at, &message);
	UNTIL(at, at->answer.request == at->request || at->gones);
	cr_assert_eq(at->gones, 0, "%s", at->why);
	return &at->answer;
}

void expect_refused_hello(struct control_hello hello, int code, const char *text)
{
	uint8_t bytes[FABRIC_HELLO_BYTES];

	client_connect(&client, bytes, control_hello_encode(&hello, bytes));
	expect_refused(code, text);
}

void expect_refused(int code, const char *text)
{
	cr_assert_eq(client.gones, 1);
	cr_assert_eq(client.code, code);
	cr_expect_str_eq(client.why, text);
	UNTIL(&client, was_logged(text));
	client_close(&client);
}

void expect_refusal(const struct control_message *answer, uint32_t topic_id, int code,
		    const char *text)
{
	cr_assert_eq(answer->type, CONTROL_REFUSE, "type %d", answer->type);
	cr_expect_eq(answer->refuse.code, (uint32_t)code, "%u", answer->refuse.code);
	cr_expect_eq(answer->refuse.topic_id, topic_id);
	cr_expect_str_eq(answer->refuse.text, text);
}

const struct control_message *catalogue(const char *pattern, uint32_t after)
{
	struct control_message message = { .type = CONTROL_CATALOGUE };

	message.catalogue.after = after;
	strcpy(message.catalogue.pattern, pattern);
	return client_ask(&client, message);
}

const struct control_message *join(struct client *at, uint32_t topic_id, uint64_t epoch)
{
	return client_ask(
		at, (struct control_message){ .type = CONTROL_JOIN,
					      .join = { .topic_id = topic_id, .epoch = epoch } });
}

uint64_t epoch_of(const char *name)
{
	const struct control_message *answer = catalogue(name, 0);

	cr_assert_eq(answer->topics.count, 1);
	return answer->topics.topic[0].shape.epoch;
}

struct control_message topic_message(enum control_type type, uint32_t topic_id, uint64_t epoch,
				     uint64_t head)
{
	return (struct control_message){
		.type = type, .topic = { .topic_id = topic_id, .epoch = epoch, .head = head }
	};
}

uint64_t bus_counter(enum bus_counter index)
{
	const struct control_message *answer = client_ask(
		&other, (struct control_message){ .type = CONTROL_COUNTERS,
						  .counters = { .scope = TB_SCOPE_BUS } });

	cr_assert_eq(answer->type, CONTROL_VALUES);
	cr_assert_lt(index, answer->values.count);
	return answer->values.entry[index].value;
}

void client_enter(void)
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
	ops = fabric_find(listen[0], &address);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
}

void client_leave(void)
{
	client_close(&client);
	client_close(&other);
	tb_publisher_close(publisher);
	scene_leave();
}

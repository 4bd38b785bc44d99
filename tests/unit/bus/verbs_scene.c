/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/bus/verbs_scene.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/clock.h"
#include "bus/verbs/verbs.h"
#include "tests/support/deadline.h"
#include "tests/support/fake_verbs.h"
#include "tickbus/error.h"

struct listener *listener;
struct announcer *announcer;
struct peer *peer;
char news[4096], gone[256];
struct link *subscriber;
unsigned int lines, joins_awaited, hellos, gones;
int answered;
void (*message_arrived)(struct peer *);

static int on_hello(void *user, struct peer *who, const void *hello, size_t bytes,
		    struct fabric_answer *answer)
{
	(void)user, (void)hello, (void)bytes;
	peer = who;
	hellos++;
	memset(answer->challenge, 'c', sizeof(answer->challenge));
	strcpy(answer->reason, "the ticket is not known");
	return answered;
}

static void on_message(void *user, struct peer *who, const void *message, size_t bytes)
{
	(void)user, (void)message, (void)bytes;
	message_arrived(who);
}

static void on_gone(void *user, struct peer *who, const char *why)
{
	(void)user, (void)who;
	gones++;
	snprintf(gone, sizeof(gone), "%s", why);
}

static void on_log(void *user, enum fabric_log kind, const char *words)
{
	const size_t used = strlen(news);

	(void)user, (void)kind;
	lines++;
	snprintf(news + used, sizeof(news) - used, "%s\n", words);
}

static const struct listener_calls calls = {
	.hello = on_hello, .message = on_message, .gone = on_gone, .log = on_log
};

void publisher_begin(const char *address, enum fabric_notices_kind kind)
{
	struct fabric_listen how = { .address = address,
				     .peers_max = 1024,
				     .withdrawn_ms = WITHDRAWN_MS,
				     .keep_alive = KEEP_ALIVE,
				     .keep_alive_bytes = strlen(KEEP_ALIVE) };

	fake_device_make();
	how.notices = (struct fabric_notices){ .kind = kind, .bytes = 1024 };
	cr_assert_eq(address_parse_group(GROUP, &how.notices.group), 0);
	cr_assert_eq(verbs_ops.listen(&listener, &how, &calls, NULL), 0, "%s", tb_error());
	cr_assert_eq(verbs_announcer(listener, NULL, 1024, &announcer), 0, "%s", tb_error());
}

void publisher_end(void)
{
	verbs_announcer_close(announcer);
	verbs_listener_close(listener);
	close(fake.context.async_fd);
	cr_expect(fake.ids == 0 && fake.queue_pairs == 0 && fake_verbs.queues == 0 &&
			  fake_verbs.channels == 0 && fake_verbs.domains == 0 &&
			  fake.registered == 0 && fake.handles == 0,
		  "left: %d ids, %d queue pairs, %d queues, %d channels, %d domains, %d regions, "
		  "%d handles",
		  fake.ids, fake.queue_pairs, fake_verbs.queues, fake_verbs.channels,
		  fake_verbs.domains, fake.registered, fake.handles);
	cr_expect_eq(fake.events_acked, fake.events, "an event was kept");
}

struct rdma_cm_id *listening(void)
{
	return fake_id(RDMA_PS_TCP, 0);
}

/* The group's, before its senders'. */
struct rdma_cm_id *member(void)
{
	return fake_id(RDMA_PS_UDP, 0);
}

void cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	fake_cm_event(id->channel,
		      (struct rdma_cm_event){ .event = type, .id = id, .status = status });
}

void poll_until(bool (*done)(void), const char *what)
{
	struct pollfd fd = { .fd = verbs_listener_fd(listener), .events = POLLIN };
	const uint64_t end = clock_ms() + deadline_ms();

	while (!done()) {
		cr_assert_lt(clock_ms(), end, "not seen: %s, but\n%s", what, news);
		poll(&fd, 1, 100);
		verbs_listener_poll(listener);
	}
}

bool is_sent(void)
{
	return verbs_announce(announcer, "head", 4) == 0;
}

bool is_not_sent(void)
{
	return !is_sent();
}

bool has_joined(void)
{
	return fake.joins >= joins_awaited;
}

static const char *awaited;

static bool is_news(void)
{
	return strstr(news, awaited) || strstr(gone, awaited);
}

void poll_until_logged(const char *what)
{
	awaited = what;
	poll_until(is_news, what);
}

void publisher_joined(void)
{
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	poll_until(is_sent, "a notice");
}

static bool is_taken(void)
{
	return fake.events_acked == fake.events;
}

/* The groups are checked after the device's events. */
void wait_for_timer(void)
{
	news[0] = '\0';
	fake_async_event((struct ibv_async_event){ .element.port_num = 1,
						   .event_type = IBV_EVENT_PORT_ACTIVE });
	poll_until(is_taken, "the device's event");
}

void wait_for_groups_check(void)
{
	wait_for_timer();
	wait_for_timer();
}

struct rdma_cm_id *request_arrives(void)
{
	const struct sockaddr_in asking = { .sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(0x0a090002) };
	struct rdma_cm_event request = { .event = RDMA_CM_EVENT_CONNECT_REQUEST };

	rdma_create_id(listening()->channel, &request.id, NULL, RDMA_PS_TCP);
	request.id->verbs = &fake.context;
	memcpy(&request.id->route.addr.dst_addr, &asking, sizeof(asking));
	request.param.conn.responder_resources = 64; /* of READs that it would like to make */
	fake_cm_event(listening()->channel, request);
	return request.id;
}

struct rdma_cm_id *connection_request(void)
{
	struct rdma_cm_id *id;

	peer = NULL;
	gone[0] = '\0';
	id = request_arrives();
	verbs_listener_poll(listener);
	cr_assert_not_null(peer);
	return id;
}

struct rdma_cm_id *connection(void)
{
	struct rdma_cm_id *id = connection_request();

	cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	verbs_listener_poll(listener);
	return id;
}

static int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			uint8_t hello[FABRIC_HELLO_BYTES])
{
	(void)user;
	memset(hello, 'h', FABRIC_HELLO_BYTES);
	memcpy(hello, challenge, FABRIC_CHALLENGE_BYTES);
	return 0;
}

static void on_welcome(void *user, const void *bytes, size_t length)
{
	(void)user, (void)bytes, (void)length;
}

static void on_link_gone(void *user, int code, const char *why)
{
	(void)user, (void)code;
	snprintf(gone, sizeof(gone), "%s", why);
}

const struct link_calls subscriber_calls = { .challenge = on_challenge,
					     .welcome = on_welcome,
					     .gone = on_link_gone };

void subscriber_begin(const char *address)
{
	fake_device_make();
	cr_assert_eq(verbs_ops.connect(&subscriber, address, "hello", 5, &subscriber_calls, NULL),
		     0, "%s", tb_error());
	verbs_link_poll(subscriber);
	cr_assert_eq(verbs_link_state(subscriber), LINK_UP, "%s", gone);
}

void subscriber_end(void)
{
	verbs_link_close(subscriber);
	close(fake.context.async_fd);
	cr_expect(fake.ids == 0 && fake.queue_pairs == 0 && fake_verbs.queues == 0 &&
		  fake_verbs.channels == 0 && fake_verbs.domains == 0 && fake.registered == 0);
	cr_expect_eq(fake.events_acked, fake.events, "an event was kept");
}

void wait_for_gone(void)
{
	const uint64_t end = clock_ms() + deadline_ms();

	while (verbs_link_state(subscriber) != LINK_GONE) {
		cr_assert_lt(clock_ms(), end);
		verbs_link_poll(subscriber);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that listen at a publisher's address and do not know its ticket. They learn nothing of
 * it, and a subscriber uses nothing that they say. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bus/control.h"
#include "bus/proof.h"
#include "bus/shm/shm_frame.h"
#include "tests/support/deadline.h"
#include "tests/support/prover.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define UNPROVEN                                                                                   \
	"the process that listens there does not prove to be the publisher: found a welcome that " \
	"does not fit this subscriber's ticket"
#define SEEN_MAX 65536
#define SOMEONE  65421 /* a user that no other test is */
#define WINDOW   4     /* bytes of the ticket in a row that an impostor may not see */

enum way {
	HONEST,         /* knows the ticket, but hands no memory over */
	UNPROVEN_AFTER, /* a challenge, then a welcome with a proof of noise */
	UNPROVEN_FIRST, /* a welcome without a challenge */
	OTHER_TICKET,   /* a proof by another ticket */
	OTHER_WELCOME,  /* the right proof of a welcome that was changed after it */
	OTHER_ADDRESS,  /* the right proof for another address */
	ENDLESS,        /* a challenge after each hello */
	SHORT,          /* a challenge that is cut */
	RELAY,          /* passes everything on to the publisher at shm:test, and back */
};

static struct impostor {
	enum way way;
	int listener;
	pthread_t thread;
	_Atomic bool stop;
	uint8_t seen[SEEN_MAX]; /* all that subscribers sent */
	size_t seen_bytes;
	unsigned int hellos, relayed_welcomes;
} impostor;

static uint8_t ticket[TB_TICKET_BYTES], other_ticket[TB_TICKET_BYTES];
static const char *const all = ">";

static struct sockaddr_un socket_at(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s.sock", scene_folder(), name);
	return at;
}

static void frame_put(int fd, uint32_t kind, const void *body, size_t bytes)
{
	struct shm_frame frame = { .kind = kind };

	memcpy(frame.body, body, bytes);
	if (send(fd, &frame, sizeof(kind) + bytes, MSG_NOSIGNAL) < 0)
		cr_log_warn("the subscriber has left");
}

/* Waits for a frame. False: the other side has closed, or the test is over. */
static bool frame_take(int fd, struct shm_frame *frame, size_t *body)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	ssize_t bytes;

	while (poll(&ready, 1, 20) == 0)
		if (atomic_load(&impostor.stop))
			return false;
	bytes = recv(fd, frame, sizeof(*frame), 0);
	*body = bytes > 4 ? (size_t)bytes - 4 : 0;
	return bytes > 4;
}

/* -- the impostor -----------------------------------------------------------------------------
 */

static void welcome_put(int fd, const uint8_t *hello)
{
	const struct control_welcome welcome = { .version = CONTROL_VERSION_HIGH,
						 .bus_id = 7,
						 .stale_ms = 1000,
						 .topics_max = 4,
						 .name = "false" };
	uint8_t bytes[FABRIC_WELCOME_BYTES];
	const size_t length = control_welcome_encode(&welcome, bytes);

	memset(bytes + CONTROL_WELCOME_PROOF, 'p', PROOF_BYTES);
	if (impostor.way == HONEST || impostor.way == OTHER_WELCOME)
		prover_signs(hello, "test", ticket, bytes, length);
	if (impostor.way == OTHER_TICKET)
		prover_signs(hello, "test", other_ticket, bytes, length);
	if (impostor.way == OTHER_ADDRESS)
		prover_signs(hello, "tess", ticket, bytes, length);
	if (impostor.way == OTHER_WELCOME)
		bytes[8] ^= 1;
	frame_put(fd, SHM_WELCOME, bytes, length);
}

static void hello_answer(int fd, int upstream, const struct shm_frame *frame, size_t body)
{
	struct shm_frame answer;
	size_t length;

	if (impostor.way == RELAY) {
		frame_put(upstream, SHM_HELLO, frame->body, body);
		if (!frame_take(upstream, &answer, &length))
			return;
		impostor.relayed_welcomes += answer.kind == SHM_WELCOME;
		frame_put(fd, answer.kind, answer.body, length);
	} else if (impostor.way == SHORT) {
		frame_put(fd, SHM_CHALLENGE, "fifteen bytes..", FABRIC_CHALLENGE_BYTES - 1);
	} else if (impostor.way == ENDLESS) {
		frame_put(fd, SHM_CHALLENGE, "sixteen bytes...", FABRIC_CHALLENGE_BYTES);
	} else if (impostor.way != UNPROVEN_FIRST && prover_is_first(frame->body, body)) {
		frame_put(fd, SHM_CHALLENGE, "sixteen bytes...", FABRIC_CHALLENGE_BYTES);
	} else {
		welcome_put(fd, frame->body);
	}
}

static void subscriber_serve(int fd)
{
	const struct sockaddr_un at = socket_at("test");
	struct shm_frame frame;
	size_t body;
	int upstream = -1;

	if (impostor.way == RELAY) {
		upstream = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		cr_assert_eq(connect(upstream, (const struct sockaddr *)&at, sizeof(at)), 0);
	}
	while (frame_take(fd, &frame, &body)) {
		if (impostor.seen_bytes + body <= SEEN_MAX) {
			memcpy(impostor.seen + impostor.seen_bytes, frame.body, body);
			impostor.seen_bytes += body;
		}
		impostor.hellos += frame.kind == SHM_HELLO;
		if (frame.kind == SHM_HELLO)
			hello_answer(fd, upstream, &frame, body);
	}
	if (upstream >= 0)
		close(upstream);
	close(fd);
}

static void *impostor_run(void *unused)
{
	struct pollfd ready = { .fd = impostor.listener, .events = POLLIN };

	(void)unused;
	while (!atomic_load(&impostor.stop))
		if (poll(&ready, 1, 20) == 1)
			subscriber_serve(accept4(impostor.listener, NULL, NULL, SOCK_CLOEXEC));
	return NULL;
}

/* The kernel shows the user that the process has in listen(). */
static void impostor_begin_as(enum way way, const char *name, uid_t user)
{
	const struct sockaddr_un at = socket_at(name);
	const uid_t own = geteuid();

	memset(&impostor, 0, sizeof(impostor));
	impostor.way = way;
	impostor.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(impostor.listener, (const struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(seteuid(user), 0);
	cr_assert_eq(listen(impostor.listener, 8), 0);
	cr_assert_eq(seteuid(own), 0);
	cr_assert_eq(pthread_create(&impostor.thread, NULL, impostor_run, NULL), 0);
}

static void impostor_begin(enum way way, const char *name)
{
	impostor_begin_as(way, name, geteuid());
}

/* Expects that it saw this many hellos, and no part of the ticket. */
static void impostor_end(const char *name, unsigned int hellos_least)
{
	const struct sockaddr_un at = socket_at(name);

	atomic_store(&impostor.stop, true);
	cr_assert_eq(pthread_join(impostor.thread, NULL), 0);
	close(impostor.listener);
	unlink(at.sun_path);
	cr_expect_geq(impostor.hellos, hellos_least);
	cr_assert_geq(impostor.seen_bytes, hellos_least * FABRIC_HELLO_BYTES);
	for (size_t i = 0; i + WINDOW <= sizeof(ticket); i++)
		cr_expect_null(memmem(impostor.seen, impostor.seen_bytes, ticket + i, WINDOW),
			       "bytes %zu and up of the ticket", i);
}

/* -- subscribers ------------------------------------------------------------------------------
 */

static void enter(void)
{
	uint64_t state;

	scene_enter();
	state = random_seed();
	random_fill(&state, ticket, sizeof(ticket));
	random_fill(&state, other_ticket, sizeof(other_ticket));
}

TestSuite(impostor, .init = enter, .fini = scene_leave, .timeout = 60);

static struct tb_publisher *publisher_begin(void)
{
	const struct tb_realm realm = { .size = sizeof(realm),
					.name = "desk",
					.ticket = ticket,
					.topics = &all,
					.topic_count = 1 };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .exit_wait_ms = UINT32_MAX,
						      .realms = &realm,
						      .realm_count = 1 };
	struct tb_publisher *publisher;

	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 2);
	return publisher;
}

static int subscriber_open(struct tb_subscriber **subscriber, const char *address,
			   const uint8_t *with)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = deadline_ms(),
						       .ticket = with };

	return tb_subscriber_open(subscriber, &options);
}

static int attempt(const char *address, const uint8_t *with)
{
	struct tb_subscriber *subscriber = NULL;
	const int result = subscriber_open(&subscriber, address, with);

	tb_subscriber_close(subscriber);
	return result;
}

static int look(const char *address)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = address,
						    .timeout_ms = deadline_ms(),
						    .ticket = ticket };

	return tb_inspect_topics(&options, NULL, NULL, NULL, NULL);
}

Test(impostor, impostor_is_refused_and_learns_no_ticket)
{
	static const enum way ways[] = { UNPROVEN_AFTER, UNPROVEN_FIRST, OTHER_TICKET,
					 OTHER_WELCOME, OTHER_ADDRESS };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		impostor_begin(ways[i], "test");
		cr_assert_eq(attempt("shm:test", ticket), -EACCES, "way %d", ways[i]);
		cr_expect_str_eq(tb_error(), "shm:test: " UNPROVEN);
		cr_expect_eq(look("shm:test"), -EACCES, "way %d", ways[i]);
		cr_expect_str_eq(tb_error(), "shm:test: " UNPROVEN);
		impostor_end("test", ways[i] == UNPROVEN_FIRST ? 2 : 4);
	}
}

/* So an impostor gets one proof of each connection. */
Test(impostor, second_or_cut_challenge_ends_the_connection)
{
	for (enum way way = ENDLESS; way <= SHORT; way++) {
		impostor_begin(way, "test");
		cr_assert_eq(attempt("shm:test", ticket), -EPROTO, "way %d", way);
		cr_expect_str_eq(tb_error(), "shm:test: the publisher sent an invalid challenge");
		impostor_end("test", way == ENDLESS ? 2 : 1);
		cr_expect_eq(impostor.hellos, way == ENDLESS ? 2 : 1);
	}
}

/* The same frames by a process that knows the ticket pass: so the tests above refuse the proof. */
Test(impostor, process_that_knows_the_ticket_is_believed)
{
	impostor_begin(HONEST, "test");
	cr_expect_eq(attempt("shm:test", ticket), -EPROTO);
	cr_expect_str_eq(tb_error(), "shm:test: bus page: memory handed over: found no descriptor "
				     "with the message");
	impostor_end("test", 2);
}

/* A subscriber without a ticket has nothing to prove: any process can answer it. But what it
 * accepts is proven with zeros, and not with a ticket. */
Test(impostor, subscriber_without_a_ticket_expects_a_proof_without_a_ticket)
{
	impostor_begin(HONEST, "test");
	cr_expect_eq(attempt("shm:test", NULL), -EACCES);
	cr_expect_str_eq(tb_error(), "shm:test: " UNPROVEN);
	impostor_end("test", 2);
}

/* The client's proof names the address that it dialled. */
Test(impostor, relay_from_another_name_is_refused_by_the_publisher)
{
	struct tb_publisher *publisher = publisher_begin();

	impostor_begin(RELAY, "tesu");
	cr_expect_eq(attempt("shm:tesu", ticket), -EACCES);
	cr_expect_str_eq(tb_error(), "shm:tesu: the publisher does not know the ticket, or the "
				     "dialled address was not test");
	impostor_end("tesu", 2);
	cr_expect_eq(impostor.relayed_welcomes, 0);
	cr_expect_eq(attempt("shm:test", ticket), 0, "%s", tb_error());
	tb_publisher_close(publisher);
}

Test(impostor, impostor_after_a_restart_gives_an_event)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct tb_publisher *publisher = publisher_begin();
	struct tb_subscriber *subscriber;
	struct notes notes = { 0 };

	cr_assert_eq(subscriber_open(&subscriber, "shm:test", ticket), 0, "%s", tb_error());
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 2));
	tb_publisher_close(publisher);
	impostor_begin(UNPROVEN_AFTER, "test");
	while (!notes.refused) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	cr_expect(strstr(notes.text, "does not prove to be the publisher"), "%s", notes.text);
	impostor_end("test", 2);
	tb_subscriber_close(subscriber);
	notes_free(&notes);
}

Test(impostor, listening_user_is_known_while_connected)
{
	struct tb_publisher *publisher = publisher_begin();
	struct tb_subscriber *subscriber;
	char address[64];
	uint32_t user = 77;

	snprintf(address, sizeof(address), "shm:test,user=%u", (unsigned int)geteuid());
	cr_assert_eq(subscriber_open(&subscriber, address, ticket), 0, "%s", tb_error());
	cr_expect_eq(tb_subscriber_user(subscriber, &user), 0);
	cr_expect_eq(user, geteuid());
	tb_publisher_close(publisher);
	while (tb_subscriber_user(subscriber, &user) == 0)
		cr_assert_geq(tb_poll(subscriber, 1), 0);
	cr_expect_str_eq(strrchr(tb_error(), ':'), ": not connected");
	tb_subscriber_close(subscriber);
}

static int waiting_open(struct tb_subscriber **subscriber, const char *address)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .flags = TB_WAIT,
						       .connect_ms = deadline_ms(),
						       .ticket = ticket };

	return tb_subscriber_open(subscriber, &options);
}

/* It sees no hello. A subscriber that waits goes on with the publisher. */
Test(impostor, process_of_another_user_gets_no_hello)
{
	struct tb_publisher *publisher;
	struct tb_subscriber *subscriber;
	struct notes notes = { 0 };

	if (geteuid() != 0)
		cr_skip("only root can listen as another user");
	impostor_begin_as(HONEST, "test", SOMEONE);
	cr_expect_eq(attempt("shm:test,user=0", ticket), -EACCES);
	cr_expect_eq(look("shm:test,user=0"), -EACCES);
	cr_assert_eq(waiting_open(&subscriber, "shm:test,user=0"), 0, "%s", tb_error());
	cr_expect(strstr(tb_error(), "user 65421 listens at test.sock, expected user 0"), "%s",
		  tb_error());
	impostor_end("test", 0);
	cr_expect_eq(impostor.hellos, 0);
	publisher = publisher_begin();
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 2), "%s", notes.text);
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
}

/* A wrong ticket must not wait in silence. */
Test(impostor, waiting_open_reports_a_process_without_the_ticket)
{
	struct tb_subscriber *subscriber;

	impostor_begin(UNPROVEN_AFTER, "test");
	cr_expect_eq(waiting_open(&subscriber, "shm:test"), -EACCES);
	cr_expect_str_eq(tb_error(), "shm:test: " UNPROVEN);
	impostor_end("test", 2);
}

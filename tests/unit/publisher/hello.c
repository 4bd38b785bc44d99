/* SPDX-License-Identifier: Apache-2.0 */
/* Which hellos get a challenge, a welcome, a refusal. */

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/words.h"
#include "tests/support/clock.h"
#include "tests/unit/publisher/client.h"

#define LATE                                                                                       \
	"the second hello is too late, or comes from another address than the first; expected it " \
	"within 10 s; connect again"
#define UNKNOWN "the bus takes no tickets, or the dialled address was not test"

TestSuite(hello, .init = client_enter, .fini = client_leave, .timeout = 60);

static const uint8_t no_ticket[TB_TICKET_BYTES];

/* Version 1 sent the ticket where version 2 has the cookie and the proof. */
Test(hello, version_1_is_refused_with_both_versions)
{
	uint8_t hello[FABRIC_HELLO_BYTES] = { 'T', 'B', 'U', 'S', 1, 1, FABRIC_HELLO_BYTES };

	memset(hello + 24, 't', 32);
	client_connect(&client, hello, sizeof(hello));
	expect_refused(EPROTO,
		       "no common version: the subscriber speaks 1 to 1, the publisher 2 to 2");
}

Test(hello, unsupported_hello_is_refused_with_reason)
{
	expect_refused_hello(
		(struct control_hello){ .version_low = 3, .version_high = 7 }, EPROTO,
		"no common version: the subscriber speaks 3 to 7, the publisher 2 to 2");
	client_connect(&client, "hello", 5);
	cr_expect_eq(client.code, EPROTO);
	cr_expect_str_eq(client.why, "hello message of 5 bytes: has no tickbus magic at byte 0");
	client_close(&client);
	client_open(&other);
	cr_expect_eq(bus_counter(BUS_REFUSED), 2);
	cr_expect_eq(bus_counter(BUS_SUBSCRIBERS), 1);
}

Test(hello, wider_version_range_gets_common_version)
{
	uint8_t hello[FABRIC_HELLO_BYTES];
	struct bus_pulse pulse;

	cr_assert_eq(handshake_begin(&client.handshake, ops, address, no_ticket, hello), 0);
	client.handshake.covered.version_high = hello[5] = 200;
	client_connect(&client, hello, sizeof(hello));
	cr_assert_eq(client.welcomes, 1, "%s", client.why);
	cr_expect_eq(client.welcome.version, 2);
	cr_expect_eq(client.welcome.stale_ms, 400);
	cr_expect_eq(client.welcome.topics_max, 1024);
	cr_expect_str_eq(client.welcome.name, "test");
	do
		words_load(&pulse, ops->view(client.page), sizeof(pulse));
	while (bus_page_verify_pulse(&pulse, client.welcome.bus_id, 1024) < 0);
	cr_expect_eq(pulse.topics, 0);
}

static uint64_t subscribers;

static void count_subscribers(struct client *at, uint8_t hello[FABRIC_HELLO_BYTES])
{
	(void)at, (void)hello;
	subscribers = bus_counter(BUS_SUBSCRIBERS);
}

Test(hello, first_hello_makes_no_session)
{
	client_open(&other);
	client_hello = count_subscribers;
	client_open(&client);
	cr_expect_eq(subscribers, 1);
	cr_expect_eq(bus_counter(BUS_SUBSCRIBERS), 2);
}

/* -- the challenge ----------------------------------------------------------------------------
 */

static size_t damaged;

static void damage(struct client *at, uint8_t hello[FABRIC_HELLO_BYTES])
{
	(void)at;
	hello[damaged] ^= 0x40;
}

static void expect_damage_refused(size_t first, size_t end, int code, const char *text)
{
	client_hello = damage;
	for (damaged = first; damaged < end; damaged++) {
		client_try_realm(&client, no_ticket);
		expect_refused(code, text);
	}
	client_hello = NULL;
	client_open(&client);
}

Test(hello, second_hello_with_another_nonce_or_cookie_is_refused)
{
	expect_damage_refused(8, 40, ETIMEDOUT, LATE);
}

Test(hello, second_hello_with_another_proof_is_refused)
{
	expect_damage_refused(40, 56, EACCES, UNKNOWN);
}

static uint64_t wait_ms;

static void wait_before(struct client *at, uint8_t hello[FABRIC_HELLO_BYTES])
{
	(void)at, (void)hello;
	clock_pass(wait_ms);
}

Test(hello, second_hello_is_good_in_the_window_and_the_next)
{
	client_hello = wait_before;
	clock_stop();
	wait_ms = 10000;
	client_open(&client);
	client_close(&client);
	wait_ms = 20000;
	client_try_realm(&client, no_ticket);
	expect_refused(ETIMEDOUT, LATE);
}

/* Sends the second hello of a client that was accepted. Returns the code of the refusal, or 0. */
static int replay(const uint8_t hello[FABRIC_HELLO_BYTES])
{
	struct client again = { .handshake = client.handshake };

	int code;

	client_connect(&again, hello, FABRIC_HELLO_BYTES);
	code = again.code;
	client_close(&again);
	return code;
}

/* A process is the address of a client over shared memory. */
Test(hello, replayed_hello_from_another_address_is_refused)
{
	uint8_t hello[FABRIC_HELLO_BYTES];
	pid_t child;
	int status;

	clock_stop();
	client_open(&client);
	memcpy(hello, client.hello, sizeof(hello));
	child = fork();
	if (child == 0)
		_exit(replay(hello) == ETIMEDOUT ? 0 : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "status %x", (unsigned int)status);
	cr_expect(was_logged(LATE), "%s", logged);
}

/* The cookie, not the connection, shows that the process had its challenge. */
Test(hello, second_hello_without_a_first_is_accepted_from_its_process)
{
	struct client again = { 0 };

	clock_stop();
	client_open(&client);
	again.handshake = client.handshake;
	client_connect(&again, client.hello, sizeof(client.hello));
	UNTIL(&again, again.welcomes > 0 || again.gones > 0);
	cr_expect_eq(again.welcomes, 1, "%s", again.why);
	client_close(&again);
}

Test(hello, replayed_hello_is_refused_after_the_window)
{
	uint8_t hello[FABRIC_HELLO_BYTES];

	clock_stop();
	client_open(&client);
	memcpy(hello, client.hello, sizeof(hello));
	clock_pass(20000);
	cr_expect_eq(replay(hello), ETIMEDOUT);
}

/* The secret of the cookies is random at each start. */
Test(hello, cookie_of_another_publisher_is_refused)
{
	static const char *const listen[] = { "shm:test" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = listen,
						      .listen_count = 1,
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log };
	uint8_t hello[FABRIC_HELLO_BYTES];

	client_open(&client);
	memcpy(hello, client.hello, sizeof(hello));
	client_close(&client);
	tb_publisher_close(publisher);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	cr_expect_eq(replay(hello), ETIMEDOUT);
}

/* -- the address ------------------------------------------------------------------------------
 */

static void dial_another(struct client *at, uint8_t hello[FABRIC_HELLO_BYTES])
{
	strcpy(at->handshake.identity, "tess");
	cr_assert_eq(handshake_answer(&at->handshake, at->challenge, hello), 0);
}

/* As an impostor at another name would pass it on. */
Test(hello, proof_for_another_address_is_refused)
{
	client_hello = dial_another;
	client_try_realm(&client, no_ticket);
	expect_refused(EACCES, UNKNOWN);
}

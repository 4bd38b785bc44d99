/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are lost or stall, and what passes through. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/bus/fault_scene.h"
#include "tickbus/error.h"

#define CONNECTIONS 200

TestSuite(fault_link, .init = scene_enter, .fini = scene_leave, .timeout = 60);

static int send_number(uint32_t number)
{
	return fault_ops.link_send(guest.link, &number, sizeof(number));
}

Test(fault_link, both_sides_name_the_address_below)
{
	char text[FABRIC_IDENTITY_BYTES];

	cr_assert_eq(fault_ops.identity("seed=1,tear=1/memory:here", text), 0);
	cr_expect_str_eq(text, "at here");
	cr_expect_eq(fault_ops.identity("seed=1,tear=1", text), -EINVAL);
	guest_enter("seed=1");
	cr_expect_str_eq(host.connected_to, "here");
}

Test(fault_link, publisher_cannot_listen_with_faults)
{
	const struct fabric_listen how = { .address = "seed=1/memory:here" };
	struct listener *listener;

	cr_expect_eq(fault_ops.listen(&listener, &how, NULL, NULL), -EINVAL);
	cr_expect_null(listener);
	cr_expect_str_eq(tb_error(),
			 "address fault:seed=1/memory:here: found faults, which are for "
			 "subscribers; expected the address behind the /");
	cr_expect_eq(fault_ops.node("seed=1/memory:here"), FABRIC_NO_DEVICE);
}

Test(fault_link, connection_without_faults_passes_messages)
{
	guest_enter("seed=1");
	host.messages[host.message_count++] = 4;
	host.messages[host.message_count++] = 5;
	cr_expect_eq(fault_ops.link_poll(guest.link), 2);
	cr_expect_eq(guest.message_count, 2);
	cr_expect_eq(guest.messages[1], 5);
	cr_expect_eq(send_number(6), 0);
	cr_expect_eq(host.sent[0], 6);
	cr_expect_eq(fault_ops.sleep(guest.link), 0);
	host.gone = true;
	cr_expect_eq(fault_ops.link_poll(guest.link), 1);
	cr_expect_eq(guest.code, ETIMEDOUT);
	cr_expect_eq(fault_ops.link_state(guest.link), LINK_GONE);
	cr_expect_eq(fault_ops.link_poll(guest.link), 0);
}

/* -- disconnect --------------------------------------------------------------------------------
 */

/* The connection was lost by a fault that its owner learns of from now on. */
static void expect_gone(void)
{
	const unsigned int messages = guest.message_count;

	cr_expect_eq(guest.gones, 0);
	cr_expect_eq(fault_ops.sleep(guest.link), 1, "a sleeper would not learn of it");
	cr_expect_eq(send_number(1), -ENOTCONN);
	cr_expect_eq(guest_read(guest.ring, 0, 8, 1), -ENOTCONN);
	host.messages[host.message_count++] = 9;
	cr_expect_eq(fault_ops.link_poll(guest.link), 1);
	cr_expect_eq(guest.gones, 1);
	cr_expect_eq(guest.code, ECONNRESET);
	cr_expect_eq(fault_ops.link_state(guest.link), LINK_GONE);
	cr_expect_eq(fault_ops.link_poll(guest.link), 0);
	cr_expect_eq(guest.message_count, messages, "a message after the loss");
	cr_expect_eq(host.breaks, 0, "the owner breaks the link, no fault does");
}

Test(fault_link, connection_lost_at_a_read_fails_its_reads_once)
{
	unsigned int posted = 0, failed = 0, losses;
	uint64_t tag, seen = 0;
	int status;

	guest_enter("seed=2,disconnect=0.2,delay=1,tear=1");
	host.breaks = 0;
	losses = (unsigned int)fault_count(FAULT_DISCONNECT);
	while (guest_read(guest.ring, 0, 8, posted) == 1)
		posted++;
	cr_assert_eq(fault_count(FAULT_DISCONNECT), losses + 1);
	cr_assert(posted > 1 && posted < 16, "%u", posted);
	expect_gone();
	while ((status = guest_reap(&tag)) != 1) {
		cr_expect_eq(status, -ECONNRESET);
		cr_expect_eq(seen & UINT64_C(1) << tag, 0, "it completes twice");
		seen |= UINT64_C(1) << tag;
		failed++;
	}
	cr_expect_eq(failed, posted);
}

Test(fault_link, broken_link_returns_reads_that_wait)
{
	uint64_t tag;

	guest_enter("seed=2,delay=1,tear=1");
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(guest_read(guest.ring, 0, 8, i), 1);
	cr_assert_eq(guest_reap(&tag), 1);
	fault_ops.link_break(guest.link);
	for (unsigned int i = 0; i < 4; i++)
		cr_expect_eq(guest_reap(&tag), -ECONNRESET);
	cr_expect_eq(guest_reap(&tag), 1);
	cr_expect_eq(guest.gones, 0, "gone was called after the break");
}

Test(fault_link, connection_lost_at_a_message_delivers_no_more)
{
	guest_enter("seed=2,disconnect=0.05");
	host.breaks = 0;
	for (host.message_count = 0; host.message_count < ARRIVALS_MAX;)
		host.messages[host.message_count++] = 0;
	fault_ops.link_poll(guest.link);
	cr_expect_eq(guest.gones, 1, "it is reported by the same poll");
	cr_expect_eq(guest.code, ECONNRESET);
	cr_expect(guest.message_count > 0 && guest.message_count < ARRIVALS_MAX,
		  "delivered messages: %u", guest.message_count);
	cr_expect_eq(host.breaks, 0);
}

Test(fault_link, message_is_lost_with_the_connection)
{
	uint32_t number = 0;

	guest_enter("seed=2,disconnect=0.2");
	host.breaks = 0;
	while (send_number(number) == 0)
		number++;
	cr_expect_gt(number, 1);
	cr_expect_eq(host.sent_count, number - 1);
	expect_gone();
}

Test(fault_link, connection_is_lost_at_challenge_and_welcome_too)
{
	unsigned int at_challenge = 0, at_welcome = 0, up = 0;

	host.challenges = true;
	for (unsigned int i = 0; i < 200; i++, guest_leave()) {
		guest_connect("seed=2,disconnect=0.4");
		cr_assert_eq(guest.gones, guest.welcomes == 0);
		cr_assert(guest.gones == 0 || guest.code == ECONNRESET,
			  "code %d is not that of the loss", guest.code);
		at_challenge += guest.challenges == 0;
		at_welcome += guest.challenges == 1 && guest.welcomes == 0;
		up += guest.welcomes;
	}
	cr_expect(at_challenge > 40 && at_welcome > 20 && up > 40, "%u, %u, %u", at_challenge,
		  at_welcome, up);
	cr_expect_eq(fault_count(FAULT_DISCONNECT), at_challenge + at_welcome);
}

/* -- stall -------------------------------------------------------------------------------------
 */

Test(fault_link, stalled_connection_holds_everything_in_order)
{
	unsigned int polls;
	uint64_t tag;

	guest_enter("seed=1,stall=1"); /* from its welcome on */
	polls = host.polls;
	cr_expect_eq(fault_ops.sleep(guest.link), 1, "a sleeper would miss it");
	cr_assert_eq(guest_read(guest.ring, 0, 8, 1), 1);
	host.messages[host.message_count++] = 5;
	host.datagrams[host.datagram_count++] = 6;
	for (uint32_t i = 0; i < FABRIC_UNANSWERED; i++)
		cr_assert_eq(send_number(i), 0);
	cr_expect_eq(send_number(99), -EAGAIN, "its queue is bounded");
	cr_expect_eq(fault_ops.link_poll(guest.link), 0);
	cr_expect_eq(guest_reap(&tag), 1);
	cr_expect_eq(guest_datagram(), -1);
	cr_expect_eq(host.sent_count + host.polls - polls, 0);
	now_ns += 50 * MS;
	cr_expect_eq(guest_datagram(), 6);
	cr_expect_eq(guest_reap(&tag), 0);
	cr_expect_eq(fault_ops.link_poll(guest.link), 1);
	cr_expect_eq(guest.messages[0], 5);
	cr_assert_eq(host.sent_count, FABRIC_UNANSWERED);
	for (uint32_t i = 0; i < FABRIC_UNANSWERED; i++)
		cr_expect_eq(host.sent[i], i);
	cr_expect_gt(fault_count(FAULT_STALL), 2);
}

Test(fault_link, too_long_message_is_not_held)
{
	uint8_t message[FABRIC_MESSAGE_BYTES + 1] = { 0 };

	guest_enter("seed=1,stall=1");
	cr_expect_eq(fault_ops.link_send(guest.link, message, sizeof(message)), -EMSGSIZE);
	cr_expect_eq(fault_ops.link_send(guest.link, message, 0), -EMSGSIZE);
	cr_expect_eq(fault_ops.link_send(guest.link, message, FABRIC_MESSAGE_BYTES), 0);
}

Test(fault_link, held_messages_wait_for_a_busy_publisher_too)
{
	guest_enter("seed=1,stall=1");
	cr_assert_eq(send_number(1), 0);
	cr_assert_eq(send_number(2), 0);
	now_ns += 50 * MS;
	host.busy = true;
	fault_ops.link_poll(guest.link);
	cr_expect_eq(fault_ops.sleep(guest.link), 1, "a sleeper would hold it back");
	host.busy = false;
	cr_assert_eq(send_number(3), 0);
	cr_expect_eq(host.sent_count, 0, "a message passed another");
	now_ns += 50 * MS;
	fault_ops.link_poll(guest.link);
	cr_assert_eq(host.sent_count, 3);
	cr_expect(host.sent[0] == 1 && host.sent[1] == 2 && host.sent[2] == 3);
}

Test(fault_link, lost_connection_does_not_stall)
{
	uint64_t losses;

	guest_enter("seed=1,stall=1,disconnect=0.2");
	host.breaks = 0;
	losses = fault_count(FAULT_DISCONNECT);
	while (fault_count(FAULT_DISCONNECT) == losses)
		cr_assert_eq((now_ns += 50 * MS, fault_ops.link_poll(guest.link), send_number(1)),
			     0);
	expect_gone();
}

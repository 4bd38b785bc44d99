/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of realms that change while the bus runs. */

#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "bus/proof.h"
#include "publisher/tickets.h"
#include "tests/support/clock.h"
#include "tests/unit/publisher/client.h"

#define UNKNOWN "the publisher does not know the ticket, or the dialled address was not test"

static const uint8_t first[TB_TICKET_BYTES] = { 1 }, second[TB_TICKET_BYTES] = { 2 };
static const uint8_t third[TB_TICKET_BYTES] = { 3 }, others[TB_TICKET_BYTES] = { [31] = 4 };
static const uint8_t zeros[TB_TICKET_BYTES];

static void enter_tickets(void)
{
	static const char *const all = ">";
	const struct tb_realm realms[] = {
		{ sizeof(*realms), .name = "desk", .ticket = first, .topics = &all,
		  .topic_count = 1 },
		{ sizeof(*realms), .name = "risk", .ticket = others, .topics = &all,
		  .topic_count = 1 },
		{ sizeof(*realms), .name = "anonymous", .topics = &all, .topic_count = 1 },
	};
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log,
						      .realms = realms,
						      .realm_count = 3 };

	scene_enter();
	ops = fabric_find("shm:test", &address);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	scene_topic(publisher, "t", 64, 0);
	clock_stop();
}

TestSuite(tickets, .init = enter_tickets, .fini = client_leave, .timeout = 60);

static void expect_good(const uint8_t *ticket)
{
	client_open_realm(&client, ticket);
	client_close(&client);
}

static void expect_unknown(const uint8_t *ticket)
{
	client_try_realm(&client, ticket);
	expect_refused(EACCES, UNKNOWN);
}

Test(tickets, old_ticket_is_good_for_the_stated_time)
{
	expect_unknown(second);
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 5000), 1, "%s", tb_error());
	expect_good(first);
	expect_good(second);
	clock_pass(4999);
	expect_good(first);
	clock_pass(1);
	expect_unknown(first);
	expect_good(second);
	expect_good(others);
	expect_good(zeros);
}

Test(tickets, old_ticket_without_time_ends_at_once)
{
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 0), 1, "%s", tb_error());
	expect_unknown(first);
	expect_good(second);
}

Test(tickets, old_ticket_is_wiped_when_its_time_is_over)
{
	const struct realm *realm = &publisher->realms[0];
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	bool wiped = false;

	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 5000), 1);
	cr_expect_arr_eq(realm->old_ticket, first, sizeof(first));
	clock_pass(5000);
	while (!wiped) { /* with the next pulse */
		cr_assert_lt(scene_now_ms(), late_ms);
		publisher_lock(publisher);
		wiped = memcmp(realm->old_ticket, zeros, sizeof(zeros)) == 0;
		publisher_unlock(publisher);
	}
}

Test(tickets, connection_outlives_its_ticket)
{
	client_open_realm(&client, first);
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 0), 1);
	cr_expect_eq(catalogue(">", 0)->topics.count, 1);
	cr_expect_eq(client.gones, 0);
}

/* A realm has one old ticket. */
Test(tickets, further_change_ends_the_old_ticket)
{
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 5000), 1);
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", third, 5000), 1);
	expect_unknown(first);
	expect_good(second);
	expect_good(third);
}

Test(tickets, present_ticket_changes_nothing)
{
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 5000), 1);
	clock_pass(3000);
	cr_expect_eq(tb_publisher_ticket(publisher, "desk", second, 5000), 0);
	expect_good(first);
	clock_pass(2000);
	expect_unknown(first);
	expect_good(second);
}

Test(tickets, old_ticket_may_return)
{
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 5000), 1);
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", first, 0), 1);
	expect_unknown(second);
	clock_pass(10000);
	expect_good(first);
}

/* -- the work of a hello ------------------------------------------------------------------------
 */

static atomic_uint proofs;

void __real_proof_of_client(const uint8_t ticket[PROOF_TICKET_BYTES],
			    const struct proof_handshake *handshake, uint8_t proof[PROOF_BYTES]);
void __wrap_proof_of_client(const uint8_t ticket[PROOF_TICKET_BYTES],
			    const struct proof_handshake *handshake, uint8_t proof[PROOF_BYTES]);

/* The linker puts this between the library's files. The client's own proof counts too. */
void __wrap_proof_of_client(const uint8_t ticket[PROOF_TICKET_BYTES],
			    const struct proof_handshake *handshake, uint8_t proof[PROOF_BYTES])
{
	atomic_fetch_add(&proofs, 1);
	__real_proof_of_client(ticket, handshake, proof);
}

static unsigned int work_for(const uint8_t *ticket, bool good)
{
	atomic_store(&proofs, 0);
	if (good)
		expect_good(ticket);
	else
		expect_unknown(ticket);
	return atomic_load(&proofs);
}

/* Three realms with an old and a present ticket each, no ticket, and the client's. */
Test(tickets, each_hello_costs_the_same_work)
{
	const unsigned int work = 3 * 2 + 1 + 1;

	cr_expect_eq(work_for(second, false), work);
	cr_expect_eq(work_for(first, true), work);
	cr_expect_eq(work_for(others, true), work);
	cr_expect_eq(work_for(zeros, true), work);
	cr_assert_eq(tb_publisher_ticket(publisher, "desk", second, 5000), 1);
	cr_expect_eq(work_for(first, true), work);
	cr_expect_eq(work_for(second, true), work);
	cr_expect_eq(work_for(third, false), work);
}

static void expect_error(const char *realm, const uint8_t *ticket, uint32_t old_valid_ms, int code,
			 const char *text)
{
	cr_expect_eq(tb_publisher_ticket(publisher, realm, ticket, old_valid_ms), -code);
	cr_expect_str_eq(tb_error(), text);
	expect_good(first);
	expect_good(others);
}

Test(tickets, wrong_change_is_refused_and_changes_nothing)
{
	expect_error("dusk", second, 0, ENOENT,
		     "ticket of realm dusk: found no realm of this name");
	expect_error("anonymous", second, 0, EINVAL,
		     "ticket of realm anonymous: this realm is for clients without a ticket");
	expect_error("desk", zeros, 0, EINVAL,
		     "ticket of realm desk: found zeros, expected random bytes");
	expect_error("desk", NULL, 0, EINVAL,
		     "ticket of realm desk: found NULL, expected random bytes");
	expect_error(NULL, second, 0, EINVAL,
		     "ticket of realm NULL: found NULL, expected random bytes");
	expect_error("desk", second, 86400001, EINVAL,
		     "ticket of realm desk: old_valid_ms: found 86400001, expected at most "
		     "86400000");
	expect_error("desk", others, 0, EEXIST,
		     "ticket of realm desk: realm risk has the same ticket, expected a ticket of "
		     "its own");
}

/* The old ticket of a realm still leads there. */
Test(tickets, old_ticket_of_another_realm_is_refused_while_it_is_good)
{
	cr_assert_eq(tb_publisher_ticket(publisher, "risk", third, 5000), 1);
	cr_expect_eq(tb_publisher_ticket(publisher, "desk", others, 0), -EEXIST);
	expect_good(first);
	clock_pass(5000);
	cr_expect_eq(tb_publisher_ticket(publisher, "desk", others, 0), 1);
	expect_good(others);
}

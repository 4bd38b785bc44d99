/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of exposed memory over a fake device. Over InfiniBand and RoCE the peers of a realm
 * share a registration, and over iWARP each peer has its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>

#include "bus/clock.h"
#include "bus/verbs/verbs.h"
#include "tests/support/deadline.h"
#include "tests/support/fake_verbs.h"
#include "tests/unit/bus/verbs_scene.h"
#include "tickbus/error.h"

#define REGIONS_A_TURN 16
#define PIECES         (2 * REGIONS_A_TURN + 8)

static char bytes[PIECES][4096];
static struct exposure *exposures[PIECES];
static struct peer *first, *second;
static struct rdma_cm_id *first_id;
static int frames; /* registrations for the messages of both peers */

static struct exposure *exposed(int piece)
{
	const struct memory memory = { .base = bytes[piece], .bytes = sizeof(bytes[piece]) };

	cr_assert_eq(verbs_expose(listener, &memory, 0, &exposures[piece]), 0, "%s", tb_error());
	return exposures[piece];
}

static void two_peers(enum ibv_transport_type transport)
{
	fake.device.transport_type = transport;
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	first_id = connection();
	first = peer;
	connection();
	second = peer;
	frames = fake.registered;
}

static struct fabric_key key_of(struct exposure *exposure, struct peer *whose)
{
	struct fabric_key key;

	cr_assert_eq(verbs_key(exposure, whose, &key), 0, "%s", tb_error());
	return key;
}

/* Turns until so many registrations are left: at most REGIONS_A_TURN are ended in each. */
static void turns(int wanted)
{
	struct pollfd fd = { .fd = verbs_listener_fd(listener), .events = POLLIN };
	const uint64_t end = clock_ms() + deadline_ms();

	while (fake.registered > wanted) {
		const int before = fake.registered;

		cr_assert_lt(clock_ms(), end, "found %d, expected %d", before, wanted);
		poll(&fd, 1, 100);
		verbs_listener_poll(listener);
		cr_assert_leq(before - fake.registered, REGIONS_A_TURN + 1, "%d in one turn",
			      before - fake.registered);
	}
	cr_expect_eq(fake.registered, wanted);
}

Test(keys, peers_share_a_registration_that_begins_at_zero)
{
	struct fabric_key key;

	two_peers(IBV_TRANSPORT_IB);
	exposed(0);
	cr_expect_eq(fake.registered, frames + 1);
	cr_expect_eq(fake.last_memory, bytes[0]);
	cr_expect_eq(fake.last_address, 0, "readers see an address of this process");
	cr_expect_eq(fake.last_access, IBV_ACCESS_REMOTE_READ);
	key = key_of(exposures[0], first);
	cr_expect_eq(key.address, 0);
	cr_expect_eq(key.rkey, key_of(exposures[0], second).rkey);
	cr_expect_eq(fake.registered, frames + 1);
	verbs_withdraw(exposures[0]);
	publisher_end();
}

/* A peer can end each key in the domain of its queue pair. */
Test(keys, iwarp_peer_has_domain_and_registration_of_its_own)
{
	const struct ibv_pd *domain;
	struct fabric_key key;

	two_peers(IBV_TRANSPORT_IWARP);
	domain = fake.last_domain;
	connection();
	cr_expect_neq(fake.last_domain, domain, "two peers share a domain");
	frames = fake.registered;
	exposed(0);
	cr_expect_eq(fake.registered, frames, "memory is registered for no peer");
	key = key_of(exposures[0], first);
	cr_expect_eq(key.address, (uintptr_t)bytes[0]);
	cr_expect_eq(fake.last_access, IBV_ACCESS_REMOTE_READ);
	cr_expect_neq(key_of(exposures[0], second).rkey, key.rkey, "two peers share a key");
	cr_expect_eq(key_of(exposures[0], first).rkey, key.rkey, "a second grant has another key");
	cr_expect_eq(fake.registered, frames + 2);
	cm_event(first_id, RDMA_CM_EVENT_DISCONNECTED, 0);
	verbs_listener_poll(listener);
	cr_expect_eq(fake.registered, frames, "its messages and its key are ended");
	verbs_withdraw(exposures[0]);
	publisher_end();
}

Test(keys, key_that_cannot_be_registered_is_refused)
{
	struct fabric_key key;

	two_peers(IBV_TRANSPORT_IWARP);
	exposed(0);
	fake.register_errno = ENOMEM;
	cr_expect_eq(verbs_key(exposures[0], first, &key), -ENOMEM);
	cr_expect_not_null(strstr(tb_error(), "registering 4096 bytes"), "%s", tb_error());
	fake.register_errno = 0;
	key_of(exposures[0], first);
	publisher_end();
}

Test(keys, turn_ends_a_bounded_number_of_an_iwarp_peers_keys)
{
	two_peers(IBV_TRANSPORT_IWARP);
	for (int i = 0; i < PIECES; i++)
		key_of(exposed(i), first);
	cr_expect_eq(fake.registered, frames + PIECES);
	cm_event(first_id, RDMA_CM_EVENT_DISCONNECTED, 0);
	turns(frames / 2);
	cr_expect_eq(fake_verbs.domains, 2, "its domain is left"); /* of notices, of `second` */
	publisher_end();
}

Test(keys, lost_device_ends_a_bounded_number_of_keys_in_a_turn)
{
	struct pollfd fd = { .events = POLLIN };

	two_peers(IBV_TRANSPORT_IWARP);
	for (int i = 0; i < PIECES; i++)
		key_of(exposed(i), first);
	cm_event(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	fd.fd = verbs_listener_fd(listener);
	while (fake.registered > 0) {
		const int before = fake.registered;

		cr_assert_eq(poll(&fd, 1, (int)deadline_ms()), 1, "no turn is due");
		verbs_listener_poll(listener);
		cr_assert_leq(before - fake.registered, REGIONS_A_TURN + frames, "%d in one turn",
			      before - fake.registered);
	}
	poll_until_logged("the device is back");
	publisher_end();
}

static void expect_bounded_withdrawal(enum ibv_transport_type transport)
{
	two_peers(transport);
	for (int i = 0; i < PIECES; i++)
		key_of(exposed(i), i % 2 ? first : second);
	for (int i = 0; i < PIECES; i++)
		verbs_withdraw(exposures[i]);
	wait_for_timer();
	cr_expect_eq(fake.registered, frames + PIECES, "readers cannot read to the end");
	fake.later_s += 3;
	turns(frames);
	publisher_end();
}

Test(keys, turn_ends_a_bounded_number_of_withdrawn_keys)
{
	expect_bounded_withdrawal(IBV_TRANSPORT_IB);
	expect_bounded_withdrawal(IBV_TRANSPORT_IWARP);
}

/* Many peers may have keys of the same memory. */
Test(keys, turn_ends_a_bounded_number_of_keys_of_one_memory)
{
	fake.device.transport_type = IBV_TRANSPORT_IWARP;
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	exposed(0);
	for (int i = 0; i < PIECES; i++) {
		connection();
		key_of(exposures[0], peer);
	}
	cr_expect_eq(fake.registered, 2 * PIECES);
	verbs_withdraw(exposures[0]);
	wait_for_timer();
	cr_expect_eq(fake.registered, 2 * PIECES);
	fake.later_s += 3;
	turns(PIECES);
	publisher_end();
}

static void message_arrives(const struct rdma_cm_id *id)
{
	fake.last_posted.wr_id = UINT64_C(1) << 63; /* the first receive */
	fake.completion_opcode = IBV_WC_RECV;
	fake.completion_bytes = 64;
	fake.completion_of = id->qp->send_cq;
}

static unsigned int joins;

/* A message of the next peer has arrived already. */
static void key_is_asked(struct peer *whose)
{
	key_of(exposures[0], whose);
	if (++joins < PIECES)
		message_arrives(fake_id(RDMA_PS_TCP, 1 + joins));
}

/* Each join may pin gigabytes, and the owner has a pulse to write. */
Test(keys, turn_gives_a_bounded_number_of_iwarp_keys)
{
	fake.device.transport_type = IBV_TRANSPORT_IWARP;
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	exposed(0);
	for (int i = 0; i < PIECES; i++)
		connection();
	message_arrived = key_is_asked;
	message_arrives(fake_id(RDMA_PS_TCP, 1));
	for (unsigned int turn = 1; joins < PIECES; turn++) {
		verbs_listener_poll(listener);
		cr_assert_eq(joins,
			     turn * REGIONS_A_TURN < PIECES ? turn * REGIONS_A_TURN : PIECES);
	}
	verbs_withdraw(exposures[0]);
	publisher_end();
}

/* -- subscriber ---------------------------------------------------------------------------------
 */

static void expect_open(struct fabric_key key, uint64_t length, const char *why)
{
	struct remote *remote;
	const int result = verbs_remote_open(subscriber, key, length, &remote);

	cr_expect_eq(result, why ? -EPROTO : 0, "%s", tb_error());
	if (why)
		cr_expect_str_eq(tb_error(), why);
	else
		verbs_remote_close(remote);
}

Test(keys, any_address_and_rkey_of_32_bits_is_opened)
{
	subscriber_begin(PLACE);
	expect_open((struct fabric_key){ 0, 0 }, 4096, NULL);
	expect_open((struct fabric_key){ 0, UINT32_MAX }, 4096, NULL);
	expect_open((struct fabric_key){ UINT64_MAX - 4096, 1 }, 4096, NULL);
	expect_open((struct fabric_key){ 0, UINT64_C(1) << 32 }, 4096,
		    "memory handed over: found key 0x100000000, expected an rkey of 32 bits");
	expect_open((struct fabric_key){ UINT64_MAX - 4095, 1 }, 4096,
		    "memory handed over: found 4096 bytes at 18446744073709547520, expected less "
		    "than 2^64");
	subscriber_end();
}

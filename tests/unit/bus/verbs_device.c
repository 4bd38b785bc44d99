/* SPDX-License-Identifier: Apache-2.0 */
/* A device that is lost, goes away and returns, and an address that changes, over a fake device. */
#include <criterion/criterion.h>
#include <poll.h>

#include "bus/address.h"
#include "bus/clock.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_exposure.h"
#include "tests/support/deadline.h"
#include "tests/unit/bus/verbs_scene.h"
#include "tickbus/error.h"

#define PIECES 8

Test(device, lost_device_ends_all_and_is_retried)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	connection_request();
	fake_async_event((struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL });
	poll_until_logged("the device is back");
	cr_expect_str_eq(gone, "the device is lost");
	cr_expect_eq(fake.listens, 2);
	publisher_joined();
	publisher_end();
}

/* Polls until the count is reached. A poll may add only a few, since the owner writes the pulse
 * between polls. */
static unsigned int poll_until_count(const int *count, int wanted, int most)
{
	struct pollfd fd = { .fd = verbs_listener_fd(listener), .events = POLLIN };
	const uint64_t end = clock_ms() + deadline_ms();
	unsigned int polls = 0;

	for (; *count < wanted; polls++) {
		const int before = *count;

		cr_assert_lt(clock_ms(), end);
		poll(&fd, 1, 1000);
		verbs_listener_poll(listener);
		cr_assert_leq(*count, before + most, "%d at once", *count - before);
	}
	return polls;
}

Test(device, returning_device_gets_memory_and_senders_in_steps)
{
	static char bytes[PIECES][4096];
	struct exposure *exposures[PIECES];
	struct announcer *others[PIECES];
	uint64_t began_ms;

	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	for (int i = 0; i < PIECES; i++) {
		const struct memory memory = { .base = bytes[i], .bytes = sizeof(bytes[i]) };

		cr_assert_eq(verbs_expose(listener, &memory, 0, &exposures[i]), 0);
		cr_assert_eq(verbs_announcer(listener, NULL, 64, &others[i]), 0);
	}
	cm_event(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	verbs_listener_poll(listener);
	cr_expect_eq(fake.registered, 0);
	cr_expect_eq(fake.queue_pairs, 0);
	poll_until_count(&fake.ids, 1, 1);
	began_ms = clock_ms();
	cr_expect_geq(poll_until_count(&fake.registered, PIECES, 1), PIECES);
	cr_expect_eq(fake.listens, 1, "listened at before all of it can be read");
	poll_until_logged("the device is back");
	cr_expect_eq(fake.listens, 2);
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	/* The event and the timer may fall into one poll. */
	cr_expect_geq(poll_until_count(&fake.queue_pairs, PIECES + 1, 2), PIECES);
	cr_expect_lt(clock_ms() - began_ms, PIECES * 500, "it waited between its steps");
	cr_expect(is_sent());
	for (int i = 0; i < PIECES; i++) {
		verbs_announcer_close(others[i]);
		verbs_withdraw(exposures[i]);
	}
	publisher_end();
}

static _Atomic uint64_t passed_ms = 1000;

static int test_clock(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = (time_t)(passed_ms / 1000);
	now->tv_nsec = (long)(passed_ms % 1000) * 1000000;
	return 0;
}

/* The time begins when the listener's thread finds the memory withdrawn, however late. */
Test(device, withdrawn_memory_stays_readable_for_its_time)
{
	static char bytes[4096];
	const struct memory memory = { .base = bytes, .bytes = sizeof(bytes) };
	struct verbs_listener *looked;
	struct exposure *exposure;

	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	looked = (struct verbs_listener *)listener;
	cr_assert_eq(verbs_expose(listener, &memory, 0, &exposure), 0);
	clock_replace(test_clock);
	passed_ms += 10 * WITHDRAWN_MS;
	verbs_exposures_free_withdrawn(looked);
	cr_expect_eq(fake.registered, 1);
	verbs_withdraw(exposure);
	passed_ms += 10 * WITHDRAWN_MS;
	verbs_exposures_free_withdrawn(looked);
	cr_expect_eq(fake.registered, 1, "the listener had not seen the withdrawal");
	passed_ms += WITHDRAWN_MS - 1;
	verbs_exposures_free_withdrawn(looked);
	cr_expect_eq(fake.registered, 1, "it ended before its time");
	passed_ms += 1;
	verbs_exposures_free_withdrawn(looked);
	cr_expect_eq(fake.registered, 0, "it is still registered");
	clock_replace(NULL);
	publisher_end();
}

/* A topic that is made between two steps. */
Test(device, additions_during_the_return_are_made_once)
{
	static char bytes[2][4096];
	struct memory memory = { .base = bytes[0], .bytes = sizeof(bytes[0]) };
	struct exposure *exposures[2];
	struct sockaddr_storage own;
	struct announcer *other;

	cr_assert_eq(address_parse_group("239.77.251.10:7472", &own), 0);
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	cr_assert_eq(verbs_expose(listener, &memory, 0, &exposures[0]), 0);
	cm_event(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	verbs_listener_poll(listener);
	poll_until_count(&fake.ids, 1, 1);
	memory.base = bytes[1];
	cr_assert_eq(verbs_expose(listener, &memory, 0, &exposures[1]), 0);
	cr_expect_eq(fake.registered, 1);
	fake.joins = 0;
	cr_assert_eq(verbs_announcer(listener, &own, 64, &other), 0);
	poll_until_logged("the device is back");
	cr_expect_eq(fake.registered, 2);
	cr_expect_eq(fake.joins, 2, "%u joins of 2 groups", fake.joins);
	verbs_announcer_close(other);
	publisher_end();
}

/* A sender that remains would read the maximum datagram size while the group is opened again, or
 * keep the size of the lost device. */
Test(device, absent_device_has_no_udp_senders)
{
	static const char datagram[1024];
	struct fabric_notices notices;
	struct announcer *other;

	fake.udp_mtu = 1500;
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_UDP);
	cr_expect(is_sent());
	cm_event(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	verbs_listener_poll(listener);
	cr_assert_eq(verbs_announcer(listener, NULL, 1024, &other), 0, "%s", tb_error());
	cr_expect_eq(verbs_announce(announcer, "head", 4), -ENOTCONN);
	cr_expect_eq(verbs_announce(other, "head", 4), -ENOTCONN, "it runs without a device");
	fake.udp_mtu = 576;
	poll_until_logged("the device is back");
	poll_until(is_sent, "a notice");
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UDP);
	cr_expect_eq(notices.bytes, 576 - 28);
	cr_expect_eq(verbs_announce(other, datagram, 576 - 28), 0);
	cr_expect_eq(verbs_announce(other, datagram, 576 - 27), -EMSGSIZE);
	verbs_announcer_close(other);
	publisher_end();
}

Test(address, changed_hardware_address_is_bound_again)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	connection_request();
	cm_event(fake_id(RDMA_PS_TCP, 1), RDMA_CM_EVENT_ADDR_CHANGE, 0);
	verbs_listener_poll(listener);
	cr_expect_str_eq(gone, "the interface has another hardware address");
	cr_expect_eq(lines, 0, "%s", news);
	cr_expect(is_sent());
	connection_request();
	cm_event(listening(), RDMA_CM_EVENT_ADDR_CHANGE, 0);
	poll_until_logged("the device is back");
	cr_expect_str_eq(gone, "the interface has another hardware address");
	cr_expect_eq(fake.listens, 2);
	publisher_joined();
	publisher_end();
}

Test(address, changed_hardware_address_ends_connections)
{
	subscriber_begin(PLACE);
	cm_event(fake_id(RDMA_PS_TCP, 0), RDMA_CM_EVENT_ADDR_CHANGE, 0);
	verbs_link_poll(subscriber);
	cr_expect_str_eq(gone, "the interface has another hardware address");
	cr_expect_eq(verbs_link_state(subscriber), LINK_GONE);
	subscriber_end();
}

Test(device, lost_device_ends_connections)
{
	subscriber_begin(PLACE);
	fake_async_event((struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL });
	wait_for_gone();
	cr_expect_str_eq(gone, "the RDMA device is lost");
	subscriber_end();
}

Test(device, other_device_events_change_nothing, .timeout = 60)
{
	subscriber_begin(PLACE);
	fake_async_event((struct ibv_async_event){ .event_type = IBV_EVENT_COMM_EST });
	while (fake.events_taken < fake.events)
		verbs_link_poll(subscriber);
	cr_expect_eq(verbs_link_state(subscriber), LINK_UP);
	subscriber_end();
}

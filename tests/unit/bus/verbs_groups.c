/* SPDX-License-Identifier: Apache-2.0 */
/* Notice groups and their senders, at a publisher over a fake device. */
#include <criterion/criterion.h>
#include <poll.h>

#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_group.h"
#include "tests/unit/bus/verbs_scene.h"

Test(group, lost_group_is_joined_again_and_logged_once)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	poll_until(is_not_sent, "an end of notices");
	for (int i = 0; i < 2; i++) { /* each new try: send-only member, full member */
		const unsigned int before = fake.joins;

		joins_awaited = before + 1;
		poll_until(has_joined, "a new try");
		cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
		joins_awaited = before + 2;
		poll_until(has_joined, "a full member");
		cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
		verbs_listener_poll(listener);
	}
	joins_awaited = fake.joins + 1;
	poll_until(has_joined, "a new try");
	publisher_joined();
	cr_expect_str_eq(news, "address rdma:" PLACE ": no notices to " GROUP ": notices: lost the "
			       "group: Network dropped connection on reset; will retry\n"
			       "address rdma:" PLACE ": notices go to " GROUP " again\n");
	publisher_end();
}

Test(group, failed_join_is_retried)
{
	fake.join_errno = ENETDOWN;
	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	joins_awaited = 3;
	poll_until(has_joined, "further tries");
	cr_expect_eq(lines, 1, "%s", news);
	fake.join_errno = 0;
	joins_awaited = fake.joins + 1;
	poll_until(has_joined, "a new try");
	publisher_joined();
	cr_expect_eq(lines, 2, "%s", news);
	publisher_end();
}

/* The kernel does not support send-only members, or fails now. */
Test(group, refused_send_only_join_falls_back_to_full_member)
{
	fake.refuses_send_only = true;
	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	cr_expect_eq(fake.joins, 2);
	publisher_joined();
	cr_expect_str_empty(news);
	/* A refused full member is tried again later. */
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = 4;
	poll_until(has_joined, "a new try");
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL);
	verbs_listener_poll(listener);
	cr_expect_eq(fake.joins, 4);
	cr_expect_not_null(strstr(news, "cannot join the group: Invalid"), "%s", news);
	publisher_end();
}

static void time_passes(uint64_t ms)
{
	((struct verbs_announcer *)announcer)->group->tried_ms -= ms;
	wait_for_groups_check();
}

Test(group, pending_join_is_given_up_after_ten_seconds)
{
	unsigned int before;

	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	before = fake.joins;
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = before + 1;
	poll_until(has_joined, "a new try");
	time_passes(5000);
	cr_expect_eq(fake.joins, before + 1, "it was given up");
	publisher_joined();
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = before + 2;
	poll_until(has_joined, "a new try");
	time_passes(15000);
	cr_expect_eq(fake.joins, before + 3, "it was waited for");
	publisher_joined();
	publisher_end();
}

/* Otherwise that sender would be retried for ever, and the welcome would name the group. */
Test(group, group_of_other_family_gets_no_sender)
{
	struct sockaddr_storage six;
	struct fabric_notices notices;
	struct announcer *other;

	cr_assert_eq(address_parse_group("[ff15::7]:7472", &six), 0);
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_UDP);
	cr_expect_eq(verbs_announcer(listener, &six, 1024, &other), 0);
	cr_expect_null(other);
	verbs_notices(listener, &six, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_NONE);
	wait_for_groups_check();
	cr_expect_eq(lines, 0, "%s", news);
	publisher_end();
	lines = 0;
	news[0] = '\0';
	publisher_begin("[::1]:7471", FABRIC_NOTICES_UDP);
	cr_expect_null(announcer);
	cr_expect_str_eq(news, "address rdma:[::1]:7471: no notices: the bus's group is an IPv4 "
			       "address\n");
	publisher_end();
}

/* Some devices send at most 96 bytes inline, or 0. They refuse a queue pair that asks for more. */
Test(sender, small_inline_limit_still_gives_a_sender)
{
	static const char notice[128];
	static const struct {
		uint32_t most, bytes;
		bool expected;
	} cases[] = { { 1024, 64, true }, { 96, 64, true }, { 96, 72, false }, { 0, 64, false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.inline_max = cases[i].most;
		publisher_begin(PLACE, FABRIC_NOTICES_UD);
		publisher_joined();
		cr_expect_eq(verbs_announce(announcer, notice, cases[i].bytes), 0);
		cr_expect_eq(!!(fake.last_posted.send_flags & IBV_SEND_INLINE), cases[i].expected,
			     "%u bytes where %u may be inline", cases[i].bytes, cases[i].most);
		cr_expect_str_empty(news);
		publisher_end();
	}
}

static struct announcer *second;

static bool second_is_sent(void)
{
	return verbs_announce(second, "head", 4) == 0;
}

static unsigned int refused_awaited;

static bool is_refused(void)
{
	return fake.refused_pairs >= refused_awaited;
}

Test(sender, failing_sender_is_retried_alone_with_growing_pauses)
{
	unsigned int before;

	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	publisher_joined();
	before = fake.joins;
	fake.queue_pairs_max = fake.queue_pairs;
	cr_assert_eq(verbs_announcer(listener, NULL, 1024, &second), 0);
	cr_expect(is_sent());
	refused_awaited = 3;
	poll_until(is_refused, "further tries");
	cr_expect_geq(fake.refused_ms[1] - fake.refused_ms[0], 500);
	cr_expect_geq(fake.refused_ms[2] - fake.refused_ms[1], 1000);
	cr_expect(is_sent());
	cr_expect_not(second_is_sent());
	cr_expect_eq(fake.joins, before);
	cr_expect_str_eq(news, "address rdma:" PLACE ": cannot create a sender to " GROUP
			       ": notices: cannot create a queue pair: Cannot allocate memory; "
			       "will retry\n");
	/* A group that is joined again starts the senders that it can, despite the sender that
	 * fails. */
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = before + 1;
	poll_until(has_joined, "a new try");
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	verbs_listener_poll(listener);
	wait_for_groups_check();
	cr_expect_eq(fake.joins, before + 1);
	cr_expect_neq(is_sent(), second_is_sent());
	fake.queue_pairs_max = FAKE_IDS_MAX;
	poll_until_logged("all senders to " GROUP " work again");
	cr_expect(is_sent() && second_is_sent());
	verbs_announcer_close(second);
	publisher_end();
}

/* At each check of the list, the senders at its front are due for another try. */
Test(sender, failing_sender_does_not_delay_the_next)
{
	struct pollfd fd;
	unsigned int tries;

	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	fd = (struct pollfd){ .fd = verbs_listener_fd(listener), .events = POLLIN };
	fake.refused_bytes = 64 * 128; /* of the sender made last, the first in the list */
	cr_assert_eq(verbs_announcer(listener, NULL, 128, &second), 0);
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	for (tries = 0; !is_sent() && tries < 4; tries = fake.refused_regions) {
		fake.later_s += 100;
		poll(&fd, 1, 1000);
		verbs_listener_poll(listener);
	}
	cr_expect(is_sent(), "the first was tried %u times, and the one behind it never", tries);
	cr_expect_geq(fake.refused_regions, 1);
	verbs_announcer_close(second);
	publisher_end();
}

Test(sender, different_failures_are_logged_once)
{
	struct pollfd fd;

	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	fd = (struct pollfd){ .fd = verbs_listener_fd(listener), .events = POLLIN };
	fake.refused_bytes = 64 * 128;
	cr_assert_eq(verbs_announcer(listener, NULL, 128, &second), 0);
	fake.register_errno = EPERM;
	cm_event(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	while (fake.refused_regions < 4) {
		fake.later_s += 100;
		poll(&fd, 1, 1000);
		verbs_listener_poll(listener);
	}
	cr_expect_eq(lines, 1, "%s", news);
	fake.register_errno = 0;
	verbs_announcer_close(second);
	publisher_end();
}

/* RoCE joins no groups of IPv6. */
Test(group, unsupported_group_falls_back_to_udp_if_auto)
{
	struct fabric_notices notices;

	fake.join_errno = 524;
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_AUTO);
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UDP);
	cr_expect_eq(verbs_announce(announcer, "head", 4), 0);
	cr_expect_str_empty(news);
	publisher_end();
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_UD);
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UD);
	cr_expect_eq(verbs_announce(announcer, "head", 4), -ENOTCONN);
	cr_expect_not_null(strstr(news, "the kernel does not support it on this kind of device"),
			   "%s", news);
	publisher_end();
}

Test(group, path_mtu_bounds_datagrams)
{
	static const char datagram[1024];
	struct fabric_notices notices;

	fake.mtu = IBV_MTU_512;
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.bytes, 512);
	fake.posted = 0;
	cr_expect_eq(verbs_announce(announcer, datagram, 513), -EMSGSIZE);
	cr_expect_eq(fake.posted, 0);
	cr_expect_eq(verbs_announce(announcer, datagram, 512), 0);
	cr_expect_eq(fake.posted, 1);
	publisher_end();
}

static uint32_t bytes_by_udp(const char *address, enum fabric_notices_kind kind, int interface_mtu)
{
	static const char datagram[1024];
	struct fabric_notices notices;

	fake.udp_mtu = interface_mtu;
	publisher_begin(address, kind);
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UDP);
	cr_expect_eq(verbs_announce(announcer, datagram, notices.bytes), 0);
	if (notices.bytes < sizeof(datagram))
		cr_expect_eq(verbs_announce(announcer, datagram, notices.bytes + 1), -EMSGSIZE);
	publisher_end();
	return notices.bytes;
}

/* A fragment that is lost takes the whole with it. */
Test(group, udp_datagrams_are_sent_in_one_piece)
{
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_UDP, 1500), 1024);
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_UDP, 576), 576 - 28);
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_UDP, 0), 1024);
	fake.join_errno = VERBS_UNSUPPORTED;
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_AUTO, 576), 576 - 28);
}

/* The fake device completes no send. */
Test(sender, full_queue_without_completions_starts_it_again)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	while (is_sent())
		;
	poll_until_logged("a sender failed and was started again");
	poll_until(is_sent, "a notice");
	cr_expect_eq(lines, 1, "%s", news);
	publisher_end();
}

Test(sender, broken_completion_queue_starts_it_again)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	fake.broken_queue = ((struct verbs_announcer *)announcer)->cq;
	poll_until_logged("a sender failed and was started again");
	poll_until(is_sent, "a notice");
	publisher_end();
}

Test(sender, failed_send_starts_the_sender_again)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	fake.completion_status = IBV_WC_LOC_QP_OP_ERR;
	fake.completion_of = ((struct verbs_announcer *)announcer)->cq;
	poll_until_logged("a sender failed and was started again");
	fake.completion_status = IBV_WC_SUCCESS;
	poll_until(is_sent, "a notice");
	cr_expect_eq(lines, 1, "%s", news);
	publisher_end();
}

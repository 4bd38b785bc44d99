/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a link's descriptor, over any fabric. */
#include <criterion/criterion.h>
#include <poll.h>

#include "tests/support/random.h"
#include "tests/support/scene.h"
#include "tests/conformance/fabric_scene.h"

TestSuite(fabric, .init = enter, .fini = leave, .timeout = 60);

static int readable(int fd, uint32_t timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, (int)timeout_ms);
}

Test(fabric, message_wakes_a_sleeping_link)
{
	host_open(4);
	guest_enter(&guests[0]);
	for (unsigned int round = 1; round <= 500; round++) {
		const bool early = random_below(&random_state, 2);
		int asleep;

		if (early)
			cr_assert_eq(ops->send(host.peers[0], "early", 5, NULL), 0);
		asleep = ops->sleep(guests[0].link) == 0;
		if (!early)
			cr_assert_eq(ops->send(host.peers[0], "late", 4, NULL), 0);
		if (asleep)
			cr_assert_eq(readable(ops->link_fd(guests[0].link), deadline_ms()), 1,
				     "round %u", round);
		UNTIL(guests[0].messages == round);
		cr_assert_eq(ops->link_send(guests[0].link, "back", 4), 0);
		cr_assert_eq(readable(ops->listener_fd(host.listener), deadline_ms()), 1);
		UNTIL(host.messages == round);
	}
}

Test(fabric, idle_link_sleeps)
{
	host_open(4);
	cr_assert_eq(guest_try(&guests[0], "hello", 5), 0);
	cr_assert_eq(readable(ops->listener_fd(host.listener), deadline_ms()), 1);
	UNTIL(guests[0].welcomes == 1);
	UNTIL(ops->sleep(guests[0].link) == 0 && readable(ops->link_fd(guests[0].link), 0) == 0);
	UNTIL(readable(ops->listener_fd(host.listener), 0) == 0);
}

Test(fabric, completed_read_wakes_a_sleeping_link)
{
	host_open(4);
	guest_enter(&guests[0]);
	guests[0].tally = 0;
	for (unsigned int round = 1; round <= 200; round++) {
		cr_assert_eq(guest_read(&guests[0], 0, 8, 0, round), 1);
		while (guests[0].tally < round) {
			if (ops->sleep(guests[0].link) == 0)
				cr_assert_eq(readable(ops->link_fd(guests[0].link), deadline_ms()),
					     1, "round %u", round);
			ops->link_poll(guests[0].link);
			guest_reap(&guests[0]);
		}
	}
}

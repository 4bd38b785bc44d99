/* SPDX-License-Identifier: Apache-2.0 */
/* Path MTUs that a port does not have, over a fake device. */
#include <criterion/criterion.h>
#include <errno.h>

#include "bus/verbs/verbs.h"
#include "tests/unit/bus/verbs_scene.h"

/* The request has the MTU of the subscriber's interface. An equal or smaller MTU is fine. */
Test(mtu, path_above_the_publishers_port_is_refused_with_both)
{
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		fake.path_mtu = mtu;
		fake.rejected.number = 0;
		request_arrives();
		verbs_listener_poll(listener);
		cr_expect_eq(fake.rejected.number, mtu > IBV_MTU_1024 ? EMSGSIZE : 0, "MTU %d: %d",
			     mtu, fake.rejected.number);
	}
	cr_expect_str_eq((const char *)fake.rejected.body,
			 "the path MTU of this connection is 4096 bytes, but the publisher's port "
			 "has 1024: give both interfaces the same MTU");
	cr_expect_not_null(strstr(news, "4096 bytes, but the publisher's port has 1024"), "%s",
			   news);
	publisher_end(); /* the refused requests have left nothing */
}

/* As over iWARP. */
Test(mtu, connection_without_a_path_mtu_is_accepted)
{
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	fake.mtu = IBV_MTU_256;
	connection_request();
	publisher_end();
}

static void expect_broken(enum ibv_mtu port, const char *why)
{
	fake.mtu = IBV_MTU_4096;
	fake.path_mtu = IBV_MTU_4096;
	subscriber_begin(PLACE);
	fake.mtu = port;
	fake.completes = true;
	fake.completion_status = IBV_WC_RETRY_EXC_ERR;
	verbs_link_send(subscriber, "message", 7);
	wait_for_gone();
	fake.completes = false;
	fake.completion_status = IBV_WC_SUCCESS;
	if (why)
		cr_expect_not_null(strstr(gone, why), "%s", gone);
	else
		cr_expect_null(strstr(gone, "MTU"), "%s", gone);
	subscriber_end();
}

Test(mtu, broken_connection_names_the_subscribers_smaller_port)
{
	expect_broken(IBV_MTU_4096, NULL);
	expect_broken(IBV_MTU_1024,
		      "; the path MTU of this connection is 4096 bytes, but the subscriber's port "
		      "has 1024: give both interfaces the same MTU");
}

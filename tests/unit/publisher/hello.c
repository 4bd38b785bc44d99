/* SPDX-License-Identifier: Apache-2.0 */
/* Which hello gets a welcome. */

#include <criterion/criterion.h>
#include <errno.h>

#include "bus/words.h"
#include "tests/unit/publisher/client.h"

TestSuite(hello, .init = client_enter, .fini = client_leave, .timeout = 60);

Test(hello, unsupported_hello_is_refused_with_reason)
{
	expect_refused_hello(
		(struct control_hello){ .version_low = 3, .version_high = 7 }, EPROTO,
		"no common version: the subscriber speaks 3 to 7, the publisher 2 to 2");
	expect_refused_hello(
		(struct control_hello){ .version_low = 1, .version_high = 1 }, EPROTO,
		"no common version: the subscriber speaks 1 to 1, the publisher 2 to 2");
	expect_refused_hello(
		(struct control_hello){ .version_low = 2, .version_high = 2, .ticket = { 0, 1 } },
		EACCES, "the subscriber has a ticket, but no realm of the bus has a ticket");
	client_connect(&client, "hello", 5);
	cr_expect_eq(client.code, EPROTO);
	cr_expect_str_eq(client.why, "hello message of 5 bytes: has no tickbus magic at byte 0");
	client_close(&client);
	client_open(&other);
	cr_expect_eq(bus_counter(BUS_REFUSED), 4);
	cr_expect_eq(bus_counter(BUS_SUBSCRIBERS), 1);
}

Test(hello, wider_version_range_gets_common_version)
{
	const struct control_hello hello = { .version_low = 1, .version_high = 200 };
	uint8_t bytes[FABRIC_HELLO_BYTES];
	struct bus_pulse pulse;

	client_connect(&client, bytes, control_hello_encode(&hello, bytes));
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of READs in an address, over a network that reaches no publisher. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "bus/address.h"
#include "bus/error.h"
#include "subscriber/state.h"

static int absent_connect(struct link **link, const char *address, const void *hello, size_t bytes,
			  const struct link_calls *calls, void *user)
{
	(void)address, (void)hello, (void)bytes, (void)calls, (void)user;
	*link = NULL;
	return error_set(ENODEV, "there is no device");
}

static int any_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "%.40s", address);
	return 0;
}

static struct fabric_ops network = {
	.scheme = "absent", .network = true, .identity = any_identity, .connect = absent_connect
};
static struct fabric_ops memory = { .scheme = "here",
				    .identity = any_identity,
				    .connect = absent_connect };

static void fabrics_add(void)
{
	cr_assert_eq(fabric_add(&network), 0);
	cr_assert_eq(fabric_add(&memory), 0);
}

TestSuite(read_sizes, .init = fabrics_add);

/* 0, with the sizes; or -errno. */
static int sizes(const char *address, uint32_t batch, uint32_t read, uint32_t found[2])
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .flags = TB_WAIT,
						       .batch_bytes = batch,
						       .read_bytes = read };
	struct tb_subscriber *subscriber;
	const int result = tb_subscriber_open(&subscriber, &options);

	if (result < 0)
		return result;
	found[0] = subscriber->batch_bytes;
	found[1] = subscriber->read_bytes;
	tb_subscriber_close(subscriber);
	return 0;
}

Test(read_sizes, address_sizes_override_the_options)
{
	static const struct {
		const char *address;
		uint32_t batch, read, expected[2];
	} cases[] = {
		{ "absent:10.9.0.1:7471", 0, 0, { 65536, 8192 } },
		{ "absent:10.9.0.1:7471", 131072, 4096, { 131072, 4096 } },
		{ "absent:10.9.0.1:7471,read_bytes=16384", 0, 0, { 65536, 16384 } },
		{ "absent:10.9.0.1:7471,batch_bytes=1048576", 0, 0, { 1048576, 32768 } },
		{ "absent:10.9.0.1:7471,read_bytes=4096,batch_bytes=32768",
		  131072,
		  65536,
		  { 32768, 4096 } },
		{ "absent:10.9.0.1:7471,batch_bytes=32768", 0, 2048, { 32768, 2048 } },
		{ "absent:10.9.0.1:7471,batch_bytes=8192", 0, 65536, { 8192, 8192 } },
		{ "absent:10.9.0.1:7471,batch_bytes=1048576", 65536, 4096, { 1048576, 32768 } },
		{ "absent:10.9.0.1:7471,batch_bytes=8192", 0, 4096, { 8192, 4096 } },
		{ "absent:somewhere", 131072, 0, { 131072, 8192 } },
		{ "here:10.9.0.1:7471,read_bytes=16384", 0, 0, { 65536, 8192 } },
		{ "fault:seed=1/absent:10.9.0.1:7471,read_bytes=16384", 0, 0, { 65536, 16384 } },
		{ "fault:seed=1/here:10.9.0.1:7471,read_bytes=16384", 0, 0, { 65536, 8192 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t found[2] = { 0 };

		cr_assert_eq(sizes(cases[i].address, cases[i].batch, cases[i].read, found), 0,
			     "%s: %s", cases[i].address, tb_error());
		cr_expect_arr_eq(found, cases[i].expected, sizeof(found), "%s: %u, %u",
				 cases[i].address, found[0], found[1]);
	}
}

Test(read_sizes, address_sizes_have_the_bounds_of_the_options)
{
	uint32_t found[2];

	cr_expect_eq(sizes("absent:10.9.0.1:7471,read_bytes=1984", 0, 0, found), -EINVAL);
	cr_expect_str_eq(tb_error(), "address absent:10.9.0.1:7471,read_bytes=1984: read_bytes: "
				     "found 1984, expected 2048 to 65536");
	cr_expect_eq(sizes("absent:10.9.0.1:7471", 0, 2047, found), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscriber options: read_bytes: found 2047, expected 2048 to "
				     "65536");
	cr_expect_eq(sizes("absent:10.9.0.1:7471", 8191, 0, found), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscriber options: batch_bytes: found 8191, expected 8192 "
				     "to 16777216");
}

/* The polling interval in ns, or -EINVAL. */
static int64_t interval(const char *address, uint32_t poll_us)
{
	const struct tb_subscriber_options options = {
		.size = sizeof(options), .address = address, .flags = TB_WAIT, .poll_us = poll_us
	};
	struct tb_subscriber *subscriber;
	int64_t found = tb_subscriber_open(&subscriber, &options);

	if (found < 0)
		return found;
	found = (int64_t)subscriber->poll_ns;
	tb_subscriber_close(subscriber);
	return found;
}

Test(read_sizes, polling_interval_comes_from_option_or_address)
{
	static const struct {
		const char *address;
		uint32_t poll_us;
		int64_t expected_ns;
	} cases[] = {
		{ "absent:10.9.0.1:7471", 0, 1000000 },
		{ "absent:10.9.0.1:7471", 100, 100000 },
		{ "absent:10.9.0.1:7471", 1, 1000 },
		{ "absent:10.9.0.1:7471", 1000000, 1000000000 },
		{ "absent:10.9.0.1:7471", TB_POLL_SPIN, 0 },
		{ "absent:10.9.0.1:7471", 1000001, -EINVAL },
		{ "absent:10.9.0.1:7471,poll_us=0", 100, 0 },
		{ "absent:10.9.0.1:7471,poll_us=250", TB_POLL_SPIN, 250000 },
		{ "absent:10.9.0.1:7471,poll_us=1000000", 0, 1000000000 },
		{ "here:10.9.0.1:7471,poll_us=250", 100, 100000 },
		{ "fault:seed=1/absent:10.9.0.1:7471,poll_us=250", 100, 250000 },
		{ "fault:seed=1/here:10.9.0.1:7471,poll_us=250", 100, 100000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const int64_t found = interval(cases[i].address, cases[i].poll_us);

		cr_expect_eq(found, cases[i].expected_ns, "%s and %u: %lld", cases[i].address,
			     cases[i].poll_us, (long long)found);
	}
	cr_expect_eq(interval("absent:10.9.0.1:7471", 1000001), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscriber options: poll_us: found 1000001, expected 1 to "
				     "1000000, or TB_POLL_SPIN");
}

Test(read_sizes, contradicting_sizes_are_refused_before_connecting)
{
	static const struct {
		const char *address, *text;
	} cases[] = {
		{ "1.2.3.4:5,retries=2,retries=3", "found retries= twice, expected it once" },
		{ "1.2.3.4:5,retries=2,reads=1,retries=2",
		  "found retries= twice, expected it once" },
		{ "1.2.3.4:5,source=1.2.3.4,source=1.2.3.5",
		  "found source= twice, expected it once" },
		{ "1.2.3.4:99999", "port: found 99999, expected 1 to 65535" },
		{ "[fd00::1]:0,retries=2", "port: found 0, expected 1 to 65535" },
		{ "1.2.3.4:5,read_bytes=2047",
		  "read_bytes: found 2047, expected a multiple of 64, the unit of slot sizes" },
		{ "1.2.3.4:5,read_bytes=1984,batch_bytes=65536",
		  "read_bytes: found 1984, expected 2048 to 65536 with batch_bytes=65536" },
		{ "1.2.3.4:5,batch_bytes=9000,read_bytes=8256",
		  "read_bytes: found 8256, expected 256 to 8192 with batch_bytes=9000" },
	};
	struct address address;
	char text[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(address_parse(cases[i].address, &address), -EINVAL);
		snprintf(text, sizeof(text), "address rdma:%s: %s", cases[i].address,
			 cases[i].text);
		cr_expect_str_eq(tb_error(), text);
	}
	cr_expect_eq(address_parse("1.2.3.4:5,batch_bytes=8192,read_bytes=256,retries=2", &address),
		     0, "%s", tb_error());
}

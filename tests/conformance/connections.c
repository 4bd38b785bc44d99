/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, refusals, messages, and bounds of peers, over any fabric. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>

#include "tests/support/random.h"
#include "tests/support/scene.h"
#include "tests/conformance/fabric_scene.h"

TestSuite(fabric, .init = enter, .fini = leave, .timeout = 60);

Test(fabric, hello_and_welcome_arrive_unchanged)
{
	uint8_t hello[FABRIC_HELLO_BYTES];

	host_open(4);
	host.pad_to = FABRIC_WELCOME_BYTES;
	random_fill(&random_state, hello, sizeof(hello));
	cr_assert_eq(guest_try(&guests[0], hello, sizeof(hello)), 0, "%s", tb_error());
	cr_expect_eq(ops->link_state(guests[0].link), LINK_CONNECTING);
	cr_expect_eq(ops->link_send(guests[0].link, "early", 5), -ENOTCONN);
	UNTIL(guests[0].welcomes == 1);
	cr_expect_eq(ops->link_state(guests[0].link), LINK_UP);
	cr_assert_eq(host.last_bytes, sizeof(hello));
	cr_expect_arr_eq(host.last, hello, sizeof(hello));
	cr_assert_eq(guests[0].last_bytes, FABRIC_WELCOME_BYTES);
	for (size_t i = sizeof(struct offer); i < FABRIC_WELCOME_BYTES; i++)
		cr_assert_eq(guests[0].last[i], 'w');
	cr_expect_eq(host.logged + host.gones + guests[0].gones, 0);
}

Test(fabric, refusal_arrives_with_code_and_reason)
{
	const int codes[] = { EPROTO, EACCES };
	char reason[FABRIC_REASON_BYTES] = "";

	host_open(4);
	memset(reason, 'r', sizeof(reason) - 1);
	for (size_t i = 0; i < 2; i++) {
		host.refuse = codes[i];
		cr_assert_eq(guest_try(&guests[i], "hello", 5), 0, "%s", tb_error());
		UNTIL(guests[i].gones == 1);
		cr_expect_eq(guests[i].code, codes[i]);
		cr_expect_str_eq(guests[i].why, reason);
		cr_expect_eq(ops->link_state(guests[i].link), LINK_GONE);
		cr_expect_eq(ops->link_send(guests[i].link, "late", 4), -ENOTCONN);
		UNTIL(host.logged == i + 1);
		cr_expect(strstr(host.log, reason), "%s", host.log);
	}
	host.refuse = 0;
	guest_enter(&guests[2]);
	expect_reads(&guests[2]);
	cr_expect_eq(host.gones, 0, "gone was called for a refused peer");
}

/* One peer at a time: a request that was challenged holds no place. */
Test(fabric, challenged_guest_enters_with_its_second_hello)
{
	const uint8_t none[FABRIC_ORIGIN_BYTES] = { 0 };
	uint8_t origin[FABRIC_ORIGIN_BYTES];

	host_open(1);
	host.challenges = 1;
	cr_assert_eq(guest_try(&guests[0], "hello", 5), 0, "%s", tb_error());
	UNTIL(guests[0].challenges == 1);
	cr_expect_eq(host.hellos, 0, "nothing is accepted before the second hello");
	cr_expect_eq(ops->link_state(guests[0].link), LINK_CONNECTING);
	memcpy(origin, host.origin, sizeof(origin));
	cr_expect(host.origin_bytes > 0 && host.origin_bytes <= sizeof(origin));
	cr_expect_neq(memcmp(origin, none, host.origin_bytes), 0);
	UNTIL(guests[0].welcomes == 1);
	cr_expect_eq(host.hellos, 1);
	cr_assert_eq(host.last_bytes, FABRIC_HELLO_BYTES);
	cr_expect_arr_eq(host.last, CHALLENGE, FABRIC_CHALLENGE_BYTES);
	for (size_t i = FABRIC_CHALLENGE_BYTES; i < FABRIC_HELLO_BYTES; i++)
		cr_assert_eq(host.last[i], 'h');
	cr_expect_arr_eq(origin, host.origin, sizeof(origin));
	guests[0].landing = ops->landing(guests[0].link, LANDING);
	expect_reads(&guests[0]);
	expect_message(&guests[0]);
	cr_expect_eq(host.logged + host.gones + guests[0].gones, 0);
}

Test(fabric, second_challenge_ends_the_link)
{
	host_open(4);
	host.challenges = 2;
	cr_assert_eq(guest_try(&guests[0], "hello", 5), 0, "%s", tb_error());
	UNTIL(guests[0].gones == 1);
	cr_expect_eq(guests[0].code, EPROTO, "%s", guests[0].why);
	cr_expect_eq(guests[0].challenges, 1);
	guest_enter(&guests[1]);
	expect_reads(&guests[1]);
	cr_expect_eq(host.hellos, 1);
}

Test(fabric, refusal_of_a_second_hello_arrives)
{
	host_open(4);
	host.challenges = 1;
	host.refuse = EACCES;
	cr_assert_eq(guest_try(&guests[0], "hello", 5), 0, "%s", tb_error());
	UNTIL(guests[0].gones == 1);
	cr_expect_eq(guests[0].challenges, 1);
	cr_expect_eq(guests[0].code, EACCES, "%s", guests[0].why);
	UNTIL(host.logged == 1);
	cr_expect_eq(host.gones, 0);
}

Test(fabric, unanswered_challenge_leaves_no_peer)
{
	host_open(1);
	host.challenges = 1;
	guests[0].unwilling = EIO;
	cr_assert_eq(guest_try(&guests[0], "hello", 5), 0, "%s", tb_error());
	UNTIL(guests[0].gones == 1);
	cr_expect_eq(guests[0].code, EIO);
	cr_expect_str_eq(guests[0].why, "unwilling");
	guest_leave(&guests[0]);
	UNTIL((guests[1].link || guest_try(&guests[1], "hello", 5) == 0) &&
	      (guests[1].welcomes || (guests[1].gones && (guest_leave(&guests[1]), false))));
	cr_expect_eq(host.hellos, 1);
	cr_expect_eq(host.gones, 0);
}

/* Both sides have a text for the address, and it is never that of another publisher. */
Test(fabric, identity_is_the_text_of_the_address)
{
	char first[FABRIC_IDENTITY_BYTES], again[FABRIC_IDENTITY_BYTES];
	char other[FABRIC_IDENTITY_BYTES];

	cr_assert_eq(ops->identity(place, first), 0);
	cr_assert_eq(ops->identity(place, again), 0);
	cr_expect_str_eq(first, again);
	cr_expect_str_eq(first, place);
	place_second();
	cr_assert_eq(ops->identity(place, other), 0);
	cr_expect_str_neq(first, other);
}

Test(fabric, address_without_listener_refuses)
{
	const int result = guest_try(&guests[0], "hello", 5);

	if (result == 0) {
		UNTIL(guests[0].gones == 1);
		cr_expect_eq(guests[0].code, ECONNREFUSED, "%s", guests[0].why);
	} else {
		cr_expect_eq(result, -ECONNREFUSED, "%s", tb_error());
		cr_expect_null(guests[0].link);
	}
}

Test(fabric, address_has_one_publisher_at_a_time)
{
	struct listener *first;

	host_open(4);
	first = host.listener;
	cr_expect_eq(host_try(&host.listener, 4), -EADDRINUSE);
	cr_expect(strstr(tb_error(), place), "%s", tb_error());
	cr_expect_null(host.listener);
	host.listener = first;
	guest_enter(&guests[0]);
	host_close();
	UNTIL(guests[0].gones == 1);
	host_open(4);
	guest_enter(&guests[1]);
	expect_reads(&guests[1]);
}

Test(fabric, messages_of_every_length_arrive_in_order)
{
	uint8_t message[FABRIC_MESSAGE_BYTES];

	host_open(4);
	guest_enter(&guests[0]);
	for (size_t bytes = 1; bytes <= sizeof(message); bytes++) {
		random_fill(&random_state, message, bytes);
		cr_assert_eq(ops->link_send(guests[0].link, message, bytes), 0, "%s", tb_error());
		cr_assert_eq(ops->send(host.peers[0], message, bytes, NULL), 0, "%s", tb_error());
		UNTIL(host.messages == bytes && guests[0].messages == bytes);
		cr_assert(host.last_bytes == bytes && guests[0].last_bytes == bytes);
		cr_assert_arr_eq(host.last, message, bytes);
		cr_assert_arr_eq(guests[0].last, message, bytes);
	}
}

Test(fabric, empty_or_too_long_message_is_not_sent)
{
	uint8_t message[FABRIC_MESSAGE_BYTES + 1] = { 1 };

	host_open(4);
	guest_enter(&guests[0]);
	cr_expect_eq(ops->link_send(guests[0].link, message, sizeof(message)), -EMSGSIZE);
	cr_expect_eq(ops->link_send(guests[0].link, message, 0), -EMSGSIZE);
	cr_expect_eq(ops->send(host.peers[0], message, sizeof(message), NULL), -EMSGSIZE);
	cr_expect_eq(ops->send(host.peers[0], message, 0, NULL), -EMSGSIZE);
	expect_message(&guests[0]);
	cr_expect_eq(guests[0].messages, 0);
}

/* What can wait takes half of a queue, so the answers to all requests still have room. */
Test(fabric, offers_fill_half_a_queue_and_answers_go_on)
{
	uint8_t message[FABRIC_MESSAGE_BYTES] = { 0 };
	uint32_t sent = 0;
	int result = 0;

	host_open(4);
	guest_enter(&guests[0]);
	for (int round = 0; round < 3; round++) {
		for (result = 0; result == 0 && sent < FLOOD_MAX; sent += result == 0) {
			memcpy(message, &sent, sizeof(sent));
			result = ops->offer(host.peers[0], message, sizeof(message));
		}
		cr_assert_eq(result, -EAGAIN, "%d after %u messages", result, sent);
		for (int i = 0; i < FABRIC_UNANSWERED; i++, sent++) {
			memcpy(message, &sent, sizeof(sent));
			cr_assert_eq(ops->send(host.peers[0], message, sizeof(message), NULL), 0,
				     "no room for answer %d: %s", i, tb_error());
		}
		cr_assert_geq(sent, 2 * FABRIC_UNANSWERED);
		UNTIL(guests[0].expected == sent);
	}
	cr_expect_eq(guests[0].gones, 0, "%s", guests[0].why);
}

/* Accepted messages arrive in order; the sender of one too many gets an error at once. */
Test(fabric, full_queue_gives_EAGAIN_and_loses_nothing)
{
	uint8_t message[FABRIC_MESSAGE_BYTES] = { 0 };
	uint32_t sent;
	int result = 0;

	host_open(4);
	guest_enter(&guests[0]);
	for (int round = 0; round < 3; round++) {
		for (sent = 0; sent < FLOOD_MAX && result == 0; sent += result == 0) {
			const uint32_t number = guests[0].expected + sent;

			memcpy(message, &number, sizeof(number));
			result = ops->send(host.peers[0], message, sizeof(message), NULL);
		}
		cr_assert_eq(result, -EAGAIN, "%d after %u messages", result, sent);
		cr_assert_geq(sent, FABRIC_UNANSWERED);
		sent += guests[0].expected;
		UNTIL(guests[0].expected == sent);
		result = 0;
		for (sent = 0; sent < FLOOD_MAX && result == 0; sent += result == 0) {
			const uint32_t number = host.expected + sent;

			memcpy(message, &number, sizeof(number));
			result = ops->link_send(guests[0].link, message, sizeof(message));
		}
		cr_assert_eq(result, -EAGAIN, "%d after %u messages", result, sent);
		cr_assert_geq(sent, FABRIC_UNANSWERED);
		sent += host.expected;
		UNTIL(host.expected == sent);
		result = 0;
	}
	cr_expect_eq(host.messages, host.expected);
	cr_expect_eq(guests[0].messages, guests[0].expected);
}

Test(fabric, peers_beyond_the_maximum_are_refused)
{
	host_open(2);
	guest_enter(&guests[0]);
	guest_enter(&guests[1]);
	for (size_t i = 2; i < 6; i++) {
		const int result = guest_try(&guests[i], "hello", 5);

		cr_assert_eq(result, 0, "%s", tb_error());
		UNTIL(guests[i].gones == 1);
		cr_expect(strstr(guests[i].why, "maximum number"), "%d %s", guests[i].code,
			  guests[i].why);
	}
	UNTIL(host.logged == 4);
	expect_reads(&guests[0]);
	expect_message(&guests[1]);
	guest_leave(&guests[0]);
	UNTIL(host.gones == 1);
	guest_enter(&guests[6]);
	expect_reads(&guests[6]);
}

static unsigned int descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (list && readdir(list))
		count++;
	if (list)
		closedir(list);
	return count;
}

static unsigned int mappings(void)
{
	FILE *list = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	int c;

	while (list && (c = fgetc(list)) != EOF)
		count += c == '\n';
	if (list)
		fclose(list);
	return count;
}

/* A thousand; or as many as can be made in a minute where a device is slow. */
Test(fabric, repeated_connections_leave_nothing)
{
	const char *wanted = getenv("TICKBUS_TEST_CONNECTIONS");
	const unsigned int count = wanted ? (unsigned int)atoi(wanted) : 1000;
	unsigned int before, mapped;
	uint64_t until_ms;

	cr_assert(count >= 100 && count <= 1000, "found %u, expected 100 to 1000", count);
	host_open(4);
	guest_enter(&guests[0]);
	guest_enter(&guests[1]);
	guest_leave(&guests[1]);
	UNTIL(host.gones == 1);
	before = descriptors();
	mapped = mappings();
	for (unsigned int i = 0; i < count; i++) {
		guest_enter(&guests[1]);
		guest_leave(&guests[1]);
		UNTIL(host.gones == i + 2);
	}
	until_ms = scene_now_ms() + deadline_ms();
	/* A porter that ends late is forgotten with a later connection. */
	for (unsigned int i = count; descriptors() != before; i++) {
		cr_assert_lt(scene_now_ms(), until_ms, "found %u descriptors, expected %u",
			     descriptors(), before);
		guest_enter(&guests[1]);
		guest_leave(&guests[1]);
		UNTIL(host.gones == i + 2);
	}
	cr_expect_lt(mappings(), mapped + 50, "memory that was handed over stays mapped");
	expect_reads(&guests[0]);
}

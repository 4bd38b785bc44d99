/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of connections of realms and hosts: when they are reached, and that places come back. */
#include "publisher/quota.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "publisher/publisher.h"
#include "publisher/session.h"
#include "tests/unit/publisher/client.h"

#define CLIENTS  5
#define HOSTS    1000 /* more than the lists that they are kept in */
#define PER_HOST 3
#define PLACES   4
#define WEAK_MAX 2
#define REALMS   2

static const uint8_t strong[TB_TICKET_BYTES] = { 7 };
static struct client clients[CLIENTS];

static void open_with(uint32_t weak_max, uint32_t per_host, size_t realm_count)
{
	static const char *const all = ">";
	const struct tb_realm realms[REALMS] = {
		{ sizeof(*realms), .name = "anonymous", .topics = &all, .topic_count = 1,
		  .subscribers_max = weak_max },
		{ sizeof(*realms), .name = "strong", .ticket = strong, .topics = &all,
		  .topic_count = 1 },
	};
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .stale_ms = 60000,
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log,
						      .subscribers_max = PLACES,
						      .subscribers_per_host = per_host,
						      .realms = realms,
						      .realm_count = realm_count };

	ops = fabric_find("shm:test", &address);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
}

static void leave(void)
{
	for (size_t i = 0; i < CLIENTS; i++)
		client_close(&clients[i]);
	client_leave();
}

TestSuite(quota, .init = scene_enter, .fini = leave, .timeout = 60);

/* Sessions end when the publisher has seen that the client is gone. */
static void wait_for_sessions(uint64_t count)
{
	UNTIL(&clients[0], bus_counter(BUS_SUBSCRIBERS) == count);
}

static void open_and_expect_refusal(struct client *at, const char *text)
{
	static const uint8_t none[TB_TICKET_BYTES];

	client_try_realm(at, none);
	cr_assert_eq(at->welcomes, 0, "a connection beyond the quota was accepted");
	cr_expect_eq(at->code, EUSERS);
	cr_expect_str_eq(at->why, text);
	client_close(at);
}

Test(quota, full_realm_leaves_places_to_others)
{
	open_with(WEAK_MAX, PLACES, REALMS);
	client_open(&clients[0]);
	client_open(&clients[1]);
	open_and_expect_refusal(&clients[2],
				"realm anonymous has its maximum number of subscribers, 2 "
				"(its subscribers_max)");
	client_open_realm(&other, strong);
	client_close(&clients[1]);
	wait_for_sessions(2);
	client_open(&clients[1]);
}

Test(quota, full_user_is_refused_and_gets_places_back)
{
	open_with(0, PER_HOST, 0);
	client_open(&other);
	client_open(&clients[0]);
	client_open(&clients[1]);
	open_and_expect_refusal(&clients[2], "the user has its maximum number of subscribers, 3 "
					     "(subscribers_per_host)");
	client_close(&clients[1]);
	wait_for_sessions(2);
	client_open(&clients[1]);
}

Test(quota, defaults_are_three_quarters_of_an_address)
{
	cr_expect_eq(quota_default(1), 1);
	cr_expect_eq(quota_default(2), 2);
	cr_expect_eq(quota_default(4), 3);
	cr_expect_eq(quota_default(1024), 768);
	open_with(0, 0, REALMS);
	cr_expect_eq(publisher->subscribers_per_host, PLACES - 1);
	cr_expect_eq(publisher->realms[0].subscribers_max, PLACES - 1);
	cr_expect_eq(publisher->realms[1].subscribers_max, PLACES - 1);
	tb_publisher_close(publisher);
	open_with(0, 0, 1);
	cr_expect_eq(publisher->realms[0].subscribers_max, PLACES, "a single realm has all places");
}

Test(quota, values_beyond_the_bounds_are_refused)
{
	static const char *const all = ">";
	struct tb_realm realm = { sizeof(realm), .name = "anonymous", .topics = &all,
				  .topic_count = 1, .subscribers_max = 65537 };
	struct tb_publisher_options options = {
		.size = sizeof(options), .name = "test", .realms = &realm, .realm_count = 1
	};

	cr_expect_eq(tb_publisher_open(&publisher, &options), -EINVAL);
	cr_expect_str_eq(tb_error(), "publisher options: realms[0]: found subscribers_max 65537, "
				     "expected 0 to 65536");
	realm.subscribers_max = 65536;
	options.subscribers_per_host = 65537;
	cr_expect_eq(tb_publisher_open(&publisher, &options), -EINVAL);
	cr_expect_str_eq(tb_error(), "publisher options: subscribers_per_host: found 65537, "
				     "expected 0 to 65536");
}

/* -- many hosts: sessions without a connection --------------------------------------------------
 */

static struct fabric_ops network;

static struct peer peer_of(uint32_t host)
{
	struct peer peer = { .ops = &network, .origin_bytes = FABRIC_ORIGIN_BYTES };

	memcpy(peer.origin, &host, sizeof(host));
	return peer;
}

static int check(const struct peer *peer, char why[FABRIC_REASON_BYTES])
{
	return quota_check(&publisher->endpoints[0], peer, &publisher->realms[0], why);
}

Test(quota, each_host_has_its_own_places)
{
	static struct peer peers[HOSTS][PER_HOST];
	static struct session *sessions[HOSTS][PER_HOST];
	char why[FABRIC_REASON_BYTES] = "";

	network = *fabric_find("shm:test", &address);
	network.network = true;
	open_with(2 * HOSTS * PER_HOST, PER_HOST, REALMS);
	publisher_lock(publisher);
	for (uint32_t host = 0; host < HOSTS; host++)
		for (uint32_t i = 0; i < PER_HOST; i++) {
			peers[host][i] = peer_of(host);
			cr_assert_eq(check(&peers[host][i], why), 0, "host %u: %s", host, why);
			sessions[host][i] = session_open(&publisher->endpoints[0], &peers[host][i],
							 &publisher->realms[0]);
			cr_assert_not_null(sessions[host][i]);
		}
	for (uint32_t host = 0; host < HOSTS; host++) {
		cr_assert_eq(check(&peers[host][0], why), -EUSERS);
		cr_assert_str_eq(why, "the host has its maximum number of subscribers, 3 "
				      "(subscribers_per_host)");
		session_close(sessions[host][0]);
		cr_assert_eq(check(&peers[host][0], why), 0, "host %u: %s", host, why);
		for (uint32_t i = 1; i < PER_HOST; i++)
			session_close(sessions[host][i]);
	}
	for (size_t i = 0; i < ENDPOINT_HOST_LISTS; i++)
		cr_assert_null(publisher->endpoints[0].hosts[i], "an empty host was kept");
	publisher_unlock(publisher);
}

Test(quota, user_of_an_origin_counts_not_its_process)
{
	struct peer one = { .origin = { 1, 2, 3, 4, 5, 6, 7, 8 }, .origin_bytes = 8 }, two = one;
	uint8_t host[FABRIC_ORIGIN_BYTES], same[FABRIC_ORIGIN_BYTES];

	two.origin[7] = 9;
	fabric_host_of(&one, host);
	fabric_host_of(&two, same);
	cr_expect_arr_eq(host, same, sizeof(host));
	two.origin[3] = 9;
	fabric_host_of(&two, same);
	cr_expect_arr_neq(host, same, sizeof(host));
}

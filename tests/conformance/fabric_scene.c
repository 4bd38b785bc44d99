/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/fabric_scene.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <unistd.h>

#include "bus/error.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

struct host host;

const struct fabric_ops *ops;

const char *place;

char address[128];

struct guest guests[GUESTS];

uint64_t random_state;

uint64_t word(uint64_t index)
{
	return index * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

void keep(uint8_t last[FABRIC_MESSAGE_BYTES], size_t *last_bytes, const void *bytes, size_t length)
{
	cr_assert_leq(length, FABRIC_MESSAGE_BYTES);
	memcpy(last, bytes, length);
	*last_bytes = length;
}

int on_hello(void *user, struct peer *peer, const void *hello, size_t bytes,
	     struct fabric_answer *answer)
{
	struct exposure *own =
		host.realm || peer->listener == host.second ? host.another : host.exposure;
	struct offer offer = { .bytes = REGION_BYTES };

	cr_assert_eq(user, &host);
	peer->realm = host.realm;
	cr_assert_eq(
		ops->key(host.told ? host.told : own, host.told ? host.told_to : peer, &offer.key),
		0, "%s", tb_error());
	keep(host.last, &host.last_bytes, hello, bytes);
	memcpy(host.origin, peer->origin, sizeof(host.origin));
	host.origin_bytes = peer->origin_bytes;
	if (host.challenges > 0) {
		host.challenges--;
		memcpy(answer->challenge, CHALLENGE, FABRIC_CHALLENGE_BYTES);
		return 1;
	}
	if (host.refuse) {
		memset(answer->reason, 'r', FABRIC_REASON_BYTES - 1);
		return -host.refuse;
	}
	memset(answer->welcome, 'w', FABRIC_WELCOME_BYTES);
	memcpy(answer->welcome, &offer, sizeof(offer));
	answer->welcome_bytes = host.pad_to ? host.pad_to : sizeof(offer);
	answer->given = host.told ? NULL : own;
	peer->user = &host.peers[host.hellos];
	host.peers[host.hellos++] = peer;
	return 0;
}

void on_message(void *user, struct peer *peer, const void *message, size_t bytes)
{
	cr_assert_eq(user, &host);
	cr_assert_eq(*(struct peer **)peer->user, peer);
	keep(host.last, &host.last_bytes, message, bytes);
	host.messages++;
	if (bytes >= 4 && memcmp(message, &host.expected, 4) == 0)
		host.expected++;
	if (!host.drop)
		return;
	*(struct peer **)peer->user = NULL;
	ops->drop(peer, "the test says so");
}

void on_peer_gone(void *user, struct peer *peer, const char *why)
{
	cr_assert_eq(user, &host);
	cr_assert_eq(*(struct peer **)peer->user, peer, "gone is called once");
	*(struct peer **)peer->user = NULL;
	host.gones++;
	snprintf(host.why, sizeof(host.why), "%s", why);
}

void on_log(void *user, enum fabric_log kind, const char *words)
{
	(void)kind;
	cr_assert_eq(user, &host);
	host.logged++;
	snprintf(host.log, sizeof(host.log), "%s", words);
}

const struct listener_calls host_calls = {
	.hello = on_hello, .message = on_message, .gone = on_peer_gone, .log = on_log
};

int host_try(struct listener **listener, unsigned int peers_max)
{
	const struct fabric_listen how = { .address = place,
					   .common = &host.common,
					   .peers_max = peers_max };

	return ops->listen(listener, &how, &host_calls, &host);
}

int host_begin(unsigned int peers_max)
{
	int result;

	host = (struct host){ 0 };
	result = memory_create(&host.memory, "test", REGION_BYTES);
	for (uint64_t i = 0; i < REGION_WORDS && result == 0; i++)
		((uint64_t *)host.memory.base)[i] = word(i);
	if (result == 0)
		result = host_try(&host.listener, peers_max);
	if (result == 0)
		result = ops->expose(host.listener, &host.memory, 0, &host.exposure);
	return result;
}

void host_open(unsigned int peers_max)
{
	cr_assert_eq(host_begin(peers_max), 0, "%s", tb_error());
}

void host_close(void)
{
	if (host.exposure)
		ops->withdraw(host.exposure);
	if (host.another)
		ops->withdraw(host.another);
	if (ops)
		ops->listener_close(host.second);
	if (ops)
		ops->listener_close(host.listener);
	memory_free(&host.memory);
	host = (struct host){ 0 };
}

void offer_open(struct guest *guest, const void *bytes, size_t length)
{
	struct offer offer;

	cr_assert_geq(length, sizeof(offer));
	memcpy(&offer, bytes, sizeof(offer));
	if (guest->forge) {
		offer.key.address += 1 << 20;
		offer.key.rkey ^= 0x5a5a5a;
	}
	guest->opened =
		ops->remote_open(guest->link, offer.key, offer.bytes + guest->more, &guest->remote);
}

/* The second hello repeats the challenge. */
int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
		 uint8_t hello[FABRIC_HELLO_BYTES])
{
	struct guest *guest = user;

	cr_assert_eq(guest->challenges++, 0, "a link gets one challenge");
	memset(hello, 'h', FABRIC_HELLO_BYTES);
	memcpy(hello, challenge, FABRIC_CHALLENGE_BYTES);
	return guest->unwilling ? error_set(guest->unwilling, "unwilling") : 0;
}

void on_welcome(void *user, const void *welcome, size_t bytes)
{
	struct guest *guest = user;

	cr_assert_eq(guest->welcomes++, 0);
	keep(guest->last, &guest->last_bytes, welcome, bytes);
	offer_open(guest, welcome, bytes);
}

void on_link_message(void *user, const void *message, size_t bytes)
{
	struct guest *guest = user;

	cr_assert_eq(guest->welcomes, 1, "a message before the welcome");
	keep(guest->last, &guest->last_bytes, message, bytes);
	guest->messages++;
	if (bytes >= 4 && memcmp(message, &guest->expected, 4) == 0)
		guest->expected++;
	if (guest->opens)
		offer_open(guest, message, bytes);
	if (guest->breaks || guest->closes)
		ops->link_break(guest->link);
	if (!guest->closes)
		return;
	ops->remote_close(guest->remote);
	ops->landing_free(guest->link, guest->landing, LANDING);
	ops->link_close(guest->link);
	guest->link = NULL;
}

void on_link_gone(void *user, int code, const char *why)
{
	struct guest *guest = user;

	cr_assert_eq(guest->gones++, 0, "gone is called once");
	guest->code = code;
	snprintf(guest->why, sizeof(guest->why), "%s", why);
}

const struct link_calls guest_calls = { .challenge = on_challenge,
					.welcome = on_welcome,
					.message = on_link_message,
					.gone = on_link_gone };

int guest_try(struct guest *guest, const void *hello, size_t bytes)
{
	const struct guest as_asked = { .more = guest->more,
					.forge = guest->forge,
					.stranger = guest->stranger,
					.unwilling = guest->unwilling,
					.breaks = guest->breaks };

	*guest = as_asked;
	return ops->connect(&guest->link, place, hello, bytes, &guest_calls, guest);
}

int guest_take(struct guest *guest)
{
	struct fabric_completion done[64];
	int count;

	while ((count = ops->reap(guest->link, done, 64)) > 0)
		for (int i = 0; i < count; i++, guest->tally++)
			guest->failed += done[i].status != 0;
	return count;
}

void guest_reap(struct guest *guest)
{
	cr_assert_eq(guest_take(guest), 0);
}

void guest_leave(struct guest *guest)
{
	if (!guest->link)
		return;
	ops->link_break(guest->link);
	ops->link_settle(guest->link);
	guest_take(guest);
	ops->remote_close(guest->remote);
	ops->landing_free(guest->link, guest->landing, LANDING);
	ops->link_close(guest->link);
	*guest = (struct guest){ 0 };
}

void turn(void)
{
	struct listener *const listeners[] = { host.listener, host.second };
	struct pollfd ready[GUESTS + 2];
	nfds_t count = 0;
	int worked = 0;

	for (size_t i = 0; i < 2; i++) {
		if (!listeners[i])
			continue;
		worked += ops->listener_poll(listeners[i]);
		ready[count++] =
			(struct pollfd){ .fd = ops->listener_fd(listeners[i]), .events = POLLIN };
	}
	for (size_t i = 0; i < GUESTS; i++) {
		if (!guests[i].link || ops->link_state(guests[i].link) == LINK_GONE)
			continue;
		worked += ops->link_poll(guests[i].link);
		if (!guests[i].link)
			continue;
		worked += ops->sleep(guests[i].link);
		ready[count++] =
			(struct pollfd){ .fd = ops->link_fd(guests[i].link), .events = POLLIN };
	}
	if (worked == 0)
		poll(ready, count, 20);
}

/* Host and guests take turns until the guest is connected. */
void guest_enter(struct guest *guest)
{
	const unsigned int gones = host.gones;

	cr_assert_eq(guest_try(guest, "hello", 5), 0, "%s", tb_error());
	UNTIL(guest->welcomes || guest->gones);
	cr_assert_eq(guest->gones, 0, "%s", guest->why);
	cr_assert_eq(ops->link_state(guest->link), LINK_UP);
	cr_assert_eq(host.gones, gones);
	if (!guest->forge && !guest->stranger && !guest->more)
		cr_assert_eq(guest->opened, 0, "%s", tb_error());
	guest->landing = ops->landing(guest->link, LANDING);
	cr_assert_not_null(guest->landing, "%s", tb_error());
}

int guest_read(struct guest *guest, uint64_t offset, uint32_t bytes, size_t into, uint64_t tag)
{
	const struct fabric_read read = { .remote = guest->remote,
					  .offset = offset,
					  .bytes = bytes,
					  .into = guest->landing + into,
					  .tag = tag };

	return ops->read(guest->link, &read, 1);
}

void expect_words(const uint8_t *at, uint64_t offset, size_t bytes)
{
	uint64_t found;

	for (size_t i = 0; i < bytes; i += 8) {
		memcpy(&found, at + i, sizeof(found));
		cr_assert_eq(found, word((offset + i) / 8), "offset %llu",
			     (unsigned long long)(offset + i));
	}
}

void expect_reads(struct guest *guest)
{
	const unsigned int before = guest->tally;

	memset(guest->landing, 0xee, LANDING);
	cr_assert_eq(guest_read(guest, 4096, 1024, 2048, 77), 1, "%s", tb_error());
	UNTIL((guest_reap(guest), guest->tally == before + 1));
	cr_assert_eq(guest->failed, 0);
	expect_words(guest->landing + 2048, 4096, 1024);
	for (size_t i = 0; i < LANDING; i++)
		cr_assert(guest->landing[i] == 0xee || (i >= 2048 && i < 2048 + 1024),
			  "landed outside, at %zu", i);
}

unsigned int fill_with_reads(struct guest *guest)
{
	const unsigned int depth = ops->depth(guest->link);

	cr_assert_geq(depth, 2, "one is the bus page's");
	for (unsigned int i = 0; i < depth; i++)
		cr_assert_eq(guest_read(guest, 512 * i, 512, 512 * i % LANDING, i), 1, "%u of %u",
			     i, depth);
	return depth;
}

void expect_message(struct guest *guest)
{
	const unsigned int before = host.messages;

	cr_assert_eq(ops->link_send(guest->link, "still here", 10), 0, "%s", tb_error());
	UNTIL(host.messages == before + 1);
	cr_assert_eq(host.last_bytes, 10);
	cr_assert_arr_eq(host.last, "still here", 10);
}

void place_second(void)
{
	if (strcmp(SCHEME, "rdma") == 0)
		snprintf(address, sizeof(address), "%s:%s:%d", SCHEME, getenv("TICKBUS_TEST_RDMA"),
			 60000 + (int)getpid() % 5000);
	else
		snprintf(address, sizeof(address), "%s:second", SCHEME);
	ops = fabric_find(address, &place);
	cr_assert_not_null(ops, "%s", tb_error());
}

void enter(void)
{
	const char *device = getenv("TICKBUS_TEST_RDMA");

	if (strcmp(SCHEME, "rdma") == 0 && !device)
		cr_skip_test("no RDMA device: TICKBUS_TEST_RDMA is to name its address");
	scene_enter();
	random_state = random_seed();
	faulty_add(random_state);
	if (strcmp(SCHEME, "rdma") == 0)
		snprintf(address, sizeof(address), "%s:%s:%d", SCHEME, device,
			 20000 + (int)getpid() % 40000);
	else
		snprintf(address, sizeof(address), "%s:test", SCHEME);
	ops = fabric_find(address, &place);
	cr_assert_not_null(ops, "%s", tb_error());
	cr_assert_str_eq(ops->scheme, SCHEME);
}

void leave(void)
{
	for (size_t i = 0; i < GUESTS; i++)
		guest_leave(&guests[i]);
	host_close();
	scene_leave();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/bus/fault_scene.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "tickbus/error.h"

#define DEPTH 16

struct memory_link {
	struct link base;
	struct link_calls calls;
	void *user;
	uint64_t done[DEPTH];
	unsigned int done_count;
};

struct memory_remote {
	struct remote base;
	const uint8_t *bytes;
};

struct host host;
struct guest guest;
uint64_t now_ns;

static struct fabric_ops memory_ops;

/* -- the fabric below --------------------------------------------------------------------------
 */

static int memory_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "at %s", address);
	return 0;
}

static int memory_connect(struct link **out, const char *address, const void *hello, size_t bytes,
			  const struct link_calls *calls, void *user)
{
	struct memory_link *link = calloc(1, sizeof(*link));

	(void)hello, (void)bytes;
	cr_assert_not_null(link);
	link->base.ops = &memory_ops;
	link->calls = *calls;
	link->user = user;
	host.state = LINK_CONNECTING;
	host.connects++;
	snprintf(host.connected_to, sizeof(host.connected_to), "%s", address);
	*out = &link->base;
	return 0;
}

static enum link_state memory_state(const struct link *link)
{
	(void)link;
	return host.state;
}

static int memory_poll(struct link *base)
{
	struct memory_link *link = (struct memory_link *)base;
	uint8_t hello[FABRIC_HELLO_BYTES];
	int count = 0;

	host.polls++;
	if (host.state == LINK_CONNECTING && host.challenges &&
	    link->calls.challenge(link->user, (const uint8_t *)"sixteen bytes...", hello) < 0) {
		host.state = LINK_GONE;
		link->calls.gone(link->user, EPROTO, tb_error());
		return 1;
	}
	if (host.state == LINK_CONNECTING) {
		host.state = LINK_UP;
		link->calls.welcome(link->user, "welcome", 7);
		return 1;
	}
	while (host.state == LINK_UP && host.message_count > 0) {
		const uint32_t number = host.messages[0];

		memmove(host.messages, host.messages + 1,
			--host.message_count * sizeof(host.messages[0]));
		link->calls.message(link->user, &number, sizeof(number));
		count++;
	}
	if (host.gone && host.state == LINK_UP) {
		host.state = LINK_GONE;
		link->calls.gone(link->user, ETIMEDOUT, "the host is gone");
		count++;
	}
	return count;
}

static int memory_send(struct link *link, const void *message, size_t bytes)
{
	(void)link;
	cr_assert_eq(bytes, sizeof(host.sent[0]));
	if (host.busy)
		return error_set(EAGAIN, "busy");
	memcpy(&host.sent[host.sent_count++], message, bytes);
	return 0;
}

static void memory_settle(struct link *link)
{
	(void)link;
}

static void memory_break(struct link *link)
{
	(void)link;
	host.breaks++;
	host.state = LINK_GONE;
}

static void memory_close(struct link *link)
{
	free(link);
}

static int memory_open(struct link *link, struct fabric_key key, uint64_t bytes,
		       struct remote **out)
{
	struct memory_remote *remote = calloc(1, sizeof(*remote));

	cr_assert_not_null(remote);
	remote->base = (struct remote){ .ops = &memory_ops, .link = link, .bytes = bytes };
	remote->bytes = key.rkey == PAGE_KEY ? host.page : host.ring;
	*out = &remote->base;
	return 0;
}

static void memory_remote_close(struct remote *remote)
{
	free(remote);
}

static const void *memory_view(const struct remote *remote)
{
	return ((const struct memory_remote *)remote)->bytes;
}

static void *memory_landing(struct link *link, size_t bytes)
{
	(void)link;
	return calloc(1, bytes);
}

static void memory_landing_free(struct link *link, void *memory, size_t bytes)
{
	(void)link, (void)bytes;
	free(memory);
}

static unsigned int memory_depth(const struct link *link)
{
	(void)link;
	return DEPTH;
}

static int memory_read(struct link *base, const struct fabric_read *reads, unsigned int count)
{
	struct memory_link *link = (struct memory_link *)base;
	unsigned int taken = 0;

	for (; taken < count && link->done_count < DEPTH; taken++) {
		const struct memory_remote *remote =
			(const struct memory_remote *)reads[taken].remote;

		if (reads[taken].offset + reads[taken].bytes > remote->base.bytes)
			return taken ? (int)taken : error_set(ERANGE, "outside");
		memcpy(reads[taken].into, remote->bytes + reads[taken].offset, reads[taken].bytes);
		link->done[link->done_count++] = reads[taken].tag;
		host.reads++;
	}
	return (int)taken;
}

static int memory_reap(struct link *base, struct fabric_completion *done, unsigned int max)
{
	struct memory_link *link = (struct memory_link *)base;
	unsigned int count = 0;

	for (; count < max && count < link->done_count; count++)
		done[count] = (struct fabric_completion){ .tag = link->done[count] };
	link->done_count -= count;
	memmove(link->done, link->done + count, link->done_count * sizeof(link->done[0]));
	return (int)count;
}

static int memory_sleep(struct link *link)
{
	return ((const struct memory_link *)link)->done_count > 0 || host.message_count > 0;
}

static int memory_receive(struct link *link, const struct fabric_notices *notices)
{
	(void)link, (void)notices;
	return 0;
}

static size_t memory_datagram(struct link *link, void *datagram, size_t room)
{
	(void)link;
	cr_assert_geq(room, sizeof(host.datagrams[0]));
	if (host.datagram_count == 0)
		return 0;
	memcpy(datagram, host.datagrams, sizeof(host.datagrams[0]));
	memmove(host.datagrams, host.datagrams + 1,
		--host.datagram_count * sizeof(host.datagrams[0]));
	return sizeof(host.datagrams[0]);
}

static struct fabric_ops memory_ops = {
	.scheme = "memory",
	.network = true,
	.identity = memory_identity,
	.connect = memory_connect,
	.link_state = memory_state,
	.link_poll = memory_poll,
	.link_send = memory_send,
	.link_break = memory_break,
	.link_settle = memory_settle,
	.link_close = memory_close,
	.remote_open = memory_open,
	.remote_close = memory_remote_close,
	.view = memory_view,
	.landing = memory_landing,
	.landing_free = memory_landing_free,
	.depth = memory_depth,
	.read = memory_read,
	.reap = memory_reap,
	.sleep = memory_sleep,
	.receive = memory_receive,
	.datagram = memory_datagram,
};

/* -- the subscriber ----------------------------------------------------------------------------
 */

static int on_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			uint8_t hello[FABRIC_HELLO_BYTES])
{
	(void)user, (void)challenge;
	memset(hello, 'h', FABRIC_HELLO_BYTES);
	guest.challenges++;
	return 0;
}

static void on_welcome(void *user, const void *welcome, size_t bytes)
{
	(void)user, (void)welcome, (void)bytes;
	guest.welcomes++;
	cr_assert_eq(fault_ops.remote_open(guest.link, (struct fabric_key){ .rkey = PAGE_KEY },
					   REGION_BYTES, &guest.page),
		     0);
}

static void on_message(void *user, const void *message, size_t bytes)
{
	(void)user;
	cr_assert_eq(bytes, sizeof(guest.messages[0]));
	memcpy(&guest.messages[guest.message_count++], message, bytes);
}

static void on_gone(void *user, int code, const char *why)
{
	(void)user, (void)why;
	cr_assert_eq(guest.gones++, 0, "gone is called once");
	guest.code = code;
}

static const struct link_calls calls = {
	.challenge = on_challenge, .welcome = on_welcome, .message = on_message, .gone = on_gone
};

static int read_clock(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = (time_t)(now_ns / 1000 / MS);
	now->tv_nsec = (long)(now_ns % (1000 * MS));
	return 0;
}

void scene_enter(void)
{
	now_ns = 1000 * MS;
	clock_replace(read_clock);
	cr_assert_eq(fabric_add(&memory_ops), 0);
}

void scene_leave(void)
{
	guest_leave();
}

void guest_connect(const char *faults)
{
	char address[128];
	const char *rest;

	snprintf(address, sizeof(address), "fault:%s/memory:here", faults);
	guest = (struct guest){ 0 };
	cr_assert_eq(fabric_find(address, &rest), &fault_ops, "%s", tb_error());
	cr_assert_eq(fault_ops.connect(&guest.link, rest, "hello", 5, &calls, NULL), 0, "%s",
		     tb_error());
	fault_ops.link_poll(guest.link);
}

void guest_enter(const char *faults)
{
	do {
		guest_leave();
		cr_assert_lt(host.connects, 10000, "no connection comes up");
		guest_connect(faults);
	} while (guest.welcomes == 0);
	cr_assert_eq(fault_ops.remote_open(guest.link, (struct fabric_key){ .rkey = RING_KEY },
					   REGION_BYTES, &guest.ring),
		     0);
	guest.landing = fault_ops.landing(guest.link, REGION_BYTES);
	cr_assert_not_null(guest.landing);
	cr_assert_eq(fault_ops.receive(guest.link, &(struct fabric_notices){ 0 }), 0);
}

void guest_leave(void)
{
	uint64_t tag;

	if (!guest.link)
		return;
	fault_ops.link_break(guest.link);
	while (guest_reap(&tag) != 1)
		;
	fault_ops.remote_close(guest.page);
	fault_ops.remote_close(guest.ring);
	fault_ops.landing_free(guest.link, guest.landing, REGION_BYTES);
	fault_ops.link_close(guest.link);
	guest = (struct guest){ 0 };
}

int guest_read(struct remote *remote, uint64_t offset, uint32_t bytes, uint64_t tag)
{
	const struct fabric_read read = { .remote = remote,
					  .offset = offset,
					  .bytes = bytes,
					  .into = guest.landing + offset,
					  .tag = tag };

	return fault_ops.read(guest.link, &read, 1);
}

int guest_reap(uint64_t *tag)
{
	struct fabric_completion done;

	if (fault_ops.reap(guest.link, &done, 1) != 1)
		return 1;
	*tag = done.tag;
	return done.status;
}

int guest_await(uint64_t *tag)
{
	int status;

	while ((status = guest_reap(tag)) == 1)
		now_ns += MS / 10;
	return status;
}

int guest_datagram(void)
{
	uint32_t number;

	return fault_ops.datagram(guest.link, &number, sizeof(number)) > 0 ? (int)number : -1;
}

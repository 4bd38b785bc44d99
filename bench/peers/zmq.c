/* SPDX-License-Identifier: Apache-2.0 */
/* ZeroMQ: publisher and subscribers over ipc, a part for each message, as its users move market
 * data on one host.
 *
 * - A mark counts messages as gone once half of it is read, so twice the ring's slots are asked
 * for.
 * - A reader waits in the library. If it spins instead, its own I/O thread lacks the core.
 * - The I/O threads have the priority of the measured threads. With a higher priority, they
 * interrupt the writer at each message: throughput is halved.
 * - A reader's subscription reaches the publisher after the reader is open. The writer waits for
 * all subscriptions before it first sends, so its socket is an XPUB, which is a PUB that shows
 * them. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#include "bench/peers/peer.h"

#define WAIT_MS  5
#define PRIORITY 1 /* of measured threads, too */

struct peer {
	void *context, *socket;
	uint64_t next;
	unsigned int awaited; /* subscriptions */
	uint32_t words;
};

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("zmq: %s: %s", what, zmq_strerror(errno));
}

static void *context_make(void)
{
	void *context = zmq_ctx_new();

	if (!context)
		machine_fail("zmq: %s", zmq_strerror(errno));
	if (getenv("TICKBUS_BENCH_REALTIME")) {
		expect(zmq_ctx_set(context, ZMQ_THREAD_SCHED_POLICY, SCHED_FIFO), "policy");
		expect(zmq_ctx_set(context, ZMQ_THREAD_PRIORITY, PRIORITY), "priority");
	}
	return context;
}

static void option(struct peer *peer, int name, int value, const char *what)
{
	expect(zmq_setsockopt(peer->socket, name, &value, sizeof(value)), what);
}

static struct peer *peer_make(const struct shape *shape, int type)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		machine_fail("no memory");
	peer->context = context_make();
	peer->socket = zmq_socket(peer->context, type);
	if (!peer->socket)
		machine_fail("zmq: %s", zmq_strerror(errno));
	peer->next = 1;
	peer->words = shape->payload_words;
	option(peer, ZMQ_SNDHWM, (int)shape->slots * 2, "ZMQ_SNDHWM");
	option(peer, ZMQ_RCVHWM, (int)shape->slots * 2, "ZMQ_RCVHWM");
	option(peer, ZMQ_LINGER, 0, "ZMQ_LINGER");
	return peer;
}

static void *writer_open(const struct shape *shape, unsigned int channel)
{
	struct peer *peer = peer_make(shape, ZMQ_XPUB);
	char address[256];

	peer->awaited = shape->readers;
	option(peer, ZMQ_XPUB_VERBOSE, 1, "ZMQ_XPUB_VERBOSE");
	snprintf(address, sizeof(address), "ipc://%s/zmq-%u", shape->folder, channel);
	expect(zmq_bind(peer->socket, address), address);
	return peer;
}

static void *reader_open(const struct shape *shape, unsigned int channel)
{
	struct peer *peer = peer_make(shape, ZMQ_SUB);
	char address[256];

	snprintf(address, sizeof(address), "ipc://%s/zmq-%u", shape->folder, channel);
	option(peer, ZMQ_RCVTIMEO, WAIT_MS, "ZMQ_RCVTIMEO");
	expect(zmq_setsockopt(peer->socket, ZMQ_SUBSCRIBE, "", 0), "ZMQ_SUBSCRIBE");
	expect(zmq_connect(peer->socket, address), address);
	return peer;
}

static void peer_close(void *user)
{
	struct peer *peer = user;

	zmq_close(peer->socket);
	zmq_ctx_term(peer->context);
	free(peer);
}

static void peer_write(void *user, const uint64_t *payloads, unsigned int count)
{
	struct peer *peer = user;
	char subscription[8];

	for (; peer->awaited > 0; peer->awaited--)
		expect(zmq_recv(peer->socket, subscription, sizeof(subscription), 0),
		       "subscription");
	for (; count > 0; count--, payloads += peer->words)
		expect(zmq_send(peer->socket, payloads, peer->words * 8, 0), "send");
}

static void peer_read(void *user, struct tally *tally)
{
	struct peer *peer = user;
	uint64_t payload[PAYLOAD_WORDS];

	for (int i = 0; i < PEER_LOOK; i++) {
		const int bytes =
			zmq_recv(peer->socket, payload, sizeof(payload), i == 0 ? 0 : ZMQ_DONTWAIT);

		if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		expect(bytes, "recv");
		peer_take(tally, &peer->next, payload, (size_t)bytes, peer->words);
	}
}

/* Reads sleep themselves. */
static void peer_wait(void *user, bool by_epoll)
{
	(void)user;
	(void)by_epoll;
}

const struct transport zmq_transport = {
	.name = "zmq",
	.writer_open = writer_open,
	.write = peer_write,
	.reader_open = reader_open,
	.read = peer_read,
	.wait = peer_wait,
	.close = peer_close,
};

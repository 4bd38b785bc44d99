/* SPDX-License-Identifier: Apache-2.0 */
/* ZeroMQ: PUB and SUB over ipc, one part a message, as its users move market data on one host. A
 * mark counts messages as gone once half of it is read, so twice the ring's slots are asked for. A
 * reader's subscription reaches the publisher after the reader is open; SETTLE_MS lets it arrive.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "bench/peers/peer.h"

#define SETTLE_MS 100

struct peer {
	void *context, *socket;
	uint64_t next;
	uint32_t words;
};

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("zmq: %s: %s", what, zmq_strerror(errno));
}

static int peer_open(void **out, const struct shape *shape, unsigned int channel, int type)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	const int mark = (int)shape->slots * 2;
	char address[256];

	if (!peer)
		machine_fail("no memory");
	peer->context = zmq_ctx_new();
	peer->socket = zmq_socket(peer->context, type);
	peer->next = 1;
	peer->words = shape->payload_words;
	snprintf(address, sizeof(address), "ipc://%s/zmq-%u", shape->folder, channel);
	expect(zmq_setsockopt(peer->socket, ZMQ_SNDHWM, &mark, sizeof(mark)), "ZMQ_SNDHWM");
	expect(zmq_setsockopt(peer->socket, ZMQ_RCVHWM, &mark, sizeof(mark)), "ZMQ_RCVHWM");
	if (type == ZMQ_PUB) {
		expect(zmq_bind(peer->socket, address), address);
	} else {
		expect(zmq_connect(peer->socket, address), address);
		expect(zmq_setsockopt(peer->socket, ZMQ_SUBSCRIBE, "", 0), "ZMQ_SUBSCRIBE");
		usleep(SETTLE_MS * 1000);
	}
	*out = peer;
	return 0;
}

static int writer_open(void **out, const struct shape *shape, unsigned int channel)
{
	return peer_open(out, shape, channel, ZMQ_PUB);
}

static int reader_open(void **out, const struct shape *shape, unsigned int channel)
{
	return peer_open(out, shape, channel, ZMQ_SUB);
}

static void peer_close(void *user)
{
	struct peer *peer = user;
	const int linger = 0;

	zmq_setsockopt(peer->socket, ZMQ_LINGER, &linger, sizeof(linger));
	zmq_close(peer->socket);
	zmq_ctx_term(peer->context);
	free(peer);
}

static void peer_write(void *user, const uint64_t *payloads, unsigned int count)
{
	struct peer *peer = user;

	for (; count > 0; count--, payloads += peer->words)
		expect(zmq_send(peer->socket, payloads, peer->words * 8, 0), "send");
}

static void peer_read(void *user, struct tally *tally)
{
	struct peer *peer = user;
	uint64_t payload[PAYLOAD_WORDS];

	for (int i = 0; i < PEER_LOOK; i++) {
		const int bytes = zmq_recv(peer->socket, payload, sizeof(payload), ZMQ_DONTWAIT);

		if (bytes < 0 && errno == EAGAIN)
			return;
		expect(bytes, "recv");
		peer_take(tally, &peer->next, payload, (size_t)bytes, peer->words);
	}
}

const struct transport zmq_transport = {
	.name = "zmq",
	.writer_open = writer_open,
	.write = peer_write,
	.writer_close = peer_close,
	.reader_open = reader_open,
	.read = peer_read,
	.reader_close = peer_close,
};

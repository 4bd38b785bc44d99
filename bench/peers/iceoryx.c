/* SPDX-License-Identifier: Apache-2.0 */
/* iceoryx by its C binding: a chunk is lent, filled and published for each message, and taken and
 * given back by the reader. Its daemon iox-roudi runs beside; scripts/bench starts it. A reader's
 * queue holds QUEUE messages at most, by the library's build. A full queue makes the publisher
 * wait, which the harness's credit comes before: both give the same throughput. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iceoryx_binding_c/log.h>
#include <iceoryx_binding_c/publisher.h>
#include <iceoryx_binding_c/runtime.h>
#include <iceoryx_binding_c/subscriber.h>

#include "bench/peers/peer.h"

#define QUEUE      256
#define CONNECT_MS 5000

struct peer {
	union {
		iox_pub_storage_t publisher;
		iox_sub_storage_t subscriber;
	} storage;
	iox_pub_t publisher;
	iox_sub_t subscriber;
	uint64_t next;
	uint32_t words;
};

static struct peer *peer_make(const struct shape *shape, unsigned int channel, char *event,
			      size_t event_bytes)
{
	static bool named;
	struct peer *peer = calloc(1, sizeof(*peer));
	char name[64];

	if (!peer)
		machine_fail("no memory");
	snprintf(name, sizeof(name), "tickbus-bench-%d", (int)getpid());
	iox_set_loglevel(Iceoryx_LogLevel_Error);
	if (!named)
		iox_runtime_init(name);
	named = true;
	peer->next = 1;
	peer->words = shape->payload_words;
	snprintf(event, event_bytes, "%u", channel);
	return peer;
}

static void *writer_open(const struct shape *shape, unsigned int channel)
{
	char event[16];
	struct peer *peer = peer_make(shape, channel, event, sizeof(event));
	iox_pub_options_t options;

	iox_pub_options_init(&options);
	options.nodeName = "bench";
	options.subscriberTooSlowPolicy = ConsumerTooSlowPolicy_WAIT_FOR_CONSUMER;
	peer->publisher =
		iox_pub_init(&peer->storage.publisher, "tickbus", "bench", event, &options);
	return peer;
}

static void peer_write(void *user, const uint64_t *payloads, unsigned int count)
{
	struct peer *peer = user;
	void *chunk;

	for (; count > 0; count--, payloads += peer->words) {
		if (iox_pub_loan_chunk(peer->publisher, &chunk, peer->words * 8) !=
		    AllocationResult_SUCCESS)
			machine_fail("iceoryx: lends no chunk");
		memcpy(chunk, payloads, peer->words * 8);
		iox_pub_publish_chunk(peer->publisher, chunk);
	}
}

static void *reader_open(const struct shape *shape, unsigned int channel)
{
	char event[16];
	struct peer *peer = peer_make(shape, channel, event, sizeof(event));
	iox_sub_options_t options;

	iox_sub_options_init(&options);
	options.nodeName = "bench";
	options.queueCapacity = QUEUE;
	options.queueFullPolicy = QueueFullPolicy_BLOCK_PRODUCER;
	peer->subscriber =
		iox_sub_init(&peer->storage.subscriber, "tickbus", "bench", event, &options);
	for (int ms = 0;
	     iox_sub_get_subscription_state(peer->subscriber) != SubscribeState_SUBSCRIBED; ms++) {
		if (ms > CONNECT_MS)
			machine_fail("iceoryx: found no publisher within %d ms", CONNECT_MS);
		usleep(1000);
	}
	return peer;
}

static void peer_close(void *user)
{
	struct peer *peer = user;

	if (peer->publisher)
		iox_pub_deinit(peer->publisher);
	if (peer->subscriber)
		iox_sub_deinit(peer->subscriber);
	free(peer);
}

static void peer_read(void *user, struct tally *tally)
{
	struct peer *peer = user;
	const void *chunk;

	for (int i = 0; i < PEER_LOOK; i++) {
		if (iox_sub_take_chunk(peer->subscriber, &chunk) != ChunkReceiveResult_SUCCESS) {
			machine_pause();
			return;
		}
		peer_take(tally, &peer->next, chunk, peer->words * 8, peer->words);
		iox_sub_release_chunk(peer->subscriber, chunk);
	}
}

const struct transport iceoryx_transport = {
	.name = "iceoryx",
	.window = QUEUE / 2,
	.writer_open = writer_open,
	.write = peer_write,
	.reader_open = reader_open,
	.read = peer_read,
	.close = peer_close,
};

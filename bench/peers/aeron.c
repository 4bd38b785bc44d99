/* SPDX-License-Identifier: Apache-2.0 */
/* Aeron IPC by its C client: an exclusive publication with the default term, and a subscription
 * that polls. It needs no assembler, as messages fit into a fragment. Both touch their pages
 * before. Its driver aeronmd runs beside; scripts/bench starts it. The publication itself waits for
 * its slowest reader, but the harness's credit is smaller than its window. Alone, its window gives
 * the same throughput or less. aeron_exclusive_publication_try_claim() gives the same as offer().
 * Each run has a stream of its own.
 *
 * A publication without a subscription refuses messages. If a run has no reader, the writer
 * subscribes itself, and reads only when the publication is full: once in some thousand batches. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <aeronc.h>

#include "bench/peers/peer.h"

#define CHANNEL    "aeron:ipc"
#define CONNECT_MS 5000

/* The idle strategy: */
#define SPINS       10
#define YIELDS      20
#define PARK_MIN_NS 1000
#define PARK_MAX_NS 1000000

struct peer {
	aeron_context_t *context;
	aeron_t *client;
	aeron_exclusive_publication_t *publication;
	aeron_subscription_t *subscription;
	struct tally *tally; /* of the current poll */
	struct tally own;    /* of the writer's subscription */
	uint64_t next;
	unsigned int idle; /* waits in a row that no message came after */
	uint32_t words;
};

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("aeron: %s: %s", what, aeron_errmsg());
}

static void wait_ms(int *ms, const char *what)
{
	if (++*ms > CONNECT_MS)
		machine_fail("aeron: %s took over %d ms", what, CONNECT_MS);
	usleep(1000);
}

static int32_t stream(const struct shape *shape, unsigned int channel)
{
	uint32_t hash = channel;

	for (const char *byte = shape->folder; *byte; byte++)
		hash = hash * 31 + (unsigned char)*byte;
	return (int32_t)(hash & INT32_MAX);
}

static struct peer *peer_make(const struct shape *shape)
{
	const char *folder = getenv("TICKBUS_BENCH_AERON");
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		machine_fail("no memory");
	expect(aeron_context_init(&peer->context), "context");
	if (folder)
		expect(aeron_context_set_dir(peer->context, folder), "folder");
	expect(aeron_context_set_pre_touch_mapped_memory(peer->context, true), "touching pages");
	expect(aeron_init(&peer->client, peer->context), "client");
	expect(aeron_start(peer->client), "start");
	peer->next = 1;
	peer->words = shape->payload_words;
	return peer;
}

static void subscribe(struct peer *peer, const struct shape *shape, unsigned int channel)
{
	aeron_async_add_subscription_t *adding;
	int ms = 0, result;

	expect(aeron_async_add_subscription(&adding, peer->client, CHANNEL, stream(shape, channel),
					    NULL, NULL, NULL, NULL),
	       "subscription");
	while ((result = aeron_async_add_subscription_poll(&peer->subscription, adding)) == 0)
		wait_ms(&ms, "adding a subscription");
	expect(result, "subscription");
	while (!aeron_subscription_is_connected(peer->subscription))
		wait_ms(&ms, "finding the publication");
}

static void *writer_open(const struct shape *shape, unsigned int channel)
{
	struct peer *peer = peer_make(shape);
	aeron_async_add_exclusive_publication_t *adding;
	int ms = 0, result;

	expect(aeron_async_add_exclusive_publication(&adding, peer->client, CHANNEL,
						     stream(shape, channel)),
	       "publication");
	while ((result = aeron_async_add_exclusive_publication_poll(&peer->publication, adding)) ==
	       0)
		wait_ms(&ms, "adding a publication");
	expect(result, "publication");
	if (shape->readers == 0)
		subscribe(peer, shape, channel);
	return peer;
}

static void *reader_open(const struct shape *shape, unsigned int channel)
{
	struct peer *peer = peer_make(shape);

	subscribe(peer, shape, channel);
	return peer;
}

static void peer_close(void *user)
{
	struct peer *peer = user;

	aeron_close(peer->client);
	aeron_context_close(peer->context);
	free(peer);
}

static void on_fragment(void *user, const uint8_t *data, size_t bytes, aeron_header_t *header)
{
	struct peer *peer = user;

	(void)header;
	peer_take(peer->tally, &peer->next, data, bytes, peer->words);
}

static void peer_read(void *user, struct tally *tally)
{
	struct peer *peer = user;
	int found;

	peer->tally = tally;
	found = aeron_subscription_poll(peer->subscription, on_fragment, peer, PEER_LOOK);
	expect(found, "poll");
	if (found > 0)
		peer->idle = 0;
	else
		machine_pause(); /* as Aeron's idle strategy that spins */
}

/* Waits a little after this result of an offer, which was refused. */
static void await_room(struct peer *peer, int64_t result)
{
	if (result != AERON_PUBLICATION_BACK_PRESSURED &&
	    result != AERON_PUBLICATION_ADMIN_ACTION && result != AERON_PUBLICATION_NOT_CONNECTED)
		machine_fail("aeron: offer: %s", aeron_errmsg());
	if (!peer->subscription) {
		machine_pause();
		return;
	}
	peer_read(peer, &peer->own);
	if (peer->own.wrong)
		machine_fail("aeron: the writer got wrong messages");
}

static void peer_write(void *user, const uint64_t *payloads, unsigned int count)
{
	struct peer *peer = user;
	int64_t result;

	for (; count > 0; count--, payloads += peer->words)
		while ((result = aeron_exclusive_publication_offer(
				peer->publication, (const uint8_t *)payloads, peer->words * 8, NULL,
				NULL)) < 0)
			await_room(peer, result);
}

/* As Aeron's backoff idle strategy by default: 10 times it spins, 20 times it yields, then it
 * sleeps, from 1 us to 1 ms. */
static void peer_wait(void *user, bool by_epoll)
{
	struct peer *peer = user;
	struct timespec pause = { 0, PARK_MIN_NS };

	(void)by_epoll;
	peer->idle++;
	if (peer->idle <= SPINS) {
		machine_pause();
	} else if (peer->idle <= SPINS + YIELDS) {
		sched_yield();
	} else {
		for (unsigned int i = SPINS + YIELDS + 1;
		     i < peer->idle && pause.tv_nsec < PARK_MAX_NS; i++)
			pause.tv_nsec *= 2;
		if (pause.tv_nsec > PARK_MAX_NS)
			pause.tv_nsec = PARK_MAX_NS;
		nanosleep(&pause, NULL);
	}
}

const struct transport aeron_transport = {
	.name = "aeron",
	.writer_open = writer_open,
	.write = peer_write,
	.reader_open = reader_open,
	.read = peer_read,
	.wait = peer_wait,
	.close = peer_close,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Aeron IPC by its C client: an exclusive publication with the default term, and a subscription
 * that polls. Its driver aeronmd runs beside; scripts/bench starts it. The publication itself waits
 * for its slowest reader, so nothing is lost. Each run has a stream of its own, as the driver keeps
 * a closed publication for some seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <aeronc.h>

#include "bench/peers/peer.h"

#define CHANNEL    "aeron:ipc"
#define CONNECT_MS 5000

struct peer {
	aeron_context_t *context;
	aeron_t *client;
	aeron_exclusive_publication_t *publication;
	aeron_subscription_t *subscription;
	struct tally *tally; /* of the current poll */
	uint64_t next;
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
	expect(aeron_init(&peer->client, peer->context), "client");
	expect(aeron_start(peer->client), "start");
	peer->next = 1;
	peer->words = shape->payload_words;
	return peer;
}

static int writer_open(void **out, const struct shape *shape, unsigned int channel)
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
	*out = peer;
	return 0;
}

static int reader_open(void **out, const struct shape *shape, unsigned int channel)
{
	struct peer *peer = peer_make(shape);
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
	*out = peer;
	return 0;
}

static void peer_close(void *user)
{
	struct peer *peer = user;

	aeron_close(peer->client);
	aeron_context_close(peer->context);
	free(peer);
}

static void peer_write(void *user, const uint64_t *payloads, unsigned int count)
{
	struct peer *peer = user;
	int64_t result;

	for (; count > 0; count--, payloads += peer->words)
		while ((result = aeron_exclusive_publication_offer(
				peer->publication, (const uint8_t *)payloads, peer->words * 8, NULL,
				NULL)) < 0) {
			if (result == AERON_PUBLICATION_NOT_CONNECTED)
				break; /* as with no reader */
			if (result != AERON_PUBLICATION_BACK_PRESSURED &&
			    result != AERON_PUBLICATION_ADMIN_ACTION)
				machine_fail("aeron: offer: %s", aeron_errmsg());
			machine_pause();
		}
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

	peer->tally = tally;
	if (aeron_subscription_poll(peer->subscription, on_fragment, peer, PEER_LOOK) < 0)
		machine_fail("aeron: poll: %s", aeron_errmsg());
}

const struct transport aeron_transport = {
	.name = "aeron",
	.writer_open = writer_open,
	.write = peer_write,
	.writer_close = peer_close,
	.reader_open = reader_open,
	.read = peer_read,
	.reader_close = peer_close,
};

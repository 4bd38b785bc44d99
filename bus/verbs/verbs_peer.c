/* SPDX-License-Identifier: Apache-2.0 */
/* The subscribers of a listener.
 *
 * B1  A peer's queue pair is made in the domain of its realm, after the hello named the realm. A
 *     queue pair cannot be moved to another domain.
 * B2  A challenge is a reject. Nothing is kept of the request that it answers, and no queue pair
 *     is made for it. */
#include "bus/verbs/verbs_peer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_exposure.h"
#include "bus/verbs/verbs_private_data.h"
#include "tickbus/error.h"

#define PROBE_MS      1000
#define PROBE_LATE_MS 30000
#define KEEP_ALIVE_MS 30000

static_assert(PEER_TEXT >= ADDRESS_TEXT_BYTES, "an address names a peer");

struct verbs_peer {
	struct peers_entry base;
	struct rdma_cm_id *id;
	struct verbs_channel channel;
	uint64_t probed_ms;
};

void verbs_peer_end(struct peers_entry *entry)
{
	struct verbs_peer *peer = (struct verbs_peer *)entry;

	rdma_disconnect(peer->id); /* reaches the other side, if it is still connected */
	verbs_channel_close(&peer->channel);
	rdma_destroy_id(peer->id);
}

/* Answers a connection request with a challenge. */
static void challenge(struct rdma_cm_id *id, const uint8_t bytes[FABRIC_CHALLENGE_BYTES])
{
	struct verbs_private_data data = { .mark = VERBS_MARK };

	memcpy(data.body, bytes, FABRIC_CHALLENGE_BYTES);
	rdma_reject(id, &data, VERBS_PRIVATE_DATA_HEADER + FABRIC_CHALLENGE_BYTES);
}

/* Answers a connection request with a reason. */
static void reject(struct rdma_cm_id *id, int code, const char *why)
{
	struct verbs_private_data data = { .mark = VERBS_MARK, .number = (uint16_t)code };
	const size_t length = strnlen(why, FABRIC_REASON_BYTES);

	memcpy(data.body, why, length);
	rdma_reject(id, &data, (uint8_t)(VERBS_PRIVATE_DATA_HEADER + length));
}

static void refuse(struct verbs_listener *listener, struct rdma_cm_id *id, int code,
		   const char *why)
{
	char text[ADDRESS_TEXT_BYTES];

	address_text(rdma_get_peer_addr(id), text);
	reject(id, code, why);
	peers_log_refused(&listener->peers, text, why);
	rdma_destroy_id(id);
}

/* The host that asks: its IP address, IPv4 mapped into IPv6. */
static void origin_take(struct peer *peer, const struct sockaddr *from)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	peer->origin_bytes = FABRIC_ORIGIN_BYTES;
	if (from->sa_family == AF_INET6) {
		memcpy(peer->origin, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
		       FABRIC_ORIGIN_BYTES);
		return;
	}
	memcpy(peer->origin, mapped, sizeof(mapped));
	memcpy(peer->origin + sizeof(mapped),
	       &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
}

static struct verbs_peer *peer_new(struct verbs_listener *listener, struct rdma_cm_id *id)
{
	struct verbs_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->id = id;
	peer->probed_ms = clock_ms();
	id->context = peer;
	address_text(rdma_get_peer_addr(id), peer->base.text);
	origin_take(&peer->base.base, rdma_get_peer_addr(id));
	peers_add(&listener->peers, &peer->base);
	return peer;
}

/* The queue pair, and the accept that carries the welcome. */
static int peer_accept(struct verbs_listener *listener, struct verbs_peer *peer,
		       const struct verbs_event *event, const struct fabric_answer *answer)
{
	const uint32_t asked = event->conn.responder_resources;
	struct verbs_private_data data = { .mark = VERBS_MARK,
					   .number = (uint16_t)answer->welcome_bytes };
	struct rdma_conn_param how = {
		.private_data = &data,
		.private_data_len = (uint8_t)(VERBS_PRIVATE_DATA_HEADER + data.number),
		.responder_resources = (uint8_t)(asked < listener->responder_resources
							 ? asked
							 : listener->responder_resources),
		.flow_control = 1,
		.rnr_retry_count = (uint8_t)listener->address.rnr_retries,
	};
	int result = verbs_exposure_domain(listener, peer->base.base.realm);

	memcpy(data.body, answer->welcome, answer->welcome_bytes);
	if (result == 0) /* B1 */
		result = verbs_channel_open(&peer->channel, peer->id,
					    listener->domains[peer->base.base.realm]->pd,
					    listener->completions, peer);
	if (result == 0 && rdma_accept(peer->id, &how) < 0)
		result = error_set(errno, "cannot accept the connection: %s", strerror(errno));
	return result;
}

void verbs_peer_request(struct verbs_listener *listener, const struct verbs_event *event)
{
	struct fabric_answer answer = { 0 };
	struct verbs_peer *peer;
	int result;

	if (listener->peers.count >= listener->peers.max) {
		refuse(listener, event->id, EUSERS,
		       "the publisher has its maximum number of subscribers");
		return;
	}
	peer = peer_new(listener, event->id);
	if (!peer) {
		refuse(listener, event->id, EAGAIN,
		       "the publisher has no memory for another subscriber");
		return;
	}
	result = listener->peers.calls.hello(listener->peers.user, &peer->base.base, event->data,
					     event->bytes, &answer);
	if (peer->base.dead)
		return;
	if (result > 0) { /* B2 */
		challenge(peer->id, answer.challenge);
		peers_remove(&peer->base);
		return;
	}
	if (result < 0) {
		answer.reason[sizeof(answer.reason) - 1] = '\0';
		reject(peer->id, -result, answer.reason);
		peers_log_refused(&listener->peers, peer->base.text, answer.reason);
		peers_remove(&peer->base);
		return;
	}
	peer->base.up = true;
	result = peer_accept(listener, peer, event, &answer);
	if (result < 0) {
		reject(peer->id, EAGAIN, tb_error()); /* the client may try again */
		peers_log(&listener->peers, FABRIC_LOG_DROPPED, "%s: %s", peer->base.text,
			  tb_error());
		peers_lost(&peer->base, tb_error());
	}
}

void verbs_peer_read(struct verbs_listener *listener, struct verbs_peer *peer)
{
	uint8_t message[FABRIC_MESSAGE_BYTES];
	char why[128];
	size_t bytes;

	ibv_req_notify_cq(peer->channel.cq, 0);
	verbs_channel_progress(&peer->channel);
	for (int i = 0; i < VERBS_RECEIVES && !peer->base.dead; i++) {
		bytes = verbs_channel_take(&peer->channel, message);
		if (bytes == 0)
			break;
		listener->peers.calls.message(listener->peers.user, &peer->base.base, message,
					      bytes);
	}
	if (peer->base.dead || !peer->channel.broken)
		return;
	snprintf(why, sizeof(why), "%s", peer->channel.why);
	if (peer->channel.broken == EPROTO)
		peers_log_dropped(&listener->peers, peer->base.text, why);
	peers_lost(&peer->base, why);
}

int verbs_send(struct peer *base, const void *message, size_t bytes, struct exposure *given)
{
	struct verbs_peer *peer = (struct verbs_peer *)base;

	(void)given; /* the key in the message is the permission */
	if (peer->base.dead || !peer->base.up)
		return error_set(ENOTCONN, "the subscriber is gone");
	return verbs_channel_send(&peer->channel, message, bytes);
}

/* Only a WRITE without an acknowledgement shows that a subscriber's host is dead. The subscriber's
 * request set how often our device repeats the WRITE: perhaps for ever. */
static void peer_probe(struct verbs_peer *peer)
{
	const uint64_t since_ms = clock_ms() - peer->probed_ms;

	if (peer->channel.broken || (peer->channel.probing && since_ms >= PROBE_LATE_MS)) {
		peers_lost(&peer->base, "it no longer answers");
	} else if (!peer->channel.probing && since_ms >= PROBE_MS) {
		peer->probed_ms = clock_ms();
		verbs_channel_probe(&peer->channel);
	}
}

/* iWARP does not acknowledge a WRITE. TCP gives up a message after some minutes, and then the
 * connection ends; so a keep-alive is sent. */
static void peer_keep_alive(struct verbs_listener *listener, struct verbs_peer *peer)
{
	if (listener->keep_alive_bytes == 0 || clock_ms() - peer->probed_ms < KEEP_ALIVE_MS)
		return;
	peer->probed_ms = clock_ms();
	verbs_channel_keep_alive(&peer->channel, listener->keep_alive, listener->keep_alive_bytes);
}

void verbs_peers_check(struct verbs_listener *listener)
{
	const bool probes = listener->device->device->transport_type == IBV_TRANSPORT_IB;
	struct peers_entry *next;
	char why[128];

	for (struct peers_entry *entry = listener->peers.first; entry; entry = next) {
		struct verbs_peer *peer = (struct verbs_peer *)entry;

		next = entry->next;
		if (probes)
			peer_probe(peer);
		else if (peer->base.up)
			peer_keep_alive(listener, peer);
		if (peer->base.dead || !peer->channel.broken)
			continue;
		snprintf(why, sizeof(why), "%s", peer->channel.why);
		peers_lost(&peer->base, why);
	}
}

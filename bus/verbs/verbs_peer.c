/* SPDX-License-Identifier: Apache-2.0 */
/* The subscribers of a listener.
 *
 * B1  A peer's queue pair is made in the domain of its realm, after the hello named the realm. A
 *     queue pair cannot be moved to another domain. Over iWARP the domain is the peer's own (D5).
 * B2  A challenge is a reject. Nothing is kept of the request that it answers, and no queue pair
 *     is made for it.
 * B3  Ending a connection takes long, and many may be lost at once. So a lost peer waits. A turn
 *     ends at most BOUND_PEERS_OF_A_TURN. A peer that waits gets no message and reads none. For its
 *     owner it is still there: messages to it are lost, as those on their way are.
 * B4  A peer is probed from the established connection on: before that its device need not answer.
 *     The connection manager reports a connection that is not established. Over InfiniBand and
 *     RoCE it repeats the accept for about a minute. Over iWARP the accept establishes it.
 * B5  A path MTU above that of our port is refused. Both sides count packets of a READ by the path
 *     MTU, so we cannot answer in smaller packets. The request cannot ask for less than its own
 *     interface has. If an MTU falls later, READs no longer arrive, which ends the connection. The
 *     next request is refused. */
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
#include "bus/verbs/verbs_mtu.h"
#include "bus/verbs/verbs_own.h"
#include "bus/verbs/verbs_private_data.h"
#include "tickbus/error.h"

#define PROBE_MS      1000
#define PROBE_LATE_MS 30000
#define KEEP_ALIVE_MS 30000

static_assert(FABRIC_ORIGIN_BYTES == ADDRESS_HOST_BYTES, "an address is a peer's origin");
static_assert(PEER_TEXT >= ADDRESS_TEXT_BYTES, "an address names a peer");

struct verbs_peer {
	struct peers_entry base;
	struct rdma_cm_id *id;
	struct verbs_channel channel;
	struct verbs_own *own; /* over iWARP, from the first key or the accept on */
	bool established;
	uint64_t probed_ms;
	struct verbs_peer *lost_next, **lost_link; /* lost_link NULL: not lost */
	char why[128];                             /* it was lost */
};

static void lost_remove(struct verbs_listener *listener, struct verbs_peer *peer)
{
	*peer->lost_link = peer->lost_next;
	if (peer->lost_next)
		peer->lost_next->lost_link = peer->lost_link;
	else
		listener->lost_end = peer->lost_link;
	peer->lost_link = NULL;
}

void verbs_peer_lose(struct verbs_listener *listener, struct verbs_peer *peer, const char *why)
{
	if (peer->base.dead || peer->lost_link)
		return;
	snprintf(peer->why, sizeof(peer->why), "%s", why);
	peer->lost_next = NULL;
	peer->lost_link = listener->lost_first ? listener->lost_end : &listener->lost_first;
	*peer->lost_link = peer;
	listener->lost_end = &peer->lost_next;
}

bool verbs_peers_end_lost(struct verbs_listener *listener)
{
	for (int i = 0; i < BOUND_PEERS_OF_A_TURN && listener->lost_first; i++) /* B3 */
		peers_lost(&listener->lost_first->base, listener->lost_first->why);
	if (listener->lost_first)
		verbs_timer_soon(&listener->timer);
	return !listener->lost_first;
}

void verbs_peer_established(struct verbs_peer *peer)
{
	peer->established = true;
	peer->probed_ms = clock_ms();
}

void verbs_peer_end(struct peers_entry *entry)
{
	struct verbs_listener *listener = (struct verbs_listener *)entry->base.listener;
	struct verbs_peer *peer = (struct verbs_peer *)entry;

	if (listener->check_next == entry)
		listener->check_next = entry->next;
	if (peer->lost_link)
		lost_remove(listener, peer);
	rdma_disconnect(peer->id); /* reaches the other side, if it is still connected */
	verbs_channel_close(&peer->channel);
	rdma_destroy_id(peer->id);
	verbs_own_end(peer->own, &listener->ended);
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

void verbs_peer_refuse(struct verbs_listener *listener, struct rdma_cm_id *id, int code,
		       const char *why)
{
	char text[ADDRESS_TEXT_BYTES];

	address_text(rdma_get_peer_addr(id), text);
	reject(id, code, why);
	peers_log_refused(&listener->peers, text, why);
	rdma_destroy_id(id);
}

static struct verbs_peer *peer_new(struct verbs_listener *listener, struct rdma_cm_id *id)
{
	struct verbs_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->id = id;
	id->context = peer;
	address_text(rdma_get_peer_addr(id), peer->base.text);
	address_host_bytes(rdma_get_peer_addr(id), peer->base.base.origin);
	peer->base.base.origin_bytes = ADDRESS_HOST_BYTES;
	peers_add(&listener->peers, &peer->base);
	return peer;
}

static int peer_own(const struct verbs_listener *listener, struct verbs_peer *peer)
{
	if (!peer->own)
		peer->own = verbs_own_open(listener->device);
	return peer->own ? 0 : verbs_error(errno, listener->text, "creating a protection domain");
}

/* The domain of a peer's queue pair. */
static int peer_domain(struct verbs_listener *listener, struct verbs_peer *peer, struct ibv_pd **pd)
{
	const bool shared = verbs_exposure_shared(listener);
	const uint32_t realm = peer->base.base.realm;
	const int result =
		shared ? verbs_exposure_domain(listener, realm) : peer_own(listener, peer);

	if (result == 0)
		*pd = shared ? listener->domains[realm]->pd : peer->own->pd;
	return result;
}

int verbs_key(struct exposure *exposure, struct peer *base, struct fabric_key *key)
{
	struct verbs_listener *listener = (struct verbs_listener *)base->listener;
	struct verbs_peer *peer = (struct verbs_peer *)base;
	int result;

	if (peer->base.dead)
		return error_set(ENOTCONN, "the subscriber is gone");
	if (verbs_exposure_shared(listener))
		return verbs_exposure_key(exposure, key);
	listener->keys_given++; /* L7 */
	result = peer_own(listener, peer);
	return result < 0 ? result : verbs_exposure_own_key(exposure, peer->own, key);
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
	struct ibv_pd *pd;
	int result = peer_domain(listener, peer, &pd);

	memcpy(data.body, answer->welcome, answer->welcome_bytes);
	if (result == 0) /* B1 */
		result = verbs_channel_open(&peer->channel, peer->id, pd, listener->completions,
					    peer);
	if (result == 0 && rdma_accept(peer->id, &how) < 0)
		result = error_set(errno, "cannot accept the connection: %s", strerror(errno));
	return result;
}

void verbs_peer_request(struct verbs_listener *listener, const struct verbs_event *event)
{
	struct fabric_answer answer = { 0 };
	char why[FABRIC_REASON_BYTES];
	struct verbs_peer *peer;
	int result;

	if (verbs_mtu_exceeded(event->id, "the publisher", why, sizeof(why))) { /* B5 */
		verbs_peer_refuse(listener, event->id, EMSGSIZE, why);
		return;
	}
	if (listener->peers.count >= listener->peers.max) {
		verbs_peer_refuse(listener, event->id, EUSERS,
				  "the publisher has its maximum number of subscribers");
		return;
	}
	peer = peer_new(listener, event->id);
	if (!peer) {
		verbs_peer_refuse(listener, event->id, EAGAIN,
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
	size_t bytes;

	if (peer->lost_link)
		return; /* B3 */
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
	if (peer->channel.broken == EPROTO)
		peers_log_dropped(&listener->peers, peer->base.text, peer->channel.why);
	verbs_peer_lose(listener, peer, peer->channel.why);
}

static bool is_gone(const struct verbs_peer *peer)
{
	return peer->base.dead || !peer->base.up;
}

/* What a call that sends returns. If the connection failed, the peer is lost (B3). */
static int peer_sent(struct verbs_peer *peer, int result)
{
	struct verbs_listener *listener = (struct verbs_listener *)peer->base.base.listener;

	if (result == 0 || !peer->channel.broken)
		return result;
	verbs_peer_lose(listener, peer, peer->channel.why);
	verbs_timer_soon(&listener->timer);
	return 0;
}

int verbs_send(struct peer *base, const void *message, size_t bytes, struct exposure *given)
{
	struct verbs_peer *peer = (struct verbs_peer *)base;

	(void)given; /* the key in the message is the permission */
	if (is_gone(peer))
		return error_set(ENOTCONN, "the subscriber is gone");
	if (peer->lost_link)
		return 0; /* B3 */
	return peer_sent(peer, verbs_channel_send(&peer->channel, message, bytes));
}

int verbs_offer(struct peer *base, const void *message, size_t bytes)
{
	struct verbs_peer *peer = (struct verbs_peer *)base;

	if (is_gone(peer))
		return error_set(ENOTCONN, "the subscriber is gone");
	if (peer->lost_link)
		return 0; /* B3 */
	return peer_sent(peer, verbs_channel_offer(&peer->channel, message, bytes));
}

/* Only a WRITE without an acknowledgement shows that a subscriber's host is dead. The subscriber's
 * request set how often our device repeats the WRITE: perhaps for ever. */
static void peer_probe(struct verbs_listener *listener, struct verbs_peer *peer)
{
	const uint64_t since_ms = clock_ms() - peer->probed_ms;

	if (peer->channel.broken || (peer->channel.probing && since_ms >= PROBE_LATE_MS)) {
		verbs_peer_lose(listener, peer, "it no longer answers");
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

static void peer_check(struct verbs_listener *listener, struct verbs_peer *peer)
{
	if (!peer->established || peer->lost_link)
		return; /* B3, B4 */
	if (listener->device->device->transport_type == IBV_TRANSPORT_IB)
		peer_probe(listener, peer);
	else
		peer_keep_alive(listener, peer);
	if (peer->channel.broken)
		verbs_peer_lose(listener, peer, peer->channel.why);
}

void verbs_peers_check(struct verbs_listener *listener, bool going_on)
{
	struct peers_entry *entry;

	if (!listener->check_next && !going_on)
		listener->check_next = listener->peers.first;
	for (int i = 0; i < BOUND_PEERS_OF_A_TURN && (entry = listener->check_next); i++) {
		listener->check_next = entry->next;
		peer_check(listener, (struct verbs_peer *)entry);
	}
	if (listener->check_next)
		verbs_timer_soon(&listener->timer);
}

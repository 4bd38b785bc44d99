/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs fabric, "rdma:HOST:PORT": its operations. Each part has a file of its own.
 *
 *   verbs_private_data    the private data of an accept and of a reject
 *   verbs_events          events, ids and errors of the connection manager
 *   verbs_device          where a device is
 *   verbs_async           whether a device is lost
 *   verbs_mtu             MTUs of a port and of a connection
 *   verbs_domain          protection domains, one for each realm, and memory registered in them
 *   verbs_own             publisher: a connection's own domain and memory, over iWARP
 *   verbs_channel         one reliable connection: messages under credit, READs
 *   verbs_multicast       membership in a UD multicast group
 *   verbs_group           publisher: a notice group and its senders
 *   verbs_receiver        subscriber: the notice groups that are received
 *   verbs_timer           publisher: when a listener is polled next
 *   verbs_listener        publisher: an address of a device
 *   verbs_exposure        publisher: memory registered for remote READ
 *   verbs_requests        publisher: connection requests that wait for an answer
 *   verbs_peer            publisher: its subscribers
 *   verbs_listener_groups publisher: the groups that a listener sends to
 *   verbs_landings        subscriber: memory that READs land in
 *   verbs_link            subscriber: a connection
 *
 * Only librdmacm knows whether the link layer is InfiniBand, Ethernet (RoCE) or iWARP. The dialects
 * of both libraries (positive errno; -1 with errno; NULL with errno) end in these files. */
#ifndef TICKBUS_BUS_VERBS_H
#define TICKBUS_BUS_VERBS_H

#include "bus/fabric.h"

void verbs_notices(const struct listener *, const struct sockaddr_storage *group,
		   struct fabric_notices *);
int verbs_announcer(struct listener *, const struct sockaddr_storage *group, size_t bytes,
		    struct announcer **);
void verbs_announcer_close(struct announcer *);
int verbs_announce(struct announcer *, const void *datagram, size_t bytes);
int verbs_receive(struct link *, const struct fabric_notices *);
void verbs_receive_end(struct link *, const struct fabric_notices *);
size_t verbs_datagram(struct link *, void *datagram, size_t room);
int verbs_node(const char *address);
int verbs_listen(struct listener **, const struct fabric_listen *, const struct listener_calls *,
		 void *user);
int verbs_listener_fd(const struct listener *);
void verbs_listener_text(const struct listener *, char *text, size_t bytes);
int verbs_listener_poll(struct listener *);
void verbs_listener_close(struct listener *);
int verbs_expose(struct listener *, const struct memory *, uint32_t realm, struct exposure **);
void verbs_withdraw(struct exposure *);
int verbs_key(struct exposure *, struct peer *, struct fabric_key *);
int verbs_send(struct peer *, const void *message, size_t bytes, struct exposure *given);
int verbs_offer(struct peer *, const void *message, size_t bytes);

int verbs_connect(struct link **, const char *address, const void *hello, size_t bytes,
		  const struct link_calls *, void *user);
enum link_state verbs_link_state(const struct link *);
int verbs_link_fd(const struct link *);
int verbs_link_poll(struct link *);
int verbs_link_send(struct link *, const void *message, size_t bytes);
void verbs_link_left(struct link *);
void verbs_link_break(struct link *);
void verbs_link_settle(struct link *);
void verbs_link_close(struct link *);
int verbs_remote_open(struct link *, struct fabric_key, uint64_t bytes, struct remote **);
void verbs_remote_close(struct remote *);
bool verbs_remote_keep(struct link *, struct remote *);
const void *verbs_view(const struct remote *);
void *verbs_landing(struct link *, size_t bytes);
void verbs_landing_free(struct link *, void *, size_t bytes);
unsigned int verbs_depth(const struct link *);
int verbs_read(struct link *, const struct fabric_read *, unsigned int count);
int verbs_reap(struct link *, struct fabric_completion *, unsigned int max);
int verbs_sleep(struct link *);

extern const struct fabric_ops verbs_ops;

#endif

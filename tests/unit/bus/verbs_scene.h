/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher's listener and a subscriber's link over a fake device, and waiting for what they do.
 */
#ifndef TICKBUS_TESTS_UNIT_BUS_VERBS_SCENE_H
#define TICKBUS_TESTS_UNIT_BUS_VERBS_SCENE_H

#include <stdbool.h>

#include "bus/fabric.h"
#include "tests/support/fake_device.h"

#define PLACE        "10.9.0.1:7471"
#define GROUP        "239.77.251.9:7472"
#define WITHDRAWN_MS 2000
#define KEEP_ALIVE   "alive"

extern struct listener *listener;
extern struct announcer *announcer; /* to the listener's group */
extern struct peer *peer;           /* the last that was accepted */
extern struct link *subscriber;
extern const struct link_calls subscriber_calls;
extern char news[4096], gone[256]; /* log lines; why a peer or the link is gone */
extern unsigned int lines;         /* in the log */
extern unsigned int joins_awaited; /* for has_joined */
extern unsigned int hellos, gones; /* calls of the listener */
/* What the publisher answers to each hello: a challenge (1), -errno, or a welcome (0). */
extern int answered;
extern void (*message_arrived)(struct peer *); /* to the publisher */

void publisher_begin(const char *address, enum fabric_notices_kind);
/* The group is joined: waits until a notice is sent. */
void publisher_joined(void);
/* Expects that nothing is left. */
void publisher_end(void);
/* A connection request: its id. The next poll takes it. */
struct rdma_cm_id *request_arrives(void);
/* A connection request that the publisher accepts, and a connection that is established. */
struct rdma_cm_id *connection_request(void);
struct rdma_cm_id *connection(void);

void subscriber_begin(const char *address);
void subscriber_end(void);
void wait_for_gone(void);

/* The id that listens, and the group's. */
struct rdma_cm_id *listening(void);
struct rdma_cm_id *member(void);
void cm_event(struct rdma_cm_id *, enum rdma_cm_event_type, int status);

/* Polls the listener until a condition holds; `what` names it. */
void poll_until(bool (*done)(void), const char *what);
/* Until the log, or the reason of a peer that is gone, has this text. */
void poll_until_logged(const char *text);
bool is_sent(void);
bool is_not_sent(void);
bool has_joined(void);
/* Clears the log, and waits for one turn of the listener's timer. */
void wait_for_timer(void);
/* Until the groups were checked once more. */
void wait_for_groups_check(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side: one address of one device, and what its files share. */
#ifndef TICKBUS_BUS_VERBS_LISTENER_H
#define TICKBUS_BUS_VERBS_LISTENER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/fabric.h"
#include "bus/peers.h"
#include "bus/verbs/verbs_async.h"
#include "bus/verbs/verbs_domain.h"
#include "bus/verbs/verbs_group.h"
#include "bus/verbs/verbs_timer.h"

struct verbs_exposure;
struct verbs_own;
struct verbs_peer;
struct verbs_request;

/* Requests that wait for an answer, the oldest first. */
struct verbs_requests {
	struct verbs_request *first, *last;
	unsigned int count;
};

struct verbs_listener {
	struct listener base;
	struct peers peers;
	struct peers_entry *check_next;            /* the peer to check next; NULL: no round */
	struct verbs_peer *lost_first, **lost_end; /* lost, not ended yet */
	struct verbs_requests requests;
	struct address address;
	char *text;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id; /* NULL while the device is away */
	bool listening;        /* all that is made of the device exists */
	bool leaving;          /* the device is lost, and its peers are ended turn by turn */
	struct ibv_context *device;
	struct verbs_async async;                       /* of the device */
	struct ibv_pd *pd;                              /* for notices */
	struct verbs_domain *domains[BOUND_REALMS_MAX]; /* NULL: not used yet */
	struct fabric_common *common, own;              /* own: if the owner gave no common */
	struct ibv_comp_channel *completions;
	uint32_t responder_resources;
	int epoll;
	struct verbs_timer timer;
	int away; /* why the device could not be opened, as logged last: -errno */
	struct verbs_exposure *exposures;
	struct verbs_own *ended; /* of peers whose connection ended, not freed yet */
	unsigned int keys_given; /* in this turn, of registrations for one connection (L7) */
	uint32_t withdrawn_ms;   /* how long they stay registered after their withdrawal (X1) */
	struct fabric_notices notices; /* the owner's wish */
	uint8_t keep_alive[FABRIC_MESSAGE_BYTES];
	size_t keep_alive_bytes;
	struct verbs_group *groups;
};

#endif

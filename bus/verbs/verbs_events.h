/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager: its event channels, its events, its ids, and the text of its errors. */
#ifndef TICKBUS_BUS_VERBS_EVENTS_H
#define TICKBUS_BUS_VERBS_EVENTS_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

/* ENOTSUPP of Linux's own, which no header has: RoCE joins no groups of IPv6. */
#define VERBS_NOT_IN_KERNEL 524

/* A copy, so that the event is given back before anything is done about it. */
struct verbs_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status;
	struct rdma_conn_param conn;
	struct rdma_ud_param ud;
	void *joined; /* of a group: what was given when it was joined */
	uint8_t data[256];
	size_t bytes; /* of data */
};

/* 1 and the next event, 0 none, -errno. */
int verbs_event_take(struct rdma_event_channel *, struct verbs_event *);
/* Of an event that tells of a failure: an errno value. What librdmacm itself could not do has
 * status -1, what the other side answered a number above 0: both are EIO. */
int verbs_event_code(const struct verbs_event *);
/* A channel whose descriptor does not block; NULL with errno set and words. */
struct rdma_event_channel *verbs_events_open(const char *address);
/* An id that is bound to an address of this host, and so has its device; NULL with errno. */
struct rdma_cm_id *verbs_id_bound(struct rdma_event_channel *, enum rdma_port_space,
				  const struct sockaddr_storage *local, uint32_t traffic_class);
int verbs_nonblocking(int fd);
/* error_set() with the words for an errno that verbs or the connection manager gave. */
int verbs_error(int code, const char *address, const char *what);

#endif

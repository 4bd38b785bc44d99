/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager: its event channels, its events, its ids, and the text of its errors. */
#ifndef TICKBUS_BUS_VERBS_EVENTS_H
#define TICKBUS_BUS_VERBS_EVENTS_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

/* Linux's ENOTSUPP, which no header has. RoCE gives it for IPv6 groups. */
#define VERBS_UNSUPPORTED 524

/* A copy, so that the event is acknowledged before anything is done about it. */
struct verbs_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status;
	struct rdma_conn_param conn;
	struct rdma_ud_param ud;
	void *joined; /* of a group: the context of its join */
	uint8_t data[256];
	size_t bytes; /* of data */
};

/* 1 with the next event, 0 if there is none, or -errno. */
int verbs_event_take(struct rdma_event_channel *, struct verbs_event *);
/* The errno value of an event that reports a failure. Status -1 (librdmacm itself failed) and
 * statuses above 0 (the other side's answer) are EIO. */
int verbs_event_code(const struct verbs_event *);
/* A channel whose descriptor does not block; NULL with errno and a text. */
struct rdma_event_channel *verbs_events_open(const char *address);
/* An id that is bound to an address of this host, and so has its device; NULL with errno. */
struct rdma_cm_id *verbs_id_bound(struct rdma_event_channel *, enum rdma_port_space,
				  const struct sockaddr_storage *local, uint32_t traffic_class);
int verbs_nonblocking(int fd);
/* error_set() for an errno of libibverbs or librdmacm, with advice. */
int verbs_error(int code, const char *address, const char *what);

#endif

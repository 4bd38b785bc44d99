/* SPDX-License-Identifier: Apache-2.0 */
/* Membership of an id in a UD multicast group. */
#ifndef TICKBUS_BUS_VERBS_MULTICAST_H
#define TICKBUS_BUS_VERBS_MULTICAST_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An id for datagrams, bound to an address of this host with any port; NULL with errno. */
struct rdma_cm_id *verbs_multicast_id(struct rdma_event_channel *,
				      const struct sockaddr_storage *local, uint32_t traffic_class);
/* Begins to join: an event with `context` ends it. 0, or -1 with errno. */
int verbs_multicast_join(struct rdma_cm_id *, const struct sockaddr_storage *group, bool send_only,
			 void *context);
void verbs_multicast_leave(struct rdma_cm_id *, const struct sockaddr_storage *group);
/* The text of a join's errno. */
const char *verbs_multicast_text(int code);

#endif

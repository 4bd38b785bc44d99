/* SPDX-License-Identifier: Apache-2.0 */
/* MTUs of a port and of a connection. The subscriber's interface decides the path MTU of a
 * connection over RoCE: the publisher learns it from the request. A publisher's port with a smaller
 * MTU cannot send packets of that size. Then short READs succeed, and the packets of longer READs
 * are lost on every try. */
#ifndef TICKBUS_BUS_VERBS_MTU_H
#define TICKBUS_BUS_VERBS_MTU_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The active MTU of an id's port in bytes, 256 to 4,096; 0: not known. */
uint32_t verbs_mtu_port(struct rdma_cm_id *);
/* The path MTU of a connection, or of a connection request, in bytes; 0: iWARP, which has no path
 * MTU.
 */
uint32_t verbs_mtu_path(struct rdma_cm_id *);
/* Whether packets of the path MTU are too long for this side's port, with a text that says so.
 * `side` is the port's owner in that text, for example "the publisher". */
bool verbs_mtu_exceeded(struct rdma_cm_id *, const char *side, char *why, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A fake device and connection manager for tests of the verbs fabric, in the place of libibverbs
 * and librdmacm. The test makes events, sets limits and failures, and counts objects. */
#ifndef TICKBUS_TESTS_SUPPORT_FAKE_DEVICE_H
#define TICKBUS_TESTS_SUPPORT_FAKE_DEVICE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/verbs/verbs_private_data.h"

#define FAKE_IDS_MAX 2048

extern struct fake_device {
	struct ibv_device device;
	struct ibv_context context;

	/* What was made and not destroyed. */
	struct rdma_cm_id *made[FAKE_IDS_MAX]; /* in their order; NULL: destroyed */
	unsigned int made_count;
	int ids, queue_pairs, registered, handles;
	/* What was called. */
	unsigned int pairs_made; /* queue pairs, also those that are destroyed */
	unsigned int listens, joins;
	struct rdma_conn_param accepted, requested;
	struct verbs_private_data rejected;
	uint8_t rejected_bytes;
	uint8_t hellos[2][FABRIC_HELLO_BYTES]; /* of the last requests */
	unsigned int posted;                   /* to send queues */
	struct ibv_send_wr last_posted;
	struct ibv_sge last_sge;
	int last_access; /* of a registration, its memory, and where it begins for a reader */
	const void *last_memory;
	uint64_t last_address;
	const struct ibv_pd *last_domain;                /* of a queue pair */
	unsigned int events, events_taken, events_acked; /* asynchronous events */

	struct rdma_cm_id *given_up; /* its other side gave up the request */
	unsigned int challenges;     /* requests that are answered with a challenge */

	/* Failures: errno values, 0 for success. */
	int join_errno, accept_errno, register_errno, post_errno;
	bool refuses_send_only; /* joins of send-only members */
	/* Limits. */
	int queue_pairs_max;
	unsigned int refused_pairs; /* beyond queue_pairs_max, and when: */
	uint64_t refused_ms[FAKE_IDS_MAX];
	uint32_t inline_max;
	size_t refused_bytes; /* regions of this size are refused, so often: */
	unsigned int refused_regions;
	enum ibv_mtu mtu, path_mtu; /* of the port; of connections, 0: iWARP */
	int udp_mtu;                /* of the interface */
	int reads;                  /* at once */

	bool completes;                    /* each post, at once */
	struct ibv_cq *completion_of;      /* the last post completes in this queue */
	const struct ibv_cq *broken_queue; /* polling it fails */
	enum ibv_wc_status completion_status;
	enum ibv_wc_opcode completion_opcode;
	unsigned int completion_flags;
	uint32_t completion_bytes;
	int64_t later_s; /* ahead of the machine's clock */
} fake;

/* Opens the device's descriptors, and makes the library read its clock. */
void fake_device_make(void);
/* Queues an event of the connection manager. */
void fake_cm_event(struct rdma_event_channel *, struct rdma_cm_event);
/* Queues an asynchronous event of the device. */
void fake_async_event(struct ibv_async_event);
/* The which-th id of a port space that is not destroyed. */
struct rdma_cm_id *fake_id(enum rdma_port_space, unsigned int which);

#endif

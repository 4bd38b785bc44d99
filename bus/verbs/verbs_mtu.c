/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/verbs/verbs_mtu.h"

#include <inttypes.h>
#include <stdio.h>

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu; /* IBV_MTU_256 is 1 */
}

uint32_t verbs_mtu_port(struct rdma_cm_id *id)
{
	struct ibv_port_attr port = { 0 };

	return ibv_query_port(id->verbs, id->port_num, &port) == 0 ? mtu_bytes(port.active_mtu) : 0;
}

uint32_t verbs_mtu_path(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_RTR };
	int mask;

	if (rdma_init_qp_attr(id, &attributes, &mask) < 0 || !(mask & IBV_QP_PATH_MTU))
		return 0;
	return mtu_bytes(attributes.path_mtu);
}

bool verbs_mtu_exceeded(struct rdma_cm_id *id, const char *side, char *why, size_t bytes)
{
	const uint32_t path = verbs_mtu_path(id), port = path ? verbs_mtu_port(id) : 0;

	if (port == 0 || path <= port)
		return false;
	snprintf(why, bytes,
		 "the path MTU of this connection is %" PRIu32 " bytes, but %s's port has %" PRIu32
		 ": give both interfaces the same MTU",
		 path, side, port);
	return true;
}

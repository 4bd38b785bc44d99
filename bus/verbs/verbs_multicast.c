/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/verbs/verbs_multicast.h"

#include <netinet/in.h>
#include <string.h>

#include "bus/verbs/verbs_events.h"

struct rdma_cm_id *verbs_multicast_id(struct rdma_event_channel *events,
				      const struct sockaddr_storage *local, uint32_t traffic_class)
{
	struct sockaddr_storage from = *local;

	((struct sockaddr_in *)&from)->sin_port = 0; /* both families have it there */
	return verbs_id_bound(events, RDMA_PS_UDP, &from, traffic_class);
}

int verbs_multicast_join(struct rdma_cm_id *id, const struct sockaddr_storage *where,
			 bool send_only, void *context)
{
	struct sockaddr_storage group = *where;
	struct rdma_cm_join_mc_attr_ex how = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
					: RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};

	return rdma_join_multicast_ex(id, &how, context);
}

void verbs_multicast_leave(struct rdma_cm_id *id, const struct sockaddr_storage *where)
{
	struct sockaddr_storage group = *where;

	rdma_leave_multicast(id, (struct sockaddr *)&group);
}

const char *verbs_multicast_text(int code)
{
	return code == VERBS_UNSUPPORTED ? "the kernel does not support it on this kind of device"
					 : strerror(code);
}

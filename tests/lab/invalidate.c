/* SPDX-License-Identifier: Apache-2.0 */
/* SENDs that invalidate a key at the other side, for verbs_peer.py: pyverbs cannot send them over a
 * connection that the connection manager made. Preloaded, so that it sees the queue pairs. */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static struct ibv_qp *queue_pair; /* the last that was made */

EXPORTED int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *how)
{
	void *const manager = dlopen("librdmacm.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *const found = manager ? dlsym(manager, "rdma_create_qp") : NULL;
	int (*create)(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *);
	int result;

	if (!found) {
		errno = ENOSYS;
		return -1;
	}
	memcpy(&create, &found, sizeof(create));
	result = create(id, pd, how);
	queue_pair = id->qp;
	return result;
}

EXPORTED int lab_send_with_invalidate(void *memory, uint32_t bytes, uint32_t lkey, uint32_t rkey);

/* Over the queue pair that was made last: 0, or an errno value. */
int lab_send_with_invalidate(void *memory, uint32_t bytes, uint32_t lkey, uint32_t rkey)
{
	struct ibv_sge part = { .addr = (uintptr_t)memory, .length = bytes, .lkey = lkey };
	struct ibv_send_wr work = { .sg_list = &part,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND_WITH_INV,
				    .send_flags = IBV_SEND_SIGNALED,
				    .invalidate_rkey = rkey };
	struct ibv_send_wr *bad;

	work.wr.rdma.rkey = rkey; /* where Soft-iWARP looks for it */
	return ibv_post_send(queue_pair, &work, &bad);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_verbs.h"

#include <criterion/criterion.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_verbs fake_verbs;

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	(void)id, (void)level, (void)name, (void)value, (void)bytes;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = verbs;
	fake_verbs.domains++;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	cr_expect_eq(pd->handle, 0, "a domain goes before its %u registrations", pd->handle);
	free(pd);
	fake_verbs.domains--;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *verbs)
{
	struct ibv_comp_channel *completions = calloc(1, sizeof(*completions));

	completions->context = verbs;
	completions->fd = eventfd(0, EFD_CLOEXEC);
	fake_verbs.channels++;
	return completions;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *completions)
{
	close(completions->fd);
	free(completions);
	fake_verbs.channels--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *verbs, int depth, void *user,
			     struct ibv_comp_channel *completions, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	(void)depth, (void)completions, (void)vector;
	cq->context = verbs;
	cq->cq_context = user;
	fake_verbs.queues++;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	fake_verbs.queues--;
	return 0;
}

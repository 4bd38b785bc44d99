/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection over iWARP has to itself.
 *
 * D5  Over iWARP a SEND may invalidate any registration in the protection domain of its queue pair.
 *     The device does so before the program sees the message, and Soft-iWARP never reports it. So
 *     domain and registrations belong to one connection, and a peer can end only its own keys.
 * D6  Unpinning memory takes long. A turn under the owner's lock ends a bounded number of
 *     registrations. */
#include "bus/verbs/verbs_own.h"

#include <errno.h>
#include <stdlib.h>

struct verbs_own_region {
	const struct verbs_own_regions *exposure;
	struct ibv_mr *mr;
	struct verbs_own_region *next, **link;                   /* of the connection */
	struct verbs_own_region *exposure_next, **exposure_link; /* of the exposure */
};

struct verbs_own *verbs_own_open(struct ibv_context *device)
{
	struct verbs_own *own = calloc(1, sizeof(*own));
	int code;

	if (!own)
		return NULL;
	own->pd = ibv_alloc_pd(device);
	if (own->pd)
		return own;
	code = errno;
	free(own);
	errno = code;
	return NULL;
}

static void region_link(struct verbs_own_region *region, struct verbs_own *own,
			struct verbs_own_regions *exposure)
{
	region->exposure = exposure;
	region->next = own->regions;
	region->link = &own->regions;
	if (region->next)
		region->next->link = &region->next;
	own->regions = region;
	region->exposure_next = exposure->first;
	region->exposure_link = &exposure->first;
	if (region->exposure_next)
		region->exposure_next->exposure_link = &region->exposure_next;
	exposure->first = region;
}

static void region_free(struct verbs_own_region *region)
{
	*region->link = region->next;
	if (region->next)
		region->next->link = region->link;
	*region->exposure_link = region->exposure_next;
	if (region->exposure_next)
		region->exposure_next->exposure_link = region->exposure_link;
	ibv_dereg_mr(region->mr);
	free(region);
}

struct ibv_mr *verbs_own_register(struct verbs_own *own, struct verbs_own_regions *exposure,
				  void *memory, size_t bytes)
{
	struct verbs_own_region *region = own->regions;
	int code;

	while (region && region->exposure != exposure)
		region = region->next;
	if (region)
		return region->mr;
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->mr = ibv_reg_mr(own->pd, memory, bytes, IBV_ACCESS_REMOTE_READ);
	if (region->mr) {
		region_link(region, own, exposure);
		return region->mr;
	}
	code = errno;
	free(region);
	errno = code;
	return NULL;
}

void verbs_own_end(struct verbs_own *own, struct verbs_own **ended)
{
	if (!own)
		return;
	own->next = *ended;
	*ended = own;
}

unsigned int verbs_own_free_ended(struct verbs_own **ended, unsigned int most)
{
	while (*ended) {
		struct verbs_own *own = *ended;

		for (; own->regions && most > 0; most--)
			region_free(own->regions);
		if (own->regions)
			break; /* D6 */
		*ended = own->next;
		ibv_dealloc_pd(own->pd);
		free(own);
	}
	return most;
}

unsigned int verbs_own_withdraw(struct verbs_own_regions *exposure, unsigned int most)
{
	for (; exposure->first && most > 0; most--)
		region_free(exposure->first);
	return most;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, one for each device and realm, and the memory that may be read in each.
 *
 * The listeners of one owner share them, under its lock. Memory is registered once for a device and
 * a realm, even if several addresses of that device expose it.
 *
 * D1  A device accepts a key only in the domain of the queue pair that the request came by. So a
 *     key of another realm does not work, even if a peer learns it.
 * D2  A registration keeps its pages, not their mapping. When one user says that the memory is to
 *     be unmapped, other memory may get its address: the registration gets no new users.
 * D3  librdmacm has one context for a device, and keeps it while an id is bound to it. So the
 *     context's address identifies the device while the domain has a user.
 * D4  A registration begins at address 0 for its readers. So a key shows no address of this
 *     process. */
#include "bus/verbs/verbs_domain.h"

#include <errno.h>
#include <stdlib.h>

struct verbs_domain *verbs_domain_use(struct fabric_common *common, struct ibv_context *device,
				      uint32_t realm)
{
	struct verbs_domain *domain = common->domains;

	while (domain && (domain->device != device || domain->realm != realm))
		domain = domain->next;
	if (domain) {
		domain->users++;
		return domain;
	}
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return NULL;
	domain->pd = ibv_alloc_pd(device);
	if (!domain->pd) {
		const int code = errno;

		free(domain);
		errno = code;
		return NULL;
	}
	domain->device = device;
	domain->realm = realm;
	domain->users = 1;
	domain->next = common->domains;
	domain->link = &common->domains;
	if (domain->next)
		domain->next->link = &domain->next;
	common->domains = domain;
	return domain;
}

void verbs_domain_leave(struct verbs_domain *domain)
{
	if (--domain->users > 0)
		return;
	*domain->link = domain->next;
	if (domain->next)
		domain->next->link = domain->link;
	ibv_dealloc_pd(domain->pd);
	free(domain);
}

struct verbs_registration *verbs_registration_use(struct verbs_domain *domain, void *memory,
						  size_t bytes)
{
	struct verbs_registration *registration = domain->registrations;

	while (registration && (registration->memory != memory || registration->retired))
		registration = registration->next;
	if (registration) {
		registration->users++;
		return registration;
	}
	registration = calloc(1, sizeof(*registration));
	if (!registration)
		return NULL;
	registration->mr = ibv_reg_mr_iova(domain->pd, memory, bytes, VERBS_REGISTRATION_ADDRESS,
					   IBV_ACCESS_REMOTE_READ); /* D4 */
	if (!registration->mr) {
		const int code = errno;

		free(registration);
		errno = code;
		return NULL;
	}
	registration->memory = memory;
	registration->users = 1;
	registration->next = domain->registrations;
	registration->link = &domain->registrations;
	if (registration->next)
		registration->next->link = &registration->next;
	domain->registrations = registration;
	return registration;
}

void verbs_registration_retire(struct verbs_registration *registration)
{
	registration->retired = true;
}

void verbs_registration_leave(struct verbs_registration *registration)
{
	if (--registration->users > 0)
		return;
	*registration->link = registration->next;
	if (registration->next)
		registration->next->link = registration->link;
	ibv_dereg_mr(registration->mr);
	free(registration);
}

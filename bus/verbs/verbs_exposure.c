/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered for remote READ alone.
 *
 * X1  Withdrawn memory stays registered for the listener's withdrawn_ms, so that peers with its key
 *     can read it to the end. The time begins when the listener's thread first finds the memory
 *     withdrawn: while that thread hangs, no peer can learn that the memory goes. The registration
 *     keeps the pages, not their mapping. */
#include "bus/verbs/verbs_exposure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_events.h"

struct verbs_exposure {
	struct exposure base;
	struct verbs_exposure *next;
	struct verbs_listener *listener;
	void *memory;
	size_t bytes;
	uint32_t realm;
	struct verbs_registration *registration; /* NULL while the device is away */
	bool withdrawn;
	uint64_t withdrawn_ms; /* when the listener's thread found it withdrawn; 0: not yet */
};

int verbs_exposure_domain(struct verbs_listener *listener, uint32_t realm)
{
	struct verbs_domain **domain = &listener->domains[realm];

	if (!*domain)
		*domain = verbs_domain_use(listener->common, listener->device, realm);
	return *domain ? 0 : verbs_error(errno, listener->text, "creating a protection domain");
}

static int exposure_register(struct verbs_exposure *exposure)
{
	struct verbs_listener *listener = exposure->listener;
	const int result = verbs_exposure_domain(listener, exposure->realm);
	char what[64];

	if (result < 0)
		return result;
	exposure->registration = verbs_registration_use(listener->domains[exposure->realm],
							exposure->memory, exposure->bytes);
	if (exposure->registration)
		return 0;
	snprintf(what, sizeof(what), "registering %zu bytes", exposure->bytes);
	return verbs_error(errno, listener->text, what);
}

static void exposure_unregister(struct verbs_exposure *exposure)
{
	if (exposure->registration)
		verbs_registration_leave(exposure->registration);
	exposure->registration = NULL;
}

int verbs_expose(struct listener *base, const struct memory *memory, uint32_t realm,
		 struct exposure **out)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;
	struct verbs_exposure *exposure = calloc(1, sizeof(*exposure));
	int result;

	*out = NULL;
	if (!exposure)
		return error_set(ENOMEM, "address rdma:%s: no memory", listener->text);
	exposure->base.ops = base->ops;
	exposure->listener = listener;
	exposure->memory = memory->base;
	exposure->bytes = memory->bytes;
	exposure->realm = realm;
	result = listener->device ? exposure_register(exposure) : 0;
	if (result < 0) {
		free(exposure);
		return result;
	}
	exposure->next = listener->exposures;
	listener->exposures = exposure;
	*out = &exposure->base;
	return 0;
}

static void exposure_free(struct verbs_exposure **link)
{
	struct verbs_exposure *exposure = *link;

	*link = exposure->next;
	exposure_unregister(exposure);
	free(exposure);
}

void verbs_withdraw(struct exposure *base)
{
	struct verbs_exposure *exposure = (struct verbs_exposure *)base;

	if (!exposure)
		return;
	exposure->withdrawn = true;
	if (exposure->registration)
		verbs_registration_retire(exposure->registration);
}

struct fabric_key verbs_key(const struct exposure *base)
{
	const struct verbs_exposure *exposure = (const struct verbs_exposure *)base;

	/* Without a registration no peer is connected that could use the key. */
	return (struct fabric_key){ .address = (uintptr_t)exposure->memory,
				    .rkey = exposure->registration
						    ? exposure->registration->mr->rkey
						    : 0 };
}

void verbs_exposures_free_withdrawn(struct verbs_listener *listener)
{
	const uint64_t now = clock_ms();

	for (struct verbs_exposure **link = &listener->exposures; *link;) {
		struct verbs_exposure *exposure = *link;

		if (exposure->withdrawn && exposure->withdrawn_ms == 0)
			exposure->withdrawn_ms = now;
		if (exposure->withdrawn && now - exposure->withdrawn_ms >= listener->withdrawn_ms)
			exposure_free(link); /* X1 */
		else
			link = &exposure->next;
	}
}

int verbs_exposures_register_next(struct verbs_listener *listener)
{
	struct verbs_exposure *exposure = listener->exposures;
	int result;

	while (exposure && (exposure->registration || exposure->withdrawn))
		exposure = exposure->next;
	if (!exposure)
		return 0;
	result = exposure_register(exposure);
	return result < 0 ? result : 1;
}

void verbs_exposures_unregister(struct verbs_listener *listener)
{
	for (struct verbs_exposure *e = listener->exposures; e; e = e->next)
		exposure_unregister(e);
	for (size_t i = 0; i < BOUND_REALMS_MAX; i++) {
		if (listener->domains[i])
			verbs_domain_leave(listener->domains[i]);
		listener->domains[i] = NULL;
	}
}

void verbs_exposures_close(struct verbs_listener *listener)
{
	while (listener->exposures)
		exposure_free(&listener->exposures);
}

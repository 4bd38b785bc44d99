/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered for remote READ alone.
 *
 * X1  Withdrawn memory stays registered for the listener's withdrawn_ms, so that peers with its key
 *     can read it to the end. The time begins when the listener's thread first finds the memory
 *     withdrawn: while that thread hangs, no peer can learn that the memory goes. The registration
 *     keeps the pages, not their mapping.
 * X2  Over InfiniBand and RoCE a listener's peers share the registration. Over iWARP each peer has
 *     its own registration, made when the peer gets the key (D5).
 * X3  A turn under the owner's lock ends at most WITHDRAWN_A_TURN registrations of withdrawn
 *     memory. */
#include "bus/verbs/verbs_exposure.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_own.h"

#define WITHDRAWN_A_TURN 16

struct verbs_exposure {
	struct exposure base;
	struct verbs_exposure *next;
	struct verbs_listener *listener;
	void *memory;
	size_t bytes;
	uint32_t realm;
	struct verbs_registration *registration; /* X2: shared; NULL while the device is away */
	struct verbs_own_regions own;            /* X2: of each peer */
	bool withdrawn;
	uint64_t withdrawn_ms; /* when the listener's thread found it withdrawn; 0: not yet */
};

bool verbs_exposure_shared(const struct verbs_listener *listener)
{
	return listener->device->device->transport_type != IBV_TRANSPORT_IWARP;
}

int verbs_exposure_domain(struct verbs_listener *listener, uint32_t realm)
{
	struct verbs_domain **domain = &listener->domains[realm];

	if (!*domain)
		*domain = verbs_domain_use(listener->common, listener->device, realm);
	return *domain ? 0 : verbs_error(errno, listener->text, "creating a protection domain");
}

static int register_error(const struct verbs_exposure *exposure)
{
	const int code = errno;
	char what[64];

	snprintf(what, sizeof(what), "registering %zu bytes", exposure->bytes);
	return verbs_error(code, exposure->listener->text, what);
}

static int exposure_register(struct verbs_exposure *exposure)
{
	struct verbs_listener *listener = exposure->listener;
	const int result = verbs_exposure_domain(listener, exposure->realm);

	if (result < 0)
		return result;
	exposure->registration = verbs_registration_use(listener->domains[exposure->realm],
							exposure->memory, exposure->bytes);
	return exposure->registration ? 0 : register_error(exposure);
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
	int result = 0;

	*out = NULL;
	if (!exposure)
		return error_set(ENOMEM, "address rdma:%s: no memory", listener->text);
	exposure->base.ops = base->ops;
	exposure->listener = listener;
	exposure->memory = memory->base;
	exposure->bytes = memory->bytes;
	exposure->realm = realm;
	if (listener->device && !listener->leaving && verbs_exposure_shared(listener))
		result = exposure_register(exposure);
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
	verbs_own_withdraw(&exposure->own, UINT_MAX);
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

int verbs_exposure_key(const struct exposure *base, struct fabric_key *key)
{
	const struct verbs_exposure *exposure = (const struct verbs_exposure *)base;

	if (!exposure->registration)
		return error_set(ENODEV, "address rdma:%s: the device is away",
				 exposure->listener->text);
	*key = (struct fabric_key){ .address = VERBS_REGISTRATION_ADDRESS,
				    .rkey = exposure->registration->mr->rkey };
	return 0;
}

int verbs_exposure_own_key(struct exposure *base, struct verbs_own *own, struct fabric_key *key)
{
	struct verbs_exposure *exposure = (struct verbs_exposure *)base;
	const struct ibv_mr *mr =
		verbs_own_register(own, &exposure->own, exposure->memory, exposure->bytes);

	if (!mr)
		return register_error(exposure);
	/* Soft-iWARP knows memory by its address alone. */
	*key = (struct fabric_key){ .address = (uintptr_t)exposure->memory, .rkey = mr->rkey };
	return 0;
}

void verbs_exposures_free_withdrawn(struct verbs_listener *listener)
{
	struct verbs_exposure **link = &listener->exposures;
	const uint64_t now = clock_ms();
	unsigned int left = WITHDRAWN_A_TURN; /* X3 */

	while (*link && left > 0) {
		struct verbs_exposure *exposure = *link;

		if (exposure->withdrawn && exposure->withdrawn_ms == 0)
			exposure->withdrawn_ms = now;
		if (!exposure->withdrawn ||
		    now - exposure->withdrawn_ms < listener->withdrawn_ms) {
			link = &exposure->next; /* X1 */
			continue;
		}
		left = verbs_own_withdraw(&exposure->own, left);
		if (left == 0)
			break;
		left -= exposure->registration != NULL;
		exposure_free(link);
	}
	if (left == 0)
		verbs_timer_soon(&listener->timer);
}

int verbs_exposures_register_next(struct verbs_listener *listener)
{
	struct verbs_exposure *exposure = listener->exposures;
	int result;

	if (!verbs_exposure_shared(listener))
		return 0;
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

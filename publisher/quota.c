/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/bounds.h"
#include "bus/hash.h"

struct quota_host {
	uint8_t name[FABRIC_ORIGIN_BYTES];
	uint32_t sessions;
	struct quota_host *next, **link;
};

uint32_t quota_default(uint32_t subscribers_max)
{
	return BOUND_QUOTA(subscribers_max);
}

/* The bus id is random, so no client knows which hosts share a list. */
static struct quota_host **bucket_of(struct endpoint *endpoint,
				     const uint8_t host[FABRIC_ORIGIN_BYTES])
{
	const uint64_t hash =
		XXH3_64bits_withSeed(host, FABRIC_ORIGIN_BYTES, endpoint->publisher->bus_id);

	return &endpoint->hosts[hash % ENDPOINT_HOST_LISTS];
}

static struct quota_host *host_find(struct quota_host *first,
				    const uint8_t host[FABRIC_ORIGIN_BYTES])
{
	while (first && memcmp(first->name, host, FABRIC_ORIGIN_BYTES) != 0)
		first = first->next;
	return first;
}

int quota_check(struct endpoint *endpoint, const struct peer *peer, const struct realm *realm,
		char reason[FABRIC_REASON_BYTES])
{
	const uint32_t max = endpoint->publisher->subscribers_per_host;
	const struct quota_host *host;
	uint8_t name[FABRIC_ORIGIN_BYTES];

	if (endpoint->subscribers[realm->index] >= realm->subscribers_max) {
		snprintf(reason, FABRIC_REASON_BYTES,
			 "realm %s has its maximum number of subscribers, %u (its subscribers_max)",
			 realm->name, realm->subscribers_max);
		return -EUSERS;
	}
	fabric_host_of(peer, name);
	host = host_find(*bucket_of(endpoint, name), name);
	if (!host || host->sessions < max)
		return 0;
	snprintf(reason, FABRIC_REASON_BYTES,
		 "the %s has its maximum number of subscribers, %u (subscribers_per_host)",
		 peer->ops->network ? "host" : "user", max);
	return -EUSERS;
}

static struct quota_host *host_add(struct quota_host **bucket,
				   const uint8_t name[FABRIC_ORIGIN_BYTES])
{
	struct quota_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	memcpy(host->name, name, sizeof(host->name));
	host->next = *bucket;
	host->link = bucket;
	if (host->next)
		host->next->link = &host->next;
	*bucket = host;
	return host;
}

int quota_take(struct session *session)
{
	struct endpoint *endpoint = &session->publisher->endpoints[session->listener];
	struct quota_host **bucket, *host;
	uint8_t name[FABRIC_ORIGIN_BYTES];

	fabric_host_of(session->peer, name);
	bucket = bucket_of(endpoint, name);
	host = host_find(*bucket, name);
	if (!host)
		host = host_add(bucket, name);
	if (!host)
		return -ENOMEM;
	host->sessions++;
	endpoint->subscribers[session->realm->index]++;
	session->host = host;
	return 0;
}

void quota_give(struct session *session)
{
	struct endpoint *endpoint = &session->publisher->endpoints[session->listener];
	struct quota_host *host = session->host;

	endpoint->subscribers[session->realm->index]--;
	if (--host->sessions > 0)
		return;
	*host->link = host->next;
	if (host->next)
		host->next->link = host->link;
	free(host);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the fabric of an address by its scheme, without decorators. */
#include "bus/fabric.h"

#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "bus/shm/shm.h"
#include "bus/verbs/verbs.h"

#define ADDED_MAX 4

static const struct fabric_ops *added[ADDED_MAX];

#define USER_BYTES 4 /* of an origin that goes on with a process id */

void fabric_host_of(const struct peer *peer, uint8_t host[FABRIC_ORIGIN_BYTES])
{
	memset(host, 0, FABRIC_ORIGIN_BYTES);
	memcpy(host, peer->origin,
	       peer->origin_bytes == FABRIC_ORIGIN_BYTES ? FABRIC_ORIGIN_BYTES : USER_BYTES);
}

static bool scheme_is(const struct fabric_ops *ops, const char *address, size_t length)
{
	return ops && strlen(ops->scheme) == length && memcmp(ops->scheme, address, length) == 0;
}

const struct fabric_ops *fabric_undecorated(const char *address, const char **rest)
{
	const char *colon = strchr(address, ':');
	const size_t length = colon ? (size_t)(colon - address) : 0;

	if (colon) {
		*rest = colon + 1;
		if (scheme_is(&shm_ops, address, length))
			return &shm_ops;
		if (scheme_is(&verbs_ops, address, length))
			return &verbs_ops;
		for (size_t i = 0; i < ADDED_MAX; i++)
			if (scheme_is(added[i], address, length))
				return added[i];
	}
	error_set(EINVAL, "address \"%.100s\": expected shm:NAME or rdma:HOST:PORT", address);
	return NULL;
}

int fabric_add(const struct fabric_ops *ops)
{
	for (size_t i = 0; i < ADDED_MAX; i++) {
		if (added[i] == ops)
			return 0;
		if (!added[i]) {
			added[i] = ops;
			return 0;
		}
	}
	return error_set(ENOSPC, "fabric %s: found %d added fabrics already, expected fewer",
			 ops->scheme, ADDED_MAX);
}

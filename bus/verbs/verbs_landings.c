/* SPDX-License-Identifier: Apache-2.0 */
/* Z1  Over iWARP the answer to a READ is a message that writes, so the landing permits remote
 *     writes. The publisher learns the landing's key by the READ, and may then write there at any
 *     time. A landing therefore has its pages to itself. A record is copied out of it before its
 *     check. Over InfiniBand and RoCE a landing permits local writes alone. */
#include "bus/verbs/verbs_landings.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bus/error.h"
#include "bus/verbs/verbs_events.h"

/* The first landing behind an address; `count` if there is none. */
static size_t landing_after(const struct verbs_landings *landings, const void *address)
{
	size_t low = 0, high = landings->count;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if ((uintptr_t)landings->list[middle].memory <= (uintptr_t)address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int room_make(struct verbs_landings *landings)
{
	const size_t room = landings->room ? 2 * landings->room : 16;
	struct verbs_landing *list;

	if (landings->count < landings->room)
		return 0;
	list = realloc(landings->list, room * sizeof(*list));
	if (!list)
		return error_set(ENOMEM, "no memory for the list of landings");
	landings->list = list;
	landings->room = room;
	return 0;
}

static struct ibv_mr *landing_register(struct ibv_pd *pd, void *memory, size_t bytes)
{
	if (pd->context->device->transport_type != IBV_TRANSPORT_IWARP)
		return ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	return ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

void *verbs_landings_add(struct verbs_landings *landings, struct ibv_pd *pd, const char *address,
			 size_t bytes)
{
	struct verbs_landing landing = { .bytes = bytes };
	char what[64];
	size_t at;

	if (room_make(landings) < 0) {
		errno = ENOMEM;
		return NULL;
	}
	landing.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (landing.memory == MAP_FAILED) {
		error_set(errno, "cannot allocate %zu bytes for reads to land in: %s", bytes,
			  strerror(errno));
		return NULL;
	}
	landing.mr = landing_register(pd, landing.memory, bytes);
	if (!landing.mr) {
		const int code = errno;

		snprintf(what, sizeof(what), "%zu bytes for reads to land in", bytes);
		verbs_error(code, address, what);
		munmap(landing.memory, bytes);
		errno = code;
		return NULL;
	}
	at = landing_after(landings, landing.memory);
	memmove(&landings->list[at + 1], &landings->list[at],
		(landings->count - at) * sizeof(landing));
	landings->list[at] = landing;
	landings->count++;
	return landing.memory;
}

void verbs_landings_remove(struct verbs_landings *landings, void *memory, size_t bytes)
{
	const size_t at = memory ? landing_after(landings, memory) : 0;

	if (at == 0 || landings->list[at - 1].memory != memory)
		return;
	ibv_dereg_mr(landings->list[at - 1].mr);
	munmap(memory, bytes);
	memmove(&landings->list[at - 1], &landings->list[at],
		(landings->count - at) * sizeof(*landings->list));
	landings->count--;
}

const struct verbs_landing *verbs_landings_find(const struct verbs_landings *landings,
						const void *memory, size_t bytes)
{
	const size_t at = landing_after(landings, memory);
	const struct verbs_landing *landing = at ? &landings->list[at - 1] : NULL;
	const size_t offset = landing ? (size_t)((const char *)memory - landing->memory) : 0;

	if (!landing || offset > landing->bytes || bytes > landing->bytes - offset)
		return NULL;
	return landing;
}

void verbs_landings_close(struct verbs_landings *landings)
{
	free(landings->list);
}

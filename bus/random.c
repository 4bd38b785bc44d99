/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/random.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "bus/error.h"

static _Atomic(random_reader *) reader = getrandom;

void random_replace(random_reader *replacement)
{
	atomic_store_explicit(&reader, replacement ? replacement : getrandom, memory_order_relaxed);
}

int random_bytes(void *out, size_t bytes)
{
	random_reader *fill = atomic_load_explicit(&reader, memory_order_relaxed);
	const ssize_t found = fill(out, bytes, 0);

	if (found < 0)
		return error_set(errno, "getrandom: %s", strerror(errno));
	if (found != (ssize_t)bytes)
		return error_set(EIO, "getrandom: found %zd bytes, expected %zu", found, bytes);
	return 0;
}

int random_u64(uint64_t *number)
{
	return random_bytes(number, sizeof(*number));
}

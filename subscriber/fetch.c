/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches a part of a topic's memory other than slots: header, progress line, names. */
#include "subscriber/fetch.h"

#include <errno.h>
#include <stdatomic.h>

#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/progress.h"
#include "bus/words.h"
#include "subscriber/connection.h"
#include "subscriber/landing.h"

int fetch(struct tb_source *source, enum read_kind kind, uint64_t offset, uint32_t bytes)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	struct fabric_read read = { .remote = source->mapping.remote,
				    .offset = offset,
				    .bytes = bytes,
				    .tag = tag_pack(kind, source->slot, 0) };

	if (!source->mapping.view && (!subscriber->link || !read.remote))
		return -ENOTCONN; /* its landing was lost with the connection */
	read.into = landing_page(source);
	if (source->mapping.view) {
		if (kind == READ_PROGRESS)
			progress_load(
				(const struct progress_line *)(const void *)(source->mapping.view +
									     offset),
				read.into);
		else
			words_load(read.into, source->mapping.view + offset, bytes);
		atomic_thread_fence(memory_order_acquire);
		return 1;
	}
	if (connection_read(source, &read, 1) != 1)
		return -EAGAIN;
	source->page_under_way = true;
	source->subscription->counters[SUBSCRIPTION_LOOKS] += kind == READ_PROGRESS;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of counters: of the bus, of each topic, of each feed. */
#ifndef TICKBUS_PUBLISHER_COUNTERS_H
#define TICKBUS_PUBLISHER_COUNTERS_H

#include "publisher/state.h"

struct counters_block {
	const char *name;
	const struct tb_counter *table;
	uint64_t value[64];
	size_t count, blocks;
};

/* Fills the index-th block of a scope; false if there is none. */
bool counters_fill(const struct session *, uint32_t scope, uint32_t index, struct counters_block *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Counters in blocks: one for the bus, one for each topic, one for each feed. */
#ifndef TICKBUS_PUBLISHER_COUNTERS_H
#define TICKBUS_PUBLISHER_COUNTERS_H

#include "publisher/state.h"

struct counters_block {
	const char *name;
	const struct tb_counter *table;
	uint64_t value[64];
	size_t count, blocks;
};

/* Fills the index-th block of a scope that the session can see; false if it does not exist. */
bool counters_fill(const struct session *, uint32_t scope, uint32_t index, struct counters_block *);

#endif

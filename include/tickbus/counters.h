/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: what a bus and a subscriber count, in one table.
 *
 * Errors   none: tables are constant data.
 * Threads  counters are words that are loaded whole; any thread may read them while they move.
 * Memory   names, units and meanings are constants. */
#ifndef TICKBUS_COUNTERS_H
#define TICKBUS_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "tickbus/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a block of counters belongs to. */
enum tb_scope { TB_SCOPE_BUS = 1, TB_SCOPE_TOPIC, TB_SCOPE_FEED, TB_SCOPE_SUBSCRIPTION };

struct tb_counter {
	const char *name;    /* lower_case_with_underscores, 1 to 39 bytes */
	const char *unit;    /* "records", "bytes", "messages", ..., 1 to 11 bytes */
	const char *meaning; /* one sentence */
};

/* The table of what the library itself counts for a scope, in the order in which its values come.
 * A feed brings a table of its own: NULL and 0, as for an unknown scope. */
TB_API const struct tb_counter *tb_counters(enum tb_scope scope, size_t *count);

#ifdef __cplusplus
}
#endif

#endif

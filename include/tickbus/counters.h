/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: what a bus and a subscriber count, in one table.
 *
 * Errors   none: tables are constant data.
 * Threads  each counter is loaded as a whole word; any thread may read it while it changes.
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

/* The table of the library's own counters for a scope; values come in the same order. A feed has
 * its own table, so for TB_SCOPE_FEED, as for an unknown scope, this returns NULL and sets *count
 * to 0. */
TB_API const struct tb_counter *tb_counters(enum tb_scope scope, size_t *count);

#ifdef __cplusplus
}
#endif

#endif

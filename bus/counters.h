/* SPDX-License-Identifier: Apache-2.0 */
/* The library's counters, as indexes into the tables of counters.c, which have name, unit and
 * meaning. */
#ifndef TICKBUS_BUS_COUNTERS_H
#define TICKBUS_BUS_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "tickbus/counters.h"

enum bus_counter {
	BUS_CONNECTIONS,
	BUS_REFUSED,
	BUS_DROPPED,
	BUS_SUBSCRIBERS,
	BUS_MESSAGES,
	BUS_MALFORMED,
	BUS_REFUSALS,
	BUS_JOINS,
	BUS_WAKES,
	BUS_NOTICES,
	BUS_INTERRUPTS,
	BUS_COUNTERS
};

enum topic_counter {
	TOPIC_RECORDS,
	TOPIC_FLUSHES,
	TOPIC_SIGNALS,
	TOPIC_INSTRUMENTS,
	TOPIC_CAPACITY,
	TOPIC_SUBSCRIBERS,
	TOPIC_SLEEPERS,
	TOPIC_UNPUBLISHED,
	TOPIC_RESTARTS,
	TOPIC_NOTICES,
	TOPIC_NOTICES_UNSENT,
	TOPIC_QUALITY,
	TOPIC_COUNTERS
};

enum subscription_counter {
	SUBSCRIPTION_RECORDS,
	SUBSCRIPTION_LOST_OVERRUN,
	SUBSCRIPTION_LOST_BEFORE_JOIN,
	SUBSCRIPTION_LOST_UPSTREAM,
	SUBSCRIPTION_LOST_CORRUPT,
	SUBSCRIPTION_BUSY,
	SUBSCRIPTION_TORN,
	SUBSCRIPTION_READS,
	SUBSCRIPTION_RESTARTS,
	SUBSCRIPTION_STALES,
	SUBSCRIPTION_NOTICES,
	SUBSCRIPTION_NOTICES_LOST,
	SUBSCRIPTION_HEARTBEATS,
	SUBSCRIPTION_NOTICES_OTHERS,
	SUBSCRIPTION_FALSE_HINTS,
	SUBSCRIPTION_LOOKS,
	SUBSCRIPTION_NOTICES_FORGED,
	SUBSCRIPTION_NOTICES_REPLAYED,
	SUBSCRIPTION_COUNTERS
};

/* For a counter that one thread writes and other threads read. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t more)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

#endif

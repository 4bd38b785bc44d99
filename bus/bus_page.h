/* SPDX-License-Identifier: Apache-2.0 */
/* The bus page of a realm: the pulse of one publisher process, and a line for each of the realm's
 * topics. It is written under the publisher's lock. The control thread writes it every quarter of
 * the stale bound, and when one of these topics ends or restarts. The creator of a topic writes it
 * when the topic appears. An idle subscriber reads only this page.
 *
 *   offset  0  pulse, 64 bytes
 *   offset 64  topics_max entries of 40 bytes, in order of topic id (1, 2, 3 ...)
 *
 * B-I1  The pulse count goes up by one with each write. A count that stands still for the stale
 *       bound, on the reader's own clock, means that the publisher is dead, hung or unreachable.
 * B-I2  pulse.topics never decreases within a bus id, and entries with ids up to it exist. Readers
 *       cannot rely on the order in which entries and pulse are stored: each proves itself by its
 *       check.
 * B-I3  Over a network, memory of an epoch that was left stays readable for bus_page_kept_ms(). The
 *       page shows another epoch before that time begins, or right after. So a reader may READ the
 *       memory for half of that time after it requested an entry that showed the epoch. The other
 *       half is for the page to be written and for the READ to arrive. */
#ifndef TICKBUS_BUS_BUS_PAGE_H
#define TICKBUS_BUS_BUS_PAGE_H

#include "bus/progress.h"

struct bus_pulse {
	uint64_t count;
	uint64_t bus_id;
	uint32_t topics;  /* entries in use */
	uint32_t changes; /* goes up when a topic appears or begins a new epoch */
	uint64_t zero[4];
	uint64_t check;
};
static_assert(sizeof(struct bus_pulse) == 64, "layout 2");

struct bus_entry {
	uint64_t epoch;
	uint64_t head;
	uint32_t topic_id;
	uint32_t state; /* enum topic_state */
	uint64_t beat;  /* the pulse count when the topic's writer last showed that it lives */
	uint64_t check;
};
static_assert(sizeof(struct bus_entry) == 40, "layout 2");

/* The shortest time of bus_page_kept_ms(). */
#define BUS_PAGE_KEPT_MS 2000

static inline uint32_t bus_page_kept_ms(uint32_t stale_ms)
{
	return stale_ms > BUS_PAGE_KEPT_MS ? stale_ms : BUS_PAGE_KEPT_MS;
}

size_t bus_page_bytes(uint32_t topics_max);   /* whole pages */
size_t bus_page_entry_offset(uint32_t index); /* of the topic with id index + 1 */
void bus_page_store_pulse(void *page, struct bus_pulse *pulse);
void bus_page_store_entry(void *page, uint32_t index, struct bus_entry *entry, uint64_t bus_id);

/* Check private copies, made by words_load or a READ: 0 or -EAGAIN. */
int bus_page_verify_pulse(struct bus_pulse *copy, uint64_t bus_id, uint32_t topics_max);
int bus_page_verify_entry(struct bus_entry *copy, uint32_t index, uint64_t bus_id);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The expected content of record n of a topic. Every field and payload byte follows from topic,
 * sequence and instrument, so a torn, stale or foreign record is found. */
#ifndef TICKBUS_TESTS_TRUTH_H
#define TICKBUS_TESTS_TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "tickbus/publisher.h"
#include "tickbus/record.h"

#define TRUTH_INSTRUMENTS   8
#define TRUTH_PAYLOAD_SMALL 32   /* slots of 64 bytes */
#define TRUTH_PAYLOAD_LARGE 4064 /* slots of 4,096 bytes */

struct truth {
	uint32_t topic;
	uint32_t payload_max; /* a multiple of 8 */
};

/* Creates a topic of 64 slots or more and names its instruments. 0 or -errno. */
int truth_topic(struct tb_publisher *, const char *name, uint32_t payload_max, uint32_t slots,
		uint32_t flags, struct tb_topic **);
int truth_instruments(struct tb_topic *);

uint32_t truth_instrument(uint64_t n);
/* Whether record n is a last value of its instrument. */
bool truth_is_value(uint64_t n);
/* The last record up to head that is a last value of this instrument. 0: no value yet. */
uint64_t truth_last_value(uint64_t head, uint32_t instrument);

/* Record n, for tb_publish. The payload is built in `words`, which has room for payload_max bytes.
 */
void truth_update(const struct truth *, uint64_t n, struct tb_update *, uint64_t *words);

/* NULL, or what is wrong with the record. */
const char *truth_wrong(const struct truth *, uint64_t n, const struct tb_record *);

#endif

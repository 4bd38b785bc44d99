/* SPDX-License-Identifier: Apache-2.0 */
/* What record n of a topic must be: every field and every byte of the payload follows from topic,
 * sequence and instrument, so that a torn, stale or foreign record shows itself. */
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
	uint32_t payload_max; /* whole words */
};

/* A topic of this truth with its instruments named, 64 slots or more. 0 or -errno. */
int truth_topic(struct tb_publisher *, const char *name, uint32_t payload_max, uint32_t slots,
		uint32_t flags, struct tb_topic **);
int truth_instruments(struct tb_topic *);

uint32_t truth_instrument(uint64_t n);
/* Whether record n becomes its instrument's last value. */
bool truth_is_value(uint64_t n);
/* The last record up to head that is the value of this instrument; 0: none. */
uint64_t truth_last_value(uint64_t head, uint32_t instrument);

/* Record n, for tb_publish; the payload is built in words, which has room for payload_max bytes. */
void truth_update(const struct truth *, uint64_t n, struct tb_update *, uint64_t *words);

/* NULL, or what is not as it must be. */
const char *truth_wrong(const struct truth *, uint64_t n, const struct tb_record *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The payload of a record of kind quality, layout 2.
 *
 *   offset  0  u32  state   enum tb_quality
 *   offset  4  u32  cause   enum tb_quality_cause, or the program's own, at most 255
 *
 * The record belongs to no instrument: its instrument is QUALITY_INSTRUMENT, which no directory
 * has. So the check of a record's instrument leads a reader to it, and costs other records nothing.
 *
 * The progress line has the state too, for readers that did not read the record (P-I4). */
#ifndef TICKBUS_BUS_QUALITY_H
#define TICKBUS_BUS_QUALITY_H

#include "bus/record.h"

#define QUALITY_INSTRUMENT UINT32_MAX
#define QUALITY_STATE_MAX  TB_QUALITY_REBUILDING
#define QUALITY_CAUSE_MAX  255
/* The last cause that has a name. Those from here to TB_QUALITY_USER are reserved: this version
 * does not write them, and reads them, because a newer publisher may give them a name. */
#define QUALITY_CAUSE_NAMED TB_QUALITY_MISSING

struct quality {
	uint32_t state;
	uint32_t cause;
};
static_assert(sizeof(struct quality) == 8, "layout 2");
static_assert(sizeof(struct quality) <= SLOT_BYTES_MIN - RECORD_HEADER_BYTES, "fits every slot");

/* Whether state and cause are within their bounds. Reserved causes are. */
bool quality_is_valid(const struct quality *);

/* Reads the payload of a verified copy of kind quality. 0; or -EAGAIN if its instrument, its length
 * or a value has no meaning. A reader treats that as a copy that failed. */
int quality_take(const struct record *copy, struct quality *quality);

#endif

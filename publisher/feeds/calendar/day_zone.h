/* SPDX-License-Identifier: Apache-2.0 */
/* A time zone's data: the offset of local time from UTC at any moment. */
#ifndef TICKBUS_FEEDS_DAY_ZONE_H
#define TICKBUS_FEEDS_DAY_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include "publisher/feeds/calendar/day_rule.h"

struct day_zone {
	int64_t *times; /* ascending: from times[i] on, offsets[i] */
	int32_t *offsets;
	size_t count;
	int32_t first; /* the offset before all of them */
	struct day_rule rule;
	int has_rule; /* the rule applies after the last transition */
};

/* Parses TZif data. 0, -EBADMSG with a message, -ENOMEM. */
int day_zone_parse(struct day_zone *, const uint8_t *data, size_t size);

/* Takes a zeroed structure. */
void day_zone_close(struct day_zone *);

/* Seconds to add to UTC, at a moment in seconds since 1970 UTC. */
int32_t day_zone_offset(const struct day_zone *, int64_t time_s);

#endif

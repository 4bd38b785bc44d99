/* SPDX-License-Identifier: Apache-2.0 */
/* When a day begins somewhere: feeds tell the time since a local midnight, records since 1970 UTC.
 *
 * The zone is read from TZif data (RFC 8536) in the folder TZDIR names, else /usr/share/zoneinfo,
 * and not by tzset(3): the process's own zone belongs to no feed. Rules for the years after the
 * last transition are understood; data that counts leap seconds is refused. */
#ifndef TICKBUS_FEEDS_DAY_H
#define TICKBUS_FEEDS_DAY_H

#include <stdint.h>

/* The first moment of a date (YYYY-MM-DD, 1970-01-02 to 2399-12-31) in a zone (America/New_York),
 * in nanoseconds since 1970 UTC. 0, or with words: -EINVAL date or zone are none; -ENOENT and
 * others: the zone's data cannot be read; -EBADMSG: it is not what RFC 8536 describes. */
int day_begin(const char *date, const char *zone, uint64_t *begin_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a day in a time zone. Feeds count time from a local midnight, records from 1970
 * UTC.
 *
 * The zone is read from TZif data (RFC 8536) in the folder of TZDIR, or /usr/share/zoneinfo.
 * tzset(3) is not used, since it would change the zone of the process. The rule for years after the
 * last transition is supported; data with leap seconds is refused. */
#ifndef TICKBUS_FEEDS_DAY_H
#define TICKBUS_FEEDS_DAY_H

#include <stdint.h>

/* The first moment of a date (YYYY-MM-DD, 1970-01-02 to 2399-12-31) in a zone (America/New_York),
 * in nanoseconds since 1970 UTC. 0, or with a message: -EINVAL invalid date or zone; -ENOENT and
 * others: the zone's data cannot be read; -EBADMSG: it does not follow RFC 8536. */
int day_begin(const char *date, const char *zone, uint64_t *begin_ns);

#endif

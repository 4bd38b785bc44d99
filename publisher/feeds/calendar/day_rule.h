/* SPDX-License-Identifier: Apache-2.0 */
/* The rule at the end of a time zone's data, in the form of POSIX's TZ ("EST5EDT,M3.2.0,M11.1.0").
 */
#ifndef TICKBUS_FEEDS_DAY_RULE_H
#define TICKBUS_FEEDS_DAY_RULE_H

#include <stdint.h>

/* The day and time of a change within a year. */
struct day_change {
	char form;                /* 'M' month, week, weekday; 'J' day 1 to 365 without 29 February;
				   * '0' day 0 to 365 */
	int month, week, weekday; /* form M; weekday 0 is Sunday, week 5 the last */
	int day;
	int32_t time_s; /* of that day, local time before the change */
};

struct day_rule {
	int32_t standard, summer; /* seconds to add to UTC */
	int has_summer;
	struct day_change begin, end; /* of summer time */
};

/* Parses a rule: 0, or -EINVAL without a message. */
int day_rule_parse(struct day_rule *, const char *text);

/* Seconds to add to UTC, at a moment in seconds since 1970 UTC. */
int32_t day_rule_offset(const struct day_rule *, int64_t time_s);

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
int64_t day_rule_days(int64_t year, int month, int day);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/calendar/day_rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define HOUR_S 3600
#define DAY_S  86400

static bool leap(int64_t year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Years are counted from 1 March, so that a leap day is the last day of a year. */
int64_t day_rule_days(int64_t year, int month, int day)
{
	int64_t from_march = (month + 9) % 12, years = month < 3 ? year - 1 : year;
	int64_t era = (years >= 0 ? years : years - 399) / 400, of_era = years - era * 400;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 +
	       (from_march * 153 + 2) / 5 + day - 1 - 719468;
}

/* The year of a day, where 1970-01-01 is day 0. */
static int64_t year_of(int64_t days)
{
	int64_t year = 1970 + days / 366;

	while (day_rule_days(year, 1, 1) > days)
		year--;
	while (day_rule_days(year + 1, 1, 1) <= days)
		year++;
	return year;
}

static bool number(const char **text, int low, int high, int *value)
{
	int digits = 0;

	for (*value = 0; isdigit((unsigned char)**text) && digits < 4; (*text)++, digits++)
		*value = *value * 10 + (**text - '0');
	return digits && *value >= low && *value <= high;
}

/* [+-]hh[:mm[:ss]] */
static bool seconds(const char **text, int hours_max, int32_t *value)
{
	int sign = **text == '-' ? -1 : 1, hours, minutes = 0, rest = 0;

	*text += **text == '-' || **text == '+';
	if (!number(text, 0, hours_max, &hours))
		return false;
	if (**text == ':' && ((*text)++, !number(text, 0, 59, &minutes)))
		return false;
	if (**text == ':' && ((*text)++, !number(text, 0, 59, &rest)))
		return false;
	*value = sign * (hours * HOUR_S + minutes * 60 + rest);
	return true;
}

static bool name(const char **text)
{
	const char *begin = *text;

	if (*begin == '<') {
		*text = strchr(begin, '>');
		return *text && (*text)++ - begin > 3;
	}
	while (isalpha((unsigned char)**text))
		(*text)++;
	return *text - begin >= 3;
}

/* RFC 8536, 3.3.1: hours of a change reach from -167 to 167. */
static bool change(const char **text, struct day_change *change)
{
	bool found;

	if (*(*text)++ != ',')
		return false;
	change->form = **text == 'M' || **text == 'J' ? *(*text)++ : '0';
	if (change->form == 'M')
		found = number(text, 1, 12, &change->month) && *(*text)++ == '.' &&
			number(text, 1, 5, &change->week) && *(*text)++ == '.' &&
			number(text, 0, 6, &change->weekday);
	else
		found = number(text, change->form == 'J', 365, &change->day);
	change->time_s = 2 * HOUR_S;
	if (found && **text == '/')
		(*text)++, found = seconds(text, 167, &change->time_s);
	return found;
}

int day_rule_parse(struct day_rule *rule, const char *text)
{
	memset(rule, 0, sizeof(*rule));
	if (!name(&text) || !seconds(&text, 24, &rule->standard))
		return -EINVAL;
	rule->standard = -rule->standard;
	if (!*text)
		return 0;
	rule->has_summer = true;
	rule->summer = -(rule->standard + HOUR_S);
	if (!name(&text) || (*text && *text != ',' && !seconds(&text, 24, &rule->summer)))
		return -EINVAL;
	rule->summer = -rule->summer;
	if (!change(&text, &rule->begin) || !change(&text, &rule->end) || *text)
		return -EINVAL;
	return 0;
}

/* Seconds since 1970 on the local clock before the change. */
static int64_t moment(const struct day_change *change, int64_t year)
{
	int64_t days = day_rule_days(year, 1, 1), weekday;

	if (change->form == 'J') {
		days += change->day - 1 + (leap(year) && change->day >= 60);
	} else if (change->form == '0') {
		days += change->day;
	} else {
		days = day_rule_days(year, change->month, 1);
		weekday = ((days + 4) % 7 + 7) % 7;
		days += (change->weekday - weekday + 7) % 7 + (change->week - 1) * 7;
		while (days >= day_rule_days(year + change->month / 12, change->month % 12 + 1, 1))
			days -= 7;
	}
	return days * DAY_S + change->time_s;
}

int32_t day_rule_offset(const struct day_rule *rule, int64_t time_s)
{
	int64_t local = time_s + rule->standard, year, begin, end;
	bool summer;

	if (!rule->has_summer)
		return rule->standard;
	year = year_of(local >= 0 ? local / DAY_S : (local - DAY_S + 1) / DAY_S);
	begin = moment(&rule->begin, year) - rule->standard;
	end = moment(&rule->end, year) - rule->summer;
	summer = begin < end ? time_s >= begin && time_s < end : time_s >= begin || time_s < end;
	return summer ? rule->summer : rule->standard;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/calendar/day.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/error.h"
#include "publisher/feeds/calendar/day_zone.h"

#define DATA_BYTES  65536 /* ten times the largest zone's data */
#define YEAR_FIRST  1970
#define YEAR_LAST   2399
#define DAY_S       86400
#define SECOND_NS   UINT64_C(1000000000)
#define ZONE_FOLDER "/usr/share/zoneinfo"

/* Days since 1970-01-01, from 1, or -EINVAL. Day 0 is refused: it begins before 1970 UTC in half of
 * the world. */
static int64_t parse_date(const char *date)
{
	static const int lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int year, month, day;
	int64_t days = 0;

	if (strlen(date) == 10 && strspn(date, "0123456789-") == 10 && date[4] == '-' &&
	    date[7] == '-' && sscanf(date, "%4d-%2d-%2d", &year, &month, &day) == 3 &&
	    year >= YEAR_FIRST && year <= YEAR_LAST && month >= 1 && month <= 12 && day >= 1 &&
	    day <= lengths[month - 1])
		days = day_rule_days(year, month, day);
	if (days > 0 && month == 2 && day == 29 && days == day_rule_days(year, 3, 1))
		days = 0;
	return days > 0 ? days
			: error_set(EINVAL,
				    "date: found \"%s\", expected YYYY-MM-DD from 1970-01-02 to "
				    "2399-12-31",
				    date);
}

/* A name is a path below the zone folder, and must not lead out of it. */
static int check_zone(const char *zone)
{
	if (!zone[0] || zone[0] == '/' || strstr(zone, "..") || strlen(zone) > 255 ||
	    zone[strspn(zone,
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-_/")])
		return error_set(EINVAL,
				 "time zone: found \"%s\", expected a name like America/New_York",
				 zone);
	return 0;
}

/* The number of bytes read, or -errno. */
static ssize_t read_file(const char *path, uint8_t *data, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK),
	    code = errno; /* waits for no pipe */
	size_t total = 0;
	ssize_t count = 1;

	if (fd < 0)
		return error_set(code, "%s: %s", path, strerror(code));
	while (count > 0 && total < size) {
		count = read(fd, data + total, size - total);
		code = errno;
		if (count < 0 && code == EINTR)
			count = 1;
		else if (count > 0)
			total += (size_t)count;
	}
	close(fd);
	if (count < 0)
		return error_set(code, "%s: %s", path, strerror(code));
	return (ssize_t)total;
}

static int load(struct day_zone *zone, const char *name)
{
	const char *folder = secure_getenv("TZDIR");
	uint8_t *data = malloc(DATA_BYTES);
	char path[PATH_MAX];
	ssize_t size;
	int result = check_zone(name);

	memset(zone, 0, sizeof(*zone));
	if (!data)
		result = error_set(ENOMEM, "time zone %s: no memory", name);
	if (result < 0)
		goto done;
	snprintf(path, sizeof(path), "%s/%s", folder && folder[0] ? folder : ZONE_FOLDER, name);
	size = read_file(path, data, DATA_BYTES);
	result = size < 0 ? (int)size : day_zone_parse(zone, data, (size_t)size);
	if (result < 0)
		error_prefix(result, "time zone %s: %s", name, size < 0 ? "" : "data: ");
done:
	free(data);
	return result;
}

/* If a change of the clock repeats that midnight, the first counts. If the change skips it, the day
 * begins at the change, which the offset before it gives. */
static int64_t first_moment(const struct day_zone *zone, int64_t local_s)
{
	int32_t before = day_zone_offset(zone, local_s - DAY_S);
	int32_t after = day_zone_offset(zone, local_s + DAY_S);

	if (day_zone_offset(zone, local_s - before) == before ||
	    day_zone_offset(zone, local_s - after) != after)
		return local_s - before;
	return local_s - after;
}

int day_begin(const char *date, const char *zone_name, uint64_t *begin_ns)
{
	int64_t days = parse_date(date), begin;
	struct day_zone zone;
	int result;

	if (days < 0)
		return (int)days;
	result = load(&zone, zone_name);
	if (!result) {
		begin = first_moment(&zone, days * DAY_S);
		*begin_ns = begin > 0 ? (uint64_t)begin * SECOND_NS : 0;
	}
	day_zone_close(&zone);
	return result;
}

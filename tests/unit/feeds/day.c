/* SPDX-License-Identifier: Apache-2.0 */
/* A day begins at the C library's time; damaged zone data is refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "publisher/feeds/calendar/day.h"
#include "publisher/feeds/calendar/day_zone.h"
#include "tickbus/error.h"

#define SECOND_NS UINT64_C(1000000000)
#define NEW_YORK  "America/New_York"

static uint64_t draw(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* The C library's date at a moment in the current zone. */
static const char *date_at(time_t time, char *text, size_t size)
{
	struct tm fields;

	localtime_r(&time, &fields);
	strftime(text, size, "%Y-%m-%d", &fields);
	return text;
}

/* The first moment of a date: it has that date, and the second before has not. */
static void check_day(const char *zone, const char *date)
{
	char text[32];
	uint64_t begin_ns;
	time_t begin;

	cr_assert_eq(day_begin(date, zone, &begin_ns), 0, "%s", tb_error());
	cr_assert_eq(begin_ns % SECOND_NS, 0);
	begin = (time_t)(begin_ns / SECOND_NS);
	cr_assert_str_eq(date_at(begin, text, sizeof(text)), date, "%s in %s", date, zone);
	cr_assert_str_neq(date_at(begin - 1, text, sizeof(text)), date, "%s in %s", date, zone);
}

/* Zones on both sides of UTC: changes at midnight (Beirut, Havana, Santiago, Asuncion) and of half
 * hours (Lord Howe). Summer time over the new year (Sydney), negative summer time (Dublin). Changes
 * far from Sunday (Gaza, Casablanca), and zones without changes. */
Test(day, day_begins_where_the_c_library_says)
{
	static const char *const zones[] = {
		NEW_YORK,
		"America/Chicago",
		"Europe/London",
		"Europe/Dublin",
		"Asia/Tokyo",
		"Asia/Kolkata",
		"Asia/Beirut",
		"Asia/Gaza",
		"America/Havana",
		"America/Santiago",
		"America/Asuncion",
		"Australia/Sydney",
		"Australia/Lord_Howe",
		"Pacific/Auckland",
		"Pacific/Kiritimati",
		"Africa/Casablanca",
		"America/Godthab",
		"Atlantic/Azores",
		"UTC",
	};
	uint64_t seed = 20191230;

	if (access("/usr/share/zoneinfo/" NEW_YORK, R_OK) != 0)
		cr_skip("no time zone data in /usr/share/zoneinfo");
	cr_log_info("seed %llu", (unsigned long long)seed);
	unsetenv("TZDIR");
	for (size_t i = 0; i < sizeof(zones) / sizeof(zones[0]); i++) {
		char date[32];

		setenv("TZ", zones[i], 1);
		tzset();
		for (unsigned j = 0; j < 500; j++) {
			time_t time =
				(time_t)(86400 * (2 + draw(&seed) % (j % 2 ? 24000 : 150000)));

			check_day(zones[i], date_at(time, date, sizeof(date)));
		}
	}
}

Test(day, known_days_begin_at_known_times)
{
	uint64_t begin_ns;

	if (access("/usr/share/zoneinfo/" NEW_YORK, R_OK) != 0)
		cr_skip("no time zone data in /usr/share/zoneinfo");
	cr_assert_eq(day_begin("2019-12-30", NEW_YORK, &begin_ns), 0);
	cr_assert_eq(begin_ns, UINT64_C(1577682000000000000));
	/* Clocks went forward at 2 on that morning, so the day began in winter time. */
	cr_assert_eq(day_begin("2020-03-08", NEW_YORK, &begin_ns), 0);
	cr_assert_eq(begin_ns, UINT64_C(1583643600000000000));
	cr_assert_eq(day_begin("2020-03-09", NEW_YORK, &begin_ns), 0);
	cr_assert_eq(begin_ns, UINT64_C(1583726400000000000));
}

Test(day, invalid_date_is_refused)
{
	static const char *const dates[] = {
		"",           "2019",       "2019-12-3",   "2019-13-01",  "2019-00-01",
		"2019-01-00", "2019-02-29", "2100-02-29",  "2019-04-31",  "1970-01-01",
		"1969-12-31", "2400-01-01", "2019-12-30 ", " 2019-12-30", "20191230",
		"2019/12/30", "2019--1-01", "9999999999",  "2019-1-001",  "----------",
	};
	uint64_t begin_ns;

	for (size_t i = 0; i < sizeof(dates) / sizeof(dates[0]); i++) {
		cr_assert_eq(day_begin(dates[i], "UTC", &begin_ns), -EINVAL, "%s", dates[i]);
		cr_assert(strstr(tb_error(), "expected YYYY-MM-DD"));
	}
}

Test(day, invalid_zone_is_refused)
{
	static const char *const zones[] = { "",          "/etc/passwd", "../passwd",
					     "a/../../b", "a b",         "EST5EDT,M3.2.0,M11.1.0",
					     ":UTC" };
	uint64_t begin_ns;

	for (size_t i = 0; i < sizeof(zones) / sizeof(zones[0]); i++)
		cr_assert_eq(day_begin("2019-12-30", zones[i], &begin_ns), -EINVAL, "%s", zones[i]);
	cr_assert_eq(day_begin("2019-12-30", "No/Such_Zone", &begin_ns), -ENOENT);
	cr_assert(strstr(tb_error(), "No/Such_Zone"));
	setenv("TZDIR", "/nonexistent", 1);
	cr_assert_eq(day_begin("2019-12-30", NEW_YORK, &begin_ns), -ENOENT);
	cr_assert(strstr(tb_error(), "/nonexistent/" NEW_YORK));
}

/* Zone data by hand: a single transition, then a rule. */

struct data {
	uint8_t bytes[512];
	size_t size;
};

static void put_number(struct data *data, uint64_t value, unsigned bytes)
{
	while (bytes--)
		data->bytes[data->size++] = (uint8_t)(value >> 8 * bytes);
}

static void put_bytes(struct data *data, const char *bytes, size_t size)
{
	memcpy(data->bytes + data->size, bytes, size);
	data->size += size;
}

static void put_header(struct data *data, char version, unsigned times, unsigned types)
{
	put_bytes(data, "TZif", 4);
	put_number(data, (uint8_t)version, 1);
	put_bytes(data, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
	put_number(data, 0, 4);
	put_number(data, 0, 4);
	put_number(data, 0, 4);
	put_number(data, times, 4);
	put_number(data, types, 4);
	put_number(data, 4, 4);
}

static void put_type(struct data *data, int offset)
{
	put_number(data, (uint32_t)offset, 4);
	put_number(data, 0, 2);
}

static struct data zone_data(const char *rule)
{
	struct data data = { .size = 0 };

	put_header(&data, '2', 0, 1);
	put_type(&data, 0);
	put_bytes(&data, "LMT", 4);
	put_header(&data, '2', 1, 2);
	put_number(&data, 1000000, 8);
	put_number(&data, 1, 1);
	put_type(&data, -17762);
	put_type(&data, -18000);
	put_bytes(&data, "LMT", 4);
	put_bytes(&data, "\n", 1);
	put_bytes(&data, rule, strlen(rule));
	put_bytes(&data, "\n", 1);
	return data;
}

Test(day, rule_applies_after_the_last_transition)
{
	static const char *const rules[] = {
		"EST5EDT,M3.2.0,M11.1.0",
		"EST5EDT4,M3.2.0/2:30,M11.1.0/1:59:59",
		"<-03>3",
		"EST5EDT,J60,J300/0",
		"EST5EDT,0/0,J364/23",
		"IST-1GMT0,M10.5.0,M3.5.0/1",
		"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
		"WGT3WGST,M3.5.0/-2,M10.5.0/-1",
		"AAA1BBB,59,300",
		"AAA1BBB,M2.5.3/26,M12.5.6/-30",
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct data data = zone_data(rules[i]);
		struct day_zone zone;

		cr_assert_eq(day_zone_parse(&zone, data.bytes, data.size), 0, "%s", tb_error());
		cr_assert_eq(day_zone_offset(&zone, 999999), -17762);
		setenv("TZ", rules[i], 1);
		tzset();
		for (time_t time = 1000001; time < 4000000000; time += 12345) {
			struct tm fields;

			localtime_r(&time, &fields);
			cr_assert_eq(day_zone_offset(&zone, time), fields.tm_gmtoff, "%s at %ld",
				     rules[i], time);
		}
		day_zone_close(&zone);
	}
}

Test(day, last_offset_stays_without_a_rule)
{
	struct data data = zone_data("");
	struct day_zone zone;

	cr_assert_eq(day_zone_parse(&zone, data.bytes, data.size), 0, "%s", tb_error());
	cr_assert_eq(day_zone_offset(&zone, 999999), -17762);
	cr_assert_eq(day_zone_offset(&zone, 1000000), -18000);
	cr_assert_eq(day_zone_offset(&zone, INT64_C(1) << 40), -18000);
	day_zone_close(&zone);
}

Test(day, truncated_zone_data_is_refused)
{
	struct data data = zone_data("EST5EDT,M3.2.0,M11.1.0");
	struct day_zone zone;

	for (size_t size = 0; size < data.size; size++) {
		uint8_t *exact = malloc(size + 1); /* the sanitizer sees an overrun */

		memcpy(exact, data.bytes, size);
		cr_assert_eq(day_zone_parse(&zone, exact, size), -EBADMSG, "%zu", size);
		free(exact);
		day_zone_close(&zone);
	}
}

Test(day, damaged_zone_data_is_refused_or_harmless)
{
	struct data data = zone_data("EST5EDT,M3.2.0,M11.1.0");
	unsigned refused = 0;

	for (size_t i = 0; i < data.size * 8; i++) {
		uint8_t *exact = malloc(data.size);
		struct day_zone zone;
		int result;

		memcpy(exact, data.bytes, data.size);
		exact[i / 8] ^= (uint8_t)(1 << i % 8);
		result = day_zone_parse(&zone, exact, data.size);
		cr_assert(result == 0 || result == -EBADMSG);
		refused += result < 0;
		if (!result)
			for (int64_t time = -1000000; time < 4000000000; time += 100000007)
				cr_assert_leq(abs(day_zone_offset(&zone, time)), 26 * 3600);
		day_zone_close(&zone);
		free(exact);
	}
	cr_assert_gt(refused, 100);
}

Test(day, invalid_rule_is_refused)
{
	static const char *const rules[] = {
		"E5",
		"EST",
		"EST25",
		"EST5EDT",
		"EST5EDT,M3.2.0",
		"EST5EDT,M13.2.0,M11.1.0",
		"EST5EDT,M3.6.0,M11.1.0",
		"EST5EDT,M3.2.7,M11.1.0",
		"EST5EDT,M3.2.0/168,M11.1.0",
		"EST5EDT,M3.2.0,M11.1.0,",
		"EST5EDT,J0,J366",
		"EST5EDT,366,1",
		"<EST5EDT",
		"EST5:60",
		"EST5EDT,M3,M11",
		"EST5EDT;M3.2.0,M11.1.0",
		"5",
		"EST99999999999",
	};
	struct day_rule rule;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		cr_assert_eq(day_rule_parse(&rule, rules[i]), -EINVAL, "%s", rules[i]);
}

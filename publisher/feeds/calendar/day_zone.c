/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 8536. Data of version 2 and up comes twice, first with times of 32 bits, then of 64 bits. It
 * ends with a rule between two newlines. Data of version 1 has the first part only. */
#include "publisher/feeds/calendar/day_zone.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

#define HEADER_BYTES 44
#define TYPE_BYTES   6
#define RULE_BYTES   256
#define OFFSET_MAX   93599 /* 25:59:59, RFC 8536 3.2 */

struct part {
	const uint8_t *body;
	size_t leaps, times, types, chars, isstd, isut;
	size_t time_bytes; /* 4 or 8 */
};

static int32_t get32(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return (int32_t)be32toh(value);
}

static int64_t get64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return (int64_t)be64toh(value);
}

static size_t count_at(const uint8_t *bytes)
{
	return (uint32_t)get32(bytes);
}

/* No sum of these can overflow: each factor has 32 bits. */
static size_t body_bytes(const struct part *part)
{
	return part->times * (part->time_bytes + 1) + part->types * TYPE_BYTES + part->chars +
	       part->leaps * (part->time_bytes + 4) + part->isstd + part->isut;
}

/* Reads a part's header and checks that its body is complete: 0 or -EBADMSG. */
static int part_parse(struct part *part, const uint8_t *data, size_t size, size_t time_bytes)
{
	if (size < HEADER_BYTES || memcmp(data, "TZif", 4) != 0)
		return error_set(EBADMSG, "found no TZif header, expected TZif data");
	*part = (struct part){
		.body = data + HEADER_BYTES,
		.isut = count_at(data + 20),
		.isstd = count_at(data + 24),
		.leaps = count_at(data + 28),
		.times = count_at(data + 32),
		.types = count_at(data + 36),
		.chars = count_at(data + 40),
		.time_bytes = time_bytes,
	};
	if (body_bytes(part) > size - HEADER_BYTES)
		return error_set(EBADMSG, "found %zu bytes, expected %zu", size,
				 HEADER_BYTES + body_bytes(part));
	return 0;
}

static int take_transitions(struct day_zone *zone, const struct part *part)
{
	const uint8_t *indexes = part->body + part->times * part->time_bytes;
	const uint8_t *types = indexes + part->times;

	if (!part->types)
		return error_set(EBADMSG, "found no local time types, expected at least 1");
	if (part->leaps)
		return error_set(EBADMSG, "found leap seconds, expected data without them");
	zone->times = calloc(part->times + 1, sizeof(*zone->times));
	zone->offsets = calloc(part->times + 1, sizeof(*zone->offsets));
	if (!zone->times || !zone->offsets)
		return error_set(ENOMEM, "no memory for %zu transitions", part->times);
	zone->count = part->times;
	for (size_t i = 0; i < part->types; i++)
		if (abs(get32(types + i * TYPE_BYTES) / 2) > OFFSET_MAX / 2)
			return error_set(EBADMSG, "found an offset above a day in type %zu", i);
	zone->first = get32(types);
	for (size_t i = 0; i < part->times; i++) {
		const uint8_t *time = part->body + i * part->time_bytes;

		if (indexes[i] >= part->types)
			return error_set(EBADMSG,
					 "transition %zu: found type %u, expected below %zu", i,
					 indexes[i], part->types);
		zone->times[i] = part->time_bytes == 8 ? get64(time) : get32(time);
		zone->offsets[i] = get32(types + indexes[i] * TYPE_BYTES);
		if (i && zone->times[i] <= zone->times[i - 1])
			return error_set(EBADMSG,
					 "transition %zu: found a time at or before the last, "
					 "expected a later time",
					 i);
	}
	return 0;
}

/* "\nrule\n"; an empty rule means that the last transition's offset stays. */
static int take_rule(struct day_zone *zone, const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 1 && data[0] == '\n' ? memchr(data + 1, '\n', size - 1) : NULL;
	char text[RULE_BYTES];
	size_t length;

	if (!end)
		return error_set(EBADMSG, "found no rule at the end, expected a line with a rule");
	length = (size_t)(end - data) - 1;
	if (!length)
		return 0;
	if (length >= sizeof(text) || memchr(data, 0, length + 1))
		return error_set(EBADMSG, "found a rule of %zu bytes, expected below %zu", length,
				 sizeof(text));
	memcpy(text, data + 1, length);
	text[length] = 0;
	zone->has_rule = 1;
	if (day_rule_parse(&zone->rule, text) < 0)
		return error_set(EBADMSG, "found rule \"%s\", expected the form of POSIX's TZ",
				 text);
	return 0;
}

int day_zone_parse(struct day_zone *zone, const uint8_t *data, size_t size)
{
	struct part part;
	int result = part_parse(&part, data, size, 4);
	size_t skip;

	memset(zone, 0, sizeof(*zone));
	if (result < 0 || data[4] < '2')
		return result < 0 ? result : take_transitions(zone, &part);
	skip = HEADER_BYTES + body_bytes(&part);
	result = part_parse(&part, data + skip, size - skip, 8);
	if (result < 0)
		return result;
	skip += HEADER_BYTES + body_bytes(&part);
	result = take_transitions(zone, &part);
	return result < 0 ? result : take_rule(zone, data + skip, size - skip);
}

void day_zone_close(struct day_zone *zone)
{
	free(zone->times);
	free(zone->offsets);
	memset(zone, 0, sizeof(*zone));
}

int32_t day_zone_offset(const struct day_zone *zone, int64_t time_s)
{
	size_t after = 0;

	while (after < zone->count && zone->times[after] <= time_s)
		after++;
	if (after == zone->count && zone->has_rule)
		return day_rule_offset(&zone->rule, time_s);
	return after ? zone->offsets[after - 1] : zone->first;
}

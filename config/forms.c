/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of texts. Nothing here depends on a locale. */
#include "config/forms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/pattern.h"
#include "tickbus/error.h"

#define ACCOUNT_BYTES 255
#define SPEED_MAX     1000 /* times the market's own pace */

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool made_of(const char *text, const char *characters, size_t max_bytes)
{
	const size_t length = strlen(text);

	return length >= 1 && length <= max_bytes && strspn(text, characters) == length;
}

static bool keep(struct reading *reading, const char *text, void *field)
{
	*(const char **)field = reading_text(reading, "%s", text);
	return true;
}

static bool is_name(const char *text)
{
	return text[0] != '.' && made_of(text, LOWER UPPER DIGITS "._-", BOUND_NAME_MAX);
}

static bool name_read(struct reading *reading, const char *text, void *field)
{
	return is_name(text) && keep(reading, text, field);
}

const struct form forms_name = {
	.expected = "a name of 1 to " BOUND_TEXT(
		BOUND_NAME_MAX) " letters, digits, '.', '_' and '-' that does not begin with "
				"'.'",
	.read = name_read,
};

static bool topic_read(struct reading *reading, const char *text, void *field)
{
	const size_t length = strlen(text);

	if (!made_of(text, LOWER DIGITS "._-", TB_TOPIC_NAME_MAX) || text[0] == '.' ||
	    text[length - 1] == '.' || strstr(text, ".."))
		return false;
	return keep(reading, text, field);
}

const struct form forms_topic = {
	.expected = "parts of a-z, 0-9, '_' and '-' with dots between, at most " BOUND_TEXT(
		TB_TOPIC_NAME_MAX) " bytes",
	.read = topic_read,
};

static bool account_read(struct reading *reading, const char *text, void *field)
{
	return text[0] && strlen(text) <= ACCOUNT_BYTES && keep(reading, text, field);
}

const struct form forms_account = {
	.expected = "a name of 1 to " BOUND_TEXT(ACCOUNT_BYTES) " bytes",
	.read = account_read,
};

static bool address_read(struct reading *reading, const char *text, void *field)
{
	const char *bus = reading->settings->bus.name;

	if (strcmp(text, "shm:") == 0) {
		*(const char **)field = reading_text(reading, "shm:%s", bus ? bus : "");
		return true;
	}
	if (strncmp(text, "rdma:", 5) == 0) {
		struct address address;

		if (address_parse_listen(text + 5, &address) == 0)
			return keep(reading, text, field);
		snprintf(reading->reason, sizeof(reading->reason), "%s", tb_error());
		return false;
	}
	return strncmp(text, "shm:", 4) == 0 && is_name(text + 4) && keep(reading, text, field);
}

const struct form forms_address = {
	.expected = "shm:NAME, shm: alone for the name of the bus, or rdma:HOST:PORT",
	.read = address_read,
};

static bool group_read(struct reading *reading, const char *text, void *field)
{
	struct sockaddr_storage group;

	if (address_parse_group(text, &group) == 0)
		return keep(reading, text, field);
	if (address_parse_host(text, &group) == -ERANGE)
		snprintf(reading->reason, sizeof(reading->reason), "%s", tb_error());
	return false;
}

const struct form forms_group = {
	.expected = ADDRESS_GROUP_EXPECTED,
	.read = group_read,
};

static bool path_read(struct reading *reading, const char *text, void *field)
{
	if (!text[0])
		return false;
	*(const char **)field = reading_path(reading, text);
	return true;
}

const struct form forms_path = {
	.expected = "a path",
	.read = path_read,
};

static bool file_read(struct reading *reading, const char *text, void *field)
{
	const char *path;
	struct stat status;

	if (!path_read(reading, text, field))
		return false;
	path = *(const char **)field;
	if (!path)
		return true; /* no memory: reported already */
	if (access(path, R_OK) < 0 || stat(path, &status) < 0)
		snprintf(reading->reason, sizeof(reading->reason), "%s: %s", path, strerror(errno));
	else if (!S_ISREG(status.st_mode))
		snprintf(reading->reason, sizeof(reading->reason), "%s: not a regular file", path);
	else if (status.st_size == 0)
		snprintf(reading->reason, sizeof(reading->reason), "%s: an empty file", path);
	else if (status.st_size == 1)
		snprintf(reading->reason, sizeof(reading->reason), "%s: a file of 1 byte", path);
	else
		return true;
	*(const char **)field = NULL; /* so that no later check opens it */
	return false;
}

const struct form forms_file = {
	.expected = "a regular file of 2 bytes or more that can be read",
	.read = file_read,
};

/* If a user wrote the ticket itself in place of its path, it must not get into a log. */
static bool is_ticket(const char *text)
{
	const size_t digits = strspn(text, DIGITS "abcdefABCDEF");

	return digits == 2 * TB_TICKET_BYTES &&
	       strspn(text + digits, " \n") == strlen(text + digits);
}

static bool ticket_read(struct reading *reading, const char *text, void *field)
{
	struct settings_ticket *ticket = field;

	if (!path_read(reading, text, &ticket->path))
		return false;
	if (!ticket->path || tb_ticket_load(ticket->path, ticket->bytes) == 0)
		return true; /* no memory: reported already */
	if (is_ticket(text))
		reading->shown = "64 hexadecimal digits";
	else
		snprintf(reading->reason, sizeof(reading->reason), "%s", tb_error());
	ticket->path = NULL; /* no ticket to compare with other realms */
	return false;
}

const struct form forms_ticket = {
	.expected = "the path of a ticket file",
	.read = ticket_read,
};

/* Checks that the zone has data: a compiled zone (RFC 8536) begins with "TZif". */
static bool zone_read(struct reading *reading, const char *text, void *field)
{
	const char *folder = getenv("TZDIR");
	char path[4096], magic[4] = "";
	ssize_t count;
	int fd;

	if (!made_of(text, LOWER UPPER DIGITS "_+/-", BOUND_NAME_MAX) || text[0] == '/')
		return false;
	if (!folder || !*folder)
		folder = "/usr/share/zoneinfo";
	snprintf(path, sizeof(path), "%s/%s", folder, text);
	snprintf(reading->reason, sizeof(reading->reason), "no zone of this name in %s", folder);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* waits for no pipe */
	if (fd < 0)
		return false;
	count = read(fd, magic, sizeof(magic));
	close(fd);
	return count == sizeof(magic) && memcmp(magic, "TZif", sizeof(magic)) == 0 &&
	       keep(reading, text, field);
}

const struct form forms_zone = {
	.expected = "the name of a time zone like America/New_York",
	.read = zone_read,
};

/* Reads exactly `count` digits, with a value of at most max. */
static bool digits_read(const char **text, unsigned int count, uint32_t max, uint32_t *value)
{
	*value = 0;
	for (; count; count--, (*text)++) {
		if (**text < '0' || **text > '9')
			return false;
		*value = *value * 10 + (uint32_t)(**text - '0');
	}
	return *value <= max;
}

static bool sign_read(const char **text, char sign)
{
	return *(*text)++ == sign;
}

static uint32_t days_in(uint32_t year, uint32_t month)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

static bool date_read(struct reading *reading, const char *text, void *field)
{
	struct settings_date date;

	if (!digits_read(&text, 4, 2199, &date.year) || !sign_read(&text, '-') ||
	    !digits_read(&text, 2, 12, &date.month) || !sign_read(&text, '-') ||
	    !digits_read(&text, 2, 31, &date.day) || *text)
		return false;
	if (date.year < 1970 || date.month < 1 || date.day < 1)
		return false;
	if (date.day > days_in(date.year, date.month)) {
		snprintf(reading->reason, sizeof(reading->reason), "this month has %u days",
			 days_in(date.year, date.month));
		return false;
	}
	/* East of Greenwich 1970-01-01 began before 1970 UTC. */
	if (date.year == 1970 && date.month == 1 && date.day == 1)
		return false;
	memcpy(field, &date, sizeof(date));
	return true;
}

static void date_write(const void *field, char *buffer, size_t size)
{
	const struct settings_date *date = field;

	snprintf(buffer, size, "%04u-%02u-%02u", date->year, date->month, date->day);
}

const struct form forms_date = {
	.expected = "a day as YYYY-MM-DD, from 1970-01-02 to 2199-12-31",
	.read = date_read,
	.write = date_write,
};

static bool time_read(struct reading *reading, const char *text, void *field)
{
	uint32_t hours, minutes, seconds = 0;

	(void)reading;
	if (strcmp(text, "first_trade") == 0) {
		*(uint32_t *)field = SETTINGS_FIRST_TRADE;
		return true;
	}
	if (!digits_read(&text, 2, 23, &hours) || !sign_read(&text, ':') ||
	    !digits_read(&text, 2, 59, &minutes))
		return false;
	if (*text && (!sign_read(&text, ':') || !digits_read(&text, 2, 59, &seconds) || *text))
		return false;
	*(uint32_t *)field = (hours * 60 + minutes) * 60 + seconds;
	return true;
}

static void time_write(const void *field, char *buffer, size_t size)
{
	const uint32_t time_s = *(const uint32_t *)field;

	if (time_s == SETTINGS_FIRST_TRADE)
		snprintf(buffer, size, "first_trade");
	else
		snprintf(buffer, size, "%02u:%02u:%02u", time_s / 3600, time_s / 60 % 60,
			 time_s % 60);
}

const struct form forms_time = {
	.expected = "a time of day as HH:MM or HH:MM:SS, or first_trade",
	.read = time_read,
	.write = time_write,
};

/* "10x", "0.125x": at most three digits after the point. */
static bool factor_read(const char *text, uint32_t *milli)
{
	uint32_t value = 0, digit;
	unsigned int decimals = 0;

	if (*text < '0' || *text > '9')
		return false;
	while (digits_read(&text, 1, 9, &digit)) {
		value = value * 10 + digit;
		if (value > SPEED_MAX)
			return false;
	}
	if (*text == '.') {
		for (text++; decimals < 3 && digits_read(&text, 1, 9, &digit); decimals++)
			value = value * 10 + digit;
		if (decimals == 0)
			return false;
	}
	for (; decimals < 3; decimals++)
		value *= 10;
	*milli = value;
	return strcmp(text, "x") == 0 && value > 0 && value <= SPEED_MAX * 1000;
}

static bool speed_read(struct reading *reading, const char *text, void *field)
{
	uint32_t milli = 0;

	(void)reading;
	if (strcmp(text, "realtime") == 0)
		milli = 1000;
	else if (strcmp(text, "max") != 0 && !factor_read(text, &milli))
		return false;
	*(uint32_t *)field = milli;
	return true;
}

static void speed_write(const void *field, char *buffer, size_t size)
{
	const uint32_t milli = *(const uint32_t *)field;

	if (milli == 0)
		snprintf(buffer, size, "max");
	else if (milli == 1000)
		snprintf(buffer, size, "realtime");
	else
		snprintf(buffer, size, "%u.%03ux", milli / 1000, milli % 1000);
}

const struct form forms_speed = {
	.expected = "max, realtime, or a factor from 0.001x to " BOUND_TEXT(SPEED_MAX) "x",
	.read = speed_read,
	.write = speed_write,
};

#define SHOWN_MAX 8 /* names in an error */

static const char *item_name(const struct items *items, size_t i)
{
	return *(const char *const *)(const void *)((const char *)items->first + i * items->bytes);
}

void forms_list(struct reading *reading, const struct items *items, const char *text)
{
	const char *meant = NULL;
	size_t least = SIZE_MAX, used = 0, shown = 0, hidden = 0;

	reading->reason[0] = '\0';
	/* A list that is not printed would cost the most of all. */
	for (size_t i = 0; i < items->count && reading->errors.count < YAML_ERRORS_MAX; i++) {
		const char *name = item_name(items, i);
		const size_t edits = name ? located_distance(text, name) : SIZE_MAX;

		if (edits < least) {
			least = edits;
			meant = name;
		}
		if (name && shown == SHOWN_MAX)
			hidden++;
		else if (name)
			used += (size_t)snprintf(reading->reason + used,
						 sizeof(reading->reason) - used, "%s%s",
						 shown++ ? ", " : "", name);
		if (used >= sizeof(reading->reason))
			return;
	}
	if (hidden)
		used += (size_t)snprintf(reading->reason + used, sizeof(reading->reason) - used,
					 " and %zu more", hidden);
	if (meant && used < sizeof(reading->reason))
		snprintf(reading->reason + used, sizeof(reading->reason) - used,
			 "; did you mean %s?", meant);
}

/* Points the field at the item of that name. If an item's own name is wrong, the text may mean that
 * item: the error at the item is enough. */
static bool item_read(struct reading *reading, const struct items *items, const char *text,
		      void *field)
{
	bool nameless = items->count == 0;

	for (size_t i = 0; i < items->count; i++) {
		const void *item = (const char *)items->first + i * items->bytes;
		const char *name = item_name(items, i);

		if (name && strcmp(name, text) == 0) {
			memcpy(field, &item, sizeof(item));
			return true;
		}
		nameless |= !name;
	}
	if (nameless && *text)
		return true;
	forms_list(reading, items, text);
	return false;
}

/* A pattern without a matching topic is a mistake. A topic whose own name is wrong may match. */
static bool pattern_read(struct reading *reading, const char *text, void *field)
{
	const struct settings *settings = reading->settings;
	const struct items topics = { settings->topics, sizeof(*settings->topics),
				      settings->topic_count };
	bool matched = settings->topic_count == 0;

	if (pattern_check(text) < 0) {
		snprintf(reading->reason, sizeof(reading->reason), "%s", tb_error());
		return false;
	}
	for (size_t i = 0; i < settings->topic_count && !matched; i++)
		matched =
			!settings->topics[i].name || pattern_match(text, settings->topics[i].name);
	if (matched)
		return keep(reading, text, field);
	forms_list(reading, &topics, text);
	return false;
}

const struct form forms_pattern = {
	.expected = "a pattern that one of the topics matches",
	.read = pattern_read,
};

static bool feed_read(struct reading *reading, const char *text, void *field)
{
	const struct settings *settings = reading->settings;
	const struct items feeds = { settings->feeds, sizeof(*settings->feeds),
				     settings->feed_count };

	return item_read(reading, &feeds, text, field);
}

static void feed_write(const void *field, char *buffer, size_t size)
{
	snprintf(buffer, size, "%s", (*(const struct settings_feed *const *)field)->name);
}

const struct form forms_feed = {
	.expected = "the name of one of the feeds",
	.read = feed_read,
	.write = feed_write,
};

static bool schema_read(struct reading *reading, const char *text, void *field)
{
	const struct settings *settings = reading->settings;
	const struct items schemas = { settings->schemas, sizeof(*settings->schemas),
				       settings->schema_count };

	return item_read(reading, &schemas, text, field);
}

static void schema_write(const void *field, char *buffer, size_t size)
{
	snprintf(buffer, size, "%s", (*(const struct settings_schema *const *)field)->name);
}

const struct form forms_schema = {
	.expected = "the name of one of the schemas",
	.read = schema_read,
	.write = schema_write,
};

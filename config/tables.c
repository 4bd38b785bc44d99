/* SPDX-License-Identifier: Apache-2.0 */
/* All keys: kind, bounds, default. Keys are read in this order. */
#include "config/tables.h"

#include "bus/bounds.h"

#define MESSAGES_MAX ((int64_t)BOUND_SYNTHETIC_RATE_MAX * BOUND_SYNTHETIC_SECONDS_MAX)

#define FIELD(type, member)                                                                        \
	.offset = offsetof(struct type, member), .bytes = sizeof(((struct type *)0)->member)
#define BUS(member)   FIELD(settings_bus, member)
#define LOG(member)   FIELD(settings_log, member)
#define FEED(member)  FIELD(settings_feed, member)
#define TOPIC(member) FIELD(settings_topic, member)
#define REALM(member) FIELD(settings_realm, member)

/* clang-format off */
static const char *const notices[] = { "auto", "none", "ud", "udp", NULL };
static const char *const levels[] = { "error", "warning", "info", "debug", NULL };
const char *const tables_types[] = { "itch50", "synthetic", NULL };
static const char *const at_ends[] = { "linger", "exit", "restart", NULL };
static const char *const incompletes[] = { "warn", "fail", NULL };
static const char *const waits[] = { "spin", "backoff", "sleep", NULL };
static const char *const selects[] = { "quote", "trade", "depth10", "status", "imbalance",
					"definition", NULL };

static const struct key access_keys[] = {
	{ "users", KEY_LIST, BUS(users), .form = &forms_account, .high = BOUND_ACCOUNTS_MAX },
	{ "groups", KEY_LIST, BUS(groups), .form = &forms_account, .high = BOUND_ACCOUNTS_MAX },
	{ 0 },
};

static const struct key bus_keys[] = {
	{ "name", KEY_TEXT, BUS(name), .form = &forms_name },
	{ "listen", KEY_LIST, BUS(listen), .form = &forms_address, .low = 1, .high = BOUND_LISTENERS_MAX,
	  .default_text = "shm:" },
	{ "access", KEY_MAPPING, .keys = access_keys },
	{ "multicast", KEY_TEXT, BUS(multicast), .form = &forms_group, .optional = true },
	{ "notice", KEY_WORD, BUS(notice), .words = notices, .default_text = "auto" },
	{ "notice_bytes", KEY_INTEGER, BUS(notice_bytes), .low = BOUND_NOTICE_BYTES_MIN, .high = BOUND_NOTICE_BYTES_MAX,
	  .default_text = BOUND_TEXT(BOUND_NOTICE_BYTES) },
	{ "stale_ms", KEY_INTEGER, BUS(stale_ms), .low = BOUND_STALE_MS_MIN, .high = BOUND_STALE_MS_MAX,
	  .default_text = BOUND_TEXT(BOUND_STALE_MS) },
	{ "exit_wait_ms", KEY_INTEGER, BUS(exit_wait_ms), .high = BOUND_EXIT_WAIT_MS_MAX,
	  .default_text = BOUND_TEXT(BOUND_EXIT_WAIT_MS) },
	{ "topics_max", KEY_INTEGER, BUS(topics_max), .low = 1, .high = BOUND_TOPICS_MAX,
	  .default_text = BOUND_TEXT(BOUND_TOPICS) },
	{ "subscribers_max", KEY_INTEGER, BUS(subscribers_max), .low = 1, .high = BOUND_SUBSCRIBERS_MAX,
	  .default_text = BOUND_TEXT(BOUND_SUBSCRIBERS) },
	{ "subscribers_per_host", KEY_INTEGER, BUS(subscribers_per_host), .low = 1, .high = BOUND_SUBSCRIBERS_MAX,
	  .optional = true },
	{ "ticket_overlap_s", KEY_INTEGER, BUS(ticket_overlap_s), .high = BOUND_TICKET_OVERLAP_S_MAX,
	  .default_text = BOUND_TEXT(BOUND_TICKET_OVERLAP_S) },
	{ "cpu", KEY_INTEGER, BUS(cpu), .low = -1, .high = BOUND_CPU_MAX, .default_text = "-1" },
	{ "numa", KEY_INTEGER, BUS(numa), .low = -1, .high = BOUND_NODE_MAX, .default_text = "-1" },
	{ 0 },
};

static const struct key log_keys[] = {
	{ "file", KEY_TEXT, LOG(file), .form = &forms_path, .optional = true },
	{ "level", KEY_WORD, LOG(level), .words = levels, .default_text = "info" },
	{ 0 },
};

const struct key tables_root[] = {
	{ "bus", KEY_MAPPING, FIELD(settings, bus), .keys = bus_keys },
	{ "log", KEY_MAPPING, FIELD(settings, log), .keys = log_keys },
	{ .name = "schemas", .kind = KEY_ELSEWHERE },
	{ .name = "feeds", .kind = KEY_ELSEWHERE },
	{ .name = "topics", .kind = KEY_ELSEWHERE },
	{ .name = "realms", .kind = KEY_ELSEWHERE },
	{ 0 },
};

static const struct key start_keys[] = {
	{ "subscribers", KEY_INTEGER, FEED(start_subscribers), .high = 1000000, .default_text = "0" },
	{ 0 },
};

const struct key tables_feed[] = {
	{ "name", KEY_TEXT, FEED(name), .form = &forms_name },
	{ "type", KEY_WORD, FEED(type), .words = tables_types },
	{ "speed", KEY_TEXT, FEED(speed_milli), .form = &forms_speed, .default_text = "max" },
	{ "start", KEY_MAPPING, .keys = start_keys },
	{ "at_end", KEY_WORD, FEED(at_end), .words = at_ends, .default_text = "linger" },
	{ "incomplete", KEY_WORD, FEED(incomplete), .words = incompletes, .default_text = "warn" },
	{ "cpu", KEY_INTEGER, FEED(cpu), .low = -1, .high = BOUND_CPU_MAX, .default_text = "-1" },
	{ "wait", KEY_WORD, FEED(wait), .words = waits, .default_text = "backoff" },
	{ 0 },
};

const struct key tables_itch50[] = {
	{ "path", KEY_TEXT, FEED(path), .form = &forms_file },
	{ "date", KEY_TEXT, FEED(date), .form = &forms_date },
	{ "time_zone", KEY_TEXT, FEED(time_zone), .form = &forms_zone, .default_text = "America/New_York" },
	{ "from", KEY_TEXT, FEED(from_s), .form = &forms_time, .default_text = "00:00" },
	{ 0 },
};

/* The default date is fixed, so that a seed gives the same records on any day. The exchange chooses
 * symbols and rate from the messages if they are not given. */
const struct key tables_synthetic[] = {
	{ "seed", KEY_INTEGER, FEED(seed), .high = INT64_MAX, .default_text = "1" },
	{ "symbols", KEY_INTEGER, FEED(symbols), .low = 1, .high = BOUND_SYNTHETIC_SYMBOLS_MAX, .optional = true },
	{ "messages", KEY_INTEGER, FEED(messages), .low = 1, .high = MESSAGES_MAX, .optional = true },
	{ "seconds", KEY_INTEGER, FEED(seconds), .low = 1, .high = BOUND_SYNTHETIC_SECONDS_MAX, .optional = true },
	{ "rate", KEY_INTEGER, FEED(rate), .low = 1, .high = BOUND_SYNTHETIC_RATE_MAX, .optional = true },
	{ "burst", KEY_INTEGER, FEED(burst), .low = BOUND_SYNTHETIC_BURST_MIN, .high = BOUND_SYNTHETIC_BURST_MAX,
	  .default_text = BOUND_TEXT(BOUND_SYNTHETIC_BURST) },
	{ "date", KEY_TEXT, FEED(date), .form = &forms_date, .default_text = "2020-01-02" },
	{ "time_zone", KEY_TEXT, FEED(time_zone), .form = &forms_zone, .default_text = "America/New_York" },
	{ 0 },
};

const struct key tables_topic[] = {
	{ "name", KEY_TEXT, TOPIC(name), .form = &forms_topic },
	{ "feed", KEY_TEXT, TOPIC(feed), .form = &forms_feed },
	{ "select", KEY_WORD, TOPIC(select), .words = selects },
	{ "schema", KEY_TEXT, TOPIC(schema), .form = &forms_schema },
	{ "slots", KEY_POWER, TOPIC(slots), .low = BOUND_SLOTS_MIN, .high = BOUND_SLOTS_MAX,
	  .default_text = BOUND_TEXT(BOUND_SLOTS) },
	{ "instruments", KEY_INTEGER, TOPIC(instruments), .low = 1, .high = BOUND_INSTRUMENTS_MAX,
	  .default_text = BOUND_TEXT(BOUND_INSTRUMENTS) },
	{ "last_value", KEY_BOOLEAN, TOPIC(last_value), .optional = true }, /* the default depends on select */
	{ "checked", KEY_BOOLEAN, TOPIC(checked), .default_text = "true" },
	{ "multicast", KEY_TEXT, TOPIC(multicast), .form = &forms_group, .optional = true },
	{ 0 },
};

const struct key tables_realm[] = {
	{ "name", KEY_TEXT, REALM(name), .form = &forms_name },
	{ "ticket_file", KEY_TEXT, REALM(ticket), .form = &forms_ticket, .optional = true },
	{ "topics", KEY_LIST, REALM(topics), .form = &forms_pattern, .low = 1, .high = BOUND_REALM_PATTERNS_MAX },
	{ "subscribers_max", KEY_INTEGER, REALM(subscribers_max), .low = 1, .high = BOUND_SUBSCRIBERS_MAX,
	  .optional = true },
	{ 0 },
};
/* clang-format on */

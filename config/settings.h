/* SPDX-License-Identifier: Apache-2.0 */
/* pubd's settings: the content of its YAML file, with defaults filled in.
 *
 * Everything here was checked. Names are unique, references resolve, numbers are within their
 * bounds, schemas are loaded. An ITCH file existed and was readable. Paths are absolute. Enums
 * begin at 1. The settings own the memory that pointers refer to. */
#ifndef TICKBUS_CONFIG_SETTINGS_H
#define TICKBUS_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tickbus/publisher.h"
#include "tickbus/schema.h"

struct settings_location {
	unsigned int line, column;
	unsigned int index; /* in the file's list, which may have wrong entries too */
};

struct settings_list {
	const char *const *texts;
	const struct settings_location *locations; /* in the file */
	size_t count;
};

enum settings_notice {
	SETTINGS_NOTICE_AUTO = 1,
	SETTINGS_NOTICE_NONE,
	SETTINGS_NOTICE_UD,
	SETTINGS_NOTICE_UDP,
};

struct settings_bus {
	const char *name;
	struct settings_list listen; /* "shm:NAME" or "rdma:HOST:PORT" each, at least one */
	struct settings_list users, groups;
	const char *multicast; /* NULL: made from the name */
	uint32_t notice;       /* enum settings_notice */
	uint32_t notice_bytes;
	uint32_t stale_ms, exit_wait_ms; /* exit_wait_ms 0: no wait */
	uint32_t topics_max, subscribers_max;
	uint32_t subscribers_per_host;
	uint32_t ticket_overlap_s; /* for which an old ticket stays valid */
	int32_t cpu, numa;         /* -1: any (cpu), the node of the first RDMA device (numa) */
};

struct settings_log {
	const char *file; /* NULL: standard error */
	enum tb_log_level level;
};

struct settings_schema {
	const char *name;
	const char *source; /* built-in name, or path */
	struct tb_schema *schema;
};

enum settings_type { SETTINGS_ITCH50 = 1, SETTINGS_SYNTHETIC };
enum settings_at_end { SETTINGS_LINGER = 1, SETTINGS_EXIT, SETTINGS_RESTART };
enum settings_incomplete { SETTINGS_WARN = 1, SETTINGS_FAIL };
enum settings_wait { SETTINGS_SPIN = 1, SETTINGS_BACKOFF, SETTINGS_SLEEP };
enum settings_select {
	SETTINGS_QUOTE = 1,
	SETTINGS_TRADE,
	SETTINGS_DEPTH10,
	SETTINGS_STATUS,
	SETTINGS_IMBALANCE,
	SETTINGS_DEFINITION,
};

#define SETTINGS_FIRST_TRADE UINT32_MAX

struct settings_date {
	uint32_t year, month, day;
};

struct settings_feed {
	const char *name;
	enum settings_type type;
	uint32_t speed_milli; /* thousandths of the market's own pace; 0: as fast as possible */
	uint32_t start_subscribers; /* joins on the feed's topics before it begins */
	enum settings_at_end at_end;
	enum settings_incomplete incomplete;
	int32_t cpu; /* -1: any */
	enum settings_wait wait;
	struct settings_date date;
	const char *time_zone;
	/* itch50 */
	const char *path;
	uint32_t from_s; /* since midnight, or SETTINGS_FIRST_TRADE; earlier messages are not paced
			  */
	/* synthetic */
	uint64_t seed;
	uint32_t symbols;           /* 0: derived from the messages */
	uint64_t messages, seconds; /* at most one of them; both 0: without an end */
	uint32_t rate;              /* mean messages per second of market time; 0: as symbols */
	uint32_t burst;             /* the busiest millisecond, as a multiple of the mean */
	uint32_t line, column;      /* of the feed, for later errors */
	uint32_t path_line, path_column; /* the same of its path */
	bool wrong;                      /* at least one key has an error */
};

struct settings_topic {
	const char *name;
	const struct settings_feed *feed;
	enum settings_select select;
	const struct settings_schema *schema;
	uint32_t slots, instruments;
	bool last_value, checked;
	const char *multicast; /* NULL: the bus's own group */
	uint64_t bytes;        /* of memory it takes */
	uint32_t line, column; /* of its schema, for later errors */
};

struct settings_ticket {
	const char *path; /* NULL: none */
	uint8_t bytes[TB_TICKET_BYTES];
};

struct settings_realm {
	const char *name;
	struct settings_ticket ticket; /* only the realm anonymous has no ticket */
	struct settings_list topics;   /* patterns; each matches a topic */
	uint32_t subscribers_max;
};

struct settings {
	const char *path; /* of the file, as given */
	struct settings_bus bus;
	struct settings_log log;
	struct settings_schema *schemas;
	size_t schema_count;
	struct settings_feed *feeds;
	size_t feed_count;
	struct settings_topic *topics;
	size_t topic_count;
	struct settings_realm *realms; /* without realms every client sees all topics */
	size_t realm_count;
	struct settings_block *blocks; /* the memory of the settings */
};

/* Reads a file. 0; or -EINVAL (-ENOMEM), with a line in `errors` for each error. */
int settings_load(struct settings **settings, const char *path, FILE *errors);

/* The same, with further checks: `check` prints a line for each error, and returns their number.
 * It runs in spite of earlier errors, so that one run reports all. What has an error is 0 or NULL
 * then, or missing. */
int settings_load_checked(struct settings **settings, const char *path,
			  unsigned int (*check)(struct settings *, FILE *errors), FILE *errors);

/* Prints all settings as YAML that reads back to the same settings, in any folder. */
void settings_print(const struct settings *settings, FILE *file);

/* After the bus has taken the tickets: a ticket that ended later would stay in memory. */
void settings_wipe_tickets(struct settings *settings);

/* Wipes the tickets too. Takes NULL. */
void settings_free(struct settings *settings);

#endif

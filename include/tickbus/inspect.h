/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a bus from outside: its topics and its counters.
 *
 * Errors   the number of things shown, or -errno as tb_subscriber_open gives it; tb_error() has the
 *          words.
 * Threads  each call opens a connection of its own and closes it; any thread.
 * Memory   what a callback is given is valid inside it. */
#ifndef TICKBUS_INSPECT_H
#define TICKBUS_INSPECT_H

#include <stddef.h>
#include <stdint.h>

#include "tickbus/counters.h"
#include "tickbus/error.h"
#include "tickbus/ticket.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tb_topic_info {
	size_t size; /* of this structure, as the library fills it; grows at its end */
	const char *name;
	const char *schema;
	uint32_t schema_version;
	uint32_t id;
	uint64_t fingerprint;
	uint64_t epoch;
	uint64_t head; /* as the bus page told it; up to a quarter of the stale bound old */
	uint64_t slots;
	uint32_t slot_bytes;
	uint32_t instruments; /* capacity */
	uint8_t checked;
	uint8_t last_value;
	uint8_t ended;
	const char *notice;    /* how its notices travel at this address: none, ud or udp */
	const char *multicast; /* the "GROUP:PORT" that they go to; "": there is none */
	uint32_t notice_bytes; /* of the longest */
};

struct tb_bus_info {
	size_t size;
	const char *name;
	uint64_t bus_id;
	uint32_t stale_ms;
	uint32_t topics;
	const char *notice; /* as of a topic that has no group of its own */
	const char *multicast;
	uint32_t notice_bytes;
};

/* One counter of one block; a block's counters come one after the other. */
struct tb_counter_value {
	size_t size;
	enum tb_scope scope;
	const char *block; /* the bus's, topic's or feed's name */
	const char *name;
	const char *unit;
	uint64_t value;
};

struct tb_unpublished {
	size_t size;
	const char *topic;
	const char *instrument;
	uint64_t records;
};

struct tb_inspect_options {
	size_t size;
	const char *address;
	uint32_t timeout_ms;   /* for the whole call; 0: 1,000; at most 60,000 */
	const uint8_t *ticket; /* as tb_subscriber_options has it */
};

/* Topics that match pattern (NULL: all), in order of their ids. */
TB_API int tb_inspect_topics(const struct tb_inspect_options *options, const char *pattern,
			     void (*bus)(void *user, const struct tb_bus_info *),
			     void (*topic)(void *user, const struct tb_topic_info *), void *user);

/* Every counter of the bus, its topics and its feeds, and what could not be published, by topic and
 * instrument. Either callback may be NULL. */
TB_API int tb_inspect_counters(const struct tb_inspect_options *options,
			       void (*counter)(void *user, const struct tb_counter_value *),
			       void (*unpublished)(void *user, const struct tb_unpublished *),
			       void *user);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Inspection: the topics and counters of a bus, read by any program that may connect.
 *
 * Errors   the number of topics or counter blocks shown, or -errno as tb_subscriber_open returns;
 *          tb_error() has the message.
 * Threads  any thread. Each call opens and closes a connection of its own.
 * Memory   what a callback gets is valid inside it only. A callback must return: if it is left by
 *          longjmp or an exception, the call's connection and memory stay. */
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
	size_t size; /* of this structure, as the library fills it; it grows at its end */
	const char *name;
	const char *schema;
	uint32_t schema_version;
	uint32_t id;
	uint64_t fingerprint;
	uint64_t epoch;
	uint64_t head; /* from the bus page: up to a quarter of the stale bound old */
	uint64_t slots;
	uint32_t slot_bytes;
	uint32_t instruments; /* capacity of the directory */
	uint8_t checked;
	uint8_t last_value;
	uint8_t ended;
	const char *notice;    /* how its notices travel at this address: "none", "ud" or "udp" */
	const char *multicast; /* its notice group, "GROUP:PORT"; "" if there is no group */
	uint32_t notice_bytes; /* maximum notice size */
	uint8_t quality;       /* enum tb_quality, when the publisher answered */
};

struct tb_bus_info {
	size_t size;
	const char *name;
	uint64_t bus_id;
	uint32_t stale_ms;
	uint32_t topics;    /* that match the pattern */
	const char *notice; /* of the bus's own group, as are the next two */
	const char *multicast;
	uint32_t notice_bytes;
	int64_t user;   /* id of the user whose process listens, as the kernel says; -1: not known,
			 * as over a network */
	uint8_t realms; /* tickets decide which topics a client sees */
};

/* One counter of one block. All counters of a block come before the next block. */
struct tb_counter_value {
	size_t size;
	enum tb_scope scope;
	const char *block; /* name of the bus, topic or feed */
	const char *name;
	const char *unit;
	uint64_t value;
};

struct tb_unpublished {
	size_t size;
	const char *topic;
	const char *instrument;
	uint64_t records; /* that could not be published */
};

struct tb_inspect_options {
	size_t size;
	const char *address;
	uint32_t timeout_ms;   /* for the whole call, 1 to 60,000. Default 1,000 */
	const uint8_t *ticket; /* TB_TICKET_BYTES; NULL: no ticket */
};

/* Shows the bus, then the topics that match pattern (NULL: all), in the order of their ids. Either
 * callback may be NULL. Returns the number of topics. */
TB_API int tb_inspect_topics(const struct tb_inspect_options *options, const char *pattern,
			     void (*bus)(void *user, const struct tb_bus_info *),
			     void (*topic)(void *user, const struct tb_topic_info *), void *user);

/* Shows all counters of the bus, its topics and its feeds, then the records that could not be
 * published, by topic and instrument. Either callback may be NULL. Returns the number of blocks. */
TB_API int tb_inspect_counters(const struct tb_inspect_options *options,
			       void (*counter)(void *user, const struct tb_counter_value *),
			       void (*unpublished)(void *user, const struct tb_unpublished *),
			       void *user);

#ifdef __cplusplus
}
#endif

#endif

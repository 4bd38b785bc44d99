/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages between subscriber and publisher.
 *
 * Encoders write little-endian bytes into a buffer of FABRIC_MESSAGE_BYTES and return the length.
 * Decoders take untrusted bytes and return 0, or -EPROTO with a message. They bound every length,
 * count, number and name before they store it. Reserved bytes must be zero, and bytes after the end
 * of a message are an error. Decoded names are NUL-terminated.
 *
 *   subscriber                          publisher
 *   hello                           ->
 *                                   <-  challenge, or a reason
 *   hello, proven                   ->
 *                                   <-  welcome, or a reason
 *   catalogue(pattern, after)       ->
 *                                   <-  topics (a page of them) or refuse
 *   schema(topic, offset)           ->
 *                                   <-  schema_bytes
 *   join(topic)                     ->
 *                                   <-  grant (with the region) or refuse
 *   leave(topic)                    ->
 *   arm(topic, head seen)           ->
 *                                   <-  wake(topic, head): once per arm, when head moved
 *   counters(scope, index, after)   ->
 *                                   <-  values or refuse
 *   unpublished(topic, after)       ->
 *                                   <-  unpublished_names or refuse
 *
 *                                   <-  revoke(topic): that epoch's memory is not written any more
 *                                   <-  ending(topic, head): the topic has ended at head
 *
 * Every request carries a number, and its answer repeats it. */
#ifndef TICKBUS_BUS_CONTROL_H
#define TICKBUS_BUS_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/bounds.h"
#include "bus/fabric.h"
#include "bus/notice.h"
#include "bus/region.h"

#define CONTROL_MAGIC            0x53554254u /* "TBUS" */
#define CONTROL_VERSION_LOW      2
#define CONTROL_VERSION_HIGH     2
#define CONTROL_NONCE_BYTES      16
#define CONTROL_PROOF_BYTES      16
#define CONTROL_WELCOME_PROOF    68  /* offset of the proof in a welcome */
#define CONTROL_TEXT_MAX         800 /* the text of a refusal */
#define CONTROL_SCHEMA_MAX       65536
#define CONTROL_SCHEMA_PART      896
#define CONTROL_NAME_MAX         BOUND_NAME_MAX /* schema, bus and feed names */
#define CONTROL_TOPICS_PAGE      12             /* topics in one message, if they fit */
#define CONTROL_COUNTERS_PAGE    14             /* counters in one message */
#define CONTROL_COUNTER_NAME_MAX 39
#define CONTROL_COUNTER_UNIT_MAX 11
#define CONTROL_UNPUBLISHED_PAGE 24

enum control_type {
	CONTROL_CATALOGUE = 1,
	CONTROL_TOPICS,
	CONTROL_SCHEMA,
	CONTROL_SCHEMA_BYTES,
	CONTROL_JOIN,
	CONTROL_GRANT,
	CONTROL_REFUSE,
	CONTROL_LEAVE,
	CONTROL_ARM,
	CONTROL_WAKE,
	CONTROL_COUNTERS,
	CONTROL_VALUES,
	CONTROL_UNPUBLISHED,
	CONTROL_UNPUBLISHED_NAMES,
	CONTROL_REVOKE,
	CONTROL_ENDING,
};

/* hello: 56 bytes. */
struct control_hello {
	uint8_t version_low, version_high;
	uint8_t nonce[CONTROL_NONCE_BYTES];
	/* Both are zeros in the first hello, which asks for a challenge (bus/proof.h). */
	uint8_t cookie[CONTROL_PROOF_BYTES];
	uint8_t proof[CONTROL_PROOF_BYTES];
};

#define CONTROL_FEATURE_REALMS 0x01 /* tickets decide which topics a client sees */

/* welcome: the publisher and its bus page. */
struct control_welcome {
	uint8_t version;
	uint8_t features; /* CONTROL_FEATURE_...; the other bits must be 0 */
	uint64_t bus_id;  /* random per process start */
	uint32_t stale_ms;
	uint32_t topics_max;   /* gives the bus page's size */
	struct fabric_key key; /* of the bus page, which comes with the welcome */
	struct fabric_notices notices;
	uint8_t proof[CONTROL_PROOF_BYTES];
	char name[CONTROL_NAME_MAX + 1];
};

struct control_topic {
	struct region_shape shape;
	uint8_t state;   /* enum topic_state */
	uint8_t quality; /* enum tb_quality */
	char name[TB_TOPIC_NAME_MAX + 1];
	char schema[CONTROL_NAME_MAX + 1];
	uint32_t schema_version;
	uint32_t schema_bytes;         /* of its canonical text */
	struct fabric_notices notices; /* of its own group, for the transport of this connection */
};

/* One structure for every message after the hello; type selects the member. */
struct control_message {
	enum control_type type;
	uint32_t request; /* repeated by the answer; 0 in messages without a request */
	union {
		struct { /* CATALOGUE: topics with id > after that match */
			uint32_t after;
			char pattern[TB_PATTERN_MAX + 1];
		} catalogue;
		struct { /* TOPICS: more != 0: ask again after the last id */
			uint32_t count;
			uint32_t more;
			struct control_topic topic[CONTROL_TOPICS_PAGE];
		} topics;
		struct { /* SCHEMA */
			uint32_t topic_id;
			uint32_t offset;
		} schema;
		struct { /* SCHEMA_BYTES */
			uint32_t topic_id;
			uint32_t offset;
			uint32_t total;
			uint32_t bytes;
			uint8_t part[CONTROL_SCHEMA_PART];
		} schema_bytes;
		struct { /* JOIN */
			uint32_t topic_id;
			uint64_t epoch; /* from the catalogue */
		} join;
		struct { /* GRANT */
			struct control_topic topic;
			uint64_t region_bytes;
			uint64_t head; /* when the join was counted */
			struct fabric_key key;
			uint8_t notice_key[NOTICE_KEY_BYTES]; /* of this epoch */
			uint64_t
				topic_notices; /* number of the last notice of the topic's writer */
			uint64_t heads_notices; /* of the last notice of heads to its group */
		} grant;
		struct {                   /* REFUSE: code is an errno value */
			uint32_t topic_id; /* 0: not about a topic */
			uint32_t code;
			char text[CONTROL_TEXT_MAX + 1];
		} refuse;
		struct { /* LEAVE, ARM (head seen), WAKE, REVOKE, ENDING (last head) */
			uint32_t topic_id;
			uint64_t epoch;
			uint64_t head;
		} topic;
		struct { /* COUNTERS: the index-th block of a scope, counters from the after-th on
			  */
			uint32_t scope;
			uint32_t index;
			uint32_t after;
		} counters;
		struct { /* VALUES: with names and units, so that any tool shows any counter */
			uint32_t scope;
			uint32_t index;
			uint32_t blocks; /* of this scope */
			uint32_t total;  /* counters in the block */
			uint32_t count;  /* in this message */
			char name[TB_TOPIC_NAME_MAX + 1];
			struct {
				char name[CONTROL_COUNTER_NAME_MAX + 1];
				char unit[CONTROL_COUNTER_UNIT_MAX + 1];
				uint64_t value;
			} entry[CONTROL_COUNTERS_PAGE];
		} values;
		struct { /* UNPUBLISHED: names from the after-th on */
			uint32_t topic_id;
			uint32_t after;
		} unpublished;
		struct { /* UNPUBLISHED_NAMES */
			uint32_t topic_id;
			uint32_t total;
			uint32_t count;
			struct {
				char name[TB_INSTRUMENT_NAME_MAX + 1];
				uint64_t records;
			} entry[CONTROL_UNPUBLISHED_PAGE];
		} unpublished_names;
	};
};

/* Without a version in common, whatever the rest is, decoding a hello gives -EPROTO and a message
 * that names the versions of both sides. */
size_t control_hello_encode(const struct control_hello *, uint8_t bytes[FABRIC_HELLO_BYTES]);
int control_hello_decode(const void *bytes, size_t length, struct control_hello *);
size_t control_welcome_encode(const struct control_welcome *, uint8_t bytes[FABRIC_WELCOME_BYTES]);
int control_welcome_decode(const void *bytes, size_t length, struct control_welcome *);
/* Adds a topic to a TOPICS message. False: the message has no room for it. */
bool control_topics_add(struct control_message *, const struct control_topic *);
size_t control_encode(const struct control_message *, uint8_t bytes[FABRIC_MESSAGE_BYTES]);
int control_decode(const void *bytes, size_t length, struct control_message *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages. Each is described once, for both directions (bus/wire.h).
 *
 *   message: type u16, zero u16, request u32, then the fields in the order of the code below */
#include "bus/control.h"

#include <assert.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "bus/address.h"
#include "bus/bus_page.h"
#include "bus/error.h"
#include "bus/notice.h"
#include "bus/progress.h"
#include "bus/quality.h"
#include "bus/bounds.h"
#include "bus/wire.h"

#define HEADER_BYTES    8
#define TEXT_BYTES(max) (2 + (max))
#define GROUP_BYTES     18
#define TOPIC_TEXTS     80 /* of a topic's description, where its texts begin */
#define TOPIC_BYTES     (TOPIC_TEXTS + TEXT_BYTES(TB_TOPIC_NAME_MAX) + TEXT_BYTES(CONTROL_NAME_MAX))
#define VALUE_BYTES                                                                                \
	(8 + TEXT_BYTES(CONTROL_COUNTER_NAME_MAX) + TEXT_BYTES(CONTROL_COUNTER_UNIT_MAX))

static_assert(HEADER_BYTES + 8 + TOPIC_BYTES <= FABRIC_MESSAGE_BYTES, "topics");
static_assert(HEADER_BYTES + 16 + CONTROL_SCHEMA_PART <= FABRIC_MESSAGE_BYTES, "schema_bytes");
static_assert(HEADER_BYTES + 48 + NOTICE_KEY_BYTES + TOPIC_BYTES <= FABRIC_MESSAGE_BYTES, "grant");
static_assert(HEADER_BYTES + 8 + TEXT_BYTES(CONTROL_TEXT_MAX) <= FABRIC_MESSAGE_BYTES, "refuse");
static_assert(HEADER_BYTES + 20 + TEXT_BYTES(TB_TOPIC_NAME_MAX) +
			      CONTROL_COUNTERS_PAGE * VALUE_BYTES <=
		      FABRIC_MESSAGE_BYTES,
	      "values");
static_assert(HEADER_BYTES + 12 +
			      CONTROL_UNPUBLISHED_PAGE * (8 + TEXT_BYTES(TB_INSTRUMENT_NAME_MAX)) <=
		      FABRIC_MESSAGE_BYTES,
	      "unpublished_names");
static_assert(CONTROL_WELCOME_PROOF + CONTROL_PROOF_BYTES + TEXT_BYTES(CONTROL_NAME_MAX) <=
		      FABRIC_WELCOME_BYTES,
	      "welcome");

static int wire_result(const struct wire *wire, const char *message)
{
	if (wire->wrong)
		return error_set(EPROTO, "%s message of %zu bytes: %s at byte %zu", message,
				 wire->limit, wire->wrong, wire->at);
	return 0;
}

static void describe_hello(struct wire *wire, struct control_hello *hello)
{
	uint32_t magic = CONTROL_MAGIC;
	uint16_t length = FABRIC_HELLO_BYTES;

	wire_u32_within(wire, &magic, CONTROL_MAGIC, CONTROL_MAGIC, "has no tickbus magic");
	wire_u8(wire, &hello->version_low);
	wire_u8(wire, &hello->version_high);
	if (hello->version_low == 0 || hello->version_low > hello->version_high)
		wire_wrong(wire, 2, "has no valid range of versions");
	wire_u16(wire, &length);
	if (length != FABRIC_HELLO_BYTES)
		wire_wrong(wire, sizeof(length), "has a length other than 56");
	wire_bytes(wire, hello->nonce, sizeof(hello->nonce));
	wire_bytes(wire, hello->cookie, sizeof(hello->cookie));
	wire_bytes(wire, hello->proof, sizeof(hello->proof));
	wire_end(wire);
}

size_t control_hello_encode(const struct control_hello *hello, uint8_t bytes[FABRIC_HELLO_BYTES])
{
	struct wire wire = { .bytes = bytes, .limit = FABRIC_HELLO_BYTES };
	struct control_hello copy = *hello;

	describe_hello(&wire, &copy);
	return wire.wrong ? 0 : wire.at;
}

/* Whatever the rest of the hello is: another version may have another rest. */
static bool versions_differ(const struct control_hello *hello)
{
	return hello->version_low > 0 && hello->version_low <= hello->version_high &&
	       (hello->version_low > CONTROL_VERSION_HIGH ||
		hello->version_high < CONTROL_VERSION_LOW);
}

int control_hello_decode(const void *bytes, size_t length, struct control_hello *hello)
{
	struct wire wire = { .bytes = (uint8_t *)(uintptr_t)bytes,
			     .limit = length,
			     .reading = true };

	memset(hello, 0, sizeof(*hello));
	describe_hello(&wire, hello);
	if (versions_differ(hello))
		return error_set(
			EPROTO,
			"no common version: the subscriber speaks %u to %u, the publisher %d to %d",
			hello->version_low, hello->version_high, CONTROL_VERSION_LOW,
			CONTROL_VERSION_HIGH);
	return wire_result(&wire, "hello");
}

/* An address as 16 bytes, IPv4 mapped into IPv6, and its port. */
static void describe_address(struct wire *wire, struct sockaddr_storage *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
	uint16_t port = ntohs(four->sin_port); /* at the same offset in both families */
	uint8_t bytes[16] = { 0 };

	if (!wire->reading && address->ss_family == AF_INET) {
		memcpy(bytes, mapped, sizeof(mapped));
		memcpy(bytes + 12, &four->sin_addr, 4);
	} else if (!wire->reading && address->ss_family == AF_INET6) {
		memcpy(bytes, &six->sin6_addr, sizeof(bytes));
	}
	wire_bytes(wire, bytes, sizeof(bytes));
	wire_u16(wire, &port);
	if (!wire->reading)
		return;
	memset(address, 0, sizeof(*address));
	if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
		four->sin_family = AF_INET;
		memcpy(&four->sin_addr, bytes + 12, 4);
	} else {
		six->sin6_family = AF_INET6;
		memcpy(&six->sin6_addr, bytes, sizeof(bytes));
	}
	four->sin_port = htons(port);
}

static void describe_notices(struct wire *wire, struct fabric_notices *notices)
{
	uint32_t kind = (uint32_t)notices->kind;

	wire_u32_within(wire, &kind, FABRIC_NOTICES_NONE, FABRIC_NOTICES_UDP,
			"has an unknown kind of notices");
	notices->kind = (enum fabric_notices_kind)kind;
	wire_u32_within(wire, &notices->bytes, 0, BOUND_NOTICE_BYTES_MAX,
			"has no valid notice size");
	describe_address(wire, &notices->group);
	if (notices->kind != FABRIC_NOTICES_NONE && !address_is_group(&notices->group))
		wire_wrong(wire, GROUP_BYTES, "has no multicast group for notices");
	wire_zero(wire, 2);
}

static void describe_welcome(struct wire *wire, struct control_welcome *welcome)
{
	uint32_t magic = CONTROL_MAGIC;

	wire_u32_within(wire, &magic, CONTROL_MAGIC, CONTROL_MAGIC, "has no tickbus magic");
	wire_u8(wire, &welcome->version);
	wire_u8(wire, &welcome->features);
	if (welcome->features & ~CONTROL_FEATURE_REALMS)
		wire_wrong(wire, 1, "has features that version 2 does not define");
	wire_zero(wire, 2);
	wire_u64(wire, &welcome->bus_id);
	wire_u32_within(wire, &welcome->stale_ms, BOUND_STALE_MS_MIN, BOUND_STALE_MS_MAX,
			"has no valid stale bound");
	wire_u32_within(wire, &welcome->topics_max, 1, BOUND_TOPICS_MAX,
			"has no valid bound of topics");
	wire_u64(wire, &welcome->key.address);
	wire_u64(wire, &welcome->key.rkey);
	describe_notices(wire, &welcome->notices);
	wire_bytes(wire, welcome->proof, sizeof(welcome->proof));
	wire_text(wire, welcome->name, CONTROL_NAME_MAX, "has no valid bus name");
	wire_end(wire);
}

size_t control_welcome_encode(const struct control_welcome *welcome,
			      uint8_t bytes[FABRIC_WELCOME_BYTES])
{
	struct wire wire = { .bytes = bytes, .limit = FABRIC_WELCOME_BYTES };
	struct control_welcome copy = *welcome;

	describe_welcome(&wire, &copy);
	return wire.wrong ? 0 : wire.at;
}

int control_welcome_decode(const void *bytes, size_t length, struct control_welcome *welcome)
{
	struct wire wire = { .bytes = (uint8_t *)(uintptr_t)bytes,
			     .limit = length,
			     .reading = true };

	memset(welcome, 0, sizeof(*welcome));
	describe_welcome(&wire, welcome);
	return wire_result(&wire, "welcome");
}

static void describe_state(struct wire *wire, struct control_topic *topic)
{
	wire_u8(wire, &topic->state);
	if (topic->state != TOPIC_LIVE && topic->state != TOPIC_ENDED)
		wire_wrong(wire, sizeof(topic->state), "has no valid topic state");
	wire_u8(wire, &topic->quality);
	if (topic->quality > QUALITY_STATE_MAX)
		wire_wrong(wire, sizeof(topic->quality), "has no valid quality");
	wire_zero(wire, 2);
}

static void describe_topic(struct wire *wire, struct control_topic *topic)
{
	uint32_t slots = (uint32_t)topic->shape.slots;

	wire_u64(wire, &topic->shape.epoch);
	wire_u64(wire, &topic->shape.fingerprint);
	wire_u32(wire, &slots);
	topic->shape.slots = slots;
	wire_u32(wire, &topic->shape.group);
	wire_u32(wire, &topic->shape.slot_bytes);
	wire_u32(wire, &topic->shape.capacity);
	wire_u32_within(wire, &topic->shape.topic_id, 1, BOUND_TOPICS_MAX, "has no valid topic id");
	wire_u32(wire, &topic->shape.flags);
	describe_state(wire, topic);
	wire_u32(wire, &topic->schema_version);
	wire_u32_within(wire, &topic->schema_bytes, 1, CONTROL_SCHEMA_MAX,
			"has no valid schema length");
	describe_notices(wire, &topic->notices);
	wire_text(wire, topic->name, TB_TOPIC_NAME_MAX, "has no valid topic name");
	wire_text(wire, topic->schema, CONTROL_NAME_MAX, "has no valid schema name");
}

static void describe_topics(struct wire *wire, struct control_message *message)
{
	wire_u32_within(wire, &message->topics.count, 0, CONTROL_TOPICS_PAGE,
			"has too many topics");
	wire_u32_within(wire, &message->topics.more, 0, 1, "has no valid mark for more topics");
	for (uint32_t i = 0; i < message->topics.count && !wire->wrong; i++)
		describe_topic(wire, &message->topics.topic[i]);
}

static size_t topic_bytes(const struct control_topic *topic)
{
	return TOPIC_TEXTS + TEXT_BYTES(strlen(topic->name)) + TEXT_BYTES(strlen(topic->schema));
}

bool control_topics_add(struct control_message *message, const struct control_topic *topic)
{
	size_t bytes = HEADER_BYTES + 8 + topic_bytes(topic);

	for (uint32_t i = 0; i < message->topics.count; i++)
		bytes += topic_bytes(&message->topics.topic[i]);
	if (message->topics.count == CONTROL_TOPICS_PAGE || bytes > FABRIC_MESSAGE_BYTES)
		return false;
	message->topics.topic[message->topics.count++] = *topic;
	return true;
}

static void describe_schema_bytes(struct wire *wire, struct control_message *message)
{
	wire_u32(wire, &message->schema_bytes.topic_id);
	wire_u32_within(wire, &message->schema_bytes.total, 1, CONTROL_SCHEMA_MAX,
			"has no valid schema length");
	wire_u32_within(wire, &message->schema_bytes.offset, 0, CONTROL_SCHEMA_MAX,
			"has no valid offset in a schema");
	wire_u32_within(wire, &message->schema_bytes.bytes, 0, CONTROL_SCHEMA_PART,
			"has too many bytes of a schema");
	if (message->schema_bytes.offset > message->schema_bytes.total ||
	    message->schema_bytes.bytes >
		    message->schema_bytes.total - message->schema_bytes.offset)
		wire_wrong(wire, 4, "has bytes beyond the schema's end");
	if (!wire->wrong)
		wire_bytes(wire, message->schema_bytes.part, message->schema_bytes.bytes);
}

static void describe_values(struct wire *wire, struct control_message *message)
{
	wire_u32(wire, &message->values.scope);
	wire_u32(wire, &message->values.index);
	wire_u32(wire, &message->values.blocks);
	wire_u32(wire, &message->values.total);
	wire_u32_within(wire, &message->values.count, 0, CONTROL_COUNTERS_PAGE,
			"has too many counters");
	wire_text(wire, message->values.name, TB_TOPIC_NAME_MAX, "has no valid block name");
	for (uint32_t i = 0; i < message->values.count && !wire->wrong; i++) {
		wire_text(wire, message->values.entry[i].name, CONTROL_COUNTER_NAME_MAX,
			  "has no valid counter name");
		wire_text(wire, message->values.entry[i].unit, CONTROL_COUNTER_UNIT_MAX,
			  "has no valid unit");
		wire_u64(wire, &message->values.entry[i].value);
	}
}

static void describe_unpublished_names(struct wire *wire, struct control_message *message)
{
	wire_u32(wire, &message->unpublished_names.topic_id);
	wire_u32(wire, &message->unpublished_names.total);
	wire_u32_within(wire, &message->unpublished_names.count, 0, CONTROL_UNPUBLISHED_PAGE,
			"has too many names");
	for (uint32_t i = 0; i < message->unpublished_names.count && !wire->wrong; i++) {
		wire_text(wire, message->unpublished_names.entry[i].name, TB_INSTRUMENT_NAME_MAX,
			  "has no valid instrument name");
		wire_u64(wire, &message->unpublished_names.entry[i].records);
	}
}

/* Messages of one to three numbers. */
static void describe_plain(struct wire *wire, struct control_message *message)
{
	switch (message->type) {
	case CONTROL_SCHEMA:
		wire_u32(wire, &message->schema.topic_id);
		wire_u32_within(wire, &message->schema.offset, 0, CONTROL_SCHEMA_MAX,
				"has no valid offset in a schema");
		break;
	case CONTROL_JOIN:
		wire_u32(wire, &message->join.topic_id);
		wire_u64(wire, &message->join.epoch);
		break;
	case CONTROL_COUNTERS:
		wire_u32(wire, &message->counters.scope);
		wire_u32(wire, &message->counters.index);
		wire_u32(wire, &message->counters.after);
		break;
	case CONTROL_UNPUBLISHED:
		wire_u32(wire, &message->unpublished.topic_id);
		wire_u32(wire, &message->unpublished.after);
		break;
	case CONTROL_LEAVE:
		wire_u32(wire, &message->topic.topic_id);
		wire_u64(wire, &message->topic.epoch);
		wire_zero(wire, 8);
		break;
	default: /* ARM, WAKE, REVOKE, ENDING */
		wire_u32(wire, &message->topic.topic_id);
		wire_u64(wire, &message->topic.epoch);
		wire_u64(wire, &message->topic.head);
		break;
	}
}

static void describe_body(struct wire *wire, struct control_message *message)
{
	switch (message->type) {
	case CONTROL_CATALOGUE:
		wire_u32(wire, &message->catalogue.after);
		wire_text(wire, message->catalogue.pattern, TB_PATTERN_MAX, "has no valid pattern");
		break;
	case CONTROL_TOPICS:
		describe_topics(wire, message);
		break;
	case CONTROL_SCHEMA_BYTES:
		describe_schema_bytes(wire, message);
		break;
	case CONTROL_GRANT:
		describe_topic(wire, &message->grant.topic);
		wire_u64(wire, &message->grant.region_bytes);
		wire_u64(wire, &message->grant.head);
		wire_u64(wire, &message->grant.key.address);
		wire_u64(wire, &message->grant.key.rkey);
		wire_bytes(wire, message->grant.notice_key, NOTICE_KEY_BYTES);
		wire_u64(wire, &message->grant.topic_notices);
		wire_u64(wire, &message->grant.heads_notices);
		break;
	case CONTROL_REFUSE:
		wire_u32(wire, &message->refuse.topic_id);
		wire_u32_within(wire, &message->refuse.code, 1, 4095, "has no valid error code");
		wire_text(wire, message->refuse.text, CONTROL_TEXT_MAX, "has no valid text");
		break;
	case CONTROL_VALUES:
		describe_values(wire, message);
		break;
	case CONTROL_UNPUBLISHED_NAMES:
		describe_unpublished_names(wire, message);
		break;
	default:
		describe_plain(wire, message);
		break;
	}
}

static void describe(struct wire *wire, struct control_message *message)
{
	uint16_t type = (uint16_t)message->type;

	wire_u16(wire, &type);
	if (type < CONTROL_CATALOGUE || type > CONTROL_ENDING)
		wire_wrong(wire, sizeof(type), "has an unknown type");
	wire_zero(wire, 2);
	wire_u32(wire, &message->request);
	if (wire->wrong)
		return;
	message->type = (enum control_type)type;
	describe_body(wire, message);
	wire_end(wire);
}

size_t control_encode(const struct control_message *message, uint8_t bytes[FABRIC_MESSAGE_BYTES])
{
	struct wire wire = { .bytes = bytes, .limit = FABRIC_MESSAGE_BYTES };
	struct control_message copy = *message;

	describe(&wire, &copy);
	return wire.wrong ? 0 : wire.at;
}

int control_decode(const void *bytes, size_t length, struct control_message *message)
{
	struct wire wire = { .bytes = (uint8_t *)(uintptr_t)bytes,
			     .limit = length,
			     .reading = true };

	memset(message, 0, sizeof(*message));
	describe(&wire, message);
	return wire_result(&wire, "control");
}

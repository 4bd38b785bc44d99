/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages equal the published bytes, in both directions. Truncated, longer or changed
 * messages are refused with the offset. An accepted message encodes to the same bytes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/address.h"
#include "bus/bus_page.h"
#include "bus/control.h"
#include "tests/support/guard.h"
#include "tests/support/random.h"
#include "bus/bounds.h"
#include "tickbus/error.h"

#define EPOCH  UINT64_C(0x1122334455667788)
#define ROUNDS 300000
#define TYPES  (CONTROL_ENDING + 1)

static const char hello_golden[] =
	"5442555301033800101112131415161718191a1b1c1d1e1f404142434445464748494a4b"
	"4c4d4e4f505152535455565758595a5b5c5d5e5f";

static const char welcome_golden[] =
	"54425553020000002827262524232221e803000000010000a7a6a5a4a3a2a1a0b7b6b5b4"
	"b3b2b1b0020000000004000000000000000000000000ffffef0a00013f1d0000606162636465"
	"666768696a6b6c6d6e6f08006571756974696573";

#define NOTICES "010000000004000000000000000000000000ffffef0a0002301d0000"
#define THREE   "04030201050000008877665544332211e803000000000000"

/* By type; written from the description of the protocol, not by the encoder. */
static const char *const golden[TYPES] = {
	[CONTROL_CATALOGUE] = "01000000040302010700000007002a2e71756f7465",
	[CONTROL_TOPICS] = "02000000040302010100000001000000887766554433221100ffeeddccbbaa99"
			   "000001000d0c0b0a40000000004000000500000003000000010200000200000"
			   "02c010000" NOTICES "0c006e61736461712e71756f7465050071756f7465",
	[CONTROL_SCHEMA] = "03000000040302010500000080030000",
	[CONTROL_SCHEMA_BYTES] = "0400000004030201050000000a0000000400000006000000616263646566",
	[CONTROL_JOIN] = "0500000004030201050000008877665544332211",
	[CONTROL_GRANT] = "0600000004030201887766554433221100ffeeddccbbaa99000001000d0c0b0a40"
			  "00000000400000050000000300000001020000020000002c010000" NOTICES
			  "0c006e61736461712e71756f7465050071756f7465000002000000000096959493929190"
			  "00a7a6a5a4a3a2a1a0b7b6b5b4b3b2b1b0707172737475767778797a7b7c7d7e7f"
			  "c7c6c5c4c3c2c1c0d7d6d5d4d3d2d1d0",
	[CONTROL_REFUSE] = "070000000403020105000000020000000d006e6f207375636820746f706963",
	[CONTROL_LEAVE] = "08000000040302010500000088776655443322110000000000000000",
	[CONTROL_ARM] = "09000000" THREE,
	[CONTROL_WAKE] = "0a000000" THREE,
	[CONTROL_COUNTERS] = "0b0000000403020102000000030000000e000000",
	[CONTROL_VALUES] = "0c00000004030201010000000000000001000000090000000200000003006275730b"
			   "00636f6e6e656374696f6e730500706565727307000000000000000100780000ffff"
			   "ffffffffffff",
	[CONTROL_UNPUBLISHED] = "0d000000040302010500000018000000",
	[CONTROL_UNPUBLISHED_NAMES] =
		"0e00000004030201050000000200000002000000050042524b20410300000000000000"
		"18004142434445464748494a4b4c4d4e4f5051525354555657580100000000000000",
	[CONTROL_REVOKE] = "0f000000" THREE,
	[CONTROL_ENDING] = "10000000" THREE,
};

static size_t unhex(const char *text, uint8_t *bytes)
{
	size_t count = 0;
	unsigned int value;

	for (; text[2 * count] && sscanf(text + 2 * count, "%2x", &value) == 1; count++)
		bytes[count] = (uint8_t)value;
	return count;
}

/* Copied as bytes, so that padding is zero in every copy. */
static struct control_topic a_topic = { .shape = { .epoch = EPOCH,
						   .fingerprint = 0x99aabbccddeeff00,
						   .slots = 65536,
						   .slot_bytes = 64,
						   .capacity = 16384,
						   .topic_id = 5,
						   .flags = 3,
						   .group = 0x0a0b0c0d },
					.state = TOPIC_LIVE,
					.quality = TB_QUALITY_REBUILDING,
					.name = "nasdaq.quote",
					.schema = "quote",
					.schema_version = 2,
					.schema_bytes = 300,
					.notices = { FABRIC_NOTICES_UD, 1024, { 0 } } };

/* The message that golden[type] encodes. */
static void fill(enum control_type type, struct control_message *message)
{
	cr_assert_eq(address_parse_host("239.10.0.2:7472", &a_topic.notices.group), 0);
	memset(message, 0, sizeof(*message));
	message->type = type;
	message->request = 0x01020304;
	switch (type) {
	case CONTROL_CATALOGUE:
		message->catalogue.after = 7;
		strcpy(message->catalogue.pattern, "*.quote");
		break;
	case CONTROL_TOPICS:
		message->topics.count = message->topics.more = 1;
		memcpy(&message->topics.topic[0], &a_topic, sizeof(a_topic));
		break;
	case CONTROL_SCHEMA:
		message->schema.topic_id = 5;
		message->schema.offset = 896;
		break;
	case CONTROL_SCHEMA_BYTES:
		message->schema_bytes.topic_id = 5;
		message->schema_bytes.total = 10;
		message->schema_bytes.offset = 4;
		message->schema_bytes.bytes = 6;
		memcpy(message->schema_bytes.part, "abcdef", 6);
		break;
	case CONTROL_JOIN:
		message->join.topic_id = 5;
		message->join.epoch = EPOCH;
		break;
	case CONTROL_GRANT:
		memcpy(&message->grant.topic, &a_topic, sizeof(a_topic));
		message->grant.region_bytes = 0x20000;
		message->grant.head = 0x90919293949596;
		message->grant.key.address = 0xa0a1a2a3a4a5a6a7;
		message->grant.key.rkey = 0xb0b1b2b3b4b5b6b7;
		for (unsigned int i = 0; i < NOTICE_KEY_BYTES; i++)
			message->grant.notice_key[i] = (uint8_t)(0x70 + i);
		message->grant.topic_notices = 0xc0c1c2c3c4c5c6c7;
		message->grant.heads_notices = 0xd0d1d2d3d4d5d6d7;
		break;
	case CONTROL_REFUSE:
		message->refuse.topic_id = 5;
		message->refuse.code = ENOENT;
		strcpy(message->refuse.text, "no such topic");
		break;
	case CONTROL_COUNTERS:
		message->counters.scope = 2;
		message->counters.index = 3;
		message->counters.after = 14;
		break;
	case CONTROL_VALUES:
		message->values.scope = message->values.blocks = 1;
		message->values.total = 9;
		message->values.count = 2;
		strcpy(message->values.name, "bus");
		strcpy(message->values.entry[0].name, "connections");
		strcpy(message->values.entry[0].unit, "peers");
		message->values.entry[0].value = 7;
		strcpy(message->values.entry[1].name, "x");
		message->values.entry[1].value = UINT64_MAX;
		break;
	case CONTROL_UNPUBLISHED:
		message->unpublished.topic_id = 5;
		message->unpublished.after = 24;
		break;
	case CONTROL_UNPUBLISHED_NAMES:
		message->unpublished_names.topic_id = 5;
		message->unpublished_names.total = message->unpublished_names.count = 2;
		strcpy(message->unpublished_names.entry[0].name, "BRK A");
		message->unpublished_names.entry[0].records = 3;
		strcpy(message->unpublished_names.entry[1].name, "ABCDEFGHIJKLMNOPQRSTUVWX");
		message->unpublished_names.entry[1].records = 1;
		break;
	default: /* LEAVE, ARM, WAKE, REVOKE, ENDING */
		message->topic.topic_id = 5;
		message->topic.epoch = EPOCH;
		message->topic.head = type == CONTROL_LEAVE ? 0 : 1000;
		break;
	}
}

static struct control_hello a_hello(void)
{
	struct control_hello hello = { .version_low = 1, .version_high = 3 };

	for (unsigned int i = 0; i < sizeof(hello.nonce); i++)
		hello.nonce[i] = (uint8_t)(0x10 + i);
	for (unsigned int i = 0; i < sizeof(hello.cookie); i++) {
		hello.cookie[i] = (uint8_t)(0x40 + i);
		hello.proof[i] = (uint8_t)(0x50 + i);
	}
	return hello;
}

static struct control_welcome a_welcome(void)
{
	struct control_welcome welcome = { .version = 2,
					   .notices = { FABRIC_NOTICES_UDP, 1024, { 0 } },
					   .bus_id = 0x2122232425262728,
					   .stale_ms = 1000,
					   .topics_max = 256,
					   .key = { .address = 0xa0a1a2a3a4a5a6a7,
						    .rkey = 0xb0b1b2b3b4b5b6b7 },
					   .name = "equities" };

	cr_assert_eq(address_parse_host("239.10.0.1:7487", &welcome.notices.group), 0);
	for (unsigned int i = 0; i < sizeof(welcome.proof); i++)
		welcome.proof[i] = (uint8_t)(0x60 + i);
	return welcome;
}

/* The three forms of messages, for the tests of damage. */
enum form { HELLO, WELCOME, MESSAGE };

static const char *form_golden(enum form form, unsigned int type)
{
	return form == HELLO ? hello_golden : form == WELCOME ? welcome_golden : golden[type];
}

static const char *form_name(enum form form)
{
	return form == HELLO ? "hello" : form == WELCOME ? "welcome" : "control";
}

/* Decodes, and encodes the result: the encoded length, or the error of decoding. */
static int again(enum form form, const void *bytes, size_t length, uint8_t *encoded)
{
	static struct control_message message;
	struct control_hello hello;
	struct control_welcome welcome;
	int result;

	if (form == HELLO) {
		result = control_hello_decode(bytes, length, &hello);
		return result < 0 ? result : (int)control_hello_encode(&hello, encoded);
	}
	if (form == WELCOME) {
		result = control_welcome_decode(bytes, length, &welcome);
		return result < 0 ? result : (int)control_welcome_encode(&welcome, encoded);
	}
	result = control_decode(bytes, length, &message);
	return result < 0 ? result : (int)control_encode(&message, encoded);
}

Test(control, message_encodes_to_published_bytes_and_back)
{
	static struct control_message message, copy;
	uint8_t expected[FABRIC_MESSAGE_BYTES], bytes[FABRIC_MESSAGE_BYTES];

	for (unsigned int type = CONTROL_CATALOGUE; type < TYPES; type++) {
		const size_t length = unhex(golden[type], expected);

		fill((enum control_type)type, &message);
		cr_assert_eq(control_encode(&message, bytes), length, "type %u", type);
		cr_assert_arr_eq(bytes, expected, length, "type %u", type);
		memset(&copy, 0xff, sizeof(copy));
		cr_assert_eq(control_decode(bytes, length, &copy), 0, "%s", tb_error());
		cr_assert_eq(memcmp(&copy, &message, sizeof(copy)), 0, "type %u", type);
	}
}

/* Another version may have another length, and other fields behind the versions. */
Test(control, hello_of_another_version_names_both_versions)
{
	uint8_t bytes[FABRIC_HELLO_BYTES] = { 'T', 'B', 'U', 'S', 0, 0, 99, 99, 1 };
	struct control_hello hello;
	char expected[128];

	for (uint8_t version = 1; version < 5; version++) {
		bytes[4] = bytes[5] = version;
		snprintf(expected, sizeof(expected),
			 "no common version: the subscriber speaks %u to %u, the publisher 2 to 2",
			 version, version);
		for (size_t length = 6; length <= sizeof(bytes); length++) {
			cr_assert_eq(control_hello_decode(bytes, length, &hello), -EPROTO);
			cr_expect_eq(strcmp(tb_error(), expected) == 0, version != 2, "%s",
				     tb_error());
		}
	}
}

Test(control, hello_and_welcome_encode_to_published_bytes_and_back)
{
	const struct control_hello hello = a_hello();
	const struct control_welcome welcome = a_welcome();
	uint8_t expected[FABRIC_MESSAGE_BYTES], bytes[FABRIC_MESSAGE_BYTES];
	size_t length = unhex(hello_golden, expected);

	cr_assert_eq(control_hello_encode(&hello, bytes), length);
	cr_assert_eq(length, FABRIC_HELLO_BYTES);
	cr_assert_arr_eq(bytes, expected, length);
	cr_assert_eq(again(HELLO, expected, length, bytes), (int)length);
	cr_assert_arr_eq(bytes, expected, length);
	length = unhex(welcome_golden, expected);
	cr_assert_eq(control_welcome_encode(&welcome, bytes), length);
	cr_assert_arr_eq(bytes, expected, length);
	cr_assert_eq(again(WELCOME, expected, length, bytes), (int)length);
	cr_assert_arr_eq(bytes, expected, length);
}

Test(control, truncated_or_longer_message_is_refused_at_its_end)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES + 1] = { 0 }, encoded[FABRIC_MESSAGE_BYTES];
	struct guard guard;
	char expected[200];

	guard_open(&guard, sizeof(bytes));
	for (unsigned int type = 0; type < TYPES + 1; type++) {
		const enum form form = type == 0 ? HELLO : type == TYPES ? WELCOME : MESSAGE;
		const size_t length = unhex(form_golden(form, type), bytes);

		for (size_t cut = 0; cut < length; cut++) {
			cr_assert_eq(again(form, guard_copy(&guard, bytes, cut), cut, encoded),
				     -EPROTO, "type %u cut to %zu", type, cut);
			snprintf(expected, sizeof(expected),
				 "%s message of %zu bytes: ends too early", form_name(form), cut);
			cr_assert_eq(strncmp(tb_error(), expected, strlen(expected)), 0,
				     "%s not %s", tb_error(), expected);
		}
		bytes[length] = 0;
		cr_assert_eq(
			again(form, guard_copy(&guard, bytes, length + 1), length + 1, encoded),
			-EPROTO, "type %u and one more", type);
		snprintf(expected, sizeof(expected),
			 "%s message of %zu bytes: has bytes after its end at byte %zu",
			 form_name(form), length + 1, length);
		cr_assert_str_eq(tb_error(), expected);
	}
	guard_close(&guard);
}

/* A valid message with one wrong field: its offset, its bytes, and the error. */
static const struct {
	enum form form;
	unsigned int type;
	size_t at;
	const char *bytes, *expected;
} wrong[] = {
	{ HELLO, 0, 0, "55", "has no tickbus magic at byte 0" },
	{ HELLO, 0, 3, "00", "has no tickbus magic at byte 0" },
	{ HELLO, 0, 4, "00", "has no valid range of versions at byte 4" },
	{ HELLO, 0, 4, "0403", "has no valid range of versions at byte 4" },
	{ HELLO, 0, 6, "37", "has a length other than 56 at byte 6" },
	{ HELLO, 0, 6, "3801", "has a length other than 56 at byte 6" },
	{ WELCOME, 0, 1, "43", "has no tickbus magic at byte 0" },
	{ WELCOME, 0, 5, "02", "has features that version 2 does not define at byte 5" },
	{ WELCOME, 0, 6, "01", "has a reserved byte that is not zero at byte 6" },
	{ WELCOME, 0, 7, "80", "has a reserved byte that is not zero at byte 7" },
	{ WELCOME, 0, 16, "00000000", "has no valid stale bound at byte 16" },
	{ WELCOME, 0, 16, "13000000", "has no valid stale bound at byte 16" }, /* 19 */
	{ WELCOME, 0, 16, "61ea0000", "has no valid stale bound at byte 16" }, /* 60,001 */
	{ WELCOME, 0, 20, "00000000", "has no valid bound of topics at byte 20" },
	{ WELCOME, 0, 20, "01040000", "has no valid bound of topics at byte 20" }, /* 1,025 */
	{ WELCOME, 0, 40, "03", "has an unknown kind of notices at byte 40" },
	{ WELCOME, 0, 40, "ffffffff", "has an unknown kind of notices at byte 40" },
	{ WELCOME, 0, 44, "01100000", "has no valid notice size at byte 44" }, /* 4,097 */
	{ WELCOME, 0, 60, "7f", "has no multicast group for notices at byte 48" },
	{ WELCOME, 0, 60, "df", "has no multicast group for notices at byte 48" },
	{ WELCOME, 0, 48, "01", "has no multicast group for notices at byte 48" }, /* IPv6 */
	{ WELCOME, 0, 64, "0000", "has no multicast group for notices at byte 48" },
	{ WELCOME, 0, 66, "01", "has a reserved byte that is not zero at byte 66" },
	{ WELCOME, 0, 84, "4000", "has no valid bus name at byte 84" },
	{ WELCOME, 0, 86, "0a", "has no valid bus name at byte 86" },
	{ WELCOME, 0, 93, "7f", "has no valid bus name at byte 93" },
	{ WELCOME, 0, 92, "00", "has no valid bus name at byte 92" },
	{ WELCOME, 0, 92, "e9", "has no valid bus name at byte 92" },
	{ MESSAGE, 1, 0, "0000", "has an unknown type at byte 0" },
	{ MESSAGE, 1, 0, "1100", "has an unknown type at byte 0" },
	{ MESSAGE, 1, 0, "0101", "has an unknown type at byte 0" },
	{ MESSAGE, 1, 2, "01", "has a reserved byte that is not zero at byte 2" },
	{ MESSAGE, 16, 3, "01", "has a reserved byte that is not zero at byte 3" },
	{ MESSAGE, CONTROL_LEAVE, 20, "01", "has a reserved byte that is not zero at byte 20" },
	{ MESSAGE, CONTROL_LEAVE, 27, "80", "has a reserved byte that is not zero at byte 27" },
	{ MESSAGE, CONTROL_CATALOGUE, 12, "8000", "has no valid pattern at byte 12" },
	{ MESSAGE, CONTROL_CATALOGUE, 12, "ffff", "has no valid pattern at byte 12" },
	{ MESSAGE, CONTROL_CATALOGUE, 20, "1f", "has no valid pattern at byte 20" },
	{ MESSAGE, CONTROL_TOPICS, 8, "0d", "has too many topics at byte 8" },
	{ MESSAGE, CONTROL_TOPICS, 8, "ffffffff", "has too many topics at byte 8" },
	{ MESSAGE, CONTROL_TOPICS, 12, "02", "has no valid mark for more topics at byte 12" },
	{ MESSAGE, CONTROL_TOPICS, 48, "00", "has no valid topic id at byte 48" },
	{ MESSAGE, CONTROL_TOPICS, 48, "0104", "has no valid topic id at byte 48" },
	{ MESSAGE, CONTROL_TOPICS, 56, "00", "has no valid topic state at byte 56" },
	{ MESSAGE, CONTROL_TOPICS, 56, "03", "has no valid topic state at byte 56" },
	{ MESSAGE, CONTROL_TOPICS, 57, "03", "has no valid quality at byte 57" },
	{ MESSAGE, CONTROL_GRANT, 49, "ff", "has no valid quality at byte 49" },
	{ MESSAGE, CONTROL_TOPICS, 58, "01", "has a reserved byte that is not zero at byte 58" },
	{ MESSAGE, CONTROL_TOPICS, 59, "01", "has a reserved byte that is not zero at byte 59" },
	{ MESSAGE, CONTROL_TOPICS, 64, "0000", "has no valid schema length at byte 64" },
	{ MESSAGE, CONTROL_TOPICS, 64, "010001", "has no valid schema length at byte 64" },
	{ MESSAGE, CONTROL_TOPICS, 68, "03", "has an unknown kind of notices at byte 68" },
	{ MESSAGE, CONTROL_TOPICS, 72, "01100000", "has no valid notice size at byte 72" },
	{ MESSAGE, CONTROL_TOPICS, 88, "0a", "has no multicast group for notices at byte 76" },
	{ MESSAGE, CONTROL_TOPICS, 94, "01", "has a reserved byte that is not zero at byte 94" },
	{ MESSAGE, CONTROL_TOPICS, 96, "4000", "has no valid topic name at byte 96" },
	{ MESSAGE, CONTROL_TOPICS, 109, "80", "has no valid topic name at byte 109" },
	{ MESSAGE, CONTROL_TOPICS, 110, "4000", "has no valid schema name at byte 110" },
	{ MESSAGE, CONTROL_TOPICS, 112, "09", "has no valid schema name at byte 112" },
	{ MESSAGE, CONTROL_SCHEMA, 12, "010001", "has no valid offset in a schema at byte 12" },
	{ MESSAGE, CONTROL_SCHEMA_BYTES, 12, "00", "has no valid schema length at byte 12" },
	{ MESSAGE, CONTROL_SCHEMA_BYTES, 12, "010001", "has no valid schema length at byte 12" },
	{ MESSAGE, CONTROL_SCHEMA_BYTES, 16, "010001",
	  "has no valid offset in a schema at byte 16" },
	{ MESSAGE, CONTROL_SCHEMA_BYTES, 20, "8103", "has too many bytes of a schema at byte 20" },
	{ MESSAGE, CONTROL_SCHEMA_BYTES, 20, "ffffffff",
	  "has too many bytes of a schema at byte 20" },
	{ MESSAGE, CONTROL_SCHEMA_BYTES, 20, "07", "has bytes beyond the schema's end at byte 20" },
	{ MESSAGE, CONTROL_SCHEMA_BYTES, 16, "0b", "has bytes beyond the schema's end at byte 20" },
	{ MESSAGE, CONTROL_GRANT, 40, "00", "has no valid topic id at byte 40" },
	{ MESSAGE, CONTROL_REFUSE, 12, "00", "has no valid error code at byte 12" },
	{ MESSAGE, CONTROL_REFUSE, 12, "0010", "has no valid error code at byte 12" },
	{ MESSAGE, CONTROL_REFUSE, 16, "2103", "has no valid text at byte 16" },
	{ MESSAGE, CONTROL_REFUSE, 20, "0a", "has no valid text at byte 20" },
	{ MESSAGE, CONTROL_VALUES, 24, "0f", "has too many counters at byte 24" },
	{ MESSAGE, CONTROL_VALUES, 28, "4000", "has no valid block name at byte 28" },
	{ MESSAGE, CONTROL_VALUES, 33, "2800", "has no valid counter name at byte 33" },
	{ MESSAGE, CONTROL_VALUES, 46, "0c00", "has no valid unit at byte 46" },
	{ MESSAGE, CONTROL_UNPUBLISHED_NAMES, 16, "19", "has too many names at byte 16" },
	{ MESSAGE, CONTROL_UNPUBLISHED_NAMES, 20, "1900",
	  "has no valid instrument name at byte 20" },
	{ MESSAGE, CONTROL_UNPUBLISHED_NAMES, 24, "1b", "has no valid instrument name at byte 24" },
};

Test(control, wrong_field_is_refused_with_its_offset)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES], encoded[FABRIC_MESSAGE_BYTES];
	char expected[200];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const size_t length = unhex(form_golden(wrong[i].form, wrong[i].type), bytes);

		cr_assert_gt(unhex(wrong[i].bytes, bytes + wrong[i].at), 0);
		cr_assert_eq(again(wrong[i].form, bytes, length, encoded), -EPROTO, "%zu: %s", i,
			     wrong[i].expected);
		snprintf(expected, sizeof(expected), "%s message of %zu bytes: %s",
			 form_name(wrong[i].form), length, wrong[i].expected);
		cr_assert_str_eq(tb_error(), expected);
	}
}

Test(control, last_schema_part_may_be_empty)
{
	static struct control_message message, copy;
	uint8_t bytes[FABRIC_MESSAGE_BYTES];

	fill(CONTROL_SCHEMA_BYTES, &message);
	message.schema_bytes.offset = message.schema_bytes.total;
	message.schema_bytes.bytes = 0;
	cr_assert_eq(control_decode(bytes, control_encode(&message, bytes), &copy), 0, "%s",
		     tb_error());
	cr_expect_eq(copy.schema_bytes.offset, 10);
}

Test(control, invalid_message_is_not_encoded)
{
	static struct control_message message;
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	struct control_hello hello = a_hello();
	struct control_welcome welcome = a_welcome();

	hello.version_low = 0;
	cr_expect_eq(control_hello_encode(&hello, bytes), 0);
	welcome.topics_max = BOUND_TOPICS_MAX + 1;
	cr_expect_eq(control_welcome_encode(&welcome, bytes), 0);
	fill(CONTROL_TOPICS, &message);
	message.topics.count = CONTROL_TOPICS_PAGE + 1;
	cr_expect_eq(control_encode(&message, bytes), 0);
	fill(CONTROL_SCHEMA_BYTES, &message);
	message.schema_bytes.bytes = CONTROL_SCHEMA_PART + 1;
	cr_expect_eq(control_encode(&message, bytes), 0);
	fill(CONTROL_REFUSE, &message);
	message.refuse.code = 0;
	cr_expect_eq(control_encode(&message, bytes), 0);
	message.type = (enum control_type)TYPES;
	cr_expect_eq(control_encode(&message, bytes), 0);
}

/* Names, units and error texts in any language: a reader that refused them would refuse the whole
 * message. */
Test(control, text_beyond_ascii_is_encoded_as_question_marks)
{
	static struct control_message message, copy;
	uint8_t bytes[FABRIC_MESSAGE_BYTES];

	fill(CONTROL_VALUES, &message);
	strcpy(message.values.entry[0].name, "latency");
	strcpy(message.values.entry[0].unit, "\xc2\xb5s");
	cr_assert_eq(control_decode(bytes, control_encode(&message, bytes), &copy), 0, "%s",
		     tb_error());
	cr_expect_str_eq(copy.values.entry[0].name, "latency");
	cr_expect_str_eq(copy.values.entry[0].unit, "??s");
	cr_expect_str_eq(message.values.entry[0].unit, "\xc2\xb5s", "what was given stays");
	fill(CONTROL_REFUSE, &message);
	strcpy(message.refuse.text, "\x01 ~\x7f\xff\n");
	cr_assert_eq(control_decode(bytes, control_encode(&message, bytes), &copy), 0, "%s",
		     tb_error());
	cr_expect_str_eq(copy.refuse.text, "? ~???");
}

/* Fills a page of the catalogue with topics whose texts have these lengths. */
static void page_fill(struct control_message *message, size_t name, size_t schema)
{
	struct control_topic topic = a_topic;

	memset(topic.name, 'n', name);
	topic.name[name] = '\0';
	memset(topic.schema, 's', schema);
	topic.schema[schema] = '\0';
	while (control_topics_add(message, &topic))
		;
}

Test(control, page_of_topics_is_filled_and_not_overfilled)
{
	static struct control_message message, copy;
	static uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const struct {
		size_t name, schema;
		uint32_t count;
	} pages[] = { { 1, 1, 11 }, { 21, 5, 9 }, { TB_TOPIC_NAME_MAX, CONTROL_NAME_MAX, 4 } };

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		fill(CONTROL_TOPICS, &message);
		message.topics.count = 0;
		page_fill(&message, pages[i].name, pages[i].schema);
		cr_expect_eq(message.topics.count, pages[i].count, "page %zu: %u", i,
			     message.topics.count);
		cr_assert_eq(control_decode(bytes, control_encode(&message, bytes), &copy), 0, "%s",
			     tb_error());
		cr_expect_eq(copy.topics.count, pages[i].count);
	}
}

/* Texts of maximum length and full pages: they fit, uncut. */
Test(control, longest_messages_fit_and_read_back)
{
	static struct control_message message, copy;
	static uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const unsigned int types[] = { CONTROL_CATALOGUE,        CONTROL_TOPICS,
				       CONTROL_SCHEMA_BYTES,     CONTROL_GRANT,
				       CONTROL_REFUSE,           CONTROL_VALUES,
				       CONTROL_UNPUBLISHED_NAMES };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fill((enum control_type)types[i], &message);
		switch (types[i]) {
		case CONTROL_CATALOGUE:
			memset(message.catalogue.pattern, '*', TB_PATTERN_MAX);
			break;
		case CONTROL_TOPICS:
			message.topics.count = 0;
			page_fill(&message, TB_TOPIC_NAME_MAX, CONTROL_NAME_MAX);
			break;
		case CONTROL_SCHEMA_BYTES:
			message.schema_bytes.total = CONTROL_SCHEMA_MAX;
			message.schema_bytes.offset = CONTROL_SCHEMA_MAX - CONTROL_SCHEMA_PART;
			message.schema_bytes.bytes = CONTROL_SCHEMA_PART;
			memset(message.schema_bytes.part, 0xff, CONTROL_SCHEMA_PART);
			break;
		case CONTROL_GRANT:
			memset(message.grant.topic.name, 'n', TB_TOPIC_NAME_MAX);
			memset(message.grant.topic.schema, 's', CONTROL_NAME_MAX);
			break;
		case CONTROL_REFUSE:
			memset(message.refuse.text, '~',
			       CONTROL_TEXT_MAX); /* the last byte of ASCII */
			break;
		case CONTROL_VALUES:
			message.values.count = CONTROL_COUNTERS_PAGE;
			for (unsigned int n = 0; n < CONTROL_COUNTERS_PAGE; n++) {
				memset(message.values.entry[n].name, 'c', CONTROL_COUNTER_NAME_MAX);
				memset(message.values.entry[n].unit, 'u', CONTROL_COUNTER_UNIT_MAX);
			}
			break;
		default:
			message.unpublished_names.count = CONTROL_UNPUBLISHED_PAGE;
			for (unsigned int n = 0; n < CONTROL_UNPUBLISHED_PAGE; n++)
				memset(message.unpublished_names.entry[n].name, 'i',
				       TB_INSTRUMENT_NAME_MAX);
			break;
		}
		cr_assert_gt(control_encode(&message, bytes), 0, "type %u", types[i]);
		cr_assert_eq(control_decode(bytes, control_encode(&message, bytes), &copy), 0, "%s",
			     tb_error());
		cr_assert_eq(memcmp(&copy, &message, sizeof(copy)), 0, "type %u", types[i]);
	}
}

/* Some bytes of a valid message are changed, cut off or added; sometimes all are random. */
static size_t damage(uint64_t *state, uint8_t *bytes, size_t length)
{
	if (random_below(state, 16) == 0) {
		length = random_below(state, FABRIC_MESSAGE_BYTES + 1);
		random_fill(state, bytes, length);
		return length;
	}
	for (size_t changes = random_below(state, 4); changes > 0; changes--)
		bytes[random_below(state, length)] = (uint8_t)random_draw(state);
	if (random_below(state, 4) == 0)
		length = random_below(state, length + 1);
	else if (random_below(state, 8) == 0)
		bytes[length++] = (uint8_t)random_draw(state);
	return length;
}

Test(control, random_bytes_are_refused_or_a_whole_message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES + 1], encoded[FABRIC_MESSAGE_BYTES];
	uint64_t state = random_seed();
	unsigned int taken = 0;
	struct guard guard;

	guard_open(&guard, sizeof(bytes));
	for (unsigned int round = 0; round < ROUNDS; round++) {
		const unsigned int type = (unsigned int)random_below(&state, TYPES + 1);
		const enum form form = type == 0 ? HELLO : type == TYPES ? WELCOME : MESSAGE;
		const size_t length = damage(&state, bytes, unhex(form_golden(form, type), bytes));
		const int result = again(form, guard_copy(&guard, bytes, length), length, encoded);

		if (result < 0) {
			cr_assert_eq(result, -EPROTO);
			continue;
		}
		taken++;
		cr_assert_eq(result, (int)length, "round %u", round);
		cr_assert_arr_eq(encoded, bytes, length, "round %u", round);
	}
	cr_assert(taken > ROUNDS / 20 && taken < ROUNDS / 20 * 19, "%u were taken", taken);
	guard_close(&guard);
}

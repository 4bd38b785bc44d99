/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/truth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

int truth_instruments(struct tb_topic *topic)
{
	char name[TB_INSTRUMENT_NAME_MAX + 1];

	for (int i = 0; i < TRUTH_INSTRUMENTS; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		if (tb_instrument(topic, name) != i)
			return -1;
	}
	return 0;
}

int truth_topic(struct tb_publisher *publisher, const char *name, uint32_t payload_max,
		uint32_t slots, uint32_t flags, struct tb_topic **topic)
{
	char text[128];
	struct tb_schema *schema = NULL;
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = name,
					    .slots = slots,
					    .instruments = 2 * TRUTH_INSTRUMENTS,
					    .flags = flags };
	int result;

	snprintf(text, sizeof(text),
		 "name: x\nversion: 1\nfields:\n- {name: x, type: \"u64[%" PRIu32 "]\", doc: d}\n",
		 payload_max / 8);
	result = tb_schema_parse(&schema, text, strlen(text), "truth");
	options.schema = schema;
	if (result == 0)
		result = tb_topic_create(publisher, &options, topic);
	tb_schema_free(schema);
	return result < 0 ? result : truth_instruments(*topic);
}

uint32_t truth_instrument(uint64_t n)
{
	return (uint32_t)((n * GOLDEN) >> 61) % TRUTH_INSTRUMENTS;
}

static uint8_t truth_kind(uint64_t n)
{
	if (n % 11 == 0)
		return n % 2 ? TB_KIND_CANCEL : TB_KIND_STATUS;
	if (n % 7 == 0)
		return n % 2 ? TB_KIND_CORRECTION : TB_KIND_CLEAR;
	return n % 5 == 0 ? (uint8_t)(TB_KIND_USER + n % 128) : TB_KIND_UPDATE;
}

bool truth_is_value(uint64_t n)
{
	return n % 11 != 0;
}

uint64_t truth_last_value(uint64_t head, uint32_t instrument)
{
	while (head > 0 && (truth_instrument(head) != instrument || !truth_is_value(head)))
		head--;
	return head;
}

static uint16_t truth_length(const struct truth *truth, uint64_t n)
{
	/* Records of the usual length are written and taken by code of their own. */
	return (uint16_t)(n & 32 ? truth->payload_max : n * 13 % (truth->payload_max + 1));
}

static uint64_t truth_seed(const struct truth *truth, uint64_t n)
{
	return mix(n ^ (uint64_t)truth->topic << 48 ^ (uint64_t)truth_instrument(n) << 40);
}

static uint64_t truth_time(uint64_t n)
{
	return n * GOLDEN | 1;
}

void truth_update(const struct truth *truth, uint64_t n, struct tb_update *update, uint64_t *words)
{
	const uint64_t seed = truth_seed(truth, n);
	const uint16_t length = truth_length(truth, n);

	for (uint64_t i = 0; i < (length + 7u) / 8; i++)
		words[i] = seed + i * GOLDEN;
	*update = (struct tb_update){ .size = sizeof(*update),
				      .instrument = truth_instrument(n),
				      .kind = truth_kind(n),
				      .flags = n >> 3 & TB_FLAG_LAST,
				      .length = length,
				      .time_ns = truth_time(n),
				      .data = words };
}

static const char *payload_wrong(const struct truth *truth, uint64_t n, const void *data)
{
	const uint64_t seed = truth_seed(truth, n);
	const uint16_t length = truth_length(truth, n);
	uint64_t word, expected;

	for (uint64_t at = 0; at < length; at += 8) {
		const size_t bytes = length - at < 8 ? length - at : 8;

		expected = seed + at / 8 * GOLDEN;
		memcpy(&word, (const char *)data + at, bytes);
		if (memcmp(&word, &expected, bytes) != 0)
			return "its payload is wrong";
	}
	return NULL;
}

const char *truth_wrong(const struct truth *truth, uint64_t n, const struct tb_record *record)
{
	if (record->sequence != n)
		return "its sequence is wrong";
	if (record->instrument != truth_instrument(n))
		return "its instrument is wrong";
	if (record->length != truth_length(truth, n))
		return "its length is wrong";
	if (record->kind != truth_kind(n) || record->flags != (n >> 3 & TB_FLAG_LAST))
		return "its kind or flags are wrong";
	if (record->time_ns != truth_time(n))
		return "its time is wrong";
	if (record->name &&
	    (record->name[0] != 'I' || record->name[1] != (char)('0' + record->instrument)))
		return "its name is wrong";
	return payload_wrong(truth, n, record->data);
}

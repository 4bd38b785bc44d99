/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests of schemas: schemas in one line, and repeatable random numbers. */
#ifndef TICKBUS_TESTS_SCHEMAS_H
#define TICKBUS_TESTS_SCHEMAS_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tickbus/error.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"

static inline struct tb_schema *parse(const char *text)
{
	struct tb_schema *schema = NULL;

	cr_assert_eq(tb_schema_parse(&schema, text, strlen(text), "test.yaml"), 0, "%s\n%s",
		     tb_error(), text);
	return schema;
}

/* Makes schema `name` from a line of fields: "price decimal64(4); bids group[2] {; size u32; orders
 * u32 }; pad[4]". A role, or "optional", may follow a type. */
static inline struct tb_schema *brief(const char *name, unsigned version, const char *fields)
{
	char text[8192], words[2048], field[64], type[64], role[64];
	size_t used;
	bool inside = false;

	snprintf(words, sizeof(words), "%s", fields);
	used = (size_t)snprintf(text, sizeof(text), "name: %s\nversion: %u\nfields:\n", name,
				version);
	for (char *save, *word = strtok_r(words, ";", &save); word;
	     word = strtok_r(NULL, ";", &save)) {
		const char *indent = inside ? "      " : "  ";
		bool opens = strchr(word, '{'), closes = strchr(word, '}');
		int count;

		word[strcspn(word, "{}")] = '\0';
		count = sscanf(word, " %63s %63s %63s", field, type, role);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s- type: %s\n", indent,
					 count == 1 ? field : type);
		if (count > 1)
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "%s  name: %s\n%s  doc: d\n", indent, field,
						 indent);
		if (count > 2)
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s  %s%s\n", indent,
				strcmp(role, "optional") ? "role: " : "optional: true",
				strcmp(role, "optional") ? role : "");
		if (opens)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "    fields:\n");
		inside = opens || (inside && !closes);
	}
	return parse(text);
}

/* TICKBUS_TEST_SEED, or the clock if it is not set. The seed is printed, so that a failure can be
 * repeated. */
static inline uint64_t seed(void)
{
	const char *seed = getenv("TICKBUS_TEST_SEED");
	uint64_t value = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);

	fprintf(stderr, "seed: TICKBUS_TEST_SEED=%" PRIu64 "\n", value);
	return value;
}

/* splitmix64 */
static inline uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

#endif

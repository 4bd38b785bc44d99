/* SPDX-License-Identifier: Apache-2.0 */
/* The table of names returns the index of each name, up to its capacity. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "publisher/names.h"
#include "tests/support/random.h"

static struct names names;

static void tear_down(void)
{
	names_close(&names);
	names_close(&names);
}

TestSuite(names, .fini = tear_down);

Test(names, indexes_are_in_order_until_the_table_is_full)
{
	char name[TB_INSTRUMENT_NAME_MAX + 1];

	for (uint32_t capacity = 1; capacity <= 3000; capacity = capacity * 3 + 1) {
		cr_assert_eq(names_open(&names, capacity), 0);
		for (uint32_t i = 0; i < capacity; i++) {
			snprintf(name, sizeof(name), "N%u", i);
			cr_assert_eq(names_find(&names, name), -1);
			cr_assert_eq(names_add(&names, name, i * 7), i);
			cr_assert_eq(names_find(&names, name), i);
		}
		cr_assert_eq(names_find(&names, "one more"), -1);
		cr_assert_eq(names_add(&names, "one more", 0), -1);
		cr_assert_eq(names.count, capacity);
		for (uint32_t i = 0; i < capacity; i++) {
			snprintf(name, sizeof(name), "N%u", i);
			cr_assert_eq(names_find(&names, name), i);
			cr_assert_str_eq(names.entries[i].name, name);
			cr_assert_eq(names.entries[i].value, i * 7);
		}
		names_clear(&names);
		for (uint32_t i = 0; i < capacity; i++) {
			snprintf(name, sizeof(name), "N%u", i);
			cr_assert_eq(names_find(&names, name), -1);
		}
		names_close(&names);
	}
}

/* Random names of few letters: many are prefixes of others, many repeat. */
Test(names, table_agrees_with_a_linear_search)
{
	static char list[512][TB_INSTRUMENT_NAME_MAX + 1];
	uint64_t state = random_seed();
	uint32_t count = 0;

	cr_assert_eq(names_open(&names, 512), 0);
	for (unsigned int round = 0; round < 20000; round++) {
		char name[TB_INSTRUMENT_NAME_MAX + 1] = "";
		int64_t expected = -1;

		for (size_t length = 1 + random_below(&state, 5); length > 0; length--)
			name[length - 1] = (char)('A' + random_below(&state, 4));
		for (uint32_t i = 0; i < count && expected < 0; i++)
			if (strcmp(list[i], name) == 0)
				expected = i;
		cr_assert_eq(names_find(&names, name), expected, "%s", name);
		if (expected >= 0 || count == 512)
			continue;
		strcpy(list[count], name);
		cr_assert_eq(names_add(&names, name, round), count);
		count++;
	}
	cr_assert_eq(count, 512);
}

Test(names, cleared_table_keeps_nothing)
{
	cr_assert_eq(names_open(&names, 2), 0);
	cr_assert_eq(names_add(&names, "ABCDEFGHIJKLMNOPQRSTUVWX", 1), 0);
	cr_assert_eq(names_add(&names, "B", 2), 1);
	names_clear(&names);
	cr_assert_eq(names.count, 0);
	cr_assert_eq(names_find(&names, "ABCDEFGHIJKLMNOPQRSTUVWX"), -1);
	cr_assert_eq(names_find(&names, "B"), -1);
	cr_assert_eq(names_add(&names, "C", 3), 0);
	cr_assert_str_eq(names.entries[0].name, "C");
	cr_assert_eq(names_find(&names, "C"), 0);
}

/* Callers bound the length; a longer name is cut at the end of its entry. */
Test(names, overlong_name_stays_within_its_entry)
{
	cr_assert_eq(names_open(&names, 2), 0);
	cr_assert_eq(names_add(&names, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1), 0);
	cr_assert_str_eq(names.entries[0].name, "ABCDEFGHIJKLMNOPQRSTUVWX");
	cr_assert_eq(names.entries[0].value, 1);
}

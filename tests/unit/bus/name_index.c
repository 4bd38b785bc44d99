/* SPDX-License-Identifier: Apache-2.0 */
/* Every name that was added is found, and no other, while the table grows. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bus/name_index.h"

#define NAMES  40000
#define STRIDE 24

static char names[NAMES][STRIDE];
static struct name_index index_;

static void enter(void)
{
	for (unsigned int i = 0; i < NAMES; i++)
		snprintf(names[i], STRIDE, "NAME%u", i);
	cr_assert_eq(name_index_open(&index_, names[0], STRIDE, NAMES), 0);
}

static void leave(void)
{
	name_index_close(&index_);
}

TestSuite(name_index, .init = enter, .fini = leave, .timeout = 60);

static void add(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		cr_assert(name_index_add(&index_, i), "no room for name %u", i);
}

static void expect_found(uint32_t count, uint32_t step)
{
	for (uint32_t i = 0; i < count; i += step)
		cr_assert_eq(name_index_find(&index_, names[i]), i, "name %u of %u", i, count);
	for (uint32_t i = count; i < NAMES; i += step)
		cr_assert_eq(name_index_find(&index_, names[i]), -1, "name %u of %u", i, count);
}

Test(name_index, names_are_found_after_each_split)
{
	uint32_t count = 0;

	for (uint32_t pages = 1; count < NAMES; pages = index_.pages) {
		while (count < NAMES && index_.pages == pages)
			add(count, count + 1), count++;
		expect_found(count, count < 2000 ? 1 : 97);
	}
	expect_found(NAMES, 1);
}

/* Its memory follows the names, not the capacity. */
Test(name_index, few_names_touch_few_pages)
{
	add(0, 100);
	cr_expect_eq(index_.pages, 1);
	add(100, 1000);
	cr_expect_eq(index_.pages, 6);
	add(1000, NAMES);
	cr_expect_leq(index_.pages, index_.pages_max);
}

Test(name_index, cleared_index_is_empty)
{
	add(0, 5000);
	name_index_clear(&index_);
	expect_found(0, 1);
	add(0, 300);
	expect_found(300, 1);
}

/* As if all names had one hash. */
Test(name_index, full_page_refuses_a_name)
{
	struct name_index one;
	uint32_t count = 0;

	cr_assert_eq(name_index_open(&one, names[0], STRIDE, 1), 0);
	while (count < NAMES && name_index_add(&one, count))
		count++;
	cr_expect_eq(count, 512);
	for (uint32_t i = 0; i < count; i++)
		cr_assert_eq(name_index_find(&one, names[i]), i);
	cr_expect_eq(name_index_find(&one, names[count]), -1);
	name_index_close(&one);
}

/* A hash without a key: every program can find names with equal hashes. */
static uint32_t fnv(const char *name)
{
	uint32_t value = 2166136261u;

	for (; *name; name++)
		value = (value ^ (uint8_t)*name) * 16777619u;
	return value ^ value >> 15;
}

Test(name_index, names_that_collide_by_another_hash_have_room)
{
	for (uint32_t count = 0, number = 0; count < 1000; number++) {
		snprintf(names[count], STRIDE, "%u", number);
		if (fnv(names[count]) % 256 == 0)
			add(count, count + 1), count++;
	}
	expect_found(1000, 1);
}

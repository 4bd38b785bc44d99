/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the counters' tables has a name of its own, a unit and a meaning, of lengths that
 * fit a message. */
#include <criterion/criterion.h>
#include <string.h>

#include "bus/control.h"
#include "bus/counters.h"

static const struct {
	enum tb_scope scope;
	size_t count;
} scopes[] = {
	{ TB_SCOPE_BUS, BUS_COUNTERS },
	{ TB_SCOPE_TOPIC, TOPIC_COUNTERS },
	{ TB_SCOPE_SUBSCRIPTION, SUBSCRIPTION_COUNTERS },
};

static void row_check(const struct tb_counter *row)
{
	const size_t name = strlen(row->name), unit = strlen(row->unit);

	cr_assert(name >= 1 && name <= CONTROL_COUNTER_NAME_MAX, "%s", row->name);
	cr_assert_eq(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789_"), name, "%s",
		     row->name);
	cr_assert(unit >= 1 && unit <= CONTROL_COUNTER_UNIT_MAX, "%s", row->unit);
	cr_assert_eq(strspn(row->unit, "abcdefghijklmnopqrstuvwxyz"), unit, "%s", row->unit);
	cr_assert_gt(strlen(row->meaning), 10, "%s", row->name);
	for (const char *c = row->meaning; *c; c++)
		cr_assert(*c >= ' ' && *c <= '~', "%s", row->name);
}

Test(counters, every_row_has_name_unit_and_meaning)
{
	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		size_t count = 0;
		const struct tb_counter *table = tb_counters(scopes[i].scope, &count);

		cr_assert_not_null(table);
		cr_assert_eq(count, scopes[i].count);
		for (size_t row = 0; row < count; row++) {
			row_check(&table[row]);
			for (size_t other = 0; other < row; other++)
				cr_assert_str_neq(table[row].name, table[other].name);
		}
	}
}

Test(counters, scope_without_table_is_empty)
{
	size_t count = 99;

	cr_expect_null(tb_counters(TB_SCOPE_FEED, &count));
	cr_expect_eq(count, 0);
	count = 99;
	cr_expect_null(tb_counters((enum tb_scope)77, &count));
	cr_expect_eq(count, 0);
}

Test(counters, adding_counts_up_and_down)
{
	_Atomic uint64_t counter = 0;

	counter_add(&counter, 3);
	counter_add(&counter, UINT64_MAX); /* counts down */
	cr_expect_eq(counter, 2);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Only the touched pages of a large table cost memory, also after an earlier table was freed. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bus/sparse.h"

#define COUNT 16384
#define BYTES 40
#define PAGES 256 /* more than the table has */

static unsigned int pages_resident(const char *table, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const uintptr_t first = (uintptr_t)table / page * page;
	const size_t length = (uintptr_t)table + bytes - first;
	unsigned char found[PAGES];
	unsigned int resident = 0;

	cr_assert_leq(length, PAGES * page);
	cr_assert_eq(mincore((void *)first, length, found), 0);
	for (size_t i = 0; i * page < length; i++)
		resident += found[i] & 1;
	return resident;
}

Test(sparse, only_touched_pages_are_resident)
{
	for (unsigned int life = 0; life < 4; life++) {
		char *table = sparse_new(COUNT, BYTES);

		cr_assert_not_null(table);
		memset(table, 1, BYTES);
		cr_expect_leq(pages_resident(table, (size_t)COUNT * BYTES), 2, "life %u: %u pages",
			      life, pages_resident(table, (size_t)COUNT * BYTES));
		memset(table, 1, (size_t)COUNT * BYTES);
		sparse_free(table, COUNT, BYTES);
	}
}

Test(sparse, tables_are_zero)
{
	static const size_t counts[] = { 1, 100, 1638, 1639, COUNT };

	for (unsigned int life = 0; life < 3; life++)
		for (unsigned int i = 0; i < 5; i++) {
			char *table = sparse_new(counts[i], BYTES);

			cr_assert_not_null(table);
			for (size_t byte = 0; byte < counts[i] * BYTES; byte++)
				cr_assert_eq(table[byte], 0, "byte %zu of %zu elements", byte,
					     counts[i]);
			memset(table, 1, counts[i] * BYTES);
			sparse_free(table, counts[i], BYTES);
		}
}

Test(sparse, too_large_a_table_is_no_memory)
{
	cr_expect_null(sparse_new(SIZE_MAX / BYTES + 1, BYTES));
	cr_expect_null(sparse_new(SIZE_MAX / 8, 8));
	sparse_free(NULL, SIZE_MAX / 8, 8);
	sparse_free(NULL, 0, BYTES);
}

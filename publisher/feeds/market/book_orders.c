/* SPDX-License-Identifier: Apache-2.0 */
/* O-I1  A reference hashes to a group. From there up to the group of its order, but not that group,
 *       each group counts the order in `passed`. So a search ends at a group with a count of 0.
 * O-I2  With the fast hash, at most one operation takes more than BOOK_ORDERS_STEPS steps. */
#include "publisher/feeds/market/book_orders.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bus/error.h"

#define BITS_FIRST 9
#define GROUP      BOOK_ORDERS_GROUP
#define PAGE_BYTES ((size_t)2 << 20) /* of a huge page */
#define ONES       UINT64_C(0x0101010101010101)
#define HIGHS      UINT64_C(0x0080808080808080) /* of the tags; the last byte is `passed` */
#define LAST_PLACE (UINT64_C(0x80) << (8 * (GROUP - 1)))
#define LIVE       0x80 /* in each tag */

static_assert(sizeof(struct book_order) == 24, "orders are what the memory of a book is");
static_assert(sizeof(union book_orders_tags) == sizeof(uint64_t), "tags in a word");
static_assert(GROUP * BOOK_ORDERS_STEPS < UINT8_MAX,
	      "with the fast hash `passed` is exact: those orders are in the next groups");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first tag is the lowest byte");

/* Exchanges number orders upwards: the golden ratio spreads neighbours far apart. Inlined, so that
 * the fast hash does not pay for the other. */
static inline __attribute__((always_inline)) uint64_t hash_of(const struct book_orders *orders,
							      uint64_t reference, bool keyed)
{
	return keyed ? keyed_hash(&orders->key, &reference, sizeof(reference))
		     : reference * UINT64_C(0x9e3779b97f4a7c15);
}

static inline size_t home(const struct book_orders *orders, uint64_t hash)
{
	return (size_t)(hash >> orders->shift);
}

/* From the bits below those of the group. */
static inline uint8_t tag_of(const struct book_orders *orders, uint64_t hash)
{
	return (uint8_t)(hash >> (orders->shift - 7)) | LIVE;
}

/* The high bit of each place with this tag. Another place may be marked too, but only behind the
 * first with this tag. */
static inline uint64_t matches(uint64_t tags, uint8_t tag)
{
	const uint64_t others = tags ^ (ONES * tag);

	return (others - ONES) & ~others & HIGHS;
}

static inline uint64_t free_places(uint64_t tags)
{
	return ~tags & HIGHS;
}

static inline unsigned first_place(uint64_t places)
{
	return (unsigned)__builtin_ctzll(places) / 8;
}

/* -- memory -------------------------------------------------------------------------------------
 */

static size_t bytes_of(const struct book_orders *orders)
{
	return (orders->mask + 1) * (sizeof(*orders->groups) + sizeof(*orders->tags));
}

/* Zeroed memory, or NULL. A table of huge pages is aligned to them. */
static char *memory_map(size_t bytes)
{
	const size_t more = bytes < PAGE_BYTES ? 0 : PAGE_BYTES;
	char *map = mmap(NULL, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	size_t before;

	if (map == MAP_FAILED)
		return NULL;
	if (!more)
		return map;
	before = -(uintptr_t)map & (PAGE_BYTES - 1);
	if (before)
		munmap(map, before);
	munmap(map + before + bytes, more - before);
	madvise(map + before, bytes, MADV_HUGEPAGE);
	return map + before;
}

/* Makes the memory of a table whose mask is set. */
static int groups_open(struct book_orders *orders)
{
	char *memory = memory_map(bytes_of(orders));

	orders->groups = NULL;
	if (!memory)
		return error_set(ENOMEM, "order book: no memory for %zu orders",
				 (orders->mask + 1) * GROUP);
	orders->groups = (void *)memory;
	orders->tags = (void *)(memory + (orders->mask + 1) * sizeof(*orders->groups));
	return 0;
}

int book_orders_open(struct book_orders *orders)
{
	memset(orders, 0, sizeof(*orders));
	orders->mask = ((size_t)1 << BITS_FIRST) - 1;
	orders->shift = 64 - BITS_FIRST;
	orders->most = BOOK_ORDERS_MAX;
	return groups_open(orders);
}

void book_orders_close(struct book_orders *orders)
{
	if (orders->groups)
		munmap(orders->groups, bytes_of(orders));
	memset(orders, 0, sizeof(*orders));
}

void book_orders_clear(struct book_orders *orders)
{
	memset(orders->groups, 0, bytes_of(orders));
	orders->count = 0;
}

/* -- search -------------------------------------------------------------------------------------
 */

/* The order, or NULL. *steps: the groups that were passed. */
static inline __attribute__((always_inline)) struct book_order *
search(const struct book_orders *orders, uint64_t reference, bool keyed, size_t *steps)
{
	const uint64_t hash = hash_of(orders, reference, keyed);
	const uint8_t tag = tag_of(orders, hash);

	for (*steps = 0; *steps <= orders->mask; ++*steps) {
		const size_t at = (home(orders, hash) + *steps) & orders->mask;
		const union book_orders_tags tags = orders->tags[at];

		for (uint64_t places = matches(tags.word, tag); places; places &= places - 1) {
			struct book_order *order = &orders->groups[at][first_place(places)];

			if (order->reference == reference)
				return order;
		}
		if (!tags.passed)
			return NULL;
	}
	return NULL;
}

/* Adds an order whose reference is not in the table, which has room. Returns the groups that it
 * passed. */
static inline __attribute__((always_inline)) size_t put(struct book_orders *orders,
							const struct book_order *order, bool keyed)
{
	const uint64_t hash = hash_of(orders, order->reference, keyed);
	size_t at = home(orders, hash), steps = 0;
	unsigned place;

	for (; !free_places(orders->tags[at].word); steps++) {
		if (orders->tags[at].passed < UINT8_MAX)
			orders->tags[at].passed++; /* O-I1 */
		at = (at + 1) & orders->mask;
	}
	place = first_place(free_places(orders->tags[at].word));
	orders->tags[at].tags[place] = tag_of(orders, hash);
	orders->groups[at][place] = *order;
	orders->count++;
	return steps;
}

/* Moves all orders to a table of the given shape and hash: 0 or -ENOMEM. */
static int move(struct book_orders *orders, struct book_orders *to)
{
	const int result = groups_open(to);

	if (result < 0)
		return result;
	to->count = 0;
	for (size_t i = 0; i <= orders->mask; i++)
		for (unsigned place = 0; place < GROUP; place++)
			if (orders->tags[i].tags[place])
				put(to, &orders->groups[i][place], to->keyed);
	munmap(orders->groups, bytes_of(orders));
	*orders = *to;
	return 0;
}

/* Ends the use of the fast hash. Without memory or a random number, the next long search tries it
 * again. */
static __attribute__((noinline)) void use_key(struct book_orders *orders)
{
	struct book_orders to = *orders;

	to.keyed = true;
	if (keyed_open(&to.key) == 0)
		move(orders, &to);
}

static __attribute__((noinline)) struct book_order *find_keyed(const struct book_orders *orders,
							       uint64_t reference)
{
	size_t steps;

	return orders->keyed ? search(orders, reference, true, &steps)
			     : search(orders, reference, false, &steps);
}

static __attribute__((noinline)) struct book_order *find_long(struct book_orders *orders,
							      uint64_t reference)
{
	use_key(orders);
	return find_keyed(orders, reference);
}

struct book_order *book_orders_find(struct book_orders *orders, uint64_t reference)
{
	struct book_order *order;
	size_t steps;

	if (__builtin_expect(orders->keyed, 0))
		return find_keyed(orders, reference);
	order = search(orders, reference, false, &steps);
	return __builtin_expect(steps > BOOK_ORDERS_STEPS, 0) ? find_long(orders, reference)
							      : order;
}

void book_orders_fetch_tags(const struct book_orders *orders, uint64_t reference)
{
	__builtin_prefetch(&orders->tags[home(orders, hash_of(orders, reference, false))], 1);
}

/* Without a branch, since half of all messages add an order. */
void book_orders_fetch(const struct book_orders *orders, uint64_t reference)
{
	const uint64_t hash = hash_of(orders, reference, false);
	const size_t at = home(orders, hash);
	const uint64_t tags = orders->tags[at].word;
	const uint64_t found = matches(tags, tag_of(orders, hash));
	const uint64_t otherwise = free_places(tags) & -(uint64_t)(found == 0);
	const char *order =
		(const char *)&orders->groups[at][first_place(found | otherwise | LAST_PLACE)];

	__builtin_prefetch(order, 1);
	__builtin_prefetch(order + sizeof(struct book_order) - 1, 1);
}

static __attribute__((noinline)) void add_keyed(struct book_orders *orders,
						const struct book_order *order)
{
	put(orders, order, true);
}

void book_orders_add(struct book_orders *orders, const struct book_order *order)
{
	if (__builtin_expect(orders->keyed, 0))
		add_keyed(orders, order);
	else if (__builtin_expect(put(orders, order, false) > BOOK_ORDERS_STEPS, 0))
		use_key(orders);
}

int book_orders_reserve(struct book_orders *orders)
{
	struct book_orders to = *orders;

	if (orders->count >= orders->most)
		return error_set(
			EOVERFLOW,
			"order book: found another order beside %zu live orders, expected at "
			"most that many",
			orders->count);
	if (orders->count < (orders->mask + 1) / 4 * 3 * GROUP)
		return 0;
	to.mask = orders->mask * 2 + 1;
	to.shift--;
	return move(orders, &to);
}

/* -- removal ------------------------------------------------------------------------------------
 */

static inline __attribute__((always_inline)) void
take_out(struct book_orders *orders, const struct book_order *order, bool keyed)
{
	const size_t place = (size_t)(order - orders->groups[0]);
	const size_t at = place / GROUP;
	size_t i = home(orders, hash_of(orders, order->reference, keyed));

	for (; __builtin_expect(i != at, 0); i = (i + 1) & orders->mask)
		if (orders->tags[i].passed < UINT8_MAX)
			orders->tags[i].passed--; /* O-I1 */
	orders->tags[at].tags[place % GROUP] = 0;
	orders->count--;
}

static __attribute__((noinline)) void remove_keyed(struct book_orders *orders,
						   const struct book_order *order)
{
	take_out(orders, order, true);
}

void book_orders_remove(struct book_orders *orders, struct book_order *order)
{
	if (__builtin_expect(orders->keyed, 0))
		remove_keyed(orders, order);
	else
		take_out(orders, order, false);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Books equal a reference that sorts all orders again after each change. Every changed symbol is
 * touched. Memory stays within its bound. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "publisher/feeds/market/book.h"
#include "tickbus/error.h"

#define POOL    256 /* references of a run */
#define SYMBOLS 3

static const uint16_t locates[SYMBOLS] = { 0, 7, 65535 };

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static uint64_t below(uint64_t *state, uint64_t bound)
{
	return draw(state) % bound;
}

struct reference {
	struct book_order orders[POOL]; /* valid if live is set */
	size_t count;
};

static struct book_order *find(struct reference *reference, uint64_t number)
{
	for (size_t i = 0; i < reference->count; i++)
		if (reference->orders[i].reference == number)
			return &reference->orders[i];
	return NULL;
}

static struct book_order *find_of(struct reference *reference, uint16_t locate, uint64_t number)
{
	struct book_order *order = find(reference, number);

	return order && order->locate == locate ? order : NULL;
}

static void drop(struct reference *reference, struct book_order *order)
{
	*order = reference->orders[--reference->count];
}

static int by_price(const void *left, const void *right)
{
	uint32_t a = ((const struct book_order *)left)->price;
	uint32_t b = ((const struct book_order *)right)->price;

	return (a > b) - (a < b);
}

/* Writes the levels of one side, worst first; returns their number. */
static uint32_t levels_of(const struct reference *reference, uint16_t locate, unsigned side,
			  struct book_level *levels)
{
	struct book_order orders[POOL];
	uint32_t count = 0, level_count = 0;

	for (size_t i = 0; i < reference->count; i++)
		if (reference->orders[i].locate == locate && reference->orders[i].side == side)
			orders[count++] = reference->orders[i];
	qsort(orders, count, sizeof(*orders), by_price);
	for (uint32_t i = 0; i < count; i++) {
		const struct book_order *order = &orders[side == BOOK_BUY ? i : count - 1 - i];

		if (!i || book_price(side, &levels[level_count - 1]) != order->price)
			levels[level_count++] = (struct book_level){
				.rank = side == BOOK_BUY ? order->price : ~order->price,
			};
		levels[level_count - 1].size += order->shares;
		levels[level_count - 1].orders++;
	}
	return level_count;
}

struct side_copy {
	struct book_level levels[POOL];
	uint32_t count;
};

struct copy {
	struct side_copy sides[SYMBOLS][2];
};

static void copy_books(const struct book *book, struct copy *copy)
{
	for (unsigned i = 0; i < SYMBOLS * 2; i++) {
		const struct book_side *side = &book->symbols[locates[i / 2]].sides[i % 2];
		struct side_copy *to = &copy->sides[i / 2][i % 2];

		to->count = side->count;
		if (side->count)
			memcpy(to->levels, side->levels, side->count * sizeof(*side->levels));
	}
}

static void check_books(const struct book *book, const struct reference *reference)
{
	cr_assert_eq(book->orders.count, reference->count);
	for (unsigned i = 0; i < SYMBOLS * 2; i++) {
		const struct book_side *side = &book->symbols[locates[i / 2]].sides[i % 2];
		struct book_level levels[POOL];

		cr_assert_eq(side->count, levels_of(reference, locates[i / 2], i % 2, levels));
		if (side->count)
			cr_assert_eq(
				memcmp(side->levels, levels, side->count * sizeof(*side->levels)),
				0);
	}
}

/* The number of equal levels from the best, for levels at least as good as this. */
static uint32_t same_from_best(const struct side_copy *before, const struct book_side *after)
{
	uint32_t same = 0;

	while (same < before->count && same < after->count &&
	       !memcmp(&before->levels[before->count - 1 - same], book_level(after, same),
		       sizeof(struct book_level)))
		same++;
	return same == before->count && same == after->count ? UINT32_MAX : same;
}

static void check_touched(const struct book *book, const struct copy *before)
{
	for (unsigned i = 0; i < SYMBOLS * 2; i++) {
		const struct book_side *after = &book->symbols[locates[i / 2]].sides[i % 2];
		uint32_t same = same_from_best(&before->sides[i / 2][i % 2], after);
		uint32_t touched = UINT32_MAX;

		for (unsigned j = 0; j < book->touched_count; j++)
			if (book->touched[j].locate == locates[i / 2])
				touched = book->touched[j].depth;
		cr_assert_leq(touched, same, "symbol %u side %u: touched %u, changed at %u", i / 2,
			      i % 2, touched, same);
	}
}

/* Applies the rules to the reference; returns the flags that the book must return. */

static int reference_add(struct reference *reference, const struct book_order *order)
{
	struct book_order *old = find(reference, order->reference);
	int flags = old ? BOOK_LIVE : 0;

	if (old)
		drop(reference, old);
	reference->orders[reference->count++] = *order;
	return flags;
}

static int reference_reduce(struct reference *reference, uint16_t locate, uint64_t number,
			    uint32_t shares, struct book_order *taken)
{
	struct book_order *order = find_of(reference, locate, number);
	int flags;

	if (!order)
		return BOOK_UNKNOWN;
	flags = shares > order->shares ? BOOK_CLAMPED : 0;
	*taken = *order;
	taken->shares = shares < order->shares ? shares : order->shares;
	order->shares -= taken->shares;
	if (!order->shares)
		drop(reference, order);
	return flags;
}

static int reference_replace(struct reference *reference, const struct book_order *with,
			     uint64_t number)
{
	struct book_order *order = find_of(reference, with->locate, number), new = *with;

	if (!order)
		return BOOK_UNKNOWN;
	new.side = order->side;
	drop(reference, order);
	return reference_add(reference, &new);
}

/* References that all hash to the last and first groups of the smallest table: as crowded as
 * possible, around its end. */
static void choose_references(uint64_t *references, uint64_t *seed, bool close)
{
	for (unsigned i = 0; i < POOL;) {
		uint64_t number = draw(seed);
		uint64_t home = (number * UINT64_C(0x9e3779b97f4a7c15)) >> 55;

		if (!close || home >= 0x1fe || home <= 1)
			references[i++] = number;
	}
}

static void check_order(const struct book_order *found, const struct book_order *expected)
{
	cr_assert_eq(found->reference, expected->reference);
	cr_assert_eq(found->price, expected->price);
	cr_assert_eq(found->shares, expected->shares);
	cr_assert_eq(found->locate, expected->locate);
	cr_assert_eq(found->side, expected->side);
}

struct run {
	struct book book;
	struct reference reference;
	uint64_t references[POOL];
	unsigned met[8]; /* how often each combination of flags occurred */
};

static void step(struct run *run, uint64_t *seed, uint32_t prices, uint32_t sizes)
{
	uint64_t number = run->references[below(seed, POOL)];
	struct book_order taken = { 0 }, expected = { 0 },
			  order = {
				  .reference = run->references[below(seed, POOL)],
				  .price = below(seed, 40)
						   ? (uint32_t)(1000 + below(seed, prices))
						   : (uint32_t)(below(seed, 2) ? 0 : UINT32_MAX),
				  .shares = (uint32_t)(below(seed, 20) ? below(seed, sizes)
								       : UINT32_MAX),
				  .locate = locates[below(seed, SYMBOLS)],
				  .side = (uint8_t)below(seed, 2),
			  };
	const struct book_order *changed = find(&run->reference, number);
	int found, flags;

	if (changed && below(seed, 10)) /* now and then the locate is that of another symbol */
		order.locate = changed->locate;
	switch (below(seed, 8)) {
	case 0:
	case 1:
	case 2:
		found = book_add(&run->book, &order);
		flags = reference_add(&run->reference, &order);
		break;
	case 3:
	case 4:
		found = book_reduce(&run->book, order.locate, number, order.shares, &taken);
		flags = reference_reduce(&run->reference, order.locate, number, order.shares,
					 &expected);
		check_order(&taken, &expected);
		break;
	case 5:
		found = book_delete(&run->book, order.locate, number);
		flags = reference_reduce(&run->reference, order.locate, number, UINT32_MAX,
					 &expected) &
			BOOK_UNKNOWN;
		break;
	default:
		found = book_replace(&run->book, order.locate, number, order.reference,
				     order.shares, order.price);
		flags = reference_replace(&run->reference, &order, number);
	}
	cr_assert_eq(found, flags);
	run->met[flags]++;
}

static void run_once(uint64_t seed)
{
	static struct run run;
	static struct copy before;
	uint64_t state = seed;
	uint32_t prices = (uint32_t[]){ 3, 30, 300 }[seed % 3];

	cr_log_info("seed %llu", (unsigned long long)seed);
	memset(&run, 0, sizeof(run));
	choose_references(run.references, &state, seed % 2);
	cr_assert_eq(book_open(&run.book), 0);
	for (unsigned i = 0; i < 4000; i++) {
		copy_books(&run.book, &before);
		step(&run, &state, prices, 500);
		check_books(&run.book, &run.reference);
		check_touched(&run.book, &before);
	}
	cr_assert(run.met[0] && run.met[BOOK_UNKNOWN] && run.met[BOOK_CLAMPED] &&
		  run.met[BOOK_LIVE]);
	book_clear(&run.book);
	run.reference.count = 0;
	check_books(&run.book, &run.reference);
	for (unsigned i = 0; i < POOL; i++)
		cr_assert_eq(book_delete(&run.book, locates[i % SYMBOLS], run.references[i]),
			     BOOK_UNKNOWN);
	book_close(&run.book);
}

Test(book, random_changes_match_a_naive_reference_book)
{
	for (uint64_t seed = 1; seed <= 12; seed++)
		run_once(seed);
}

Test(book, order_replaced_by_its_own_reference_is_not_counted_live)
{
	struct book_order order = { .reference = 5, .price = 10, .shares = 3, .side = BOOK_SELL };
	struct book book;

	cr_assert_eq(book_open(&book), 0);
	cr_assert_eq(book_add(&book, &order), 0);
	cr_assert_eq(book_replace(&book, 0, 5, 5, 7, 11), 0);
	cr_assert_eq(book.orders.count, 1);
	cr_assert_eq(book_price(BOOK_SELL, book_level(&book.symbols[0].sides[BOOK_SELL], 0)), 11);
	cr_assert_eq(book_level(&book.symbols[0].sides[BOOK_SELL], 0)->size, 7);
	book_close(&book);
}

/* A far level: itself and a node of three words, each with a word of malloc. */
#define FAR_BYTES 64

/* Doubling holds the old table beside the new. The book's array of far levels takes no memory
 * before a symbol uses it, and then a page. */
static size_t bytes_of(const struct book *book)
{
	size_t bytes = (book->orders.mask + 1) *
		       (sizeof(*book->orders.groups) + sizeof(*book->orders.tags)) * 3 / 2;

	for (unsigned i = 0; i < BOOK_SYMBOLS * 2; i++) {
		const uint32_t far = book->far[i / 2][i % 2].count;

		bytes += book->symbols[i / 2].sides[i % 2].capacity * sizeof(struct book_level) +
			 far * FAR_BYTES + (far ? 4096 : 0);
	}
	return bytes + BOOK_SYMBOLS * sizeof(struct book_symbol);
}

/* In the first book, live orders share a few levels. In the others, which no market has, each has
 * its own level: of many symbols, and of a single symbol. */
Test(book, live_order_takes_less_than_200_bytes)
{
	struct book book;

	for (uint32_t run = 0; run < 3; run++) {
		const uint32_t levels = run ? UINT32_MAX : 100, symbols = run < 2 ? 8000 : 1;

		cr_assert_eq(book_open(&book), 0);
		for (uint32_t i = 1; i <= 400000; i++) {
			struct book_order order = {
				.reference = i,
				.price = i % levels,
				.shares = 1,
				.locate = (uint16_t)(i % symbols),
				.side = i / symbols % 2,
			};

			cr_assert_eq(book_add(&book, &order), 0);
			if (i % 10000 == 0 && i >= (run < 2 ? 50000 : 150000))
				cr_assert_lt(bytes_of(&book), (size_t)i * 200);
		}
		book_close(&book);
	}
}

Test(book, unopened_book_can_be_closed)
{
	struct book book = { 0 };

	book_close(&book);
	book_close(&book);
}

/* -- many levels --------------------------------------------------------------------------------
 */

#define PRICES 1500

static struct book_level
	naive[PRICES]; /* of a symbol's buying side, by price; orders 0: no level */

static uint32_t naive_count(void)
{
	uint32_t count = 0;

	for (uint32_t price = 0; price < PRICES; price++)
		count += naive[price].orders > 0;
	return count;
}

/* The near levels are the best, in order; the others are far. */
static void check_levels(const struct book *book)
{
	const struct book_side *side = &book->symbols[0].sides[BOOK_BUY];
	const struct book_far *far = &book->far[0][BOOK_BUY];
	uint32_t near = 0, all = naive_count();

	cr_assert_eq(side->count + far->count, all);
	cr_assert_eq(side->far, far->count > 0);
	cr_assert_leq(side->count, BOOK_NEAR_MAX);
	cr_assert(!far->count || side->count >= BOOK_NEAR_MIN, "%u near levels", side->count);
	for (uint32_t price = PRICES; price--;) {
		const struct book_level *level;

		if (!naive[price].orders)
			continue;
		level = near < side->count ? book_level(side, near++) : book_far_find(far, price);
		cr_assert(level && level->rank == price, "price %u", price);
		cr_assert_eq(memcmp(level, &naive[price], sizeof(*level)), 0, "price %u", price);
	}
}

/* A price has at most two orders, which its reference names. */
static void order_delete(struct book *book, uint32_t price, unsigned which)
{
	if (book_delete(book, 0, 2 * price + which) == BOOK_UNKNOWN)
		return;
	naive[price].size -= price + 1;
	naive[price].orders--;
}

static void order_toggle(struct book *book, uint32_t price, unsigned which)
{
	const uint64_t reference = 2 * price + which;
	struct book_order order = { .reference = reference, .price = price, .shares = price + 1 };

	if (book_delete(book, 0, reference) == 0) {
		naive[price].size -= order.shares;
		naive[price].orders--;
		return;
	}
	cr_assert_eq(book_add(book, &order), 0);
	naive[price].size += order.shares;
	naive[price].orders++;
}

Test(book, many_levels_match_a_naive_side_in_any_order)
{
	static const char phases[] = "+d+-r-+brwrdbw-";
	uint64_t state = 7;
	struct book book;

	cr_assert_eq(book_open(&book), 0);
	for (uint32_t price = 0; price < PRICES; price++)
		naive[price] = (struct book_level){ .rank = price };
	for (const char *phase = phases; *phase; phase++)
		for (uint32_t i = 0; i < PRICES; i++) {
			uint32_t price = *phase == '+' ? i : PRICES - 1 - i;

			if (*phase == 'r') /* anywhere; at the best; at the worst */
				price = (uint32_t)below(&state, PRICES);
			if (*phase == 'b')
				price = PRICES - 1 - (uint32_t)below(&state, 40);
			if (*phase == 'w')
				price = (uint32_t)below(&state, 40);
			if (*phase == 'd') { /* the best first */
				order_delete(&book, price, 0);
				order_delete(&book, price, 1);
			} else {
				order_toggle(&book, price, (unsigned)below(&state, 2));
			}
			if (i % 7 == 0 || i == PRICES - 1)
				check_levels(&book);
		}
	book_clear(&book);
	cr_assert_eq(book.far[0][BOOK_BUY].count, 0);
	cr_assert_eq(book.symbols[0].sides[BOOK_BUY].far, 0);
	book_close(&book);
}

/* -- references that collide --------------------------------------------------------------------
 */

#define CROWD   20000
#define INVERSE UINT64_C(0xf1de83e19937733d) /* times the golden ratio of the fast hash: 1 */

/* The longest row of groups that an order has passed: what a search may have to pass. */
static size_t longest_row(const struct book_orders *orders)
{
	size_t row = 0, longest = 0;

	for (size_t i = 0; i <= 2 * orders->mask; i++) {
		row = orders->tags[i & orders->mask].passed ? row + 1 : 0;
		longest = row > longest ? row : longest;
	}
	return longest;
}

/* Each order is counted in the groups before its own, from the group that it hashes to. */
static void check_passed(const struct book_orders *orders)
{
	uint8_t *passed = calloc(orders->mask + 1, 1);
	size_t count = 0;

	for (size_t i = 0; i <= orders->mask; i++)
		for (unsigned place = 0; place < BOOK_ORDERS_GROUP; place++) {
			const uint64_t reference = orders->groups[i][place].reference;

			if (!orders->tags[i].tags[place])
				continue;
			count++;
			for (size_t at =
				     (reference * UINT64_C(0x9e3779b97f4a7c15)) >> orders->shift;
			     at != i; at = (at + 1) & orders->mask)
				passed[at]++;
		}
	cr_assert_eq(count, orders->count);
	for (size_t i = 0; i <= orders->mask; i++)
		cr_assert_eq(orders->tags[i].passed, passed[i]);
	free(passed);
}

static void add_crowd(struct book *book, uint64_t count, uint64_t step)
{
	for (uint64_t i = 0; i < count; i++) {
		struct book_order order = { .reference = i * step, .shares = 1 };

		cr_assert_eq(book_add(book, &order), 0);
	}
}

static void find_crowd(struct book *book, uint64_t count, uint64_t step)
{
	for (uint64_t i = 0; i < count; i++) {
		const struct book_order *found = book_orders_find(&book->orders, i * step);

		cr_assert(found && found->reference == i * step);
	}
}

/* All have the same place by the fast hash. */
Test(book, references_that_collide_make_no_long_row)
{
	struct book book;

	cr_assert_eq(INVERSE * UINT64_C(0x9e3779b97f4a7c15), 1);
	cr_assert_eq(book_open(&book), 0);
	add_crowd(&book, CROWD, INVERSE);
	cr_assert_lt(longest_row(&book.orders), BOOK_ORDERS_STEPS);
	find_crowd(&book, CROWD, INVERSE);
	book_clear(&book);
	add_crowd(&book, CROWD, INVERSE);
	cr_assert_lt(longest_row(&book.orders), BOOK_ORDERS_STEPS);
	book_close(&book);
}

/* A reference that hashes to this group in a table of this size. */
static uint64_t reference_of(const struct book_orders *orders, size_t group, uint64_t number)
{
	return INVERSE * ((group << orders->shift) + number);
}

static void add_one(struct book *book, uint64_t reference)
{
	struct book_order order = { .reference = reference, .shares = 1 };

	cr_assert_eq(book_add(book, &order), 0);
}

/* An order passes as many groups as an order may pass, and the next begins where it stopped. No add
 * is long, but a search is. */
Test(book, groups_in_a_row_do_not_stay_in_a_row)
{
	struct book book;
	const size_t rows = 4, groups = rows * BOOK_ORDERS_STEPS;

	cr_assert_eq(book_open(&book), 0);
	add_crowd(&book, CROWD, 1); /* the table grows; it keeps its size */
	for (uint64_t i = 0; i < CROWD; i++)
		cr_assert_eq(book_delete(&book, 0, i), 0);
	for (size_t group = 0; group < groups; group++)
		for (uint64_t i = group && group % BOOK_ORDERS_STEPS == 0; i < BOOK_ORDERS_GROUP;
		     i++)
			add_one(&book, reference_of(&book.orders, group, i));
	for (size_t group = 0; group < groups; group += BOOK_ORDERS_STEPS)
		add_one(&book, reference_of(&book.orders, group, BOOK_ORDERS_GROUP));
	cr_assert_not(book.orders.keyed);
	cr_assert_eq(longest_row(&book.orders), groups);
	check_passed(&book.orders);
	cr_assert_eq(book_delete(&book, 0, reference_of(&book.orders, 0, BOOK_ORDERS_GROUP + 1)),
		     BOOK_UNKNOWN);
	cr_assert(book.orders.keyed);
	cr_assert_lt(longest_row(&book.orders), BOOK_ORDERS_STEPS);
	book_close(&book);
}

/* No search is long before: the groups are full, and no order has passed them. */
Test(book, add_that_passes_many_groups_ends_the_fast_hash)
{
	struct book book;

	cr_assert_eq(book_open(&book), 0);
	add_crowd(&book, CROWD, 1);
	for (uint64_t i = 0; i < CROWD; i++)
		cr_assert_eq(book_delete(&book, 0, i), 0);
	for (size_t group = 0; group <= BOOK_ORDERS_STEPS; group++)
		for (uint64_t i = 0; i < BOOK_ORDERS_GROUP; i++)
			add_one(&book, reference_of(&book.orders, group, i));
	cr_assert_eq(longest_row(&book.orders), 0);
	cr_assert_not(book.orders.keyed);
	add_one(&book, reference_of(&book.orders, 0, BOOK_ORDERS_GROUP));
	cr_assert(book.orders.keyed);
	cr_assert_lt(longest_row(&book.orders), BOOK_ORDERS_STEPS);
	book_close(&book);
}

/* Orders that passed groups are removed in any order. */
Test(book, removed_order_leaves_no_mark_in_the_groups_it_passed)
{
	enum { ORDERS = 20 * BOOK_ORDERS_GROUP };
	uint64_t state = 5, references[ORDERS];
	struct book book;

	cr_assert_eq(book_open(&book), 0);
	for (unsigned i = 0; i < ORDERS; i++) {
		references[i] = reference_of(&book.orders, book.orders.mask - 3 + i % 2, i);
		add_one(&book, references[i]);
	}
	cr_assert_gt(longest_row(&book.orders), 10);
	for (unsigned left = ORDERS; left; left--) {
		const unsigned i = (unsigned)below(&state, left);

		check_passed(&book.orders);
		cr_assert_eq(book_delete(&book, 0, references[i]), 0);
		references[i] = references[left - 1];
	}
	cr_assert_not(book.orders.keyed);
	cr_assert_eq(longest_row(&book.orders), 0);
	book_close(&book);
}

/* Exchanges number orders upwards, with gaps: these keep the fast hash. */
Test(book, references_of_an_exchange_keep_the_fast_hash)
{
	uint64_t state = 1, reference = 0;
	struct book book;

	cr_assert_eq(book_open(&book), 0);
	for (unsigned i = 0; i < 300000; i++) {
		struct book_order order = { .reference = (reference += 1 + below(&state, 5)),
					    .shares = 1 };

		cr_assert_eq(book_add(&book, &order), 0);
	}
	cr_assert_not(book.orders.keyed);
	book_close(&book);
}

/* Equal keys would let a stranger learn the places of references from a table of its own. */
Test(book, each_table_has_its_own_key)
{
	struct book books[2];

	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(book_open(&books[i]), 0);
		add_crowd(&books[i], CROWD, INVERSE);
		cr_assert(books[i].orders.keyed);
	}
	cr_assert_neq(memcmp(&books[0].orders.key, &books[1].orders.key, KEYED_BYTES), 0);
	book_close(&books[0]);
	book_close(&books[1]);
}

/* A file that decompresses to terabytes of new orders ends the feed, not the machine's memory. */
Test(book, live_orders_have_a_bound)
{
	struct book book;

	cr_assert_eq(book_open(&book), 0);
	cr_assert_eq(book.orders.most, BOOK_ORDERS_MAX);
	book.orders.most = 100;
	for (uint64_t i = 0; i < 103; i++) {
		struct book_order order = { .reference = i, .price = 1, .shares = 1 };

		cr_assert_eq(book_add(&book, &order), i < 100 ? 0 : -EOVERFLOW);
	}
	cr_assert_str_eq(tb_error(), "order book: found another order beside 100 live orders, "
				     "expected at most that many");
	cr_assert_eq(book_level(&book.symbols[0].sides[BOOK_BUY], 0)->orders, 100);
	cr_assert_eq(book_delete(&book, 0, 50), 0);
	cr_assert_eq(book_replace(&book, 0, 51, 51, 2, 2), 0);
	cr_assert_eq(book.orders.count, 99);
	book_close(&book);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection without a hello gives way to another. A list of all connections in their order
 * is the model. */
#include <criterion/criterion.h>

#include "bus/shm/shm_waits.h"
#include "tests/support/random.h"

#define USERS    5
#define MOST     40
#define STEPS    4000
#define USER_MAX 8

static struct shm_waits waits;
static struct shm_wait connections[MOST];
static uid_t user_of[MOST];
static size_t order[MOST], count; /* of those that wait, the oldest first */

static unsigned int of_user(uid_t user, size_t *oldest)
{
	unsigned int found = 0;

	for (size_t i = count; i-- > 0;)
		if (user_of[order[i]] == user) {
			found++;
			*oldest = order[i];
		}
	return found;
}

static void expect_as_the_model(void)
{
	unsigned int most = 0;
	size_t oldest = 0;

	if (count == 0) {
		cr_assert_null(shm_waits_oldest(&waits));
		return;
	}
	cr_assert_eq(shm_waits_oldest(&waits), &connections[order[0]]);
	for (uid_t user = 0; user < USERS; user++) {
		const unsigned int number = of_user(user, &oldest);

		if (number > most)
			most = number;
		if (number > 0)
			cr_assert_eq(shm_waits_beyond(&waits, &connections[oldest]),
				     number > USER_MAX ? &connections[oldest] : NULL);
	}
	oldest = (size_t)(shm_waits_of_most(&waits) - connections);
	cr_assert_eq(of_user(user_of[oldest], &oldest), most);
	cr_assert_eq(shm_waits_of_most(&waits), &connections[oldest]);
}

static void wait_end(size_t at)
{
	const size_t which = order[at];

	count--;
	for (size_t i = at; i < count; i++)
		order[i] = order[i + 1];
	shm_wait_end(&waits, &connections[which]);
	shm_wait_end(&waits, &connections[which]); /* does nothing */
}

static void wait_begin(uint64_t *state)
{
	size_t which = 0;

	while (connections[which].user)
		which++;
	user_of[which] = (uid_t)random_below(state, USERS);
	order[count++] = which;
	cr_assert_eq(shm_wait_begin(&waits, &connections[which], user_of[which]), 0);
}

Test(waits, random_connections_give_way_as_in_a_list)
{
	uint64_t state = random_seed();

	shm_waits_open(&waits, USER_MAX);
	for (int step = 0; step < STEPS; step++) {
		if (count == 0 || (count < MOST && random_below(&state, 8) < 5))
			wait_begin(&state);
		else
			wait_end(random_below(&state, count));
		expect_as_the_model();
	}
	while (count > 0)
		wait_end(0);
	cr_expect_null(shm_waits_oldest(&waits));
}

/* A hostile user that connects again and again takes places from itself alone. */
Test(waits, user_with_the_most_connections_gives_way)
{
	struct shm_wait honest = { 0 };

	shm_waits_open(&waits, MOST);
	cr_assert_eq(shm_wait_begin(&waits, &honest, 1), 0);
	for (size_t i = 0; i < MOST; i++) {
		cr_assert_eq(shm_wait_begin(&waits, &connections[i], 2), 0);
		if (i == 0) /* both have the same number */
			continue;
		cr_expect_eq(shm_waits_of_most(&waits), &connections[i - 1]);
		shm_wait_end(&waits, &connections[i - 1]);
		cr_assert_eq(shm_waits_oldest(&waits), &honest);
	}
	shm_wait_end(&waits, &connections[MOST - 1]);
	shm_wait_end(&waits, &honest);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The queue between the two threads of a feed: order, wholeness, bounds and the end of waiting. */
#include "publisher/feeds/queue.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SIZE  1024
#define LINES (SIZE / 64)

static struct queue *queue;

static void enter(void)
{
	cr_assert_eq(queue_open(&queue, SIZE), 0);
}

static void leave(void)
{
	queue_free(queue);
}

TestSuite(queue, .init = enter, .fini = leave, .timeout = 60);

/* Entry `number` of that many bytes, which depend on both. */
static void put(unsigned int number, size_t bytes)
{
	uint8_t *entry = queue_room(queue, bytes);

	cr_assert_not_null(entry);
	cr_assert_eq((uintptr_t)entry % 8, 0);
	for (size_t i = 0; i < bytes; i++)
		entry[i] = (uint8_t)(number + i);
	queue_add(queue);
}

static void take(unsigned int number, size_t bytes)
{
	const uint8_t *entry = queue_first(queue);

	cr_assert_not_null(entry);
	for (size_t i = 0; i < bytes; i++)
		cr_assert_eq(entry[i], (uint8_t)(number + i), "entry %u, byte %zu", number, i);
	queue_drop(queue);
}

/* Each size comes at each place of the memory, also across its end. */
Test(queue, entries_of_any_size_come_in_order)
{
	unsigned int number = 0;

	for (size_t bytes = 1; bytes <= SIZE / 4; bytes++)
		for (unsigned int i = 0; i < 2 * LINES; i++, number++) {
			const size_t other = (bytes * 7 + i) % (SIZE / 4) + 1;

			put(number, bytes);
			put(number + 1, other);
			queue_show(queue);
			take(number, bytes);
			take(number + 1, other);
			cr_assert_null(queue_first(queue));
		}
}

Test(queue, batch_is_seen_when_it_is_shown)
{
	put(1, 8);
	cr_assert_null(queue_first(queue));
	put(2, 8);
	cr_assert_null(queue_first(queue));
	cr_assert_not(queue_wait(queue, 1, -1));
	queue_show(queue);
	cr_assert(queue_wait(queue, 1, -1));
	take(1, 8);
	take(2, 8);
	cr_assert_null(queue_first(queue));
}

Test(queue, lazy_show_is_seen_by_a_look)
{
	put(1, 8);
	queue_show_lazily(queue);
	take(1, 8);
	cr_assert_null(queue_first(queue));
}

Test(queue, queue_is_crowded_by_a_quarter)
{
	for (unsigned int i = 0; i < LINES / 4; i++) {
		cr_assert_not(queue_crowded(queue), "%u lines", i);
		put(i, 56);
	}
	cr_assert(queue_crowded(queue));
	queue_show(queue);
	cr_assert_not(queue_crowded(queue));
}

static void *put_a_line(void *filled)
{
	const bool room = queue_room(queue, 56) != NULL;

	*(bool *)filled = room;
	if (room) {
		queue_add(queue);
		queue_show(queue);
	}
	return NULL;
}

static void fill(void)
{
	for (unsigned int i = 0; i < LINES; i++)
		put(i, 56);
	queue_show(queue);
}

/* The giver waits, until the taker has taken all: it then gives the room back. */
Test(queue, giver_waits_for_room)
{
	pthread_t giver;
	bool filled = false;

	fill();
	cr_assert_eq(pthread_create(&giver, NULL, put_a_line, &filled), 0);
	for (unsigned int i = 0; i < LINES; i++)
		take(i, 56);
	while (!queue_first(queue))
		queue_wait(queue, UINT64_MAX, -1);
	cr_assert_eq(pthread_join(giver, NULL), 0);
	cr_assert(filled);
}

Test(queue, close_ends_the_wait_for_room)
{
	pthread_t giver;
	bool filled = true;

	fill();
	cr_assert_eq(pthread_create(&giver, NULL, put_a_line, &filled), 0);
	queue_close(queue);
	cr_assert_eq(pthread_join(giver, NULL), 0);
	cr_assert_not(filled);
	cr_assert(queue_closed(queue));
}

static void *wait_long(void *found)
{
	*(bool *)found = queue_wait(queue, UINT64_MAX, -1);
	return NULL;
}

Test(queue, close_ends_the_wait_for_an_entry)
{
	pthread_t taker;
	bool found = true;

	cr_assert_eq(pthread_create(&taker, NULL, wait_long, &found), 0);
	queue_close(queue);
	cr_assert_eq(pthread_join(taker, NULL), 0);
	cr_assert_not(found);
}

Test(queue, lazy_show_of_a_quarter_wakes_the_taker)
{
	pthread_t taker;
	bool found = false;

	cr_assert_eq(pthread_create(&taker, NULL, wait_long, &found), 0);
	for (unsigned int i = 0; i < LINES / 4; i++) {
		put(i, 56);
		queue_show_lazily(queue);
	}
	cr_assert_eq(pthread_join(taker, NULL), 0);
	cr_assert(found);
}

Test(queue, readable_file_ends_the_wait_for_an_entry)
{
	const int fd = eventfd(1, EFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_not(queue_wait(queue, UINT64_MAX, fd));
	close(fd);
}

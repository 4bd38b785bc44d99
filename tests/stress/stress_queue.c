/* SPDX-License-Identifier: Apache-2.0 */
/* The queue between the two threads of a feed, at full speed in a small memory. The giver adds
 * batches of entries of random sizes, and both sides now and then pause until the other side
 * sleeps. The taker checks each byte, and that it sees whole batches only. A lost wake-up would
 * hang.
 *
 * A plain program, above all for the thread sanitizer: stress-queue --entries N. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "publisher/feeds/queue.h"
#include "tests/support/random.h"

#define SIZE      4096
#define BATCH_MAX 8
#define MOST      (SIZE / 4 / BATCH_MAX - 64)

struct entry {
	uint64_t number;
	uint32_t bytes; /* behind this head */
	bool ends;      /* a batch */
};

static struct queue *queue;
static uint64_t entries = 1000000, seed;

static _Noreturn void fail(const char *what, uint64_t number)
{
	printf("not ok 1 - queue\n# entry %" PRIu64 ": %s\n", number, what);
	exit(1);
}

/* Seldom, and long enough that the other side goes to sleep. */
static void pause_seldom(uint64_t *state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	if (random_below(state, 20000) == 0)
		nanosleep(&pause, NULL);
}

static void *give(void *unused)
{
	uint64_t state = seed, left = 0;

	(void)unused;
	for (uint64_t number = 1; number <= entries; number++) {
		const uint32_t bytes = (uint32_t)random_below(&state, MOST);
		struct entry *entry = queue_room(queue, sizeof(*entry) + bytes);

		if (!entry)
			fail("found no room, expected room", number);
		if (left == 0)
			left = 1 + random_below(&state, BATCH_MAX);
		left--;
		*entry = (struct entry){ number, bytes, left == 0 || number == entries };
		memset(entry + 1, (int)(number & 0xff), bytes);
		queue_add(queue);
		if (entry->ends)
			queue_show(queue);
		pause_seldom(&state);
	}
	return NULL;
}

static void check(const struct entry *entry, uint64_t number)
{
	const uint8_t *bytes = (const uint8_t *)(entry + 1);

	if (entry->number != number)
		fail("found another entry", number);
	for (uint32_t i = 0; i < entry->bytes; i++)
		if (bytes[i] != (uint8_t)number)
			fail("found another byte", number);
}

static void take_all(void)
{
	uint64_t state = seed + 1, number = 1;
	bool ended = true;

	while (number <= entries) {
		const struct entry *entry = queue_first(queue);

		if (!entry) {
			if (!ended)
				fail("found a part of a batch", number);
			queue_wait(queue, UINT64_MAX, -1);
			continue;
		}
		check(entry, number++);
		ended = entry->ends;
		queue_drop(queue);
		pause_seldom(&state);
	}
}

int main(int count, char **arguments)
{
	pthread_t giver;

	if (count == 3 && strcmp(arguments[1], "--entries") == 0)
		entries = strtoull(arguments[2], NULL, 10);
	seed = random_seed();
	printf("1..1\n");
	if (queue_open(&queue, SIZE) < 0 || pthread_create(&giver, NULL, give, NULL) != 0)
		fail("cannot begin", 0);
	take_all();
	pthread_join(giver, NULL);
	queue_free(queue);
	printf("ok 1 - queue: %" PRIu64 " entries\n", entries);
	return 0;
}

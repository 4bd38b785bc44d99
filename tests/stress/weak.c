/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/weak.h"

#include <stdlib.h>
#include <string.h>

#define PENDING_MAX 8192
#define EVENTS_MAX  8192
#define WORDS_MAX   16384

struct weak_event {
	uint32_t word;
	uint32_t group;
	uint64_t value; /* of a pending store: the new value; of an event: the value before */
};

static _Thread_local bool weak_on;
static bool weak_loads;
static char *writers;
static const char *readers;
static size_t region_bytes;
static uint64_t random_state;

static struct weak_event pending[PENDING_MAX];
static size_t pending_count;
static uint32_t group; /* stores of a lower group are visible before those of a higher group */

static struct weak_event events[EVENTS_MAX]; /* stores in the order in which they became visible */
static uint32_t now, floor_, latest;         /* times are counts of events */
static uint32_t seen[WORDS_MAX];             /* when each word was last loaded */

static uint64_t draw(uint64_t below)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (random_state >> 33) % below;
}

void weak_seed(uint64_t seed)
{
	random_state = seed;
}

static void time_begin(void)
{
	now = floor_ = latest = 0;
	memset(seen, 0, sizeof(seen));
}

void weak_begin(void *writers_base, const void *readers_base, size_t bytes, bool loads_too)
{
	if (bytes > WORDS_MAX * sizeof(uint64_t))
		abort();
	writers = writers_base;
	readers = readers_base;
	region_bytes = bytes;
	weak_loads = loads_too;
	weak_on = true;
	time_begin();
}

void weak_end(void)
{
	while (weak_apply())
		;
	weak_on = false;
}

/* Whether an object is a word of the region. *word: its index. */
static bool word_of(const volatile void *object, uint32_t *word)
{
	const uintptr_t at = (uintptr_t)object,
			bases[] = { (uintptr_t)writers, (uintptr_t)readers };

	for (size_t i = 0; i < 2 && weak_on; i++)
		if (at >= bases[i] && at < bases[i] + region_bytes) {
			*word = (uint32_t)((at - bases[i]) / sizeof(uint64_t));
			return true;
		}
	return false;
}

static _Atomic uint64_t *memory(uint32_t word)
{
	return (_Atomic uint64_t *)(void *)writers + word;
}

/* A random store of the lowest group. Stores of the same word stay in order. */
static size_t choose(void)
{
	size_t count = 0, chosen;

	while (count < pending_count && pending[count].group == pending[0].group)
		count++;
	chosen = draw(count);
	for (size_t i = 0; i < chosen; i++)
		if (pending[i].word == pending[chosen].word)
			return i;
	return chosen;
}

bool weak_apply(void)
{
	struct weak_event store;
	size_t chosen;

	if (pending_count == 0)
		return false;
	chosen = choose();
	store = pending[chosen];
	memmove(&pending[chosen], &pending[chosen + 1],
		(--pending_count - chosen) * sizeof(pending[0]));
	if (now == EVENTS_MAX)
		time_begin();
	events[now++] =
		(struct weak_event){ .word = store.word, .value = atomic_load(memory(store.word)) };
	atomic_store(memory(store.word), store.value);
	return true;
}

void weak_store(volatile void *object, size_t bytes, uint64_t value)
{
	uint32_t word;

	if (word_of(object, &word) && bytes == sizeof(value)) {
		if (pending_count == PENDING_MAX)
			abort();
		pending[pending_count++] =
			(struct weak_event){ .word = word, .group = group, .value = value };
	} else if (bytes == sizeof(value)) {
		__atomic_store_n((volatile uint64_t *)object, value, __ATOMIC_SEQ_CST);
	} else if (bytes == sizeof(uint32_t)) {
		__atomic_store_n((volatile uint32_t *)object, (uint32_t)value, __ATOMIC_SEQ_CST);
	} else {
		abort();
	}
}

/* The word's value at a time. */
static uint64_t value_at(uint32_t word, uint32_t time)
{
	for (uint32_t i = time; i < now; i++)
		if (events[i].word == word)
			return events[i].value;
	return atomic_load(memory(word));
}

static uint64_t weak_load_word(uint32_t word, memory_order order)
{
	uint32_t time;

	for (uint64_t stores = draw(4) ? draw(2) : draw(24); stores > 0 && weak_apply(); stores--)
		;
	time = seen[word] > floor_ ? seen[word] : floor_;
	if (time > now) /* time has restarted */
		time = now;
	time = draw(2) ? now : time + (uint32_t)draw(now - time + 1);
	seen[word] = time;
	if (latest < time)
		latest = time;
	if (order != memory_order_relaxed && floor_ < time)
		floor_ = time;
	return value_at(word, time);
}

/* The writer always loads its own last store, visible to others or not. */
static uint64_t own_word(uint32_t word)
{
	for (size_t i = pending_count; i-- > 0;)
		if (pending[i].word == word)
			return pending[i].value;
	return atomic_load(memory(word));
}

static bool is_writers(const volatile void *object)
{
	const uintptr_t at = (uintptr_t)object, base = (uintptr_t)writers;

	return at >= base && at < base + region_bytes;
}

uint64_t weak_load(const volatile void *object, size_t bytes, memory_order order)
{
	uint32_t word;

	if (bytes == sizeof(uint64_t) && word_of(object, &word) && is_writers(object))
		return own_word(word);
	if (bytes == sizeof(uint64_t) && weak_loads && word_of(object, &word))
		return weak_load_word(word, order);
	if (bytes == sizeof(uint64_t))
		return __atomic_load_n((const volatile uint64_t *)object, __ATOMIC_SEQ_CST);
	if (bytes == sizeof(uint32_t))
		return __atomic_load_n((const volatile uint32_t *)object, __ATOMIC_SEQ_CST);
	abort();
}

void weak_fence(memory_order order)
{
	atomic_thread_fence(order);
	if (!weak_on)
		return;
	if (order != memory_order_acquire)
		group++;
	if (order != memory_order_release)
		floor_ = latest;
}

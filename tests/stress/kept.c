/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/kept.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define KEPT_MAX 16

struct kept {
	volatile void *object;
	size_t bytes;
	uint64_t value;
};

static struct kept kept[2][KEPT_MAX];
static unsigned int counts[2], at, steps; /* at: the running processor */
static const struct kept_plan *plan;      /* NULL: stores are visible at once */
static void (*inside)(void);

static void show(unsigned int processor)
{
	for (unsigned int i = 0; i < counts[processor]; i++) {
		const struct kept *store = &kept[processor][i];

		if (store->bytes == sizeof(uint64_t))
			*(volatile uint64_t *)store->object = store->value;
		else
			*(volatile uint32_t *)store->object = (uint32_t)store->value;
	}
	counts[processor] = 0;
}

static void run_inside(void)
{
	void (*call)(void) = inside;

	inside = NULL;
	at = !at;
	call();
	at = !at;
}

static void step(void)
{
	if (!plan)
		return;
	steps++;
	for (unsigned int processor = 0; processor < 2; processor++)
		if (plan->visible[processor] == steps)
			show(processor);
	if (plan->inside == steps && inside)
		run_inside();
}

unsigned int kept_run(const struct kept_plan *how, unsigned int processor, void (*call)(void),
		      void (*others)(void))
{
	plan = how;
	at = processor;
	inside = others;
	steps = 0;
	call();
	if (inside)
		run_inside();
	plan = NULL;
	show(0);
	show(1);
	return steps;
}

/* A processor always loads its own stores, visible to the other or not. */
uint64_t kept_load(const volatile void *object, size_t bytes)
{
	step();
	for (unsigned int i = counts[at]; i-- > 0;)
		if (kept[at][i].object == object)
			return kept[at][i].value;
	return bytes == sizeof(uint64_t) ? *(const volatile uint64_t *)object
					 : *(const volatile uint32_t *)object;
}

void kept_store(volatile void *object, size_t bytes, uint64_t value)
{
	step();
	if (counts[at] == KEPT_MAX || (bytes != sizeof(uint64_t) && bytes != sizeof(uint32_t)))
		abort();
	kept[at][counts[at]++] = (struct kept){ object, bytes, value };
	if (!plan)
		show(at);
}

uint64_t kept_add(volatile void *object, size_t bytes, uint64_t more, memory_order order)
{
	volatile uint64_t *word = object;

	step();
	if (bytes != sizeof(*word))
		abort();
	if (order != memory_order_relaxed)
		show(at);
	*word += more;
	return *word - more;
}

void kept_fence(memory_order order)
{
	step();
	if (order == memory_order_seq_cst)
		show(at);
}

long kept_syscall(long number, long command)
{
	step();
	if (number != SYS_membarrier || command != MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		abort();
	show(0);
	show(1);
	return 0;
}

int kept_signal(int fd, uint64_t count)
{
	step();
	show(at);
	return eventfd_write(fd, count);
}

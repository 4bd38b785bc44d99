/* SPDX-License-Identifier: Apache-2.0 */
/* Positions count bytes from the beginning, and never wrap. The bytes from `dropped` to `shown`
 * belong to the taker, the others to the giver.
 *
 * U-I1  dropped <= shown <= added <= dropped + size.
 * U-I2  Each entry has lines of its own, and begins with a head. So the rest of the memory before
 *       its end always has room for a head, which says to skip the rest.
 * U-I3  A side sleeps only after it has said so, and has then looked once more.
 *
 * Memory order:
 *
 * QU1  The giver stores `shown` with release, after the entries. The taker loads it with acquire
 *      (QU2), before it reads them.
 * QU2  The pair of QU1.
 * QU3  The taker stores `dropped` with release, after it has read the entries. The giver loads it
 *      with acquire (QU4), before it writes over them.
 * QU4  The pair of QU3.
 * QU5  A side that goes to sleep stores `sleeps`, then a full fence, then loads the other's
 *      position. The other side stores its position, then a full fence, then loads `sleeps`. So at
 *      least one of the two sees the other's store: no side sleeps with work to do.
 *      queue_show_lazily leaves this out: its taker sleeps for a bounded time.
 */
#include "publisher/feeds/queue.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/barrier.h"
#include "bus/error.h"

#define LINE_BYTES 64
#define LOOKS      512 /* before a side sleeps; with a pause each, some microseconds */
#define SKIP       UINT64_MAX

/* The taker's core has the lines that the giver writes next. The giver asks for them early. */
#define AHEAD_BYTES (16 * LINE_BYTES)

struct head {
	uint64_t bytes; /* of entry and head, or SKIP */
};

/* A side of the queue, in lines of its own. */
struct side {
	_Alignas(LINE_BYTES) _Atomic uint64_t position; /* shown, or dropped */
	_Atomic bool sleeps;
	_Alignas(LINE_BYTES) uint64_t own; /* added, or read: ahead of `position` */
	uint64_t other;                    /* the other side's position, when last looked at */
	size_t room;                       /* of the giver's current entry, head included */
	int wake_fd;                       /* an eventfd that wakes this side */
};

struct queue {
	struct side giver, taker;
	uint8_t *memory;
	size_t size;
	_Atomic bool closed;
};

int queue_open(struct queue **out, size_t bytes)
{
	struct queue *queue = aligned_alloc(LINE_BYTES, sizeof(*queue));

	*out = NULL;
	if (!queue)
		return error_set(ENOMEM, "queue: no memory");
	memset(queue, 0, sizeof(*queue));
	queue->size = bytes;
	queue->memory = aligned_alloc(LINE_BYTES, bytes);
	queue->giver.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	queue->taker.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!queue->memory || queue->giver.wake_fd < 0 || queue->taker.wake_fd < 0) {
		const int code = queue->memory ? errno : ENOMEM;

		queue_free(queue);
		return error_set(code, "queue: cannot open: %s", strerror(code));
	}
	*out = queue;
	return 0;
}

void queue_free(struct queue *queue)
{
	if (!queue)
		return;
	if (queue->giver.wake_fd >= 0)
		close(queue->giver.wake_fd);
	if (queue->taker.wake_fd >= 0)
		close(queue->taker.wake_fd);
	free(queue->memory);
	free(queue);
}

void queue_close(struct queue *queue)
{
	atomic_store_explicit(&queue->closed, true, memory_order_relaxed);
	eventfd_write(queue->giver.wake_fd, 1);
	eventfd_write(queue->taker.wake_fd, 1);
}

bool queue_closed(const struct queue *queue)
{
	return atomic_load_explicit(&queue->closed, memory_order_relaxed);
}

/* -- positions ----------------------------------------------------------------------------------
 */

static __attribute__((noinline)) void wake(struct side *side)
{
	eventfd_write(side->wake_fd, 1);
}

/* Shows the other side how far this side is. */
static void advance(struct side *side, struct side *other)
{
	atomic_store_explicit(&side->position, side->own, memory_order_release); /* QU1, QU3 */
	atomic_thread_fence(memory_order_seq_cst);                               /* QU5 */
	if (__builtin_expect(atomic_load_explicit(&other->sleeps, memory_order_relaxed), 0))
		wake(other);
}

/* True if the other side has moved since this side last looked. */
static bool look(struct side *side, const struct side *other)
{
	const uint64_t position =
		atomic_load_explicit(&other->position, memory_order_acquire); /* QU2, QU4 */
	const bool moved = position != side->other;

	side->other = position;
	return moved;
}

static void sleep_for(const struct side *side, uint64_t wait_ns, int wake_fd)
{
	struct pollfd files[2] = { { .fd = side->wake_fd, .events = POLLIN },
				   { .fd = wake_fd, .events = POLLIN } };
	const struct timespec wait = { .tv_sec = (time_t)(wait_ns / 1000000000u),
				       .tv_nsec = (long)(wait_ns % 1000000000u) };
	eventfd_t value;

	ppoll(files, 2, wait_ns == UINT64_MAX ? NULL : &wait, NULL);
	eventfd_read(side->wake_fd, &value);
}

/* Waits until the other side has moved: true. False: the wait is over for another reason. */
static bool wait_for(struct queue *queue, struct side *side, struct side *other, uint64_t wait_ns,
		     int wake_fd)
{
	bool moved = false;

	for (unsigned int i = 0; i < LOOKS && !moved; i++) {
		moved = look(side, other);
		if (!moved)
			barrier_pause();
	}
	if (moved || queue_closed(queue))
		return moved;
	atomic_store_explicit(&side->sleeps, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* QU5 */
	if (!look(side, other) && !queue_closed(queue)) {
		sleep_for(side, wait_ns, wake_fd);
		moved = look(side, other);
	} else {
		moved = true;
	}
	atomic_store_explicit(&side->sleeps, false, memory_order_relaxed);
	return moved && !queue_closed(queue);
}

/* -- the giver ----------------------------------------------------------------------------------
 */

static struct head *head_at(const struct queue *queue, uint64_t position)
{
	return (struct head *)(void *)(queue->memory + (position & (queue->size - 1)));
}

/* Waits until so many bytes behind `added` are free; false: the queue is closed. */
static bool await_room(struct queue *queue, size_t bytes)
{
	struct side *giver = &queue->giver;

	while (__builtin_expect(giver->own + bytes > giver->other + queue->size, 0)) {
		if (queue_closed(queue))
			return false;
		wait_for(queue, giver, &queue->taker, UINT64_MAX, -1);
	}
	return true;
}

void *queue_room(struct queue *queue, size_t bytes)
{
	struct side *giver = &queue->giver;
	const size_t room =
		(bytes + sizeof(struct head) + LINE_BYTES - 1) & ~(size_t)(LINE_BYTES - 1);
	const size_t rest = queue->size - (giver->own & (queue->size - 1));

	if (__builtin_expect(room > rest, 0)) {
		if (!await_room(queue, rest))
			return NULL;
		head_at(queue, giver->own)->bytes = SKIP; /* U-I2 */
		giver->own += rest;
	}
	if (!await_room(queue, room))
		return NULL;
	giver->room = room;
	barrier_prefetch_write(head_at(queue, giver->own + AHEAD_BYTES));
	return head_at(queue, giver->own) + 1;
}

void queue_add(struct queue *queue)
{
	head_at(queue, queue->giver.own)->bytes = queue->giver.room;
	queue->giver.own += queue->giver.room;
}

bool queue_crowded(const struct queue *queue)
{
	const struct side *giver = &queue->giver;

	return giver->own - atomic_load_explicit(&giver->position, memory_order_relaxed) >=
	       queue->size / 4;
}

void queue_show(struct queue *queue)
{
	advance(&queue->giver, &queue->taker);
}

void queue_show_lazily(struct queue *queue)
{
	struct side *giver = &queue->giver;

	look(giver, &queue->taker);
	if (giver->own - giver->other >= queue->size / 4)
		queue_show(queue);
	else
		atomic_store_explicit(&giver->position, giver->own, memory_order_release); /* QU1 */
}

/* -- the taker ----------------------------------------------------------------------------------
 */

/* Gives the giver its room back: seldom, so that it keeps its lines, and before the taker waits. */
static void return_room(struct queue *queue, uint64_t least)
{
	struct side *taker = &queue->taker;

	if (taker->own - atomic_load_explicit(&taker->position, memory_order_relaxed) >= least)
		advance(taker, &queue->giver);
}

const void *queue_first(struct queue *queue)
{
	struct side *taker = &queue->taker;

	for (;;) {
		if (taker->own == taker->other) {
			return_room(queue, 1);
			if (!look(taker, &queue->giver))
				return NULL;
		}
		if (__builtin_expect(head_at(queue, taker->own)->bytes != SKIP, 1))
			return head_at(queue, taker->own) + 1;
		taker->own += queue->size - (taker->own & (queue->size - 1));
	}
}

void queue_drop(struct queue *queue)
{
	queue->taker.own += head_at(queue, queue->taker.own)->bytes;
	__builtin_prefetch(head_at(queue, queue->taker.own + 6 * LINE_BYTES));
	return_room(queue, queue->size / 4);
}

bool queue_wait(struct queue *queue, uint64_t wait_ns, int wake_fd)
{
	struct side *taker = &queue->taker;

	return taker->own != taker->other ||
	       wait_for(queue, taker, &queue->giver, wait_ns, wake_fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded queue of entries of any length, from one thread to another: the giver adds entries, the
 * taker takes them in their order. An entry lies in one piece, aligned to 8 bytes. Each takes whole
 * lines of 64 bytes, so up to 56 bytes take a single line.
 *
 * The giver shows entries in batches. The taker sees a batch whole, or nothing of it yet.
 *
 * A side that waits looks a few microseconds long, and then sleeps until the other side wakes it.
 * So a waiting side needs no core, and a running side makes no system call.
 *
 * Threads  one giver and one taker; any thread may close. No thread may use the queue any more when
 *          queue_free is called.
 * Memory   all of it at queue_open. */
#ifndef TICKBUS_FEEDS_QUEUE_H
#define TICKBUS_FEEDS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

/* The bytes of the queue: a power of two from 1,024 on. 0, -ENOMEM, or an error of eventfd(2). */
int queue_open(struct queue **, size_t bytes);

/* Takes NULL. */
void queue_free(struct queue *);

/* Ends the use of the queue: the giver gets no more room, the taker nothing more. Wakes both. */
void queue_close(struct queue *);

/* -- the giver ----------------------------------------------------------------------------------
 */

/* Room for an entry of so many bytes: at least 1, at most a quarter of the queue. Waits while the
 * queue is full. NULL: the queue is closed. The entries of a batch fit in the queue together. */
void *queue_room(struct queue *, size_t bytes);

/* Adds the entry that was written to the room. */
void queue_add(struct queue *);

/* Whether a quarter of the queue or more was added, and is not shown. */
bool queue_crowded(const struct queue *);

/* Shows the taker all entries that were added, and wakes it if it sleeps. */
void queue_show(struct queue *);

/* The same, but lets the taker sleep until the queue is crowded. For a taker that looks by itself
 * from time to time: a wake-up for each batch would cost both sides more than the batch. */
void queue_show_lazily(struct queue *);

/* -- the taker ----------------------------------------------------------------------------------
 */

/* The first entry, or NULL: no entry is shown now. It stays valid until queue_drop. */
const void *queue_first(struct queue *);

/* Removes the first entry. */
void queue_drop(struct queue *);

/* Waits until an entry is shown: true. False: nothing was shown for so long, the queue is closed,
 * or wake_fd can be read. -1: there is no file. */
bool queue_wait(struct queue *, uint64_t wait_ns, int wake_fd);

bool queue_closed(const struct queue *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Collects records for on_batch. Taking a record is inlined, since each record takes this path.
 *
 * C-I1  Held records are delivered before what follows them: a gap, a quality, the end, a restart,
 *       a refusal, the completion of an image. Whatever follows first calls collect_interrupt(),
 *       and waits if it returns true. The held records are then due, and the next calls of tb_poll
 *       deliver them first.
 * C-I2  A call of tb_poll delivers at most records_max records, those held before it included.
 * C-I3  A message is cut only if it is longer than the memory or records_max, or if C-I1 cuts it.
 * C-I4  Held records have names: names of an epoch are kept when the connection is made again. */
#ifndef TICKBUS_SUBSCRIBER_COLLECT_H
#define TICKBUS_SUBSCRIBER_COLLECT_H

#include "subscriber/deliver.h"
#include "subscriber/state.h"

/* Allocates the memory of a new source if its subscription has on_batch. 0 or -ENOMEM. */
int collect_open(struct tb_source *);
void collect_close(struct tb_source *);
/* Fits the empty memory to the slots of the present epoch. */
void collect_begin(struct tb_source *);

/* Takes at most max records from the ring and returns how many: pull_view() or pull_read(). */
typedef int collect_take(struct tb_source *, int max);

/* Takes records and delivers batches, together at most max records. Returns how many. */
int collect_poll(struct tb_source *, int max, collect_take *take);
/* Delivers what is due, at most max records. Returns how many. */
int collect_rest(struct tb_source *, int max);

static inline bool collects(const struct tb_source *source)
{
	return source->collected.memory != NULL;
}

/* Whether held records have to be delivered first (C-I1). If so the caller leaves the position as
 * it is, and looks again later. */
static inline bool collect_interrupt(struct tb_source *source)
{
	if (__builtin_expect(source->collected.held == 0, 1))
		return false;
	source->collected.due = source->look = true;
	return true;
}

/* Where the next record is copied to, to be proven there. */
static inline struct record *collect_place(const struct tb_source *source)
{
	const struct collection *collected = &source->collected;

	return (struct record *)(void *)(collected->memory +
					 (size_t)collected->held * collected->stride);
}

/* Whether a record ends a message. */
static inline bool collect_ends(const struct tb_source *source, const struct record *copy)
{
	return (copy->flags | source->collected.each_ends) & TB_FLAG_LAST;
}

/* Holds the records from the position to `next` - 1: they are valid, at collect_place() and behind
 * it, and their instruments have names. The last of them that ends a message is `whole` - 1, or
 * whole is 0. */
static inline void collect_taken(struct tb_source *source, uint64_t next, uint64_t whole)
{
	struct collection *collected = &source->collected;

	collected->held += (uint32_t)(next - source->next);
	if (whole != 0)
		collected->whole = collected->held - (uint32_t)(next - whole);
	source->next = next;
	if (source->head < next - 1)
		source->head = next - 1;
	source->tries = 0;
}

/* A record whose instrument has a name. */
static inline int collect_named(struct tb_source *source, const struct record *copy)
{
	const uint64_t next = source->next + 1;

	collect_taken(source, next, collect_ends(source, copy) ? next : 0);
	return 1;
}

/* As deliver_unusual(). */
int collect_unusual(struct tb_source *, const struct record *);

/* Holds the valid record at collect_place(). Returns what deliver_record() returns, and 0 if held
 * records have to be delivered before it. */
static inline int collect_record(struct tb_source *source, const struct record *copy)
{
	if (__builtin_expect(deliver_is_unusual(source, copy), 0))
		return collect_unusual(source, copy);
	return collect_named(source, copy);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A glance: what tb_poll looks at in place of a topic that has nothing to do. A topic that rests
 * costs a poll one load and one comparison.
 *
 * A source rests while its slot's glance finds the expected word. If the word differs, the source
 * is advanced as ever. The word belongs to the topic's writer: the first word of slot `next`, or
 * the head if the head is watched.
 *
 * L-I1  A source rests only if it has no work but its word (rest.c). A state that needs
 *       further polls is named in has_work() there.
 * L-I2  A source is awake whenever it is advanced, and rests at the end of that poll at the
 *       earliest.
 * L-I3  What comes from outside wakes the source that it gives work. A message, an answer or the
 *       bus page asks for a look at its line by glance_look(). A new source begins awake. A turn
 *       wakes all sources, once in TURN_MS. A call of the program that gives a source work, from a
 *       handler too, calls glance_wake_all().
 * L-I4  A glance is in memory that is mapped. Memory is unmapped after all sources were woken. */
#ifndef TICKBUS_SUBSCRIBER_GLANCE_H
#define TICKBUS_SUBSCRIBER_GLANCE_H

#include <stdatomic.h>

#include "subscriber/state.h"

/* Makes the glances of all slots of the table, awake. 0 or -ENOMEM. */
int glance_open(struct tb_subscriber *);
/* After all mappings were closed. */
void glance_close(struct tb_subscriber *);
/* Wakes all sources: each is advanced once more. */
void glance_wake_all(struct tb_subscriber *);

/* A word of no topic, always 0. A glance at it that expects 0 rests for ever. */
extern const _Atomic uint64_t glance_zero;

/* What a glance at glance_zero expects if its source is awake. */
enum { GLANCE_AWAKE = 1, GLANCE_IN_VAIN = 2 };

/* Wakes a source. */
static inline void glance_wake(struct glance *glance)
{
	*glance = (struct glance){ .word = &glance_zero, .expected = GLANCE_AWAKE };
}

/* Makes a source look at its progress line, and wakes it. */
static inline void glance_look(struct tb_source *source)
{
	source->look = true;
	glance_wake(&source->subscription->subscriber->glances[source->slot]);
}

/* A source that is awake was advanced in vain. */
static inline void glance_in_vain(struct glance *glance)
{
	glance->expected = GLANCE_IN_VAIN;
}

/* Whether the source was advanced in vain by the last poll. A source that rested on this number may
 * count as that, too: it rests a poll earlier. */
static inline bool glance_was_in_vain(const struct glance *glance)
{
	return glance->expected == GLANCE_IN_VAIN;
}

/* Whether the source of a slot rests. The loads for several slots do not depend on each other, so
 * that cache misses overlap. Relaxed: what a word announces is read by advance_poll(), with edges
 * of its own. */
static inline bool glance_rests(const struct glance *glance)
{
	return atomic_load_explicit(glance->word, memory_order_relaxed) == glance->expected;
}

#endif

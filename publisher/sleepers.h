/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes sleeping subscribers. By the control thread, under the lock.
 *
 * S3  A sleeper that has nothing to read is in a topic whose armed word is set, or in the
 *     publisher's list of late sleepers. It is late while a bound forbids to set the word
 *     (interrupts.h). The control thread looks at late sleepers each LATE_MIN_NS while a look
 *     finds a sleeper that has something to read. Else the pause grows by a quarter with each look,
 * up to LATE_MAX_NS. So a late sleeper's wake-up comes after LATE_MIN_NS, or a quarter of the time
 *     for which no late sleeper had anything to read. */
#ifndef TICKBUS_PUBLISHER_SLEEPERS_H
#define TICKBUS_PUBLISHER_SLEEPERS_H

#include "publisher/state.h"

#define LATE_MIN_NS 50000
#define LATE_MAX_NS 2000000
#define LATE_LOOKS  256 /* at a time */

/* Puts a join's client to sleep until the topic's head passes head_seen. */
void sleepers_add(struct join *);
/* Wakes a topic's sleepers that have something to read. */
void sleepers_wake(struct tb_topic *);
/* If it is time: wakes late sleepers that have something to read, or sets their topics' words. */
void sleepers_look(struct tb_publisher *);
/* Time until the next look at late sleepers; -1: there is none. */
int64_t sleepers_wait_ns(const struct tb_publisher *);

#endif

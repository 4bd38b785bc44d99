/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a topic: how many instruments it has, and their numbers by name. */
#ifndef TICKBUS_SUBSCRIBER_INSTRUMENTS_H
#define TICKBUS_SUBSCRIBER_INSTRUMENTS_H

#include "subscriber/state.h"

/* Brings the names up to those that the progress line counts now. Each name is copied once in an
 * epoch. Returns how many instruments there are. -EAGAIN: the line or an entry was not valid in
 * INSTRUMENTS_TRIES copies. -errno as of get_reads(). With a text. Calls no handler. */
int instruments_update(struct tb_source *);
#define INSTRUMENTS_TRIES 8

/* The number of an instrument whose name is known here, or -ENOENT without a text. -ENOMEM, or an
 * error of the system's random numbers: with a text. */
int instruments_find(struct tb_source *, const char *name);

#endif

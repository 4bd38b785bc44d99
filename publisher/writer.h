/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's writer: tb_publish, tb_flush, tb_instrument. */
#ifndef TICKBUS_PUBLISHER_WRITER_H
#define TICKBUS_PUBLISHER_WRITER_H

#include "publisher/state.h"

/* Sets what follows each record: a last value, the end of its message, a flush. A topic that needs
 * less pays nothing for the rest. Before the first record. */
void writer_aim(struct tb_topic *);
/* Writes the progress line with head at the last record; by the writing thread. */
void writer_line(struct tb_topic *);

#endif

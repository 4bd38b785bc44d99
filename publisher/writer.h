/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's writer: tb_publish, tb_flush, tb_instrument. */
#ifndef TICKBUS_PUBLISHER_WRITER_H
#define TICKBUS_PUBLISHER_WRITER_H

#include "publisher/state.h"

/* Writes the progress line with head at the last record; by the writing thread. */
void writer_line(struct tb_topic *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's writer: the path that every update takes. */
#ifndef TICKBUS_PUBLISHER_WRITER_H
#define TICKBUS_PUBLISHER_WRITER_H

#include "publisher/state.h"

/* One write of the progress line, with head at the last record (P-I2); by the writing thread. */
void writer_line(struct tb_topic *);

#endif

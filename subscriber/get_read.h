/* SPDX-License-Identifier: Apache-2.0 */
/* READs that their caller waits for, perhaps inside a handler. */
#ifndef TICKBUS_SUBSCRIBER_GET_READ_H
#define TICKBUS_SUBSCRIBER_GET_READ_H

#include "bus/fabric.h"
#include "bus/progress.h"
#include "subscriber/state.h"

/* Allocates the landing of the connection unless it is there. 0, -ENOTCONN or -ENOMEM, with a
 * text. */
int get_open(struct tb_source *);
/* The connection has ended: frees the landing. */
void get_close(struct tb_subscriber *);
/* A half of the landing, and its bytes. */
enum get_half { GET_SINGLE, GET_LIST };
char *get_half(const struct tb_source *, enum get_half);
size_t get_half_bytes(const struct tb_subscriber *);

/* READs `bytes` bytes of the topic's memory at offset to `into` in the landing. */
struct fabric_read get_part(const struct tb_source *, uint64_t offset, uint32_t bytes, char *into);

/* Posts READs of a topic and waits until all have landed, at most connect_ms. Calls no handler.
 * Returns 0. -ENOTCONN: the connection fails. -EAGAIN: the bus page does not show the topic's
 * epoch, so its memory is not READ. -ETIMEDOUT. With a text. After get_open(). */
int get_reads(struct tb_source *, const struct fabric_read *, unsigned int count);

/* Loads the progress line, in place or by READs, until it is valid. Returns 0; -EAGAIN after
 * GET_LINE_TRIES lines that were not valid; or -errno as get_reads(). With a text. */
#define GET_LINE_TRIES 8
int get_line(struct tb_source *, struct progress *);

#endif

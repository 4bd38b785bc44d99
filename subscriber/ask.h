/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls have in common that ask for what a topic's memory holds now: when they are
 * refused, and how they call handlers. */
#ifndef TICKBUS_SUBSCRIBER_ASK_H
#define TICKBUS_SUBSCRIBER_ASK_H

#include <stdint.h>

#include "subscriber/state.h"

/* Handlers have a const source, which the library may change. */
static inline struct tb_source *ask_own(const struct tb_source *source)
{
	return (struct tb_source *)(uintptr_t)source;
}

static inline bool ask_is_known(const struct tb_source *source, uint32_t instrument)
{
	return instrument < source->mapping.shape.capacity &&
	       source->mapping.names[instrument][0] != '\0';
}

/* 0, or why the public call `call` is refused now: -EAGAIN, -EBUSY, -EDEADLK or -ENOENT; or
 * -EINVAL: the source is NULL. */
int ask_ready(const struct tb_source *, const char *call);

/* Looks into the directory for an instrument that is not known yet: 0, or -ENOENT if the topic
 * lacks it, or -errno. */
int ask_instrument(struct tb_source *, uint32_t instrument);

/* Whether a handler of the call ended the subscription or closed the subscriber: 0, or
 * -ECANCELED. */
int ask_stopped(const struct tb_source *, const char *call);

/* Whether a handler of ask_run() runs: 0, or -EBUSY, or -EDEADLK after a jump out of it. */
int ask_free(const struct tb_source *, const char *call);
/* Runs what calls a handler. While it runs, other calls of the subscriber are refused. Then frees
 * what handlers closed, perhaps the source. Returns the result of `run`. After ask_free(). */
int ask_run(struct tb_source *, int (*run)(void *), void *user);

#endif

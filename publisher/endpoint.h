/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: where a bus listens, and which memory can be read from there. */
#ifndef TICKBUS_PUBLISHER_ENDPOINT_H
#define TICKBUS_PUBLISHER_ENDPOINT_H

#include "publisher/state.h"

/* Listens at each address of the options; the listeners call `calls` from listener_poll, each with
 * its endpoint as user. */
int endpoints_open(struct tb_publisher *, const struct tb_publisher_options *,
		   const struct listener_calls *calls);
/* From here on the control thread looks at the listeners. Until then who connects waits in their
 * queues, which the kernel keeps. */
int endpoints_watch(struct tb_publisher *);
/* Closes all listeners and what was exposed at them. */
void endpoints_close(struct tb_publisher *);

/* Makes a topic's memory readable in its realms over every network fabric there is, before its
 * first record: what is to be registered is registered now, or said to be impossible, and nothing
 * of it done. Under the lock. */
int endpoints_expose(struct tb_publisher *, const struct region_shape *, const struct memory *,
		     uint32_t realms, struct exposures *);
/* Takes a topic's exposures back; under the lock, or while no control thread runs. */
void endpoints_withdraw(struct exposures *);

#endif

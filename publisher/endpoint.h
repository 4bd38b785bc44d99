/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: where a bus listens, and which memory clients can read from there. */
#ifndef TICKBUS_PUBLISHER_ENDPOINT_H
#define TICKBUS_PUBLISHER_ENDPOINT_H

#include "publisher/state.h"

/* Listens at each address of the options. The listeners call `calls` from listener_poll, with their
 * endpoint as user. */
int endpoints_open(struct tb_publisher *, const struct tb_publisher_options *,
		   const struct listener_calls *calls);
/* Adds the listeners to the control thread's epoll. Connections made before wait in the kernel's
 * queues. */
int endpoints_watch(struct tb_publisher *);
/* Closes all listeners and withdraws the bus pages. */
void endpoints_close(struct tb_publisher *);

/* Makes a topic's memory readable in its realms over each network, before its first record. 0;
 * or -errno with a message, and the memory is readable nowhere. Under the lock. */
int endpoints_expose(struct tb_publisher *, const struct region_shape *, const struct memory *,
		     uint32_t realms, struct exposures *);
/* Withdraws a topic's exposures; under the lock, or while no control thread runs. */
void endpoints_withdraw(struct exposures *);

#endif

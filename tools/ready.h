/* SPDX-License-Identifier: Apache-2.0 */
/* Waits until a topic's memory can be asked for: for commands that read values or the past. */
#ifndef TICKBUS_TOOLS_READY_H
#define TICKBUS_TOOLS_READY_H

#include <stdbool.h>

#include "tickbus/subscriber.h"

/* Waits for the topic, if it is being joined or restarted. With `wait`, also for a lost connection.
 * Returns 0 and the source, NULL after a signal; or -errno. */
int ready_wait(struct tb_subscriber *subscriber, const struct tb_subscription *subscription,
	       const char *topic, bool wait, int stop_fd, const struct tb_source **source);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ready.h"

#include <errno.h>
#include <poll.h>

#include "tools/stop.h"

int ready_wait(struct tb_subscriber *subscriber, const struct tb_subscription *subscription,
	       const char *topic, bool wait, int stop_fd, const struct tb_source **source)
{
	struct pollfd ready[] = { { .fd = tb_subscriber_fd(subscriber), .events = POLLIN },
				  { .fd = stop_fd, .events = POLLIN } };

	for (;;) {
		int result = -ENOENT;

		*source = tb_subscription_source(subscription, topic);
		if (*source)
			result = tb_source_instruments(*source);
		if (result >= 0)
			return 0;
		if (*source && result != -EAGAIN && !(wait && result == -ENOTCONN))
			return result;
		if (poll(ready, 2, -1) > 0 && stop_asked()) {
			*source = NULL;
			return 0;
		}
		result = tb_poll(subscriber, 1);
		if (result < 0)
			return result;
	}
}

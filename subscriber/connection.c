/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out over the connection: READs are posted, control messages are sent. */
#include "subscriber/connection.h"

#include <errno.h>

#include "bus/counters.h"
#include "bus/error.h"
#include "bus/fabric.h"

/* One place in the queue is reserved for the bus page. Otherwise READs of topics could fill the
 * queue, and the pulse would not be read. */
int connection_read(struct tb_source *source, const struct fabric_read *reads, unsigned int count)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const unsigned int depth = subscriber->ops->depth(subscriber->link);
	const unsigned int room =
		depth > subscriber->under_way + 1 ? depth - subscriber->under_way - 1 : 0;
	int posted;

	if (count > room)
		count = room;
	posted = count > 0 ? subscriber->ops->read(subscriber->link, reads, count) : 0;
	if (posted <= 0)
		return posted;
	source->under_way += (unsigned int)posted;
	subscriber->under_way += (unsigned int)posted;
	source->subscription->counters[SUBSCRIPTION_READS] += (uint64_t)posted;
	return posted;
}

int connection_send(struct tb_subscriber *subscriber, const struct control_message *message)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	const size_t length = control_encode(message, bytes);

	if (!subscriber->link)
		return error_set(ENOTCONN, "not connected to %s", subscriber->address);
	return subscriber->ops->link_send(subscriber->link, bytes, length);
}

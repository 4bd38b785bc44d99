/* SPDX-License-Identifier: Apache-2.0 */
/* Realms: which clients may read which topics.
 *
 * A client's handshake proves that it knows a ticket (publisher/tickets.h). The client is in the
 * realm of that ticket until it disconnects, and sees only topics of this realm. For other topics
 * it gets the same answers as for topics that do not exist. Each realm has its own bus page, with
 * only its topics. Without realms in the options there is one anonymous realm: all topics, for
 * clients without a ticket. */
#ifndef TICKBUS_PUBLISHER_REALM_H
#define TICKBUS_PUBLISHER_REALM_H

#include "publisher/state.h"

#define REALMS_ALL UINT32_MAX /* a bit for each */

/* Makes the realms of the options, with their bus pages. 0, or -errno with a message. */
int realms_open(struct tb_publisher *, const struct tb_publisher_options *);
/* After the pages were withdrawn from all endpoints. */
void realms_close(struct tb_publisher *);

/* The realms that include a topic of this name, a bit for each index. */
uint32_t realms_of(const struct tb_publisher *, const char *topic);
bool realm_has(const struct realm *, const struct tb_topic *);

/* Counts an added or restarted topic; the next pulse writes it to the pages of its realms. */
void realms_change(struct tb_publisher *, const struct tb_topic *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Realms: who may read which topics.
 *
 * Who connects shows a ticket and is in the realm that has it, for as long as the connection lasts.
 * Only the topics of its realm are there for it: others are neither listed nor granted, and asking
 * for them by number is answered as if they had never been made. Each realm has a bus page of its
 * own, with its topics alone. Where no realm was asked for there is one, of all topics, for those
 * who show no ticket. */
#ifndef TICKBUS_PUBLISHER_REALM_H
#define TICKBUS_PUBLISHER_REALM_H

#include "publisher/state.h"

#define REALMS_ALL UINT32_MAX /* a bit for each */

/* Makes the realms that the options ask for, with their pages. */
int realms_open(struct tb_publisher *, const struct tb_publisher_options *);
/* When nobody can read the pages any more. */
void realms_close(struct tb_publisher *);

/* The realm of a ticket; NULL: there is none. How long it takes tells nothing of the tickets. */
const struct realm *realms_find(const struct tb_publisher *, const uint8_t ticket[TB_TICKET_BYTES]);

/* The realms that a topic of this name is in, a bit for each index. */
uint32_t realms_of(const struct tb_publisher *, const char *topic);
bool realm_has(const struct realm *, const struct tb_topic *);

/* A topic was added or began again: told on the pages of its realms with the next pulse. */
void realms_change(struct tb_publisher *, const struct tb_topic *);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a fabric without notices: its subscribers poll, or are woken. */
#ifndef TICKBUS_BUS_NO_NOTICES_H
#define TICKBUS_BUS_NO_NOTICES_H

#include "bus/fabric.h"

/* FABRIC_NOTICES_NONE */
void no_notices_kind(const struct listener *, const struct sockaddr_storage *group,
		     struct fabric_notices *);
/* 0 without an announcer. */
int no_notices_announcer(struct listener *, const struct sockaddr_storage *group, size_t bytes,
			 struct announcer **);
/* Takes NULL: there is no announcer. */
void no_notices_announcer_close(struct announcer *);
/* -ENOTCONN */
int no_notices_announce(struct announcer *, const void *datagram, size_t bytes);
/* -ENOTSUP */
int no_notices_receive(struct link *, const struct fabric_notices *);
void no_notices_receive_end(struct link *, const struct fabric_notices *);
/* 0 */
size_t no_notices_datagram(struct link *, void *datagram, size_t room);

#endif

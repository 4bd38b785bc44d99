/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/no_notices.h"

#include <errno.h>
#include <string.h>

#include "bus/error.h"

void no_notices_kind(const struct listener *listener, const struct sockaddr_storage *group,
		     struct fabric_notices *notices)
{
	(void)listener, (void)group;
	memset(notices, 0, sizeof(*notices));
}

int no_notices_announcer(struct listener *listener, const struct sockaddr_storage *group,
			 size_t bytes, struct announcer **announcer)
{
	(void)listener, (void)group, (void)bytes;
	*announcer = NULL;
	return 0;
}

void no_notices_announcer_close(struct announcer *announcer)
{
	(void)announcer;
}

int no_notices_announce(struct announcer *announcer, const void *datagram, size_t bytes)
{
	(void)announcer, (void)datagram, (void)bytes;
	return -ENOTCONN;
}

int no_notices_receive(struct link *link, const struct fabric_notices *notices)
{
	(void)link, (void)notices;
	return error_set(ENOTSUP, "this fabric has no notices");
}

void no_notices_receive_end(struct link *link, const struct fabric_notices *notices)
{
	(void)link, (void)notices;
}

size_t no_notices_datagram(struct link *link, void *datagram, size_t room)
{
	(void)link, (void)datagram, (void)room;
	return 0;
}

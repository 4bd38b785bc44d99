/* SPDX-License-Identifier: Apache-2.0 */
/* The shared-memory fabric: its table of operations. */
#include "bus/shm/shm.h"

#include <stdio.h>
#include <string.h>

#include "bus/no_notices.h"
#include "bus/peers.h"

static int no_device(const char *address)
{
	(void)address;
	return FABRIC_NO_DEVICE;
}

static int listen_here(struct listener **listener, const struct fabric_listen *how,
		       const struct listener_calls *calls, void *user)
{
	const int result = shm_listen(listener, how, calls, user);

	if (result == 0)
		(*listener)->ops = &shm_ops;
	return result;
}

static int connect_there(struct link **link, const char *address, const void *hello, size_t bytes,
			 const struct link_calls *calls, void *user)
{
	const int result = shm_connect(link, address, hello, bytes, calls, user);

	if (result == 0)
		(*link)->ops = &shm_ops;
	return result;
}

/* The name alone: both sides may reach its folder by other paths, and user= is the subscriber's. */
static int name_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "%.*s", (int)strcspn(address, ","), address);
	return 0;
}

const struct fabric_ops shm_ops = {
	.scheme = "shm",
	.network = false,
	.identity = name_identity,
	.node = no_device,
	.listen = listen_here,
	.listener_fd = shm_listener_fd,
	.listener_text = shm_listener_text,
	.listener_poll = shm_listener_poll,
	.listener_close = shm_listener_close,
	.expose = shm_expose,
	.withdraw = shm_withdraw,
	.key = shm_key,
	.send = shm_send,
	.offer = shm_offer,
	.peer_text = peers_text,
	.drop = peers_drop,
	.connect = connect_there,
	.link_state = shm_link_state,
	.link_fd = shm_link_fd,
	.link_user = shm_link_user,
	.link_poll = shm_link_poll,
	.link_send = shm_link_send,
	.link_left = shm_link_left,
	.link_break = shm_link_break,
	.link_settle = shm_link_settle,
	.link_close = shm_link_close,
	.remote_open = shm_remote_open,
	.remote_keep = shm_remote_keep,
	.remote_close = shm_remote_close,
	.view = shm_view,
	.landing = shm_landing,
	.landing_free = shm_landing_free,
	.depth = shm_depth,
	.read = shm_read,
	.reap = shm_reap,
	.sleep = shm_sleep,
	.notices = no_notices_kind,
	.announcer_open = no_notices_announcer,
	.announcer_close = no_notices_announcer_close,
	.announce = no_notices_announce,
	.receive = no_notices_receive,
	.receive_end = no_notices_receive_end,
	.datagram = no_notices_datagram,
};

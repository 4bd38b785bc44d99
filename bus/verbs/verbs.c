/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs fabric: its table of operations. */
#include "bus/verbs/verbs.h"

#include <assert.h>
#include <errno.h>

#include "bus/address.h"
#include "bus/error.h"
#include "bus/peers.h"

static_assert(FABRIC_IDENTITY_BYTES == ADDRESS_TEXT_BYTES, "an address is an identity");

static int listen_here(struct listener **listener, const struct fabric_listen *how,
		       const struct listener_calls *calls, void *user)
{
	const int result = verbs_listen(listener, how, calls, user);

	if (result == 0)
		(*listener)->ops = &verbs_ops;
	return result;
}

static int connect_there(struct link **link, const char *address, const void *hello, size_t bytes,
			 const struct link_calls *calls, void *user)
{
	const int result = verbs_connect(link, address, hello, bytes, calls, user);

	if (result == 0)
		(*link)->ops = &verbs_ops;
	return result;
}

static int no_user(const struct link *link, uid_t *user)
{
	(void)link, (void)user;
	return error_set(EOPNOTSUPP, "a network does not say which user listens");
}

static int host_identity(const char *text, char identity[FABRIC_IDENTITY_BYTES])
{
	struct address address;
	const int result = address_parse(text, &address);

	if (result == 0)
		address_text((const struct sockaddr *)&address.host, identity);
	return result;
}

const struct fabric_ops verbs_ops = {
	.scheme = "rdma",
	.network = true,
	.identity = host_identity,
	.node = verbs_node,
	.listen = listen_here,
	.listener_fd = verbs_listener_fd,
	.listener_text = verbs_listener_text,
	.listener_poll = verbs_listener_poll,
	.listener_close = verbs_listener_close,
	.expose = verbs_expose,
	.withdraw = verbs_withdraw,
	.key = verbs_key,
	.send = verbs_send,
	.offer = verbs_offer,
	.peer_text = peers_text,
	.drop = peers_drop,
	.connect = connect_there,
	.link_state = verbs_link_state,
	.link_fd = verbs_link_fd,
	.link_user = no_user,
	.link_poll = verbs_link_poll,
	.link_send = verbs_link_send,
	.link_left = verbs_link_left,
	.link_break = verbs_link_break,
	.link_settle = verbs_link_settle,
	.link_close = verbs_link_close,
	.remote_open = verbs_remote_open,
	.remote_keep = verbs_remote_keep,
	.remote_close = verbs_remote_close,
	.view = verbs_view,
	.landing = verbs_landing,
	.landing_free = verbs_landing_free,
	.depth = verbs_depth,
	.read = verbs_read,
	.reap = verbs_reap,
	.sleep = verbs_sleep,
	.notices = verbs_notices,
	.announcer_open = verbs_announcer,
	.announcer_close = verbs_announcer_close,
	.announce = verbs_announce,
	.receive = verbs_receive,
	.receive_end = verbs_receive_end,
	.datagram = verbs_datagram,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The decorator's table of operations. A publisher cannot listen with faults: its subscribers have
 * them. So what follows listen is never called. */
#include "bus/fault/fault.h"

#include <errno.h>

#include "bus/error.h"
#include "bus/fault/fault_link.h"
#include "bus/no_notices.h"

/* Both sides name the address below. */
static int identity_below(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	struct fault_plan plan;
	const int result = fault_plan_parse(address, &plan);

	return result < 0 ? result : plan.ops->identity(plan.address, text);
}

static int no_device(const char *address)
{
	(void)address;
	return FABRIC_NO_DEVICE;
}

static int no_listen(struct listener **listener, const struct fabric_listen *how,
		     const struct listener_calls *calls, void *user)
{
	(void)calls, (void)user;
	*listener = NULL;
	return error_set(EINVAL,
			 "address fault:%.100s: found faults, which are for subscribers; expected "
			 "the address behind the /",
			 how->address);
}

static int connect_there(struct link **link, const char *address, const void *hello, size_t bytes,
			 const struct link_calls *calls, void *user)
{
	const int result = fault_connect(link, address, hello, bytes, calls, user);

	if (result == 0)
		(*link)->ops = &fault_ops;
	return result;
}

const struct fabric_ops fault_ops = {
	.scheme = FAULT_SCHEME,
	.network = true,
	.identity = identity_below,
	.node = no_device,
	.listen = no_listen,
	.connect = connect_there,
	.link_state = fault_link_state,
	.link_fd = fault_link_fd,
	.link_user = fault_link_user,
	.link_poll = fault_link_poll,
	.link_send = fault_link_send,
	.link_left = fault_link_left,
	.link_break = fault_link_break,
	.link_settle = fault_link_settle,
	.link_close = fault_link_close,
	.remote_open = fault_remote_open,
	.remote_keep = fault_remote_keep,
	.remote_close = fault_remote_close,
	.view = fault_view,
	.landing = fault_landing,
	.landing_free = fault_landing_free,
	.depth = fault_depth,
	.read = fault_read,
	.reap = fault_reap,
	.sleep = fault_sleep,
	.notices = no_notices_kind,
	.announcer_open = no_notices_announcer,
	.announcer_close = no_notices_announcer_close,
	.announce = no_notices_announce,
	.receive = fault_receive,
	.receive_end = fault_receive_end,
	.datagram = fault_datagram,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/faulty_fabric.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bus/fabric.h"
#include "bus/fault/fault.h"
#include "tests/support/bytewise.h"
#include "tests/support/multicast_fabric.h"

#define FAULTS "drop=0.002,dup=0.05,reorder=0.05,delay=0.1,tear=0.2"

static struct fabric_ops faulty_ops;
static uint64_t seed;

static void decorated(const char *address, char text[256])
{
	snprintf(text, 256, "seed=%" PRIu64 "," FAULTS "/multicast:%s", seed, address);
}

static int faulty_identity(const char *address, char identity[FABRIC_IDENTITY_BYTES])
{
	char text[256];

	decorated(address, text);
	return fault_ops.identity(text, identity);
}

static int faulty_connect(struct link **link, const char *address, const void *hello, size_t bytes,
			  const struct link_calls *calls, void *user)
{
	char text[256];

	decorated(address, text);
	return fault_ops.connect(link, text, hello, bytes, calls, user);
}

/* The publisher's operations of the fabric below, and the subscriber's of the decorator. */
void faulty_add(uint64_t with_seed)
{
	const char *rest;
	const struct fabric_ops *below;

	bytewise_add(with_seed);
	multicast_add();
	below = fabric_find("multicast:", &rest);
	if (!below)
		abort();
	seed = with_seed;
	faulty_ops = fault_ops;
	faulty_ops.scheme = "faulty";
	faulty_ops.identity = faulty_identity;
	faulty_ops.node = below->node;
	faulty_ops.listen = below->listen;
	faulty_ops.listener_fd = below->listener_fd;
	faulty_ops.listener_text = below->listener_text;
	faulty_ops.listener_poll = below->listener_poll;
	faulty_ops.listener_close = below->listener_close;
	faulty_ops.expose = below->expose;
	faulty_ops.withdraw = below->withdraw;
	faulty_ops.key = below->key;
	faulty_ops.send = below->send;
	faulty_ops.offer = below->offer;
	faulty_ops.peer_text = below->peer_text;
	faulty_ops.drop = below->drop;
	faulty_ops.connect = faulty_connect;
	faulty_ops.notices = below->notices;
	faulty_ops.announcer_open = below->announcer_open;
	faulty_ops.announcer_close = below->announcer_close;
	faulty_ops.announce = below->announce;
	if (fabric_add(&faulty_ops) < 0)
		abort();
}

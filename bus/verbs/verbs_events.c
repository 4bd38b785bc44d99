/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/verbs/verbs_events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "bus/error.h"

int verbs_event_code(const struct verbs_event *event)
{
	return event->status < -1 ? -event->status : EIO;
}

int verbs_nonblocking(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
			       fcntl(fd, F_SETFD, FD_CLOEXEC) < 0
		       ? -errno
		       : 0;
}

int verbs_error(int code, const char *address, const char *what)
{
	struct rlimit limit = { 0 };

	switch (code) {
	case ENODEV:
		return error_set(ENODEV,
				 "address rdma:%s: %s: no RDMA device has this address (rdma link "
				 "lists the devices)",
				 address, what);
	case EADDRNOTAVAIL:
		return error_set(EADDRNOTAVAIL,
				 "address rdma:%s: %s: this host does not have the address",
				 address, what);
	case EADDRINUSE:
		return error_set(EADDRINUSE, "address rdma:%s: %s: another process listens there",
				 address, what);
	case ENOMEM:
		getrlimit(RLIMIT_MEMLOCK, &limit);
		return error_set(
			ENOMEM,
			"address rdma:%s: %s: no memory, or beyond the limit of locked memory, "
			"%llu "
			"bytes (ulimit -l, LimitMEMLOCK=); a recreated topic needs its bytes "
			"twice. "
			"Over iWARP each subscriber needs the bytes of its topics",
			address, what, (unsigned long long)limit.rlim_cur);
	default:
		return error_set(code ? code : EIO, "address rdma:%s: %s: %s", address, what,
				 strerror(code ? code : EIO));
	}
}

struct rdma_cm_id *verbs_id_bound(struct rdma_event_channel *events, enum rdma_port_space space,
				  const struct sockaddr_storage *local, uint32_t traffic_class)
{
	struct sockaddr_storage from = *local;
	uint8_t class = (uint8_t)traffic_class;
	struct rdma_cm_id *id;
	int code = ENODEV; /* bound, but to no device */

	if (rdma_create_id(events, &id, NULL, space) < 0)
		return NULL;
	if (class)
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, sizeof(class));
	if (rdma_bind_addr(id, (struct sockaddr *)&from) < 0)
		code = errno;
	else if (id->verbs)
		return id;
	rdma_destroy_id(id);
	errno = code;
	return NULL;
}

struct rdma_event_channel *verbs_events_open(const char *address)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	int result;

	if (!events) {
		const int code = errno;

		error_set(code == ENOENT || code == ENODEV ? ENODEV : code,
			  "address rdma:%s: this host has no RDMA connection manager: %s (is there "
			  "an RDMA device, is the module rdma_ucm loaded?)",
			  address, strerror(code));
		errno = code == ENOENT ? ENODEV : code;
		return NULL;
	}
	result = verbs_nonblocking(events->fd);
	if (result == 0)
		return events;
	rdma_destroy_event_channel(events);
	verbs_error(-result, address, "creating an event channel");
	errno = -result;
	return NULL;
}

static bool has_connection(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED ||
	       type == RDMA_CM_EVENT_REJECTED;
}

int verbs_event_take(struct rdma_event_channel *events, struct verbs_event *out)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(events, &event) < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	memset(out, 0, sizeof(*out));
	out->type = event->event;
	out->id = event->id;
	out->status = event->status;
	if (has_connection(event->event)) {
		out->conn = event->param.conn;
		out->conn.private_data = NULL;
		out->bytes =
			event->param.conn.private_data ? event->param.conn.private_data_len : 0;
		if (out->bytes)
			memcpy(out->data, event->param.conn.private_data, out->bytes);
	} else if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN) {
		out->ud = event->param.ud;
		out->ud.private_data = NULL;
	}
	if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    event->event == RDMA_CM_EVENT_MULTICAST_ERROR)
		out->joined = (void *)(uintptr_t)event->param.ud.private_data;
	rdma_ack_cm_event(event);
	return 1;
}

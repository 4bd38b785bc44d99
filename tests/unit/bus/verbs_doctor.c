/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor over a fake device and connection manager. The host has several ports and addresses,
 * and some queries fail. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/address.h"
#include "tickbus/doctor.h"

#define PORTS        2
#define FINDINGS_MAX 64

/* -- a device with two ports --------------------------------------------------------------------
 */

static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IB, .name = "made0" };
static struct ibv_device *devices[] = { &device, NULL };
static struct ibv_context context = { .device = &device };
static int groups_of_device, lists;

struct ibv_device **ibv_get_device_list(int *count)
{
	(void)count;
	lists++;
	return devices;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

struct ibv_context *ibv_open_device(struct ibv_device *opened)
{
	(void)opened;
	return &context;
}

int ibv_close_device(struct ibv_context *verbs)
{
	(void)verbs;
	return 0;
}

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attributes)
{
	(void)verbs;
	*attributes = (struct ibv_device_attr){ .phys_port_cnt = PORTS,
						.max_mcast_grp = groups_of_device,
						.max_qp_rd_atom = 16 };
	return 0;
}

static enum ibv_fork_status fork_status = IBV_FORK_UNNEEDED;

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return fork_status;
}

static enum ibv_port_state states[1 + PORTS] = { [1] = IBV_PORT_ACTIVE, [2] = IBV_PORT_ACTIVE };

#undef ibv_query_port
int ibv_query_port(struct ibv_context *verbs, uint8_t number, struct _compat_ibv_port_attr *port)
{
	struct ibv_port_attr *attributes = (struct ibv_port_attr *)port;

	(void)verbs;
	attributes->state = states[number];
	attributes->active_mtu = IBV_MTU_4096;
	attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *verbs, struct ibv_gid_entry *entries, size_t room,
			     uint32_t flags, size_t entry_bytes)
{
	(void)verbs, (void)entries, (void)room, (void)flags, (void)entry_bytes;
	return 0;
}

/* -- addresses ----------------------------------------------------------------------------------
 */

static struct {
	const char *name, *host;
	uint8_t port;
} const addresses[] = {
	{ "tbnone0", "10.9.0.1", 1 },
	{ "tbnone0:1", "10.9.0.2", 1 },
	{ "tbnone1", "10.9.1.1", 2 },
};
#define ADDRESSES ((int)(sizeof(addresses) / sizeof(addresses[0])))

static struct sockaddr_storage hosts[ADDRESSES];
static struct ifaddrs list[ADDRESSES];
static int list_errno, addresses_shown = ADDRESSES;

int getifaddrs(struct ifaddrs **all)
{
	if (list_errno) {
		errno = list_errno;
		return -1;
	}
	for (int i = 0; i < addresses_shown; i++) {
		cr_assert_eq(address_parse_host(addresses[i].host, &hosts[i]), 0);
		list[i] =
			(struct ifaddrs){ .ifa_next = i + 1 < addresses_shown ? &list[i + 1] : NULL,
					  .ifa_name = (char *)(uintptr_t)addresses[i].name,
					  .ifa_flags = IFF_UP,
					  .ifa_addr = (struct sockaddr *)&hosts[i] };
	}
	*all = list;
	return 0;
}

void freeifaddrs(struct ifaddrs *all)
{
	(void)all;
}

/* -- the connection manager ---------------------------------------------------------------------
 */

static int channel_errno, channels, ids, binds;
static struct rdma_cm_event joined;
static enum { JOIN_NONE, JOIN_BEGUN, JOIN_INTERRUPTED, JOIN_TOLD } join;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *events;

	if (channel_errno) {
		errno = channel_errno;
		return NULL;
	}
	events = calloc(1, sizeof(*events));
	events->fd = eventfd(0, EFD_CLOEXEC);
	channels++;
	return events;
}

void rdma_destroy_event_channel(struct rdma_event_channel *events)
{
	close(events->fd);
	free(events);
	channels--;
}

int rdma_create_id(struct rdma_event_channel *events, struct rdma_cm_id **id, void *user,
		   enum rdma_port_space space)
{
	*id = calloc(1, sizeof(**id));
	(*id)->channel = events;
	(*id)->context = user;
	(*id)->ps = space;
	ids++;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	ids--;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *where)
{
	binds += id->ps == RDMA_PS_TCP;
	for (int i = 0; i < ADDRESSES; i++)
		if (address_same_host(where, &hosts[i])) {
			id->verbs = &context;
			id->port_num = addresses[i].port;
			return 0;
		}
	errno = ENODEV;
	return -1;
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *group, void *user)
{
	(void)group, (void)user;
	joined = (struct rdma_cm_event){ .id = id, .event = RDMA_CM_EVENT_MULTICAST_JOIN };
	join = JOIN_BEGUN;
	return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *group)
{
	(void)id, (void)group;
	join = JOIN_NONE;
	return 0;
}

/* A signal arrives before the group's event does; Criterion's own poll() is the system's.
 */
int poll(struct pollfd *ready, nfds_t count, int timeout_ms)
{
	const struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };

	if (join == JOIN_NONE)
		return ppoll(ready, count, timeout_ms < 0 ? NULL : &timeout, NULL);
	cr_expect_gt(timeout_ms, 0);
	if (join == JOIN_BEGUN) {
		join = JOIN_INTERRUPTED;
		errno = EINTR;
		return -1;
	}
	join = JOIN_TOLD;
	ready->revents = POLLIN;
	return 1;
}

int rdma_get_cm_event(struct rdma_event_channel *events, struct rdma_cm_event **out)
{
	(void)events;
	if (join != JOIN_TOLD) {
		errno = EAGAIN;
		return -1;
	}
	*out = &joined;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *acknowledged)
{
	(void)acknowledged;
	return 0;
}

/* -- what is found ------------------------------------------------------------------------------
 */

static char findings[FINDINGS_MAX][512], remedies[8192];
static int found;

static void on_finding(void *user, const struct tb_finding *finding)
{
	(void)user;
	cr_assert_lt(found, FINDINGS_MAX);
	cr_expect_eq(finding->verdict == TB_VERDICT_GOOD, finding->remedy[0] == '\0');
	strncat(remedies, finding->remedy, sizeof(remedies) - strlen(remedies) - 1);
	snprintf(findings[found++], sizeof(findings[0]), "%s %s: %s",
		 finding->verdict == TB_VERDICT_BAD ? "bad" : "fine", finding->about,
		 finding->found);
}

/* How many findings begin so. */
static int findings_of(const char *words)
{
	int count = 0;

	for (int i = 0; i < found; i++)
		count += strncmp(findings[i], words, strlen(words)) == 0;
	return count;
}

/* The number of bad findings; nothing that was made for them is left. */
static int look(void)
{
	const int bad = tb_doctor(on_finding, NULL);

	cr_expect_eq(ids, 0);
	cr_expect_eq(channels, 0);
	return bad;
}

Test(doctor, address_and_interface_are_reported_once)
{
	cr_assert_geq(look(), 0);
	cr_expect_eq(binds, ADDRESSES);
	cr_expect_leq(lists, 1 + ADDRESSES);
	cr_expect_eq(findings_of("fine made0 port 1: listen at rdma:10.9.0.1:PORT (tbnone0)"), 1);
	cr_expect_eq(findings_of("fine made0 port 1: listen at rdma:10.9.0.2:PORT (tbnone0)"), 1);
	cr_expect_eq(findings_of("fine made0 port 2: listen at rdma:10.9.1.1:PORT (tbnone1)"), 1);
	cr_expect_eq(findings_of("fine made0 port 1: listen"), 2);
	cr_expect_eq(findings_of("fine made0 port 1: PFC or ECN is not known at tbnone0"), 1);
	cr_expect_eq(findings_of("fine made0 port 2: PFC or ECN is not known at tbnone1"), 1);
	cr_expect_eq(findings_of("bad made0"), 0);
}

Test(doctor, host_failures_are_not_blamed_on_ports)
{
	static const char manager[] = "bad connection manager: cannot find the addresses of "
				      "devices: No such device";
	static const char listing[] = "bad addresses: cannot list the addresses of this host: "
				      "Too many open files";

	channel_errno = ENOENT;
	cr_assert_geq(look(), 1);
	cr_expect_eq(findings_of(manager), 1);
	cr_expect_eq(findings_of("bad made0"), 0);
	channel_errno = found = 0;
	list_errno = EMFILE;
	cr_assert_geq(look(), 1);
	cr_expect_eq(findings_of(listing), 1);
	cr_expect_eq(findings_of("bad made0"), 0);
}

/* As of a card with two ports and one cable. */
Test(doctor, unusable_port_is_bad_only_without_another)
{
	const int others = look(); /* of the host */

	found = 0;
	states[2] = IBV_PORT_DOWN;
	cr_expect_eq(look(), others);
	cr_expect_eq(findings_of("fine made0 port 2: is down"), 1);
	found = 0;
	states[1] = IBV_PORT_DOWN;
	cr_expect_eq(look(), others + 2);
	cr_expect_eq(findings_of("bad made0 port 1: is down"), 1);
	cr_expect_eq(findings_of("bad made0 port 2: is down"), 1);
	found = 0;
	states[1] = states[2] = IBV_PORT_ACTIVE;
	addresses_shown = 2;
	cr_expect_eq(look(), others);
	cr_expect_eq(findings_of("fine made0 port 2: has no IP address"), 1);
	found = 0;
	states[1] = IBV_PORT_DOWN;
	cr_expect_eq(look(), others + 2);
	cr_expect_eq(findings_of("bad made0 port 1: is down"), 1);
	cr_expect_eq(findings_of("bad made0 port 2: has no IP address"), 1);
}

Test(doctor, kernel_that_shares_pinned_pages_is_reported)
{
	const int others = look();

	cr_expect_eq(findings_of("fine kernel: Linux "), 1);
	cr_expect_null(strstr(remedies, "Linux 5.12 or later"));
	found = 0;
	fork_status = IBV_FORK_DISABLED;
	cr_expect_eq(look(), others);
	cr_expect_eq(findings_of("fine kernel: Linux "), 1);
	cr_expect_not_null(strstr(remedies, "Linux 5.12 or later"));
}

Test(doctor, signal_does_not_end_the_wait_for_a_group)
{
	groups_of_device = 8;
	cr_assert_geq(look(), 0);
	cr_expect_eq(findings_of("fine made0 port 1: joins a multicast group"), 2);
	cr_expect_eq(findings_of("bad made0"), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: checks devices, ports, addresses, locked memory and huge pages. A host without a
 * device is healthy: shared memory needs no device. */
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "bus/address.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "bus/numa.h"
#include "bus/verbs/congestion.h"
#include "bus/verbs/verbs_device.h"
#include "bus/verbs/verbs_events.h"
#include "tickbus/doctor.h"

#define JOIN_MS      1000
#define GIDS_MAX     256
#define MTU_GOOD     1024 /* what a notice may have by default */
#define LOCKED_GOOD  (UINT64_C(256) << 20)
#define LOCKED_LEAST (UINT64_C(16) << 20) /* a few topics of the default size, and landings */

struct doctor {
	void (*finding)(void *user, const struct tb_finding *);
	void *user;
	int bad;
	int devices;
	int ports; /* usable */
	struct location *locations;
	size_t location_count;
	bool locations_known;
};

/* An IP address of this host on a port of a device. */
struct location {
	struct sockaddr_storage local;
	char interface[IF_NAMESIZE],
		lowest[IF_NAMESIZE]; /* its own, and the one below a VLAN or a bond */
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port;
	union ibv_gid gid;
};

struct port {
	struct ibv_context *verbs;
	uint8_t number;
	bool roce, groups; /* groups: has UD multicast */
	char about[96];
};

static void finding_add(struct doctor *doctor, enum tb_verdict verdict, const char *about,
			const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

static void finding_add(struct doctor *doctor, enum tb_verdict verdict, const char *about,
			const char *remedy, const char *format, ...)
{
	char found[256];
	const struct tb_finding finding = { sizeof(finding), verdict, about, found, remedy };
	va_list args;

	va_start(args, format);
	vsnprintf(found, sizeof(found), format, args);
	va_end(args);
	doctor->bad += verdict == TB_VERDICT_BAD;
	doctor->finding(doctor->user, &finding);
}

/* -- the host -----------------------------------------------------------------------------------
 */

static void locked_memory(struct doctor *doctor)
{
	static const char remedy[] = "ulimit -l unlimited, LimitMEMLOCK=infinity, or limits.conf";
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		finding_add(doctor, TB_VERDICT_GOOD, "locked memory", "", "unlimited");
	else if (limit.rlim_cur >= LOCKED_GOOD)
		finding_add(doctor, TB_VERDICT_GOOD, "locked memory", "", "at most %llu bytes",
			    (unsigned long long)limit.rlim_cur);
	else
		finding_add(doctor,
			    limit.rlim_cur < LOCKED_LEAST && doctor->devices ? TB_VERDICT_BAD
									     : TB_VERDICT_ADVICE,
			    "locked memory", remedy,
			    "at most %llu bytes: all topics of a bus have to fit",
			    (unsigned long long)limit.rlim_cur);
}

/* From Linux 5.12 on, a child process gets copies of pinned pages. Before that, a write by parent
 * or child gives the writer another page, and the device keeps the old page. */
static void fork_safety(struct doctor *doctor)
{
	struct utsname kernel = { 0 };

	uname(&kernel);
	if (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED)
		finding_add(doctor, TB_VERDICT_GOOD, "kernel", "",
			    "Linux %s copies pinned pages for a child process", kernel.release);
	else
		finding_add(doctor, TB_VERDICT_ADVICE, "kernel",
			    "Linux 5.12 or later; before that a program with rdma: addresses must "
			    "not fork",
			    "Linux %s shares pinned pages with a child process: after a fork, "
			    "reads may land in the wrong process",
			    kernel.release);
}

static long file_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long number = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

static void huge_pages(struct doctor *doctor)
{
	const long all = file_number("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
	const long free = file_number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");

	if (free > 0)
		finding_add(doctor, TB_VERDICT_GOOD, "huge pages", "", "%ld of 2 MiB, %ld free",
			    all, free);
	else
		finding_add(doctor, TB_VERDICT_ADVICE, "huge pages",
			    "sysctl vm.nr_hugepages=N: a device needs fewer entries for a topic's "
			    "memory",
			    "none free: topics use small pages");
}

/* -- devices ------------------------------------------------------------------------------------
 */

/* Joins a group of the address's family, and waits at most JOIN_MS for the event. */
static int join_wait(struct rdma_cm_id *id, const struct sockaddr_storage *local)
{
	struct pollfd ready = { .fd = id->channel->fd, .events = POLLIN };
	const uint64_t end_ms = clock_ms() + JOIN_MS;
	struct sockaddr_storage group;
	struct verbs_event event;
	int result = -ETIMEDOUT, taken = 0;

	address_parse_group(local->ss_family == AF_INET6 ? "[ff15::77:ffff]:7472"
							 : "239.77.255.255:7472",
			    &group);
	if (rdma_join_multicast(id, (struct sockaddr *)&group, NULL) < 0)
		return -errno;
	for (uint64_t now_ms; taken == 0 && (now_ms = clock_ms()) < end_ms;) {
		poll(&ready, 1, (int)(end_ms - now_ms)); /* a signal may have ended it */
		taken = verbs_event_take(id->channel, &event);
	}
	if (taken == 1)
		result = event.type == RDMA_CM_EVENT_MULTICAST_JOIN ? 0 : -verbs_event_code(&event);
	rdma_leave_multicast(id, (struct sockaddr *)&group);
	return result;
}

static int join_try(const struct sockaddr_storage *local)
{
	struct rdma_event_channel *events = verbs_events_open("doctor");
	struct rdma_cm_id *id = events ? verbs_id_bound(events, RDMA_PS_UDP, local, 0) : NULL;
	int result = id ? 0 : -errno;

	if (id) {
		result = join_wait(id, local);
		rdma_destroy_id(id);
	}
	if (events)
		rdma_destroy_event_channel(events);
	return result;
}

static void multicast(struct doctor *doctor, const char *about,
		      const struct sockaddr_storage *local)
{
	const int result = join_try(local);

	if (result == 0)
		finding_add(doctor, TB_VERDICT_GOOD, about, "",
			    "joins a multicast group; notices stay in the subnet unless hop_limit= "
			    "says "
			    "otherwise");
	else if (result == -VERBS_UNSUPPORTED && local->ss_family == AF_INET6)
		finding_add(doctor, TB_VERDICT_GOOD, about, "",
			    "the kernel does not support IPv6 groups: their notices go by UDP");
	else
		finding_add(
			doctor, TB_VERDICT_BAD, about,
			"an active port, on InfiniBand IPoIB that is up; or notice: udp, or none",
			"cannot join a multicast group: %s", strerror(-result));
}

/* One line: on for some priorities, off, or not known (mask < 0). */
static void priorities(struct doctor *doctor, const char *about, const char *interface,
		       const char *what, int mask, const char *remedy)
{
	char list[4 * CONGESTION_PRIORITIES] = "";

	for (int i = 0; mask > 0 && i < CONGESTION_PRIORITIES; i++)
		if (mask >> i & 1)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), " %d", i);
	if (mask > 0)
		finding_add(doctor, TB_VERDICT_GOOD, about, "", "%s is on at %s for priority%s",
			    what, interface, list);
	else if (mask == 0)
		finding_add(doctor, TB_VERDICT_ADVICE, about, remedy,
			    "%s is off at %s: congestion shows as loss", what, interface);
	else
		finding_add(doctor, TB_VERDICT_ADVICE, about,
			    "ask the driver's own tools and the switch, where packets are lost",
			    "%s is not known at %s", what, interface);
}

/* What keeps RoCE from losing packets, if the driver reports it. */
static void congestion(struct doctor *doctor, const char *about, const char *interface)
{
	const int pfc = congestion_pfc(interface);
	char folder[32 + IF_NAMESIZE];
	int ecn;

	snprintf(folder, sizeof(folder), "/sys/class/net/%s", interface);
	ecn = congestion_ecn(folder);
	if (pfc < 0 && ecn < 0) {
		priorities(doctor, about, interface, "PFC or ECN", -1, "");
		return;
	}
	priorities(doctor, about, interface, "PFC", pfc,
		   "dcb pfc set, and the same on the switch, for the priority of subscribers' "
		   "traffic_class=");
	priorities(doctor, about, interface, "ECN", ecn,
		   "switch on ECN, on the switch too, for the priority of subscribers' "
		   "traffic_class=");
}

/* The index of an address's GID, for RoCE v2 if there are several; -1: not in the table. */
static int gid_index(struct ibv_context *verbs, const struct location *location)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	const ssize_t count = ibv_query_gid_table(verbs, entries, GIDS_MAX, 0);
	int found = -1;

	for (ssize_t i = 0; i < count; i++)
		if (entries[i].port_num == location->port &&
		    memcmp(&entries[i].gid, &location->gid, sizeof(location->gid)) == 0 &&
		    (found < 0 || entries[i].gid_type == IBV_GID_TYPE_ROCE_V2))
			found = (int)entries[i].gid_index;
	return found;
}

/* Whether librdmacm finds a device for the IP address. */
static bool location_bind(struct location *location, struct rdma_event_channel *events)
{
	struct rdma_cm_id *id = verbs_id_bound(events, RDMA_PS_TCP, &location->local, 0);

	if (!id)
		return false;
	snprintf(location->device, sizeof(location->device), "%s",
		 ibv_get_device_name(id->verbs->device));
	location->port = id->port_num;
	location->gid = id->route.addr.addr.ibaddr.sgid;
	rdma_destroy_id(id);
	return true;
}

/* Whether a publisher can listen at an address: its interface is up, and its scope is not the link.
 */
static bool is_listened_at(const struct ifaddrs *at)
{
	if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK))
		return false;
	if (at->ifa_addr->sa_family == AF_INET6)
		return !IN6_IS_ADDR_LINKLOCAL(
			&((const struct sockaddr_in6 *)(const void *)at->ifa_addr)->sin6_addr);
	return at->ifa_addr->sa_family == AF_INET;
}

/* An address may have a label after its interface's name: "eth0:1". */
static void location_fill(struct location *location, const struct ifaddrs *at)
{
	*location = (struct location){ 0 };
	memcpy(&location->local, at->ifa_addr,
	       at->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						   : sizeof(struct sockaddr_in));
	snprintf(location->interface, sizeof(location->interface), "%.*s",
		 (int)strcspn(at->ifa_name, ":"), at->ifa_name);
	congestion_interface("/sys/class/net", location->interface, location->lowest);
}

static int locations_list(struct doctor *doctor, struct rdma_event_channel *events)
{
	struct ifaddrs *all;
	size_t count = 0;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		count += is_listened_at(at);
	doctor->locations = calloc(count + 1, sizeof(*doctor->locations));
	for (const struct ifaddrs *at = all; at && doctor->locations; at = at->ifa_next) {
		struct location *location = &doctor->locations[doctor->location_count];

		if (!is_listened_at(at))
			continue;
		location_fill(location, at);
		doctor->location_count += location_bind(location, events);
	}
	freeifaddrs(all);
	return doctor->locations ? 0 : -ENOMEM;
}

/* Each address is bound once, for all ports. */
static void locations_find(struct doctor *doctor)
{
	struct rdma_event_channel *events = verbs_events_open("doctor");
	const int result = events ? locations_list(doctor, events) : -errno;

	if (!events)
		finding_add(doctor, TB_VERDICT_BAD, "connection manager",
			    "modprobe rdma_ucm, and permission for /dev/infiniband/rdma_cm",
			    "cannot find the addresses of devices: %s", strerror(-result));
	else if (result < 0)
		finding_add(doctor, TB_VERDICT_BAD, "addresses",
			    "permission for netlink sockets, descriptors (ulimit -n), memory",
			    "cannot list the addresses of this host: %s", strerror(-result));
	doctor->locations_known = result == 0;
	if (events)
		rdma_destroy_event_channel(events);
}

static bool is_of_port(const struct location *location, const struct port *port)
{
	return location->port == port->number &&
	       strcmp(location->device, ibv_get_device_name(port->verbs->device)) == 0;
}

/* An interface may have several addresses. */
static bool is_first_there(const struct doctor *doctor, const struct port *port,
			   const struct location *location)
{
	for (const struct location *one = doctor->locations; one < location; one++)
		if (is_of_port(one, port) && strcmp(one->lowest, location->lowest) == 0)
			return false;
	return true;
}

static void address_check(struct doctor *doctor, const struct port *port,
			  const struct location *location)
{
	const int index = gid_index(port->verbs, location);
	char text[ADDRESS_TEXT_BYTES], gid[32] = "";

	address_text((const struct sockaddr *)&location->local, text);
	*strrchr(text, ':') = '\0'; /* the port, which is 0 */
	if (index >= 0)
		snprintf(gid, sizeof(gid), ", GID %d", index);
	finding_add(doctor, TB_VERDICT_GOOD, port->about, "", "listen at rdma:%s:PORT (%s%s)", text,
		    location->interface, gid);
	if (port->groups)
		multicast(doctor, port->about, &location->local);
	if (port->roce && is_first_there(doctor, port, location))
		congestion(doctor, port->about, location->lowest);
}

/* An unusable port is bad only if no other port can be used. */
static enum tb_verdict unused(const struct doctor *doctor)
{
	return doctor->ports > 0 ? TB_VERDICT_ADVICE : TB_VERDICT_BAD;
}

static void addresses(struct doctor *doctor, const struct port *port)
{
	bool any = false;

	for (size_t i = 0; i < doctor->location_count; i++) {
		if (!is_of_port(&doctor->locations[i], port))
			continue;
		any = true;
		address_check(doctor, port, &doctor->locations[i]);
	}
	if (!any && doctor->locations_known)
		finding_add(
			doctor, unused(doctor), port->about,
			"an address for its interface, on InfiniBand for that of IPoIB, and the "
			"interface up",
			"has no IP address");
}

static void port_check(struct doctor *doctor, struct ibv_context *verbs, uint8_t number,
		       const struct ibv_device_attr *device)
{
	const bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct port look = { .verbs = verbs, .number = number, .groups = device->max_mcast_grp };
	struct ibv_port_attr port = { 0 };
	uint32_t mtu;

	snprintf(look.about, sizeof(look.about), "%s port %u", ibv_get_device_name(verbs->device),
		 number);
	if (ibv_query_port(verbs, number, &port) != 0 || port.state != IBV_PORT_ACTIVE) {
		finding_add(doctor, unused(doctor), look.about,
			    "a cable, ip link set up, a subnet manager on InfiniBand", "is %s",
			    ibv_port_state_str(port.state));
		return;
	}
	look.roce = !iwarp && port.link_layer == IBV_LINK_LAYER_ETHERNET;
	mtu = 128u << port.active_mtu; /* IBV_MTU_256 is 1 */
	finding_add(doctor, mtu < MTU_GOOD ? TB_VERDICT_ADVICE : TB_VERDICT_GOOD, look.about,
		    mtu < MTU_GOOD ? "an interface MTU of 1500 or more" : "",
		    "active, %s, MTU %" PRIu32 ", %d READs at once each way",
		    iwarp       ? "iWARP"
		    : look.roce ? "RoCE"
				: "InfiniBand",
		    mtu, device->max_qp_rd_atom);
	if (!look.groups)
		finding_add(doctor, TB_VERDICT_GOOD, look.about, "",
			    "has no UD multicast: notices go by UDP on its interface");
	addresses(doctor, &look);
}

/* Active, and with an IP address, if the addresses are known. */
static bool is_usable(const struct doctor *doctor, const struct port *port)
{
	struct ibv_port_attr found = { 0 };
	bool any = !doctor->locations_known;

	for (size_t i = 0; i < doctor->location_count; i++)
		any |= is_of_port(&doctor->locations[i], port);
	return any && ibv_query_port(port->verbs, port->number, &found) == 0 &&
	       found.state == IBV_PORT_ACTIVE;
}

static void ports_count(struct doctor *doctor, struct ibv_device *device)
{
	struct port port = { .verbs = ibv_open_device(device), .number = 1 };
	struct ibv_device_attr attributes = { 0 };

	if (!port.verbs)
		return;
	if (ibv_query_device(port.verbs, &attributes) == 0)
		for (; port.number <= attributes.phys_port_cnt; port.number++)
			doctor->ports += is_usable(doctor, &port);
	ibv_close_device(port.verbs);
}

/* Reports the device's NUMA node. Advice is only needed if there are several nodes. */
static void node_check(struct doctor *doctor, const struct ibv_device *device)
{
	const char *name = ibv_get_device_name((struct ibv_device *)(uintptr_t)device);
	char cpus[128];
	const int node = verbs_device_node(device, cpus, sizeof(cpus));

	if (node == NUMA_ANY)
		finding_add(doctor, TB_VERDICT_GOOD, name, "", "reports no NUMA node");
	else if (numa_check(1) < 0 && numa_check(0) == 0)
		finding_add(doctor, TB_VERDICT_GOOD, name, "",
			    "is on NUMA node %d, the only node, near processors %s", node, cpus);
	else
		finding_add(doctor, TB_VERDICT_ADVICE, name,
			    "bus.cpu and feeds[].cpu: processors near it; bus.numa is its node by "
			    "default",
			    "is on NUMA node %d, near processors %s", node, cpus);
}

static void device_check(struct doctor *doctor, struct ibv_device *device)
{
	struct ibv_context *verbs = ibv_open_device(device);
	struct ibv_device_attr attributes = { 0 };
	const char *name = ibv_get_device_name(device);

	doctor->devices++;
	node_check(doctor, device);
	if (!verbs) {
		finding_add(doctor, TB_VERDICT_BAD, name,
			    "permission for /dev/infiniband/uverbs*: the group rdma, or udev rules",
			    "cannot be opened: %s", strerror(errno));
		return;
	}
	if (ibv_query_device(verbs, &attributes) != 0)
		finding_add(doctor, TB_VERDICT_BAD, name, "a driver and an rdma-core that match",
			    "cannot be queried");
	else
		for (uint8_t port = 1; port <= attributes.phys_port_cnt; port++)
			port_check(doctor, verbs, port, &attributes);
	ibv_close_device(verbs);
}

TB_API int tb_doctor(void (*finding)(void *user, const struct tb_finding *), void *user)
{
	struct doctor doctor = { .finding = finding, .user = user };
	struct ibv_device **devices;

	if (!finding)
		return error_set(EINVAL, "tb_doctor: found no callback, expected a function");
	devices = ibv_get_device_list(NULL);
	if (devices && *devices)
		locations_find(&doctor);
	for (struct ibv_device **device = devices; device && *device; device++)
		ports_count(&doctor, *device);
	for (struct ibv_device **device = devices; device && *device; device++)
		device_check(&doctor, *device);
	if (devices)
		ibv_free_device_list(devices);
	if (doctor.devices == 0)
		finding_add(
			&doctor, TB_VERDICT_ADVICE, "devices",
			"a driver for the card; or a software device: rdma link add NAME type rxe "
			"netdev INTERFACE",
			"no RDMA device: this host has shared memory only");
	if (doctor.devices > 0)
		fork_safety(&doctor);
	locked_memory(&doctor);
	huge_pages(&doctor);
	free(doctor.locations);
	return doctor.bad;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor. A host without a device is healthy: shared memory needs none. */
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

#include "bus/address.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "bus/numa.h"
#include "bus/verbs/congestion.h"
#include "bus/verbs/verbs_device.h"
#include "bus/verbs/verbs_events.h"
#include "tickbus/doctor.h"

#define JOIN_MS     1000
#define GIDS_MAX    256
#define MTU_GOOD    1024 /* what a notice may have by default */
#define LOCKED_GOOD (UINT64_C(256) << 20)
#define LOCKED_LEAST                                                                               \
	(UINT64_C(16) << 20) /* a few topics of the default size, and what reads land in */

struct doctor {
	void (*finding)(void *user, const struct tb_finding *);
	void *user;
	int bad;
	int devices;
	int ports; /* that a bus can be had at */
	struct place *places;
	size_t place_count;
	bool places_known;
};

/* An address of this host that leads to a device's port. */
struct place {
	struct sockaddr_storage local;
	char interface[IF_NAMESIZE], lowest[IF_NAMESIZE]; /* its own, and what that stands on */
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port;
	union ibv_gid gid;
};

struct port {
	struct ibv_context *verbs;
	uint8_t number;
	bool roce, groups; /* that are of UD */
	char about[96];
};

static void tell(struct doctor *doctor, enum tb_verdict verdict, const char *about,
		 const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));

static void tell(struct doctor *doctor, enum tb_verdict verdict, const char *about,
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
		tell(doctor, TB_VERDICT_GOOD, "locked memory", "", "unlimited");
	else if (limit.rlim_cur >= LOCKED_GOOD)
		tell(doctor, TB_VERDICT_GOOD, "locked memory", "", "at most %llu bytes",
		     (unsigned long long)limit.rlim_cur);
	else
		tell(doctor,
		     limit.rlim_cur < LOCKED_LEAST && doctor->devices ? TB_VERDICT_BAD
								      : TB_VERDICT_ADVICE,
		     "locked memory", remedy,
		     "at most %llu bytes: all topics of a bus have to fit in",
		     (unsigned long long)limit.rlim_cur);
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
		tell(doctor, TB_VERDICT_GOOD, "huge pages", "", "%ld of 2 MiB, %ld free", all,
		     free);
	else
		tell(doctor, TB_VERDICT_ADVICE, "huge pages",
		     "sysctl vm.nr_hugepages=N: a device needs fewer entries for a topic's memory",
		     "none free: topics live on small pages");
}

/* -- devices ------------------------------------------------------------------------------------
 */

/* Joins a group of the address's kind, and waits for the event, for a time. */
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
		tell(doctor, TB_VERDICT_GOOD, about, "",
		     "joins a multicast group; notices stay in the subnet unless hop_limit= says "
		     "otherwise");
	else if (result == -VERBS_NOT_IN_KERNEL && local->ss_family == AF_INET6)
		tell(doctor, TB_VERDICT_GOOD, about, "",
		     "joins no groups of IPv6, as the kernel has it: their notices go by UDP");
	else
		tell(doctor, TB_VERDICT_BAD, about,
		     "an active port, on InfiniBand IPoIB that is up; or notice: udp, or none",
		     "cannot join a multicast group: %s", strerror(-result));
}

/* One line of what is on for some priorities, off, or not to be seen (mask < 0). */
static void priorities(struct doctor *doctor, const char *about, const char *interface,
		       const char *what, int mask, const char *remedy)
{
	char list[4 * CONGESTION_PRIORITIES] = "";

	for (int i = 0; mask > 0 && i < CONGESTION_PRIORITIES; i++)
		if (mask >> i & 1)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), " %d", i);
	if (mask > 0)
		tell(doctor, TB_VERDICT_GOOD, about, "", "%s is on at %s for priority%s", what,
		     interface, list);
	else if (mask == 0)
		tell(doctor, TB_VERDICT_ADVICE, about, remedy,
		     "%s is off at %s: congestion shows as loss", what, interface);
	else
		tell(doctor, TB_VERDICT_ADVICE, about,
		     "ask the driver's own tools and the switch, where packets are lost",
		     "%s cannot be seen at %s", what, interface);
}

/* What keeps RoCE from losing packets, where it can be seen. */
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

/* The index of a place's GID, as RoCE v2 has it where there are several; -1: it has none there. */
static int gid_index(struct ibv_context *verbs, const struct place *place)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	const ssize_t count = ibv_query_gid_table(verbs, entries, GIDS_MAX, 0);
	int found = -1;

	for (ssize_t i = 0; i < count; i++)
		if (entries[i].port_num == place->port &&
		    memcmp(&entries[i].gid, &place->gid, sizeof(place->gid)) == 0 &&
		    (found < 0 || entries[i].gid_type == IBV_GID_TYPE_ROCE_V2))
			found = (int)entries[i].gid_index;
	return found;
}

/* Whether librdmacm finds a device for the address. */
static bool place_bind(struct place *place, struct rdma_event_channel *events)
{
	struct rdma_cm_id *id = verbs_id_bound(events, RDMA_PS_TCP, &place->local, 0);

	if (!id)
		return false;
	snprintf(place->device, sizeof(place->device), "%s",
		 ibv_get_device_name(id->verbs->device));
	place->port = id->port_num;
	place->gid = id->route.addr.addr.ibaddr.sgid;
	rdma_destroy_id(id);
	return true;
}

/* Addresses that can be listened at: of an interface that is up, beyond its own link. */
static bool is_listened_at(const struct ifaddrs *at)
{
	if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK))
		return false;
	if (at->ifa_addr->sa_family == AF_INET6)
		return !IN6_IS_ADDR_LINKLOCAL(
			&((const struct sockaddr_in6 *)(const void *)at->ifa_addr)->sin6_addr);
	return at->ifa_addr->sa_family == AF_INET;
}

/* An address may have a label behind its interface's name: "eth0:1". */
static void place_fill(struct place *place, const struct ifaddrs *at)
{
	*place = (struct place){ 0 };
	memcpy(&place->local, at->ifa_addr,
	       at->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						   : sizeof(struct sockaddr_in));
	snprintf(place->interface, sizeof(place->interface), "%.*s",
		 (int)strcspn(at->ifa_name, ":"), at->ifa_name);
	congestion_interface("/sys/class/net", place->interface, place->lowest);
}

static int places_list(struct doctor *doctor, struct rdma_event_channel *events)
{
	struct ifaddrs *all;
	size_t count = 0;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		count += is_listened_at(at);
	doctor->places = calloc(count + 1, sizeof(*doctor->places));
	for (const struct ifaddrs *at = all; at && doctor->places; at = at->ifa_next) {
		struct place *place = &doctor->places[doctor->place_count];

		if (!is_listened_at(at))
			continue;
		place_fill(place, at);
		doctor->place_count += place_bind(place, events);
	}
	freeifaddrs(all);
	return doctor->places ? 0 : -ENOMEM;
}

/* Each address is bound to once, whatever ports there are. */
static void places_find(struct doctor *doctor)
{
	struct rdma_event_channel *events = verbs_events_open("doctor");
	const int result = events ? places_list(doctor, events) : -errno;

	if (!events)
		tell(doctor, TB_VERDICT_BAD, "connection manager",
		     "modprobe rdma_ucm, and permission for /dev/infiniband/rdma_cm",
		     "cannot be asked which addresses lead to a device: %s", strerror(-result));
	else if (result < 0)
		tell(doctor, TB_VERDICT_BAD, "addresses",
		     "permission for netlink sockets, descriptors (ulimit -n), memory",
		     "of this host cannot be listed: %s", strerror(-result));
	doctor->places_known = result == 0;
	if (events)
		rdma_destroy_event_channel(events);
}

static bool is_of_port(const struct place *place, const struct port *port)
{
	return place->port == port->number &&
	       strcmp(place->device, ibv_get_device_name(port->verbs->device)) == 0;
}

/* Several addresses may be of one interface. */
static bool is_first_there(const struct doctor *doctor, const struct port *port,
			   const struct place *place)
{
	for (const struct place *one = doctor->places; one < place; one++)
		if (is_of_port(one, port) && strcmp(one->lowest, place->lowest) == 0)
			return false;
	return true;
}

static void address_look(struct doctor *doctor, const struct port *port, const struct place *place)
{
	const int index = gid_index(port->verbs, place);
	char words[ADDRESS_TEXT_BYTES], gid[32] = "";

	address_text((const struct sockaddr *)&place->local, words);
	*strrchr(words, ':') = '\0'; /* its port, which is none */
	if (index >= 0)
		snprintf(gid, sizeof(gid), ", GID %d", index);
	tell(doctor, TB_VERDICT_GOOD, port->about, "", "listen at rdma:%s:PORT (%s%s)", words,
	     place->interface, gid);
	if (port->groups)
		multicast(doctor, port->about, &place->local);
	if (port->roce && is_first_there(doctor, port, place))
		congestion(doctor, port->about, place->lowest);
}

/* One port that cannot be used takes nothing from who has another. */
static enum tb_verdict unused(const struct doctor *doctor)
{
	return doctor->ports > 0 ? TB_VERDICT_ADVICE : TB_VERDICT_BAD;
}

static void addresses(struct doctor *doctor, const struct port *port)
{
	bool any = false;

	for (size_t i = 0; i < doctor->place_count; i++) {
		if (!is_of_port(&doctor->places[i], port))
			continue;
		any = true;
		address_look(doctor, port, &doctor->places[i]);
	}
	if (!any && doctor->places_known)
		tell(doctor, unused(doctor), port->about,
		     "an address for its interface, on InfiniBand for that of IPoIB, and the "
		     "interface up",
		     "no IP address leads to it");
}

static void port_look(struct doctor *doctor, struct ibv_context *verbs, uint8_t number,
		      const struct ibv_device_attr *device)
{
	const bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct port look = { .verbs = verbs, .number = number, .groups = device->max_mcast_grp };
	struct ibv_port_attr port = { 0 };
	uint32_t mtu;

	snprintf(look.about, sizeof(look.about), "%s port %u", ibv_get_device_name(verbs->device),
		 number);
	if (ibv_query_port(verbs, number, &port) != 0 || port.state != IBV_PORT_ACTIVE) {
		tell(doctor, unused(doctor), look.about,
		     "a cable, ip link set up, a subnet manager on InfiniBand", "is %s",
		     ibv_port_state_str(port.state));
		return;
	}
	look.roce = !iwarp && port.link_layer == IBV_LINK_LAYER_ETHERNET;
	mtu = 128u << port.active_mtu; /* IBV_MTU_256 is 1 */
	tell(doctor, mtu < MTU_GOOD ? TB_VERDICT_ADVICE : TB_VERDICT_GOOD, look.about,
	     mtu < MTU_GOOD ? "an interface MTU of 1500 or more" : "",
	     "active, %s, MTU %" PRIu32 ", %d READs at once each way",
	     iwarp       ? "iWARP"
	     : look.roce ? "RoCE"
			 : "InfiniBand",
	     mtu, device->max_qp_rd_atom);
	if (!look.groups)
		tell(doctor, TB_VERDICT_GOOD, look.about, "",
		     "has no UD multicast: notices go by UDP on its interface");
	addresses(doctor, &look);
}

/* Active, and an address leads to it, where that is known. */
static bool is_usable(const struct doctor *doctor, const struct port *port)
{
	struct ibv_port_attr found = { 0 };
	bool any = !doctor->places_known;

	for (size_t i = 0; i < doctor->place_count; i++)
		any |= is_of_port(&doctor->places[i], port);
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

/* Where it is, and who is near. Only where there are several nodes there is something to choose. */
static void place_look(struct doctor *doctor, const struct ibv_device *device)
{
	const char *name = ibv_get_device_name((struct ibv_device *)(uintptr_t)device);
	char cpus[128];
	const int node = verbs_device_node(device, cpus, sizeof(cpus));

	if (node == NUMA_ANY)
		tell(doctor, TB_VERDICT_GOOD, name, "", "tells of no NUMA node that it is on");
	else if (numa_check(1) < 0 && numa_check(0) == 0)
		tell(doctor, TB_VERDICT_GOOD, name, "",
		     "is on NUMA node %d, the only one, near processors %s", node, cpus);
	else
		tell(doctor, TB_VERDICT_ADVICE, name,
		     "bus.cpu and feeds[].cpu: processors near it; bus.numa is its node by default",
		     "is on NUMA node %d, near processors %s", node, cpus);
}

static void device_look(struct doctor *doctor, struct ibv_device *device)
{
	struct ibv_context *verbs = ibv_open_device(device);
	struct ibv_device_attr attributes = { 0 };
	const char *name = ibv_get_device_name(device);

	doctor->devices++;
	place_look(doctor, device);
	if (!verbs) {
		tell(doctor, TB_VERDICT_BAD, name,
		     "permission for /dev/infiniband/uverbs*: the group rdma, or udev rules",
		     "cannot be opened: %s", strerror(errno));
		return;
	}
	if (ibv_query_device(verbs, &attributes) != 0)
		tell(doctor, TB_VERDICT_BAD, name, "a driver and rdma-core that fit each other",
		     "does not tell its properties");
	else
		for (uint8_t port = 1; port <= attributes.phys_port_cnt; port++)
			port_look(doctor, verbs, port, &attributes);
	ibv_close_device(verbs);
}

TB_API int tb_doctor(void (*finding)(void *user, const struct tb_finding *), void *user)
{
	struct doctor doctor = { .finding = finding, .user = user };
	struct ibv_device **devices;

	if (!finding)
		return error_set(EINVAL, "tb_doctor: found no callback, expected one");
	devices = ibv_get_device_list(NULL);
	if (devices && *devices)
		places_find(&doctor);
	for (struct ibv_device **device = devices; device && *device; device++)
		ports_count(&doctor, *device);
	for (struct ibv_device **device = devices; device && *device; device++)
		device_look(&doctor, *device);
	if (devices)
		ibv_free_device_list(devices);
	if (doctor.devices == 0)
		tell(&doctor, TB_VERDICT_ADVICE, "devices",
		     "a driver for the card; or a software device: rdma link add NAME type rxe "
		     "netdev INTERFACE",
		     "no RDMA device: this host has shared memory only");
	locked_memory(&doctor);
	huge_pages(&doctor);
	free(doctor.places);
	return doctor.bad;
}

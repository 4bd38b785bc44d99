/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor. A host without a device is healthy: shared memory needs none. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "bus/error.h"
#include "bus/numa.h"
#include "bus/verbs.h"
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

/* Whether a group can be joined from the address: waits for the event, for a time. */
static int join_try(const struct sockaddr_storage *local)
{
	struct rdma_event_channel *events = verbs_events_open("doctor");
	struct rdma_cm_id *id = NULL;
	struct ibv_context *device = NULL;
	struct sockaddr_storage from = *local, group;
	struct verbs_event event;
	int result = events ? 0 : -errno;

	address_parse_group("239.77.255.255:7472", &group);
	if (result == 0 && (rdma_create_id(events, &id, NULL, RDMA_PS_UDP) < 0 ||
			    rdma_bind_addr(id, (struct sockaddr *)&from) < 0))
		result = -errno;
	if (result == 0 && id->verbs)
		verbs_device_use(device = id->verbs);
	if (result == 0 && rdma_join_multicast(id, (struct sockaddr *)&group, NULL) < 0)
		result = -errno;
	if (result == 0) {
		struct pollfd ready = { .fd = events->fd, .events = POLLIN };

		result = -ETIMEDOUT;
		if (poll(&ready, 1, JOIN_MS) == 1 && verbs_event_take(events, &event) == 1)
			result = event.type == RDMA_CM_EVENT_MULTICAST_JOIN
					 ? 0
					 : -verbs_event_code(&event);
	}
	if (id) {
		rdma_leave_multicast(id, (struct sockaddr *)&group);
		rdma_destroy_id(id);
	}
	verbs_device_leave(device);
	if (events)
		rdma_destroy_event_channel(events);
	return result;
}

static void multicast(struct doctor *doctor, const char *about,
		      const struct ibv_device_attr *device, const struct sockaddr_storage *local)
{
	int result;

	if (device->max_mcast_grp == 0) {
		tell(doctor, TB_VERDICT_GOOD, about, "",
		     "has no UD multicast: notices go by UDP on its interface");
		return;
	}
	result = join_try(local);
	if (result == 0)
		tell(doctor, TB_VERDICT_GOOD, about, "",
		     "joins a multicast group; notices stay in the subnet unless hop_limit= says "
		     "otherwise");
	else
		tell(doctor, TB_VERDICT_BAD, about,
		     "an active port, on InfiniBand IPoIB that is up; or notice: udp, or none",
		     "cannot join a multicast group: %s", strerror(-result));
}

/* Explicit congestion notification of RoCE, where the driver shows it. */
static void congestion(struct doctor *doctor, const char *about, const char *interface)
{
	bool seen = false, on = false;
	char path[128];

	for (int priority = 0; priority < 8; priority++) {
		snprintf(path, sizeof(path), "/sys/class/net/%s/ecn/roce_np/enable/%d", interface,
			 priority);
		seen |= file_number(path) >= 0;
		on |= file_number(path) == 1;
	}
	if (seen && on)
		tell(doctor, TB_VERDICT_GOOD, about, "", "ECN is on at %s", interface);
	else if (seen)
		tell(doctor, TB_VERDICT_ADVICE, about,
		     "switch on ECN (and PFC on the switch) for the priority of the traffic class",
		     "ECN is off at %s: congestion shows as loss", interface);
}

/* Each address that a GID stands for: RoCE v2. */
static void addresses(struct doctor *doctor, struct ibv_context *verbs, uint32_t port,
		      const char *about, const struct ibv_device_attr *device)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	const ssize_t count = ibv_query_gid_table(verbs, entries, GIDS_MAX, 0);
	bool any = false;

	for (ssize_t i = 0; i < count; i++) {
		struct sockaddr_storage local = { .ss_family = AF_INET };
		char words[ADDRESS_WORDS], interface[IF_NAMESIZE] = "?";
		const uint8_t *raw = entries[i].gid.raw;

		if (entries[i].port_num != port || entries[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    !IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)raw))
			continue;
		any = true;
		memcpy(&((struct sockaddr_in *)&local)->sin_addr, raw + 12, 4);
		inet_ntop(AF_INET, raw + 12, words, sizeof(words));
		if_indextoname(entries[i].ndev_ifindex, interface);
		tell(doctor, TB_VERDICT_GOOD, about, "", "listen at rdma:%s:PORT (%s, GID %u)",
		     words, interface, entries[i].gid_index);
		multicast(doctor, about, device, &local);
		congestion(doctor, about, interface);
	}
	if (!any && verbs->device->transport_type == IBV_TRANSPORT_IB)
		tell(doctor, TB_VERDICT_ADVICE, about, "give its interface an IPv4 address",
		     "no GID of it stands for an IPv4 address");
}

static void port_look(struct doctor *doctor, struct ibv_context *verbs, uint8_t number,
		      const struct ibv_device_attr *device)
{
	struct ibv_port_attr port = { 0 };
	char about[96];
	uint32_t mtu;

	snprintf(about, sizeof(about), "%s port %u", ibv_get_device_name(verbs->device), number);
	if (ibv_query_port(verbs, number, &port) != 0 || port.state != IBV_PORT_ACTIVE) {
		tell(doctor, TB_VERDICT_BAD, about,
		     "a cable, ip link set up, a subnet manager on InfiniBand", "is %s",
		     ibv_port_state_str(port.state));
		return;
	}
	mtu = 128u << port.active_mtu; /* IBV_MTU_256 is 1 */
	tell(doctor, mtu < MTU_GOOD ? TB_VERDICT_ADVICE : TB_VERDICT_GOOD, about,
	     mtu < MTU_GOOD ? "an interface MTU of 1500 or more" : "",
	     "active, %s, MTU %" PRIu32 ", %d READs at once each way",
	     verbs->device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP"
	     : port.link_layer == IBV_LINK_LAYER_ETHERNET         ? "RoCE"
								  : "InfiniBand",
	     mtu, device->max_qp_rd_atom);
	if (device->max_mcast_grp == 0)
		multicast(doctor, about, device, NULL);
	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		tell(doctor, TB_VERDICT_ADVICE, about,
		     "ip address: listen at one of its IPoIB interface, which has to be up",
		     "its GIDs stand for no IP addresses: none was tried");
	else
		addresses(doctor, verbs, number, about, device);
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
	return doctor.bad;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/verbs/notice_udp.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/error.h"

#define IP_AND_UDP  28 /* bytes of their headers */
#define IP6_AND_UDP 48

/* The interface that has the address; 0: none. */
static unsigned int interface_of(const struct sockaddr_storage *local)
{
	struct ifaddrs *all, *at;
	unsigned int index = 0;

	if (getifaddrs(&all) < 0)
		return 0;
	for (at = all; at && !index; at = at->ifa_next)
		if (at->ifa_addr && address_same_host(at->ifa_addr, local))
			index = if_nametoindex(at->ifa_name);
	freeifaddrs(all);
	return index;
}

static int fail(int fd, const char *what)
{
	const int code = errno;

	if (fd >= 0)
		close(fd);
	return error_set(code, "notices by UDP: %s: %s", what, strerror(code));
}

int notice_udp_sender(const struct sockaddr_storage *local, const struct sockaddr_storage *group,
		      uint32_t hop_limit, uint32_t traffic_class)
{
	const int fd = socket(group->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int hops = (int)hop_limit, class = (int)traffic_class;
	const int interface = (int)interface_of(local);
	const struct ip_mreqn where = { .imr_ifindex = interface };
	struct sockaddr_storage from = *local;
	int result;

	if (fd < 0)
		return fail(fd, "no socket");
	((struct sockaddr_in *)&from)->sin_port = 0; /* both families have it there */
	if (group->ss_family == AF_INET)
		result = setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &where, sizeof(where)) |
			 setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &hops, sizeof(hops)) |
			 setsockopt(fd, IPPROTO_IP, IP_TOS, &class, sizeof(class));
	else
		result = setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface,
				    sizeof(interface)) |
			 setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &hops, sizeof(hops)) |
			 setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof(class));
	if (result < 0 || bind(fd, (struct sockaddr *)&from, address_bytes(&from)) < 0 ||
	    connect(fd, (const struct sockaddr *)group, address_bytes(group)) < 0)
		return fail(fd, "sending to the group");
	return fd;
}

uint32_t notice_udp_bytes(const struct sockaddr_storage *local,
			  const struct sockaddr_storage *group)
{
	const bool six = group->ss_family == AF_INET6;
	const int headers = six ? IP6_AND_UDP : IP_AND_UDP;
	const int fd = notice_udp_sender(local, group, 1, 0);
	socklen_t length = sizeof(int);
	int mtu = 0;

	if (fd < 0)
		return 0;
	if (getsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU : IP_MTU, &mtu,
		       &length) < 0)
		mtu = 0;
	close(fd);
	return mtu > headers ? (uint32_t)(mtu - headers) : 0;
}

static int member(int fd, const struct sockaddr_storage *group, unsigned int interface)
{
	const int no = 0;

	if (group->ss_family == AF_INET) {
		const struct ip_mreqn where = {
			.imr_multiaddr = ((const struct sockaddr_in *)group)->sin_addr,
			.imr_ifindex = (int)interface
		};

		return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &no, sizeof(no)) |
		       setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &where, sizeof(where));
	}
	{
		const struct ipv6_mreq where = {
			.ipv6mr_multiaddr = ((const struct sockaddr_in6 *)group)->sin6_addr,
			.ipv6mr_interface = interface
		};

		return setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &no, sizeof(no)) |
		       setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &where, sizeof(where));
	}
}

int notice_udp_receiver(const struct sockaddr_storage *local, const struct sockaddr_storage *group,
			size_t room)
{
	const int fd = socket(group->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int yes = 1, bytes = (int)room;
	const unsigned int interface = interface_of(local);
	struct sockaddr_storage at = *group;

	if (fd < 0)
		return fail(fd, "no socket");
	if (group->ss_family == AF_INET6) /* a group of link scope is one of each interface */
		((struct sockaddr_in6 *)&at)->sin6_scope_id = interface;
	/* Less room than asked for only means that a burst is noticed as lost sooner. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, (const struct sockaddr *)&at, address_bytes(&at)) < 0 ||
	    member(fd, group, interface) < 0)
		return fail(fd, "joining the group");
	return fd;
}

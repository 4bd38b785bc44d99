/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/groups.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/error.h"

#define PORT 7472 /* of groups that are made from a name */

/* Buses on one network need not agree on groups. If two buses share a group, subscribers
 * distinguish them by their ids. */
static void group_make(const char *bus, sa_family_t family, struct sockaddr_storage *group)
{
	struct sockaddr_in *four = (struct sockaddr_in *)group;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)group;
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *bus; bus++)
		hash = (hash ^ (uint8_t)*bus) * 16777619u;
	if (family == AF_INET6) {
		*six = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(PORT) };
		six->sin6_addr.s6_addr[0] = 0xff; /* ff15::/16: transient, site-local */
		six->sin6_addr.s6_addr[1] = 0x15;
		six->sin6_addr.s6_addr32[3] = htonl(hash);
		return;
	}
	four->sin_family = AF_INET;
	four->sin_port = htons(PORT);
	four->sin_addr.s_addr = htonl(0xef4d0000u | ((hash ^ hash >> 16) & 0xffff)); /* 239.77/16 */
}

const struct sockaddr_storage *groups_listen(struct groups *groups, const char *bus,
					     const char *address,
					     const struct sockaddr_storage *given)
{
	struct sockaddr_storage *own = &groups->own[groups->own_count++];
	struct address where;

	if (address_parse(address, &where) < 0)
		where.host.ss_family = AF_UNSPEC; /* another fabric's address */
	groups->four |= where.host.ss_family == AF_INET;
	groups->six |= where.host.ss_family == AF_INET6;
	*own = *given;
	if (own->ss_family == AF_UNSPEC)
		group_make(bus, where.host.ss_family, own);
	return own;
}

/* J3. */
static const char *no_notices_reason(const struct groups *groups, bool checked)
{
	if (!checked)
		return "an unchecked topic is served over shared memory only";
	if (groups->own_count == 0)
		return "the bus listens at shared memory only";
	return groups->silent ? "the bus sends no notices" : NULL;
}

/* J2. */
static int kind_check(const struct groups *groups, const char *text,
		      const struct sockaddr_storage *wanted)
{
	const bool four = wanted->ss_family == AF_INET;

	if ((!groups->four && !groups->six) || (four ? groups->four : groups->six))
		return 0;
	return error_set(
		EINVAL,
		"found \"%s\", expected an IPv%d group, like the addresses that the bus listens at",
		text, four ? 6 : 4);
}

/* J1. topic: the topic that uses the known group; NULL: the bus. */
static int port_check(const char *text, const struct sockaddr_storage *wanted,
		      const struct sockaddr_storage *known, const char *topic)
{
	const in_port_t port = ((const struct sockaddr_in *)known)
				       ->sin_port; /* at the same offset in both families */

	if (!address_same_host((const struct sockaddr *)wanted, known) ||
	    address_same(wanted, known))
		return 0;
	return error_set(EINVAL, "found \"%s\", expected port %u, which %s%s uses for this group",
			 text, ntohs(port), topic ? "topic " : "the bus", topic ? topic : "");
}

static int group_check(const struct groups *groups, const char *text,
		       const struct sockaddr_storage *wanted)
{
	int result = kind_check(groups, text, wanted);

	for (unsigned int i = 0; i < groups->own_count && result == 0; i++)
		result = port_check(text, wanted, &groups->own[i], NULL);
	for (unsigned int i = 0; i < groups->count && result == 0; i++)
		result =
			port_check(text, wanted, &groups->others[i].where, groups->others[i].topic);
	return result;
}

/* True if notices go to this group anyway, from each address. */
static bool is_own(const struct groups *groups, const struct sockaddr_storage *wanted)
{
	for (unsigned int i = 0; i < groups->own_count; i++)
		if (!address_same(wanted, &groups->own[i]))
			return false;
	return true;
}

int groups_take(struct groups *groups, const char *text, const char *topic, bool checked)
{
	const char *why = no_notices_reason(groups, checked);
	struct sockaddr_storage wanted;
	int result = address_parse_group(text, &wanted);

	if (result == 0 && why)
		result = error_set(EINVAL, "found \"%s\", expected no group: %s", text, why);
	if (result == 0)
		result = group_check(groups, text, &wanted);
	if (result < 0 || is_own(groups, &wanted))
		return result;
	for (unsigned int i = 0; i < groups->count; i++)
		if (address_same(&wanted, &groups->others[i].where))
			return (int)i + 1;
	if (groups->count == BOUND_NOTICE_GROUPS_MAX - 1) /* J4 */
		return error_set(ENOSPC,
				 "found \"%s\", expected one of the %d groups in use, the maximum",
				 text, BOUND_NOTICE_GROUPS_MAX);
	groups->others[groups->count].where = wanted;
	snprintf(groups->others[groups->count].topic, sizeof(groups->others[0].topic), "%s", topic);
	return (int)++groups->count;
}

void groups_drop(struct groups *groups)
{
	groups->count--;
}

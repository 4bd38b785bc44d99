/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "bus/account.h"
#include "bus/address.h"
#include "bus/error.h"
#include "bus/numa.h"
#include "publisher/log.h"
#include "publisher/quota.h"

static int range_check(const char *what, size_t found, uint32_t low, uint32_t high)
{
	if (found >= low && found <= high)
		return 0;
	return error_set(EINVAL, "publisher options: %s: found %zu, expected %u to %u", what, found,
			 low, high);
}

static int list_check(const char *what, const char *const *list, size_t count, uint32_t max)
{
	if (count && !list)
		return error_set(
			EINVAL,
			"publisher options: %s: found NULL, expected as many entries as its count",
			what);
	if (count > max)
		return error_set(EINVAL, "publisher options: %s: found %zu, expected 0 to %u", what,
				 count, max);
	for (size_t i = 0; i < count; i++)
		if (!list[i])
			return error_set(EINVAL, "publisher options: %s[%zu]: found NULL", what, i);
	return 0;
}

/* Compares host and port; parameters behind an address do not make it another. */
static bool is_same_address(const char *one, const char *other)
{
	const char *parts[2];
	struct address read[2];
	const struct fabric_ops *ops = fabric_find(one, &parts[0]);

	if (!ops || ops != fabric_find(other, &parts[1]))
		return false;
	if (!ops->network || address_parse(parts[0], &read[0]) < 0 ||
	    address_parse(parts[1], &read[1]) < 0)
		return strcmp(parts[0], parts[1]) == 0;
	return address_same(&read[0].host, &read[1].host);
}

static int listen_check(const struct tb_publisher_options *options)
{
	const char *const *listen = options->listen;
	const int result = list_check("listen", listen, options->listen_count, BOUND_LISTENERS_MAX);

	for (size_t i = 0; result == 0 && i < options->listen_count; i++)
		for (size_t j = 0; j < i; j++)
			if (is_same_address(listen[i], listen[j]))
				return error_set(EADDRINUSE,
						 "publisher options: listen[%zu]: found %s, "
						 "which listen[%zu] has already",
						 i, listen[i], j);
	return result;
}

int options_name_check(const char *what, const char *name)
{
	size_t length = name ? strnlen(name, CONTROL_NAME_MAX + 1) : 0;
	bool good = length > 0 && length <= CONTROL_NAME_MAX && name[0] != '.';

	for (size_t i = 0; good && i < length; i++)
		good = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
	if (good)
		return 0;
	return error_set(EINVAL,
			 "%s: found \"%.64s\", expected 1 to %d letters, digits, "
			 "'.', '_' and '-', not beginning with '.'",
			 what, name ? name : "", CONTROL_NAME_MAX);
}

static_assert((int)TB_NOTICE_AUTO - 1 == (int)FABRIC_NOTICES_AUTO &&
		      (int)TB_NOTICE_NONE - 1 == (int)FABRIC_NOTICES_NONE &&
		      (int)TB_NOTICE_UD - 1 == (int)FABRIC_NOTICES_UD &&
		      (int)TB_NOTICE_UDP - 1 == (int)FABRIC_NOTICES_UDP,
	      "one numbering of notices");

static int notices_take(struct tb_publisher *publisher, const struct tb_publisher_options *options)
{
	const uint32_t bytes = options->notice_bytes ? options->notice_bytes : BOUND_NOTICE_BYTES;
	int result = range_check("notice", options->notice, 0, TB_NOTICE_UDP);

	if (result == 0)
		result = range_check("notice_bytes", bytes, BOUND_NOTICE_BYTES_MIN,
				     BOUND_NOTICE_BYTES_MAX);
	if (result < 0)
		return result;
	publisher->notices.kind = (enum fabric_notices_kind)((int)options->notice - 1);
	publisher->notices.bytes = bytes;
	publisher->groups.silent = publisher->notices.kind == FABRIC_NOTICES_NONE;
	if (options->multicast &&
	    address_parse_group(options->multicast, &publisher->notices.group) < 0)
		return error_prefix(-EINVAL, "publisher options: multicast: ");
	return 0;
}

/* The NUMA node of the first RDMA address's device. */
static int node_default(const struct tb_publisher_options *options)
{
	for (size_t i = 0; options->listen && i < options->listen_count; i++) {
		const char *address;
		const struct fabric_ops *ops = fabric_find(options->listen[i], &address);
		const int node = ops ? ops->node(address) : FABRIC_NO_DEVICE;

		if (node != FABRIC_NO_DEVICE)
			return node;
	}
	return NUMA_ANY;
}

static int on_check(const char *what, uint32_t number)
{
	if (number <= CPU_SETSIZE)
		return 0;
	return error_set(EINVAL,
			 "publisher options: %s: found TB_ON(%u), expected 0 or TB_ON(0) to "
			 "TB_ON(%d)",
			 what, number - 1, CPU_SETSIZE - 1);
}

static int binding_take(struct tb_publisher *publisher, const struct tb_publisher_options *options)
{
	int result = on_check("cpu", options->cpu);

	if (result == 0)
		result = on_check("numa", options->numa);
	if (result < 0)
		return result;
	publisher->cpu = (int)options->cpu - 1;
	publisher->node = options->numa ? (int)options->numa - 1 : node_default(options);
	if (options->numa) {
		result = numa_check(publisher->node);
		if (result < 0)
			return error_prefix(result, "publisher options: numa: ");
	} else if (publisher->node != NUMA_ANY && numa_check(publisher->node) < 0) {
		publisher_log(
			publisher, TB_LOG_WARNING,
			"the RDMA device's node: %s; memory of topics is allocated on any node",
			tb_error());
		publisher->node = NUMA_ANY;
	}
	return 0;
}

int options_take(struct tb_publisher *publisher, const struct tb_publisher_options *options)
{
	int result = options_name_check("publisher options: name", options->name);

	publisher->stale_ms = options->stale_ms ? options->stale_ms : BOUND_STALE_MS;
	publisher->topics_max = options->topics_max ? options->topics_max : BOUND_TOPICS;
	publisher->exit_wait_ms = options->exit_wait_ms == UINT32_MAX ? 0
				  : options->exit_wait_ms             ? options->exit_wait_ms
								      : BOUND_EXIT_WAIT_MS;
	publisher->subscribers_max =
		options->subscribers_max ? options->subscribers_max : BOUND_SUBSCRIBERS;
	publisher->subscribers_per_host = options->subscribers_per_host
						  ? options->subscribers_per_host
						  : quota_default(publisher->subscribers_max);
	publisher->log = options->log;
	publisher->log_user = options->user;
	if (result == 0)
		result = range_check("flags", options->flags, 0, TB_PUBLISHER_HELD);
	if (result == 0)
		result = range_check("stale_ms", publisher->stale_ms, BOUND_STALE_MS_MIN,
				     BOUND_STALE_MS_MAX);
	if (result == 0)
		result = range_check("topics_max", publisher->topics_max, 1, BOUND_TOPICS_MAX);
	if (result == 0)
		result = range_check("subscribers_max", options->subscribers_max, 0,
				     BOUND_SUBSCRIBERS_MAX);
	if (result == 0)
		result = range_check("subscribers_per_host", options->subscribers_per_host, 0,
				     BOUND_SUBSCRIBERS_MAX);
	if (result == 0)
		result = listen_check(options);
	if (result == 0)
		result = list_check("users", options->users, options->user_count,
				    BOUND_ACCOUNTS_MAX);
	if (result == 0)
		result = list_check("groups", options->groups, options->group_count,
				    BOUND_ACCOUNTS_MAX);
	if (result == 0)
		memcpy(publisher->name, options->name, strlen(options->name) + 1);
	if (result == 0)
		result = notices_take(publisher, options);
	return result < 0 ? result : binding_take(publisher, options);
}

int options_users(const struct tb_publisher_options *options, uid_t *users)
{
	for (size_t i = 0; i < options->user_count; i++) {
		int code = account_user(options->users[i], &users[i]);

		if (code)
			return error_set(
				code,
				"publisher options: users: found \"%s\", expected the name of a "
				"user of this machine",
				options->users[i]);
	}
	return 0;
}

int options_groups(const struct tb_publisher_options *options, gid_t *groups)
{
	for (size_t i = 0; i < options->group_count; i++) {
		int code = account_group(options->groups[i], &groups[i]);

		if (code)
			return error_set(
				code,
				"publisher options: groups: found \"%s\", expected the name of "
				"a group of this machine",
				options->groups[i]);
	}
	return 0;
}

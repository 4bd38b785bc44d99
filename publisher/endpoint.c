/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "bus/bus_page.h"
#include "bus/error.h"
#include "publisher/announce.h"
#include "publisher/log.h"
#include "publisher/options.h"

/* Which folder or device it is does not follow from the address alone. */
static void endpoint_log_place(const struct endpoint *endpoint, const char *address)
{
	char where[256];

	endpoint->listener->ops->listener_text(endpoint->listener, where, sizeof(where));
	publisher_log(endpoint->publisher, TB_LOG_INFO, "address %s: listens at %s", address,
		      where);
}

static int endpoint_open(struct tb_publisher *publisher, const char *address,
			 const struct fabric_access *access, const struct listener_calls *calls)
{
	struct endpoint *endpoint = &publisher->endpoints[publisher->endpoint_count];
	const struct control_message keep_alive = { .type = CONTROL_WAKE }; /* of no topic */
	uint8_t keep_alive_bytes[FABRIC_MESSAGE_BYTES];
	struct fabric_listen how = { .common = &publisher->common,
				     .access = *access,
				     .peers_max = publisher->subscribers_max,
				     .peers_per_user = publisher->subscribers_per_host,
				     .withdrawn_ms = bus_page_kept_ms(publisher->stale_ms),
				     .notices = publisher->notices,
				     .keep_alive = keep_alive_bytes,
				     .keep_alive_bytes =
					     control_encode(&keep_alive, keep_alive_bytes) };
	const struct fabric_ops *ops = fabric_find(address, &how.address);
	int result;

	if (!ops)
		return -EINVAL;
	if (ops->network) {
		endpoint->group = groups_listen(&publisher->groups, publisher->name, how.address,
						&publisher->notices.group);
		how.notices.group = *endpoint->group;
	}
	result = ops->identity(how.address, endpoint->identity);
	if (result < 0)
		return result;
	endpoint->publisher = publisher;
	endpoint->index = publisher->endpoint_count;
	result = ops->listen(&endpoint->listener, &how, calls, endpoint);
	if (result < 0)
		return result;
	publisher->endpoint_count++;
	endpoint_log_place(endpoint, address);
	for (uint32_t i = 0; i < publisher->realm_count && result == 0; i++)
		result = ops->expose(endpoint->listener, &publisher->realms[i].page, i,
				     &endpoint->pages[i]);
	return result < 0 ? result : announce_endpoint(endpoint);
}

int endpoints_open(struct tb_publisher *publisher, const struct tb_publisher_options *options,
		   const struct listener_calls *calls)
{
	uid_t users[BOUND_ACCOUNTS_MAX];
	gid_t groups[BOUND_ACCOUNTS_MAX];
	const struct fabric_access access = { users, options->user_count, groups,
					      options->group_count };
	char own[CONTROL_NAME_MAX + 8];
	int result = options_users(options, users);

	if (result == 0)
		result = options_groups(options, groups);
	if (result < 0)
		return result;
	snprintf(own, sizeof(own), "shm:%s", publisher->name);
	if (!options->listen || options->listen_count == 0)
		return endpoint_open(publisher, own, &access, calls);
	for (size_t i = 0; i < options->listen_count && result == 0; i++)
		result = endpoint_open(publisher, options->listen[i], &access, calls);
	return result;
}

int endpoints_watch(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->endpoint_count; i++) {
		struct endpoint *endpoint = &publisher->endpoints[i];
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = endpoint };

		if (epoll_ctl(publisher->epoll_fd, EPOLL_CTL_ADD,
			      endpoint->listener->ops->listener_fd(endpoint->listener), &event) < 0)
			return error_set(errno, "bus %s: epoll: %s", publisher->name,
					 strerror(errno));
	}
	return 0;
}

void endpoints_close(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->endpoint_count; i++) {
		struct endpoint *endpoint = &publisher->endpoints[i];

		for (uint32_t realm = 0; realm < publisher->realm_count; realm++)
			if (endpoint->pages[realm])
				endpoint->pages[realm]->ops->withdraw(endpoint->pages[realm]);
		endpoint->listener->ops->listener_close(endpoint->listener);
	}
}

void endpoints_withdraw(struct exposures *exposures)
{
	for (size_t i = 0; i < BOUND_LISTENERS_MAX; i++)
		for (size_t realm = 0; realm < BOUND_REALMS_MAX; realm++)
			if (exposures->of[i][realm])
				exposures->of[i][realm]->ops->withdraw(exposures->of[i][realm]);
	*exposures = (struct exposures){ 0 };
}

static int endpoint_expose(struct endpoint *endpoint, const struct memory *memory, uint32_t realms,
			   struct exposure *exposures[BOUND_REALMS_MAX])
{
	const struct fabric_ops *ops = endpoint->listener->ops;
	int result = 0;

	for (uint32_t realm = 0; realm < BOUND_REALMS_MAX && result == 0; realm++)
		if (realms >> realm & 1)
			result = ops->expose(endpoint->listener, memory, realm, &exposures[realm]);
	return result;
}

int endpoints_expose(struct tb_publisher *publisher, const struct region_shape *shape,
		     const struct memory *memory, uint32_t realms, struct exposures *exposures)
{
	int result = 0;

	for (uint32_t i = 0; i < publisher->endpoint_count && result == 0; i++)
		if (publisher->endpoints[i].listener->ops->network &&
		    (shape->flags & REGION_FLAG_CHECKED))
			result = endpoint_expose(&publisher->endpoints[i], memory, realms,
						 exposures->of[i]);
	if (result < 0)
		endpoints_withdraw(exposures);
	return result;
}

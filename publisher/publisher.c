/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a bus. */
#include "publisher/publisher.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/error.h"
#include "bus/notice.h"
#include "bus/clock.h"
#include "bus/random.h"
#include "bus/bounds.h"
#include "bus/numa.h"

void publisher_lock(struct tb_publisher *publisher)
{
	pthread_mutex_lock(&publisher->lock);
}

void publisher_unlock(struct tb_publisher *publisher)
{
	pthread_mutex_unlock(&publisher->lock);
}

void publisher_log(const struct tb_publisher *publisher, enum tb_log_level level,
		   const char *format, ...)
{
	char words[1024];
	va_list args;

	if (!publisher->log)
		return;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	publisher->log(publisher->log_user, level, words);
}

void publisher_withdraw(struct exposures *exposures)
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

int publisher_expose(struct tb_publisher *publisher, const struct region_shape *shape,
		     const struct memory *memory, uint32_t realms, struct exposures *exposures)
{
	int result = 0;

	for (uint32_t i = 0; i < publisher->endpoint_count && result == 0; i++)
		if (publisher->endpoints[i].listener->ops->network &&
		    (shape->flags & REGION_FLAG_CHECKED))
			result = endpoint_expose(&publisher->endpoints[i], memory, realms,
						 exposures->of[i]);
	if (result < 0)
		publisher_withdraw(exposures);
	return result;
}

/* Pages that cannot be pinned still work, over shared memory: one warning for the bus. */
void publisher_pin(struct tb_publisher *publisher, const struct memory *memory)
{
	if (memory_pin(memory) == 0 || publisher->pin_warned)
		return;
	publisher->pin_warned = true;
	publisher_log(
		publisher, TB_LOG_WARNING,
		"%s; latency may suffer when memory is short; remedy: a higher limit (ulimit -l, "
		"LimitMEMLOCK=) or smaller topics",
		tb_error());
}

/* -- options ------------------------------------------------------------------------------------
 */

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
		return error_set(EINVAL, "publisher options: %s: found a count without its list",
				 what);
	if (count > max)
		return error_set(EINVAL, "publisher options: %s: found %zu, expected 0 to %u", what,
				 count, max);
	for (size_t i = 0; i < count; i++)
		if (!list[i])
			return error_set(EINVAL, "publisher options: %s[%zu]: found NULL", what, i);
	return 0;
}

/* However they are written: knobs make no other address. */
static bool same_place(const char *one, const char *other)
{
	const char *places[2];
	struct address read[2];
	const struct fabric_ops *ops = fabric_find(one, &places[0]);

	if (!ops || ops != fabric_find(other, &places[1]))
		return false;
	if (!ops->network || address_parse(places[0], &read[0]) < 0 ||
	    address_parse(places[1], &read[1]) < 0)
		return strcmp(places[0], places[1]) == 0;
	return address_same(&read[0].host, &read[1].host);
}

static int listen_check(const struct tb_publisher_options *options)
{
	const char *const *listen = options->listen;
	const int result = list_check("listen", listen, options->listen_count, BOUND_LISTENERS_MAX);

	for (size_t i = 0; result == 0 && i < options->listen_count; i++)
		for (size_t j = 0; j < i; j++)
			if (same_place(listen[i], listen[j]))
				return error_set(EADDRINUSE,
						 "publisher options: listen[%zu]: found %s, which "
						 "is at listen[%zu] already",
						 i, listen[i], j);
	return result;
}

int publisher_name_check(const char *what, const char *name)
{
	size_t length = name ? strnlen(name, CONTROL_NAME_MAX + 1) : 0;
	bool good = length > 0 && length <= CONTROL_NAME_MAX && name[0] != '.';

	for (size_t i = 0; good && i < length; i++)
		good = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
	if (good)
		return 0;
	return error_set(
		EINVAL,
		"publisher options: %s: found \"%.64s\", expected 1 to %d letters, digits, "
		"'.', '_' and '-', not beginning with '.'",
		what, name ? name : "", CONTROL_NAME_MAX);
}

static int notices_take(struct tb_publisher *publisher, const struct tb_publisher_options *options)
{
	static const enum fabric_notices_kind kinds[] = {
		[TB_NOTICE_AUTO] = FABRIC_NOTICES_AUTO,
		[TB_NOTICE_NONE] = FABRIC_NOTICES_NONE,
		[TB_NOTICE_UD] = FABRIC_NOTICES_UD,
		[TB_NOTICE_UDP] = FABRIC_NOTICES_UDP,
	};
	const uint32_t bytes = options->notice_bytes ? options->notice_bytes : BOUND_NOTICE_BYTES;
	int result = range_check("notice", options->notice, 0, TB_NOTICE_UDP);

	if (result == 0)
		result = range_check("notice_bytes", bytes, BOUND_NOTICE_BYTES_MIN,
				     BOUND_NOTICE_BYTES_MAX);
	if (result < 0)
		return result;
	publisher->notices.kind = kinds[options->notice];
	publisher->notices.bytes = bytes;
	publisher->groups.silent = publisher->notices.kind == FABRIC_NOTICES_NONE;
	if (options->multicast &&
	    address_parse_group(options->multicast, &publisher->notices.group) < 0)
		return error_prefix(-EINVAL, "publisher options: multicast: ");
	return 0;
}

/* The node of the first RDMA address's device. */
static int node_default(const struct tb_publisher_options *options)
{
	for (size_t i = 0; options->listen && i < options->listen_count; i++) {
		const char *address;
		const struct fabric_ops *ops = fabric_find(options->listen[i], &address);

		if (ops && ops->node)
			return ops->node(address);
	}
	return NUMA_ANY;
}

static int place_check(const char *what, uint32_t place)
{
	if (place <= CPU_SETSIZE)
		return 0;
	return error_set(EINVAL,
			 "publisher options: %s: found TB_ON(%u), expected 0 or TB_ON(0) to "
			 "TB_ON(%d)",
			 what, place - 1, CPU_SETSIZE - 1);
}

static int places_take(struct tb_publisher *publisher, const struct tb_publisher_options *options)
{
	int result = place_check("cpu", options->cpu);

	if (result == 0)
		result = place_check("numa", options->numa);
	if (result < 0)
		return result;
	publisher->cpu = (int)options->cpu - 1;
	publisher->node = options->numa ? (int)options->numa - 1 : node_default(options);
	if (options->numa) {
		result = numa_check(publisher->node);
		if (result < 0)
			return error_prefix(result, "publisher options: numa: ");
	} else if (publisher->node != NUMA_ANY && numa_check(publisher->node) < 0) {
		publisher_log(publisher, TB_LOG_WARNING,
			      "the RDMA device's node: %s; topics' memory lies on any", tb_error());
		publisher->node = NUMA_ANY;
	}
	return 0;
}

static int options_take(struct tb_publisher *publisher, const struct tb_publisher_options *options)
{
	int result = publisher_name_check("name", options->name);

	publisher->stale_ms = options->stale_ms ? options->stale_ms : BOUND_STALE_MS;
	publisher->topics_max = options->topics_max ? options->topics_max : BOUND_TOPICS;
	publisher->exit_wait_ms = options->exit_wait_ms == UINT32_MAX ? 0
				  : options->exit_wait_ms             ? options->exit_wait_ms
								      : BOUND_EXIT_WAIT_MS;
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
	return result < 0 ? result : places_take(publisher, options);
}

static int users_find(const struct tb_publisher_options *options, uid_t *users)
{
	char buffer[16384];
	struct passwd entry, *found;

	for (size_t i = 0; i < options->user_count; i++) {
		int code = getpwnam_r(options->users[i], &entry, buffer, sizeof(buffer), &found);

		if (!found)
			return error_set(
				code ? code : ENOENT,
				"publisher options: users: found \"%s\", expected the name of a "
				"user of this machine",
				options->users[i]);
		users[i] = entry.pw_uid;
	}
	return 0;
}

static int groups_find(const struct tb_publisher_options *options, gid_t *groups)
{
	char buffer[65536];
	struct group entry, *found;

	for (size_t i = 0; i < options->group_count; i++) {
		int code = getgrnam_r(options->groups[i], &entry, buffer, sizeof(buffer), &found);

		if (!found)
			return error_set(
				code ? code : ENOENT,
				"publisher options: groups: found \"%s\", expected the name of "
				"a group of this machine",
				options->groups[i]);
		groups[i] = entry.gr_gid;
	}
	return 0;
}

/* -- opening ------------------------------------------------------------------------------------
 */

static int endpoint_open(struct tb_publisher *publisher, const char *address,
			 const struct fabric_access *access, uint32_t subscribers_max)
{
	struct endpoint *endpoint = &publisher->endpoints[publisher->endpoint_count];
	struct fabric_listen how = { .common = &publisher->common,
				     .access = *access,
				     .peers_max = subscribers_max,
				     .notices = publisher->notices };
	const struct fabric_ops *ops = fabric_find(address, &how.address);
	int result;

	if (!ops)
		return -EINVAL;
	if (ops->network) {
		endpoint->group = groups_listen(&publisher->groups, publisher->name, how.address,
						&publisher->notices.group);
		how.notices.group = *endpoint->group;
	}
	endpoint->publisher = publisher;
	endpoint->index = publisher->endpoint_count;
	result = ops->listen(&endpoint->listener, &how, &server_calls, endpoint);
	if (result < 0)
		return result;
	publisher->endpoint_count++;
	for (uint32_t i = 0; i < publisher->realm_count && result == 0; i++)
		result = ops->expose(endpoint->listener, &publisher->realms[i].page, i,
				     &endpoint->pages[i]);
	return result < 0 ? result : announce_endpoint(endpoint);
}

/* From here on the control thread looks at the listeners. Until then who connects waits in their
 * queues, which the kernel keeps. */
static int endpoints_watch(struct tb_publisher *publisher)
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

static int endpoints_open(struct tb_publisher *publisher,
			  const struct tb_publisher_options *options)
{
	uid_t users[BOUND_ACCOUNTS_MAX];
	gid_t groups[BOUND_ACCOUNTS_MAX];
	const struct fabric_access access = { users, options->user_count, groups,
					      options->group_count };
	const uint32_t subscribers =
		options->subscribers_max ? options->subscribers_max : BOUND_SUBSCRIBERS;
	char own[CONTROL_NAME_MAX + 8];
	int result = users_find(options, users);

	if (result == 0)
		result = groups_find(options, groups);
	if (result < 0)
		return result;
	snprintf(own, sizeof(own), "shm:%s", publisher->name);
	if (!options->listen || options->listen_count == 0)
		return endpoint_open(publisher, own, &access, subscribers);
	for (size_t i = 0; i < options->listen_count && result == 0; i++)
		result = endpoint_open(publisher, options->listen[i], &access, subscribers);
	return result;
}

static int descriptors_open(struct tb_publisher *publisher)
{
	const long quarter_ms = publisher->stale_ms / 4;
	const struct timespec quarter = { quarter_ms / 1000, quarter_ms % 1000 * 1000000 };
	const struct itimerspec pace = { quarter, quarter };
	struct epoll_event event = { .events = EPOLLIN };

	publisher->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	publisher->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	publisher->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (publisher->epoll_fd < 0 || publisher->event_fd < 0 || publisher->timer_fd < 0 ||
	    timerfd_settime(publisher->timer_fd, 0, &pace, NULL) < 0 ||
	    epoll_ctl(publisher->epoll_fd, EPOLL_CTL_ADD, publisher->event_fd, &event) < 0 ||
	    epoll_ctl(publisher->epoll_fd, EPOLL_CTL_ADD, publisher->timer_fd, &event) < 0)
		return error_set(errno, "bus %s: no descriptors for its thread: %s",
				 publisher->name, strerror(errno));
	return 0;
}

/* Signals are for the program's own threads. */
static int thread_create(struct tb_publisher *publisher, const cpu_set_t *cpus)
{
	sigset_t all, before;
	pthread_attr_t how;
	int code = pthread_attr_init(&how);

	if (code)
		return code;
	if (cpus)
		code = pthread_attr_setaffinity_np(&how, sizeof(*cpus), cpus);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (code == 0)
		code = pthread_create(&publisher->thread, &how, server_run, publisher);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&how);
	return code;
}

/* The processors near a node, of those that the process's main thread may run on: what the process
 * was kept to (taskset, CPUAffinity=) holds, whatever the caller's own thread is kept to. May be
 * none. */
static void cpus_near(int node, cpu_set_t *cpus)
{
	cpu_set_t own;

	if (!numa_cpus(node, cpus) || sched_getaffinity(getpid(), sizeof(own), &own) < 0)
		CPU_ZERO(&own);
	CPU_AND(cpus, cpus, &own);
}

/* A processor that was asked for has to be had. Where none near the node may be run on, any is as
 * good that the caller may run on. */
static int thread_start(struct tb_publisher *publisher)
{
	char online[256];
	cpu_set_t cpus;
	int code;

	CPU_ZERO(&cpus);
	if (publisher->cpu >= 0)
		CPU_SET((size_t)publisher->cpu, &cpus);
	else if (publisher->node != NUMA_ANY)
		cpus_near(publisher->node, &cpus);
	code = thread_create(publisher, CPU_COUNT(&cpus) > 0 ? &cpus : NULL);
	if (code == EINVAL && publisher->cpu < 0)
		code = thread_create(publisher, NULL);
	if (code == EINVAL && publisher->cpu >= 0) {
		numa_line("/sys/devices/system/cpu/online", online, sizeof(online));
		return error_set(EINVAL,
				 "publisher options: cpu: found processor %d, expected one of %s "
				 "that this process may run on",
				 publisher->cpu, online);
	}
	if (code)
		return error_set(code, "bus %s: no thread: %s", publisher->name, strerror(code));
	pthread_setname_np(publisher->thread, "tickbus-control");
	return 0;
}

static void publisher_free(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->topic_count; i++) {
		announce_close(publisher->topics[i]);
		publisher_withdraw(&publisher->topics[i]->exposures);
	}
	announce_end(publisher);
	for (uint32_t i = 0; i < publisher->endpoint_count; i++) {
		struct endpoint *endpoint = &publisher->endpoints[i];

		for (uint32_t realm = 0; realm < publisher->realm_count; realm++)
			if (endpoint->pages[realm])
				endpoint->pages[realm]->ops->withdraw(endpoint->pages[realm]);
		endpoint->listener->ops->listener_close(endpoint->listener);
	}
	while (publisher->sessions)
		session_close(publisher->sessions);
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		topic_close(publisher->topics[i]);
	free(publisher->topics);
	realms_close(publisher);
	if (publisher->epoll_fd >= 0)
		close(publisher->epoll_fd);
	if (publisher->event_fd >= 0)
		close(publisher->event_fd);
	if (publisher->timer_fd >= 0)
		close(publisher->timer_fd);
	pthread_mutex_destroy(&publisher->lock);
	free(publisher);
}

static int publisher_build(struct tb_publisher *publisher,
			   const struct tb_publisher_options *options)
{
	int result = options_take(publisher, options);

	if (result < 0)
		return result;
	result = random_u64(&publisher->bus_id);
	if (result < 0)
		return result;
	publisher->fence_in_flush = wakeup_needs_fence();
	publisher->topics = calloc(publisher->topics_max, sizeof(*publisher->topics));
	if (!publisher->topics)
		return error_set(ENOMEM, "bus %s: no memory", publisher->name);
	result = realms_open(publisher, options);
	if (result < 0)
		return result;
	server_pulse(publisher, REALMS_ALL);
	result = descriptors_open(publisher);
	if (result == 0)
		result = endpoints_open(publisher, options);
	publisher->held = options->flags & TB_PUBLISHER_HELD;
	if (result == 0 && !publisher->held)
		result = endpoints_watch(publisher);
	return result < 0 ? result : thread_start(publisher);
}

TB_API int tb_publisher_open(struct tb_publisher **out, const struct tb_publisher_options *options)
{
	struct tb_publisher *publisher;
	int result;

	if (!out)
		return error_set(EINVAL, "publisher: found no place for it");
	*out = NULL;
	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "publisher options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	publisher = calloc(1, sizeof(*publisher));
	if (!publisher)
		return error_set(ENOMEM, "publisher: no memory");
	publisher->process = getpid();
	publisher->epoll_fd = publisher->event_fd = publisher->timer_fd = -1;
	pthread_mutex_init(&publisher->lock, NULL);
	result = publisher_build(publisher, options);
	if (result < 0) {
		publisher_free(publisher);
		return result;
	}
	*out = publisher;
	return 0;
}

TB_API int tb_publisher_begin(struct tb_publisher *publisher)
{
	if (!publisher->held)
		return 0;
	publisher->held = false;
	return endpoints_watch(publisher);
}

/* -- topics and counters ------------------------------------------------------------------------
 */

/* One thread at a time adds topics, and nobody takes one away: so what is found stays so. */
int publisher_room(struct tb_publisher *publisher, const char *name)
{
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		if (strcmp(publisher->topics[i]->name, name) == 0)
			return error_set(EEXIST, "topic %s: the bus has a topic of this name",
					 name);
	if (publisher->topic_count == publisher->topics_max)
		return error_set(ENOSPC, "topic %s: the bus has its %u topics", name,
				 publisher->topics_max);
	return 0;
}

TB_API int tb_topic_create(struct tb_publisher *publisher, const struct tb_topic_options *options,
			   struct tb_topic **out)
{
	struct tb_topic *topic;
	int result = topic_open(&topic, publisher, options, publisher->topic_count + 1,
				publisher->event_fd, publisher->fence_in_flush);

	*out = NULL;
	if (result < 0)
		return result;
	publisher_lock(publisher);
	topic->realms = realms_of(publisher, topic->name);
	result = publisher_expose(publisher, &topic->shape, &topic->memory, topic->realms,
				  &topic->exposures);
	if (result == 0)
		result = announce_open(topic, options->multicast);
	if (result == 0) {
		publisher_pin(publisher, &topic->memory);
		publisher->topics[publisher->topic_count++] = topic;
		realms_change(publisher, topic);
		server_pulse(publisher, topic->realms);
	} else {
		error_prefix(result, "topic %s: ", topic->name);
		announce_close(topic);
		publisher_withdraw(&topic->exposures);
	}
	publisher_unlock(publisher);
	if (result == 0 && !topic->realms)
		publisher_log(publisher, TB_LOG_WARNING,
			      "topic %s: it is in no realm: nobody can read it", topic->name);
	if (result < 0)
		topic_close(topic);
	else
		*out = topic;
	return result;
}

TB_API size_t tb_publisher_joins(struct tb_publisher *publisher, struct tb_topic *const *topics,
				 size_t count)
{
	size_t joins = 0;

	publisher_lock(publisher);
	if (!topics)
		for (uint32_t i = 0; i < publisher->topic_count; i++)
			joins += publisher->topics[i]->join_count;
	for (size_t i = 0; topics && i < count; i++)
		joins += topics[i]->join_count;
	publisher_unlock(publisher);
	return joins;
}

/* Whether a message can carry it: so many bytes of printable ASCII at most. */
static bool is_text(const char *text, size_t max)
{
	size_t length = 0;

	while (length <= max && text[length] >= ' ' && text[length] <= '~')
		length++;
	return length <= max && text[length] == '\0';
}

static int table_check(const struct tb_counter *table, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!is_text(table[i].name, CONTROL_COUNTER_NAME_MAX) ||
		    !is_text(table[i].unit, CONTROL_COUNTER_UNIT_MAX))
			return error_set(
				EINVAL,
				"counter %s (%s): expected a name of at most %d bytes of printable "
				"ASCII and a unit of at most %d",
				table[i].name, table[i].unit, CONTROL_COUNTER_NAME_MAX,
				CONTROL_COUNTER_UNIT_MAX);
	return 0;
}

TB_API int tb_publisher_count(struct tb_publisher *publisher, const char *name,
			      const struct tb_counter *table, const uint64_t *values, size_t count)
{
	int result = count >= 1 && count <= 64
			     ? table_check(table, count)
			     : error_set(EINVAL, "counters %s: found %zu, expected 1 to 64", name,
					 count);

	if (result == 0 && (!name[0] || !is_text(name, CONTROL_NAME_MAX)))
		result = error_set(EINVAL,
				   "counters: found the name \"%.64s\", expected 1 to %d bytes of "
				   "printable ASCII",
				   name, CONTROL_NAME_MAX);
	if (result < 0)
		return result;
	publisher_lock(publisher);
	if (publisher->feed_count == BOUND_FEEDS_MAX) {
		result = error_set(ENOSPC, "counters %s: there are %d blocks", name,
				   BOUND_FEEDS_MAX);
	} else {
		struct feed_block *feed = &publisher->feeds[publisher->feed_count++];

		memcpy(feed->name, name, strlen(name) + 1);
		feed->table = table;
		feed->values = (const _Atomic uint64_t *)values;
		feed->count = count;
	}
	publisher_unlock(publisher);
	return result;
}

/* -- closing ------------------------------------------------------------------------------------
 */

/* A child that was forked has neither the thread nor what it holds locked, and shares all the rest:
 * the descriptors, the memory, the names in the file system. */
TB_API void tb_publisher_close(struct tb_publisher *publisher)
{
	if (!publisher || publisher->process != getpid())
		return;
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		tb_topic_end(publisher->topics[i]);
	publisher->close_by_ms = clock_ms() + publisher->exit_wait_ms;
	atomic_store_explicit(&publisher->closing, true, memory_order_release);
	eventfd_write(publisher->event_fd, 1);
	pthread_join(publisher->thread, NULL);
	publisher_free(publisher);
}

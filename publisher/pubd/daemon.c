/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/pubd/daemon.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bus/error.h"
#include "publisher/feeds/cores.h"
#include "publisher/feeds/framings/source_file.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "publisher/feeds/synthetic/synthetic_source.h"
#include "publisher/pubd/fit.h"

#define NS_PER_S UINT64_C(1000000000)

/* Enums that are passed on as numbers have equal values on both sides. */
static_assert((int)SETTINGS_LINGER == FEED_LINGER && (int)SETTINGS_EXIT == FEED_EXIT &&
		      (int)SETTINGS_RESTART == FEED_RESTART,
	      "at_end");
static_assert((int)SETTINGS_WARN == FEED_WARN && (int)SETTINGS_FAIL == FEED_FAIL, "incomplete");
static_assert((int)SETTINGS_SPIN == PACE_SPIN && (int)SETTINGS_BACKOFF == PACE_BACKOFF &&
		      (int)SETTINGS_SLEEP == PACE_SLEEP,
	      "wait");
static_assert(SETTINGS_NOTICE_AUTO - 1 == TB_NOTICE_AUTO &&
		      SETTINGS_NOTICE_UDP - 1 == TB_NOTICE_UDP,
	      "the same words in the same order");
static_assert((int)TB_LOG_ERROR == LOG_LEVEL_ERROR && (int)TB_LOG_DEBUG == LOG_LEVEL_DEBUG,
	      "level");

struct daemon {
	const struct settings *settings;
	struct log *log;
	bool (*end_requested)(void); /* true once the end was requested */
	pthread_mutex_t lines;       /* delays lines of feeds until the bus is logged */
	struct tb_publisher *publisher;
	int done_fd;
	_Atomic bool lost;         /* an address of the bus */
	struct feed_topic *topics; /* as in the settings, grouped by feed */
	struct feed **feeds;       /* as in the settings; NULL: not opened */
};

/* The library's only errors are addresses that are lost. Its own thread may call. */
static void daemon_log(void *user, enum tb_log_level level, const char *text)
{
	struct daemon *daemon = user;

	log_write(daemon->log, (enum log_level)level, "%s", text);
	if (level != TB_LOG_ERROR)
		return;
	atomic_store(&daemon->lost, true);
	eventfd_write(daemon->done_fd, 1);
}

static void feed_log(void *user, enum tb_log_level level, const char *text)
{
	struct daemon *daemon = user;

	pthread_mutex_lock(&daemon->lines);
	log_write(daemon->log, (enum log_level)level, "%s", text);
	pthread_mutex_unlock(&daemon->lines);
}

static struct tb_realm realm_of(const struct settings_realm *realm)
{
	return (struct tb_realm){ .size = sizeof(struct tb_realm),
				  .name = realm->name,
				  .ticket = realm->ticket.path ? realm->ticket.bytes : NULL,
				  .topics = realm->topics.texts,
				  .topic_count = realm->topics.count,
				  .subscribers_max = realm->subscribers_max };
}

static int bus_open(struct daemon *daemon)
{
	const struct settings *settings = daemon->settings;
	const struct settings_bus *bus = &settings->bus;
	struct tb_realm *realms = calloc(settings->realm_count + 1, sizeof(*realms));
	const struct tb_publisher_options options = {
		.size = sizeof(options),
		.name = bus->name,
		.listen = bus->listen.texts,
		.listen_count = bus->listen.count,
		.users = bus->users.texts,
		.user_count = bus->users.count,
		.groups = bus->groups.texts,
		.group_count = bus->groups.count,
		.stale_ms = bus->stale_ms,
		.topics_max = bus->topics_max,
		.subscribers_max = bus->subscribers_max,
		.subscribers_per_host = bus->subscribers_per_host,
		.exit_wait_ms = UINT32_MAX, /* main() waits instead, so that a second signal can end
					       the wait */
		.log = daemon_log,
		.user = daemon,
		.multicast = bus->multicast,
		.notice = bus->notice - SETTINGS_NOTICE_AUTO,
		.notice_bytes = bus->notice_bytes,
		.cpu = TB_ON(bus->cpu), /* -1 is 0 then */
		.numa = TB_ON(bus->numa),
		.realms = realms,
		.realm_count = settings->realm_count,
		.flags = TB_PUBLISHER_HELD,
	};
	int result;

	if (!realms)
		return error_set(ENOMEM, "no memory");
	for (size_t i = 0; i < settings->realm_count; i++)
		realms[i] = realm_of(&settings->realms[i]);
	result = tb_publisher_open(&daemon->publisher, &options);
	free(realms);
	return result;
}

static int topic_make(struct daemon *daemon, const struct settings_topic *topic,
		      struct tb_group *group, struct feed_topic *made)
{
	const struct tb_topic_options options = {
		.size = sizeof(options),
		.name = topic->name,
		.schema = topic->schema->schema,
		.slots = topic->slots,
		.instruments = topic->instruments,
		.flags = TB_TOPIC_WATCHED | TB_TOPIC_MARKS_MESSAGES |
			 (topic->last_value ? 0 : TB_TOPIC_NO_LAST_VALUE) |
			 (topic->checked ? 0 : TB_TOPIC_UNCHECKED),
		.multicast = topic->multicast,
		.group = group,
	};

	made->select = fit_select(topic);
	made->schema = topic->schema->schema;
	return tb_topic_create(daemon->publisher, &options, &made->topic);
}

static int source_open(void *user, struct source **source)
{
	const struct settings_feed *feed = user;
	const struct synthetic_settings exchange = fit_exchange(feed);

	if (feed->type == SETTINGS_SYNTHETIC)
		return synthetic_source_open(source, &exchange);
	return source_file_open(source, feed->path);
}

/* A feed without a pace uses two cores if as many are there for each of these feeds. */
static bool cores_suffice(const struct settings *settings)
{
	unsigned int feeds = 0;

	for (size_t f = 0; f < settings->feed_count; f++)
		feeds += settings->feeds[f].speed_milli == 0;
	return cores_usable() >= 2 * feeds;
}

static int feed_date(void *user, unsigned int number, struct feed_day *day)
{
	return fit_day(user, number, day);
}

static int feed_make(struct daemon *daemon, const struct settings_feed *feed,
		     struct tb_group *group, const struct feed_topic *topics, size_t count,
		     int done_fd, struct feed **made)
{
	struct feed_options options = {
		.name = feed->name,
		.protocol = &itch_protocol,
		.open = source_open,
		.open_user = (void *)(uintptr_t)feed,
		.date = feed_date,
		.from_ns = feed->from_s == SETTINGS_FIRST_TRADE ? FEED_FIRST_TRADE
								: feed->from_s * NS_PER_S,
		.speed_milli = feed->speed_milli,
		.wait = (enum pace_wait)feed->wait,
		.start_subscribers = feed->start_subscribers,
		.at_end = (enum feed_at_end)feed->at_end,
		.incomplete = (enum feed_incomplete)feed->incomplete,
		.cpu = feed->cpu,
		.reading_thread = cores_suffice(daemon->settings),
		.group = group,
		.topics = topics,
		.topic_count = count,
		.touch_ms = daemon->settings->bus.stale_ms / 8 + 1,
		.publisher = daemon->publisher,
		.done_fd = done_fd,
		.log = feed_log,
		.user = daemon,
	};

	return feed_open(made, &options);
}

/* A limit below the settings shows only when subscribers are refused, so the start warns. Each
 * address of shared memory takes a descriptor of each topic and of each subscriber. */
static void descriptors_check(const struct daemon *daemon)
{
	const struct settings *settings = daemon->settings;
	const int in_use = dup(STDERR_FILENO); /* the lowest free number: so many are open */
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	uint64_t addresses = 0, needed;

	if (in_use >= 0)
		close(in_use);
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	for (size_t i = 0; i < settings->bus.listen.count; i++)
		addresses += strncmp(settings->bus.listen.texts[i], "shm:", 4) == 0;
	needed = (in_use < 0 ? limit.rlim_cur : (uint64_t)in_use) +
		 addresses * (settings->topic_count + settings->bus.subscribers_max);
	if (addresses == 0 || limit.rlim_cur >= needed)
		return;
	log_write(daemon->log, LOG_LEVEL_WARNING,
		  "the limit of open files is %" PRIu64 ", but %u subscribers (subscribers_max) "
		  "need %" PRIu64 "; raise the limit (ulimit -Hn), or lower subscribers_max",
		  (uint64_t)limit.rlim_cur, settings->bus.subscribers_max, needed);
}

/* A feed may be over before this thread logs the bus: its lines wait. */
static int feeds_start(struct daemon *daemon)
{
	const struct settings *settings = daemon->settings;
	int result;

	descriptors_check(daemon);
	pthread_mutex_lock(&daemon->lines);
	result = tb_publisher_begin(daemon->publisher);
	for (size_t f = 0; f < settings->feed_count && result == 0; f++)
		result = feed_start(daemon->feeds[f]);
	if (result == 0)
		log_write(daemon->log, LOG_LEVEL_INFO, "bus %s: %zu topic%s, pid %d",
			  settings->bus.name, settings->topic_count,
			  settings->topic_count == 1 ? "" : "s", getpid());
	pthread_mutex_unlock(&daemon->lines);
	return result;
}

/* Allocating memory takes time: the log shows how much is being allocated. */
static void sizes_log(const struct daemon *daemon)
{
	const struct settings *settings = daemon->settings;
	uint64_t bytes = 0;

	for (size_t t = 0; t < settings->topic_count; t++)
		bytes += settings->topics[t].bytes;
	log_write(daemon->log, LOG_LEVEL_INFO, "creating %zu topic%s, %" PRIu64 " bytes",
		  settings->topic_count, settings->topic_count == 1 ? "" : "s", bytes);
}

/* Creates every topic before a client gets an answer and a feed starts. If the end is requested
 * earlier, no feed starts. */
static int feeds_open(struct daemon *daemon, int done_fd)
{
	const struct settings *settings = daemon->settings;
	size_t made = 0;
	int result = 0;

	sizes_log(daemon);
	for (size_t f = 0; f < settings->feed_count && result == 0; f++) {
		const struct tb_group_options options = { .size = sizeof(options),
							  .name = settings->feeds[f].name };
		const size_t first = made;
		struct tb_group *group;

		result = tb_group_create(daemon->publisher, &options, &group);
		for (size_t t = 0; t < settings->topic_count && result == 0; t++) {
			if (daemon->end_requested())
				return 0;
			if (settings->topics[t].feed == &settings->feeds[f])
				result = topic_make(daemon, &settings->topics[t], group,
						    &daemon->topics[made++]);
		}
		if (result == 0)
			result = feed_make(daemon, &settings->feeds[f], group,
					   &daemon->topics[first], made - first, done_fd,
					   &daemon->feeds[f]);
	}
	return result < 0 || daemon->end_requested() ? result : feeds_start(daemon);
}

int daemon_open(struct daemon **out, const struct settings *settings, struct log *log,
		bool (*end_requested)(void), int done_fd)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int result;

	*out = NULL;
	if (!daemon)
		return error_set(ENOMEM, "no memory");
	daemon->settings = settings;
	daemon->log = log;
	daemon->end_requested = end_requested;
	daemon->done_fd = done_fd;
	pthread_mutex_init(&daemon->lines, NULL);
	daemon->topics = calloc(settings->topic_count + 1, sizeof(*daemon->topics));
	daemon->feeds = calloc(settings->feed_count + 1, sizeof(struct feed *));
	result =
		daemon->topics && daemon->feeds ? bus_open(daemon) : error_set(ENOMEM, "no memory");
	if (result == 0)
		result = feeds_open(daemon, done_fd);
	if (result < 0) {
		daemon_close(daemon);
		return result;
	}
	*out = daemon;
	return 0;
}

static void ticket_reload(struct daemon *daemon, const struct settings_realm *realm)
{
	const uint32_t overlap_s = daemon->settings->bus.ticket_overlap_s;
	uint8_t ticket[TB_TICKET_BYTES];
	int result = tb_ticket_load(realm->ticket.path, ticket);

	if (result == 0)
		result = tb_publisher_ticket(daemon->publisher, realm->name, ticket,
					     overlap_s * 1000);
	explicit_bzero(ticket, sizeof(ticket));
	if (result < 0)
		log_write(daemon->log, LOG_LEVEL_ERROR, "realm %s: %s; the ticket is not changed",
			  realm->name, tb_error());
	else if (result > 0)
		log_write(daemon->log, LOG_LEVEL_INFO,
			  "realm %s: has a new ticket; the old ticket stays valid for %u s",
			  realm->name, overlap_s);
}

void daemon_reload_tickets(struct daemon *daemon)
{
	const struct settings *settings = daemon->settings;

	for (size_t i = 0; i < settings->realm_count; i++)
		if (settings->realms[i].ticket.path)
			ticket_reload(daemon, &settings->realms[i]);
}

bool daemon_done(const struct daemon *daemon)
{
	int result;

	for (size_t f = 0; f < daemon->settings->feed_count; f++)
		if (!feed_over(daemon->feeds[f], &result) ||
		    feed_at_end(daemon->feeds[f]) != FEED_EXIT)
			return false;
	return daemon->settings->feed_count > 0;
}

bool daemon_lost(const struct daemon *daemon)
{
	return atomic_load(&daemon->lost);
}

void daemon_end(struct daemon *daemon)
{
	for (size_t f = 0; f < daemon->settings->feed_count; f++)
		feed_stop(daemon->feeds[f]);
	for (size_t t = 0; t < daemon->settings->topic_count; t++)
		if (daemon->topics[t].topic)
			tb_topic_end(daemon->topics[t].topic);
}

bool daemon_readers_left(const struct daemon *daemon)
{
	return tb_publisher_joins(daemon->publisher, NULL, 0) == 0;
}

/* A failure counts more than an incomplete day. */
static enum daemon_outcome outcome_of(const struct feed *feed, enum daemon_outcome so_far)
{
	int result;

	if (!feed || !feed_over(feed, &result) || result == 0 || so_far == DAEMON_FAILED)
		return so_far;
	return result < 0 ? DAEMON_FAILED : DAEMON_INCOMPLETE;
}

enum daemon_outcome daemon_close(struct daemon *daemon)
{
	enum daemon_outcome outcome = DAEMON_GOOD;

	if (!daemon)
		return outcome;
	if (daemon_lost(daemon))
		outcome = DAEMON_FAILED;
	for (size_t f = 0; daemon->feeds && f < daemon->settings->feed_count; f++)
		feed_stop(daemon->feeds[f]);
	tb_publisher_close(daemon->publisher);
	for (size_t f = 0; daemon->feeds && f < daemon->settings->feed_count; f++) {
		outcome = outcome_of(daemon->feeds[f], outcome);
		feed_close(daemon->feeds[f]);
	}
	pthread_mutex_destroy(&daemon->lines);
	free(daemon->feeds);
	free(daemon->topics);
	free(daemon);
	return outcome;
}

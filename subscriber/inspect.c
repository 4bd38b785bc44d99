/* SPDX-License-Identifier: Apache-2.0 */
/* Inspects a bus over a connection of its own: requests, waits for the answer, calls the caller's
 * functions. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/bus_page.h"
#include "bus/clock.h"
#include "bus/control.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/pattern.h"
#include "bus/progress.h"
#include "bus/region.h"
#include "bus/words.h"
#include "subscriber/handshake.h"
#include "tickbus/counters.h"
#include "tickbus/error.h"
#include "tickbus/inspect.h"
#include "tickbus/ticket.h"

#define LOOK_MS            100
#define AGAIN_MS           2000 /* how long an answer is awaited before the request is sent again */
#define ROOM_NS            5000000 /* between two tries while the publisher has no room */
#define INSPECT_BLOCKS_MAX 4096    /* blocks of one scope */

struct inspection {
	const char *address;
	char *location; /* the address without its scheme */
	const struct fabric_ops *ops;
	struct link *link;
	struct handshake handshake;
	uint32_t timeout_ms;
	uint64_t by_ms;
	bool welcomed, answered;
	int64_t user; /* that listens; -1: over a network */
	int gone_code;
	char gone_text[640];
	char no_room[768]; /* the last error if the publisher had no room */
	struct control_welcome welcome;
	struct remote *page;
	struct control_message asked, answer;
	char *bus_page; /* a landing, or NULL where there is a view */
	size_t page_bytes;
};

static int inspect_challenge(void *user, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
			     uint8_t hello[FABRIC_HELLO_BYTES])
{
	struct inspection *inspection = user;

	return handshake_answer(&inspection->handshake, challenge, hello);
}

static void inspect_welcome(void *user, const void *bytes, size_t length)
{
	struct inspection *inspection = user;

	uid_t listener;
	const int result =
		handshake_welcome(&inspection->handshake, bytes, length, &inspection->welcome);

	if (result < 0) {
		inspection->gone_code = -result;
		snprintf(inspection->gone_text, sizeof(inspection->gone_text), "%.200s",
			 tb_error());
		return;
	}
	inspection->page_bytes = bus_page_bytes(inspection->welcome.topics_max);
	/* Without the page, heads are not known and reported as 0. */
	inspection->ops->remote_open(inspection->link, inspection->welcome.key,
				     inspection->page_bytes, &inspection->page);
	inspection->welcomed = true;
	if (!inspection->ops->network &&
	    inspection->ops->link_user(inspection->link, &listener) == 0)
		inspection->user = (int64_t)listener;
}

static void inspect_message(void *user, const void *bytes, size_t length)
{
	struct inspection *inspection = user;
	struct control_message message;

	if (control_decode(bytes, length, &message) < 0) {
		inspection->gone_code = EPROTO;
		snprintf(inspection->gone_text, sizeof(inspection->gone_text), "%.200s",
			 tb_error());
		return;
	}
	if (message.request != inspection->asked.request)
		return;
	inspection->answer = message;
	inspection->answered = true;
}

static void inspect_gone(void *user, int code, const char *why)
{
	struct inspection *inspection = user;

	inspection->gone_code = code ? code : ECONNRESET;
	snprintf(inspection->gone_text, sizeof(inspection->gone_text), "%s", why);
}

static const struct link_calls inspect_calls = {
	.challenge = inspect_challenge,
	.welcome = inspect_welcome,
	.message = inspect_message,
	.gone = inspect_gone,
};

static int time_over(const struct inspection *inspection)
{
	return error_set(ETIMEDOUT, "%s: no answer within %u ms", inspection->address,
			 inspection->timeout_ms);
}

/* Sleeps until the link has something, and processes it. At most LOOK_MS: a link notices its own
 * timeouts only when it is polled. */
static int inspect_turn(struct inspection *inspection)
{
	struct pollfd ready = { .fd = inspection->ops->link_fd(inspection->link),
				.events = POLLIN };
	const uint64_t now_ms = clock_coarse_ms();
	uint64_t left_ms;

	if (now_ms >= inspection->by_ms)
		return time_over(inspection);
	left_ms = inspection->by_ms - now_ms;
	if (inspection->ops->sleep(inspection->link) == 0 &&
	    poll(&ready, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS) < 0 && errno != EINTR)
		return error_set(errno, "%s: cannot wait: %s", inspection->address,
				 strerror(errno));
	inspection->ops->link_poll(inspection->link);
	return 0;
}

/* Takes turns until *done, the end of the link, or the timeout. -EAGAIN if again_ms comes first. */
static int inspect_until(struct inspection *inspection, const bool *done, uint64_t again_ms)
{
	while (!*done && inspection->gone_code == 0) {
		const int result = inspect_turn(inspection);

		if (result < 0)
			return result;
		if (!*done && inspection->gone_code == 0 && clock_coarse_ms() >= again_ms)
			return -EAGAIN;
	}
	if (*done)
		return 0;
	return error_set(inspection->gone_code, "%s: %s", inspection->address,
			 inspection->gone_text);
}

static void inspect_break(struct inspection *inspection)
{
	if (!inspection->link)
		return;
	inspection->ops->link_break(inspection->link);
	inspection->ops->link_settle(inspection->link);
}

static void inspect_leave(struct inspection *inspection)
{
	inspect_break(inspection);
	inspection->ops->link_close(inspection->link);
	inspection->link = NULL;
}

static void inspect_close(struct inspection *inspection)
{
	struct fabric_completion done;

	inspect_break(inspection);
	while (inspection->link && inspection->ops->reap(inspection->link, &done, 1) > 0)
		;
	if (inspection->page)
		inspection->ops->remote_close(inspection->page);
	if (inspection->bus_page)
		inspection->ops->landing_free(inspection->link, inspection->bus_page,
					      inspection->page_bytes);
	if (inspection->link)
		inspection->ops->link_close(inspection->link);
	free(inspection->location);
}

/* Another try to connect, if time is left: a request may be lost, and many clients may connect at
 * once. */
static bool connects_again(struct inspection *inspection, int result)
{
	const struct timespec pause = { .tv_nsec = ROOM_NS };

	if (result != -ETIMEDOUT && result != -EAGAIN)
		return false;
	if (result == -EAGAIN) {
		snprintf(inspection->no_room, sizeof(inspection->no_room), "%s", tb_error());
		nanosleep(&pause, NULL);
	}
	return clock_coarse_ms() < inspection->by_ms;
}

/* Tries until an answer or the timeout. */
static int inspect_connect(struct inspection *inspection, const uint8_t *ticket)
{
	const char *location = inspection->location;
	static const uint8_t no_ticket[TB_TICKET_BYTES];
	uint8_t bytes[FABRIC_HELLO_BYTES];
	int result;

	do {
		inspect_leave(inspection);
		inspection->gone_code = 0;
		result = handshake_begin(&inspection->handshake, inspection->ops, location,
					 ticket ? ticket : no_ticket, bytes);
		if (result < 0)
			return result;
		result = inspection->ops->connect(&inspection->link, location, bytes, sizeof(bytes),
						  &inspect_calls, inspection);
		if (result == 0)
			result = inspect_until(inspection, &inspection->welcomed, UINT64_MAX);
	} while (connects_again(inspection, result));
	if (result == -ETIMEDOUT && *inspection->no_room)
		return error_set(EAGAIN, "%s", inspection->no_room);
	return result == -ETIMEDOUT ? time_over(inspection) : result;
}

static int inspect_open(struct inspection *inspection, const struct tb_inspect_options *options)
{
	const char *location;
	int result;

	memset(inspection, 0, sizeof(*inspection));
	inspection->user = -1;
	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "tb_inspect_options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	if (!options->address)
		return error_set(EINVAL, "tb_inspect_options: found no address");
	if (options->timeout_ms > BOUND_CONNECT_MS_MAX)
		return error_set(EINVAL,
				 "tb_inspect_options: timeout_ms: found %u, expected at most %u",
				 options->timeout_ms, BOUND_CONNECT_MS_MAX);
	inspection->address = options->address;
	inspection->timeout_ms = options->timeout_ms ? options->timeout_ms : BOUND_CONNECT_MS;
	inspection->by_ms = clock_coarse_ms() + inspection->timeout_ms;
	inspection->ops = fabric_find(options->address, &location);
	if (!inspection->ops)
		return -EINVAL;
	result = fabric_settle(options->address, &inspection->location);
	return result < 0 ? result : inspect_connect(inspection, options->ticket);
}

/* Sends inspection->asked and waits for an answer of this type; -ENOENT and others if it is
 * refused. A request without an answer is sent again: Soft-iWARP was seen to leave what arrives at
 * the beginning of a connection unread until more arrives. A second answer matches no later
 * request. */
static int inspect_ask(struct inspection *inspection, enum control_type expected)
{
	uint8_t bytes[FABRIC_MESSAGE_BYTES];
	int result;

	inspection->asked.request++;
	inspection->answered = false;
	do {
		result = inspection->ops->link_send(inspection->link, bytes,
						    control_encode(&inspection->asked, bytes));
		if (result < 0)
			return error_prefix(result, "%s: ", inspection->address);
		result = inspect_until(inspection, &inspection->answered,
				       clock_coarse_ms() + AGAIN_MS);
	} while (result == -EAGAIN);
	if (result < 0)
		return result;
	if (inspection->answer.type == CONTROL_REFUSE)
		return error_set((int)inspection->answer.refuse.code, "%s: %s", inspection->address,
				 inspection->answer.refuse.text);
	if (inspection->answer.type != expected)
		return error_set(EPROTO, "%s: found a message of type %d, expected %d",
				 inspection->address, inspection->answer.type, expected);
	return 0;
}

/* -- topics ----------------------------------------------------------------------------------- */

/* The bus page, or NULL if it cannot be read. */
static const char *inspect_page(struct inspection *inspection)
{
	const struct fabric_ops *ops = inspection->ops;
	struct fabric_completion done;
	struct fabric_read read = { .remote = inspection->page,
				    .bytes = (uint32_t)inspection->page_bytes };

	if (!inspection->page)
		return NULL;
	if (ops->view(inspection->page))
		return ops->view(inspection->page);
	if (!inspection->bus_page)
		inspection->bus_page = ops->landing(inspection->link, inspection->page_bytes);
	read.into = inspection->bus_page;
	if (!read.into || ops->read(inspection->link, &read, 1) != 1)
		return NULL;
	while (ops->reap(inspection->link, &done, 1) == 0)
		if (ops->link_state(inspection->link) == LINK_GONE || inspect_turn(inspection) < 0)
			return NULL; /* the landing is kept until the link is closed */
	return done.status == 0 ? inspection->bus_page : NULL;
}

static const char *notice_name(enum fabric_notices_kind kind)
{
	static const char *const text[] = { [FABRIC_NOTICES_NONE] = "none",
					    [FABRIC_NOTICES_UD] = "ud",
					    [FABRIC_NOTICES_UDP] = "udp" };

	return text[kind];
}

/* Port 0: no group. */
static void group_text(const struct fabric_notices *notices, char text[ADDRESS_TEXT_BYTES])
{
	text[0] = '\0';
	if (((const struct sockaddr_in *)&notices->group)->sin_port != 0)
		address_text((const struct sockaddr *)&notices->group, text);
}

static void inspect_topic(const struct inspection *inspection, const char *page,
			  const struct control_topic *topic, struct tb_topic_info *info,
			  char group[ADDRESS_TEXT_BYTES])
{
	struct bus_entry entry;

	group_text(&topic->notices, group);

	*info = (struct tb_topic_info){
		.size = sizeof(*info),
		.name = topic->name,
		.schema = topic->schema,
		.schema_version = topic->schema_version,
		.id = topic->shape.topic_id,
		.fingerprint = topic->shape.fingerprint,
		.epoch = topic->shape.epoch,
		.slots = topic->shape.slots,
		.slot_bytes = topic->shape.slot_bytes,
		.instruments = topic->shape.capacity,
		.checked = (topic->shape.flags & REGION_FLAG_CHECKED) != 0,
		.last_value = (topic->shape.flags & REGION_FLAG_LAST_VALUE) != 0,
		.ended = topic->state == TOPIC_ENDED,
		.notice = notice_name(topic->notices.kind),
		.multicast = group,
		.notice_bytes = topic->notices.bytes,
		.quality = topic->quality,
	};
	if (!page || info->id < 1 || info->id > inspection->welcome.topics_max)
		return;
	words_load(&entry,
		   (const char *)page + sizeof(struct bus_pulse) +
			   (size_t)(info->id - 1) * sizeof(entry),
		   sizeof(entry));
	if (bus_page_verify_entry(&entry, info->id - 1, inspection->welcome.bus_id) == 0 &&
	    entry.epoch == info->epoch)
		info->head = entry.head;
}

static int inspect_catalogue(struct inspection *inspection, const char *pattern, uint32_t after)
{
	inspection->asked.type = CONTROL_CATALOGUE;
	inspection->asked.catalogue.after = after;
	snprintf(inspection->asked.catalogue.pattern, sizeof(inspection->asked.catalogue.pattern),
		 "%s", pattern);
	return inspect_ask(inspection, CONTROL_TOPICS);
}

static void inspect_bus(struct inspection *inspection, uint32_t topics,
			void (*bus)(void *, const struct tb_bus_info *), void *user)
{
	const struct fabric_notices *notices = &inspection->welcome.notices;
	char group[ADDRESS_TEXT_BYTES];
	const struct tb_bus_info info = {
		.size = sizeof(info),
		.name = inspection->welcome.name,
		.bus_id = inspection->welcome.bus_id,
		.stale_ms = inspection->welcome.stale_ms,
		.topics = topics,
		.notice = notice_name(notices->kind),
		.multicast = group,
		.notice_bytes = notices->bytes,
		.user = inspection->user,
		.realms = (inspection->welcome.features & CONTROL_FEATURE_REALMS) != 0,
	};

	group_text(notices, group);
	if (bus)
		bus(user, &info);
}

/* Collects the topics of all pages. Returns how many, or -errno. */
static int inspect_collect(struct inspection *inspection, const char *pattern,
			   struct control_topic *topics)
{
	const struct control_message *answer = &inspection->answer;
	uint32_t after = 0, count = 0;
	int result;

	do {
		result = inspect_catalogue(inspection, pattern, after);
		if (result < 0)
			return result;
		for (uint32_t i = 0; i < answer->topics.count && count < BOUND_TOPICS_MAX; i++) {
			if (answer->topics.topic[i].shape.topic_id <= after)
				return error_set(EPROTO, "%s: topics came out of order",
						 inspection->address);
			after = answer->topics.topic[i].shape.topic_id;
			topics[count++] = answer->topics.topic[i];
		}
	} while (answer->topics.more && answer->topics.count > 0 && count < BOUND_TOPICS_MAX);
	return (int)count;
}

TB_API int tb_inspect_topics(const struct tb_inspect_options *options, const char *pattern,
			     void (*bus)(void *user, const struct tb_bus_info *),
			     void (*topic)(void *user, const struct tb_topic_info *), void *user)
{
	struct inspection inspection;
	struct control_topic *topics = NULL;
	const char *page;
	int count = pattern_check(pattern ? pattern : ">");

	if (count < 0)
		return count;
	count = inspect_open(&inspection, options);
	if (count < 0)
		goto out;
	topics = calloc(BOUND_TOPICS_MAX, sizeof(*topics));
	count = topics ? inspect_collect(&inspection, pattern ? pattern : ">", topics)
		       : error_set(ENOMEM, "no memory for a catalogue");
	if (count < 0)
		goto out;
	page = inspect_page(&inspection);
	inspect_bus(&inspection, (uint32_t)count, bus, user);
	for (int i = 0; i < count && topic; i++) {
		struct tb_topic_info info;
		char group[ADDRESS_TEXT_BYTES];

		inspect_topic(&inspection, page, &topics[i], &info, group);
		topic(user, &info);
	}
out:
	inspect_close(&inspection);
	free(topics);
	return count;
}

/* -- counters --------------------------------------------------------------------------------- */

/* Reports one block. Returns the number of blocks in its scope, or -errno. */
static int inspect_block(struct inspection *inspection, enum tb_scope scope, uint32_t index,
			 void (*counter)(void *, const struct tb_counter_value *), void *user)
{
	const struct control_message *answer = &inspection->answer;
	uint32_t after = 0;

	do {
		int result;

		inspection->asked.type = CONTROL_COUNTERS;
		inspection->asked.counters.scope = scope;
		inspection->asked.counters.index = index;
		inspection->asked.counters.after = after;
		result = inspect_ask(inspection, CONTROL_VALUES);
		if (result < 0)
			return result;
		for (uint32_t i = 0; i < answer->values.count && counter; i++) {
			const struct tb_counter_value value = {
				.size = sizeof(value),
				.scope = scope,
				.block = answer->values.name,
				.name = answer->values.entry[i].name,
				.unit = answer->values.entry[i].unit,
				.value = answer->values.entry[i].value,
			};

			counter(user, &value);
		}
		after += answer->values.count;
	} while (answer->values.count > 0 && after < answer->values.total);
	return answer->values.blocks < INSPECT_BLOCKS_MAX ? (int)answer->values.blocks
							  : INSPECT_BLOCKS_MAX;
}

static int inspect_unpublished(struct inspection *inspection, const struct control_topic *topic,
			       void (*unpublished)(void *, const struct tb_unpublished *),
			       void *user)
{
	const struct control_message *answer = &inspection->answer;
	uint32_t after = 0;

	do {
		int result;

		inspection->asked.type = CONTROL_UNPUBLISHED;
		inspection->asked.unpublished.topic_id = topic->shape.topic_id;
		inspection->asked.unpublished.after = after;
		result = inspect_ask(inspection, CONTROL_UNPUBLISHED_NAMES);
		if (result < 0)
			return result;
		for (uint32_t i = 0; i < answer->unpublished_names.count; i++) {
			const struct tb_unpublished entry = {
				.size = sizeof(entry),
				.topic = topic->name,
				.instrument = answer->unpublished_names.entry[i].name,
				.records = answer->unpublished_names.entry[i].records,
			};

			unpublished(user, &entry);
		}
		after += answer->unpublished_names.count;
	} while (answer->unpublished_names.count > 0 && after < answer->unpublished_names.total);
	return 0;
}

/* Reports all blocks of a scope, which may be empty. Returns how many, or -errno. */
static int inspect_scope(struct inspection *inspection, enum tb_scope scope,
			 void (*counter)(void *, const struct tb_counter_value *), void *user)
{
	int blocks = 1, shown = 0;

	for (; shown < blocks; shown++) {
		blocks = inspect_block(inspection, scope, (uint32_t)shown, counter, user);
		if (blocks == -ENOENT && shown == 0)
			return 0;
		if (blocks < 0)
			return blocks;
	}
	return shown;
}

TB_API int tb_inspect_counters(const struct tb_inspect_options *options,
			       void (*counter)(void *user, const struct tb_counter_value *),
			       void (*unpublished)(void *user, const struct tb_unpublished *),
			       void *user)
{
	static const enum tb_scope scopes[] = { TB_SCOPE_BUS, TB_SCOPE_TOPIC, TB_SCOPE_FEED };
	struct inspection inspection;
	struct control_topic *topics = NULL;
	int result = inspect_open(&inspection, options), count = 0, shown = 0;

	for (size_t i = 0; i < 3 && result >= 0; i++) {
		result = inspect_scope(&inspection, scopes[i], counter, user);
		shown += result > 0 ? result : 0;
	}
	if (result >= 0 && unpublished) {
		topics = calloc(BOUND_TOPICS_MAX, sizeof(*topics));
		result = count = topics ? inspect_collect(&inspection, ">", topics)
					: error_set(ENOMEM, "no memory for a catalogue");
	}
	for (int i = 0; i < count && result >= 0; i++)
		result = inspect_unpublished(&inspection, &topics[i], unpublished, user);
	inspect_close(&inspection);
	free(topics);
	return result < 0 ? result : shown;
}

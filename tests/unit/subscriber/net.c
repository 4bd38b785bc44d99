/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/subscriber/net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "bus/control.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/region.h"
#include "bus/shm/shm.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "subscriber/wait.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

static struct fabric_ops net_ops;
struct net net;
struct tb_subscriber *subscriber;
struct notes notes;

static int net_connect(struct link **link, const char *address, const void *hello, size_t bytes,
		       const struct link_calls *calls, void *user)
{
	net.tries++;
	if (net.away)
		return error_set(ECONNREFUSED, "no publisher listens");
	return shm_connect(link, address, hello, bytes, calls, user);
}

static enum link_state net_state(const struct link *link)
{
	const bool cut = net.cut;

	net.cut = false;
	return cut ? LINK_GONE : shm_link_state(link);
}

/* Takes this process's descriptors away until the catalogue is requested again. No bus page comes
 * meanwhile: the first page requests the catalogue within the same call. */
static void publisher_short(const struct control_message *said)
{
	static struct rlimit before;
	struct rlimit none;

	if (!net.short_once || net.joins != 1)
		return;
	if (said->type == CONTROL_JOIN) {
		cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
		none = (struct rlimit){ 4, before.rlim_max };
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	} else if (said->type == CONTROL_CATALOGUE) {
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
		if (net.succeeded) {
			net.succeeded = false;
			tb_publisher_close(net.publisher);
			net.publisher = scene_publisher("shm");
			if (net.successor)
				net_topic("t", net.successor);
		}
	}
}

static void net_settle(struct link *link)
{
	net.settles++;
	shm_link_settle(link);
}

static int net_send(struct link *link, const void *message, size_t bytes)
{
	struct control_message said;

	cr_assert_eq(control_decode(message, bytes, &said), 0, "%s", tb_error());
	net.leaves += said.type == CONTROL_LEAVE;
	net.schemas += said.type == CONTROL_SCHEMA;
	net.joins += said.type == CONTROL_JOIN;
	publisher_short(&said);
	if (said.type == CONTROL_JOIN && said.join.topic_id == net.hold_join) {
		publisher_lock(net.publisher);
		net.holding = true;
		clock_pass(net.held_ms);
	}
	return shm_link_send(link, message, bytes);
}

static const void *net_view(const struct remote *remote)
{
	return net.viewed ? shm_view(remote) : NULL;
}

static void *net_landing(struct link *link, size_t bytes)
{
	if (!net.landless)
		return shm_landing(link, bytes);
	error_set(ENOMEM, "no memory to land in");
	return NULL;
}

static bool is_gone(const struct remote *remote)
{
	uint64_t epoch;

	memcpy(&epoch, (const char *)shm_view(remote) + offsetof(struct region_header, epoch),
	       sizeof(epoch));
	return net.gone_epoch && epoch == net.gone_epoch;
}

static int net_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	int result;

	for (unsigned int i = 0; i < count; i++) {
		const char *into = reads[i].into;

		if (net.held && (reads[i].tag & 0xff) >= net.held) {
			count = i;
			break;
		}
		if ((reads[i].tag & 0xff) < READ_PULSE && is_gone(reads[i].remote)) {
			net.cut = true;
			net.gone_reads++;
			return 0;
		}
		net.reads[reads[i].tag & 0xff]++;
		net.read_bytes[reads[i].tag & 0xff] += reads[i].bytes;
		if ((reads[i].tag & 0xff) != READ_SLOTS)
			continue;
		if (!net.landing)
			net.landing = into;
		if ((size_t)(into - net.landing) + reads[i].bytes > net.landed)
			net.landed = (size_t)(into - net.landing) + reads[i].bytes;
	}
	result = shm_read(link, reads, count);
	for (int i = 0; i < result && net.entries_damaged; i++)
		if ((reads[i].tag & 0xff) == READ_ENTRIES)
			((char *)reads[i].into)[reads[i].bytes - 1] ^= 1;
	return result;
}

static int net_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	net.reaps++;
	return net.unanswered || (net.short_once && net.joins == 0) ? 0 : shm_reap(link, done, max);
}

static int net_sleep(struct link *link)
{
	return net.unanswered ? 0 : shm_sleep(link);
}

static int net_receive(struct link *link, const struct fabric_notices *notices)
{
	(void)link;
	(void)notices;
	return 0;
}

static void net_receive_end(struct link *link, const struct fabric_notices *notices)
{
	(void)link;
	(void)notices;
}

static size_t net_datagram(struct link *link, void *datagram, size_t room)
{
	const unsigned int at = net.first_notice % NET_QUEUE;

	(void)link;
	if (net.notice_count == 0)
		return 0;
	cr_assert_leq(net.notice_bytes[at], room);
	memcpy(datagram, net.notices[at], net.notice_bytes[at]);
	net.first_notice++;
	net.notice_count--;
	return net.notice_bytes[at];
}

static void net_add(void)
{
	net_ops = shm_ops;
	net_ops.scheme = "net";
	net_ops.network = true;
	net_ops.connect = net_connect;
	net_ops.link_state = net_state;
	net_ops.link_send = net_send;
	net_ops.link_settle = net_settle;
	net_ops.view = net_view;
	net_ops.landing = net_landing;
	net_ops.read = net_read;
	net_ops.reap = net_reap;
	net_ops.sleep = net_sleep;
	net_ops.receive = net_receive;
	net_ops.receive_end = net_receive_end;
	net_ops.datagram = net_datagram;
	cr_assert_eq(fabric_add(&net_ops), 0);
}

void net_release(void)
{
	cr_assert(net.holding, "no join was sent");
	net.holding = false;
	net.hold_join = 0;
	publisher_unlock(net.publisher);
}

void net_enter(void)
{
	scene_enter();
	net_add();
	net.publisher = scene_publisher("shm");
}

void net_leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(net.publisher);
	notes_free(&notes);
	scene_leave();
}

void net_publisher_for(uint32_t topics_max)
{
	const char *listen[] = { "shm:test" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = listen,
						      .listen_count = 1,
						      .stale_ms = SCENE_STALE_MS,
						      .topics_max = topics_max,
						      .exit_wait_ms = UINT32_MAX,
						      .log = scene_log };

	tb_publisher_close(net.publisher);
	cr_assert_eq(tb_publisher_open(&net.publisher, &options), 0, "%s", tb_error());
}

void net_publisher_again(uint32_t stale_ms)
{
	tb_publisher_close(net.publisher);
	net.publisher = scene_publisher_of("shm", stale_ms);
}

struct tb_source *net_read_on(bool viewed)
{
	net.viewed = viewed;
	subscriber = scene_subscriber("net", 0);
	return scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes)->sources;
}

void net_wait_for_successor(const struct tb_source *source)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (!source->has_successor && scene_now_ms() < until_ms)
		wait_more(subscriber, UINT64_MAX);
}

uint64_t net_counted(const struct tb_subscription *subscription, enum subscription_counter counter)
{
	uint64_t value[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, value, SUBSCRIPTION_COUNTERS);
	return value[counter];
}

bool net_joined(size_t joins)
{
	return tb_publisher_joins(net.publisher, NULL, 0) == joins;
}

bool net_served(void)
{
	bool asked = subscriber->welcomed && !subscriber->discovery.subscription;

	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription)
		asked = asked && !s->discover;
	return asked;
}

void net_reconnect(void)
{
	net.cut = true;
	UNTIL(!net.cut, 100);
	UNTIL(net_served(), 100);
}

struct tb_topic *net_topic(const char *name, struct tb_schema *schema)
{
	const struct tb_topic_options options = {
		.size = sizeof(options), .name = name, .schema = schema, .slots = 64
	};
	struct tb_topic *topic;

	cr_assert_eq(tb_topic_create(net.publisher, &options, &topic), 0, "%s", tb_error());
	return topic;
}

void net_subscribe_unread(enum read_kind kind)
{
	subscriber = scene_subscriber("net", 0);
	subscriber->connect_ms = 1; /* and so it is when the call returns */
	net.held = kind;
	scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &notes);
	UNTIL(net_joined(1) && subscriber->table[0], 100);
}

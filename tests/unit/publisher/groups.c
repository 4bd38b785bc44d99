/* SPDX-License-Identifier: Apache-2.0 */
/* The multicast groups of a bus and of its topics. One test fabric only looks at the group of a
 * listener, another records each datagram with its group. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/control.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "bus/notice.h"
#include "tests/support/scene.h"
#include "bus/bounds.h"
#include "tickbus/publisher.h"

static struct sockaddr_storage group;
static struct control_message keep_alive;
static uint32_t withdrawn_ms;

static int look(struct listener **listener, const struct fabric_listen *how,
		const struct listener_calls *calls, void *user)
{
	(void)calls;
	(void)user;
	*listener = NULL;
	group = how->notices.group;
	withdrawn_ms = how->withdrawn_ms;
	cr_expect_eq(control_decode(how->keep_alive, how->keep_alive_bytes, &keep_alive), 0);
	return error_set(ENODEV, "test fabric: the group was seen");
}

static int no_device(const char *address)
{
	(void)address;
	return FABRIC_NO_DEVICE;
}

static int any_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "%.40s", address);
	return 0;
}

static const struct fabric_ops looking = { .scheme = "looking",
					   .network = true,
					   .identity = any_identity,
					   .node = no_device,
					   .listen = look };

/* The group of a bus of this name at an address, as text. */
static void group_of(const char *name, const char *address, const char *multicast,
		     char text[INET6_ADDRSTRLEN])
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = name,
						      .listen = &address,
						      .listen_count = 1,
						      .multicast = multicast };
	struct tb_publisher *publisher;

	cr_assert_eq(fabric_add(&looking), 0);
	cr_assert_eq(tb_publisher_open(&publisher, &options), -ENODEV, "%s", tb_error());
	cr_assert_eq(((struct sockaddr_in *)&group)->sin_port, htons(7472));
	cr_assert_not_null(inet_ntop(group.ss_family,
				     group.ss_family == AF_INET
					     ? (void *)&((struct sockaddr_in *)&group)->sin_addr
					     : (void *)&((struct sockaddr_in6 *)&group)->sin6_addr,
				     text, INET6_ADDRSTRLEN));
}

/* Subscribers wake nothing for it. */
Test(keep_alive, is_a_wake_for_no_topic)
{
	char text[INET6_ADDRSTRLEN];

	group_of("x", "looking:10.9.0.1:7471", NULL, text);
	cr_expect_eq(keep_alive.type, CONTROL_WAKE);
	cr_expect_eq(keep_alive.topic.topic_id, 0);
}

static uint32_t withdrawn_with(uint32_t stale_ms)
{
	static const char *const address = "looking:10.9.0.1:7471";
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "x",
						      .listen = &address,
						      .listen_count = 1,
						      .stale_ms = stale_ms };
	struct tb_publisher *publisher;

	cr_assert_eq(tb_publisher_open(&publisher, &options), -ENODEV, "%s", tb_error());
	return withdrawn_ms;
}

/* Readers count on it. */
Test(withdrawn, memory_stays_for_the_stale_bound_and_two_seconds)
{
	cr_assert_eq(fabric_add(&looking), 0);
	cr_expect_eq(withdrawn_with(BOUND_STALE_MS_MIN), 2000);
	cr_expect_eq(withdrawn_with(2001), 2001);
	cr_expect_eq(withdrawn_with(BOUND_STALE_MS_MAX), BOUND_STALE_MS_MAX);
}

/* One group for both addresses, another group for another name. */
static void expect_made(const char *address, const char *other, const char *begins)
{
	char text[INET6_ADDRSTRLEN], more[INET6_ADDRSTRLEN];

	group_of("equities", address, NULL, text);
	cr_expect_eq(strncmp(text, begins, strlen(begins)), 0, "%s", text);
	group_of("equities", other, NULL, more);
	cr_expect_str_eq(text, more);
	group_of("futures", address, NULL, more);
	cr_expect_str_neq(text, more);
}

Test(groups, default_group_depends_on_name_and_address_family)
{
	expect_made("looking:10.9.0.1:7471", "looking:10.9.0.2:7471,hop_limit=2", "239.77.");
	expect_made("looking:[fd00::1]:7471", "looking:[fd00::2]:7471,reads=4", "ff15::");
}

Test(groups, configured_group_is_used_unchanged)
{
	char text[INET6_ADDRSTRLEN];

	group_of("b", "looking:[fd00::1]:7471", "239.1.2.3:7472", text);
	cr_expect_str_eq(text, "239.1.2.3");
	group_of("b", "looking:10.9.0.1:7471", "[ff02::9]:7472", text);
	cr_expect_str_eq(text, "ff02::9");
}

/* -- a fabric that records datagrams ------------------------------------------------------------
 */

struct write_announcer {
	struct announcer base;
	const struct listener *from;
	char group[ADDRESS_TEXT_BYTES];
};

struct write_listener {
	struct listener base;
	struct fabric_notices notices;
	struct exposure exposure;
	int event;
};

#define SENT_MAX 4096

static struct {
	char group[ADDRESS_TEXT_BYTES];
	uint32_t sender, topics[8], topic_count;
	uint64_t number;
	const struct listener *from;
} sent[SENT_MAX];
static _Atomic uint32_t sent_count;
static struct fabric_ops writing;

static int write_listen(struct listener **out, const struct fabric_listen *how,
			const struct listener_calls *calls, void *user)
{
	struct write_listener *listener = calloc(1, sizeof(*listener));

	(void)calls;
	(void)user;
	listener->base.ops = listener->exposure.ops = &writing;
	listener->notices = how->notices;
	listener->notices.kind = FABRIC_NOTICES_UD;
	listener->event = eventfd(0, EFD_CLOEXEC);
	*out = &listener->base;
	return 0;
}

static int write_fd(const struct listener *base)
{
	return ((const struct write_listener *)base)->event;
}

static void write_text(const struct listener *base, char *text, size_t bytes)
{
	(void)base;
	snprintf(text, bytes, "here");
}

static int write_poll(struct listener *base)
{
	(void)base;
	return 0;
}

static void write_close(struct listener *base)
{
	close(((struct write_listener *)base)->event);
	free(base);
}

static void write_withdraw(struct exposure *exposure)
{
	(void)exposure;
}

static void write_notices(const struct listener *base, const struct sockaddr_storage *where,
			  struct fabric_notices *notices)
{
	*notices = ((const struct write_listener *)base)->notices;
	if (where)
		notices->group = *where;
}

static int write_announcer_open(struct listener *base, const struct sockaddr_storage *where,
				size_t bytes, struct announcer **out)
{
	struct write_announcer *announcer = calloc(1, sizeof(*announcer));
	struct fabric_notices notices;

	(void)bytes;
	write_notices(base, where, &notices);
	announcer->base.ops = &writing;
	announcer->from = base;
	address_text((struct sockaddr *)&notices.group, announcer->group);
	*out = &announcer->base;
	return 0;
}

static void write_announcer_close(struct announcer *announcer)
{
	free(announcer);
}

/* The test's thread and the control thread send, so each takes its own entry. */
static int write_announce(struct announcer *base, const void *datagram, size_t bytes)
{
	const uint32_t at = atomic_fetch_add(&sent_count, 1) % SENT_MAX;
	struct notice_reader reader;
	struct notice_entry entry;
	struct notice notice;

	cr_assert_eq(notice_open(&reader, datagram, bytes, &notice), 0, "%s", tb_error());
	memcpy(sent[at].group, ((struct write_announcer *)base)->group, ADDRESS_TEXT_BYTES);
	sent[at].sender = notice.sender;
	sent[at].number = notice.number;
	sent[at].from = ((struct write_announcer *)base)->from;
	sent[at].topic_count = 0;
	while (notice_next(&reader, &entry) == 1 && sent[at].topic_count < 8)
		sent[at].topics[sent[at].topic_count++] = entry.topic_id;
	return 0;
}

static struct tb_publisher *publisher;
static const char *bus_multicast = "239.9.9.1:7472";
static const struct tb_realm *only_realm; /* NULL: no realms */
static uint32_t flags = TB_TOPIC_MANUAL_FLUSH;

static int write_expose(struct listener *base, const struct memory *memory, uint32_t realm,
			struct exposure **exposure)
{
	(void)memory;
	(void)realm;
	*exposure = &((struct write_listener *)base)->exposure;
	return 0;
}

static void open_writing(const char *first, const char *second)
{
	const char *listen[] = { first, second };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "b",
						      .listen = listen,
						      .listen_count = second ? 2 : 1,
						      .stale_ms = 60000, /* few pulses */
						      .realms = only_realm,
						      .realm_count = only_realm ? 1 : 0,
						      .multicast = bus_multicast };

	writing = (struct fabric_ops){ .scheme = "writing",
				       .network = true,
				       .identity = any_identity,
				       .node = no_device,
				       .listen = write_listen,
				       .listener_fd = write_fd,
				       .listener_text = write_text,
				       .listener_poll = write_poll,
				       .listener_close = write_close,
				       .expose = write_expose,
				       .withdraw = write_withdraw,
				       .notices = write_notices,
				       .announcer_open = write_announcer_open,
				       .announcer_close = write_announcer_close,
				       .announce = write_announce };
	cr_assert_eq(fabric_add(&writing), 0);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
}

static int topic_add(const char *name, const char *multicast, struct tb_topic **topic)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = name,
						  .schema = schema,
						  .slots = 64,
						  .instruments = 16,
						  .flags = flags,
						  .multicast = multicast };
	int result = tb_topic_create(publisher, &options, topic);

	tb_schema_free(schema);
	return result;
}

static void leave(void)
{
	tb_publisher_close(publisher);
}

TestSuite(topic_groups, .fini = leave);

/* The datagrams of a sender to a group since `from` with exactly these topics, in order. */
static uint32_t count(uint32_t from, uint32_t sender, const char *to, const char *topics)
{
	uint32_t found = 0;

	for (uint32_t i = from; i < atomic_load(&sent_count); i++) {
		char text[64] = "";

		if (sent[i].sender != sender || strcmp(sent[i].group, to) != 0)
			continue;
		for (uint32_t t = 0; t < sent[i].topic_count; t++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u ",
				 sent[i].topics[t]);
		found += strcmp(text, topics) == 0;
	}
	return found;
}

static void flush(struct tb_topic *topic)
{
	scene_publish(topic, 1, 1);
	tb_flush(topic);
}

Test(topic_groups, flush_sends_one_datagram_to_its_topics_group)
{
	struct tb_topic *own, *other, *shared;
	uint32_t from;

	open_writing("writing:10.9.0.1:7471", NULL);
	cr_assert_eq(topic_add("a", NULL, &own), 0, "%s", tb_error());
	cr_assert_eq(topic_add("b", "239.9.9.2:7472", &other), 0, "%s", tb_error());
	cr_assert_eq(topic_add("c", "239.9.9.2:7472", &shared), 0, "%s", tb_error());
	from = atomic_load(&sent_count);
	flush(own);
	for (int i = 0; i < 3; i++)
		flush(other);
	flush(shared);
	cr_expect_eq(atomic_load(&sent_count), from + 5, "one datagram each");
	cr_expect_eq(count(from, 1, "239.9.9.1:7472", "1 "), 1);
	cr_expect_eq(count(from, 2, "239.9.9.2:7472", "2 "), 3);
	cr_expect_eq(count(from, 3, "239.9.9.2:7472", "3 "), 1);
	/* A new topic causes a pulse, with all heads to each group. */
	from = atomic_load(&sent_count);
	cr_assert_eq(topic_add("d", "239.9.9.1:7472", &own), 0, "the bus's own, by its name");
	cr_expect_eq(count(from, 0, "239.9.9.1:7472", "1 4 "), 1);
	cr_expect_eq(count(from, 0, "239.9.9.2:7472", "2 3 "), 1);
	cr_expect_eq(atomic_load(&sent_count), from + 2, "nothing else");
}

static void expect_refused(const char *multicast, int code, const char *text)
{
	struct tb_topic *topic;

	cr_expect_eq(topic_add("z", multicast, &topic), code, "%s", multicast);
	cr_expect_str_eq(tb_error(), text);
}

Test(topic_groups, invalid_group_is_refused_with_reason)
{
	struct tb_topic *topic;

	open_writing("writing:10.9.0.1:7471", NULL);
	cr_assert_eq(topic_add("a", "239.9.9.2:7472", &topic), 0, "%s", tb_error());
	expect_refused(
		"10.9.0.1:7472", -EINVAL,
		"topic z: multicast: found \"10.9.0.1:7472\", expected " ADDRESS_GROUP_EXPECTED);
	expect_refused("239.9.9.3", -EINVAL,
		       "topic z: multicast: found \"239.9.9.3\", expected " ADDRESS_GROUP_EXPECTED);
	expect_refused(
		"224.0.0.5:7472", -EINVAL,
		"topic z: multicast: found \"224.0.0.5:7472\", expected " ADDRESS_GROUP_EXPECTED);
	expect_refused("239.9.9.1:7473", -EINVAL,
		       "topic z: multicast: found \"239.9.9.1:7473\", expected port 7472, which "
		       "the bus uses for this group");
	expect_refused("239.9.9.2:1", -EINVAL,
		       "topic z: multicast: found \"239.9.9.2:1\", expected port 7472, which topic "
		       "a uses for this group");
	expect_refused("[ff15::1]:7472", -EINVAL,
		       "topic z: multicast: found \"[ff15::1]:7472\", expected an IPv4 group, like "
		       "the addresses that the bus listens at");
	cr_assert_eq(topic_add("z", "239.9.9.3:7472", &topic), 0, "none of it was left behind");
}

Test(topic_groups, group_without_notices_is_refused)
{
	const char *local[] = { "shm:b" }, *silent[] = { "writing:10.9.0.1:7471" };
	struct tb_publisher_options options = {
		.size = sizeof(options), .name = "b", .listen = local, .listen_count = 1
	};

	scene_enter();
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	expect_refused("239.9.9.3:7472", -EINVAL,
		       "topic z: multicast: found \"239.9.9.3:7472\", expected no group: the bus "
		       "listens at shared memory only");
	tb_publisher_close(publisher);
	scene_leave();
	open_writing("writing:10.9.0.1:7471", NULL);
	tb_publisher_close(publisher);
	options.listen = silent;
	options.notice = TB_NOTICE_NONE;
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	expect_refused("239.9.9.3:7472", -EINVAL,
		       "topic z: multicast: found \"239.9.9.3:7472\", expected no group: the bus "
		       "sends no notices");
}

/* 224.0.0.0/24 belongs to link-local protocols. */
Test(groups, link_local_control_group_is_refused)
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "b",
						      .multicast = "224.0.0.5:7472" };
	struct tb_publisher *none;

	cr_expect_eq(tb_publisher_open(&none, &options), -EINVAL);
	cr_expect_str_eq(tb_error(), "publisher options: multicast: found \"224.0.0.5:7472\", "
				     "expected " ADDRESS_GROUP_EXPECTED);
}

/* The bus has a group of each family, and the topic names one of the two. */
Test(topic_groups, group_shared_with_the_bus_has_one_numbering)
{
	struct tb_topic *topic;
	uint64_t last = 0, found = 0;
	char own[ADDRESS_TEXT_BYTES];

	bus_multicast = NULL;
	open_writing("writing:10.9.0.1:7471", "writing:[fd00::1]:7471");
	cr_assert_eq(topic_add("a", NULL, &topic), 0, "%s", tb_error());
	memcpy(own, sent[0].group, sizeof(own));
	cr_assert_eq(topic_add("b", own, &topic), 0, "%s", tb_error());
	cr_assert_eq(topic_add("c", NULL, &topic), 0, "a pulse");
	for (uint32_t i = 0; i < atomic_load(&sent_count); i++) {
		if (sent[i].sender != 0 || sent[i].from != sent[0].from ||
		    strcmp(sent[i].group, own) != 0)
			continue;
		cr_expect_eq(sent[i].number, last + 1, "%llu after %llu",
			     (unsigned long long)sent[i].number, (unsigned long long)last);
		last = sent[i].number;
		found++;
	}
	cr_expect_geq(found, 5, "b's and the others'");
}

/* No network client can read an unchecked topic, and no client a topic in no realm. */
Test(topic_groups, topics_without_network_readers_send_nothing)
{
	static const char *const read[] = { "a", "unchecked" };
	static const struct tb_realm everyone = {
		.size = sizeof(everyone), .name = "anonymous", .topics = read, .topic_count = 2
	};
	struct tb_topic *topic, *unchecked, *unread;
	uint32_t from;

	only_realm = &everyone;
	open_writing("writing:10.9.0.1:7471", NULL);
	cr_assert_eq(topic_add("a", NULL, &topic), 0, "%s", tb_error());
	cr_assert_eq(topic_add("unread", NULL, &unread), 0, "%s", tb_error());
	flags |= TB_TOPIC_UNCHECKED;
	cr_assert_eq(topic_add("unchecked", NULL, &unchecked), 0, "%s", tb_error());
	from = atomic_load(&sent_count);
	flush(unchecked);
	flush(unread);
	cr_expect_eq(atomic_load(&sent_count), from);
	expect_refused("239.9.9.2:7472", -EINVAL,
		       "topic z: multicast: found \"239.9.9.2:7472\", expected no group: an "
		       "unchecked topic is served over shared memory only");
	cr_assert_eq(topic_add("b", NULL, &topic), 0, "a pulse");
	cr_expect_eq(count(from, 0, "239.9.9.1:7472", "1 "), 1);
	cr_expect_eq(atomic_load(&sent_count), from + 1, "nothing else");
}

Test(topic_groups, group_needs_one_address_of_its_family)
{
	struct tb_topic *topic;

	open_writing("writing:10.9.0.1:7471", "writing:[fd00::1]:7471");
	cr_expect_eq(topic_add("six", "[ff15::1]:7472", &topic), 0, "%s", tb_error());
	cr_expect_eq(topic_add("four", "239.9.9.2:7472", &topic), 0, "%s", tb_error());
}

Test(topic_groups, surplus_group_is_refused)
{
	char name[16], multicast[64];
	struct tb_topic *topic;

	open_writing("writing:10.9.0.1:7471", NULL);
	for (int i = 1; i < BOUND_NOTICE_GROUPS_MAX; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		snprintf(multicast, sizeof(multicast), "239.9.8.%d:7472", i);
		cr_assert_eq(topic_add(name, multicast, &topic), 0, "%s", tb_error());
	}
	expect_refused("239.9.7.1:7472", -ENOSPC,
		       "topic z: multicast: found \"239.9.7.1:7472\", expected one of the 64 "
		       "groups in use, the maximum");
	cr_expect_eq(topic_add("shares", "239.9.8.5:7472", &topic), 0, "%s", tb_error());
}

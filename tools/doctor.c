/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus doctor: checks this host, and optionally a bus, for RDMA. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tickbus/doctor.h"
#include "tickbus/inspect.h"
#include "tickbus/subscriber.h"
#include "tools/command.h"
#include "tools/table.h"

static const struct table_column columns[] = {
	{ "verdict", TABLE_TEXT },
	{ "about", TABLE_TEXT },
	{ "found", TABLE_TEXT },
	{ "remedy", TABLE_TEXT },
};

static const char *verdict_word(enum tb_verdict verdict)
{
	switch (verdict) {
	case TB_VERDICT_GOOD:
		return "good";
	case TB_VERDICT_ADVICE:
		return "advice";
	case TB_VERDICT_BAD:
		return "bad";
	}
	return "unknown";
}

static void on_finding(void *user, const struct tb_finding *finding)
{
	struct table *table = user;

	table_text(table, verdict_word(finding->verdict));
	table_text(table, finding->about);
	table_text(table, finding->found);
	table_text(table, finding->remedy);
}

/* -- a bus --------------------------------------------------------------------------------------
 */

#define GROUPS_MAX 64 /* the limit of a bus */

/* The multicast groups of a bus's notices, each with one of its topics. */
struct groups {
	uint32_t stale_ms, count;
	int64_t user; /* that listens; -1: over a network */
	struct group {
		char notice[8], multicast[64], topic[64];
		bool ended;                           /* the topic ended during the check */
		struct tb_subscription *subscription; /* NULL: the join failed */
	} all[GROUPS_MAX];
};

static void on_bus(void *user, const struct tb_bus_info *bus)
{
	struct groups *groups = user;

	groups->stale_ms = bus->stale_ms;
	groups->user = bus->user;
}

/* Ended topics send no notices. */
static void on_topic(void *user, const struct tb_topic_info *topic)
{
	struct groups *groups = user;
	struct group *group = groups->all;

	if (strcmp(topic->notice, "none") == 0 || topic->ended)
		return;
	while (group < groups->all + groups->count &&
	       strcmp(group->multicast, topic->multicast) != 0)
		group++;
	if (group == groups->all + GROUPS_MAX || group < groups->all + groups->count)
		return;
	groups->count++;
	snprintf(group->notice, sizeof(group->notice), "%s", topic->notice);
	snprintf(group->multicast, sizeof(group->multicast), "%s", topic->multicast);
	snprintf(group->topic, sizeof(group->topic), "%s", topic->name);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
}

static void on_event(void *user, const struct tb_event *event)
{
	struct group *group = user;

	group->ended = group->ended || event->kind == TB_EVENT_ENDED;
}

/* Notices and heartbeats received for a subscription's topic. */
static uint64_t notices(const struct tb_subscription *subscription)
{
	uint64_t values[32], found = 0;
	size_t count;
	const struct tb_counter *counters = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);
	const size_t filled = tb_subscription_counters(subscription, values, 32);

	for (size_t i = 0; i < count && i < filled; i++)
		if (strcmp(counters[i].name, "notices") == 0 ||
		    strcmp(counters[i].name, "heartbeats") == 0)
			found += values[i];
	return found;
}

static bool all_heard(const struct groups *groups)
{
	for (const struct group *group = groups->all; group < groups->all + groups->count; group++)
		if (group->subscription && !group->ended && notices(group->subscription) == 0)
			return false;
	return true;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A publisher sends four heartbeats in a stale bound. */
static void groups_wait(struct tb_subscriber *subscriber, const struct groups *groups,
			uint32_t wait_ms)
{
	const uint64_t end = now_ms() + wait_ms;

	while (!all_heard(groups) && now_ms() < end) {
		tb_poll(subscriber, 1024);
		tb_wait(subscriber, 10);
	}
}

static void group_report(struct table *table, const char *address, const struct group *group,
			 uint32_t waited_ms)
{
	struct tb_finding finding = { sizeof(finding), TB_VERDICT_GOOD, address, NULL, "" };
	const bool heard = notices(group->subscription) > 0;
	char found[256];

	if (!heard && group->ended)
		return;
	finding.found = found;
	snprintf(found, sizeof(found), "notices arrive from %s (%s)", group->multicast,
		 group->notice);
	if (!heard) {
		snprintf(found, sizeof(found),
			 "no notice arrived from %s (%s) in %u ms: subscribers poll, and get "
			 "records later",
			 group->multicast, group->notice, waited_ms);
		finding.verdict = TB_VERDICT_ADVICE;
		finding.remedy = "with routers, raise hop_limit= in the publisher's address; with "
				 "IGMP snooping, add a querier; else set notice: udp";
	}
	on_finding(table, &finding);
}

static const char *remedy_of(int result)
{
	switch (-result) {
	case ENOENT:
		return "run the command again: the topics changed during the check";
	case ETIMEDOUT:
		return "raise --timeout if packets are lost; or check pubd's log";
	case ECONNREFUSED:
	case ECONNRESET:
	case ENOTCONN:
		return "check that pubd runs there, and check its log";
	default:
		return "check the findings about locked memory and the device";
	}
}

/* Adds a row with tb_error(). Returns the number of bad findings. */
static int failure_report(struct table *table, const char *address, int result)
{
	const struct tb_finding finding = { sizeof(finding),
					    result == -ENOENT ? TB_VERDICT_ADVICE : TB_VERDICT_BAD,
					    address, tb_error(), remedy_of(result) };

	on_finding(table, &finding);
	return finding.verdict == TB_VERDICT_BAD;
}

/* Joins a topic of each group. Returns the number of bad findings. */
static int groups_join(struct table *table, const char *address, struct tb_subscriber *subscriber,
		       struct groups *groups)
{
	int bad = 0;

	for (struct group *group = groups->all; group < groups->all + groups->count; group++) {
		const struct tb_subscription_options how = { .size = sizeof(how),
							     .on_record = on_record,
							     .on_event = on_event,
							     .user = group };
		const int result =
			tb_subscribe(subscriber, group->topic, &how, &group->subscription);

		if (result < 0)
			bad += failure_report(table, address, result);
	}
	return bad;
}

/* Checks each group: joins a topic, waits for a notice. Returns the number of bad findings. */
static int groups_look(struct table *table, const char *address, struct groups *groups,
		       const struct command_look *look)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = look->timeout_ms,
						       .ticket = look->ticket };
	const uint32_t wait_ms =
		groups->stale_ms > look->timeout_ms ? groups->stale_ms : look->timeout_ms;
	struct tb_subscriber *subscriber;
	int result;

	if (groups->count == 0)
		return 0;
	result = tb_subscriber_open(&subscriber, &options);
	if (result < 0)
		return failure_report(table, address, result);
	result = groups_join(table, address, subscriber, groups);
	groups_wait(subscriber, groups, wait_ms);
	for (uint32_t i = 0; i < groups->count; i++)
		if (groups->all[i].subscription)
			group_report(table, address, &groups->all[i], wait_ms);
	tb_subscriber_close(subscriber);
	return result;
}

/* Checks that the bus answers. A refusal is an answer. Returns the number of bad findings, or
 * -EINVAL for a malformed address. */
static int bus_look(struct table *table, const char *address, const struct command_look *look)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = address,
						    .timeout_ms = look->timeout_ms,
						    .ticket = look->ticket };
	struct tb_finding finding = { sizeof(finding), TB_VERDICT_GOOD, address, NULL, "" };
	char found[64 + COMMAND_USER_BYTES], name[COMMAND_USER_BYTES];
	struct groups groups = { .user = -1 };
	const int topics = tb_inspect_topics(&options, NULL, on_bus, on_topic, &groups);

	if (topics == -EINVAL)
		return topics;
	snprintf(found, sizeof(found), "a bus with %d topic%s answers%s%s", topics,
		 topics == 1 ? "" : "s", groups.user < 0 ? "" : ", run by user ",
		 command_user(groups.user, name));
	finding.found = topics < 0 ? tb_error() : found;
	if (topics == -EACCES) {
		finding.verdict = TB_VERDICT_ADVICE;
		finding.remedy = "use a ticket of the bus (--ticket), or check access in pubd's "
				 "settings";
	} else if (topics == -EUSERS) {
		finding.verdict = TB_VERDICT_ADVICE;
		finding.remedy =
			"raise subscribers_max (or the quota that it names) in pubd's settings, "
			"or run fewer subscribers";
	} else if (topics == -EMSGSIZE) {
		finding.verdict = TB_VERDICT_BAD;
		finding.remedy = "ip link set dev INTERFACE mtu N: the same on both hosts, and at "
				 "least that on every switch between them";
	} else if (topics == -EAGAIN) {
		finding.verdict = TB_VERDICT_ADVICE;
		finding.remedy = "the publisher reached a limit: check its log";
	} else if (topics == -ENODEV) {
		finding.verdict = TB_VERDICT_BAD;
		finding.remedy = "see the rows about this host's devices";
	} else if (topics < 0) {
		finding.verdict = TB_VERDICT_BAD;
		finding.remedy = "check that pubd runs there, and check its log";
	}
	on_finding(table, &finding);
	if (topics < 0)
		return finding.verdict == TB_VERDICT_BAD;
	return groups_look(table, address, &groups, look);
}

static int doctor_print(const struct command *command, const char *address,
			const struct command_look *look)
{
	struct table table = { .columns = columns,
			       .column_count = sizeof(columns) / sizeof(columns[0]) };
	int bad = tb_doctor(on_finding, &table), more = 0, status;

	if (bad >= 0 && address)
		more = bus_look(&table, address, look);
	bad = more < 0 ? more : bad + more;
	if (bad < 0) {
		table_free(&table);
		return command_failed(command, bad);
	}
	status = table_print(&table, look->format, command->name);
	return status == COMMAND_DONE && bad > 0 ? COMMAND_FAILED : status;
}

static int doctor_run(struct command_call *call)
{
	struct command_look look;

	if (command_look(call, &look) < 0)
		return call->status;
	return doctor_print(call->command, call->operands[0], &look);
}

const struct command doctor_command = {
	.name = "doctor",
	.operands = "[ADDRESS]",
	.words = "check whether this host is ready for a bus over RDMA",
	.options = command_look_options,
	.operands_min = 0,
	.operands_max = 1,
	.run = doctor_run,
};

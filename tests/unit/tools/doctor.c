/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor reports of a bus whose notices go to several groups, some of which cannot be
 * received. The bus is simulated here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/error.h"
#include "tickbus/doctor.h"
#include "tickbus/inspect.h"
#include "tickbus/subscriber.h"
#include "tools/command.h"

#define SUBSCRIPTIONS_MAX 8

/* -- a bus --------------------------------------------------------------------------------------
 */

static const struct {
	const char *name, *group;
	bool ended;   /* the topic has ended */
	bool ends;    /* the topic ends once it is joined */
	bool notices; /* notices arrive */
	int result;
} topics[] = {
	{ .name = "a.went", .group = "239.10.0.1:7472", .result = -ENOENT },
	{ .name = "a.slow", .group = "239.10.0.2:7472", .result = -ETIMEDOUT },
	{ .name = "a.large", .group = "239.10.0.3:7472", .result = -ENOMEM },
	{ .name = "a.old", .group = "239.10.0.4:7472", .ended = true },
	{ .name = "a.over", .group = "239.10.0.5:7472", .ended = true },
	{ .name = "a.live", .group = "239.10.0.4:7472", .notices = true },
	{ .name = "a.deaf", .group = "239.10.0.6:7472" },
	{ .name = "a.ends", .group = "239.10.0.7:7472", .ends = true },
};
#define TOPICS ((int)(sizeof(topics) / sizeof(topics[0])))

static int opened_result, subscribers;

struct tb_subscription {
	int topic;
	struct tb_subscription_options how;
};
static struct tb_subscription subscriptions[SUBSCRIPTIONS_MAX];
static int joined;

int tb_doctor(void (*finding)(void *user, const struct tb_finding *), void *user)
{
	(void)finding, (void)user;
	return 0;
}

int tb_inspect_topics(const struct tb_inspect_options *options, const char *pattern,
		      void (*bus)(void *user, const struct tb_bus_info *),
		      void (*topic)(void *user, const struct tb_topic_info *), void *user)
{
	const struct tb_bus_info of_bus = { .size = sizeof(of_bus), .stale_ms = 20, .user = -1 };

	(void)options, (void)pattern;
	bus(user, &of_bus);
	for (int i = 0; i < TOPICS; i++) {
		const struct tb_topic_info info = { .size = sizeof(info),
						    .name = topics[i].name,
						    .ended = topics[i].ended,
						    .notice = "ud",
						    .multicast = topics[i].group };

		topic(user, &info);
	}
	return TOPICS;
}

int tb_subscriber_open(struct tb_subscriber **out, const struct tb_subscriber_options *options)
{
	*out = NULL;
	if (opened_result < 0)
		return error_set(-opened_result, "%s: no publisher listens there",
				 options->address);
	*out = (struct tb_subscriber *)&subscribers;
	subscribers++;
	return 0;
}

void tb_subscriber_close(struct tb_subscriber *subscriber)
{
	(void)subscriber;
	subscribers--;
}

int tb_subscribe(struct tb_subscriber *subscriber, const char *pattern,
		 const struct tb_subscription_options *how, struct tb_subscription **out)
{
	int i = 0;

	(void)subscriber;
	*out = NULL;
	while (strcmp(topics[i].name, pattern) != 0)
		cr_assert_lt(++i, TOPICS);
	if (topics[i].result < 0)
		return error_set(-topics[i].result, "topic %s: it is so", pattern);
	*out = &subscriptions[joined++];
	**out = (struct tb_subscription){ i, *how };
	return 0;
}

int tb_poll(struct tb_subscriber *subscriber, int records_max)
{
	const struct tb_event ended = { .size = sizeof(ended), .kind = TB_EVENT_ENDED };

	(void)subscriber, (void)records_max;
	for (int i = 0; i < joined; i++)
		if (topics[subscriptions[i].topic].ends)
			subscriptions[i].how.on_event(subscriptions[i].how.user, &ended);
	return 0;
}

int tb_wait(struct tb_subscriber *subscriber, int timeout_ms)
{
	(void)subscriber, (void)timeout_ms;
	return 0;
}

size_t tb_subscription_counters(const struct tb_subscription *subscription, uint64_t *values,
				size_t max)
{
	size_t count;
	const struct tb_counter *counters = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);

	cr_assert_leq(count, max);
	for (size_t i = 0; i < count; i++)
		values[i] = topics[subscription->topic].notices &&
			    strcmp(counters[i].name, "heartbeats") == 0;
	return count;
}

/* -- the report ---------------------------------------------------------------------------------
 */

/* Runs the doctor and returns its output. */
static int run(char *text, size_t room)
{
	char name[] = "doctor", format[] = "--format=csv", timeout[] = "--timeout=20";
	char where[] = "rdma:there", *arguments[] = { name, format, timeout, where, NULL };
	struct command_call call = { .command = &doctor_command, .argc = 4, .argv = arguments };
	FILE *file = tmpfile();
	const int out = dup(STDOUT_FILENO);
	size_t bytes;
	int status;

	cr_assert(file && out >= 0);
	dup2(fileno(file), STDOUT_FILENO);
	status = doctor_command.run(&call);
	dup2(out, STDOUT_FILENO);
	close(out);
	rewind(file);
	bytes = fread(text, 1, room - 1, file);
	text[bytes] = '\0';
	fclose(file);
	cr_expect_eq(subscribers, 0);
	return status;
}

Test(doctor, each_group_is_reported_with_its_remedy)
{
	static const char *const rows[] = {
		"verdict,about,found,remedy\n",
		"good,rdma:there,a bus with 8 topics answers,\n",
		"advice,rdma:there,topic a.went: it is so,run the command again: the "
		"topics changed during the check\n",
		"bad,rdma:there,topic a.slow: it is so,raise --timeout if packets are lost; or "
		"check pubd's log\n",
		"bad,rdma:there,topic a.large: it is so,check the findings about locked memory "
		"and the device\n",
		"good,rdma:there,notices arrive from 239.10.0.4:7472 (ud),\n",
		"advice,rdma:there,\"no notice arrived from 239.10.0.6:7472 (ud) in 20 ms: "
		"subscribers poll, and get records later\",\"with routers, raise hop_limit= in the "
		"publisher's address; with IGMP snooping, add a querier; else set notice: udp\"\n",
	};
	char text[4096], expected[4096] = "";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		strcat(expected, rows[i]);
	cr_expect_eq(run(text, sizeof(text)), COMMAND_FAILED);
	cr_expect_str_eq(text, expected);
}

Test(doctor, bus_lost_during_check_names_where_to_look)
{
	static const char row[] = "\nbad,rdma:there,rdma:there: no publisher listens there,\"check "
				  "that pubd runs there, and check its log\"\n";
	char text[4096];

	opened_result = -ECONNREFUSED;
	cr_expect_eq(run(text, sizeof(text)), COMMAND_FAILED);
	cr_expect_not_null(strstr(text, row), "%s", text);
}

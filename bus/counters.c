/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/counters.h"

#include <assert.h>

static const struct tb_counter bus_table[] = {
	[BUS_CONNECTIONS] = { "connections", "peers", "connections accepted since the start" },
	[BUS_REFUSED] = { "refused", "peers",
			  "connections refused: permission, version, silence, no room" },
	[BUS_DROPPED] = { "dropped", "peers",
			  "connections ended by the publisher for what they did" },
	[BUS_SUBSCRIBERS] = { "subscribers", "peers", "connections there are now" },
	[BUS_MESSAGES] = { "messages", "messages", "control messages received" },
	[BUS_MALFORMED] = { "malformed", "messages", "control messages that could not be read" },
	[BUS_REFUSALS] = { "refusals", "messages", "requests refused with a reason" },
	[BUS_JOINS] = { "joins", "joins", "(subscriber, topic) joins there are now" },
	[BUS_WAKES] = { "wakes", "messages", "sleeping subscribers woken" },
	[BUS_NOTICES] = { "notices", "datagrams", "notices of all heads sent, with each pulse" },
};
static_assert(sizeof(bus_table) / sizeof(bus_table[0]) == BUS_COUNTERS, "one row each");

static const struct tb_counter topic_table[] = {
	[TOPIC_RECORDS] = { "records", "records", "records written in this epoch" },
	[TOPIC_FLUSHES] = { "flushes", "flushes", "progress lines written, in all epochs" },
	[TOPIC_SIGNALS] = { "signals", "signals",
			    "flushes that found a sleeper and made one system "
			    "call" },
	[TOPIC_INSTRUMENTS] = { "instruments", "names", "names in the directory" },
	[TOPIC_CAPACITY] = { "capacity", "names", "names the directory has room for" },
	[TOPIC_SUBSCRIBERS] = { "subscribers", "joins", "subscribers that have joined now" },
	[TOPIC_SLEEPERS] = { "sleepers", "joins",
			     "subscribers that sleep until a flush wakes them" },
	[TOPIC_UNPUBLISHED] = { "unpublished", "records", "records that could not be published" },
	[TOPIC_RESTARTS] = { "restarts", "epochs", "times the topic began again" },
	[TOPIC_NOTICES] = { "notices", "datagrams", "notices sent, one per flush and network" },
	[TOPIC_NOTICES_UNSENT] = { "notices_unsent", "datagrams",
				   "notices the network did not take at once: subscribers learn "
				   "later" },
};
static_assert(sizeof(topic_table) / sizeof(topic_table[0]) == TOPIC_COUNTERS, "one row each");

static const struct tb_counter subscription_table[] = {
	[SUBSCRIPTION_RECORDS] = { "records", "records", "records delivered" },
	[SUBSCRIPTION_LOST_OVERRUN] = { "lost_overrun", "records",
					"records overwritten before they were read" },
	[SUBSCRIPTION_LOST_BEFORE_JOIN] = { "lost_before_join", "records",
					    "records overwritten before the join" },
	[SUBSCRIPTION_LOST_UPSTREAM] = { "lost_upstream", "records",
					 "records that the publisher itself never got" },
	[SUBSCRIPTION_LOST_CORRUPT] = { "lost_corrupt", "records",
					"records that never could be read whole" },
	[SUBSCRIPTION_BUSY] = { "busy", "copies", "slots found while they were being written" },
	[SUBSCRIPTION_TORN] = { "torn", "copies", "copies caught by their sequence or check" },
	[SUBSCRIPTION_READS] = { "reads", "reads", "READs posted" },
	[SUBSCRIPTION_RESTARTS] = { "restarts", "epochs", "times a topic began again" },
	[SUBSCRIPTION_STALES] = { "stales", "events", "times a topic was reported stale" },
	[SUBSCRIPTION_NOTICES] = { "notices", "datagrams", "notices received of its topics" },
	[SUBSCRIPTION_NOTICES_LOST] = { "notices_lost", "datagrams",
					"notices that never came, by their numbers" },
	[SUBSCRIPTION_HEARTBEATS] = { "heartbeats", "datagrams",
				      "notices of all heads received that name its topics" },
	[SUBSCRIPTION_NOTICES_OTHERS] = { "notices_others", "datagrams",
					  "datagrams received that say nothing of its topics" },
	[SUBSCRIPTION_FALSE_HINTS] = { "false_hints", "heads",
				       "heads in notices that the progress line did not confirm" },
	[SUBSCRIPTION_LOOKS] = { "looks", "reads", "READs of a progress line, of those posted" },
};
static_assert(sizeof(subscription_table) / sizeof(subscription_table[0]) == SUBSCRIPTION_COUNTERS,
	      "one row each");

TB_API const struct tb_counter *tb_counters(enum tb_scope scope, size_t *count)
{
	switch (scope) {
	case TB_SCOPE_BUS:
		*count = BUS_COUNTERS;
		return bus_table;
	case TB_SCOPE_TOPIC:
		*count = TOPIC_COUNTERS;
		return topic_table;
	case TB_SCOPE_SUBSCRIPTION:
		*count = SUBSCRIPTION_COUNTERS;
		return subscription_table;
	case TB_SCOPE_FEED:
		break;
	}
	*count = 0;
	return NULL;
}

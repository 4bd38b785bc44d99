/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/counters.h"

#include <assert.h>

static const struct tb_counter bus_table[] = {
	[BUS_CONNECTIONS] = { "connections", "peers", "connections accepted since the start" },
	[BUS_REFUSED] = { "refused", "peers",
			  "connections refused: permission, version, silence, no room" },
	[BUS_DROPPED] = { "dropped", "peers",
			  "connections that the publisher closed for a violation" },
	[BUS_SUBSCRIBERS] = { "subscribers", "peers", "open connections" },
	[BUS_MESSAGES] = { "messages", "messages", "control messages received" },
	[BUS_MALFORMED] = { "malformed", "messages", "control messages that could not be decoded" },
	[BUS_REFUSALS] = { "refusals", "messages", "requests refused with a reason" },
	[BUS_JOINS] = { "joins", "joins", "joins now, one for each subscriber and topic" },
	[BUS_WAKES] = { "wakes", "messages", "sleeping subscribers woken" },
	[BUS_NOTICES] = { "notices", "datagrams",
			  "notices of heads sent: with each pulse, and once after the last flush" },
	[BUS_INTERRUPTS] = { "interrupts", "interrupts",
			     "interrupts of publishing threads on account of sleepers" },
	[BUS_CLOCK_SET_BACK] = { "clock_set_back", "times",
				 "the clock went back by more than 1 s under a group; its times "
				 "went on by 1 ns a message" },
};
static_assert(sizeof(bus_table) / sizeof(bus_table[0]) == BUS_COUNTERS, "one row each");

static const struct tb_counter topic_table[] = {
	[TOPIC_RECORDS] = { "records", "records", "records written in this epoch" },
	[TOPIC_FLUSHES] = { "flushes", "flushes", "progress lines written, in all epochs" },
	[TOPIC_SIGNALS] = { "signals", "signals",
			    "flushes that woke sleepers, with one system call" },
	[TOPIC_INSTRUMENTS] = { "instruments", "names", "names in the directory" },
	[TOPIC_CAPACITY] = { "capacity", "names", "names that fit into the directory" },
	[TOPIC_SUBSCRIBERS] = { "subscribers", "joins", "subscribers that are joined now" },
	[TOPIC_SLEEPERS] = { "sleepers", "joins",
			     "subscribers that sleep until a flush wakes them" },
	[TOPIC_UNPUBLISHED] = { "unpublished", "records", "records that could not be published" },
	[TOPIC_RESTARTS] = { "restarts", "epochs", "restarts of the topic" },
	[TOPIC_NOTICES] = { "notices", "datagrams", "notices sent, one per flush and network" },
	[TOPIC_NOTICES_UNSENT] = { "notices_unsent", "datagrams",
				   "notices that the network did not accept at once; subscribers "
				   "learn later" },
	[TOPIC_QUALITY] = { "quality", "state",
			    "quality of the records: 0 good, 1 suspect, 2 rebuilding" },
};
static_assert(sizeof(topic_table) / sizeof(topic_table[0]) == TOPIC_COUNTERS, "one row each");

static const struct tb_counter subscription_table[] = {
	[SUBSCRIPTION_RECORDS] = { "records", "records",
				   "records delivered, with those that state a quality" },
	[SUBSCRIPTION_LOST_OVERRUN] = { "lost_overrun", "records",
					"records overwritten before they were read" },
	[SUBSCRIPTION_LOST_BEFORE_JOIN] = { "lost_before_join", "records",
					    "records overwritten before the join" },
	[SUBSCRIPTION_LOST_UPSTREAM] = { "lost_upstream", "records",
					 "records that the publisher never received" },
	[SUBSCRIPTION_LOST_CORRUPT] = { "lost_corrupt", "records",
					"records that failed every read" },
	[SUBSCRIPTION_BUSY] = { "busy", "copies", "copies of slots that were being written" },
	[SUBSCRIPTION_TORN] = { "torn", "copies", "copies rejected by their sequence or check" },
	[SUBSCRIPTION_READS] = { "reads", "reads", "READs posted" },
	[SUBSCRIPTION_RESTARTS] = { "restarts", "epochs", "restarts of its topics" },
	[SUBSCRIPTION_STALES] = { "stales", "events", "stale events of its topics" },
	[SUBSCRIPTION_NOTICES] = { "notices", "datagrams", "notices received for its topics" },
	[SUBSCRIPTION_NOTICES_LOST] = { "notices_lost", "datagrams",
					"notices that never arrived, by gaps in their numbers" },
	[SUBSCRIPTION_HEARTBEATS] = { "heartbeats", "datagrams",
				      "notices of heads received for its topics" },
	[SUBSCRIPTION_NOTICES_OTHERS] = { "notices_others", "datagrams",
					  "datagrams received for other topics only" },
	[SUBSCRIPTION_FALSE_HINTS] = { "false_hints", "heads",
				       "heads in notices that the progress line did not confirm" },
	[SUBSCRIPTION_LOOKS] = { "looks", "reads", "posted READs of a progress line" },
	[SUBSCRIPTION_NOTICES_FORGED] = { "notices_forged", "entries",
					  "entries of notices without the topic's tag" },
	[SUBSCRIPTION_NOTICES_REPLAYED] = { "notices_replayed", "entries",
					    "entries of notices that came before" },
	[SUBSCRIPTION_SKIPPED] = { "skipped", "records",
				   "records that the subscriber did not want, as its gap policy "
				   "says" },
	[SUBSCRIPTION_IMAGES] = { "images", "images", "images begun" },
	[SUBSCRIPTION_IMAGE_RECORDS] = { "image_records", "records",
					 "values delivered in images; records do not count them" },
	[SUBSCRIPTION_VALUES] = { "values", "records", "values that a watch list delivered" },
	[SUBSCRIPTION_VALUE_LOOKS] = { "value_looks", "looks",
				       "looks of a watch list at its values" },
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

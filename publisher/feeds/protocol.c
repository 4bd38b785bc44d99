/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/protocol.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "tickbus/error.h"

#define LINE_BYTES 64

static const struct tb_counter market_table[MARKET_COUNTER_COUNT] = {
#define MARKET(what, name, unit, meaning) { name, unit, meaning },
	MARKET_COUNTERS(MARKET)
};

static const struct tb_counter own_table[PROTOCOL_COUNTER_COUNT] = {
	{ "time_ahead", "messages",
	  "messages more than an hour ahead of the message before; not waited for" },
};

static size_t counters_of(const struct protocol *protocol)
{
	return protocol->kind->count + MARKET_COUNTER_COUNT + PROTOCOL_COUNTER_COUNT;
}

static int counters_make(struct protocol *protocol)
{
	const unsigned int count = protocol->kind->count;
	const size_t bytes = PROTOCOL_COUNTERS_MAX * sizeof(*protocol->counters);

	assert(counters_of(protocol) <= PROTOCOL_COUNTERS_MAX);
	protocol->counters = aligned_alloc(LINE_BYTES, bytes); /* written for each message */
	protocol->table = calloc(counters_of(protocol), sizeof(*protocol->table));
	if (!protocol->counters || !protocol->table)
		return error_set(ENOMEM, "no memory");
	memset(protocol->counters, 0, bytes);
	memcpy(protocol->table, protocol->kind->counters, count * sizeof(*protocol->table));
	memcpy(protocol->table + count, market_table, sizeof(market_table));
	memcpy(protocol->table + count + MARKET_COUNTER_COUNT, own_table, sizeof(own_table));
	return 0;
}

int protocol_open(struct protocol **out, const struct protocol_kind *kind,
		  const struct protocol_options *options)
{
	struct protocol *protocol = aligned_alloc(_Alignof(struct protocol), kind->bytes);
	struct market_options market = { .wanted = options->wanted,
					 .output = options->output,
					 .user = options->user };
	int result;

	*out = NULL;
	if (!protocol)
		return error_set(ENOMEM, "no memory");
	memset(protocol, 0, kind->bytes);
	protocol->kind = kind;
	protocol->options = *options;
	result = counters_make(protocol);
	if (result == 0) {
		market.counters = protocol->counters + kind->count;
		result = market_open(&protocol->market, &market);
	}
	if (result < 0) {
		protocol_close(protocol);
		return result;
	}
	*out = protocol;
	return 0;
}

void protocol_close(struct protocol *protocol)
{
	if (!protocol)
		return;
	market_close(protocol->market);
	free(protocol->counters);
	free(protocol->table);
	free(protocol);
}

void protocol_date(struct protocol *protocol, uint64_t midnight_ns)
{
	protocol->midnight_ns = midnight_ns;
}

void protocol_clear(struct protocol *protocol)
{
	protocol->marks = (struct day_marks){ 0 };
	protocol->kind->clear(protocol);
	market_clear(protocol->market);
}

void protocol_day_begins(struct protocol *protocol)
{
	if (protocol->marks.started)
		return;
	market_partial(protocol->market);
	if (protocol->options.no_start)
		protocol->options.no_start(protocol->options.user);
}

bool protocol_is_over(const struct protocol *protocol, const struct source_message *message)
{
	return day_marks_over(&protocol->marks, protocol->kind->mark(message));
}

int protocol_malformed(struct protocol *protocol, unsigned int counter, uint64_t offset)
{
	protocol_count(protocol, counter);
	market_defect(protocol->market, tb_error());
	if (protocol->malformed++ < PROTOCOL_MALFORMED_REPORTED && protocol->options.malformed)
		protocol->options.malformed(protocol->options.user, offset, tb_error());
	return PROTOCOL_DEFECT;
}

void protocol_count_jump(struct protocol *protocol)
{
	protocol_count(protocol,
		       protocol->kind->count + MARKET_COUNTER_COUNT + PROTOCOL_COUNTER_TIME_AHEAD);
}

uint64_t protocol_valid(const struct protocol *protocol)
{
	uint64_t sum = 0;

	for (unsigned int type = 0; type < protocol->kind->types; type++)
		sum += protocol->counters[type];
	return sum;
}

const struct tb_counter *protocol_counter_table(const struct protocol *protocol, size_t *count)
{
	*count = counters_of(protocol);
	return protocol->table;
}

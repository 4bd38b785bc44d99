/* SPDX-License-Identifier: Apache-2.0 */
/* F-I3  Between messages no record is held: each topic has all records of each message, and the
 *       last of them is marked. So a flush never shows a part of a message. Within a message
 *       a full step or a new instrument may show a part. `whole` of the progress line then says
 *       where the last message ended.
 * F-I4  The records of an input message are a message of the group, which begins with the first of
 *       them. An input message without records begins none. */
#include "publisher/feeds/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "publisher/feeds/projection.h"

#define INSTRUMENT_NEW  (-1)
#define INSTRUMENT_NONE (-2) /* the topic has no room for it */

struct output {
	struct feed_topic to;
	struct projection projection;
	int32_t *instruments; /* by symbol of the market */
	bool full;            /* it had no room for an instrument */
	bool suspect_due;     /* its quality does not say yet that it lacks records */
	/* The topic's latest record of the current message, until the next record or the message's
	 * end says whether it is the last. */
	struct tb_update held;
	void *payload; /* of the held record */
	bool holds;
};

struct outputs {
	struct tb_group *group;
	const struct feed_say *say;
	enum tb_log_level full_level; /* of the line about a topic without room */
	struct output *all;
	size_t count;
	struct output **holders; /* that hold a record */
	size_t holder_count;
	bool suspect_due; /* of an output */
	int error;        /* of the first record that could not be published */
};

/* -- publishing ---------------------------------------------------------------------------------
 */

/* The instrument of a symbol, or INSTRUMENT_NONE when the topic has no room for it. */
static int32_t instrument_of(struct outputs *outputs, struct output *output,
			     const struct market_output *made)
{
	int32_t *instrument = &output->instruments[made->symbol];
	int index;

	if (*instrument >= 0)
		return *instrument;
	if (*instrument == INSTRUMENT_NEW) {
		index = tb_instrument(output->to.topic, made->name);
		*instrument = index >= 0 ? index : INSTRUMENT_NONE;
		if (index < 0 && !output->full) {
			output->full = output->suspect_due = outputs->suspect_due = true;
			feed_say(outputs->say, outputs->full_level,
				 "%s; `tickbus stat` counts the skipped messages, and the topic is "
				 "suspect",
				 tb_error());
		}
	}
	if (*instrument == INSTRUMENT_NONE)
		tb_topic_unpublished(output->to.topic, made->name);
	return *instrument;
}

static void publish(struct outputs *outputs, struct output *output, uint8_t flags)
{
	int result;

	output->held.flags = flags;
	result = tb_publish(output->to.topic, &output->held);
	output->holds = false;
	if (result < 0)
		outputs->error = result;
}

/* The clock was set back, and the topics' new epochs lack all values. */
static __attribute__((noinline)) void values_are_gone(struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++)
		outputs->all[i].suspect_due = true;
	outputs->suspect_due = true;
}

/* A record that follows another of its message in its topic shows that the other was not the last.
 */
static void hold(struct outputs *outputs, struct output *output, uint64_t message,
		 const struct market_output *made)
{
	const int32_t instrument = instrument_of(outputs, output, made);
	const void *data;

	if (instrument < 0)
		return;
	if (outputs->holder_count == 0 && tb_group_message(outputs->group) == 1) /* F-I4 */
		values_are_gone(outputs);
	if (output->holds)
		publish(outputs, output, 0);
	else
		outputs->holders[outputs->holder_count++] = output;
	data = projection_apply(&output->projection, made->data, message, output->payload);
	if (data != output->payload)
		memcpy(output->payload, data, output->projection.bytes);
	output->held.instrument = (uint32_t)instrument;
	output->held.kind = made->kind;
	output->holds = true;
}

void outputs_take(struct outputs *outputs, uint64_t message, const struct market_output *made)
{
	for (size_t i = 0; i < outputs->count; i++)
		if (outputs->all[i].to.select == made->select)
			hold(outputs, &outputs->all[i], message, made);
}

/* A topic lacks records from here on: it had no room for an instrument, or its values are gone. */
static __attribute__((noinline)) int suspect_report(struct outputs *outputs)
{
	if (tb_group_message(outputs->group) == 1)
		values_are_gone(outputs);
	for (size_t i = 0; i < outputs->count; i++) {
		if (outputs->all[i].suspect_due)
			tb_topic_quality(outputs->all[i].to.topic, TB_QUALITY_SUSPECT,
					 TB_QUALITY_MISSING);
		outputs->all[i].suspect_due = false;
	}
	outputs->suspect_due = false;
	return outputs->error < 0 ? outputs->error : OUTPUTS_SUSPECT;
}

int outputs_end_message(struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->holder_count; i++)
		publish(outputs, outputs->holders[i], TB_FLAG_LAST);
	outputs->holder_count = 0;
	return outputs->suspect_due ? suspect_report(outputs) : outputs->error;
}

/* -- opening ------------------------------------------------------------------------------------
 */

static void instruments_forget(struct output *output)
{
	for (uint32_t symbol = 0; symbol < MARKET_SYMBOLS; symbol++)
		output->instruments[symbol] = INSTRUMENT_NEW;
}

static int output_open(struct output *output, const struct feed_topic *to)
{
	struct tb_schema *made = NULL;
	int result;

	output->to = *to;
	output->instruments = malloc(MARKET_SYMBOLS * sizeof(*output->instruments));
	if (!output->instruments)
		return error_set(ENOMEM, "no memory");
	instruments_forget(output);
	result = tb_schema_load(&made, market_selects[to->select]);
	if (result == 0)
		result = projection_open(&output->projection, made, to->schema);
	tb_schema_free(made);
	if (result < 0)
		return result;
	output->payload = malloc(output->projection.bytes);
	if (!output->payload)
		return error_set(ENOMEM, "no memory");
	output->held = (struct tb_update){ .size = sizeof(output->held),
					   .length = (uint16_t)output->projection.bytes,
					   .data = output->payload };
	return 0;
}

int outputs_open(struct outputs **out, struct tb_group *group, const struct feed_topic *topics,
		 size_t count, const struct feed_say *say, enum tb_log_level full_level)
{
	struct outputs *outputs = calloc(1, sizeof(*outputs));
	int result = 0;

	*out = outputs;
	if (!outputs)
		return error_set(ENOMEM, "no memory");
	outputs->group = group;
	outputs->say = say;
	outputs->full_level = full_level;
	outputs->count = count;
	outputs->all = calloc(count + 1, sizeof(*outputs->all));
	outputs->holders = calloc(count + 1, sizeof(struct output *));
	if (!outputs->all || !outputs->holders)
		return error_set(ENOMEM, "no memory");
	for (size_t i = 0; i < count && result == 0; i++)
		result = output_open(&outputs->all[i], &topics[i]);
	return result;
}

void outputs_close(struct outputs *outputs)
{
	if (!outputs)
		return;
	for (size_t i = 0; outputs->all && i < outputs->count; i++) {
		projection_close(&outputs->all[i].projection);
		free(outputs->all[i].instruments);
		free(outputs->all[i].payload);
	}
	free(outputs->all);
	free(outputs->holders);
	free(outputs);
}

uint32_t outputs_wanted(const struct outputs *outputs)
{
	uint32_t wanted = 0;

	for (size_t i = 0; i < outputs->count; i++)
		wanted |= 1u << outputs->all[i].to.select;
	return wanted;
}

int outputs_restart(struct outputs *outputs)
{
	int result = 0;

	for (size_t i = 0; i < outputs->count && result == 0; i++) {
		result = tb_topic_restart(outputs->all[i].to.topic);
		instruments_forget(&outputs->all[i]);
		outputs->all[i].full = false;
	}
	return result;
}

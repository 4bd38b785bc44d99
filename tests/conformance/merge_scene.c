/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of merges. A group of topics has a log of what was written. A subscription checks
 * order, accounts and cuts against that log. */
#include "tests/conformance/merge_scene.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/counters.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

static const char *const names[MERGE_TOPICS] = { "f.quote", "f.trade", "f.cancel", "f.status" };

/* -- writing ---------------------------------------------------------------------------------- */

static void epoch_begin(const struct merge_scene *scene, struct merge_topic *topic)
{
	struct merge_log *log;

	cr_assert_lt(topic->epochs, MERGE_EPOCHS);
	log = &topic->logs[topic->epochs++];
	log->epoch = topic->topic->shape.epoch;
	log->count = 0;
	log->era = scene->eras;
	log->written = calloc(MERGE_LOG + 1, sizeof(*log->written));
	for (uint32_t i = 0; i < MERGE_INSTRUMENTS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "I%u", i);
		cr_assert_eq(tb_instrument(topic->topic, name), (int)i, "%s", tb_error());
	}
}

void merge_scene_topic(struct merge_scene *scene, unsigned int at, uint32_t slots, uint32_t flags)
{
	struct merge_topic *topic = &scene->topics[at];

	topic->name = names[at];
	topic->topic = scene_grouped(scene->publisher, topic->name, slots, flags, scene->group);
	epoch_begin(scene, topic);
}

void merge_scene_write(struct merge_scene *scene, struct tb_publisher *publisher,
		       unsigned int topics, uint32_t slots, uint32_t flags)
{
	scene->publisher = publisher;
	scene->group = scene_group(publisher, "nasdaq");
	for (unsigned int i = 0; i < topics; i++)
		merge_scene_topic(scene, i, slots, flags);
}

void merge_scene_message(struct merge_scene *scene)
{
	cr_assert_eq(tb_group_message(scene->group), 0, "%s", tb_error());
}

void merge_scene_message_again(struct merge_scene *scene)
{
	cr_assert_eq(tb_group_message(scene->group), 1, "%s", tb_error());
	scene->eras++;
	for (unsigned int i = 0; i < MERGE_TOPICS; i++)
		if (scene->topics[i].topic && !scene->topics[i].topic->ended)
			epoch_begin(scene, &scene->topics[i]);
}

void merge_scene_put(struct merge_scene *scene, unsigned int at, uint32_t instrument, uint8_t kind)
{
	struct merge_topic *topic = &scene->topics[at];
	struct merge_log *log = &topic->logs[topic->epochs - 1];
	const uint64_t x = ++log->count;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = instrument,
					  .kind = kind,
					  .length = sizeof(x),
					  .data = &x };

	cr_assert_leq(x, MERGE_LOG);
	cr_assert_eq(tb_publish(topic->topic, &update), 0, "%s", tb_error());
	log->written[x] = (struct merge_written){ tb_group_time(scene->group), instrument, kind };
}

void merge_scene_flush(struct merge_scene *scene)
{
	cr_assert_eq(tb_group_flush(scene->group), 0, "%s", tb_error());
}

void merge_scene_restart(struct merge_scene *scene, unsigned int at)
{
	cr_assert_eq(tb_topic_restart(scene->topics[at].topic), 0, "%s", tb_error());
	epoch_begin(scene, &scene->topics[at]);
}

/* -- checks ----------------------------------------------------------------------------------- */

static void wrong(struct merge_scene *scene, const char *format, ...)
{
	va_list list;

	if (scene->wrong[0])
		return;
	va_start(list, format);
	vsnprintf(scene->wrong, sizeof(scene->wrong), format, list);
	va_end(list);
}

static void note(struct merge_scene *scene, const char *format, ...)
{
	const size_t used = strlen(scene->text);
	va_list list;

	va_start(list, format);
	vsnprintf(scene->text + used, sizeof(scene->text) - used, format, list);
	va_end(list);
}

static struct merge_topic *topic_of(struct merge_scene *scene, const char *name)
{
	for (unsigned int i = 0; i < MERGE_TOPICS; i++)
		if (strcmp(names[i], name) == 0)
			return &scene->topics[i];
	return NULL;
}

static const struct merge_log *log_of(struct merge_scene *scene, const struct merge_topic *topic,
				      uint64_t epoch)
{
	for (unsigned int i = 0; i < topic->epochs; i++)
		if (topic->logs[i].epoch == epoch)
			return &topic->logs[i];
	wrong(scene, "topic %s has no epoch %" PRIx64, topic->name, epoch);
	return NULL;
}

static uint32_t id_of(const struct merge_scene *scene, const struct merge_topic *topic)
{
	return (uint32_t)(topic - scene->topics);
}

static void order_check(struct merge_scene *scene, const struct merge_topic *topic,
			const struct merge_log *log, const struct tb_record *record)
{
	const uint32_t id = id_of(scene, topic);

	if (log->era < scene->last_era)
		wrong(scene, "topic %s, record %" PRIu64 ": era %u comes after era %u", topic->name,
		      record->sequence, log->era, scene->last_era);
	if (log->era > scene->last_era)
		scene->last_ns = 0;
	scene->last_era = log->era;
	if (record->time_ns < scene->last_ns ||
	    (record->time_ns == scene->last_ns && id < scene->last_topic))
		wrong(scene,
		      "topic %s, record %" PRIu64 ": its time is %" PRIu64 " ns before the last",
		      topic->name, record->sequence, scene->last_ns - record->time_ns);
	scene->last_ns = record->time_ns;
	scene->last_topic = id;
}

static bool changes(uint8_t kind)
{
	return kind == TB_KIND_UPDATE || kind == TB_KIND_CLEAR || kind >= TB_KIND_USER;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct merge_scene *scene = user;
	struct merge_topic *topic = topic_of(scene, tb_source_topic(source));
	const struct merge_log *log = log_of(scene, topic, record->epoch);
	const bool imaged = record->flags & TB_FLAG_IMAGE;
	const struct merge_written *as;
	uint64_t x;

	if (!log || record->sequence > log->count)
		return;
	as = &log->written[record->sequence];
	memcpy(&x, record->data, sizeof(x));
	if (x != record->sequence || as->time_ns != record->time_ns ||
	    as->instrument != record->instrument || as->kind != record->kind)
		wrong(scene, "topic %s, record %" PRIu64 " is another record", topic->name,
		      record->sequence);
	if (changes(record->kind) && record->sequence > topic->value[record->instrument])
		topic->value[record->instrument] = record->sequence;
	else if (changes(record->kind))
		wrong(scene, "topic %s, record %" PRIu64 " comes after a newer value", topic->name,
		      record->sequence);
	note(scene, "%s%c%" PRIu64, imaged ? "=" : " ", topic->name[2], record->sequence);
	scene->values += imaged;
	if (imaged)
		return;
	order_check(scene, topic, log, record);
	scene->records++;
	topic->delivered++;
	if (record->sequence <= topic->position)
		wrong(scene, "topic %s, record %" PRIu64 " comes after %" PRIu64, topic->name,
		      record->sequence, topic->position);
	scene->passed += record->sequence - topic->position - 1;
	topic->position = record->sequence;
}

/* Compares a topic's table with what its log says for this time. */
static void table_check(struct merge_scene *scene, struct merge_topic *topic, uint64_t time_ns)
{
	const struct merge_log *log = log_of(scene, topic, topic->epoch);
	uint64_t value[MERGE_INSTRUMENTS] = { 0 };

	if (log && log->era < scene->last_era)
		return; /* it ended before the times that the cut has */
	for (uint64_t s = 1; log && s <= log->count && log->written[s].time_ns <= time_ns; s++)
		if (changes(log->written[s].kind))
			value[log->written[s].instrument] = s;
	for (uint32_t i = 0; i < MERGE_INSTRUMENTS; i++)
		if (value[i] != topic->value[i] &&
		    !(topic->value[i] == 0 && log && log->written[value[i]].kind == TB_KIND_CLEAR))
			wrong(scene,
			      "topic %s, instrument %u at the cut: found value %" PRIu64
			      ", expected %" PRIu64,
			      topic->name, i, topic->value[i], value[i]);
}

static void on_cut(struct merge_scene *scene, const struct tb_event *event)
{
	struct merge_topic *alone = topic_of(scene, event->topic);

	scene->completes++;
	scene->cut_ns = event->time_ns;
	note(scene, " complete %s", event->topic);
	for (unsigned int i = 0; i < MERGE_TOPICS; i++) {
		struct merge_topic *topic = &scene->topics[i];

		if (topic->epoch != 0 && !topic->left && (!alone || alone == topic))
			table_check(scene, topic, event->time_ns);
	}
}

static void on_gap(struct merge_scene *scene, struct merge_topic *topic,
		   const struct tb_event *event)
{
	scene->gaps++;
	topic->gaps++;
	topic->lost += event->last - event->first + 1;
	if (event->first <= topic->position)
		wrong(scene, "topic %s: a gap from %" PRIu64 " after %" PRIu64, topic->name,
		      event->first, topic->position);
	scene->passed += event->first - topic->position - 1 + event->skipped;
	topic->position = event->delivered;
	note(scene, " gap %c%" PRIu64 "-%" PRIu64, topic->name[2], event->first, event->last);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct merge_scene *scene = user;
	struct merge_topic *topic = topic_of(scene, event->topic);

	if (event->words) {
		scene->code = event->code;
		snprintf(scene->words, sizeof(scene->words), "%s", event->words);
	}
	switch (event->kind) {
	case TB_EVENT_APPEARED:
		scene->appeared++;
		scene->came_ns = event->time_ns;
		if (topic->left && topic->epoch == event->epoch)
			scene->passed += event->first - 1 - topic->position;
		topic->epoch = event->epoch;
		topic->position = topic->joined = event->first - 1;
		topic->left = topic->ended = false;
		break;
	case TB_EVENT_GAP:
		on_gap(scene, topic, event);
		return;
	case TB_EVENT_RESTART:
		scene->restarts++;
		topic->epoch = event->epoch;
		topic->position = 0;
		memset(topic->value, 0, sizeof(topic->value));
		note(scene, " restart %c", topic->name[2]);
		break;
	case TB_EVENT_COMPLETE:
		on_cut(scene, event);
		break;
	case TB_EVENT_IMAGE:
		scene->images++;
		break;
	case TB_EVENT_LEFT:
		scene->lefts++;
		topic->left = true;
		note(scene, " left %c", topic->name[2]);
		break;
	case TB_EVENT_ENDED:
		topic->ended = true;
		scene->endings++;
		note(scene, " ended %c", topic->name[2]);
		break;
	case TB_EVENT_REFUSED:
		scene->refusals++;
		if (topic)
			topic->refused = true;
		note(scene, " refused %s", event->topic);
		break;
	case TB_EVENT_STALE:
		topic->stale = true;
		break;
	case TB_EVENT_LIVE:
		topic->stale = false;
		break;
	default:
		break;
	}
}

/* -- the subscription ------------------------------------------------------------------------- */

void merge_scene_connect(struct merge_scene *scene, const char *scheme)
{
	char address[64];
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .flags = TB_WAIT,
						       .connect_ms = 20000,
						       .poll_us = TB_POLL_SPIN };

	scene_address(scheme, address, sizeof(address));
	cr_assert_eq(tb_subscriber_open(&scene->subscriber, &options), 0, "%s", tb_error());
}

void merge_scene_subscribe(struct merge_scene *scene, const char *pattern, enum tb_from from,
			   enum tb_gap gap)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = on_record,
							 .on_event = on_event,
							 .user = scene,
							 .from = from,
							 .gap = gap,
							 .time_ns = scene->time_ns,
							 .back = scene->back,
							 .flags = TB_MERGE };

	cr_assert_eq(tb_subscribe(scene->subscriber, pattern, &options, &scene->subscription), 0,
		     "%s", tb_error());
}

/* Each topic was read to its last record. */
static bool is_settled(const struct merge_scene *scene)
{
	for (unsigned int i = 0; i < MERGE_TOPICS; i++) {
		const struct merge_topic *topic = &scene->topics[i];
		const struct merge_log *log = &topic->logs[topic->epochs - (topic->epochs > 0)];

		if (topic->epoch == 0 || topic->left)
			continue;
		if (topic->epoch != log->epoch || topic->position < log->count)
			return false;
	}
	return true;
}

int merge_scene_poll(struct merge_scene *scene)
{
	const int count = tb_poll(scene->subscriber, 64);

	scene->counted += count > 0 ? (uint64_t)count : 0;
	return count;
}

static bool turn_take(struct merge_scene *scene, uint64_t until_ms)
{
	if (merge_scene_poll(scene) == 0)
		tb_wait(scene->subscriber, 10);
	return scene_now_ms() < until_ms;
}

bool merge_scene_settle(struct merge_scene *scene)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (!is_settled(scene) && !scene->wrong[0])
		if (!turn_take(scene, until_ms))
			break;
	cr_expect(is_settled(scene), "not settled: %s", scene->text);
	cr_expect_eq(scene->passed, scene->subscription->counters[SUBSCRIPTION_SKIPPED], "%s",
		     scene->text);
	cr_assert_str_eq(scene->wrong, "", "%s\n%s", scene->wrong, scene->text);
	return true;
}

bool merge_scene_until(struct merge_scene *scene, const uint64_t *value, uint64_t least)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (*value < least && !scene->wrong[0])
		if (!turn_take(scene, until_ms))
			break;
	cr_assert_str_eq(scene->wrong, "", "%s\n%s", scene->wrong, scene->text);
	return *value >= least;
}

void merge_scene_unsubscribe(struct merge_scene *scene)
{
	tb_unsubscribe(scene->subscription);
	scene->subscription = NULL;
	for (unsigned int i = 0; i < MERGE_TOPICS; i++) {
		struct merge_topic *topic = &scene->topics[i];

		memset(topic->value, 0, sizeof(topic->value));
		topic->epoch = topic->position = topic->joined = 0;
		topic->delivered = topic->lost = topic->gaps = 0;
		topic->ended = topic->left = topic->stale = topic->refused = false;
	}
	scene->last_ns = scene->passed = 0;
	scene->last_topic = 0;
	scene->last_era = 0;
	scene->text[0] = '\0';
}

void merge_scene_free(struct merge_scene *scene)
{
	for (unsigned int i = 0; i < MERGE_TOPICS; i++)
		for (unsigned int e = 0; e < scene->topics[i].epochs; e++)
			free(scene->topics[i].logs[e].written);
	memset(scene, 0, sizeof(*scene));
}

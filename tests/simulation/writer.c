/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publisher/publisher.h"
#include "tests/simulation/counts.h"
#include "tests/simulation/lines.h"
#include "tests/simulation/step.h"
#include "tests/support/random.h"

#define STEP_MAX 1024        /* records that are reserved at once */
#define AHEAD_NS (1000 * MS) /* of stamps */

/* -- publishing ---------------------------------------------------------------------------------
 */

struct sim_topic *writer_any(void)
{
	struct sim_topic *t = &world.topics[world_draw(world.topic_count)];

	return t->topic && !t->epoch->ended ? t : NULL;
}

void writer_flushed(struct sim_topic *t)
{
	t->epoch->flushed = t->topic->progress.head;
	lines_written(t);
}

/* -- the group ---------------------------------------------------------------------------------
 */

static bool any_open(const struct sim_topic *but)
{
	for (unsigned int i = 0; i < world.topic_count; i++)
		if (&world.topics[i] != but && world.topics[i].grouped && world.topics[i].topic &&
		    world.topics[i].open)
			return true;
	return false;
}

static void epoch_note(struct sim_topic *t);
static void reserve(struct sim_topic *t);
static void reserve_nothing(struct sim_topic *t);

static void quality_note(struct sim_topic *t, uint32_t state, uint32_t cause)
{
	struct truth_record *record = truth_add(t->epoch);

	record->time_ns = world.stamp;
	record->kind = TB_KIND_QUALITY;
	record->flags = TB_FLAG_LAST;
	record->instrument = UINT32_MAX;
	record->quality = state;
	record->data[4] = (uint8_t)cause;
	reserve(t);
}

/* The new epoch has the instruments of the old, and its quality. */
static void epoch_goes_on(struct sim_topic *t, uint32_t state, uint32_t cause)
{
	const struct truth_epoch *old = t->epoch;

	reserve_nothing(t);
	epoch_note(t);
	t->epoch->instruments = old->instruments;
	memcpy(t->epoch->names, old->names, sizeof(old->names));
	if (state == TB_QUALITY_GOOD && cause == TB_QUALITY_CAUSE_NONE)
		return;
	quality_note(t, state, cause);
	writer_flushed(t);
}

static bool goes_on(const struct sim_topic *t)
{
	return t->grouped && t->topic && !t->epoch->ended;
}

/* The times of the group begin again: to its readers this is as a new publisher. */
static void era_begin(void)
{
	uint32_t states[TOPICS] = { 0 }, causes[TOPICS] = { 0 };

	for (unsigned int i = 0; i < world.topic_count; i++) {
		struct sim_topic *t = &world.topics[i];

		if (!goes_on(t))
			continue;
		states[i] = t->topic->progress.quality;
		causes[i] = t->topic->quality_cause;
		t->epoch->flushed = t->epoch->count;
		t->epoch->left = true;
	}
	truth.complete_ns[truth.lives - 1] = world.stamp;
	world.locked = true;
	if (tb_group_message(world.group) != 1)
		world_complain("times of the group did not begin again");
	world.locked = false;
	if (truth.lives++ == TRUTH_LIVES)
		abort();
	counts[COUNT_ERAS]++;
	world_say("era %u of the group begins", world.group->id >> 16);
	world.stamp = tb_group_time(world.group);
	for (unsigned int i = 0; i < world.topic_count; i++)
		if (goes_on(&world.topics[i]))
			epoch_goes_on(&world.topics[i], states[i], causes[i]);
}

/* Before a record of a group: begins a message, unless the open message goes on. */
static void message_begin(const struct sim_topic *t)
{
	const uint64_t least = world_realtime_ns();
	const bool again = least + AHEAD_NS < world.stamp;
	const uint64_t next = again ? 0 : world.stamp + 1;
	uint64_t most;

	if (!t->grouped || (world.message && (world.together || any_open(NULL))))
		return;
	world.message = true;
	truth.over_ns[truth.lives - 1] = world.stamp;
	if (again)
		era_begin();
	else if (tb_group_message(world.group) != 0)
		abort();
	world.stamp = tb_group_time(world.group);
	most = world_realtime_ns(); /* time may pass inside the call */
	if (world.stamp < (least > next ? least : next) ||
	    world.stamp > (most > next ? most : next))
		world_complain("a message has time %" PRIu64 ", expected %" PRIu64 " to %" PRIu64,
			       world.stamp, least > next ? least : next, most > next ? most : next);
}

/* Each flush finishes the open message, and so does the end of a topic. */
void writer_finish_all(const struct sim_topic *but)
{
	for (unsigned int i = 0; i < world.topic_count; i++) {
		struct sim_topic *t = &world.topics[i];

		if (t != but && t->grouped && t->topic && !t->epoch->ended)
			writer_finish(t);
	}
	truth.over_ns[truth.lives - 1] = truth.complete_ns[truth.lives - 1] = world.stamp;
}

/* The group was flushed. */
static void group_flushed(void)
{
	world.message = false;
	for (unsigned int i = 0; i < world.topic_count; i++)
		if (world.topics[i].grouped && world.topics[i].topic)
			writer_flushed(&world.topics[i]);
}

void writer_flush(struct sim_topic *t)
{
	if (!t->grouped) {
		tb_flush(t->topic);
		writer_flushed(t);
		return;
	}
	counts[COUNT_GROUP_FLUSHES]++;
	writer_finish_all(NULL);
	if (tb_group_flush(world.group) < 0)
		abort();
	group_flushed();
	lines_check();
}

int writer_instrument(struct sim_topic *t, uint32_t i)
{
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	int found;

	snprintf(name, sizeof(name), "I%u", i);
	for (uint32_t at = 0; at < t->epoch->instruments; at++)
		if (strcmp(t->epoch->names[at], name) == 0)
			return (int)at;
	memcpy(t->epoch->names[t->epoch->instruments++], name, sizeof(name));
	found = tb_instrument(t->topic, name);
	if (found != (int)t->epoch->instruments - 1)
		abort();
	writer_flushed(t);
	return found;
}

static uint8_t any_kind(uint8_t *flags)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_UPDATE,     TB_KIND_UPDATE,
					 TB_KIND_UPDATE, TB_KIND_CORRECTION, TB_KIND_CORRECTION,
					 TB_KIND_CANCEL, TB_KIND_CLEAR,      TB_KIND_STATUS,
					 TB_KIND_USER };
	const uint8_t kind = kinds[world_draw(sizeof(kinds))];

	*flags = kind == TB_KIND_CORRECTION && world_one_in(2) ? TB_FLAG_PAST : 0;
	return kind == TB_KIND_USER ? (uint8_t)(TB_KIND_USER + world_draw(128)) : kind;
}

/* The writer reserves in steps, before it touches a slot. */
static void reserve(struct sim_topic *t)
{
	const uint64_t step = t->slots / 8 < STEP_MAX ? t->slots / 8 : STEP_MAX;

	t->epoch->reserved = (t->epoch->count + step - 1) / step * step;
}

/* An ended topic, and an epoch that was left, reserve nothing behind the last record. A READ of the
 * line may still have the state before that, and so may a look that this call is inside of. */
static void reserve_nothing(struct sim_topic *t)
{
	if (world.view && !world.inside)
		t->epoch->reserved = t->epoch->count;
}

void writer_publish(struct sim_topic *t, uint32_t number, uint8_t kind, uint8_t flags)
{
	struct truth_record *record;
	struct tb_update update = {
		.size = sizeof(update), .instrument = number, .kind = kind, .flags = flags
	};
	uint8_t data[TRUTH_PAYLOAD];

	if (!t->topic || t->epoch->ended || number >= t->epoch->instruments)
		return;
	update.length = (uint16_t)(world_one_in(4) ? world_draw(t->payload + 1) : t->payload);
	message_begin(t);
	/* Inside a write time may pass, so the time would not be known. */
	if (!t->grouped && (world.writing || !world_one_in(8)))
		update.time_ns = world_realtime_ns() + world_draw(1000);
	random_fill(&world.draws, data, (size_t)update.length);
	record = truth_add(t->epoch);
	record->time_ns = t->grouped       ? world.stamp
			  : update.time_ns ? update.time_ns
					   : world_realtime_ns();
	record->instrument = number;
	record->length = update.length;
	record->kind = kind;
	record->flags = flags;
	memcpy(record->data, data, update.length);
	reserve(t);
	t->open = t->epoch->marks && !(flags & TB_FLAG_LAST);
	update.data = data;
	if (tb_publish(t->topic, &update) < 0)
		abort();
	writer_flushed(t);
}

/* One record of a message; the last one ends it. */
void writer_publish_any(struct sim_topic *t, bool last)
{
	uint8_t flags, kind = any_kind(&flags);
	const int number = writer_instrument(t, (uint32_t)world_draw(TRUTH_INSTRUMENTS - 2));

	writer_publish(t, (uint32_t)number, kind,
		       flags | (t->epoch->marks && last ? TB_FLAG_LAST : 0));
}

/* The records of a message are in several topics. The last in each topic ends it there. */
static void message_across(struct sim_topic *t)
{
	struct sim_topic *topics[5];
	const size_t count = world_draw(4) + 1;
	const bool ends = !world_one_in(16);

	for (size_t i = 0; i < count; i++) {
		struct sim_topic *other = &world.topics[world_draw(world.topic_count)];

		topics[i] =
			i > 0 && other->grouped && other->topic && !other->epoch->ended ? other : t;
	}
	world.together = world.message && any_open(NULL);
	for (size_t i = 0; i < count; i++) {
		bool last = ends;

		for (size_t j = i + 1; j < count; j++)
			last &= topics[j] != topics[i];
		writer_publish_any(topics[i], last);
		world.together = true;
	}
	world.together = false;
}

void writer_message(struct sim_topic *t)
{
	if (t->grouped) {
		message_across(t);
		return;
	}
	for (size_t i = world_draw(3); i > 0; i--)
		writer_publish_any(t, false);
	writer_publish_any(t, !world_one_in(16));
}

void writer_finish(struct sim_topic *t)
{
	if (t->open)
		writer_publish_any(t, true);
}

void step_publish(void)
{
	struct sim_topic *t = writer_any();

	for (size_t i = world_draw(8) + 1; t && i > 0; i--)
		writer_message(t);
	if (t && t->grouped && !world_one_in(3))
		writer_flush(t);
}

/* More than a ring, or almost. */
void step_burst(void)
{
	struct sim_topic *t = writer_any();
	size_t count = t ? t->slots / 2 + world_draw(t->slots) : 0;

	for (; count > 0; count--)
		writer_publish_any(t, !world_one_in(4));
}

void step_flush(void)
{
	struct sim_topic *t = writer_any();

	if (t)
		writer_flush(t);
}

void step_register(void)
{
	struct sim_topic *t = writer_any();

	if (t)
		writer_instrument(t, (uint32_t)world_draw(TRUTH_INSTRUMENTS));
}

void step_quality(void)
{
	struct sim_topic *t = writer_any();
	const uint32_t state = (uint32_t)world_draw(3),
		       cause = (uint32_t)world_draw(2) + TB_QUALITY_USER;

	if (!t)
		return;
	if (state == t->topic->progress.quality && cause == t->topic->quality_cause) {
		writer_flush(t);
		return;
	}
	writer_finish(t);
	message_begin(t);
	world_say("quality %u is record %" PRIu64 " of %s", state, t->epoch->count + 1, t->name);
	quality_note(t, state, cause);
	if (tb_topic_quality(t->topic, state, cause) < 0)
		abort();
	writer_flushed(t);
}

void step_hole(void)
{
	struct sim_topic *t = writer_any();

	for (size_t i = world_draw(3) + 1; t && i > 0; i--) {
		writer_finish(t);
		writer_publish(t, (uint32_t)writer_instrument(t, 0), TB_KIND_HOLE, t->epoch->marks);
	}
}

void writer_some(void)
{
	struct sim_topic *t = writer_any();

	if (!t)
		return;
	if (world_one_in(8))
		step_quality();
	else if (world_one_in(12))
		step_register();
	else
		for (size_t i = world_draw(12) + 1; i > 0 && t->topic; i--)
			writer_message(t);
	if (t->topic && t->grouped && !t->epoch->ended && world_one_in(2))
		writer_flush(t);
}

/* -- a life of a topic -------------------------------------------------------------------------
 */

static void epoch_note(struct sim_topic *t)
{
	t->epoch = truth_begin(t->name, t->topic->shape.epoch);
	if (!t->epoch)
		abort();
	t->epoch->topic_id = t->topic->shape.topic_id;
	t->epoch->grouped = t->grouped;
	t->epoch->slots = t->slots;
	t->epoch->marks = t->flags & TB_TOPIC_MARKS_MESSAGES;
	t->epoch->checked = !(t->flags & TB_TOPIC_UNCHECKED);
	t->epoch->values = !(t->flags & TB_TOPIC_NO_LAST_VALUE);
	t->open = false;
	lines_written(t);
}

void writer_make(struct sim_topic *t)
{
	struct tb_topic_options options = {
		.size = sizeof(options),
		.name = t->name,
		.schema = world.schemas[t - world.topics],
		.slots = t->slots,
		.instruments = TRUTH_INSTRUMENTS,
		.flags = t->flags,
		.group = t->grouped ? world.group : NULL,
	};

	if (t->topic || truth.count + TOPICS >= TRUTH_EPOCHS)
		return;
	if (tb_topic_create(world.publisher, &options, &t->topic) < 0)
		abort();
	epoch_note(t);
}

void step_restart(void)
{
	struct sim_topic *t = &world.topics[world_draw(world.topic_count)];

	if (!t->topic || truth.count + TOPICS >= TRUTH_EPOCHS)
		return;
	if (t->grouped)
		writer_finish_all(t);
	t->epoch->flushed = t->epoch->count;
	t->epoch->left = true;
	world.locked = true;
	if (tb_topic_restart(t->topic) < 0)
		abort();
	world.locked = false;
	reserve_nothing(t);
	epoch_note(t);
	if (t->grouped)
		group_flushed();
}

void step_end(void)
{
	struct sim_topic *t = writer_any();

	if (!t)
		return;
	if (t->grouped)
		writer_finish_all(t);
	t->epoch->ended = t->epoch->left = true;
	tb_topic_end(t->topic);
	writer_flushed(t);
	reserve_nothing(t);
	if (t->grouped)
		group_flushed();
}

void writer_gone(void)
{
	publisher_free(world.publisher);
	world.publisher = NULL;
	for (unsigned int i = 0; i < world.topic_count; i++) {
		struct sim_topic *t = &world.topics[i];

		if (t->topic)
			t->epoch->left = true;
		t->topic = NULL;
	}
	world.rewrites = 0;
	world.group = NULL;
	world.stamp = 0;
	world.message = world.together = false;
}

static void log_nothing(void *user, enum tb_log_level level, const char *words)
{
	(void)user;
	(void)level;
	if (world.trace && getenv("TICKBUS_TEST_LOG"))
		printf("    log: %s\n", words);
}

static const uint8_t ticket[TB_TICKET_BYTES] = "the ticket of the realm of all";

const uint8_t *writer_ticket(void)
{
	return world.realms ? ticket : NULL;
}

static void publisher_make(void)
{
	const char *address = world.view ? "simview:a" : "sim:a", *all = ">";
	const char *names[TOPICS];
	struct tb_realm realms[] = {
		{ .size = sizeof(*realms), .name = "anonymous", .topics = names },
		{ .size = sizeof(*realms),
		  .name = "all",
		  .ticket = ticket,
		  .topics = &all,
		  .topic_count = 1 },
	};
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = &address,
						      .listen_count = 1,
						      .stale_ms = STALE_MS,
						      .topics_max = TOPICS,
						      .realms = world.realms ? realms : NULL,
						      .realm_count = world.realms ? 2 : 0,
						      .exit_wait_ms = 50,
						      .log = log_nothing };
	const struct tb_group_options group = { .size = sizeof(group), .name = "g" };

	for (unsigned int i = 0; i < world.topic_count; i++)
		if (!world.topics[i].hidden)
			names[realms[0].topic_count++] = world.topics[i].name;
	if (publisher_open(&world.publisher, &options) < 0)
		abort();
	if (truth.lives++ == TRUTH_LIVES)
		abort();
	if (world.grouped && tb_group_create(world.publisher, &group, &world.group) < 0)
		abort();
}

void step_open(void)
{
	if (!world.publisher)
		publisher_make();
	for (unsigned int i = 0; i < world.topic_count; i++)
		if (!world_one_in(4))
			writer_make(&world.topics[i]);
}

/* The wall clock is set, mostly back. */
void step_clock(void)
{
	if (!world.grouped || truth.count + TOPICS >= TRUTH_EPOCHS)
		return;
	world.realtime_ns += world_one_in(4) ? (int64_t)(1800000 * MS) : -(int64_t)(3600000 * MS);
	counts[COUNT_CLOCK_BACK]++;
	world_say("the wall clock differs by %" PRId64 " s", world.realtime_ns / 1000000000);
}
